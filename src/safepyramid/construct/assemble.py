"""From the source form to cases: numbers, shuffled policy text, rubric, evidence.

Pure and repeatable: the same source gives the same bytes. Numbers and the order of the text
depend on the case id and the number of rules alone, so that correcting a wording moves nothing.
"""

import hashlib
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from safepyramid.construct.source import (
    SourceConversation,
    SourceRule,
    read_source,
    replace_keys,
)
from safepyramid.conversation import render_conversation
from safepyramid.errors import DataError
from safepyramid.policy.parse import RawJudgment, Resolution, render_policy, resolve
from safepyramid.schema import Case, FailureModeMetadata, Level, RubricEntry, Rule, RuleType

SHAPE: Mapping[Level, Mapping[str, tuple[int, int]]] = {
    Level.L0: {"rules": (14, 18), "violated": (4, 8)},
    Level.L1: {"rules": (26, 33), "violated": (4, 10)},
    Level.L2: {"rules": (30, 39), "violated": (5, 11)},
}
"""Smallest and largest counts of a case, after the published statistics (paper, table 2)."""
EXCHANGES = (10, 16)


def shuffled_numbers(case_id: str, count: int) -> tuple[list[int], list[int]]:
    """Numbers for rules in author's order, and the order in which the text shows the rules.

    Both are permutations that say nothing of a rule's type: `numbers[i]` is rule i's number,
    `order[j]` the index of the rule that stands at place j.
    """
    seed = int.from_bytes(hashlib.sha256(f"{case_id}/{count}".encode()).digest()[:8], "big")
    generator = random.Random(seed)
    numbers, order = list(range(1, count + 1)), list(range(count))
    generator.shuffle(numbers)
    generator.shuffle(order)
    return numbers, order


def assemble(
    source: SourceConversation, level: Level, evidence: Mapping[str, Any] | None = None
) -> Case:
    """One case of a conversation.

    Args:
        source: The conversation with its policies.
        level: Which of them.
        evidence: Key of each rule -> what stands in the file as its evidence; without it the
            author's quotes and reason do.

    Raises:
        DataError: if the stated violated set is not what the raw judgments resolve to, or a
            rule names a key that the policy does not have.
    """
    rules = source.rules(level)
    case_id = f"{source.id}-{level.lower()}"
    number_of, shown = numbered_rules(rules, case_id)
    resolution = resolve(raw_judgments(rules, number_of))
    stated = frozenset(number_of[key] for key in source.policies[level].violated)
    if stated != resolution.violated:
        key_of = {number: key for key, number in number_of.items()}
        extra, lacking = stated - resolution.violated, resolution.violated - stated
        raise DataError(
            f"{case_id}: stated violated set and raw judgments disagree: "
            f"stated only [{', '.join(sorted(key_of[n] for n in extra))}], "
            f"resolved only [{', '.join(sorted(key_of[n] for n in lacking))}]"
        )
    policy, framework = source.policies[level], source.policies[level].framework.strip()
    rule_of = {number_of[rule.key]: rule for rule in rules}
    entries = [_entry(rule_of[rule.number], rule.text, number_of, resolution) for rule in shown]
    if evidence is not None:
        entries = [replace(entry, evidence=evidence[rule_of[entry.rule].key]) for entry in entries]
    return Case(
        id=case_id,
        domain=source.domain,
        level=level,
        ground_truth_violations=resolution.violated,
        conversation=render_conversation(source.turns),
        framework=framework,
        policy=render_policy(policy.instruction, framework, shown),
        rubric=tuple(sorted(entries, key=lambda entry: not entry.violated)),
        failure_mode_metadata=FailureModeMetadata(
            distractor_rules=frozenset(
                number_of[rule.key] for rule in rules if rule.type is RuleType.DISTRACTOR
            ),
            waived_rules=resolution.waived,
            contradicted_rules=resolution.contradicted,
        ),
    )


class Numbered(NamedTuple):
    """Rules with the numbers that the policy gives them."""

    number_of: dict[str, int]
    """By key."""
    shown: list[Rule]
    """In the order of the policy text, references as numbers."""


def numbered_rules(rules: Sequence[SourceRule], case_id: str) -> Numbered:
    """Give rules their numbers and the order in which the policy shows them.

    Raises:
        DataError: A text names a key that is none of the rules.
    """
    numbers, order = shuffled_numbers(case_id, len(rules))
    number_of = {rule.key: number for rule, number in zip(rules, numbers, strict=True)}
    shown = [
        Rule(
            number=number_of[rule.key],
            text=_numbered(rule, number_of, case_id),
            overrides=tuple(sorted(number_of[k] for k in rule.modifies)) if rule.note else (),
        )
        for rule in (rules[index] for index in order)
    ]
    return Numbered(number_of, shown)


