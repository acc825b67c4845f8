"""A pyramid without any model: conversations, policies and ground truth drawn from a seed.

Facts and behaviours are drawn first, the text says exactly them, rules are formulas over them, and
the ground truth is what the formulas come to. What a guard scores here, against what it scores on
written data, tells reading and logic apart: the language is simple, and how deep exceptions and
conditionals stand on one another is a setting.
"""

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from safepyramid import __version__
from safepyramid.construct.assemble import assemble
from safepyramid.construct.checksums import SUMS, write_sums
from safepyramid.construct.procedural_concepts import Concept, Hit, Pool, plain_concepts
from safepyramid.construct.procedural_framework import draw_framework
from safepyramid.construct.procedural_plan import plan_links
from safepyramid.construct.procedural_policy import Draft, Setting, draw_bases, write_rules
from safepyramid.construct.procedural_rules import PLAIN_SHAPES, TERM_SHAPES
from safepyramid.construct.procedural_story import Story, tell_story
from safepyramid.construct.procedural_words import load_vocabulary, load_words
from safepyramid.construct.source import SourceConversation, SourcePolicy, SourceRule
from safepyramid.dataset.load import collector_paused, write_benchmark, write_parquet
from safepyramid.errors import DataError
from safepyramid.schema import DOMAINS, Level

LEVELS = tuple(Level)
FILES = frozenset(("benchmark.json", "benchmark_with_evidence.json", "benchmark.parquet", SUMS))
"""What a procedural pyramid's folder holds."""
_CONDITIONS: Mapping[Level, tuple[int, ...]] = {Level.L1: (2, 2, 3), Level.L2: (4, 4, 5)}
"""How many conditions a trigger may have, each number as likely as the others."""


@dataclass(frozen=True, slots=True)
class Knobs:
    """What a procedural pyramid is like. The defaults follow the published one (paper, table 2).

    Raises:
        DataError: One is out of range.
    """

    conversations: int = 1000
    """How many, spread evenly over the domains; each gives a case per level."""
    seed: int = 0
    domains: tuple[str, ...] = DOMAINS
    rules: tuple[float, float, float] = (16.1, 28.7, 33.0)
    """Mean number of rules of a policy at L0, L1 and L2. L2 has as many base rules as L0."""
    violated: tuple[float, float, float] = (5.5 / 16.1, 6.3 / 28.7, 6.8 / 33.0)
    """Mean share of a policy's rules that is violated, at L0, L1 and L2. Approached, not promised:
    exceptions of their own and deep modifiers set a floor at L1 and L2."""
    distractors: float = 8380 / 16114
    """Share of base rules that are distractors."""
    exceptions: float = 0.42
    """Share of modifiers that are exceptions; the others are conditionals."""
    depth: int = 2
    """Modifiers one upon another: 1 is a modifier on a base rule, 2 one on such a modifier, …"""
    turns: tuple[int, int] = (11, 15)
    """Fewest and most exchanges of a conversation."""
    shift: float = 0.5
    """How often rules keep away from the conversation's wording, from 0 to 1."""

    def __post_init__(self) -> None:
        for name, lengths in (("rules", 3), ("violated", 3), ("turns", 2)):
            if len(getattr(self, name)) != lengths:
                raise DataError(f"{name} is {getattr(self, name)!r}, must be {lengths} numbers")
        low, high = self.turns
        checks = (
            ("conversations", self.conversations, self.conversations >= 1, "at least 1"),
            ("depth", self.depth, self.depth >= 1, "at least 1"),
            ("shift", self.shift, 0 <= self.shift <= 1, "from 0 to 1"),
            ("distractors", self.distractors, 0 <= self.distractors < 1, "from 0 to below 1"),
            ("exceptions", self.exceptions, 0 <= self.exceptions <= 1, "from 0 to 1"),
            ("violated", self.violated, all(0 <= v <= 1 for v in self.violated), "shares, 0 to 1"),
            ("turns", self.turns, 6 <= low <= high, "the fewest, 6 or more, and the most"),
            ("domains", self.domains, bool(self.domains), f"among {', '.join(DOMAINS)}"),
            (
                "rules",
                self.rules,
                4 <= self.rules[0] < min(self.rules[1:]),
                "at least 4 at L0, and more at L1 and L2",
            ),
        )
        for name, value, fine, allowed in checks:
            if not fine:
                raise DataError(f"{name} is {value!r}, must be {allowed}")
        for domain in self.domains:
            load_vocabulary(domain)


