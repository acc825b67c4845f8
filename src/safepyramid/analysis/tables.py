"""Runs in, tidy result tables out: one row per run and group, in full precision.

All tables share these columns:

- `block`: what a row stands on, in words. Rows of different blocks stand on different cases or
  protocols and are never ranked with each other.
- `section`: "runs", "baselines" (what needs no guard) or "published" (the paper's numbers).
- `run`, and `level`: L0, L1, L2, or ALL, which is pooled over cases.

Shares are fractions from 0 to 1, missing where undefined. `X_low` and `X_high` bound the 95 % interval
of metric `X`, from resampled conversations. Within a block, runs come in the order of their pooled
lower bound, in which a case without an answer is a miss: a guard cannot climb by answering less.
`alike` says whether all runs of the block answered the same of a row's cases: only then do their
scores of answered cases compare.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from safepyramid.analysis.estimates import (
    LEVELS,
    alike,
    estimates,
    labels,
    levels_of,
    ordered,
    places,
    to_frame,
)
from safepyramid.analysis.published import result_rows, table_numbers
from safepyramid.analysis.runs import Run, Runs
from safepyramid.metrics.baselines import baseline_rows
from safepyramid.metrics.failures import (
    FAILURE_MODES,
    UNKNOWN,
    count_errors,
    count_failure_modes,
    wrong_rules,
)
from safepyramid.metrics.rulesets import EPSILONS
from safepyramid.metrics.stats import DRAWS, bootstrap_each
from safepyramid.metrics.summary import (
    GROUPS,
    POOLED,
    CaseScore,
    RuleRecord,
    ratio,
    rule_metrics,
)
from safepyramid.results.score import to_rule_records
from safepyramid.schema import State

RESULT_METRICS = ("rmr", "rmr@1.0", "rdr", "rmr_lower_bound")
THRESHOLDS = tuple(f"rmr@{tau}" for tau in EPSILONS)
BASELINE_SECTION = "baselines"


def results(
    runs: Runs, *, published: bool = True, seed: int = 0, draws: int = DRAWS
) -> pd.DataFrame:
    """The result table: RMR, RMR@1.0, RDR and the lower bound per level and pooled.

    Args:
        runs: In any mix; each block is ranked for itself.
        published: Whether to add the paper's rows for the protocols at hand.
        seed: Of the resampling.
        draws: Resamples.

    Returns:
        A row per block, run and level: `total`, `scored`, `excluded_rate`; `rmr`, `rmr@1.0`, `rdr`,
        `rmr_lower_bound`, each with `_low` and `_high`; `rank` by the pooled lower bound (1 is best,
        equal runs share the better place) with `rank_best` and `rank_worst`, the places taken in 95 %
        of the resamples. Baselines and published rows have neither intervals nor ranks.
    """
    return _score_table(runs, RESULT_METRICS, published=published, seed=seed, draws=draws)


def thresholds(
    runs: Runs, *, published: bool = True, seed: int = 0, draws: int = DRAWS
) -> pd.DataFrame:
    """RMR@τ for six τ, 1.0 (exact match) to 0.5, per level and pooled. Otherwise as `results`.

    The paper prints τ = 1.0 only, so that is all that published rows hold.
    """
    return _score_table(runs, THRESHOLDS, published=published, seed=seed, draws=draws)


def domains(runs: Runs, *, seed: int = 0, draws: int = DRAWS) -> pd.DataFrame:
    """As `results`, per domain: the further column `domain`; no baselines, no published rows."""
    rows = []
    for members in runs.blocks().values():
        cases = members[0].cases
        groups = {
            (level, domain): (None if level == POOLED else level, domain)
            for domain in sorted({case.domain for case in cases})
            for level in levels_of(cases)
        }
        found = estimates(members, RESULT_METRICS, groups, seed, draws)
        same = {group: alike(members, *group) for group in groups}
        rows += [
            {
                **labels(run, level),
                "domain": domain,
                **found[run.name, (level, domain)],
                "alike": same[level, domain],
            }
            for run in ordered(members)
            for level, domain in groups
        ]
    return to_frame(rows)


def states(runs: Runs) -> pd.DataFrame:
    """How the cases of each run ended: a column per state; they sum to `total`."""
    rows = []
    for run, _ in _in_order(runs):
        for level in levels_of(run.cases):
            found = [record.state for record in run.records if level in (record.level, POOLED)]
            counts = {state.value: found.count(state) for state in State}
            rows.append({**labels(run, level), "total": len(found), **counts})
    return to_frame(rows)


def rule_types(runs: Runs) -> pd.DataFrame:
    """Single verdicts per level and rule type, with "violated" as the positive class.

    Per policy, each rule of an answered case counts as a verdict; per rule, each judgment does (see
    `summary.rule_metrics`).

    Returns:
        A row per run, level and `type` ("all" and the types that occur): `n`, `n_refused`, `accuracy`,
        `precision`, `recall`, `f1`, `tp`, `fp`, `fn`, `tn`; and `accuracy_none`, the accuracy of calling
        nothing violated.
    """
    rows = []
    for run, same in _in_order(runs):
        by_level = rule_metrics(_rule_records(run))
        for level in levels_of(run.cases):
            for kind, scores in by_level[level].items():
                negatives = scores["fp"] + scores["tn"]
                rows.append(
                    {
                        **labels(run, level),
                        "type": kind,
                        **scores,
                        "accuracy_none": ratio(negatives, scores["n"]),
                        "alike": same[level],
                    }
                )
    return to_frame(rows)


def _rule_records(run: Run) -> Iterator[RuleRecord]:
    for case in run.cases:
        prediction = run.predictions[case.id]
        if run.origin.protocol == "per_rule":
            yield from to_rule_records(case, prediction)
        elif prediction.violated is not None:
            for rule, kind in case.rule_types.items():
                gold = rule in case.ground_truth_violations
                yield RuleRecord(case.level, kind, gold, rule in prediction.violated)


def error_types(runs: Runs, *, seed: int = 0, draws: int = DRAWS) -> pd.DataFrame:
    """Which kind of rule the errors of answered cases are put down to (`failures.wrong_rules`).

    Args:
        runs: In any mix.
        seed: Of the resampling.
        draws: Resamples.

    Returns:
        A row per run, level and `type`: `fp`, `fn`, `errors` (both), `share` of the level's errors with
        its bounds (missing for a type that the level does not have), and `per_case`, errors per
        answered case.
    """
    rows = []
    for run, _ in _in_order(runs):
        counts: Mapping[str, Mapping[str, Mapping[str, int]]] = count_errors(run.answered())
        types = dict.fromkeys(t for row in counts.values() for kind in row.values() for t in kind)
        scores = _error_scores(run, types)
        for level in levels_of(run.cases):
            parts = [counts[name] for name in counts if level in (name, POOLED)]
            answered = sum(case.level == level or level == POOLED for case, _ in run.answered())
            sums = {
                (kind, name): sum(part[kind].get(name, 0) for part in parts)
                for kind in ("fp", "fn")
                for name in types
            }
            bounds = bootstrap_each(scores[level], seed=seed, draws=draws)
            here = _types_of(run, level)
            for name in types:
                found = bounds[name] if name in here else None
                fp, fn = sums["fp", name], sums["fn", name]
                rows.append(
                    {
                        **labels(run, level),
                        "type": name,
                        "fp": fp,
                        "fn": fn,
                        "errors": fp + fn,
                        "share": ratio(fp + fn, sum(sums.values())) if name in here else None,
                        "share_low": found.low if found else None,
                        "share_high": found.high if found else None,
                        "per_case": ratio(fp + fn, answered),
                    }
                )
    return to_frame(rows)


def _types_of(run: Run, level: str) -> set[str]:
    """The types that an error on some level can be put down to."""
    cases = (case for case in run.cases if level in (case.level, POOLED))
    return {UNKNOWN, *(kind.value for case in cases for kind in case.rule_types.values())}


def _error_scores(run: Run, types: Iterable[str]) -> dict[str, dict[str, list[CaseScore]]]:
    """Level, type -> what each answered case adds to the type's share of the errors."""
    found: dict[str, dict[str, list[CaseScore]]] = {
        level: {name: [] for name in types} for level in GROUPS
    }
    for case, predicted in run.answered():
        counts = Counter(wrong.type for wrong in wrong_rules(case, predicted))
        for level in (case.level.value, POOLED):
            for name, column in found[level].items():
                column.append(CaseScore(case.conversation_id, counts[name], counts.total()))
    return found


