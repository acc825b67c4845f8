"""One case: how far a predicted set of violated rules is from the true one.

P is the predicted set, G the ground truth. A rule number that the policy does not have is an
ordinary member of P, so it counts as a false positive.
"""

from collections.abc import Set
from typing import NamedTuple

EPSILONS = {"1.0": 0, "0.9": 10, "0.8": 20, "0.7": 30, "0.6": 40, "0.5": 50}
"""τ -> ε = 100·(1 − τ), kept as whole percents: as floats, (1 − 0.9)·10 falls short of 1."""

RMR_TAUS = ("1.0", "0.9", "0.8", "0.7")
"""The τ that RMR averages. 0.6 and 0.5 appear in breakdowns only."""


class Errors(NamedTuple):
    """The error counts of one case."""

    fp: int
    """|P − G|: rules called violated that are not."""
    fn: int
    """|G − P|: violated rules that were missed."""
    union: int
    """|P ∪ G|: the case's share of RDR's denominator."""


def errors(predicted: Set[int], gold: Set[int]) -> Errors:
    """Count false positives, false negatives and the union.

    All three are 0 or more; lower is better for the first two. An empty prediction on an empty
    gold set gives (0, 0, 0): the case adds nothing to either side of RDR.

    >>> errors({1, 2, 9}, {2, 3})
    Errors(fp=2, fn=1, union=4)
    """
    both = len(predicted & gold)
    return Errors(len(predicted) - both, len(gold) - both, len(predicted) + len(gold) - both)


def tolerance(gold_size: int, epsilon_percent: int) -> int:
    """How many false positives, and as many false negatives, a match may have: ⌊ε·|G|⌋.

    Args:
        gold_size: |G|, 0 or more. An empty gold set tolerates nothing.
        epsilon_percent: ε in whole percents.

    >>> tolerance(10, 10)
    1
    """
    return epsilon_percent * gold_size // 100


def matches(predicted: Set[int], gold: Set[int]) -> dict[str, bool]:
    """Whether the case matches at each τ: max(FP, FN) ≤ ⌊(1 − τ)·|G|⌋.

    The share of cases that match is RMR@τ (0 to 1, higher is better). τ = "1.0" is the exact
    match; a match at one τ is a match at every lower τ. On an empty gold set only the empty
    prediction matches, at every τ.

    Returns:
        τ as it is written in results, "1.0" to "0.5" -> match.
    """
    found = errors(predicted, gold)
    worst = max(found.fp, found.fn)
    return {tau: worst <= tolerance(len(gold), epsilon) for tau, epsilon in EPSILONS.items()}


def mean_match(predicted: Set[int], gold: Set[int]) -> float:
    """One case's RMR: the share of τ in 1.0, 0.9, 0.8, 0.7 at which it matches.

    From 0 to 1 in quarters, higher is better; 1.0 exactly when P = G, both empty included. The
    mean over cases is RMR, the primary metric.

    >>> mean_match({1, 2, 3, 4}, {1, 2, 3, 4, 5})
    0.5
    """
    found = matches(predicted, gold)
    return sum(found[tau] for tau in RMR_TAUS) / len(RMR_TAUS)