def author(knobs: Knobs) -> Iterator[SourceConversation]:
    """Write conversations with their policies, one after another, ordered by id.

    A conversation depends on the knobs, its domain and its number there, and not on how many
    others there are.

    Args:
        knobs: What they are to be like.

    Raises:
        DataError: The knobs ask for what a conversation cannot give.
    """
    domains = sorted(set(knobs.domains))
    share, rest = divmod(knobs.conversations, len(domains))
    for place, domain in enumerate(domains):
        for number in range(1, share + (place < rest) + 1):
            yield write_conversation(domain, number, knobs)


def write_conversation(domain: str, number: int, knobs: Knobs) -> SourceConversation:
    """One conversation with its three policies.

    Raises:
        DataError: There is no such domain, or the knobs ask for what the conversation cannot give.
    """
    rng = random.Random(f"{knobs.seed}/{domain}/{number}")
    story = tell_story(load_vocabulary(domain), rng.randint(*knobs.turns), rng)
    plain = plain_concepts(story, knobs.shift, rng)
    framework = draw_framework(story, plain, knobs.shift, rng)
    base, full, terms = _draw_counts(knobs, rng)

    drafts = draw_bases(Pool(plain), PLAIN_SHAPES, _draw_quota(base, knobs, rng), rng)
    rules, violated = _modified(
        drafts, full - base, Level.L1, _setting(story, plain, Level.L1), knobs, rng
    )
    drafts = draw_bases(Pool(framework.concepts), TERM_SHAPES, _draw_quota(base, knobs, rng), rng)
    setting = _setting(story, framework.concepts, Level.L2)
    all_rules, all_violated = _modified(drafts, terms - base, Level.L2, setting, knobs, rng)

    instructions = _instructions(story.operator, framework.name, rng)
    return SourceConversation(
        id=f"{domain[:4]}-{number:04}",
        domain=domain,
        scenario=f"{domain}-procedural",
        title=f"Procedural conversation {number}",
        turns=story.turns,
        policies={
            Level.L0: SourcePolicy(
                instruction=instructions[Level.L0],
                rules=tuple(rules[:base]),
                violated=frozenset(rule.key for rule in rules[:base] if rule.broken),
            ),
            Level.L1: SourcePolicy(
                inherits=Level.L0,
                instruction=instructions[Level.L1],
                rules=tuple(rules[base:]),
                violated=violated,
            ),
            Level.L2: SourcePolicy(
                instruction=instructions[Level.L2],
                framework=framework.text,
                rules=tuple(all_rules),
                violated=all_violated,
            ),
        },
    )


def _draw_counts(knobs: Knobs, rng: random.Random) -> tuple[int, int, int]:
    """Rules at L0, L1 and L2: the means, give or take two, and room for modifiers of the depth."""
    base, full, terms = (_around(mean, 2, rng) for mean in knobs.rules)
    return base, max(full, base + knobs.depth), max(terms, base + knobs.depth)


def _around(mean: float, spread: float, rng: random.Random) -> int:
    """A whole number with this mean, near it; zero stays zero."""
    spread = min(spread, mean / 2)
    return round(mean + rng.uniform(-spread, spread))


def _draw_quota(count: int, knobs: Knobs, rng: random.Random) -> Counter[str]:
    """How many base rules are broken, kept and never engaged."""
    decisive = max(2, _around(count * (1 - knobs.distractors), 0.5, rng))
    broken = min(decisive, _around(count * knobs.violated[0], 1.2, rng))
    return Counter(broken=broken, kept=decisive - broken, idle=count - decisive)


