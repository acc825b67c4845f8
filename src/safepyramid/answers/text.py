"""The text of a model's reply: what of it may be read, and the JSON that stands in it.

Knows nothing about answers. Every function takes linear time and raises at most `ValueError`.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

MAX_DIGITS = 6
"""Longer integers are decoded as None: nothing that is read here is that large."""
MAX_DEPTH = 64
"""JSON inside other text is not read beyond this nesting."""
MAX_PIECES = 1_000
"""How many pieces of JSON inside other text are looked at; more is noise."""


class Pairs(tuple[tuple[str, Any], ...]):
    """A JSON object with all its pairs: a repeated key is kept, not overwritten."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Broken:
    """A piece of text that begins like JSON and is none."""

    text: str


# --- Wrapping ------------------------------------------------------------------------------------

_TAG = r"(?:seed:)?(?:think|thinking|thoughts?|reasoning|reflection|scratchpad)"
_THINK_OPEN = rf"<{_TAG}(?:\s[^<>]{{0,80}})?>|\[THINK\]|◁think▷"
_THINK_CLOSE = re.compile(rf"</{_TAG}\s?>|\[/THINK\]|◁/think▷", re.IGNORECASE)
_THINK_UNCLOSED = re.compile(rf"^[ \t]*(?:{_THINK_OPEN})", re.IGNORECASE | re.MULTILINE)
_HARMONY = re.compile(r"<\|(channel|message|end|return|start|call|constrain)\|>")
# Harmony whose special tokens were dropped when the reply was turned into text.
_BARE_ANALYSIS = re.compile(r"(?:assistant)?analysis(?=[^\W_]|[{\[\"'])")
_END_TOKENS = (
    "<|return|>",
    "<|end|>",
    "<|call|>",
    "<|im_end|>",
    "<|eot_id|>",
    "<|endoftext|>",
    "</s>",
)


def trimmed(text: str) -> str:
    """The text without blanks and byte order marks around it."""
    return text.strip().strip("\ufeff").strip()


def unfenced(text: str) -> str:
    """The inside of a text that as a whole is one code fence; any other text as it is."""
    if not text.endswith("```"):
        return text
    fence = re.fullmatch(r"```[\w+-]*+[ \t]*+\n?+(.*)```", text, re.DOTALL)
    return fence[1] if fence else text


def visible(text: str) -> str:
    """The part of a text that is meant to be read.

    Harmony messages are reduced to the final channel, or to the commentary channel where there
    is no final one; thinking is dropped up to the last closing tag, and from an opening tag at
    the start of a line that is never closed. Empty where the text is thinking only.
    """
    text = trimmed(text)
    if "<|channel|>" in text or "<|message|>" in text:
        text = _harmony_answer(text)
    else:
        text = _bare_harmony_answer(text)
    closings = list(_THINK_CLOSE.finditer(text))
    if closings:
        text = text[closings[-1].end() :]
    unclosed = _THINK_UNCLOSED.search(text)
    if unclosed:
        text = text[: unclosed.start()]
    text = text.rstrip()
    for token in _END_TOKENS:
        text = text.removesuffix(token).rstrip()
    return trimmed(text)


def _harmony_answer(text: str) -> str:
    head, *rest = _HARMONY.split(text)
    # The first token is sometimes lost: `analysis<|message|>…`.
    channel = head.strip().removeprefix("assistant")
    messages: list[tuple[str, str]] = []
    for token, content in zip(rest[::2], rest[1::2], strict=True):
        if token == "channel":
            channel = content.strip()
        elif token == "start":
            channel = ""
        elif token == "message":
            messages.append((channel.partition(" ")[0], content))
    final = [content for name, content in messages if name in ("final", "")]
    commentary = [content for name, content in messages if name.startswith("commentary")]
    return "\n".join(final or commentary)


def _bare_harmony_answer(text: str) -> str:
    for mark in ("assistantfinal", "assistantcommentary"):
        _, found, answer = text.rpartition(mark)
        if found:
            return answer
    return "" if _BARE_ANALYSIS.match(text) else text


# --- JSON ----------------------------------------------------------------------------------------


def _short_int(digits: str) -> int | None:
    return int(digits) if len(digits.lstrip("-")) <= MAX_DIGITS else None


_DECODER = json.JSONDecoder(object_pairs_hook=Pairs, parse_int=_short_int, strict=False)
_TRAILING_COMMA = re.compile(r",\s*[}\]]")
_STRING_OR_COMMA = re.compile(r'("(?:[^"\\]++|\\.)*+"?)|,(?=\s*[}\]])', re.DOTALL)


