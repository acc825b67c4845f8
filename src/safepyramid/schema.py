"""The values that everything else passes around: cases, rules, answers, predictions.

Plain frozen dataclasses: they import nothing heavy and check nothing. Files are read and
checked in `dataset/`; policy texts are read in `policy/`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal


class Level(StrEnum):
    """The three difficulties of one conversation (paper, section 3.2)."""

    L0 = "L0"
    """Single rules: decisive and distractor."""
    L1 = "L1"
    """L0's rules and the exceptions and conditionals between them."""
    L2 = "L2"
    """All four kinds, in the terms of a fictional framework that the policy defines."""


Protocol = Literal["per_policy", "per_rule"]
PROTOCOLS: tuple[Protocol, ...] = ("per_policy", "per_rule")
"""The whole policy in one call, or one rule a call (paper, section 3.6)."""


class RuleType(StrEnum):
    """What a rule is in the benchmark's design. Never shown to a model."""

    DECISIVE = "decisive"
    DISTRACTOR = "distractor"
    EXCEPTION = "exception"
    CONDITIONAL = "conditional"

    @property
    def is_modifier(self) -> bool:
        """Whether the rule acts on other rules (exception, conditional)."""
        return self in (RuleType.EXCEPTION, RuleType.CONDITIONAL)


class State(StrEnum):
    """How a case, or one judgment of it, ended. Every one ends in exactly one state."""

    ANSWERED = "answered"
    """A readable answer, the empty set included. The only state that is scored."""
    REFUSED = "refused"
    """The model declined in words."""
    BLOCKED = "blocked"
    """The provider's filter or stop reason withheld the answer."""
    TRUNCATED = "truncated"
    """A length limit cut the reply, thinking included."""
    UNPARSED = "unparsed"
    """A complete reply without one readable answer."""
    ERROR = "error"
    """Transport, or a fault of our own."""
    MISSING = "missing"
    """Not run."""


DOMAINS = (
    "academic_integrity",
    "content_moderation",
    "critical_infrastructure",
    "defamation",
    "discrimination",
    "fraud",
    "intellectual_property",
    "privacy",
    "sexual_content",
    "specialized_advice",
)
"""The ten domains of the published benchmark. Files of your own may use others."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One message of a conversation."""

    number: int
    """The exchange it belongs to, from 1: a user's message and the reply share it."""
    role: Literal["user", "chatbot"]
    text: str


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule as it stands in a policy text."""

    number: int
    text: str
    """The rule's body, without its number and without an `[overrides: …]` note."""
    overrides: tuple[int, ...] = ()
    """The rules that its `[overrides: Rule N]` note names; empty without a note."""
    mentions: tuple[int, ...] = ()
    """The rules that its body names ("Rule 16 is waived"), in order, without repeats."""

    @property
    def references(self) -> tuple[int, ...]:
        """All rules that it names, in the note or in the body, in order, without repeats."""
        return tuple(dict.fromkeys((*self.overrides, *self.mentions)))


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy text, taken apart."""

    instruction: str
    """What stands before the framework or the first rule."""
    framework: str
    """The framework block of an L2 policy; else empty."""
    rules: tuple[Rule, ...]
    """In the order of the text, which is usually not the order of the numbers."""


@dataclass(frozen=True, slots=True)
class RubricEntry:
    """What the benchmark knows about one rule of a case."""

    rule: int
    text: str
    type: RuleType
    violated: bool
    """Whether the rule is in the ground truth."""
    paired_with: tuple[int, ...] = ()
    """Exceptions and conditionals: the rules they act on."""
    flags: Mapping[str, Any] = field(default_factory=dict)
    """Further keys of the entry, such as `applies` or `active`."""
    evidence: Any = None
    """What each validator quoted and reasoned; None in files without evidence."""


@dataclass(frozen=True, slots=True)
class FailureModeMetadata:
    """Which rules can go wrong in which way, for the failure-mode diagnostics."""

    distractor_rules: frozenset[int] = frozenset()
    waived_rules: frozenset[int] = frozenset()
    """Base rules that an active exception waives."""
    contradicted_rules: frozenset[int] = frozenset()
    """Base rules that are violated only because an active conditional is unmet."""


def conversation_of(case_id: str) -> str:
    """A case id without its level; an id of another form as it is."""
    head, _, tail = case_id.rpartition("-")
    return head if head and tail.lower() in ("l0", "l1", "l2") else case_id


@dataclass(frozen=True, slots=True)
class Case:
    """One conversation with one policy: the unit that is predicted and scored."""

    id: str
    """`crit-001-l1`: first four letters of the domain, conversation number, level."""
    domain: str
    level: Level
    ground_truth_violations: frozenset[int]
    """The numbers of the violated rules: the only thing that is scored against."""
    conversation: str
    """`Turn 1 - User: …` and `Turn 1 - Chatbot: …`, one after another."""
    framework: str
    """L2: the framework block, a verbatim substring of `policy`; else empty."""
    policy: str
    """The whole policy text: task instruction, framework, numbered rules."""
    rubric: tuple[RubricEntry, ...]
    failure_mode_metadata: FailureModeMetadata

    @property
    def conversation_id(self) -> str:
        """The id without its level: cases that share it are not independent."""
        return conversation_of(self.id)

    @property
    def rule_types(self) -> dict[int, RuleType]:
        """Rule number -> type, for every rule of the rubric."""
        return {entry.rule: entry.type for entry in self.rubric}


@dataclass(frozen=True, slots=True)
class Reply:
    """What a model returned, free of any client library."""

    text: str
    """The answer channel only."""
    reasoning: str = ""
    """A thinking block that the provider keeps apart."""
    stop_reason: str = "stop"
    """As Inspect names it: stop, max_tokens, model_length, content_filter, tool_calls, unknown.
    Where Inspect has no name for it, the server's own word, if the server gave one."""
    logprobs: tuple[Mapping[str, float], ...] = ()
    """Per generated token: its alternatives and their natural-log probabilities."""
    output_tokens: int | None = None
    """All generated tokens, thinking included; None where the provider does not say."""
    reasoning_tokens: int | None = None
    """The thinking part of `output_tokens`; None where the provider does not say."""
    error: str = ""
    """A provider's error text that came in place of an answer."""
    refused: bool = False
    """The provider marked the text as a refusal."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a reply says about a whole policy."""

    state: State
    violated: frozenset[int] | None = None
    """The rules it calls violated, unknown numbers included; None unless answered."""
    unknown_rules: frozenset[int] = frozenset()
    """Members of `violated` that the policy does not have: each counts as a false positive."""
    strict: bool = False
    """Whether a plain JSON reader that expects the asked form would have read the same."""
    note: str = ""
    """What was repaired, or why nothing could be read."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a reply says about one rule."""

    state: State
    violated: bool | None = None
    """None unless answered."""
    strict: bool = False
    note: str = ""
    score: float | None = None
    """Where the guard gives one: its confidence in "violated", from 0 to 1."""


@dataclass(frozen=True, slots=True)
class Judgment:
    """A verdict on one rule of one case, as it is kept."""

    rule: int
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a run says about one case."""

    case_id: str
    state: State
    violated: frozenset[int] | None = None
    """None unless answered."""
    unknown_rules: frozenset[int] = frozenset()
    strict: bool = True
    note: str = ""
    judgments: tuple[Judgment, ...] = ()
    """Per-rule protocol: the verdicts it was aggregated from; else empty."""
