"""The forms that models answer in, one for each stage, and what they become.

Each is a pydantic model: its JSON schema goes to providers that take one, and every reply is
checked against it. A rule's type is the list that it stands in, never a field.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from safepyramid.construct.source import Key, SourceRule, Text, named_keys, odd_mark
from safepyramid.policy.text import mentioned_rules
from safepyramid.schema import Level, RuleType, Turn


class _Form(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Exchange(_Form):
    """What the user writes and what the chatbot answers."""

    user: Text
    chatbot: Text


class ConversationForm(_Form):
    """A conversation."""

    title: Text
    exchanges: tuple[Exchange, ...]


class QuoteForm(_Form):
    """Words of the conversation: the exchange from 1, who said it, an exact part of it."""

    turn: int = Field(ge=1)
    role: Literal["user", "chatbot"]
    text: Text


class BaseRuleForm(_Form):
    """A decisive rule or a distractor."""

    key: Key
    text: Text
    broken: bool
    quotes: tuple[QuoteForm, ...] = Field(min_length=1)
    reason: Text


class ModifierForm(_Form):
    """An exception or a conditional."""

    key: Key
    modifies: tuple[Key, ...] = Field(min_length=1)
    text: Text
    triggered: bool
    met: bool | None
    quotes: tuple[QuoteForm, ...] = Field(min_length=1)
    reason: Text


class L0Form(_Form):
    """The rules of an L0 policy."""

    decisive: tuple[BaseRuleForm, ...]
    distractor: tuple[BaseRuleForm, ...]


class L1Form(_Form):
    """What L1 adds to L0."""

    exception: tuple[ModifierForm, ...]
    conditional: tuple[ModifierForm, ...]


class L2Form(_Form):
    """All rules of an L2 policy, and the rules of a repair at any level."""

    decisive: tuple[BaseRuleForm, ...]
    distractor: tuple[BaseRuleForm, ...]
    exception: tuple[ModifierForm, ...]
    conditional: tuple[ModifierForm, ...]


RULE_FORMS: dict[Level, type[BaseModel]] = {Level.L0: L0Form, Level.L1: L1Form, Level.L2: L2Form}


class Term(_Form):
    """A term of a framework."""

    term: Text
    definition: Text


class FrameworkForm(_Form):
    """A fictional framework: what an L2 policy is worded in."""

    name: Text
    purpose: Text
    terms: tuple[Term, ...] = Field(min_length=3, max_length=12)
    precedence: Text


class CitedQuote(_Form):
    """Words that an answer rests on: of an exchange, or of the policy (turn 0)."""

    turn: int
    role: Literal["user", "chatbot", "policy"]
    text: Text


class AnswerForm(_Form):
    """A validator's answer to one question of a checklist."""

    question: str
    answer: Literal["yes", "no", "does_not_apply"]
    quote: CitedQuote
    reason: Text


class RuleVoteForm(_Form):
    """A validator's answers about one rule."""

    rule: int
    answers: tuple[AnswerForm, ...]


class VotesForm(_Form):
    """A validator's answers about several rules."""

    rules: tuple[RuleVoteForm, ...]


def drafted(form: BaseModel) -> Iterator[tuple[RuleType, BaseRuleForm | ModifierForm]]:
    """The rules of a form with their types, in order."""
    for kind in RuleType:
        for rule in getattr(form, kind.value, ()):
            yield kind, rule


def as_drafts(rules: Iterable[SourceRule]) -> dict[str, list[dict[str, Any]]]:
    """Rules by type, as an author writes them, without judgments: what another author is shown."""
    shown: dict[str, list[dict[str, Any]]] = {}
    for rule in rules:
        entry: dict[str, Any] = {"key": rule.key, "text": rule.text}
        if rule.modifies:
            entry["modifies"] = list(rule.modifies)
        shown.setdefault(rule.type.value, []).append(entry)
    return shown