def failure_modes(runs: Runs) -> pd.DataFrame:
    """How answered cases fail (`failures.FAILURE_MODES`).

    Returns:
        A row per run, level (L0 to L2) and `mode`: `cases` and their `share` of the answered cases;
        both missing for a mode that the level cannot have.
    """
    rows = []
    for run, same in _in_order(runs):
        counts = count_failure_modes(run.answered())
        for level in (name for name in levels_of(run.cases) if name != POOLED):
            answered = sum(case.level == level for case, _ in run.answered())
            for mode in FAILURE_MODES:
                cases = counts[level].get(mode)
                rows.append(
                    {
                        **labels(run, level),
                        "mode": mode,
                        "cases": cases,
                        "share": None if cases is None else ratio(cases, answered),
                        "alike": same[level],
                    }
                )
    return to_frame(rows)


def _in_order(runs: Runs) -> Iterator[tuple[Run, dict[str, bool]]]:
    """Each run, and the levels on which all runs of its block answered the same cases."""
    for members in runs.blocks().values():
        same = {level: alike(members, level) for level in GROUPS}
        for run in ordered(members):
            yield run, same


def _score_table(
    runs: Runs, metrics: Sequence[str], *, published: bool, seed: int, draws: int
) -> pd.DataFrame:
    rows: list[dict[str, Any]] = []
    for members in runs.blocks().values():
        found = estimates(members, metrics, LEVELS, seed, draws)
        taken = places(members, seed, draws)
        same = {level: alike(members, level) for level in GROUPS}
        rows += [
            {
                **labels(run, level),
                **found[run.name, level],
                **taken[run.name],
                "alike": same[level],
            }
            for run in ordered(members)
            for level in GROUPS
        ]
        rows += _baselines(members[0], metrics)
    if published:
        rows += _published(runs, metrics)
    return to_frame(rows)


def _baselines(run: Run, metrics: Sequence[str]) -> Iterator[dict[str, Any]]:
    for name, cells in baseline_rows(run.cases, protocol=run.origin.protocol).items():
        for level in GROUPS:
            cell = cells[level]
            yield {
                **labels(run, level, BASELINE_SECTION),
                "run": name,
                "total": cell["total"],
                "scored": cell["scored"],
                "excluded_rate": 0.0 if cell["total"] else None,
                **{metric: _cell_value(cell, metric) for metric in metrics},
            }


def _cell_value(cell: Mapping[str, Any], metric: str) -> float | None:
    name = metric.removeprefix("rmr@")
    value: float | None = cell["rmr_at"][name] if name in cell["rmr_at"] else cell[name]
    return value


def _published(runs: Runs, metrics: Sequence[str]) -> list[dict[str, Any]]:
    protocols = [run.origin.protocol for run in runs]
    harness = any(run.origin.harness for run in runs)
    labels = ("block", "section", "part", "protocol", "run", "harness", "level", "total", "scored")
    return [
        {k: v for k, v in row.items() if k in (*labels, "excluded_rate", *metrics)}
        for row in result_rows(table_numbers(protocols, harness=harness))
    ]
