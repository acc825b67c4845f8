"""How guards are read: from what a family's own parser finds to an answer with a named state.

A parser here is a function from a reply's visible text, thinking set aside, to `Said`. It
raises `Absent` where the text holds no verdict and `Unreadable` where it holds two. What then
becomes of the reply (refused, blocked, truncated, unparsed, error) is decided as for every other
reply, in `answers`. No verdict is ever a "not violated".
"""

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from safepyramid.answers.forms import Absent, Unreadable
from safepyramid.answers.parse import LENGTH_STOPS, READABLE_STOPS, verdict_from_reply
from safepyramid.answers.text import visible
from safepyramid.schema import Answer, Reply, State, Verdict

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Said(Generic[T]):
    """What a guard said, as its own parser understands it."""

    value: T
    strict: bool = True
    """Whether it had exactly the form that the guard's makers describe."""
    note: str = ""
    complete: bool = False
    """Whether nothing that could have followed would change it: such a verdict is read even
    where a length limit cut what came after it."""
    score: float | None = None
    """Where the guard gives one: its confidence in "violated", from 0 to 1."""


def read_verdict(reply: Reply, find: Callable[[str], Said[bool]]) -> Verdict:
    """A guard's verdict on one rule, in any state but missing. Never raises on a reply."""
    state, said, note = _read(reply, find)
    if said is None:
        return Verdict(state, note=note)
    return Verdict(state, said.value, said.strict, said.note, said.score)


def read_answer(
    reply: Reply, find: Callable[[str], Said[frozenset[int]]], rules: Collection[int]
) -> Answer:
    """A guard's set of violated rules, in any state but missing. Never raises on a reply.

    Args:
        reply: What the model returned.
        find: The family's parser.
        rules: The rule numbers that the policy has; others are kept as unknown.
    """
    state, said, note = _read(reply, find)
    if said is None:
        return Answer(state, note=note)
    unknown = said.value - frozenset(rules)
    return Answer(state, said.value, unknown, said.strict, said.note)


def _read(reply: Reply, find: Callable[[str], Said[T]]) -> tuple[State, Said[T] | None, str]:
    state, note = _state_without_verdict(reply)
    if state in (State.BLOCKED, State.ERROR):
        return state, None, note
    try:
        said = find(visible(reply.text))
    except Unreadable as unreadable:
        if not (isinstance(unreadable, Absent) or reply.refused) and state is State.REFUSED:
            state = State.UNPARSED
        ended = reply.stop_reason in READABLE_STOPS and visible(reply.text)
        return state, None, str(unreadable) if state is State.UNPARSED and ended else note
    if reply.stop_reason in READABLE_STOPS or (said.complete and not reply.error):
        return State.ANSWERED, said, ""
    return state, None, note


def _state_without_verdict(reply: Reply) -> tuple[State, str]:
    """The state of a reply in which a guard's parser finds nothing, and why."""
    seen = verdict_from_reply(reply)
    if seen.state is not State.ANSWERED:
        return seen.state, seen.note
    if reply.refused:
        return State.REFUSED, "marked as a refusal by the provider"
    if reply.stop_reason in LENGTH_STOPS:
        return State.TRUNCATED, "cut by a length limit"
    return State.UNPARSED, "an answer, but not in this guard's form"


def label_probability(
    alternatives: Mapping[str, float], label: str, against: Collection[str]
) -> float | None:
    """How probable a label is among the labels that a token may begin.

    Args:
        alternatives: Token -> natural-log probability, as a server lists them.
        label: The label in question; a token that is its beginning counts for it.
        against: The other labels.

    Returns:
        From 0 to 1: the label's probability over that of all labels; None where no token begins
        any of them. A label that is not listed counts as 0.

    >>> label_probability({"Yes": -0.5, "No": -1.5, "Well": -2.0}, "Yes", ["No"])
    0.7310585786300049
    """
    of = _mass(alternatives, label, against)
    others = sum(_mass(alternatives, other, {label, *against} - {other}) for other in against)
    return of / (of + others) if of + others > 0 else None


def _mass(alternatives: Mapping[str, float], label: str, others: Collection[str]) -> float:
    """The probability of the tokens that begin this label and none of the others."""
    total = 0.0
    for token, logprob in alternatives.items():
        text = token.strip(" \t\r\n▁Ġ")
        begins_others = any(other.startswith(text) for other in others)
        if text and label.startswith(text) and not begins_others and not math.isnan(logprob):
            total += math.exp(min(logprob, 0.0))
    return total


def first_label_probability(
    logprobs: Collection[Mapping[str, float]], label: str, against: Collection[str]
) -> float | None:
    """As `label_probability`, at the first token that is more likely than not one of the labels.

    Returns:
        None where there is no such token, or no log-probabilities at all.
    """
    labels = {label, *against}
    for alternatives in logprobs:
        if sum(_mass(alternatives, each, labels - {each}) for each in labels) > 0.5:
            return label_probability(alternatives, label, against)
    return None
