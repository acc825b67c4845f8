"""Policies as texts and as rules: reading, writing, and the net set of violated rules.

Where the rules of a text begin is decided in `text.py`; `lint_policy` lives in
`lint.py` and is reached from here.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple

from safepyramid.errors import DataError
from safepyramid.policy.lint import lint_policy
from safepyramid.policy.text import mentioned_rules, split_rules, take_notes
from safepyramid.schema import Policy, RubricEntry, Rule, RuleType

__all__ = [
    "RawJudgment",
    "Resolution",
    "find_framework",
    "lint_policy",
    "parse_policy",
    "related_rules",
    "render_policy",
    "resolve",
]


class RawJudgment(NamedTuple):
    """What is true of one rule taken alone, before the rules act on each other."""

    rule: int
    type: RuleType
    modifies: tuple[int, ...] = ()
    """Exceptions and conditionals: the rules they act on. Of no effect for base rules."""
    broken: bool = False
    """Decisive and distractor rules: whether the rule's own text is broken."""
    triggered: bool = False
    """Exceptions and conditionals: whether their conditions hold."""
    met: bool = True
    """Exceptions: whether their own standard is met. Conditionals: the tighter standard."""


class Resolution(NamedTuple):
    """What is true of the rules together. All four are sets of rule numbers."""

    violated: frozenset[int]
    """The net set: what a ground truth holds. Never a conditional."""
    waived: frozenset[int]
    """Base rules that an active exception names. Disjoint from `violated`."""
    contradicted: frozenset[int]
    """Base rules that keep to their own text and are violated through a conditional."""
    active: frozenset[int]
    """Modifiers that are triggered and that no active exception waives."""


def resolve(judgments: Iterable[RawJudgment]) -> Resolution:
    """Turn judgments of single rules into the set of rules that are violated together.

    A modifier is active when it is triggered and no active exception names it. A base rule that
    an active exception names is waived; else it is violated when an active, unmet conditional
    tightens it; else its own text decides. An active exception is violated when its standard,
    or an active conditional that tightens it, is unmet. A conditional is never violated; one
    that tightens another conditional makes that one's standard unmet with its own.

    Args:
        judgments: One per rule, in any order. None at all resolves to empty sets.

    Returns:
        The violated, waived and contradicted rules and the active modifiers.

    Raises:
        DataError: A rule is judged twice, a modifier acts on a rule without a judgment, or
            exceptions waive each other in a circle.
    """
    ordered = sorted(judgments, key=lambda judgment: judgment.rule)
    rules = {judgment.rule: judgment for judgment in ordered}
    modifiers = [judgment for judgment in ordered if judgment.type.is_modifier]
    _check_judgments(ordered, rules, modifiers)
    active = _active(modifiers)
    waived = _named(modifiers, RuleType.EXCEPTION, active)
    unmet = _unmet(modifiers, active)
    tightened = _named(modifiers, RuleType.CONDITIONAL, active & unmet)

    base = dict(rules)
    for modifier in modifiers:
        del base[modifier.rule]
    standing = base.keys() - waived
    broken = {rule for rule in standing if base[rule].broken}
    exceptions = {j.rule for j in modifiers if j.type is RuleType.EXCEPTION}
    return Resolution(
        violated=frozenset(broken | (standing & tightened) | (exceptions & active & unmet)),
        waived=frozenset(base.keys() & waived),
        contradicted=frozenset((standing & tightened) - broken),
        active=frozenset(active),
    )


def _check_judgments(
    ordered: list[RawJudgment], rules: dict[int, RawJudgment], modifiers: list[RawJudgment]
) -> None:
    if len(rules) < len(ordered):
        counts = Counter(judgment.rule for judgment in ordered)
        twice = [rule for rule, count in counts.items() if count > 1]
        raise DataError(
            f"rules judged more than once: {_listed(twice)}; give each rule one judgment"
        )
    missing = [
        f"{judgment.rule} -> {target}"
        for judgment in modifiers
        for target in judgment.modifies
        if target not in rules
    ]
    if missing:
        raise DataError(
            f"modifiers act on rules that do not exist: {_listed(missing)}; name rules of the policy"
        )


def _active(modifiers: list[RawJudgment]) -> set[int]:
    """Activity flows from each exception to the modifiers that it names, so that order decides."""
    triggered = {judgment.rule for judgment in modifiers if judgment.triggered}
    own = {judgment.rule for judgment in modifiers}
    waivers: dict[int, set[int]] = {}
    for judgment in modifiers:
        if judgment.type is RuleType.EXCEPTION:
            for target in judgment.modifies:
                if target in own:
                    waivers.setdefault(target, set()).add(judgment.rule)
    try:
        order = list(TopologicalSorter(dict(sorted(waivers.items()))).static_order())
    except CycleError as error:
        circle = sorted(set(error.args[1]))
        raise DataError(
            f"exceptions waive each other in a circle: rules {_listed(circle)}; "
            "let one of them no longer name another"
        ) from error
    active = triggered - waivers.keys()
    for rule in order:
        if rule in triggered and not waivers.get(rule, set()) & active:
            active.add(rule)
    return active


