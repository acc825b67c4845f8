"""What chance decides: drawn from the seed and the id, so that it never depends on order."""

import hashlib
import random
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from safepyramid.construct.scenarios import Scenario
from safepyramid.construct.settings import Range, Settings, Shape
from safepyramid.errors import DataError
from safepyramid.schema import Level, RuleType

NOTED = 0.25
"""Share of modifiers behind whose text the policy names what they override."""

_LENGTHS = {10: 8, 11: 14, 12: 22, 13: 24, 14: 17, 15: 10, 16: 5}
"""Exchanges of a conversation -> weight; 12.8 on average, as published."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """A conversation that is to be made."""

    id: str
    """`frau-007`: the domain's first four letters and a number."""
    domain: str
    scenario: Scenario
    order: int
    """Its place among the conversations of the same scenario, from 0."""


@dataclass(frozen=True, slots=True)
class ConversationDraw:
    """What makes one conversation of a scenario unlike the next."""

    exchanges: int
    facts: tuple[str, ...]
    """Context facts of the scenario that it must take up."""
    traits: tuple[tuple[str, str], ...]
    """What is varied (persona, tone, …) -> how."""
    initials: str
    """Letters that invented names begin with, so that names differ too."""


def assignments(settings: Settings, scenarios: tuple[Scenario, ...]) -> tuple[Assignment, ...]:
    """The conversations of a run: each domain's scenarios in turn, so that all are used evenly.

    Raises:
        DataError: A domain is asked for that the catalogue does not have.
    """
    by_domain: dict[str, list[Scenario]] = {}
    for scenario in scenarios:
        by_domain.setdefault(scenario.domain, []).append(scenario)
    chosen = settings.domains or tuple(sorted(by_domain))
    if unknown := [domain for domain in chosen if domain not in by_domain]:
        raise DataError(
            f"unknown domain {', '.join(unknown)}; the catalogue has {', '.join(sorted(by_domain))}"
        )
    return tuple(
        Assignment(
            id=f"{domain[:4]}-{number:03d}",
            domain=domain,
            scenario=by_domain[domain][(number - 1) % len(by_domain[domain])],
            order=(number - 1) // len(by_domain[domain]),
        )
        for domain in dict.fromkeys(chosen)
        for number in range(1, settings.conversations + 1)
    )


def generator(*parts: object) -> random.Random:
    """A random generator that depends on its arguments alone."""
    digest = hashlib.sha256("/".join(map(str, parts)).encode("utf-8")).digest()
    return random.Random(int.from_bytes(digest[:8], "big"))


@cache
def variation() -> dict[str, Any]:
    """The bundled lists that are drawn from."""
    text = (files("safepyramid.construct") / "variation.yaml").read_text(encoding="utf-8")
    found: dict[str, Any] = yaml.safe_load(text)
    return found


def draw_conversation(settings: Settings, made: Assignment, attempt: int) -> ConversationDraw:
    """How a conversation is to be, by seed, id and attempt."""
    chance = generator(settings.seed, made.id, "conversation", attempt)
    lists: dict[str, list[str]] = variation()["conversation"]
    facts = made.scenario.context
    count = chance.randint(min(2, len(facts)), min(4, len(facts)))
    return ConversationDraw(
        exchanges=_length(chance, settings.exchanges),
        facts=tuple(facts[i] for i in sorted(chance.sample(range(len(facts)), count))),
        traits=tuple((name, chance.choice(values)) for name, values in lists.items()),
        initials=", ".join(chance.sample("ABCDEFGHIJKLMNOPRSTUVWYZ", 6)),
    )


def _length(chance: random.Random, allowed: Range) -> int:
    weights = {n: w for n, w in _LENGTHS.items() if allowed[0] <= n <= allowed[1]}
    if not weights:
        return chance.randint(*allowed)
    return chance.choices(list(weights), list(weights.values()))[0]


def draw_counts(
    settings: Settings, made: Assignment, level: Level, inherited: int
) -> dict[RuleType, int]:
    """How many rules of each type an author is asked for.

    With what is inherited they never exceed what a finished case may have.
    """
    shape: Shape = settings.levels.of(level)
    chance = generator(settings.seed, made.id, level, "counts")
    counts = {kind: chance.randint(*getattr(shape, kind.value)) for kind in RuleType}
    for kind in (RuleType.CONDITIONAL, RuleType.EXCEPTION, RuleType.DISTRACTOR, RuleType.DECISIVE):
        excess = inherited + sum(counts.values()) - shape.rules[1]
        counts[kind] -= max(0, min(excess, counts[kind] - min(1, counts[kind])))
    return counts


def draw_instruction(settings: Settings, made: Assignment, level: Level) -> str:
    """The sentence or two that a policy begins with."""
    wordings: list[str] = variation()["instructions"]
    return " ".join(
        generator(settings.seed, made.id, level, "instruction").choice(wordings).split()
    )


def draw_note(settings: Settings, made: Assignment, level: Level, key: str) -> bool:
    """Whether the policy shows what a modifier overrides."""
    return generator(settings.seed, made.id, level, "note", key).random() < NOTED
