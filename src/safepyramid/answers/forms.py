"""What a JSON value, or plain wording, says: a set of violated rules, or a verdict on one rule.

One `Kind` for each. A form that people would read in one way only is read; anything else raises
`Unreadable`, and a value that was never meant as an answer raises `Absent`.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from safepyramid.answers.text import MAX_DIGITS, Pairs, folded, keyed, unfenced

T = TypeVar("T")


class Unreadable(ValueError):
    """Something that looks like an answer cannot be read, or says two things."""


class Absent(Unreadable):
    """Nothing looks like an answer."""


@dataclass(frozen=True, slots=True)
class Kind(Generic[T]):
    """How one kind of answer is understood."""

    key: re.Pattern[str]
    """What broken JSON holds if it was meant as an answer."""
    read_json: Callable[[Any], T]
    """A decoded value -> what it says; raises `Unreadable` or `Absent`."""
    read_words: Callable[[str, bool], list[T]]
    """Answers without JSON in a text; the flag: whether an answer in JSON stands beside them."""
    is_asked_form: Callable[[Any, T], bool]
    """Whether a value from `json.loads` has the asked form and says the same."""


def agreed(values: list[T]) -> T:
    """The one value that all of them are; raises `Unreadable` where they differ."""
    if any(value != values[0] for value in values):
        raise Unreadable("two different answers")
    return values[0]


def _shown(value: Any) -> str:
    """A short piece of a value, for a note."""
    if isinstance(value, str | float | int | None):
        return repr(value[:40] if isinstance(value, str) else value)
    return "a list" if isinstance(value, list) else "an object"


# --- Sets of rules -------------------------------------------------------------------------------

# Where an entry has its number, by preference; `id` may be a mere index beside another one.
_NUMBER_KEYS = (("rule", "rulenumber", "ruleno", "ruleid", "number"), ("id",))
_FLAG_KEYS = ("violated", "isviolated", "violation", "verdict", "status")
_LABEL = r"(?:rules?[\s_#:-]*(?:(?:number|no\.?)\s*)?|[r#](?=\d))"
_NUMBER = rf"{_LABEL}?(-?\d{{1,{MAX_DIGITS}}})(?:\.0+)?"
_NUMBERS = re.compile(
    rf"\s*{_NUMBER}(?:\s*(?:[,;，、]\s*(?:and\b\s*)?|&\s*|\band\b\s*){_NUMBER})*\s*", re.IGNORECASE
)
_EACH_NUMBER = re.compile(_NUMBER, re.IGNORECASE)
_BRACKETS = re.compile(r"\s*\[(.*)\]\s*", re.DOTALL)
_EXPLAINED = re.compile(
    rf"\s*(rules?[\s_#]*-?\d{{1,{MAX_DIGITS}}})\s*:\s*(?!rules?\b)([^\W\d].*)",
    re.IGNORECASE | re.DOTALL,
)
_SECOND_LABEL = re.compile(r"\brules?[\s_#]*\d+\s*:", re.IGNORECASE)
_DENIAL = re.compile(
    r"\W*(?:(?:is|was)\s+)?(?:not?[\s_-]+violat|non[\s_-]?violat|notviolat|complian"
    # "False claims about a cure" and "Complied with the demand" tell of violations.
    r"|false\b(?!\s+\w)|complied\b(?!\s+with\b(?!.{0,30}\b(?:rule|polic|requirement|standard)))"
    r"|(?:no|none|met|satisfied|pass(?:ed)?|n/?a|not\s+applicable)\W*$)",
    re.IGNORECASE,
)


def _rules_in_json(value: Any) -> frozenset[int]:
    found = keyed(value, "violatedrules")
    if found:
        if isinstance(value, list) and not all(keyed(item, "violatedrules") for item in value):
            raise Unreadable("a list that mixes answers and other things")
        return agreed([_rules_under_key(listed) for _, listed in found])
    if not isinstance(value, list):
        raise Absent("no violated_rules in the JSON")
    try:
        return _rules_in_list(value)
    except Unreadable as unreadable:
        raise Absent(str(unreadable)) from None


def _rules_under_key(value: Any) -> frozenset[int]:
    if isinstance(value, list):
        return _rules_in_list(value)
    if isinstance(value, Pairs):
        return _rules_in_object(value) if value else frozenset()
    brackets = _BRACKETS.fullmatch(value) if isinstance(value, str) else None
    if brackets:
        return _rules_in_scalar(brackets[1]) if brackets[1].strip() else frozenset()
    rules = _rules_in_scalar(value)
    if rules == {0}:
        raise Unreadable("0 may be a count")
    return rules


def _rules_in_list(values: list[Any]) -> frozenset[int]:
    return frozenset(rule for value in values for rule in _rules_in_item(value))


def _rules_in_item(value: Any) -> frozenset[int]:
    if isinstance(value, Pairs) and value:
        return _rules_in_object(value)
    explained = _EXPLAINED.fullmatch(value) if isinstance(value, str) else None
    if explained is None or _SECOND_LABEL.search(explained[2]):
        return _rules_in_scalar(value)
    _require_no_denial(explained[2])
    return _rules_in_scalar(explained[1])


def _rules_in_scalar(value: Any) -> frozenset[int]:
    if isinstance(value, str) and _NUMBERS.fullmatch(value):
        return frozenset(int(number) for number in _EACH_NUMBER.findall(value))
    is_whole = type(value) is int or (type(value) is float and value.is_integer())
    if is_whole and abs(value) < 10**MAX_DIGITS:
        return frozenset({int(value)})
    raise Unreadable(f"no rule number: {_shown(value)}")


def _rules_in_object(entry: Pairs) -> frozenset[int]:
    """An entry with a number (`rule`), or a map from numbers to explanations."""
    _require_no_denying_flag(entry)
    for keys in _NUMBER_KEYS:
        # A rule's text may stand under `rule`, its number under another key.
        numbers = [v for key, v in entry if folded(key) in keys and not _is_prose(v)]
        if numbers:
            return agreed([_rules_in_scalar(value) for value in numbers])
    for _, explanation in entry:
        if isinstance(explanation, int | float) and explanation is not True:
            raise Unreadable("a number in the place of an explanation")
        _require_no_denial(explanation)
        if isinstance(explanation, Pairs):
            _require_no_denying_flag(explanation)
    return frozenset(rule for key, _ in entry for rule in _rules_in_scalar(key))


def _is_prose(value: Any) -> bool:
    return isinstance(value, str) and not _NUMBERS.fullmatch(value)


def _require_no_denying_flag(entry: Pairs) -> None:
    for key, flag in entry:
        if folded(key) in _FLAG_KEYS:
            _require_no_denial(flag)


def _require_no_denial(value: Any) -> None:
    """Raise if what is said about a listed rule is nothing, or that it is not violated."""
    if value is None or value == 0 or (isinstance(value, str) and _DENIAL.match(value)):
        raise Unreadable("a rule is listed, but not said to be violated")


def _no_rules_in_words(text: str, beside_json: bool) -> list[frozenset[int]]:
    """Numbers in prose are never an answer."""
    return []


def _is_asked_list(value: Any, said: frozenset[int]) -> bool:
    listed = value.get("violated_rules") if isinstance(value, dict) else None
    if not isinstance(listed, list):
        return False
    numbers = [item.get("rule") if isinstance(item, dict) else item for item in listed]
    return all(type(number) is int for number in numbers) and said == frozenset(numbers)


RULES = Kind(
    key=re.compile(r"violated[\s_-]*rules", re.IGNORECASE),
    read_json=_rules_in_json,
    read_words=_no_rules_in_words,
    is_asked_form=_is_asked_list,
)


# --- Verdicts ------------------------------------------------------------------------------------

_WORDS = {
    "violated": True,
    "violation": True,
    "not violated": False,
    "notviolated": False,
    "non violated": False,
    "nonviolated": False,
    "no violation": False,
}
_TRUTHS = {"true": True, "yes": True, "false": False, "no": False}
_VERDICT_LINE = re.compile(
    r"^[ \t*_#>-]{0,8}(?:(?:the|my)[ ])?(?:final[ ])?(?:verdict|answer|judge?ment|decision|conclusion)"
    r"[ \t*_]{0,4}(?:[:=]|is\b[ ]?:?)([^\n]{1,40})$",
    re.IGNORECASE | re.MULTILINE,
)
_WORDING = re.compile(
    r"((?:\bnot|\bnon|\bno|n['’]t|\bnever)[\s_*-]+(?:been\s+)?)?violat(?:ed|ions?)\b", re.IGNORECASE
)


def _word(text: str) -> str:
    """A verdict's wording in one spelling; empty for what is longer than any."""
    text = text.strip(" \t\r\n*_`\"'“”‘’.")
    return re.sub(r"[\s_‐‑–-]+", " ", text).casefold() if len(text) <= 40 else ""


