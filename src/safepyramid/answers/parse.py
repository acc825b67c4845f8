"""A model's reply -> an answer with a named state.

The answer is looked for in this order: the whole text as JSON; the text without thinking or
harmony wrapping; JSON inside that text, fenced or not. Readable but odd forms are read;
whatever could mean two things is `unparsed`. No reply raises, and none takes more than linear
time. The two kinds of answer, a set of rules and a verdict on one rule, differ only in how a
JSON value is understood.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Generic, TypeVar

from safepyramid.answers.forms import RULES, VERDICT, Absent, Kind, Unreadable, agreed
from safepyramid.answers.refusals import is_refusal
from safepyramid.answers.text import Broken, pieces, plain_json, visible, whole_json
from safepyramid.schema import Answer, Reply, State, Verdict

READABLE_STOPS = frozenset({"stop", "tool_calls", "unknown"})
"""Stop reasons of a reply that ended by itself. Any other needs a text that is one whole answer."""
LENGTH_STOPS = frozenset({"max_tokens", "model_length"})
"""Stop reasons of a reply that a limit cut."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Outcome(Generic[T]):
    """What both public types are made of."""

    state: State
    said: T | None = None
    strict: bool = False
    note: str = ""


def parse_violated_rules(text: str, rules: Collection[int]) -> Answer:
    """Read the set of violated rules from a text alone.

    The asked form is `{"violated_rules": [{"rule": 3, "explanation": "…"}]}`. Also read: rule
    numbers as strings ("3", "Rule 3", "3, 7"), a map from number to explanation, a bare list, a
    nested result, other spellings of the keys. Zero and negative integers in a list are read as
    numbers that no policy has. A rule that is listed but said not to be violated
    (`{"rule": 3, "violated": false}`, `{"3": false}`) contradicts itself: unparsed.

    Args:
        text: The answer channel of a reply; thinking inside it is set aside.
        rules: The rule numbers that the policy has.

    Returns:
        State answered (the set may be empty), refused or unparsed. Never raises.
    """
    return _answer(_read_text(text, RULES), rules)


def parse_verdict(text: str) -> Verdict:
    """Read a verdict on one rule from a text alone.

    The asked forms are `{"verdict": "violated"}` and `{"verdict": "not_violated"}`. Also read:
    other spellings of both, a boolean under the key `violated`, the bare words as the whole
    text, and a line such as "Verdict: not violated" where no other wording contradicts it.

    Args:
        text: The answer channel of a reply; thinking inside it is set aside.

    Returns:
        State answered, refused or unparsed, without a score. Never raises.
    """
    return _verdict(_read_text(text, VERDICT))


def answer_from_reply(reply: Reply, rules: Collection[int]) -> Answer:
    """Read the set of violated rules from a whole reply.

    Args:
        reply: Text, thinking, stop reason, token counts and error.
        rules: The rule numbers that the policy has.

    Returns:
        Any state but missing. One that the provider marked as a refusal is refused unless an
        answer can be read. A reply with an error or that a filter stopped is never answered;
        one that a length limit or an unknown stop reason ended is answered only if its text as
        a whole is one JSON answer. Never raises.
    """
    return _answer(_read_reply(reply, RULES), rules)


def verdict_from_reply(reply: Reply) -> Verdict:
    """Read a verdict on one rule from a whole reply; the states as in `answer_from_reply`."""
    return _verdict(_read_reply(reply, VERDICT))


def _answer(outcome: _Outcome[frozenset[int]], rules: Collection[int]) -> Answer:
    unknown = frozenset() if outcome.said is None else outcome.said - frozenset(rules)
    return Answer(outcome.state, outcome.said, unknown, outcome.strict, outcome.note)


def _verdict(outcome: _Outcome[bool]) -> Verdict:
    return Verdict(outcome.state, outcome.said, outcome.strict, outcome.note)


# --- Replies -------------------------------------------------------------------------------------

# Codes and set phrases with which providers name their filter. Whole words: "moderate" or
# "filter" alone occur in other errors.
_FILTER_ERROR = re.compile(
    r"(?<![a-z])(?:content[_ -]?filter(?:ed|ing)?|content[_ ]policy(?:[_ ]violation)?"
    r"|content management policy|ResponsibleAIPolicyViolation|invalid_prompt|prohibited_content"
    r"|safety_violation)(?![a-z])",
    re.IGNORECASE,
)


