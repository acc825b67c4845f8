"""Intervals and tests on simulated data whose effect and clustering are known."""

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import false_discovery_control, permutation_test

from safepyramid.metrics.stats import (
    FEWEST,
    bootstrap,
    cases_needed,
    holm,
    paired_difference,
    rank_intervals,
)
from safepyramid.metrics.summary import CaseScore


def simulate(rng, conversations, *, ratio=False, shift=0.0, runs=1):
    """Three cases a conversation that share a success rate; runs differ by `shift` on average.

    The rates have mean 0.5 and are spread so widely (Beta(½, ½), intra-class correlation ½) that the
    variance of a mean is twice that of independent cases.
    """
    rates = np.repeat(rng.beta(0.5, 0.5, conversations), 3)
    ids = [f"c{i // 3}" for i in range(3 * conversations)]
    found = []
    for run in range(runs):
        moved = rates * (1 - run * 2 * shift)  # mean 0.5 − run · shift
        below = rng.integers(1, 9, len(ids)) if ratio else np.ones(len(ids), dtype=int)
        above = rng.binomial(below, moved)
        scores = [CaseScore(*row) for row in zip(ids, above.tolist(), below.tolist(), strict=True)]
        found.append({f"{s.conversation_id}-{i % 3}": s for i, s in enumerate(scores)})
    return found


def covered(intervals, truth):
    return np.mean([low <= truth <= high for low, high in intervals])


@pytest.mark.parametrize("ratio", [False, True], ids=["mean", "ratio of sums"])
def test_bootstrap_covers_and_the_naive_one_does_not(ratio):
    rng = np.random.default_rng(20)
    clustered, naive = [], []
    for _ in range(700):
        (scores,) = simulate(rng, 80, ratio=ratio)
        found = bootstrap(scores.values(), seed=rng, draws=800)
        clustered.append((found.low, found.high))
        alone = [s._replace(conversation_id=case) for case, s in scores.items()]
        found = bootstrap(alone, seed=rng, draws=800)
        naive.append((found.low, found.high))
    assert 0.93 <= covered(clustered, 0.5) <= 0.97
    # A 95 % interval that is 1/√2 as wide as it should be covers 83 %.
    assert covered(naive, 0.5) < 0.88


def test_few_conversations():
    rng = np.random.default_rng(21)
    intervals = []
    for _ in range(700):
        found = bootstrap(simulate(rng, 12)[0].values(), seed=rng, draws=800)
        intervals.append((found.low, found.high))
    assert 0.93 <= covered(intervals, 0.5) <= 0.98


@pytest.mark.parametrize("conversations", [2, 3])
def test_below_the_fewest_an_interval_would_not_hold(monkeypatch, conversations):
    assert conversations < FEWEST
    monkeypatch.setattr("safepyramid.metrics.stats.FEWEST", 2)
    rng = np.random.default_rng(25)
    intervals = []
    for _ in range(500):
        found = bootstrap(simulate(rng, conversations)[0].values(), seed=rng, draws=400)
        intervals.append((found.low, found.high))
    assert covered(intervals, 0.5) < 0.88


def test_the_fewest_hold_what_the_docs_say():
    rng = np.random.default_rng(26)
    intervals, differences = [], []
    for _ in range(700):
        one, other = simulate(rng, FEWEST, runs=2)
        found = bootstrap(one.values(), seed=rng, draws=400)
        intervals.append((found.low, found.high))
        paired = paired_difference(one, other, seed=rng, draws=400)
        differences.append((paired.low, paired.high))
    assert 0.9 <= covered(intervals, 0.5) <= 0.98
    assert 0.9 <= covered(differences, 0.0) <= 0.98


def test_a_sign_flip_test_of_fewer_than_the_fewest_finds_nothing():
    for conversations, found in ((FEWEST - 1, False), (FEWEST, True)):
        ones, zeros = scores_of(*[1] * conversations), scores_of(*[0] * conversations)
        assert (paired_difference(ones, zeros, seed=0).p_value <= 0.05) is found


def test_standard_error_is_the_spread_of_the_estimates():
    rng = np.random.default_rng(22)
    found = [bootstrap(simulate(rng, 60)[0].values(), seed=rng, draws=500) for _ in range(400)]
    spread = np.std([estimate.value for estimate in found])
    assert np.mean([estimate.stderr for estimate in found]) == pytest.approx(spread, rel=0.1)


def test_difference_covers_and_the_test_holds_its_level():
    rng = np.random.default_rng(23)
    under_null, intervals = [], []
    for _ in range(700):
        same = paired_difference(*simulate(rng, 60, runs=2), seed=rng, draws=400)
        under_null.append(same.p_value)
        shifted = paired_difference(*simulate(rng, 60, runs=2, shift=0.1), seed=rng, draws=800)
        intervals.append((shifted.low, shifted.high))
    assert 0.93 <= covered(intervals, 0.1) <= 0.97
    under_null = np.array(under_null)
    assert 0.03 <= np.mean(under_null <= 0.05) <= 0.07
    assert 0.15 <= np.mean(under_null <= 0.2) <= 0.25


