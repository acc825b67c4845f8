"""What votes make of a policy: labels, repairs, drops. Pure: rules and votes in, rules out."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from safepyramid.construct.assemble import raw_judgments
from safepyramid.construct.checklists import LABELS, Vote
from safepyramid.construct.settings import Shape
from safepyramid.construct.source import Quote, SourceRule, replace_keys
from safepyramid.policy.parse import resolve
from safepyramid.schema import Level, RuleType

DropStage = Literal["draft", "check", "repair", "base", "review"]
"""`draft`: unusable or surplus as written; `check`: failed, and nothing came of the repair;
`repair`: failed again; `base`: acts on a dropped rule; `review`: a person, or no majority."""


@dataclass(frozen=True, slots=True)
class Drop:
    """A rule that did not get into its policy."""

    level: Level
    attempt: int
    key: str
    type: RuleType
    stage: DropStage
    reason: str
    checks: tuple[str, ...] = ()
    """The checks that it failed."""


@dataclass(frozen=True, slots=True)
class Rated:
    """A rule with the last votes on it, whatever became of it."""

    level: Level
    type: RuleType
    key: str
    votes: tuple[Vote, ...]
    kept: bool


@dataclass(frozen=True, slots=True)
class Settled:
    """A level's own rules, decided."""

    rules: tuple[SourceRule, ...]
    """With the labels of the majority; inherited ones are not among them."""
    votes: Mapping[str, tuple[Vote, ...]]
    """By key: the votes that decided."""
    framework: str = ""


def labeled(rule: SourceRule, labels: Mapping[str, bool], votes: Sequence[Vote]) -> SourceRule:
    """A rule with the majority's labels, and the quotes and a reason of those who gave them.

    Args:
        rule: As its author wrote it.
        labels: Every label of its type; `met` only where triggered.
        votes: All votes on it. Without one of the majority the author's reason stays.
    """
    agreeing = [
        vote.answers[name]
        for name, value in labels.items()
        for vote in votes
        if name in vote.answers and vote.answers[name].answer is value
    ]
    quotes = {
        (given.quote["turn"], given.quote["role"], given.quote["text"]): None
        for given in agreeing
        if given.quote["role"] != "policy"
    }
    judged: dict[str, Any] = {name: labels.get(name) for name in LABELS[rule.type]}
    if judged.get("triggered") is False:
        judged["met"] = None
    return rule.model_copy(
        update={
            **judged,
            "quotes": tuple(Quote(turn=t, role=r, text=x) for t, r, x in quotes) or rule.quotes,
            "reason": agreeing[0].reason if agreeing else rule.reason,
        }
    )


def without_base(
    rules: Sequence[SourceRule], known: Sequence[SourceRule]
) -> tuple[list[SourceRule], list[tuple[SourceRule, str]]]:
    """Take out the modifiers that act on a rule that is not there.

    Returns:
        The rules that stay, in order, and those that go, each with the keys that it lacks.
    """
    bases = {rule.key for rule in (*known, *rules) if not rule.type.is_modifier}
    stay, go = [], []
    for rule in rules:
        lacking = sorted(set(rule.modifies) - bases)
        if lacking:
            go.append((rule, ", ".join(lacking)))
        else:
            stay.append(rule)
    return stay, go


def violated_keys(rules: Sequence[SourceRule]) -> frozenset[str]:
    """The keys of the rules that are violated together."""
    number_of = {rule.key: number for number, rule in enumerate(rules, 1)}
    violated = resolve(raw_judgments(rules, number_of)).violated
    return frozenset(key for key, number in number_of.items() if number in violated)


def shape_problems(rules: Sequence[SourceRule], shape: Shape) -> list[str]:
    """How a level's policy misses its shape; empty if it does not."""
    counts = {"rules": len(rules), "violated rules": len(violated_keys(rules))}
    ranges = {"rules": shape.rules, "violated rules": shape.violated}
    return [
        f"{counts[name]} {name} are left, {low} to {high} are needed"
        for name, (low, high) in ranges.items()
        if not low <= counts[name] <= high
    ]


def evidence(rule: SourceRule, votes: Sequence[Vote], name: Callable[[str], str]) -> list[Any]:
    """A rule's votes as they stand in the file with evidence, by validator.

    Args:
        rule: With its final labels.
        votes: All votes on it, unreadable ones included.
        name: What stands for a `[[key]]` in a reason.
    """
    rows: list[Any] = []
    for vote in sorted(votes, key=lambda vote: vote.validator):
        if vote.unreadable:
            rows.append({"validator": vote.validator, "unreadable": vote.unreadable})
            continue
        given = {label: vote.answers.get(label) for label in LABELS[rule.type]}
        judged = {label: found.answer for label, found in given.items() if found is not None}
        decisive = [found for found in given.values() if found is not None]
        rows.append(
            {
                "validator": vote.validator,
                "key": rule.key,
                **judged,
                "quotes": [dict(found.quote) for found in decisive],
                "reasoning": " ".join(replace_keys(f.reason, name) for f in decisive),
                "checks": {
                    id: {
                        "answer": {True: "yes", False: "no", None: "does_not_apply"}[found.answer],
                        "quote": dict(found.quote),
                        "reason": replace_keys(found.reason, name),
                    }
                    for id, found in vote.answers.items()
                },
            }
        )
    return rows
