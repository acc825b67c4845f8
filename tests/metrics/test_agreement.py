import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score

from safepyramid.metrics.agreement import (
    agreement,
    cohen_kappa,
    gwet_ac1,
    krippendorff_alpha,
    prevalence,
    raw_agreement,
)

Y, N = True, False


def pairs(yes_yes, yes_no, no_yes, no_no):
    return [[Y, Y]] * yes_yes + [[Y, N]] * yes_no + [[N, Y]] * no_yes + [[N, N]] * no_no


def test_two_raters_by_hand():
    found = agreement(pairs(20, 5, 10, 15))
    assert (found.items, found.compared, found.labels) == (50, 50, 100)
    # raw (20 + 15) / 50; chance .5·.6 + .5·.4 = .5; kappa (.7 − .5) / .5
    assert found.raw == pytest.approx(0.7)
    assert found.kappa == pytest.approx(0.4)
    assert found.prevalence == pytest.approx(0.55)
    # π = .55; chance 2 · .55 · .45 = .495; (.7 − .495) / .505
    assert found.ac1 == pytest.approx(0.205 / 0.505)
    # Observed disagreement .3; expected 2 · 55 · 45 / (100 · 99) = .5
    assert found.alpha == pytest.approx(1 - 0.3 / 0.5)


def test_a_rare_class_sinks_kappa_but_not_ac1():
    found = agreement(pairs(0, 4, 4, 92))
    assert found.raw == pytest.approx(0.92)
    assert found.prevalence == pytest.approx(0.04)
    assert found.kappa == pytest.approx((0.92 - 0.9232) / (1 - 0.9232))  # below zero
    assert found.ac1 == pytest.approx((0.92 - 0.0768) / (1 - 0.0768))  # 0.91


def test_three_raters_with_gaps_by_hand():
    ratings = [
        [Y, Y, None],
        [Y, N, N],
        [None, N, N],
        [Y, None, None],
        [None, None, None],
        [N, N, N],
    ]
    found = agreement(ratings)
    assert (found.items, found.compared, found.labels) == (5, 4, 11)
    assert found.kappa is None
    # Pairs that agree: 1/1, 1/3, 1/1, 3/3
    assert found.raw == pytest.approx((1 + 1 / 3 + 1 + 1) / 4)
    assert found.prevalence == pytest.approx(4 / 11)
    # π over the five labeled items: (1 + 1/3 + 0 + 1 + 0) / 5
    share = (1 + 1 / 3 + 1) / 5
    chance = 2 * share * (1 - share)
    assert found.ac1 == pytest.approx((found.raw - chance) / (1 - chance))
    # Pairable labels: 10, of which 3 say yes. Disagreeing pairs, each item by its m − 1:
    # 2 · (1 · 2) / 2 = 2 of 10; expected 2 · 3 · 7 / (10 · 9)
    assert found.alpha == pytest.approx(1 - (2 / 10) / (42 / 90))


@pytest.mark.parametrize(
    ("ratings", "raw", "kappa", "alpha", "ac1"),
    [
        ([], None, None, None, None),
        ([[Y, None], [None, N]], None, None, None, None),  # nothing to compare
        ([[Y, Y]] * 4, 1.0, None, None, 1.0),  # one class only: 0/0
        ([[N, N]] * 4, 1.0, None, None, 1.0),
        ([[Y, Y], [N, N]], 1.0, 1.0, 1.0, 1.0),
        ([[Y, N], [N, Y]], 0.0, -1.0, -0.5, -1.0),
        # One rater never says yes: chance 0 · .5 + 1 · .5
        ([[Y, N], [N, N]], 0.5, 0.0, 0.0, (0.5 - 0.375) / 0.625),
    ],
)
def test_edges(ratings, raw, kappa, alpha, ac1):
    assert raw_agreement(ratings) == raw
    assert cohen_kappa(ratings) == (None if kappa is None else pytest.approx(kappa))
    assert krippendorff_alpha(ratings) == (None if alpha is None else pytest.approx(alpha))
    assert gwet_ac1(ratings) == (None if ac1 is None else pytest.approx(ac1))
    assert (prevalence(ratings) is None) == (not ratings)


def test_misuse():
    with pytest.raises(ValueError, match="2 raters, not 3"):
        cohen_kappa([[Y, N, N]])
    with pytest.raises(ValueError, match="one entry per rater"):
        raw_agreement([[Y, N], [Y]])


def test_kappa_against_scikit_learn():
    generator = random.Random(4)
    for _ in range(200):
        n = generator.randint(5, 60)
        first = [generator.random() < 0.3 for _ in range(n)]
        second = [a if generator.random() < 0.8 else not a for a in first]
        if len({*first, *second}) == 2:
            ratings = list(zip(first, second, strict=True))
            assert cohen_kappa(ratings) == pytest.approx(cohen_kappa_score(first, second))


@settings(deadline=None)
@given(
    st.lists(st.lists(st.sampled_from([True, False, None]), min_size=3, max_size=3), max_size=12),
    st.randoms(use_true_random=False),
)
def test_order_does_not_matter(ratings, generator):
    found = agreement(ratings)
    shuffled = [generator.sample(item, 3) for item in ratings]
    generator.shuffle(shuffled)
    other = agreement(shuffled)
    for name in ("raw", "prevalence", "alpha", "ac1"):
        value = getattr(found, name)
        assert getattr(other, name) == (None if value is None else pytest.approx(value))
        assert value is None or value <= 1 + 1e-12