def _read_reply(reply: Reply, kind: Kind[T]) -> _Outcome[T]:
    outcome = _unmarked(reply, kind)
    if reply.refused and outcome.state in (State.UNPARSED, State.TRUNCATED):
        return _Outcome(State.REFUSED, note="marked as a refusal by the provider")
    return outcome


def _unmarked(reply: Reply, kind: Kind[T]) -> _Outcome[T]:
    """What a reply says, whatever the provider says of it."""
    stop = reply.stop_reason
    if stop == "content_filter":
        return _Outcome(State.BLOCKED, note=reply.error or "stopped by the provider's filter")
    if reply.error and stop not in LENGTH_STOPS:
        blocked = _FILTER_ERROR.search(reply.error)
        return _Outcome(State.BLOCKED if blocked else State.ERROR, note=reply.error)
    if stop not in READABLE_STOPS:
        whole = None if reply.error else _whole_answer(reply.text, kind)
        if whole is not None:
            return _Outcome(State.ANSWERED, whole, note=f"complete JSON, but stopped for {stop!r}")
        return _unended(reply, kind)
    outcome = _read_text(reply.text, kind)
    if outcome.state == State.UNPARSED and not visible(reply.text):
        return _read_empty(reply, kind)
    return outcome


def _unended(reply: Reply, kind: Kind[T]) -> _Outcome[T]:
    """A reply that did not end by itself and is no whole answer."""
    stop = reply.stop_reason
    if stop == "max_tokens":
        return _Outcome(State.TRUNCATED, note="cut by the output limit: raise max_tokens")
    if stop == "model_length":
        return _Outcome(State.TRUNCATED, note="input and output exceed the model's context length")
    state = _read_text(reply.text, kind).state
    refused = State.REFUSED if state == State.REFUSED else State.UNPARSED
    return _Outcome(refused, note=f"unknown stop reason {stop!r}")


def _read_empty(reply: Reply, kind: Kind[T]) -> _Outcome[T]:
    """A reply that ended by itself and shows no text."""
    inline = reply.text.strip()
    found = None if inline else _whole_answer(reply.reasoning, kind)
    if found is not None:
        return _Outcome(State.ANSWERED, found, note="the answer stood in the thinking field")
    output, thinking = reply.output_tokens, reply.reasoning_tokens
    has_thinking = bool(inline or reply.reasoning)
    if thinking is None and has_thinking:
        thinking = output  # nothing else came back
    if output and thinking and thinking * 10 >= output * 9:
        note = f"thinking used {thinking} of {output} output tokens: raise max_tokens"
        return _Outcome(State.TRUNCATED, note=note)
    return _Outcome(State.UNPARSED, note="thinking but no answer" if has_thinking else "empty")


def _whole_answer(text: str, kind: Kind[T]) -> T | None:
    """What a text says that as a whole, thinking aside, is one JSON answer; else None."""
    try:
        value = whole_json(text)
        return None if value is None else kind.read_json(value[0])
    except Unreadable:
        return None


# --- Texts ---------------------------------------------------------------------------------------


def _read_text(text: str, kind: Kind[T]) -> _Outcome[T]:
    try:
        said, note = _said(text, kind)
    except Absent as absent:
        if is_refusal(visible(text)):
            return _Outcome(State.REFUSED, note="declined in words")
        return _Outcome(State.UNPARSED, note=str(absent))
    except Unreadable as unreadable:
        return _Outcome(State.UNPARSED, note=str(unreadable))
    strict = kind.is_asked_form(plain_json(text), said)
    return _Outcome(State.ANSWERED, said, strict, "" if strict else note)


def _said(text: str, kind: Kind[T]) -> tuple[T, str]:
    """What a text says, and how it was found."""
    whole = whole_json(text)
    if whole is not None:
        value, note = whole
        return kind.read_json(value), note
    shown = visible(text)
    pieces_said = _pieces_said(shown, kind)
    words_said = kind.read_words(shown, bool(pieces_said))
    if not (pieces_said or words_said):
        raise Absent("no answer in the text" if shown else "no text, or thinking only")
    note = "found inside other text" if pieces_said else "in words, not in JSON"
    return agreed([*pieces_said, *words_said]), note


def _pieces_said(text: str, kind: Kind[T]) -> list[T]:
    found = []
    for piece in pieces(text):
        if isinstance(piece, Broken):
            if kind.key.search(piece.text):
                raise Unreadable("broken JSON")
            continue
        try:
            found.append(kind.read_json(piece))
        except Absent:
            continue
    return found
