"""Agreement between raters on binary labels with gaps.

A label is True (violated), False (not violated) or None (not given). Ratings come item by item,
one entry per rater, always in the same order. With one rare class
kappa can be near zero while raters agree on almost everything: read it beside `raw_agreement`,
`prevalence` and AC1 (Feinstein and Cicchetti 1990; Gwet 2008).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from safepyramid.metrics.summary import ratio

Ratings = Sequence[Sequence[bool | None]]
"""Items × raters."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """All coefficients over one set of items. None where a coefficient is undefined."""

    items: int
    """Items with at least one label."""
    compared: int
    """Items with at least two labels: the only ones that say anything about agreement."""
    labels: int
    prevalence: float | None
    raw: float | None
    kappa: float | None
    """Two raters only."""
    alpha: float | None
    ac1: float | None


def agreement(ratings: Ratings) -> Agreement:
    """Compute every coefficient of this module.

    Raises:
        ValueError: Two items have different numbers of raters.
    """
    counts = _counts(ratings)
    raters = len(ratings[0]) if ratings else 0
    return Agreement(
        items=sum(yes + no > 0 for yes, no in counts),
        compared=sum(yes + no > 1 for yes, no in counts),
        labels=sum(yes + no for yes, no in counts),
        prevalence=prevalence(ratings),
        raw=raw_agreement(ratings),
        kappa=cohen_kappa(ratings) if raters == 2 else None,
        alpha=krippendorff_alpha(ratings),
        ac1=gwet_ac1(ratings),
    )


def prevalence(ratings: Ratings) -> float | None:
    """The share of all labels that say violated, 0 to 1; None without labels."""
    counts = _counts(ratings)
    return ratio(sum(yes for yes, _ in counts), sum(yes + no for yes, no in counts))


def raw_agreement(ratings: Ratings) -> float | None:
    """The mean over items of the share of their pairs of labels that are equal.

    0 to 1, higher is better; None when no item has two labels. For two raters it is the share of
    jointly labeled items on which they agree.
    """
    return _mean(_pair_agreement(yes, no) for yes, no in _counts(ratings) if yes + no > 1)


def cohen_kappa(ratings: Ratings) -> float | None:
    """Agreement of two raters beyond what their own rates give by chance (Cohen 1960).

    At most 1 (perfect), 0 at chance level, negative below. Items that one of them left out do not
    count. None when no item is left, and when both used one and the same class throughout: chance
    agreement is then 1, and kappa 0/0.

    Raises:
        ValueError: There are not exactly two raters.
    """
    _counts(ratings)
    if ratings and len(ratings[0]) != 2:
        raise ValueError(f"Cohen's kappa needs 2 raters, not {len(ratings[0])}")
    both = [(a, b) for a, b in ratings if a is not None and b is not None]
    if not both:
        return None
    n = len(both)
    observed = sum(a == b for a, b in both)
    yes_a, yes_b = sum(a for a, _ in both), sum(b for _, b in both)
    # Times n², so that the undefined case is an exact zero.
    chance = yes_a * yes_b + (n - yes_a) * (n - yes_b)
    return ratio(observed * n - chance, n * n - chance)


def krippendorff_alpha(ratings: Ratings) -> float | None:
    """Nominal alpha for any number of raters with gaps (Krippendorff 2011).

    At most 1 (perfect), 0 at chance level, negative below. Items with fewer than two labels do not
    count. None when fewer than two such items are left or all their labels are of one class.
    """
    import krippendorff

    counts = [(yes, no) for yes, no in _counts(ratings) if yes + no > 1]
    one_class = not any(yes for yes, _ in counts) or not any(no for _, no in counts)
    if len(counts) < 2 or one_class:
        return None
    return float(
        krippendorff.alpha(value_counts=counts, value_domain=[1, 0], level_of_measurement="nominal")
    )


def gwet_ac1(ratings: Ratings) -> float | None:
    """Agreement beyond chance that stays stable when one class is rare (Gwet 2008, 2014).

    At most 1 (perfect), 0 at chance level, negative below. Chance agreement is 2π(1 − π), π the mean
    over labeled items of the share of their labels that say violated. Defined for one class only
    (then 1); None when no item has two labels.
    """
    counts = [pair for pair in _counts(ratings) if sum(pair)]
    observed = _mean(_pair_agreement(yes, no) for yes, no in counts if yes + no > 1)
    share = _mean(yes / (yes + no) for yes, no in counts)
    if observed is None or share is None:
        return None
    chance = 2 * share * (1 - share)
    return (observed - chance) / (1 - chance)


def _counts(ratings: Ratings) -> list[tuple[int, int]]:
    """Per item: labels that say violated, labels that say not violated."""
    if len({len(item) for item in ratings}) > 1:
        raise ValueError("every item needs one entry per rater; use None for a missing label")
    return [
        (sum(label is True for label in item), sum(label is False for label in item))
        for item in ratings
    ]


def _pair_agreement(yes: int, no: int) -> float:
    n = yes + no
    return (yes * (yes - 1) + no * (no - 1)) / (n * (n - 1))


def _mean(values: Iterable[float]) -> float | None:
    kept = list(values)
    return ratio(sum(kept), len(kept))
