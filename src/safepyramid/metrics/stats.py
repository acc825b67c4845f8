"""Intervals and tests that respect conversations: how sure a score or a difference is.

The three cases of a conversation are not independent, so conversations are resampled, never
cases. Every metric here is a ratio of two sums over cases (`CaseScore`): RMR is matches over
cases, RDR errors over unions. What is estimated is the metric over conversations like these, for
one run of the model: the model's own run-to-run noise is not in it.

Randomness comes from `seed`: a number, or a generator that the caller shares between calls.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, sqrt
from statistics import NormalDist
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from safepyramid.metrics.summary import CaseScore

Array = npt.NDArray[np.float64]
Seed = int | np.random.Generator
K = TypeVar("K")

DRAWS = 10_000
FEWEST = 6
"""Conversations that an interval or a spread of ranks needs: fewer cover too little (simulated in
`docs/metrics.md`), and a sign-flip test on five cannot reach 0.05: 2/2⁵ is more."""
_CHUNK = 1_000  # draws held in memory at once: 8 MB at 1,000 conversations
_FLAT = 1e-12  # a spread below this is rounding noise


@dataclass(frozen=True, slots=True)
class Estimate:
    """A metric with its interval. The unit is the metric's own: a fraction from 0 to 1."""

    value: float
    low: float
    high: float
    stderr: float
    cases: int
    conversations: int
    note: str = ""
    """Set where resampling said nothing and the interval is a bound instead."""


@dataclass(frozen=True, slots=True)
class Difference:
    """How much a metric of run `a` exceeds that of run `b`, on the cases that both have."""

    value: float
    """a − b, from −1 to 1. Better is positive for RMR and negative for RDR."""
    low: float | None
    """None from fewer than `FEWEST` conversations, as are `high` and `stderr`."""
    high: float | None
    stderr: float | None
    p_value: float
    """Two-sided; 0 < p ≤ 1. The chance of such a difference if the two were exchangeable."""
    cases: int
    conversations: int
    dropped: int
    """Cases that only one of the two runs has: left out."""
    sd: float
    """Standard deviation of one case's difference: input of `cases_needed`."""
    design_effect: float | None
    """Variance of the difference over what independent cases would give; None if sd is 0."""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Rank:
    """A run's place, 1 is best. Equal scores share the better place."""

    rank: int
    best: int
    worst: int


def bootstrap(
    scores: Iterable[CaseScore], *, seed: Seed, draws: int = DRAWS, level: float = 0.95
) -> Estimate | None:
    """Cluster bootstrap of a metric: percentile interval over resampled conversations.

    The percentiles are widened for few conversations as a t interval would be (Hesterberg 2015,
    "expanded percentile"); beyond a hundred or so the change vanishes. Where all conversations
    score alike, as at 0 and at 1, resampling has no spread and would claim certainty; the interval
    is then what is left when a share q of the conversations outside the sample scores otherwise,
    q = 1 − (1 − level)^(1/n), about 3/n (the rule of three), and `stderr` is read off its width.

    Args:
        scores: One per case, as `case_scores` makes them.
        seed: A number or a generator.
        draws: Resamples.
        level: Coverage of the interval, between 0 and 1.

    Returns:
        None with fewer than `FEWEST` conversations, or when the metric is undefined (denominators
        sum to 0).
    """
    return bootstrap_each({"": scores}, seed=seed, draws=draws, level=level)[""]


def bootstrap_each(
    columns: Mapping[K, Iterable[CaseScore]],
    *,
    seed: Seed,
    draws: int = DRAWS,
    level: float = 0.95,
) -> dict[K, Estimate | None]:
    """`bootstrap` of many metrics in the same resamples: a whole table for the price of one cell.

    What is resampled are the conversations that any of the columns has. A column that lacks some of
    them, such as those that a run did not answer, gets draws in which fewer count; its interval is
    still widened for as many conversations as it has itself.

    Args:
        columns: Name -> one score per case.
        seed: A number or a generator.
        draws: Resamples.
        level: Coverage of the intervals.

    Returns:
        Name -> estimate, None as `bootstrap` has it. Alone, a column gets what `bootstrap` gives it.
    """
    scores = {name: list(column) for name, column in columns.items()}
    totals = _column_sums(list(scores.values()))
    if len(totals) < FEWEST:
        return dict.fromkeys(scores)
    sums = np.concatenate(list(_resampled(totals, seed, draws)))
    return {
        name: _estimate(column, totals[:, 2 * i : 2 * i + 2], sums[:, 2 * i : 2 * i + 2], level)
        for i, (name, column) in enumerate(scores.items())
    }


