import pytest

from safepyramid.metrics.failures import (
    WrongRule,
    count_errors,
    count_failure_modes,
    failure_modes,
    wrong_rules,
)
from safepyramid.schema import Case, FailureModeMetadata, Level, RubricEntry, RuleType

TYPES = {
    1: "decisive",
    2: "decisive",
    3: "decisive",
    4: "distractor",
    5: "exception",
    6: "exception",
    7: "conditional",
}


def case(level="L1"):
    """Violated: 1; 3, through conditional 7; exception 5. Exception 5 waives 2."""
    gold = frozenset({1, 3, 5})
    return Case(
        id=f"frau-001-{level.lower()}",
        domain="fraud",
        level=Level(level),
        ground_truth_violations=gold,
        conversation="",
        framework="",
        policy="",
        rubric=tuple(RubricEntry(n, "", RuleType(t), n in gold) for n, t in TYPES.items()),
        failure_mode_metadata=FailureModeMetadata(frozenset({4}), frozenset({2}), frozenset({3})),
    )


@pytest.mark.parametrize(
    ("predicted", "errors", "modes"),
    [
        ({1, 3, 5}, [], []),
        ({1, 2, 3, 5}, [(2, "fp", "exception")], ["FM-C1"]),  # waived
        ({1, 3, 4, 5}, [(4, "fp", "distractor")], ["FM-D1"]),
        ({1, 3, 5, 6}, [(6, "fp", "exception")], []),  # its own type; no mode for it
        ({1, 3, 5, 7}, [(7, "fp", "conditional")], []),
        ({1, 3, 5, 40}, [(40, "fp", "unknown")], []),
        ({3, 5}, [(1, "fn", "decisive")], ["FM-V1"]),
        ({1, 5}, [(3, "fn", "conditional")], ["FM-V1", "FM-C3"]),
        ({1, 3}, [(5, "fn", "exception")], ["FM-V1"]),
        (
            set(),
            [(1, "fn", "decisive"), (3, "fn", "conditional"), (5, "fn", "exception")],
            ["FM-V1", "FM-C3"],
        ),
        (
            {2, 4},
            [
                (1, "fn", "decisive"),
                (2, "fp", "exception"),
                (3, "fn", "conditional"),
                (4, "fp", "distractor"),
                (5, "fn", "exception"),
            ],
            ["FM-V1", "FM-D1", "FM-C1", "FM-C3"],
        ),
    ],
)
def test_one_case(predicted, errors, modes):
    assert wrong_rules(case(), predicted) == [WrongRule(*error) for error in errors]
    assert failure_modes(case(), predicted) == modes


def test_l0_has_no_modifier_modes():
    assert failure_modes(case("L0"), {2}) == ["FM-V1"]


def test_every_error_is_counted_once():
    answered = [(case("L1"), {2, 40}), (case("L1"), {1, 3, 5}), (case("L2"), {1, 3, 5, 4})]
    counts = count_errors(answered)
    assert counts["L1"] == {
        "fp": {"decisive": 0, "distractor": 0, "exception": 1, "conditional": 0, "unknown": 1},
        "fn": {"decisive": 1, "distractor": 0, "exception": 1, "conditional": 1},
    }
    assert counts["L2"]["fp"]["distractor"] == 1
    total = sum(n for level in counts.values() for kind in level.values() for n in kind.values())
    assert total == sum(len(predicted ^ c.ground_truth_violations) for c, predicted in answered)


def test_modes_are_counted_by_case():
    answered = [(case("L1"), set()), (case("L1"), {2}), (case("L0"), {4}), (case("L2"), {1, 3, 5})]
    assert count_failure_modes(answered) == {
        "L0": {"FM-V1": 1, "FM-D1": 1},
        "L1": {"FM-V1": 2, "FM-D1": 0, "FM-C1": 1, "FM-C3": 2},
        "L2": {"FM-V1": 0, "FM-D1": 0, "FM-C1": 0, "FM-C3": 0},
    }
