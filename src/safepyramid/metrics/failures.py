"""Why answered cases fail: which kind of rule each error comes from, and how the case failed."""

from collections.abc import Iterable, Set
from typing import Literal, NamedTuple

from safepyramid.schema import Case, Level, RuleType

FAILURE_MODES = {
    "FM-V1": "missed a violated rule",
    "FM-D1": "flagged a distractor",
    "FM-C1": "flagged a rule that an exception waives",
    "FM-C3": "missed a rule that a conditional tightens",
}
"""Failure mode -> what happened. A failed case can have several, or none."""

UNKNOWN = "unknown"
"""The type of a rule number that the policy does not have."""


class WrongRule(NamedTuple):
    """One error of a case, and the kind of rule that it is put down to."""

    rule: int
    kind: Literal["fp", "fn"]
    type: str
    """A rule type, or "unknown"."""


def wrong_rules(case: Case, predicted: Set[int]) -> list[WrongRule]:
    """Put each error of an answered case down to the kind of rule that was misread.

    A flagged rule that an exception waives is an exception error, any other flagged rule is one of
    its own type; a number that the policy does not have is "unknown" (published tables count it
    as decisive). A missed rule that is violated only through a conditional is a conditional error,
    a missed exception an exception error, any other missed rule a decisive error.

    Returns:
        The errors by rule number; empty when the prediction is exact.
    """
    types = case.rule_types
    meta = case.failure_mode_metadata
    found = []
    for rule in sorted(predicted ^ case.ground_truth_violations):
        own = types.get(rule)
        if rule in predicted:
            waived = rule in meta.waived_rules
            kind: Literal["fp", "fn"] = "fp"
            type_ = RuleType.EXCEPTION.value if waived else (own.value if own else UNKNOWN)
        else:
            kind = "fn"
            if rule in meta.contradicted_rules:
                type_ = RuleType.CONDITIONAL.value
            elif own is RuleType.EXCEPTION:
                type_ = RuleType.EXCEPTION.value
            else:
                type_ = RuleType.DECISIVE.value
        found.append(WrongRule(rule, kind, type_))
    return found


def failure_modes(case: Case, predicted: Set[int]) -> list[str]:
    """How an answered case failed, as keys of `FAILURE_MODES`; empty when the prediction is exact.

    FM-D1 asks whether any distractor was flagged; since distractors are never violated, that is a
    false positive. FM-C1 and FM-C3 exist at L1 and L2 only. A case whose only errors are, say,
    flagged conditionals has no mode.
    """
    gold = case.ground_truth_violations
    if predicted == gold:
        return []
    meta = case.failure_mode_metadata
    signs = {
        "FM-V1": gold - predicted,
        "FM-D1": predicted & meta.distractor_rules,
    }
    if case.level is not Level.L0:
        signs["FM-C1"] = predicted & meta.waived_rules
        signs["FM-C3"] = meta.contradicted_rules & (gold - predicted)
    return [mode for mode, rules in signs.items() if rules]


def count_errors(
    answered: Iterable[tuple[Case, Set[int]]],
) -> dict[str, dict[str, dict[str, int]]]:
    """Count the errors of answered cases by level, kind and rule type.

    Returns:
        L0, L1, L2 -> "fp" and "fn" -> rule type -> errors. The four types are always there,
        "unknown" only where it occurs.
    """
    counts: dict[str, dict[str, dict[str, int]]] = {
        level.value: {kind: dict.fromkeys((t.value for t in RuleType), 0) for kind in ("fp", "fn")}
        for level in Level
    }
    for case, predicted in answered:
        for wrong in wrong_rules(case, predicted):
            row = counts[case.level.value][wrong.kind]
            row[wrong.type] = row.get(wrong.type, 0) + 1
    return counts


def count_failure_modes(
    answered: Iterable[tuple[Case, Set[int]]],
) -> dict[str, dict[str, int]]:
    """Count the answered cases that failed in each mode.

    Returns:
        L0 -> FM-V1 and FM-D1, L1 and L2 -> all four modes -> cases. A case counts in each of its
        modes, so the counts do not sum to the failed cases.
    """
    simple = ("FM-V1", "FM-D1")
    counts = {
        level.value: dict.fromkeys(simple if level is Level.L0 else FAILURE_MODES, 0)
        for level in Level
    }
    for case, predicted in answered:
        for mode in failure_modes(case, predicted):
            counts[case.level.value][mode] += 1
    return counts
