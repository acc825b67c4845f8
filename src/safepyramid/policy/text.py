"""Where the rules of a policy text begin, and which rules a rule's text names.

Policies come in many shapes: `3. text`, `3) text`, `[3] text`, `Rule 3: text`, with bullets and
bold type, in any order of the numbers, apart by one newline or by blank lines. Bodies and
frameworks hold numbered lists of their own. What tells the rules from such lists is that their
numbers are 1 to N, each exactly once.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise, permutations
from typing import NamedTuple

_MARK = re.compile(
    r"^(?P<indent>[ \t]*)(?P<lead>[-*+•](?=[ \t])|\#{1,6}(?=[ \t]))?[ \t]*(?P<bold>\*\*|__)?"
    r"(?:Rule[ \t]+\#?(?P<rule>\d{1,3})(?P<inner>\*\*|__)?[ \t]*(?:[.:)]|[-–—](?=\s))"
    r"|(?P<dot>\d{1,3})\.|(?P<paren>\d{1,3})\)|\[(?P<square>\d{1,3})\]|\((?P<round>\d{1,3})\))"
    r"(?P<close>\*\*|__)?:?(?=\s|\Z)[ \t]*",
    re.MULTILINE | re.IGNORECASE,
)
_KINDS = ("rule", "dot", "paren", "square", "round")
_AFTER_BLANK_LINE = re.compile(r"(?:\A|\n[ \t\r]*\n)\s*\Z")
_LOOK_BACK = 100
"""How many characters before a line tell whether a blank line or a lead-in precedes it."""

_DUTY = re.compile(
    r"\b(?:must|may not|should|shall|cannot|can not|never|requires?|required|waived?|forbidden|"
    r"prohibited|do not|does not)\b",
    re.IGNORECASE,
)

MAX_LISTS = 6
"""More lists than this beside the rules are not tried in every combination."""


class RuleStart(NamedTuple):
    """A line that may begin a rule, where it is not plain which lines do."""

    mark: re.Match[str]
    number: int
    kind: str
    """How the number is written: one of rule, dot, paren, square, round."""
    style: str
    """The kind with indent, bullet or heading sign, and bold type."""
    spaced: bool
    """Whether a blank line, or nothing, stands before it."""
    led_in: bool
    """Whether the text before it ends like one that announces a list."""
    duty: bool
    """Whether its text says that something must or must not be."""
    opening_word: str
    """The first word of its text: the rules of one policy tend to begin alike."""


def split_rules(text: str) -> tuple[str, list[tuple[int, str]]]:
    """Split a policy text into what stands before its rules, and the rules.

    Args:
        text: A policy text, without its framework where that is known.

    Returns:
        The text before the first rule, and (number, body) in the order of the text, both without
        surrounding white space. No rules when no line begins like one.
    """
    marks = list(_MARK.finditer(text))
    if not marks:
        return text.strip(), []
    if not _is_clean(map(_number, marks)):
        marks = _rule_marks(text, marks)
    rules = []
    ends = [mark.start() for mark in marks[1:]] + [len(text)]
    for mark, end in zip(marks, ends, strict=True):
        # `**3. Title.** text`: bold type that closes within the body is part of it.
        opening = "" if mark["close"] or mark["inner"] else mark["bold"] or ""
        rules.append((_number(mark), opening + text[mark.end() : end].strip()))
    return text[: marks[0].start()].strip(), rules


def _number(mark: re.Match[str]) -> int:
    return int(mark["dot"] or mark["rule"] or mark["paren"] or mark["square"] or mark["round"])


def _is_clean(numbers: Iterable[int]) -> bool:
    """Whether the numbers are 1 to N, each once."""
    ordered = sorted(numbers)
    return ordered == list(range(1, len(ordered) + 1))


def _rule_marks(text: str, marks: list[re.Match[str]]) -> list[re.Match[str]]:
    """The lines at which the rules begin: the best reading over all ways to write numbers."""
    groups: dict[str, list[RuleStart]] = defaultdict(list)
    for candidate in _candidates(text, marks):
        groups[candidate.style].append(candidate)
        groups["any " + candidate.kind].append(candidate)
        groups["any"].append(candidate)
    best = max((_best_reading(group) for group in groups.values()), key=_weight)
    return [start.mark for start in best]


def _candidates(text: str, marks: list[re.Match[str]]) -> Iterator[RuleStart]:
    for index, mark in enumerate(marks):
        end = marks[index + 1].start() if index + 1 < len(marks) else len(text)
        kind = next(kind for kind in _KINDS if mark[kind])
        before = text[max(0, mark.start() - _LOOK_BACK) : mark.start()]
        yield RuleStart(
            mark=mark,
            number=_number(mark),
            kind=kind,
            style=f"{mark['indent']}{mark['lead'] or ''} {mark['bold'] or ''}{kind}",
            spaced=_AFTER_BLANK_LINE.search(before) is not None,
            led_in=before.rstrip().endswith((":", ";", ",")),
            duty=_DUTY.search(text, mark.end(), end) is not None,
            opening_word=(text[mark.end() : mark.end() + 20].split(None, 1) or [""])[0],
        )


def _weight(reading: list[RuleStart]) -> tuple[bool, bool, int, int]:
    """Numbers 1 to N first, then lines that say "Rule", then duties, then how many rules."""
    clean = _is_clean(start.number for start in reading)
    named = clean and len(reading) > 1 and reading[0].kind == "rule"
    return clean, named, sum(start.duty for start in reading), len(reading)


def _best_reading(group: list[RuleStart]) -> list[RuleStart]:
    """The most likely rules among lines that are written alike."""
    if _is_clean(start.number for start in group):
        return group
    readings = [[group[i] for i in kept] for kept in _clean_readings([c.number for c in group])]
    if readings:
        return max(readings, key=_likeness)
    return _one_of_each(group)


def _likeness(reading: list[RuleStart]) -> tuple[int, ...]:
    """How much the lines look like rules of one policy; a list before the rules loses a tie."""
    duties = sum(start.duty for start in reading)
    return (
        duties,
        -_spacing_breaks(reading),
        Counter(start.opening_word for start in reading).most_common(1)[0][1],
        duties - len(reading),
        -sum(start.led_in for start in reading),
        sum(start.mark.start() for start in reading),
    )


def _spacing_breaks(reading: list[RuleStart]) -> int:
    """How many lines are not set apart from what precedes them as most of the others are."""
    spaced = sum(start.spaced for start in reading[1:])
    return min(spaced, len(reading) - 1 - spaced)


def _clean_readings(numbers: list[int]) -> Iterator[list[int]]:
    """All ways to drop lists 1, 2, 3, … so that 1 to N remain, each once: the indices kept."""
    firsts = [index for index, number in enumerate(numbers) if number == 1]
    if len(firsts) - 1 > MAX_LISTS:
        return
    counts = Counter(numbers)
    top = max(numbers, default=0)
    runs = {first: _run_length(numbers, first) for first in firsts}
    for size in range(top, 0, -1):
        # How many of the dropped lists are at least n long follows from how often n occurs.
        need = [counts[n] - (n <= size) for n in range(1, top + 2)]
        if min(need[:top]) < 0 or any(a < b for a, b in pairwise(need)):
            continue
        lengths = [n for n in range(1, top + 1) for _ in range(need[n - 1] - need[n])]
        for kept_first in firsts:
            dropped_firsts = [first for first in firsts if first != kept_first]
            for order in set(permutations(lengths)):
                pairs = list(zip(dropped_firsts, order, strict=True))
                if all(length <= runs[first] for first, length in pairs):
                    dropped = {first + i for first, length in pairs for i in range(length)}
                    yield [i for i in range(len(numbers)) if i not in dropped]


def _run_length(numbers: list[int], first: int) -> int:
    length = 1
    while first + length < len(numbers) and numbers[first + length] == length + 1:
        length += 1
    return length


def _one_of_each(group: list[RuleStart]) -> list[RuleStart]:
    """For numbers that are not 1 to N: per number the likeliest line, without stray numbers.

    A number beyond a gap is a rule if its line looks like the others and at most every third
    number is missing: then a gap can be reported instead of hiding rules.
    """
    spaced = sum(start.spaced for start in group[1:]) * 2 >= len(group) - 1
    words = Counter(start.opening_word for start in group)
    by_number: dict[int, list[RuleStart]] = defaultdict(list)
    for start in group:
        by_number[start.number].append(start)
    chosen = [
        max(same, key=lambda s: (s.duty, s.spaced == spaced, not s.led_in, words[s.opening_word]))
        for same in by_number.values()
    ]
    contiguous = 0
    while contiguous + 1 in by_number:
        contiguous += 1
    kept = [
        start
        for start in chosen
        if start.number <= contiguous
        or (start.number * 2 <= len(chosen) * 3 and start.duty and (start.spaced or not spaced))
    ]
    return sorted(kept or chosen, key=lambda start: start.mark.start())


_NUMBER = r"\#?\d{1,3}(?!\d|\.\d|\s*%|\s*(?:percent|minutes?|hours?|days?|weeks?|months?|years?)\b)"
_TO = r"(?:\s*[-–—]\s*|\s+(?:through|thru|to)\s+)(?:rules?\s+)?"
_ITEM = rf"{_NUMBER}(?:{_TO}{_NUMBER})?"
_AND = r"\s*,?\s*(?:and/or|and|or|&|/)\s*(?:rules?\s+)?"
MENTION = (
    rf"\brules\s+{_ITEM}(?:\s*,\s*{_ITEM})*(?:{_AND}{_ITEM})*"
    rf"|\brule\s+(?:no\.\s*|number\s+)?{_ITEM}"
)
"""A pattern for "Rule 16", "Rules 3, 5 and 9", "Rules 4-6"; use it without regard to case."""

_MENTION = re.compile(MENTION, re.IGNORECASE)
_NOTE = re.compile(r"(?<!\s)\s*+\[\s*+overrides?\b\s*+:?([^\[\]\d]*+\d[^\[\]]*+)\]", re.IGNORECASE)
_SPAN = re.compile(rf"(\d{{1,3}})(?:{_TO}\#?(\d{{1,3}}))?", re.IGNORECASE)


def take_notes(body: str) -> tuple[str, tuple[int, ...]]:
    """Remove `[overrides: Rule 16]` notes from a rule's body.

    Returns:
        The body without notes, and the rules that they name, in order, without repeats.
    """
    notes = _NOTE.findall(body) if "[" in body else []
    return (_NOTE.sub("", body).strip(), _numbers(notes)) if notes else (body, ())


def mentioned_rules(text: str) -> tuple[int, ...]:
    """The rules that a text names by number, in order, without repeats."""
    return _numbers(_MENTION.findall(text)) if "rule" in text.lower() else ()


def _numbers(texts: Iterable[str]) -> tuple[int, ...]:
    numbers: dict[int, None] = {}
    for text in texts:
        for low, high in _SPAN.findall(text):
            last = int(high) if high else int(low)
            span = range(int(low), last + 1) if int(low) <= last else (int(low), last)
            numbers.update(dict.fromkeys(span))
    return tuple(numbers)
