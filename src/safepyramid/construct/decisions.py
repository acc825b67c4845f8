"""What people decided about a run: `review.jsonl` in the run folder, one line a decision.

A line about a rule that the validators left undecided:
`{"kind": "rule", "conversation", "level", "key", "content", "decision": "keep" | "drop",
"labels": {"broken": true}, "reviewer", "note"}`, and one about a finished case:
`{"kind": "case", "case", "content", "decision": "accept" | "remove", "reviewer", "note"}`.
`content` is the hash of what was seen: a decision about other words than today's does not count.
Of one reviewer's lines about one thing the last counts. People who disagree drop or remove.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from safepyramid.construct.checklists import LABELS, Vote
from safepyramid.construct.source import SourceRule
from safepyramid.conversation import render_conversation
from safepyramid.errors import DataError
from safepyramid.schema import Case, Level, RuleType, Turn, conversation_of

FILE = "review.jsonl"
_SHOWN = 5
"""So many decisions that apply to nothing are named; the others are counted."""


class _Decision(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    content: str
    reviewer: str = Field(min_length=1)
    note: str = ""


class RuleDecision(_Decision):
    """What a person says about a rule without a majority."""

    kind: Literal["rule"] = "rule"
    conversation: str
    level: Level
    key: str
    decision: Literal["keep", "drop"]
    labels: dict[str, bool] = Field(default_factory=dict)
    """To keep it: its raw judgments (`broken`; or `triggered`, and `met` where it is)."""


class CaseDecision(_Decision):
    """What a person says about a finished case."""

    kind: Literal["case"] = "case"
    case: str
    decision: Literal["accept", "remove"]


_LINE: TypeAdapter[RuleDecision | CaseDecision] = TypeAdapter(
    Annotated[RuleDecision | CaseDecision, Field(discriminator="kind")]
)


@dataclass(frozen=True, slots=True)
class Subject:
    """A rule that waits for a person."""

    conversation: str
    level: Level
    key: str
    content: str
    """Hash of what a person sees who decides about it."""
    why: str
    """What has no majority."""
    rule: SourceRule
    """As its author wrote and judged it."""
    votes: tuple[Vote, ...]
    policy: str
    """The whole policy text that was voted on."""
    text: str
    """The conversation."""


def rule_content(rule: SourceRule, turns: Sequence[Turn], framework: str) -> str:
    """The hash of what a person sees who decides about a rule."""
    return _digest([rule.type, rule.text, framework, render_conversation(turns)])


def case_content(case: Case) -> str:
    """The hash of what a person sees who reviews a case."""
    truth = sorted(case.ground_truth_violations)
    return _digest([case.conversation, case.policy, *map(str, truth)])


def _digest(parts: Iterable[str]) -> str:
    return hashlib.sha256(json.dumps(list(parts)).encode("ascii")).hexdigest()[:16]


class Decisions:
    """All decisions about a run, the last of each reviewer about each thing.

    Args:
        lines: In the order of the file.
        torn: Whether the file ends in half a line, which is left out.
    """

    def __init__(
        self, lines: Iterable[RuleDecision | CaseDecision] = (), *, torn: bool = False
    ) -> None:
        self.torn = torn
        self._rules: dict[tuple[str, str, str, str], dict[str, RuleDecision]] = {}
        self._cases: dict[tuple[str, str], dict[str, CaseDecision]] = {}
        self._conversations: set[str] = set()
        self._applied: set[tuple[str, ...]] = set()
        for line in lines:
            if isinstance(line, RuleDecision):
                about = (line.conversation, line.level.value, line.key, line.content)
                self._rules.setdefault(about, {})[line.reviewer] = line
            else:
                self._cases.setdefault((line.case, line.content), {})[line.reviewer] = line
                self._conversations.add(conversation_of(line.case))

    def notes(self) -> list[str]:
        """What of the file does nothing, in a line each; empty if all of it applies.

        To be asked once all conversations have been gone through, each finished case with
        `reviewed`.
        """
        idle = [
            *(" ".join(about[:3]) for about in self._rules if about not in self._applied),
            *(about[0] for about in self._cases if about not in self._applied),
        ]
        notes = []
        if idle:
            more = f" and {len(idle) - _SHOWN:,} more" if len(idle) > _SHOWN else ""
            notes.append(
                f"{FILE}: {len(idle):,} decisions apply to nothing that is here now (another "
                f"wording, or no such rule or case): {', '.join(idle[:_SHOWN])}{more}"
            )
        if self.torn:
            notes.append(f"{FILE}: the last line is cut short and is left out")
        return notes

    def on_rule(
        self, subject: Subject, rule: SourceRule
    ) -> Mapping[str, bool] | Literal["drop"] | None:
        """Labels to keep a rule with, `drop`, or None where nobody has decided.

        Raises:
            DataError: The labels are not those of its type.
        """
        about = (subject.conversation, subject.level.value, subject.key, subject.content)
        found = list(self._rules.get(about, {}).values())
        if not found:
            return None
        self._applied.add(about)
        if any(line.decision == "drop" or line.labels != found[0].labels for line in found):
            return "drop"
        labels = found[0].labels
        wanted = list(LABELS[rule.type])
        if rule.type.is_modifier and not labels.get("triggered"):
            wanted.remove("met")
        if sorted(labels) != sorted(wanted):
            raise DataError(
                f"{FILE}: {subject.conversation} {subject.level} {subject.key}: labels must be "
                f"{' and '.join(wanted)}, not {', '.join(labels) or 'none'}"
            )
        if rule.type is RuleType.DISTRACTOR and labels["broken"]:
            raise DataError(
                f"{FILE}: {subject.conversation} {subject.level} {subject.key}: a distractor is "
                "never broken; drop it"
            )
        return labels

    def removal(self, case: Case) -> str:
        """Why a case is removed; empty if it stays."""
        found = self._cases.get((case.id, case_content(case)), {})
        notes = [
            f"{line.reviewer}: {line.note or 'no note'}"
            for line in found.values()
            if line.decision == "remove"
        ]
        return "; ".join(notes)

    def reviewed(self, case: Case) -> int:
        """How many people have decided about a case as it is."""
        about = (case.id, case_content(case))
        self._applied.add(about)
        return len(self._cases.get(about, {}))

    def on_cases(self, conversation: str) -> bool:
        """Whether anybody has decided about a case of a conversation, as it is or was."""
        return conversation in self._conversations


def read_decisions(folder: Path) -> Decisions:
    """Read the decisions of a run folder; none without the file.

    The last line need not end in a newline; one that is cut short is left out, and said to be.

    Raises:
        DataError: A line is no decision, or the file cannot be read.
    """
    path = folder / FILE
    try:
        *whole, last = path.read_text(encoding="utf-8-sig").split("\n")
    except FileNotFoundError:
        return Decisions()
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 (byte {error.start}); save it as UTF-8") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None
    torn = bool(last.strip()) and not _is_json(last)
    lines = []
    for number, line in enumerate(whole if torn else [*whole, last], 1):
        if not line.strip():
            continue
        try:
            lines.append(_LINE.validate_json(line))
        except ValidationError as error:
            fault = error.errors()[0]
            where = ".".join(map(str, fault["loc"]))
            raise DataError(f"{path}, line {number}: {where} {fault['msg']}") from None
    return Decisions(lines, torn=torn)


def _is_json(line: str) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True
