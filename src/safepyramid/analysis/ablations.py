"""Runs that differ in one thing only: reasoning effort, or the harness around the model."""

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import pandas as pd

from safepyramid.analysis.compare import DRAWS
from safepyramid.analysis.estimates import LEVELS, alike, estimates, labels, to_frame
from safepyramid.analysis.published import SECTION, describe, facts, result_rows, table_of
from safepyramid.analysis.runs import Run, Runs
from safepyramid.metrics.stats import holm, paired_difference
from safepyramid.metrics.summary import GROUPS, POOLED

Factor = Literal["effort", "harness"]

METRICS = ("rmr", "rmr@1.0", "rdr")
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""From the least to the most. Names that are not here come after these, the default last."""
HARNESS_TABLE = 5


def ablation(
    runs: Runs, factor: Factor, *, published: bool = True, seed: int = 0, draws: int = DRAWS
) -> pd.DataFrame:
    """Compare runs that are the same but for one factor, each with the least of its series.

    The least is the lowest effort, or the plain calls without a harness. Of runs that repeat each
    other, the first counts.

    Args:
        runs: In any mix; runs without a counterpart are left out.
        factor: What may differ.
        published: Whether to add what the paper says about this factor.
        seed: Of the resampling.
        draws: Resamples, and swaps of the test.

    Returns:
        A row per series, value of the factor and level: `series` (model and guard), the factor's own
        column (missing for the default, or no harness); `total`, `scored`; `rmr`, `rmr@1.0` and `rdr`
        with bounds; and for all but the first of a series `X_change` with bounds, on the cases that both
        answered, `X_p`, and `X_p_holm`, adjusted within the series.
    """
    rows: list[dict[str, Any]] = []
    for members in series(runs, factor):
        rows += _series_rows(members, factor, seed, draws)
    if published:
        rows += _published_effort() if factor == "effort" else _published_harness()
    return to_frame(rows)


def series(runs: Runs, factor: Factor) -> list[list[Run]]:
    """The sets of runs that differ in a factor and in nothing else, each from the least to the most."""
    groups: dict[tuple[tuple[str, Any], ...], dict[str | None, Run]] = {}
    for run in runs:
        rest = tuple((k, v) for k, v in run.identity.items() if k != factor)
        groups.setdefault(rest, {}).setdefault(getattr(run.origin, factor), run)
    return [
        [found[value] for value in sorted(found, key=lambda value: _place(factor, value))]
        for found in groups.values()
        if len(found) > 1
    ]


def _place(factor: Factor, value: str | None) -> tuple[int, str]:
    if factor == "harness":
        return (0, "") if value is None else (1, value)
    if value is None:
        return len(EFFORTS) + 1, ""
    return (EFFORTS.index(value) if value in EFFORTS else len(EFFORTS)), value


def _series_rows(
    members: Sequence[Run], factor: Factor, seed: int, draws: int
) -> list[dict[str, Any]]:
    found = estimates(members, METRICS, LEVELS, seed, draws)
    first = members[0]
    name = " · ".join(filter(None, (first.origin.model, first.origin.guard))) or first.name
    rows: list[dict[str, Any]] = [
        {
            **labels(run, level),
            "series": name,
            factor: getattr(run.origin, factor),
            **found[run.name, level],
            "alike": alike(members, level),
            **({} if run is first else _changes(first, run, level, seed, draws)),
        }
        for run in members
        for level in GROUPS
    ]
    tests = [(row, metric) for row in rows for metric in METRICS if f"{metric}_p" in row]
    adjusted = holm([row[f"{metric}_p"] for row, metric in tests])
    for (row, metric), p in zip(tests, adjusted, strict=True):
        row[f"{metric}_p_holm"] = p
    return rows


def _changes(first: Run, run: Run, level: str, seed: int, draws: int) -> dict[str, Any]:
    ids = {case.id for case in run.cases if level in (case.level, POOLED)}
    row: dict[str, Any] = {}
    for metric in METRICS:
        before, after = (
            {i: s for i, s in r.scores(metric).items() if i in ids} for r in (first, run)
        )
        found = paired_difference(after, before, seed=seed, draws=draws)
        row[f"{metric}_change"] = found.value if found else None
        row[f"{metric}_change_low"] = found.low if found else None
        row[f"{metric}_change_high"] = found.high if found else None
        row[f"{metric}_p"] = found.p_value if found else None
    return row


def _published_effort() -> Iterator[dict[str, Any]]:
    """The changes that the paper gives as numbers; the values themselves stand in a figure only."""
    table = table_of(3)
    for fact in facts()["effort"]:
        yield {
            "block": describe(table),
            "section": SECTION,
            "protocol": fact["protocol"],
            "run": fact["model"],
            "level": fact["level"],
            "series": fact["model"],
            "effort": f"{fact['low']} to {fact['high']}",
            "rmr_change": round(fact["rmr_change"] / 100, 6),
            "rdr_change": round(fact["rdr_change"] / 100, 6),
        }


def _published_harness() -> Iterator[dict[str, Any]]:
    """The paper's harness table, with changes computed from its printed numbers."""
    plain: dict[tuple[str, str], dict[str, Any]] = {}
    for row in result_rows([HARNESS_TABLE]):
        key = row["run"], row["level"]
        before = plain.setdefault(key, row)
        changes = {f"{metric}_change": round(row[metric] - before[metric], 6) for metric in METRICS}
        yield {**row, "series": row["run"], **({} if row is before else changes)}
