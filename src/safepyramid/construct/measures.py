"""What a run says about itself in numbers: agreement, checks, drops, kinds of modifiers."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from safepyramid.construct.checklists import LABELS, Checklists
from safepyramid.construct.settle import Drop, Rated
from safepyramid.construct.source import SourceConversation
from safepyramid.construct.work import Outcome
from safepyramid.metrics.agreement import Agreement, agreement
from safepyramid.schema import Level, RuleType

ALL = "ALL"


@dataclass(frozen=True, slots=True)
class VotersMeasure:
    """How often one validator could be read, and how often it was with the majority."""

    votes: int
    unreadable: int
    labels: int
    """Its labels on rules for which a majority of the others' and its own labels exists."""
    with_majority: int


def label_ratings(rated: Iterable[Rated], validators: Sequence[str]) -> list[list[bool | None]]:
    """One row a rule and label, one column a validator: what `agreement` takes.

    None where a validator was not asked (it wrote the rule), could not be read, or gave no label.
    """
    rows: list[list[bool | None]] = []
    for rule in rated:
        by_validator = {vote.validator: vote for vote in rule.votes}
        for label in LABELS[rule.type]:
            row: list[bool | None] = []
            for name in validators:
                vote = by_validator.get(name)
                given = vote.answers.get(label) if vote is not None else None
                row.append(given.answer if given is not None else None)
            if any(value is not None for value in row):
                rows.append(row)
    return rows


def agreement_table(
    outcomes: Sequence[Outcome], validators: Sequence[str]
) -> dict[str, dict[str, Agreement]]:
    """Agreement on raw labels: `voted` (all rules) and `kept` -> level or ALL."""
    rated = [rule for outcome in outcomes for rule in outcome.rated]
    groups = {level.value: [r for r in rated if r.level is level] for level in Level} | {ALL: rated}
    return {
        which: {
            name: agreement(label_ratings([r for r in group if r.kept or not only], validators))
            for name, group in groups.items()
        }
        for which, only in (("voted", False), ("kept", True))
    }


def voters(outcomes: Iterable[Outcome], validators: Sequence[str]) -> dict[str, VotersMeasure]:
    """Validator -> how it voted."""
    votes, unreadable = Counter[str](), Counter[str]()
    labels, agreed = Counter[str](), Counter[str]()
    for rule in (rule for outcome in outcomes for rule in outcome.rated):
        for vote in rule.votes:
            votes[vote.validator] += 1
            unreadable[vote.validator] += bool(vote.unreadable)
        for row in label_ratings([rule], validators):
            given = [value for value in row if value is not None]
            if 2 * sum(given) == len(given):
                continue
            says = 2 * sum(given) > len(given)
            for name, value in zip(validators, row, strict=True):
                labels[name] += value is not None
                agreed[name] += value is says
    return {
        name: VotersMeasure(votes[name], unreadable[name], labels[name], agreed[name])
        for name in validators
    }


def check_table(
    outcomes: Iterable[Outcome], checklists: Checklists
) -> dict[tuple[RuleType, str], tuple[int, int]]:
    """Type and question -> answers counted, and how many of them were the expected one."""
    found: dict[tuple[RuleType, str], tuple[int, int]] = {
        (kind, question.id): (0, 0)
        for kind in RuleType
        for question in checklists[kind].questions
        if question.expect is not None
    }
    for rule in (rule for outcome in outcomes for rule in outcome.rated):
        for question in checklists[rule.type].at(rule.level):
            if question.expect is None:
                continue
            answers = [
                vote.answers[question.id].answer
                for vote in rule.votes
                if not vote.unreadable and vote.answers[question.id].answer is not None
            ]
            counted, expected = found[rule.type, question.id]
            found[rule.type, question.id] = (
                counted + len(answers),
                expected + sum(answer is question.expect for answer in answers),
            )
    return found


def drop_table(outcomes: Iterable[Outcome]) -> dict[str, Counter[str]]:
    """Level -> rules written (`drafted`), and how many were dropped at each stage."""
    table = {level.value: Counter[str]() for level in Level}
    for outcome in outcomes:
        for (level, _), count in outcome.drafted.items():
            table[level.value]["drafted"] += count
        for drop in outcome.drops:
            table[drop.level.value][drop.stage] += 1
    return table


def failed_checks(outcomes: Iterable[Outcome]) -> Counter[tuple[str, str]]:
    """Rule type and check -> dropped rules that failed it."""
    return Counter(
        (drop.type.value, check)
        for outcome in outcomes
        for drop in outcome.drops
        for check in drop.checks
    )


def drop_reasons(outcomes: Iterable[Outcome]) -> Counter[tuple[str, str, str]]:
    """Rule type, stage and reason -> dropped rules; one that failed several checks counts for each.

    Reasons are the ids of failed checks, and otherwise the kind of fault, without its particulars.
    """
    return Counter(
        (drop.type.value, drop.stage, reason)
        for outcome in outcomes
        for drop in outcome.drops
        for reason in drop.checks or (_fault_of(drop),)
    )


def _fault_of(drop: Drop) -> str:
    if drop.stage == "base":
        return "it acts on a rule that was dropped"
    return _PARTICULARS.split(drop.reason, maxsplit=1)[0]


_PARTICULARS = re.compile(r"[:;]")


def setbacks(outcomes: Iterable[Outcome]) -> Counter[tuple[str, str]]:
    """Step and reason -> attempts that were set aside; numbers in reasons are left out."""
    return Counter(
        (setback.step, _kind(setback.reason))
        for outcome in outcomes
        for setback in outcome.setbacks
    )


def _kind(reason: str) -> str:
    if reason.startswith("nearly the same"):
        return "nearly the same as an earlier one"
    if "are needed" in reason:
        return "outside the level's shape"
    parts = reason.split(": ")
    return parts[1] if len(parts) > 1 else reason


def modifier_kinds(sources: Iterable[SourceConversation]) -> dict[tuple[Level, str], Counter[str]]:
    """Level and type of modifier -> how many are triggered and met, triggered and not, neither."""
    table: dict[tuple[Level, str], Counter[str]] = {}
    for source in sources:
        for level, policy in source.policies.items():
            for rule in policy.rules:
                if rule.type.is_modifier:
                    kind = "not triggered"
                    if rule.triggered:
                        kind = "triggered, met" if rule.met else "triggered, not met"
                    table.setdefault((level, rule.type.value), Counter())[kind] += 1
    return dict(sorted(table.items()))


def as_json(value: Any) -> Any:
    """Tables with tuples for keys as nested plain values."""
    if isinstance(value, dict):
        return {
            "/".join(map(str, key)) if isinstance(key, tuple) else str(key): as_json(item)
            for key, item in value.items()
        }
    return value