def decoded(text: str) -> Any:
    """Decode a whole text as JSON; trailing commas and raw newlines in strings are forgiven.

    Returns:
        The value, with objects as `Pairs` and integers of more than `MAX_DIGITS` digits as None.

    Raises:
        ValueError: The text is no JSON, or is nested too deeply.
    """
    try:
        try:
            return _DECODER.decode(text)
        except ValueError:
            if not _TRAILING_COMMA.search(text):
                raise
            return _DECODER.decode(_STRING_OR_COMMA.sub(r"\1", text))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def plain_json(text: str) -> Any:
    """What `json.loads` makes of a text as it is; None where it raises."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def whole_json(text: str) -> tuple[Any, str] | None:
    """Decode a text that as a whole, fence or thinking aside, is one JSON value.

    Returns:
        The value and what it may need saying about its form; None for any other text.
    """
    whole, shown = trimmed(text), visible(text)
    try:
        return decoded(unfenced(whole)), "another form than asked"
    except ValueError:
        if shown == whole:
            return None
    try:
        return decoded(unfenced(shown)), "wrapping set aside"
    except ValueError:
        return None


def folded(key: str) -> str:
    """A key in one spelling: `Violated-Rules` and `violatedRules` are the same."""
    return re.sub(r"[\W_]+", "", key).casefold()


def keyed(value: Any, *keys: str) -> list[tuple[str, Any]]:
    """The pairs whose folded key is wanted, from the shallowest level that has any."""
    level = [value]
    while level:
        objects = [pair for node in level if isinstance(node, Pairs) for pair in node]
        found = [(name, child) for key, child in objects if (name := folded(key)) in keys]
        if found:
            return found
        items = [item for node in level if isinstance(node, list) for item in node]
        level = [*(child for _, child in objects), *items]
    return []


_QUOTES = "\"'“”„‘’«»「」"
_TOKEN = re.compile(r'"(?:[^"\\]++|\\.)*+(?P<closed>"?)|[{\[]|[}\]]', re.DOTALL)
_LABEL = r"""["']?(?:(?:the|my)\s)?(?:final\s)?(?:answer|result|output|violations|violated[ _-]?rules)["']?"""
# A bare list is an answer only where it cannot be a citation: at the start of the text or of a
# fence, or behind a label. An object must look like one: `{name}` and `{{` are prose.
_OPENING = re.compile(
    rf"(?P<think>{_THINK_OPEN})"
    r'|\{(?=\s*["}])'
    r"|(?P<list>\A[\s`*_]*|^```\w*\s*"
    rf"|^[ \t*_>#-]{{0,8}}{_LABEL}[ \t*_]{{0,4}}(?:is|are)?[ \t*_]{{0,4}}[:=][\s*_`]{{0,8}})"
    r'\[(?=\s*["\[\]{\d-])',
    re.IGNORECASE | re.MULTILINE,
)
_AFTER_LIST = re.compile(
    r"[ \t.`*_]*+(?:\((?![^()\n]*\bnot\b)[^()\n]*+\)[ \t.`*_]*+)?$", re.IGNORECASE | re.MULTILINE
)
_CHECKBOX = re.compile(r"\W*(?:rule|\d|\[)", re.IGNORECASE)


def pieces(text: str) -> Iterator[Any]:
    """The outermost pieces of JSON inside a text, in order.

    Objects anywhere, and lists that start the text or a fence or follow a label such as
    "Answer:". Nothing inside a piece is looked at again, so what stands in a string or in
    broken JSON is never taken for a piece of its own. A piece directly inside quotation marks
    is a quotation and is passed over. An opening tag of thinking ends the text.

    Yields:
        Decoded values as `decoded` returns them, or `Broken`.
    """
    position = 0
    for _ in range(MAX_PIECES):
        opening = _OPENING.search(text, position)
        if opening is None or opening["think"]:
            return
        start = opening.end() - 1
        end = _balanced_end(text, start)
        if end is None:
            yield Broken(text[start:])
            return
        position = end
        if _is_quoted(text, start, end):
            continue
        if opening["list"] is not None and not _is_list_alone(text, opening, end):
            continue
        try:
            yield decoded(text[start:end])
        except ValueError:
            yield Broken(text[start:end])
    yield Broken(text[position:])


def _balanced_end(text: str, start: int) -> int | None:
    """Where the bracket at `start` is closed; None if nowhere, or nested too deeply."""
    depth = 0
    for token in _TOKEN.finditer(text, start):
        if token["closed"] is not None:
            if not token["closed"]:
                return None
        elif token[0] in "{[":
            depth += 1
            if depth > MAX_DEPTH:
                return None
        else:
            depth -= 1
            if depth == 0:
                return token.end()
    return None


def _is_quoted(text: str, start: int, end: int) -> bool:
    return start > 0 and text[start - 1] in _QUOTES and text[end : end + 1] in tuple(_QUOTES)


def _is_list_alone(text: str, opening: re.Match[str], end: int) -> bool:
    """Whether no prose makes the list that ends here a citation ("[3] is not violated")."""
    if _AFTER_LIST.match(text, end):
        return True
    is_empty = text[opening.end() - 1 : end] == "[]"
    return is_empty and opening.start() == 0 and not _CHECKBOX.match(text, end)