def _estimate(
    column: Sequence[CaseScore], totals: Array, sums: Array, level: float
) -> Estimate | None:
    conversations = len({score.conversation_id for score in column})
    if conversations < FEWEST or not totals[:, 1].sum():
        return None
    value = float(totals[:, 0].sum() / totals[:, 1].sum())
    # Draws that hit only conversations with nothing to count say nothing.
    sums = sums[sums[:, 1] > 0]
    values = sums[:, 0] / sums[:, 1]
    low, high, stderr, note = _interval(values, value, (0.0, 1.0), conversations, level)
    return Estimate(value, low, high, stderr, len(column), conversations, note)


def paired_difference(
    a: Mapping[str, CaseScore],
    b: Mapping[str, CaseScore],
    *,
    seed: Seed,
    draws: int = DRAWS,
    level: float = 0.95,
) -> Difference | None:
    """Compare two runs on the cases that both have.

    The interval resamples conversations, each with both runs' cases. The p-value is a sign-flip
    permutation test: the runs' labels are swapped within random conversations, or in all 2^n ways
    if there are no more of them than `draws`. Where no conversation's difference stands out from the
    others, the interval is a bound as in `bootstrap`.

    Args:
        a: Case id -> score of one run.
        b: Case id -> score of the other, of the same metric.
        seed: A number or a generator.
        draws: Resamples, and swaps.
        level: Coverage of the interval.

    Returns:
        None with fewer than two common conversations, or when either metric is undefined on them.
    """
    generator = np.random.default_rng(seed)
    common = sorted(a.keys() & b.keys())
    runs = [[run[case] for case in common] for run in (a, b)]
    totals, cases, clusters = _cluster_sums(runs)
    if len(totals) < 2 or not (totals[:, 1].sum() and totals[:, 3].sum()):
        return None
    value = float(_ratio_difference(totals.sum(axis=0)))
    low = high = stderr = None
    note = f"fewer than {FEWEST} conversations: no interval"
    if len(totals) >= FEWEST:
        drawn = np.concatenate([_ratio_difference(s) for s in _resampled(totals, generator, draws)])
        drawn = drawn[np.isfinite(drawn)]
        low, high, stderr, note = _interval(drawn, value, (-1.0, 1.0), len(totals), level)
    residuals = _residuals(runs, totals.sum(axis=0))
    sd, effect = _design(residuals, clusters, len(totals))
    return Difference(
        value=value,
        low=low,
        high=high,
        stderr=stderr,
        p_value=_sign_flip(totals, value, generator, draws),
        cases=cases,
        conversations=len(totals),
        dropped=len(a.keys() ^ b.keys()),
        sd=sd,
        design_effect=effect,
        note=note,
    )


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Adjust p-values for being looked at together (Holm 1979): keeps the family-wise error rate.

    Args:
        p_values: In any order; None for a comparison that could not be made, which counts as none.

    Returns:
        Adjusted values in the same order, at most 1, never below the given ones.
    """
    adjusted: list[float | None] = [None] * len(p_values)
    made = sorted((p, i) for i, p in enumerate(p_values) if p is not None)
    highest = 0.0
    for place, (p, index) in enumerate(made):
        highest = max(highest, min(1.0, (len(made) - place) * p))
        adjusted[index] = highest
    return adjusted


def rank_intervals(
    runs: Mapping[str, Mapping[str, CaseScore]],
    *,
    higher_is_better: bool,
    seed: Seed,
    draws: int = DRAWS,
    level: float = 0.95,
) -> dict[str, Rank] | None:
    """The places that each run takes when conversations are resampled.

    All runs are ranked on the cases that all of them have, in the same resamples.

    Args:
        runs: Name -> case id -> score, all of one metric.
        higher_is_better: True for RMR, False for RDR.
        seed: A number or a generator.
        draws: Resamples.
        level: Share of the resamples that lie between `best` and `worst`.

    Returns:
        Name -> places; None with fewer than `FEWEST` common conversations, or when some run's metric
        is undefined on them.
    """
    if not runs:
        return {}
    common = sorted(set.intersection(*(set(run) for run in runs.values())))
    totals, _, _ = _cluster_sums([[run[case] for case in common] for run in runs.values()])
    if len(totals) < FEWEST or not totals[:, 1::2].sum(axis=0).all():
        return None
    tail = (1 - level) / 2
    places = []
    for sums in (totals.sum(axis=0, keepdims=True), *_resampled(totals, seed, draws)):
        kept = sums[(sums[:, 1::2] > 0).all(axis=1)]
        values = kept[:, 0::2] / kept[:, 1::2] * (-1 if higher_is_better else 1)
        places.append(1 + (values[:, None, :] < values[:, :, None] - _FLAT).sum(axis=2))
    observed, resampled = places[0][0], np.concatenate(places[1:])
    best = np.quantile(resampled, tail, axis=0, method="inverted_cdf")
    worst = np.quantile(resampled, 1 - tail, axis=0, method="inverted_cdf")
    return {
        # A run's own place can lie outside when resampling breaks ties: it always belongs in.
        name: Rank(int(r), int(min(r, lo)), int(max(r, hi)))
        for name, r, lo, hi in zip(runs, observed, best, worst, strict=True)
    }


def cases_needed(
    difference: float,
    *,
    sd: float,
    design_effect: float,
    power: float = 0.8,
    alpha: float = 0.05,
) -> int:
    """How many paired cases it takes to find a difference: (z₁₋α/₂ + z_power)² · sd² · deff / d².

    That is for an interval that leaves out 0; the permutation test needs a few percent more.

    Args:
        difference: The true difference to be found, a fraction (0.02 is two points); not 0.
        sd: Standard deviation of one case's difference, as a pilot's `Difference.sd`.
        design_effect: As `Difference.design_effect`; 1 for independent cases. With m cases a
            conversation and a standard deviation s of the conversations' mean differences, sd² · deff
            is m · s².
        power: Chance of finding it.
        alpha: Two-sided level of the test.

    Returns:
        Cases, rounded up; the conversations are that many over the cases each has.

    Raises:
        ValueError: The difference is 0, or an argument is out of its range.
    """
    if not difference or sd < 0 or design_effect <= 0 or not (0 < alpha < 1 and 0 < power < 1):
        raise ValueError(
            "cases_needed wants difference ≠ 0, sd ≥ 0, design_effect > 0, 0 < power, alpha < 1"
        )
    normal = NormalDist()
    z = normal.inv_cdf(1 - alpha / 2) + normal.inv_cdf(power)
    return max(1, ceil((z * sd / difference) ** 2 * design_effect))


def _cluster_sums(runs: Sequence[Sequence[CaseScore]]) -> tuple[Array, int, npt.NDArray[np.intp]]:
    """Sum paired runs by conversation.

    Returns:
        As `_column_sums`; the number of cases; and each case's row.
    """
    names = [score.conversation_id for score in runs[0]]
    rows = {name: row for row, name in enumerate(sorted(set(names)))}
    clusters = np.fromiter((rows[name] for name in names), dtype=np.intp, count=len(names))
    return _column_sums(runs), len(names), clusters


def _column_sums(columns: Sequence[Sequence[CaseScore]]) -> Array:
    """Conversations × (2 · columns): numerator and denominator of each, side by side."""
    names = {score.conversation_id for column in columns for score in column}
    rows = {name: row for row, name in enumerate(sorted(names))}
    totals = np.zeros((len(rows), 2 * len(columns)))
    for i, column in enumerate(columns):
        clusters = np.array([rows[score.conversation_id] for score in column], dtype=np.intp)
        for part in (1, 2):
            weights = [score[part] for score in column]
            totals[:, 2 * i + part - 1] = np.bincount(clusters, weights, minlength=len(rows))
    return totals


def _resampled(totals: Array, seed: Seed, draws: int) -> Iterator[Array]:
    """Sums over conversations drawn with replacement, in chunks of draws × columns."""
    generator = np.random.default_rng(seed)
    n = len(totals)
    for start in range(0, draws, _CHUNK):
        rows = min(_CHUNK, draws - start)
        picks = generator.integers(n, size=(rows, n)) + n * np.arange(rows)[:, None]
        weights = np.bincount(picks.ravel(), minlength=rows * n).reshape(rows, n)
        yield weights.astype(np.float64) @ totals


def _ratio_difference(sums: Array) -> Array:
    with np.errstate(invalid="ignore", divide="ignore"):
        difference: Array = sums[..., 0] / sums[..., 1] - sums[..., 2] / sums[..., 3]
    return difference


def _interval(
    values: Array, value: float, bounds: tuple[float, float], n: int, level: float
) -> tuple[float, float, float, str]:
    """Percentile interval, standard error and note; a bound where the draws have no spread."""
    from scipy.special import ndtr, stdtrit

    if np.ptp(values) > _FLAT:
        tail = float(ndtr(sqrt(n / (n - 1)) * stdtrit(n - 1, (1 - level) / 2)))
        low, high = np.quantile(values, [tail, 1 - tail])
        return float(low), float(high), float(values.std(ddof=1)), ""
    share = 1 - (1 - level) ** (1 / n)
    low, high = value - share * (value - bounds[0]), value + share * (bounds[1] - value)
    stderr = (high - low) / (2 * NormalDist().inv_cdf((1 + level) / 2))
    return low, high, stderr, f"all {n} conversations alike: the interval is a bound"


def _sign_flip(totals: Array, value: float, generator: np.random.Generator, draws: int) -> float:
    n = len(totals)
    middle = (totals[:, :2] + totals[:, 2:]).sum(axis=0) / 2
    half = (totals[:, :2] - totals[:, 2:]) / 2
    exact = n < 63 and 2**n <= draws
    count = 2**n if exact else draws
    extreme = 0
    for start in range(0, count, _CHUNK):
        rows = min(_CHUNK, count - start)
        if exact:
            swaps = (np.arange(start, start + rows)[:, None] >> np.arange(n)) & 1
        else:
            swaps = generator.integers(2, size=(rows, n))
        moved = (1.0 - 2.0 * swaps) @ half
        found = _ratio_difference(np.hstack([middle + moved, middle - moved]))
        extreme += int((np.abs(found) >= abs(value) - _FLAT).sum())
    # A drawn set of swaps contains the observed one by definition, so p is never 0.
    return extreme / count if exact else (extreme + 1) / (count + 1)


def _residuals(runs: Sequence[Sequence[CaseScore]], sums: Array) -> Array:
    """Each case's part in the difference, by linearization; for RMR the plain differences, centered."""
    (a, b) = (np.array([score[1:] for score in run], dtype=np.float64) for run in runs)
    n = len(a)
    left = (a[:, 0] - sums[0] / sums[1] * a[:, 1]) * n / sums[1]
    right = (b[:, 0] - sums[2] / sums[3] * b[:, 1]) * n / sums[3]
    residuals: Array = left - right
    return residuals


def _design(residuals: Array, clusters: npt.NDArray[np.intp], n: int) -> tuple[float, float | None]:
    """Standard deviation of the cases, and how clustering changes the variance of their mean."""
    sd = float(residuals.std(ddof=1))
    if sd <= _FLAT:
        return sd, None
    between = np.bincount(clusters, weights=residuals)
    clustered = (between**2).sum() * n / (n - 1)
    return sd, float(clustered / (len(residuals) * sd**2))
