import pytest
from hypothesis import given
from hypothesis import strategies as st

from safepyramid.metrics.rulesets import (
    EPSILONS,
    RMR_TAUS,
    Errors,
    errors,
    matches,
    mean_match,
    tolerance,
)

SETS = st.frozensets(st.integers(1, 39), max_size=14)


@pytest.mark.parametrize(
    ("predicted", "gold", "expected"),
    [
        (set(), set(), Errors(0, 0, 0)),
        ({1, 2}, {1, 2}, Errors(0, 0, 2)),
        ({1, 2, 9}, {2, 3}, Errors(2, 1, 4)),
        (set(), {4, 5}, Errors(0, 2, 2)),
        # 99 is no rule of the policy: a false positive like any other.
        ({99}, set(), Errors(1, 0, 1)),
    ],
)
def test_errors(predicted, gold, expected):
    assert errors(predicted, gold) == expected


@pytest.mark.parametrize(
    ("size", "epsilon", "expected"),
    [
        (0, 50, 0),
        (9, 10, 0),
        (10, 10, 1),  # as floats, (1 - 0.9) * 10 = 0.99…
        (4, 20, 0),
        (5, 20, 1),
        (3, 30, 0),
        (4, 30, 1),
        (10, 30, 3),  # as floats, (1 - 0.7) * 10 = 3.00…04
        (11, 50, 5),
    ],
)
def test_tolerance_is_exact(size, epsilon, expected):
    assert tolerance(size, epsilon) == expected


@pytest.mark.parametrize(
    ("predicted", "gold", "first", "rmr"),
    [
        # first: the highest τ at which the case matches
        (set(), set(), "1.0", 1.0),
        ({1}, set(), None, 0.0),
        (set(), {1}, None, 0.0),
        (set(range(1, 11)) | {11}, set(range(1, 11)), "0.9", 0.75),
        ({1, 2, 3, 4}, {1, 2, 3, 4, 5}, "0.8", 0.5),
        ({1, 2, 3}, {1, 2, 3, 4}, "0.7", 0.25),
        # The larger count decides: one missed, two too many of four.
        ({1, 2, 3, 8, 9}, {1, 2, 3, 4}, "0.5", 0.0),
        ({1}, {1, 2}, "0.5", 0.0),
    ],
)
def test_matches(predicted, gold, first, rmr):
    taus = list(EPSILONS)
    start = taus.index(first) if first else len(taus)
    assert matches(predicted, gold) == {tau: i >= start for i, tau in enumerate(taus)}
    assert mean_match(predicted, gold) == rmr


def test_the_schedule():
    assert {tau: 100 - 100 * float(tau) for tau in EPSILONS} == EPSILONS
    assert RMR_TAUS == ("1.0", "0.9", "0.8", "0.7")


@given(SETS, SETS)
def test_identities(predicted, gold):
    found = errors(predicted, gold)
    assert found.fp == len(predicted - gold)
    assert found.fn == len(gold - predicted)
    assert found.union == len(predicted | gold)
    assert errors(gold, predicted) == (found.fn, found.fp, found.union)
    at = matches(predicted, gold)
    assert at["1.0"] == (predicted == gold) == (mean_match(predicted, gold) == 1.0)
    # A match at one τ is a match at every lower one.
    assert list(at.values()) == sorted(at.values())
    assert at == {
        tau: max(found[:2]) <= epsilon * len(gold) // 100 for tau, epsilon in EPSILONS.items()
    }
