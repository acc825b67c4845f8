"""Every run against every other: differences with intervals, where they can be afforded."""

from collections.abc import Collection, Container, Mapping, Sequence
from math import fsum
from typing import Any

from safepyramid.analysis.compare import METRICS
from safepyramid.analysis.runs import Run
from safepyramid.metrics.stats import Difference, holm, paired_difference
from safepyramid.metrics.summary import GROUPS, POOLED, CaseScore, ratio

Scores = dict[str, CaseScore]

DRAWS = 4_000
"""Resamples, and swaps, of one comparison."""
_AFFORDED = 15_000
"""Conversations over all pairs that are compared for every level: some 40 seconds on one core."""


def make_pairs(runs: Sequence[Run], *, seed: int, draws: int = DRAWS) -> dict[str, Any]:
    """Compare all pairs of runs.

    Intervals and tests of every level take time with the number of pairs. Where that would be minutes,
    only the pooled RMR gets them; where that would be too, none does.

    Args:
        runs: In the order of their indices.
        seed: Of the resampling.
        draws: Resamples of one comparison.

    Returns:
        `rows`: "i|j" with i < j -> rows of a metric and a level: `metric`, `level`, both values
        (`first`, `second`) on the cases that both have, `difference` (second − first) with `low` and
        `high`, `p`, `p_holm` (adjusted for all pairs that have that row), `cases`, `dropped` (cases that
        only one has a score for); `warnings`: "i|j" -> why the two should not be compared; `tested`: what
        could be afforded its interval and test: "all" rows, the "pooled" RMR, or "none"; and `least`:
        below which `p_holm` cannot fall with so many pairs and draws.
    """
    scores = [{metric: _by_level(run, metric) for metric in METRICS} for run in runs]
    found: dict[str, list[dict[str, Any]]] = {}
    warnings: dict[str, str] = {}
    pairs = [(i, j) for i in range(len(runs)) for j in range(i + 1, len(runs))]
    wanted = _wanted(runs, len(pairs))
    for i, j in pairs:
        common = _common(runs[i], runs[j])
        key = f"{i}|{j}"
        warnings[key] = _warning(runs[i], runs[j], len(common))
        shared = None if len(common) == len(runs[i].cases) == len(runs[j].cases) else common
        levels = {POOLED, *common.values()} if common else set()
        found[key] = [
            {
                "metric": metric,
                "level": level,
                **_difference(
                    _only(scores[i][metric][level], shared),
                    _only(scores[j][metric][level], shared),
                    seed,
                    draws if (metric, level) in wanted else 0,
                ),
            }
            for metric in METRICS
            for level in GROUPS
            if level in levels
        ]
    _adjust(found)
    kept = {key: text for key, text in warnings.items() if text}
    return {
        "rows": found,
        "warnings": kept,
        "tested": {0: "none", 1: "pooled"}.get(len(wanted), "all"),
        "least": _short(min(1.0, len(pairs) / (draws + 1))),
    }


def _wanted(runs: Sequence[Run], pairs: int) -> set[tuple[str, str]]:
    conversations = max(len({case.conversation_id for case in run.cases}) for run in runs)
    every = {(metric, level) for metric in METRICS for level in GROUPS}
    if pairs * conversations <= _AFFORDED:
        return every
    return {("rmr", POOLED)} if pairs * conversations <= len(every) * _AFFORDED else set()


def _common(first: Run, second: Run) -> dict[str, str]:
    """The ids of the cases that both were asked -> level. Cases whose text or truth differs are none."""
    return {
        case.id: case.level.value
        for case in first.cases
        if (other := second.by_id.get(case.id)) is not None and (other is case or other == case)
    }


def _warning(first: Run, second: Run, common: int) -> str:
    warnings = []
    if not common:
        return "The two have no case in common: nothing can be compared."
    if first.origin.protocol != second.origin.protocol:
        warnings.append(
            "The two differ in protocol: the difference is that of guard and protocol together."
        )
    largest = max(len(first.cases), len(second.cases))
    if common < largest:
        warnings.append(
            f"They stand on other cases: only the {common:,} of {largest:,} that both were asked are compared."
        )
    return " ".join(warnings)


def _by_level(run: Run, metric: str) -> dict[str, Scores]:
    """Level, and all of them -> case id -> what the case adds to the metric."""
    found: dict[str, Scores] = {level: {} for level in GROUPS}
    for case_id, score in run.scores(metric).items():
        found[POOLED][case_id] = found[run.by_id[case_id].level.value][case_id] = score
    return found


def _only(scores: Scores, ids: Container[str] | None) -> Scores:
    """Those of these cases; None for all."""
    return scores if ids is None else {i: score for i, score in scores.items() if i in ids}


def _difference(a: Scores, b: Scores, seed: int, draws: int) -> dict[str, Any]:
    shared = a.keys() & b.keys()
    values = [_ratio(scores, shared) for scores in (a, b)]
    difference = None if None in values else values[1] - values[0]  # type: ignore[operator]
    tested: Difference | None = None
    if draws:
        tested = paired_difference(b, a, seed=seed, draws=draws)
    return {
        "first": _short(values[0]),
        "second": _short(values[1]),
        "difference": _short(difference),
        "low": _short(tested.low) if tested else None,
        "high": _short(tested.high) if tested else None,
        "p": tested.p_value if tested else None,
        "cases": len(shared),
        "dropped": len(a.keys() ^ b.keys()),
    }


def _ratio(scores: Scores, ids: Collection[str]) -> float | None:
    kept = [scores[i] for i in ids]
    return ratio(fsum(score.numerator for score in kept), fsum(s.denominator for s in kept))


def _adjust(found: Mapping[str, list[dict[str, Any]]]) -> None:
    """Adjust the p-values of one metric and level for all pairs that were tested on it."""
    families: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for rows in found.values():
        for row in rows:
            families.setdefault((row["metric"], row["level"]), []).append(row)
    for family in families.values():
        for row, p in zip(family, holm([row["p"] for row in family]), strict=True):
            row["p"], row["p_holm"] = _short(row["p"]), _short(p)


def _short(value: float | None) -> float | None:
    return None if value is None else round(value, 5)