def framework_text(form: FrameworkForm) -> str:
    """A framework as the block that stands in the policy."""
    terms = "\n".join(
        f"- **{term.term}**: {' '.join(term.definition.split())}" for term in form.terms
    )
    return (
        f"## {' '.join(form.name.split())}\n\n{form.purpose}\n\n{terms}\n\n"
        f"Precedence: {' '.join(form.precedence.split())}"
    )


@dataclass(frozen=True, slots=True)
class Drafts:
    """The rules of a reply: those that fit together, and those that do not."""

    usable: tuple[SourceRule, ...]
    """Ready to be put to a vote, in the order of the reply."""
    faulty: Mapping[str, tuple[RuleType, BaseRuleForm | ModifierForm, str]]
    """Key -> type, the rule as written, and what is wrong with it."""
    surplus: tuple[tuple[str, RuleType], ...]
    """Keys and types of rules beyond the number asked for, or of a key that is taken."""


def sort_drafts(
    form: BaseModel,
    turns: Sequence[Turn],
    known: Sequence[SourceRule],
    is_noted: Callable[[str], bool],
    most: Mapping[RuleType, int],
) -> Drafts:
    """Tell the rules of a reply that can be put to a vote from those that cannot.

    Quotes that are not exact are left out: those that count are the validators'.

    Args:
        form: The reply.
        turns: The conversation.
        known: Rules outside the reply that its rules may act on.
        is_noted: Whether the policy shows what the modifier of a key overrides.
        most: How many rules of a type can be used.
    """
    written: dict[str, tuple[RuleType, BaseRuleForm | ModifierForm]] = {}
    surplus: list[tuple[str, RuleType]] = []
    taken = {rule.key for rule in known}
    for kind, draft in drafted(form):
        count = sum(other is kind for other, _ in written.values())
        if draft.key in taken or draft.key in written or count >= most[kind]:
            surplus.append((draft.key, kind))
        else:
            written[draft.key] = (kind, draft)
    rules: dict[str, SourceRule] = {}
    faulty: dict[str, tuple[RuleType, BaseRuleForm | ModifierForm, str]] = {}
    decisive = {rule.key for rule in known if rule.type is RuleType.DECISIVE}
    for key, (kind, draft) in written.items():  # base rules come first
        fault = _fault(kind, draft, decisive)
        if fault:
            faulty[key] = (kind, draft, fault)
            continue
        rules[key] = _source_rule(kind, draft, turns, is_noted(key))
        if kind is RuleType.DECISIVE:
            decisive.add(key)
    return Drafts(tuple(rules.values()), faulty, tuple(surplus))


def _fault(kind: RuleType, draft: BaseRuleForm | ModifierForm, decisive: set[str]) -> str:
    """Why a rule cannot be put to a vote; empty if it can. What stands before a colon is counted."""
    if mentioned_rules(draft.text):
        return "it names a rule by number: write [[key]]"
    if mark := odd_mark(draft.text):
        return f"it holds brackets that name no rule: {mark!r}"
    named = set(named_keys(draft.text))
    if isinstance(draft, BaseRuleForm):
        if named:
            return f"a base rule stands alone: it names {', '.join(sorted(named))}"
        return (
            "a distractor is never broken" if kind is RuleType.DISTRACTOR and draft.broken else ""
        )
    if lost := sorted((named | set(draft.modifies)) - decisive):
        # A conditional could make a distractor violated, and distractors never are.
        return f"it acts on what is no decisive rule that can be used: {', '.join(lost)}"
    if named != set(draft.modifies):
        return "`modifies` and the keys in its text differ"
    if draft.triggered != (draft.met is not None):
        return "`met` is given exactly when `triggered` is true"
    return ""


def _source_rule(
    kind: RuleType, draft: BaseRuleForm | ModifierForm, turns: Sequence[Turn], noted: bool
) -> SourceRule:
    said = {(turn.number, turn.role): turn.text for turn in turns}
    rule = SourceRule.model_validate(
        {"type": kind, "note": kind.is_modifier and noted, **draft.model_dump()}
    )
    exact = [q for q in rule.quotes if q.text in said.get((q.turn, q.role), "")]
    return rule.model_copy(update={"quotes": tuple(exact)})