def test_cases_needed_gives_the_power_it_promises():
    rng = np.random.default_rng(24)
    pilot = paired_difference(*simulate(rng, 4000, runs=2, shift=0.08), seed=rng, draws=10)
    cases = cases_needed(0.08, sd=pilot.sd, design_effect=pilot.design_effect)
    lows = [
        paired_difference(
            *simulate(rng, round(cases / 3), runs=2, shift=0.08), seed=rng, draws=600
        ).low
        for _ in range(600)
    ]
    assert np.mean(np.array(lows) > 0) == pytest.approx(0.8, abs=0.045)


def test_cases_needed_by_hand():
    # (1.95996 + 0.84162)² · 0.25 / 0.0025 = 784.9
    assert cases_needed(0.05, sd=0.5, design_effect=1) == 785
    assert cases_needed(-0.05, sd=0.5, design_effect=2) == 1570
    assert cases_needed(0.5, sd=0, design_effect=1) == 1
    with pytest.raises(ValueError, match="difference ≠ 0"):
        cases_needed(0, sd=0.5, design_effect=1)


def test_standard_size_is_fast():
    (scores,) = simulate(np.random.default_rng(0), 1000)
    bootstrap(list(scores.values())[:30], seed=0, draws=10)  # imports SciPy
    start = time.perf_counter()
    found = bootstrap(scores.values(), seed=0)
    assert time.perf_counter() - start < 2
    assert (found.cases, found.conversations) == (3000, 1000)


def test_seeds():
    (scores,) = simulate(np.random.default_rng(0), 30)
    again = bootstrap(scores.values(), seed=5, draws=200)
    assert bootstrap(scores.values(), seed=np.random.default_rng(5), draws=200) == again
    assert bootstrap(reversed(scores.values()), seed=5, draws=200) == again
    assert bootstrap(scores.values(), seed=6, draws=200) != again


def flat(value, conversations, denominator=1.0):
    return [CaseScore(f"c{i}", value, denominator) for i in range(conversations)]


@pytest.mark.parametrize(
    ("scores", "low", "high"),
    [
        # 1 − 0.05^(1/100) = 0.0295: the rule of three
        (flat(0.0, 100), 0.0, 0.0295),
        (flat(1.0, 100), 0.9705, 1.0),
        (flat(0.5, 100), 0.5 * 0.9705, 0.5 * 1.0295),
        (flat(2.0, 100, 8.0), 0.25 - 0.25 * 0.0295, 0.25 + 0.75 * 0.0295),
        (flat(0.0, FEWEST), 0.0, 0.3930),  # 1 − 0.05^(1/6)
    ],
)
def test_no_spread_is_no_certainty(scores, low, high):
    found = bootstrap(scores, seed=0, draws=100)
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-4)
    assert found.stderr > 0
    assert "bound" in found.note


def test_conversations_alike_though_cases_differ():
    scores = [CaseScore(f"c{i}", float(j), 1.0) for i in range(20) for j in (0, 1)]
    found = bootstrap(scores, seed=0, draws=100)
    assert found.value == 0.5
    assert found.low < 0.5 < found.high


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.integers(0, 4), st.integers(0, 3)), min_size=1, max_size=20
    )
)
def test_intervals_are_never_empty(rows):
    scores = [CaseScore(f"c{c}", float(wrong), float(wrong + right)) for c, wrong, right in rows]
    found = bootstrap(scores, seed=0, draws=300)
    conversations = len({c for c, _, _ in rows})
    if conversations < FEWEST or not any(score.denominator for score in scores):
        assert found is None
        return
    assert 0 <= found.low < found.high <= 1
    assert found.stderr > 0
    # Where only few conversations count, the value can lie outside by no more than rounding.
    assert found.low - 1e-9 <= found.value <= found.high + 1e-9


def test_too_little_to_say():
    assert bootstrap([], seed=0) is None
    assert bootstrap([CaseScore("c1", 1.0, 1.0)] * 9, seed=0) is None
    assert bootstrap(flat(0.0, 9, 0.0), seed=0) is None
    one = {"a": CaseScore("c1", 1.0, 1.0)}
    assert paired_difference(one, one, seed=0) is None
    assert paired_difference(one, {}, seed=0) is None
    few, enough = (flat(0.0, FEWEST - i) for i in (1, 0))
    assert bootstrap(few, seed=0) is None
    assert bootstrap(enough, seed=0) is not None
    runs = {"m": {s.conversation_id: s for s in few}}
    assert rank_intervals(runs, higher_is_better=True, seed=0) is None
    assert rank_intervals({"m": one}, higher_is_better=True, seed=0) is None
    assert rank_intervals({}, higher_is_better=True, seed=0) == {}


def scores_of(*values):
    return {f"c{i}": CaseScore(f"c{i}", value, 1.0) for i, value in enumerate(values)}


