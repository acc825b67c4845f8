"""Texts of strangers as HTML: made printable, escaped, rules linked, evidence marked."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from markupsafe import Markup, escape

from safepyramid.policy.text import MENTION
from safepyramid.schema import RubricEntry, Turn

_CONTROLS = {
    **{code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\t\n"},
    0x7F: "\N{SYMBOL FOR DELETE}",
    **dict.fromkeys(range(0x80, 0xA0), "\N{REPLACEMENT CHARACTER}"),
    **dict.fromkeys(range(0xD800, 0xE000), "\N{REPLACEMENT CHARACTER}"),
}
_MENTION = re.compile(MENTION, re.IGNORECASE)
_NUMBER = re.compile(r"\d+")

_SHORTEST_QUOTE = 8
"""A shorter text that happens to stand in a turn is no quote."""
_QUOTED = re.compile(r'"([^"\n]{8,})"|“([^”\n]{8,})”')
_NAMED_TURN = re.compile(r"\bturns?\s+(\d{1,3})\b", re.IGNORECASE)


def printable(text: str) -> str:
    """Control characters and half surrogate pairs as visible signs; all else as it is."""
    return text.replace("\r\n", "\n").translate(_CONTROLS)


def counted(number: int, thing: str) -> str:
    """A number with what it counts: "1 run", "2,000 runs"."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def breakable(name: str) -> Markup:
    """Escape a name, and let a narrow column break it behind slashes, colons, underscores and dots."""
    return Markup("").join(
        escape(part) + Markup("<wbr>") if i % 2 else escape(part)
        for i, part in enumerate(re.split(r"([/:_.@]+)", printable(name)))
    )


def cut(text: str, longest: int) -> str:
    """A text's first characters, with a note of what is left out; a short one as it is."""
    left = len(text) - longest
    return text if left <= 0 else f"{text[:longest]}\n[… {counted(left, 'more character')}]"


def link_rules(text: str, rules: Collection[int]) -> Markup:
    """Escape a text, and link each rule that it names to its place in the page.

    Args:
        text: Any text.
        rules: The rules that the page has; others stay plain.
    """

    def link(match: re.Match[str]) -> Markup:
        number = match[0]
        if int(number) not in rules:
            return Markup(number)
        return Markup('<a href="#r{0}">{0}</a>').format(int(number))

    text, parts, end = printable(text), [Markup("")], 0
    for mention in _MENTION.finditer(text):
        parts.append(escape(text[end : mention.start()]))
        at = mention.start()
        for number in _NUMBER.finditer(text, mention.start(), mention.end()):
            parts += [escape(text[at : number.start()]), link(number)]
            at = number.end()
        end = mention.end()
        parts.append(escape(text[at:end]))
    parts.append(escape(text[end:]))
    return Markup("").join(parts)


class Quote(NamedTuple):
    """A place of the conversation that the evidence on a rule names."""

    rule: int
    turn: int
    """Index into the turns."""
    start: int
    """Where the quoted text begins; `start == end` where only the turn is named."""
    end: int


def find_quotes(rubric: Sequence[RubricEntry], turns: Sequence[Turn]) -> list[Quote]:
    """The places of the conversation that the evidence quotes or names, whatever its form.

    A quote is a text of the evidence, or a part of it in quotation marks, that stands in a turn word
    for word; where the evidence names a turn beside it, in that turn only. A turn that is named
    without such a quote is a place as a whole.

    Returns:
        The places, by turn and position, without repeats; empty without evidence.
    """
    found: dict[Quote, None] = {}
    for entry in rubric:
        for text, number, role in _leaves(entry.evidence, None, None):
            among = [
                i
                for i, turn in enumerate(turns)
                if (number is None or turn.number == number) and (role is None or turn.role == role)
            ]
            places = _places(entry.rule, text, turns, among)
            if not places and number is not None:
                places = [Quote(entry.rule, i, 0, 0) for i in among]
            found.update(dict.fromkeys(places))
    exact = {(quote.rule, quote.turn) for quote in found if quote.end}
    kept = [q for q in found if q.end or (q.rule, q.turn) not in exact]
    return sorted(kept, key=lambda q: (q.turn, q.start, q.end, q.rule))


def _places(rule: int, text: str, turns: Sequence[Turn], among: Sequence[int]) -> list[Quote]:
    parts = [text, *(one or other for one, other in _QUOTED.findall(text))]
    found = []
    for part in (part.strip() for part in parts):
        if len(part) < _SHORTEST_QUOTE:
            continue
        for i in among:
            start = turns[i].text.find(part)
            if start >= 0:
                found.append(Quote(rule, i, start, start + len(part)))
                break
    return found


def _leaves(
    value: Any, number: int | None, role: str | None
) -> Iterator[tuple[str, int | None, str | None]]:
    """The texts of nested evidence, each with the turn and role that stand beside it."""
    if isinstance(value, str):
        named = _NAMED_TURN.search(value) if number is None else None
        yield value, int(named[1]) if named else number, role
    elif isinstance(value, Mapping):
        turn = value.get("turn")
        number = turn if isinstance(turn, int) and not isinstance(turn, bool) else number
        role = {"user": "user", "chatbot": "chatbot"}.get(str(value.get("role")).lower(), role)
        texts = [item for key, item in value.items() if key not in ("turn", "role", "validator")]
        for item in texts:
            yield from _leaves(item, number, role)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _leaves(item, number, role)


def mark_quotes(text: str, quotes: Sequence[Quote]) -> Markup:
    """Escape a turn's text, and mark the places that the evidence quotes.

    Args:
        text: The turn's text.
        quotes: The places in this turn; they may overlap.
    """
    edges = sorted({0, len(text), *(q.start for q in quotes), *(q.end for q in quotes)})
    parts = []
    for start, end in pairwise(edges):
        piece = escape(printable(text[start:end]))
        rules = dict.fromkeys(q.rule for q in quotes if q.start <= start and end <= q.end)
        if rules:
            named = ", ".join(map(str, sorted(rules)))
            piece = Markup('<mark title="evidence on rule {}">{}</mark>').format(named, piece)
        parts.append(piece)
    return Markup("").join(parts)


def tree(value: Any) -> Markup:
    """Nested values, whatever their form, as nested lists."""
    if isinstance(value, Mapping):
        items = Markup("").join(
            Markup("<li><b>{}</b> {}</li>").format(printable(str(key)), tree(item))
            for key, item in value.items()
        )
        return Markup("<ul>{}</ul>").format(items)
    if isinstance(value, list | tuple):
        if all(not isinstance(item, Mapping | list | tuple) for item in value):
            return escape(", ".join(printable(_word(item)) for item in value) or "none")
        return Markup("<ul>{}</ul>").format(
            Markup("").join(Markup("<li>{}</li>").format(tree(item)) for item in value)
        )
    return escape(printable(_word(value)))


def _word(value: Any) -> str:
    return (
        {True: "yes", False: "no", None: "unknown"}.get(value, str(value))
        if (value is None or isinstance(value, bool))
        else str(value)
    )
