"""One conversation on its way: what it is made with, and what has happened to it."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ValidationError

from safepyramid.construct.author import Materials
from safepyramid.construct.checklists import Vote
from safepyramid.construct.decisions import Decisions, Subject
from safepyramid.construct.draws import Assignment
from safepyramid.construct.questions import Ask, Question
from safepyramid.construct.records import Record, changed
from safepyramid.construct.settle import Drop, Rated
from safepyramid.construct.source import SourceConversation
from safepyramid.schema import Level, RuleType

STEPS = ("conversation", "L0", "L1", "L2")
"""What a pyramid is made in. A run may stop after any of them."""

Standing = Literal["complete", "review", "open", "failed"]
"""`review`: waits for a person. `open`: something has yet to be asked, or asked again."""

T = TypeVar("T", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Setback:
    """An attempt that was set aside."""

    step: str
    attempt: int
    reason: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """Where a conversation stands."""

    made: Assignment
    standing: Standing
    step: str
    """What it was last at."""
    reason: str
    """Why it is no further; empty when complete."""
    source: SourceConversation | None = None
    """The finished pyramid."""
    votes: Mapping[Level, Mapping[str, tuple[Vote, ...]]] = field(default_factory=dict)
    """Level -> key -> votes, for the rules that the level adds."""
    rated: tuple[Rated, ...] = ()
    """Every rule that was voted on, all attempts together."""
    drafted: Mapping[tuple[Level, RuleType], int] = field(default_factory=dict)
    """Rules that authors wrote, all attempts together."""
    drops: tuple[Drop, ...] = ()
    setbacks: tuple[Setback, ...] = ()
    waiting: tuple[Subject, ...] = ()
    """The rules that a person must decide about."""


class Stopped(Exception):
    """The conversation goes no further for now."""

    def __init__(self, standing: Standing, step: str, reason: str) -> None:
        super().__init__(reason)
        self.standing: Standing = standing
        self.step = step
        self.reason = reason


class SetAside(Exception):
    """An attempt cannot be used; the message says why."""


@dataclass
class Work:
    """One conversation on its way, and what has happened to it."""

    materials: Materials
    made: Assignment
    ask: Ask
    decisions: Decisions
    last: str = STEPS[-1]
    """The step after which to stop."""
    drafted: Counter[tuple[Level, RuleType]] = field(default_factory=Counter)
    drops: list[Drop] = field(default_factory=list)
    setbacks: list[Setback] = field(default_factory=list)
    rated: list[Rated] = field(default_factory=list)
    waiting: list[Subject] = field(default_factory=list)

    def outcome(self, standing: Standing, step: str, reason: str = "", **made: Any) -> Outcome:
        """What has become of it."""
        return Outcome(
            made=self.made,
            standing=standing,
            step=step,
            reason=reason,
            drafted=dict(self.drafted),
            drops=tuple(self.drops),
            setbacks=tuple(self.setbacks),
            rated=tuple(self.rated),
            waiting=tuple(self.waiting),
            **made,
        )


async def answer(work: Work, step: str, question: Question, form: type[T]) -> T:
    """Ask something and get the answer in its form.

    Raises:
        Stopped: It has yet to be asked, or asked again.
        SetAside: There is an answer, and it cannot be used.
        RunError: Its record does not hold what was asked for: it was changed by hand.
    """
    record = await work.ask(question)
    require_answer(step, record)
    assert record is not None
    if record.state != "done":
        raise SetAside(f"{record.model}: {record.state}: {record.reason}")
    try:
        return form.model_validate(record.output)
    except ValidationError:
        raise changed(record) from None


def require_answer(step: str, record: Record | None) -> None:
    """Stop where something has yet to be asked, or asked again."""
    if record is None:
        raise Stopped("open", step, "not asked yet")
    if record.state == "error":
        raise Stopped("open", step, f"{record.model}: {record.reason}")
