"""A run as its page shows it: all tables of the analysis, with charts."""

import json
from dataclasses import dataclass
from typing import Any

import pandas as pd

from safepyramid.analysis import tables
from safepyramid.analysis.estimates import RUNS
from safepyramid.analysis.runs import Run, Runs
from safepyramid.metrics.summary import POOLED
from safepyramid.report.charts import percent
from safepyramid.report.contents import ReportRun
from safepyramid.report.limits import run_limits
from safepyramid.report.run_sections import (
    ERROR_DRAWS,
    Row,
    cost_sections,
    domain_section,
    error_section,
    interval_of,
    mode_section,
    repeat_sections,
    result_section,
    rows_of,
    rule_type_sections,
    state_section,
    threshold_section,
)


@dataclass(frozen=True)
class Tables:
    """The analysis of all runs of a report, made once."""

    runs: Runs
    results: pd.DataFrame
    thresholds: pd.DataFrame
    domains: pd.DataFrame
    states: pd.DataFrame
    rule_types: pd.DataFrame
    error_types: pd.DataFrame
    failure_modes: pd.DataFrame


def make_tables(runs: Runs, *, seed: int, draws: int) -> Tables:
    """Make all tables.

    Args:
        runs: The runs of a report.
        seed: Of the resampling.
        draws: Resamples.
    """
    return Tables(
        runs,
        tables.results(runs, published=False, seed=seed, draws=draws),
        tables.thresholds(runs, published=False, seed=seed, draws=draws),
        tables.domains(runs, seed=seed, draws=draws),
        tables.states(runs),
        tables.rule_types(runs),
        tables.error_types(runs, seed=seed, draws=min(draws, ERROR_DRAWS)),
        tables.failure_modes(runs),
    )


def run_view(each: ReportRun, made: Tables) -> dict[str, Any]:
    """What the template of a run page shows."""
    run = each.run
    levels = {POOLED, *(case.level.value for case in run.cases)}
    found = {
        name: rows_of(
            frame[
                (frame["run"] == run.name)
                & (frame["section"] == RUNS)
                & frame["level"].isin(levels)
            ]
        )
        for name, frame in vars(made).items()
        if isinstance(frame, pd.DataFrame)
    }
    pooled = next(row for row in found["results"] if row["level"] == POOLED)
    twins = [other for other in made.runs if other.identity == run.identity]
    block = run.stands_on
    baselines = made.results[
        (made.results["block"] == block) & (made.results["section"] == tables.BASELINE_SECTION)
    ]
    answered = [
        threshold_section(found["thresholds"]),
        domain_section(found["domains"]),
        error_section(found["error_types"]),
        mode_section(found["failure_modes"], each.slug),
    ]
    sections = [
        result_section(found["results"], rows_of(baselines)),
        state_section(found["states"]),
        *(answered if pooled["scored"] else ()),
        *rule_type_sections(found["rule_types"]),
        *repeat_sections(twins),
        *cost_sections(run),
    ]
    failed = sum(
        run.predictions[case.id].violated != case.ground_truth_violations for case in run.cases
    )
    return {
        "block": block,
        "failed": failed,
        "headline": _headline(run, pooled),
        "limits": run_limits(run, pooled, len(twins)),
        "sections": sections,
        "settings": _settings(each),
    }


def _headline(run: Run, pooled: Row) -> list[tuple[str, str]]:
    def interval(metric: str) -> str:
        return f"{percent(pooled[metric])} {interval_of(pooled, metric)}".strip()

    return [
        ("RMR", interval("rmr")),
        ("exact", interval("rmr@1.0")),
        ("RDR", interval("rdr")),
        ("RMR, unanswered as misses", interval("rmr_lower_bound")),
        ("scored / all", f"{pooled['scored']:,} / {pooled['total']:,}"),
    ]


def _settings(each: ReportRun) -> list[tuple[str, str]]:
    run, origin = each.run, each.origin
    settings = json.loads(origin.settings) if origin.settings else {}
    rows: list[tuple[str, Any]] = [
        ("guard", origin.guard),
        ("model", origin.model or ("none" if origin.guard else None)),
        ("agent harness", origin.harness or "none"),
        ("protocol", origin.protocol.replace("_", "-")),
        ("reasoning effort", origin.effort or "the provider's default"),
        *(
            (f"setting {name}", json.dumps(value, ensure_ascii=False))
            for name, value in settings.items()
        ),
        ("epoch", origin.epoch),
        ("data hash", run.data_hash),
        ("prompts hash", origin.prompts_hash),
        ("safepyramid", origin.version),
        ("started", origin.created),
        (
            "seconds from start to end",
            None if origin.wall_seconds is None else f"{origin.wall_seconds:,.0f}",
        ),
        (
            "seconds a case",
            f"{sum(run.seconds.values()) / len(run.seconds):.1f}" if run.seconds else None,
        ),
        ("file", each.file),
    ]
    return [(name, "not stated" if value in (None, "") else str(value)) for name, value in rows]