def _verdict_in_json(value: Any) -> bool:
    found = keyed(value, "verdict", "violated")
    if found:
        return agreed([_verdict_under_key(key, said) for key, said in found])
    if isinstance(value, list | str):
        try:
            return _verdict_under_key("verdict", value)
        except Unreadable:
            pass
    raise Absent("no verdict in the JSON")


def _verdict_under_key(key: str, value: Any) -> bool:
    values = value if isinstance(value, list) and value else [value]
    return agreed([_verdict_in_scalar(key, item) for item in values])


def _verdict_in_scalar(key: str, value: Any) -> bool:
    if key == "violated" and isinstance(value, bool):
        return value
    words = _WORDS | _TRUTHS if key == "violated" else _WORDS
    word = _word(value) if isinstance(value, str) else ""
    if word not in words:
        raise Unreadable(f"no verdict: {_shown(value)}")
    return words[word]


def _verdict_in_words(text: str, beside_json: bool) -> list[bool]:
    for whole in (text, unfenced(text)):
        if _word(whole) in _WORDS:
            return [_WORDS[_word(whole)]]
    lines = [_word(line[1]) for line in _VERDICT_LINE.finditer(text)]
    said = [_WORDS[word] for word in lines if word in _WORDS]
    if said and not beside_json:
        agreed([*said, *(not wording[1] for wording in _WORDING.finditer(text))])
    return said


def _is_asked_verdict(value: Any, said: bool) -> bool:
    verdict = value.get("verdict") if isinstance(value, dict) else None
    return verdict == ("violated" if said else "not_violated")


VERDICT = Kind(
    key=re.compile(r'"\s*(?:verdict|violated)\s*"', re.IGNORECASE),
    read_json=_verdict_in_json,
    read_words=_verdict_in_words,
    is_asked_form=_is_asked_verdict,
)