def raw_judgments(rules: Sequence[SourceRule], number_of: Mapping[str, int]) -> list[RawJudgment]:
    """The authors' raw judgments, in the resolver's form."""
    return [
        RawJudgment(
            rule=number_of[rule.key],
            type=rule.type,
            modifies=tuple(number_of[key] for key in rule.modifies),
            broken=bool(rule.broken),
            triggered=bool(rule.triggered),
            met=rule.met is not False,
        )
        for rule in rules
    ]


def _numbered(rule: SourceRule, number_of: Mapping[str, int], case_id: str) -> str:
    def number(key: str) -> str:
        if key not in number_of:
            raise DataError(f"{case_id}: {rule.key} names [[{key}]], which is no rule here")
        return f"Rule {number_of[key]}"

    return replace_keys(" ".join(rule.text.split()), number)


def _entry(
    rule: SourceRule, text: str, number_of: Mapping[str, int], resolution: Resolution
) -> RubricEntry:
    number = number_of[rule.key]
    flags: dict[str, Any] = {}
    if rule.type is RuleType.EXCEPTION:
        flags = {"applies": bool(rule.triggered), "violated": number in resolution.violated}
    elif rule.type is RuleType.CONDITIONAL:
        flags = {"active": bool(rule.triggered)}
    judged = {"broken": rule.broken, "triggered": rule.triggered, "met": rule.met}
    return RubricEntry(
        rule=number,
        text=text,
        type=rule.type,
        violated=number in resolution.violated,
        paired_with=tuple(sorted(number_of[key] for key in rule.modifies)),
        flags=flags,
        evidence=[
            {
                "validator": "author",
                "key": rule.key,
                **{name: value for name, value in judged.items() if value is not None},
                "violated": number in resolution.violated,
                "quotes": [
                    {"turn": quote.turn, "role": quote.role, "text": quote.text}
                    for quote in rule.quotes
                ],
                "reasoning": " ".join(rule.reason.split()),
            }
        ],
    )


def source_problems(source: SourceConversation) -> list[str]:
    """What is wrong with a source beyond its form: quotes, labels, shape. Empty when clean."""
    spoken = {(turn.number, turn.role): turn.text for turn in source.turns}
    problems = [
        f"{source.id} {level} {rule.key}: turn {quote.turn} ({quote.role}) does not say "
        f"{quote.text[:70]!r}"
        for level in source.policies
        for rule in source.policies[level].rules
        for quote in rule.quotes
        if quote.text not in spoken.get((quote.turn, quote.role), "")
    ]
    exchanges = len(source.turns) // 2
    if not EXCHANGES[0] <= exchanges <= EXCHANGES[1]:
        problems.append(
            f"{source.id}: {exchanges} exchanges, expected {EXCHANGES[0]}–{EXCHANGES[1]}"
        )
    for level in source.policies:
        problems += _level_problems(source, level)
    return problems


def _level_problems(source: SourceConversation, level: Level) -> list[str]:
    rules, where = source.rules(level), f"{source.id} {level}"
    counts = {"rules": len(rules), "violated": len(source.policies[level].violated)}
    problems = [
        f"{where}: {counts[name]} {name}, expected {low}–{high}"
        for name, (low, high) in SHAPE[level].items()
        if not low <= counts[name] <= high
    ]
    problems += [
        f"{where} {rule.key}: a distractor cannot be broken"
        for rule in rules
        if rule.type is RuleType.DISTRACTOR and rule.broken
    ]
    if bool(source.policies[level].framework.strip()) != (level is Level.L2):
        problems.append(f"{where}: only L2 has a framework, and it must")
    if level is Level.L0 and any(rule.type.is_modifier for rule in rules):
        problems.append(f"{where}: L0 has no exceptions or conditionals")
    try:
        assemble(source, level)
    except DataError as error:
        problems.append(str(error))
    return problems


def assemble_all(sources: Iterable[SourceConversation]) -> list[Case]:
    """All cases of all sources, ordered by level and id; every problem in one DataError."""
    sources = sorted(sources, key=lambda source: source.id)
    problems = [problem for source in sources for problem in source_problems(source)]
    if problems:
        raise DataError("\n".join(problems))
    cases = [assemble(source, level) for source in sources for level in source.policies]
    return sorted(cases, key=lambda case: (case.level, case.id))


def read_sources(folder: Path) -> list[SourceConversation]:
    """All `*.yaml` sources of a folder, by name."""
    paths = sorted(folder.glob("*.yaml"))
    if not paths:
        raise DataError(f"{folder}: no *.yaml sources here; give the folder that holds them")
    return [read_source(path) for path in paths]
