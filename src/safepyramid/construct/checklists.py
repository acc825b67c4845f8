"""Checklists, and what a set of votes makes of a rule.

A checklist is a file: yes/no questions about rules of one type. A check has an expected answer
and passes when the majority gives it; a label has none and is what the majority says.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, model_validator

from safepyramid.schema import Level, RuleType

LABELS: dict[RuleType, tuple[str, ...]] = {
    RuleType.DECISIVE: ("broken",),
    RuleType.DISTRACTOR: ("broken",),
    RuleType.EXCEPTION: ("triggered", "met"),
    RuleType.CONDITIONAL: ("triggered", "met"),
}
"""The raw judgments that are voted on."""

NOT_ASKED = "does_not_apply"


class CheckQuestion(BaseModel):
    """A yes/no question about a rule."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str
    ask: str
    expect: bool | None = None
    """The answer that a good rule gets; None for a label that may be either."""
    label: str | None = None
    """The raw judgment that the majority's answer becomes."""
    when: str | None = None
    """A label without which the question does not apply."""
    cite: Literal["conversation", "any"] = "any"
    """Where the quote must come from."""
    levels: tuple[Level, ...] = tuple(Level)


class Checklist(BaseModel):
    """The questions about rules of one type."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: RuleType
    questions: tuple[CheckQuestion, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _fits_the_type(self) -> Self:
        ids = [question.id for question in self.questions]
        labels = [question.label for question in self.questions if question.label]
        if len(set(ids)) < len(ids):
            raise ValueError(f"{self.type}: two questions have one id")
        if tuple(labels) != LABELS[self.type]:
            raise ValueError(f"{self.type}: labels must be {', '.join(LABELS[self.type])}")
        for question in self.questions:
            if question.expect is None and question.label is None:
                raise ValueError(f"{self.type}: {question.id} has neither `expect` nor `label`")
            if question.when is not None and question.when not in labels:
                raise ValueError(f"{self.type}: {question.id} applies when {question.when!r}")
        return self

    def at(self, level: Level) -> tuple[CheckQuestion, ...]:
        """The questions that are asked at a level."""
        return tuple(question for question in self.questions if level in question.levels)


Checklists = Mapping[RuleType, Checklist]


def load_checklists() -> Checklists:
    """The bundled checklists, one a rule type."""
    folder = files("safepyramid.construct") / "checklists"
    return {
        kind: Checklist.model_validate(
            yaml.safe_load((folder / f"{kind}.yaml").read_text(encoding="utf-8"))
        )
        for kind in RuleType
    }


@dataclass(frozen=True, slots=True)
class Given:
    """A validator's answer to one question."""

    answer: bool | None
    """None where it says that the question does not apply."""
    quote: Mapping[str, Any]
    """`turn` (0 for the policy), `role`, `text`."""
    reason: str


@dataclass(frozen=True, slots=True)
class Vote:
    """What one validator says about one rule."""

    validator: str
    answers: Mapping[str, Given]
    """Question -> answer; empty if it could not be read."""
    unreadable: str = ""
    """Why it could not be read."""


@dataclass(frozen=True, slots=True)
class RuleVerdict:
    """What the votes make of a rule."""

    state: Literal["kept", "failed", "undecided"]
    labels: Mapping[str, bool]
    """The raw judgments with a majority."""
    reasons: tuple[str, ...] = ()
    """Why it is not kept: failed checks, or what has no majority."""
    failed_checks: tuple[str, ...] = ()
    """Ids of the questions that the majority answered otherwise than expected."""


def majority(answers: Sequence[bool]) -> bool | None:
    """What more than half say; None for a tie or without answers."""
    yes = sum(answers)
    return None if 2 * yes == len(answers) else 2 * yes > len(answers)


def judge(questions: Sequence[CheckQuestion], votes: Sequence[Vote], quorum: int) -> RuleVerdict:
    """Decide about a rule.

    Only readable votes count, and on a question that depends on another only those of validators
    who say that it applies. With fewer than the quorum, or where a check or a label is tied, the
    rule is undecided, unless a check has failed: then it has failed.

    Args:
        questions: All that were asked, in the checklist's order.
        votes: One per validator.
        quorum: The fewest answers that decide, on the rule and on each question.
    """
    readable = [vote for vote in votes if not vote.unreadable]
    if len(readable) < quorum:
        lost = "; ".join(
            f"{vote.validator}: {vote.unreadable}" for vote in votes if vote.unreadable
        )
        reason = f"{len(readable)} readable votes, {quorum} needed ({lost})"
        return RuleVerdict("undecided", {}, (reason,))
    labels: dict[str, bool] = {}
    tied: list[str] = []
    failed: dict[str, str] = {}
    for question in sorted(questions, key=lambda question: question.when is not None):
        if question.when is not None and not labels.get(question.when):
            continue  # does not apply, or what it hangs on is tied and told already
        counted = _counted(question, readable)
        found = majority([answer for _, answer in counted])
        if len(counted) < quorum:
            tied.append(f"{question.id}: {len(counted)} answers count, {quorum} needed")
        elif found is None:
            tied.append(f"{question.id}: no majority among {len(counted)} answers")
        elif question.expect is not None and found != question.expect:
            failed[question.id] = _objection(question, found, counted)
        elif question.label is not None:
            labels[question.label] = found
    if failed:
        return RuleVerdict("failed", labels, tuple(failed.values()), tuple(failed))
    return RuleVerdict("undecided" if tied else "kept", labels, tuple(tied))


def _counted(question: CheckQuestion, votes: Sequence[Vote]) -> list[tuple[Given, bool]]:
    return [
        (given, given.answer)
        for vote in votes
        if (given := vote.answers[question.id]).answer is not None
        and (question.when is None or vote.answers[question.when].answer)
    ]


def _objection(question: CheckQuestion, found: bool, counted: Sequence[tuple[Given, bool]]) -> str:
    word = "yes" if found else "no"
    against = [given for given, answer in counted if answer is found]
    reasons = " / ".join(dict.fromkeys(given.reason for given in against))
    return f"{question.id}: {len(against)} of {len(counted)} say {word} ({reasons})"
