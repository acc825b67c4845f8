"""What result tables share: runs in order, and their metrics with intervals."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from safepyramid.analysis.runs import Run
from safepyramid.metrics.stats import bootstrap_each, rank_intervals
from safepyramid.metrics.summary import GROUPS, POOLED, CaseScore, ratio
from safepyramid.schema import Case

RUNS = "runs"
"""The section of a table's rows that are runs."""

Group = tuple[str | None, str | None]
"""Level and domain; None for all of them."""
LEVELS: dict[str, Group] = {name: (None if name == POOLED else name, None) for name in GROUPS}


def levels_of(cases: Iterable[Case]) -> list[str]:
    """The levels that some cases have, and all of them together."""
    found = {case.level.value for case in cases}
    return [level for level in GROUPS if level in found or level == POOLED]


def alike(members: Sequence[Run], level: str, domain: str | None = None) -> bool:
    """Whether some runs answered the same of a level's and a domain's cases.

    Only then do their scores of answered cases stand on the same cases, so that one can be called the
    best. A run that answered none has no such score, and does not count.
    """
    ids = _inside(members[0], None if level == POOLED else level, domain)
    answered = {
        frozenset(i for i in ids if run.predictions[i].violated is not None) for run in members
    }
    return len(answered - {frozenset()}) < 2


def to_frame(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Rows as a table whose gaps are missing values: whole numbers stay whole, shares stay floats."""
    names = dict.fromkeys(name for row in rows for name in row)
    return pd.DataFrame({name: _column([row.get(name) for row in rows]) for name in names})


def _column(values: Sequence[Any]) -> Any:
    known = {type(value) for value in values if value is not None}
    if known == {int}:
        return pd.array(values, dtype="Int64")
    if known <= {int, float}:
        return pd.array(values, dtype="Float64").to_numpy("float64", na_value=float("nan"))
    # A model's text may hold half a surrogate pair, which pandas' own text type cannot take.
    return pd.Series(values, dtype=object)


def ranks(values: Sequence[float | None], *, higher_is_better: bool) -> list[int | None]:
    """Places, 1 is best: equal values share the better place; a missing value has none."""
    sign = -1 if higher_is_better else 1
    keys = [None if value is None else sign * value for value in values]
    known = [key for key in keys if key is not None]
    return [None if key is None else 1 + sum(other < key for other in known) for key in keys]


def best_first(values: Sequence[float | None], *, higher_is_better: bool) -> list[int]:
    """The places in `values` from best to worst; missing ones last, equal ones in the given order."""
    found = ranks(values, higher_is_better=higher_is_better)
    last = len(values) + 1
    return sorted(range(len(values)), key=lambda i: found[i] or last)


def ordered(runs: Sequence[Run]) -> list[Run]:
    """By the pooled lower bound of RMR, best first; ties in the given order."""
    bounds = [ratio(*_sums(run.scores("rmr_lower_bound").values())) for run in runs]
    return [runs[i] for i in best_first(bounds, higher_is_better=True)]


def _sums(scores: Iterable[CaseScore]) -> tuple[float, float]:
    found = list(scores)
    return sum(score.numerator for score in found), sum(score.denominator for score in found)


def labels(run: Run, level: str, section: str = RUNS) -> dict[str, Any]:
    """The columns that all tables share."""
    return {
        "block": run.stands_on,
        "section": section,
        "protocol": run.origin.protocol,
        "run": run.name,
        "level": level,
    }


def estimates(
    members: Sequence[Run],
    metrics: Sequence[str],
    groups: Mapping[Any, Group],
    seed: int,
    draws: int,
) -> dict[tuple[str, Any], dict[str, Any]]:
    """(Run, group) -> counts, metrics and their bounds. All runs of a group share its resamples."""
    inside = {group: _inside(members[0], *where) for group, where in groups.items()}
    parts = {group: dict[tuple[str, str], list[CaseScore]]() for group in groups}
    groups_of: dict[str, list[Any]] = {}
    for group, ids in inside.items():
        for case_id in ids:
            groups_of.setdefault(case_id, []).append(group)
    # The lower bound has every case, so that all conversations of a group are resampled.
    for run in members:
        for metric in dict.fromkeys((*metrics, "rmr_lower_bound")):
            for part in parts.values():
                part[run.name, metric] = []
            for case_id, score in run.scores(metric).items():
                for group in groups_of.get(case_id, ()):
                    parts[group][run.name, metric].append(score)
    found: dict[tuple[str, Any], dict[str, Any]] = {}
    for group, columns in parts.items():
        bounds = bootstrap_each(columns, seed=seed, draws=draws)
        for run in members:
            total = len(inside[group])
            scored = sum(run.predictions[i].violated is not None for i in inside[group])
            row = found[run.name, group] = {
                "total": total,
                "scored": scored,
                "excluded_rate": ratio(total - scored, total),
            }
            for metric in metrics:
                estimate = bounds[run.name, metric]
                row[metric] = ratio(*_sums(columns[run.name, metric]))
                row[f"{metric}_low"] = estimate.low if estimate else None
                row[f"{metric}_high"] = estimate.high if estimate else None
    return found


def _inside(run: Run, level: str | None, domain: str | None) -> list[str]:
    return [
        case.id
        for case in run.cases
        if level in (None, case.level) and domain in (None, case.domain)
    ]


def places(members: Sequence[Run], seed: int, draws: int) -> dict[str, dict[str, int | None]]:
    """Run -> its rank by the pooled lower bound, and the ranks that resampling gives it."""
    scores = {run.name: run.scores("rmr_lower_bound") for run in members}
    values = [ratio(*_sums(column.values())) for column in scores.values()]
    places = ranks(values, higher_is_better=True)
    spread = None
    if len(members) > 1:
        spread = rank_intervals(scores, higher_is_better=True, seed=seed, draws=draws)
    return {
        name: {
            "rank": place,
            "rank_best": spread[name].best if spread else None,
            "rank_worst": spread[name].worst if spread else None,
        }
        for name, place in zip(scores, places, strict=True)
    }
