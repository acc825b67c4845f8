"""Conversations as texts and as turns."""

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Literal

from safepyramid.errors import DataError
from safepyramid.schema import Turn

Role = Literal["user", "chatbot"]

MARK = re.compile(
    r"^Turn[ \t]+(\d+)[ \t]*[-–—][ \t]*(User|Chatbot|Assistant)[ \t]*:",
    re.MULTILINE | re.IGNORECASE,
)


def parse_conversation(text: str) -> tuple[Turn, ...]:
    """Split `Turn 1 - User: …`, `Turn 1 - Chatbot: …` into turns; `Assistant` is the chatbot.

    A turn begins only at the start of a line, and only with the number and role that come next:
    the roles alternate, and the number rises when the role that spoke first speaks again. Any
    other line of that form is part of the message that it stands in. What cannot be told apart is
    a message that quotes the very marker that comes next, at the start of a line.

    Returns:
        The turns, their texts without surrounding white space.

    Raises:
        DataError: The text is empty or does not begin with turn 1.
    """
    marks: list[tuple[Turn, re.Match[str]]] = []
    for match in MARK.finditer(text):
        role: Role = "user" if match[2].lower() == "user" else "chatbot"
        if (int(match[1]), role) == _next(marks[0][0], marks[-1][0]) if marks else match[1] == "1":
            marks.append((Turn(int(match[1]), role, ""), match))
    if not marks or text[: marks[0][1].start()].strip():
        start = " ".join(text.split())[:40]
        raise DataError(
            f"a conversation must begin with 'Turn 1 - User:' or 'Turn 1 - Chatbot:', not {start!r}"
        )
    ends = [match.start() for _, match in marks[1:]] + [len(text)]
    return tuple(
        replace(turn, text=text[match.end() : end].strip())
        for (turn, match), end in zip(marks, ends, strict=True)
    )


def _next(first: Turn, last: Turn) -> tuple[int, Role]:
    """Number and role of the turn that follows `last` in a conversation that `first` began."""
    role: Role = "chatbot" if last.role == "user" else "user"
    return last.number + (role == first.role), role


def render_conversation(turns: Iterable[Turn]) -> str:
    """Write turns as one text, a line or more each: the inverse of `parse_conversation`."""
    return "\n".join(
        f"Turn {turn.number} - {turn.role.capitalize()}: {turn.text}" for turn in turns
    )