def _named(modifiers: list[RawJudgment], kind: RuleType, among: set[int]) -> set[int]:
    return {t for j in modifiers if j.type is kind and j.rule in among for t in j.modifies}


def _unmet(modifiers: list[RawJudgment], active: set[int]) -> set[int]:
    """Modifiers whose standard is unmet, their own or one that a conditional adds to it."""
    own = {judgment.rule for judgment in modifiers}
    unmet = {judgment.rule for judgment in modifiers if not judgment.met}
    while True:
        reached = _named(modifiers, RuleType.CONDITIONAL, active & unmet) & own
        if reached <= unmet:
            return unmet
        unmet |= reached


def _listed(items: Iterable[object]) -> str:
    return ", ".join(str(item) for item in items)


def parse_policy(text: str, framework: str = "") -> Policy:
    """Take a policy text apart.

    Rules may be numbered in any of the usual ways and stand in any order; their numbers are
    expected to be 1 to N, each once, which is how numbered lists inside a rule or the framework
    are told from the rules. Text after the last rule counts as part of it.

    Args:
        text: The whole policy text.
        framework: Its framework block, if known. Numbered lines inside it are never rules.
            Without effect if the text does not hold it.

    Returns:
        Instruction, framework (empty if not given or not in the text) and the rules in the order
        of the text. Notes such as `[overrides: Rule 16]` are moved from a rule's text to its
        `overrides`; a rule's own number is in neither `overrides` nor `mentions`.

    Raises:
        DataError: No line of the text begins like a rule.
    """
    before, framework, after = _cut_framework(text, framework)
    instruction, numbered = split_rules(f"{before}\n\n{after}" if framework else text)
    if not numbered:
        start = " ".join(text.split())[:60]
        raise DataError(
            f"no rules found in the policy {start!r}; number them, each on a new line: "
            "1. The chatbot must …"
        )
    return Policy(instruction, framework, tuple(_rule(n, body) for n, body in numbered))


def _rule(number: int, body: str) -> Rule:
    text, overrides = take_notes(body)
    return Rule(
        number,
        text,
        overrides=tuple(n for n in overrides if n != number),
        mentions=tuple(n for n in mentioned_rules(text) if n != number),
    )


def _cut_framework(text: str, framework: str) -> tuple[str, str, str]:
    """Text before the framework, the framework if it is there, text after it."""
    framework = framework.strip()
    if not framework:
        return text, "", ""
    # A block of whole lines, if possible: a short framework may also occur inside a sentence.
    at = f"\n{text}\n".find(f"\n{framework}\n")
    at = at if at >= 0 else text.find(framework)
    if at < 0:
        return text, "", ""
    return text[:at].rstrip(), framework, text[at + len(framework) :].strip("\n")


def find_framework(text: str) -> str:
    """The framework block of an L2 policy text for which it is not given.

    What stands before the rules is an instruction and then the framework, which begins at the
    first heading, or else at the second paragraph.

    Returns:
        The block, a verbatim part of the text; empty if it cannot be told from the instruction.
    """
    preamble, _ = split_rules(text)
    lines = preamble.split("\n")
    for number, line in enumerate(lines):
        if number and line.startswith("#"):
            return "\n".join(lines[number:])
    _, _, rest = preamble.partition("\n\n")
    return rest.strip()


def render_policy(instruction: str, framework: str, rules: Sequence[Rule]) -> str:
    """Write a policy text: the inverse of `parse_policy`.

    Args:
        instruction: What stands first; left out if empty.
        framework: What stands next; left out if empty.
        rules: In the order in which they are to stand. `overrides` become notes.

    Returns:
        The parts, separated by blank lines.
    """
    lines = [f"{rule.number}. {rule.text}{_note(rule.overrides)}" for rule in rules]
    return "\n\n".join(part for part in (instruction, framework, *lines) if part)


def _note(overrides: tuple[int, ...]) -> str:
    if not overrides:
        return ""
    return f" [overrides: Rule{'s' if len(overrides) > 1 else ''} {_listed(overrides)}]"


def related_rules(policy: Policy, rubric: Sequence[RubricEntry]) -> dict[int, tuple[Rule, ...]]:
    """For each rule that is judged, the rules it cannot be judged without.

    Rules are related if one is paired with the other in the rubric, or names it in its text.

    Args:
        policy: The policy with all its rules.
        rubric: Types and pairings. Rules that it lacks are judged too.

    Returns:
        For every rule that is not a conditional, in the order of the policy: the rules that
        modify it or that it modifies, by number, itself excluded. Pairings with rules that the
        policy lacks are left out.
    """
    rules = {rule.number: rule for rule in policy.rules}
    related: dict[int, set[int]] = {number: set() for number in rules}
    pairs = [(rule.number, other) for rule in policy.rules for other in rule.references]
    pairs += [(entry.rule, other) for entry in rubric for other in entry.paired_with]
    for one, other in pairs:
        if one in rules and other in rules and one != other:
            related[one].add(other)
            related[other].add(one)
    conditionals = {entry.rule for entry in rubric if entry.type is RuleType.CONDITIONAL}
    return {
        number: tuple(rules[other] for other in sorted(others))
        for number, others in related.items()
        if number not in conditionals
    }
