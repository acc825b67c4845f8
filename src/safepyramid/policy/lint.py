"""What an author should look at again in a policy."""

import re
from collections.abc import Iterator
from difflib import SequenceMatcher
from graphlib import CycleError, TopologicalSorter
from itertools import combinations

from safepyramid.policy.text import MENTION, mentioned_rules
from safepyramid.schema import Policy, Rule

NEARLY_THE_SAME = 0.9
"""From this share of common words (difflib's ratio) on, two rules are reported as alike."""

_VAGUE = re.compile(
    r"\b(?:adequate(?:ly)?|(?:in)?appropriate(?:ly)?|as needed|excessive(?:ly)?|good faith|helpful(?:ly)?|"
    r"proper(?:ly)?|(?:un)?reasonabl[ey]|sensibl[ey]|sufficient(?:ly)?|suitabl[ey]|timely|undu(?:e|ly)|"
    r"(?:when|where) possible)\b",
    re.IGNORECASE,
)
_DUTY = re.compile(
    r"\b(?:must|may not|should|shall|cannot|never|requires?|required|waived|forbidden|prohibited)\b"
    r"|\bno(?:thing|body| one)?\b[^.]*\bmay\b|\bmay\b[^.]*\bonly\b",
    re.IGNORECASE,
)
_TWO_DUTIES = re.compile(r"\bmust\b.*\band\b[^,;]*\bmust\b", re.IGNORECASE | re.DOTALL)
_SENTENCE = re.compile(r"(?<=[.!?;])\s+")
_MODIFIES = re.compile(
    r"\b(?:is|are) (?:waived|overridden|suspended)\b|\btakes? precedence\b|\boverrides (?:the|this|that|any|all|every)\b|"
    r"\bsupersedes?\b|\bdoes not apply\b|\balso requires\b",
    re.IGNORECASE,
)
_WAIVES = re.compile(
    rf"(?:{MENTION})\s+(?:is|are)\s+(?:waived|overridden|suspended|set aside)", re.IGNORECASE
)
_INNER_NUMBER = re.compile(r"^[ \t]*(?:Rule[ \t]+)?(\d{1,3})[.):][ \t]", re.MULTILINE)


def lint_policy(policy: Policy) -> list[str]:
    """List what makes a policy hard to judge by.

    Reports references to missing rules, rules that waive each other in a circle, gaps in the
    numbering, rules that are (nearly) the same, two duties in one sentence, vague words, rules
    that demand nothing, modifiers that do not say which rule they modify, and lines inside a rule
    that look like a second rule of an existing number.

    Args:
        policy: A policy as `parse_policy` gives it.

    Returns:
        One line per finding, the whole policy first, then by rule in the order of the text.
        Empty if there is nothing to report.
    """
    findings = list(_numbering(policy))
    findings += _circles(policy)
    findings += _twins(policy)
    numbers = {rule.number for rule in policy.rules}
    for rule in policy.rules:
        findings += (f"rule {rule.number}: {finding}" for finding in _in_rule(rule, numbers))
    return findings


def _numbering(policy: Policy) -> Iterator[str]:
    numbers = [rule.number for rule in policy.rules]
    if twice := sorted({number for number in numbers if numbers.count(number) > 1}):
        yield f"numbers used more than once: {_listed(twice)}"
    if gaps := sorted(set(range(1, max(numbers, default=0))) - set(numbers)):
        yield f"numbers 1 to {max(numbers)} have gaps: no rule {_listed(gaps)}"


def _circles(policy: Policy) -> Iterator[str]:
    waived = {
        rule.number: {*rule.overrides, *_waived_in(rule.text)} - {rule.number}
        for rule in policy.rules
    }
    try:
        TopologicalSorter(waived).prepare()
    except CycleError as error:
        yield f"rules override each other in a circle: {_listed(sorted(set(error.args[1])))}"


def _waived_in(text: str) -> set[int]:
    return {n for match in _WAIVES.finditer(text) for n in mentioned_rules(match.group())}


def _twins(policy: Policy) -> Iterator[str]:
    words = {rule.number: rule.text.lower().split() for rule in policy.rules}
    for one, other in combinations(sorted(words), 2):
        matcher = SequenceMatcher(None, words[one], words[other], autojunk=False)
        if matcher.real_quick_ratio() < NEARLY_THE_SAME or matcher.quick_ratio() < NEARLY_THE_SAME:
            continue
        if words[one] == words[other]:
            yield f"rules {one} and {other} have the same text"
        elif matcher.ratio() >= NEARLY_THE_SAME:
            yield f"rules {one} and {other} have nearly the same text"


def _in_rule(rule: Rule, numbers: set[int]) -> Iterator[str]:
    if missing := [number for number in rule.references if number not in numbers]:
        yield f"names rules that do not exist: {_listed(missing)}"
    if any(_TWO_DUTIES.search(sentence) for sentence in _SENTENCE.split(rule.text)):
        yield "two duties in one sentence; make two rules, or one of them can be half broken"
    for word in dict.fromkeys(word.lower() for word in _VAGUE.findall(rule.text)):
        yield f'vague word "{word}"; say what can be seen in the conversation'
    if not _DUTY.search(rule.text):
        yield "demands nothing; say what must, must not or may not be"
    if _MODIFIES.search(rule.text) and not rule.references:
        yield "modifies other rules and does not say which; name them by number"
    for number in _INNER_NUMBER.findall(rule.text):
        if int(number) in numbers:
            yield f"a line inside it begins with {number}; if it is a rule, give it a free number"


def _listed(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers))