def test_difference_by_hand():
    a = scores_of(1, 1, 1, 0, 1) | {"extra": CaseScore("x", 0.0, 1.0)}
    found = paired_difference(a, scores_of(1, 0, 0, 0, 0), seed=0)
    # Differences 0, 1, 1, 0, 1: mean 3/5, sd √0.3.
    assert found.value == pytest.approx(0.6)
    assert found.sd == pytest.approx(0.3**0.5)
    assert found.design_effect == pytest.approx(1)  # one case a conversation
    # Of the 2⁵ sign patterns, those with all three ones of one sign: 8 of 32.
    assert found.p_value == pytest.approx(0.25)
    assert (found.cases, found.conversations, found.dropped) == (5, 5, 1)
    # Value and test stand, though five conversations have no interval.
    assert (found.low, found.high, found.stderr) == (None, None, None)
    assert "no interval" in found.note


def test_a_difference_is_that_of_the_reverse_with_its_sign_turned():
    a, b = scores_of(1, 1, 1, 0, 1, 1), scores_of(1, 0, 0, 0, 0, 1)
    found, mirrored = paired_difference(a, b, seed=0), paired_difference(b, a, seed=0)
    assert mirrored.value == pytest.approx(-found.value)
    assert (mirrored.low, mirrored.high) == pytest.approx((-found.high, -found.low), abs=0.02)


def test_sign_flip_against_scipy():
    rng = np.random.default_rng(3)
    x, y = rng.random(10), rng.random(10)
    theirs = permutation_test(
        (x, y), lambda a, b: np.mean(a - b), permutation_type="samples", n_resamples=np.inf
    )
    assert paired_difference(scores_of(*x), scores_of(*y), seed=0).p_value == pytest.approx(
        theirs.pvalue
    )


def test_equal_runs():
    a = scores_of(*[0, 1] * 50)
    found = paired_difference(a, a, seed=0, draws=100)
    assert (found.value, found.p_value, found.sd, found.design_effect) == (0, 1, 0, None)
    assert (found.low, found.high) == pytest.approx((-0.0295, 0.0295), abs=1e-4)
    assert "bound" in found.note


def test_design_effect_finds_the_clustering():
    rng = np.random.default_rng(9)
    alone, shared = [], []
    for _ in range(2000):
        effect = rng.normal()
        alone.append(rng.normal(size=3))
        shared.append([effect] * 3)
    for values, expected in [(alone, 1.0), (shared, 3.0)]:
        a = {
            f"{c}-{i}": CaseScore(f"c{c}", float(v), 1.0)
            for c, row in enumerate(values)
            for i, v in enumerate(row)
        }
        b = {case: score._replace(numerator=0.0) for case, score in a.items()}
        found = paired_difference(a, b, seed=0, draws=10)
        assert found.design_effect == pytest.approx(expected, abs=0.15)


def test_holm():
    # 4 · 0.01, 3 · 0.02, 2 · 0.03 (raised to nothing), 0.5
    assert holm([0.02, 0.01, None, 0.5, 0.03]) == pytest.approx([0.06, 0.04, None, 0.5, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


@settings(deadline=None)
@given(st.lists(st.floats(0.001, 1), min_size=1, max_size=8))
def test_holm_lies_between_the_raw_values_and_bonferroni(values):
    adjusted = holm(values)
    for raw, found in zip(values, adjusted, strict=True):
        assert raw <= found <= min(1.0, raw * len(values))
    # It never claims more than false discovery control does.
    assert all(np.array(adjusted) >= false_discovery_control(values) - 1e-12)


def test_ranks_separate_what_differs_and_only_that():
    rng = np.random.default_rng(11)
    best = {f"c{i}": CaseScore(f"c{i}", float(rng.random() < 0.9), 1.0) for i in range(200)}
    close = {case: s._replace(numerator=float(rng.random() < 0.9)) for case, s in best.items()}
    worst = {case: s._replace(numerator=float(rng.random() < 0.3)) for case, s in best.items()}
    runs = {"worst": worst, "best": best, "close": close, "twin": dict(best)}
    ranks = rank_intervals(runs, higher_is_better=True, seed=0, draws=500)
    assert (ranks["worst"].rank, ranks["worst"].best, ranks["worst"].worst) == (4, 4, 4)
    # Two that overlap share their places; equal scores share the better one.
    assert ranks["best"] == ranks["twin"]
    assert ranks["best"].best == ranks["close"].best == 1
    assert max(ranks["best"].worst, ranks["close"].worst) > 1
    upside_down = rank_intervals(runs, higher_is_better=False, seed=0, draws=500)
    assert upside_down["worst"].rank == 1


def test_ranks_use_common_cases_only():
    a = scores_of(1, 1, 0, 0, 0, 0, 0)
    b = {case: score for case, score in scores_of(0, 1, 0, 0, 0, 0, 1).items() if case != "c6"}
    # On the six common cases: 2/6 against 1/6.
    ranks = rank_intervals({"a": a, "b": b}, higher_is_better=True, seed=0, draws=50)
    assert (ranks["a"].rank, ranks["b"].rank) == (1, 2)