def _setting(story: Story, concepts: Sequence[Concept], level: Level) -> Setting:
    first = story.turns[0]
    opening = max(first.text.split(". ")[:-1], key=len)
    return Setting(
        pool=Pool(concepts),
        conditions=_CONDITIONS[level],
        length=story.length,
        opening=Hit(first.number, first.role, opening),
    )


def _modified(
    drafts: Sequence[Draft],
    modifiers: int,
    level: Level,
    setting: Setting,
    knobs: Knobs,
    rng: random.Random,
) -> tuple[list[SourceRule], frozenset[str]]:
    """All rules of a policy, modifiers included, and the keys of the violated ones."""
    exceptions = min(modifiers, _around(modifiers * knobs.exceptions, 0.5, rng))
    share = knobs.violated[LEVELS.index(level)]
    goal = _around((len(drafts) + modifiers) * share, 1.2, rng)
    roots = [draft.root for draft in drafts]
    links = plan_links(roots, exceptions, modifiers - exceptions, knobs.depth, goal, rng)
    return write_rules(drafts, links, setting, rng)


def _instructions(operator: str, framework: str, rng: random.Random) -> dict[Level, str]:
    words = load_words("rules")
    reading = rng.choice(words["reading"])
    said = {
        level: rng.choice(words["instructions"][level]).format(
            operator=operator, framework=framework
        )
        for level in Level
    }
    return {**said, **{level: f"{said[level]} {reading}" for level in (Level.L0, Level.L1)}}


def demo(conversations: int, seed: int, output: str | Path, **knobs: Any) -> dict[str, Any]:
    """Write a procedural pyramid as a release folder.

    The folder gets `benchmark.json`, `benchmark_with_evidence.json`, `benchmark.parquet` and
    `SHA256SUMS`. The same arguments give the same bytes.

    Args:
        conversations: How many; each gives three cases.
        seed: Another seed, another pyramid.
        output: The folder; it is made if need be. Files of these names in it are replaced; with
            any other file in it, nothing is written.
        knobs: Further fields of `Knobs`.

    Returns:
        The metadata that the JSON files carry.

    Raises:
        DataError: A knob is unknown, out of range, or asks for what a conversation cannot give;
            or the folder cannot be written or holds other files.
    """
    known = {field.name for field in fields(Knobs)}
    if unknown := sorted(set(knobs) - known):
        raise DataError(f"unknown knobs {', '.join(unknown)}; allowed: {', '.join(sorted(known))}")
    chosen, folder = Knobs(conversations=conversations, seed=seed, **knobs), Path(output)
    _require_own(folder)
    metadata = _metadata(chosen)
    with collector_paused():
        cases = [assemble(source, level) for source in author(chosen) for level in Level]
        write_benchmark(folder / "benchmark.json", metadata, cases)
        write_benchmark(folder / "benchmark_with_evidence.json", metadata, cases, evidence=True)
        write_parquet(folder / "benchmark.parquet", cases)
    write_sums(folder)
    return metadata


def _require_own(folder: Path) -> None:
    """Refuse a folder with files of somebody else, which would lie beside data that they are not of."""
    try:
        others = sorted(path.name for path in folder.iterdir() if path.name not in FILES)
    except FileNotFoundError:
        return
    except OSError as error:
        raise DataError(f"cannot write to {folder}: {error.strerror}") from None
    if others:
        raise DataError(
            f"{folder} holds {others[0]!r}, which is not of a procedural pyramid; give a folder of "
            "its own"
        )


def _metadata(knobs: Knobs) -> dict[str, Any]:
    return {
        "name": "SafePyramid, procedural",
        "generator": f"safepyramid {__version__}",
        "cases": knobs.conversations * len(Level),
        "conversations": knobs.conversations,
        "knobs": {**asdict(knobs), "domains": sorted(set(knobs.domains))},
    }
