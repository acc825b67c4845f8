"""How each table is laid out for people."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from safepyramid.analysis.causes import CAUSES
from safepyramid.analysis.compare import Comparison
from safepyramid.analysis.estimates import to_frame
from safepyramid.analysis.layout import Measure, Table, build
from safepyramid.analysis.published import result_rows, table_of
from safepyramid.analysis.tables import THRESHOLDS
from safepyramid.metrics.failures import FAILURE_MODES
from safepyramid.metrics.summary import POOLED
from safepyramid.schema import State
from safepyramid.terminal import one_line

ALL = (POOLED,)
LOWER_BOUND_NOTE = "lower bound: RMR with every case that was not answered as a miss"
POOLED_NOTE = "Avg.: pooled over the cases of all levels"
RANK_NOTE = "rank: by the lower bound, with the places taken in 95 % of the resamples"


_SCORES = (
    Measure("rmr", "RMR", better="up", of_answered=True),
    Measure("rmr@1.0", "RMR@1.0", better="up", of_answered=True),
    Measure("rdr", "RDR", better="down", of_answered=True),
)


def lay_out_results(frame: pd.DataFrame, title: str = "Results, in percent") -> Table:
    """The result table in the paper's form, with what it lacks beside: see `tables.results`."""
    notes = [POOLED_NOTE]
    if "rmr_lower_bound" in frame:
        notes += [LOWER_BOUND_NOTE, RANK_NOTE]
        frame = frame.assign(answered=_of(frame, "scored", "total"), place=_place(frame))
    return build(
        frame,
        title=title,
        labels={"run": "Model", "harness": "Harness"},
        across="level",
        measures=[
            *_SCORES,
            Measure("rmr_lower_bound", "lower bound", better="up", values=ALL),
            Measure("excluded_rate", "not answered", better="down", values=ALL),
            Measure("answered", "answered/all", "text", values=ALL),
            Measure("place", "rank", "text", values=ALL),
        ],
        notes=notes,
    )


def _of(frame: pd.DataFrame, part: str, whole: str) -> "pd.Series[Any]":
    return _objects(
        [
            None if pd.isna(a) else f"{a:,.0f}/{b:,.0f}"
            for a, b in zip(frame[part], frame[whole], strict=True)
        ]
    )


def _objects(values: Sequence[Any]) -> "pd.Series[Any]":
    return pd.Series(values, dtype=object)


def _place(frame: pd.DataFrame) -> "pd.Series[Any]":
    if "rank" not in frame:
        return _objects([None] * len(frame))
    shown: list[str | None] = []
    for rank, best, worst in zip(
        frame["rank"], frame["rank_best"], frame["rank_worst"], strict=True
    ):
        spread = "" if pd.isna(best) or best == worst else f" ({best:.0f}–{worst:.0f})"
        shown.append(None if pd.isna(rank) else f"{rank:.0f}{spread}")
    return _objects(shown)


def lay_out_thresholds(frame: pd.DataFrame) -> Table:
    """RMR@τ for six τ: see `tables.thresholds`."""
    return build(
        frame,
        title="RMR@τ, in percent",
        labels={"run": "Model"},
        across="level",
        measures=[
            Measure(name, name.upper(), better="up", of_answered=True) for name in THRESHOLDS
        ],
        notes=[POOLED_NOTE, "RMR is the mean of τ = 1.0, 0.9, 0.8 and 0.7"],
    )


def lay_out_domains(frame: pd.DataFrame) -> Table:
    """Results per domain: see `tables.domains`."""
    short = {name: name[:4] for name in frame["domain"]}
    if len(set(short.values())) < len(short):
        short = {name: name for name in short}
    return build(
        frame.assign(domain=frame["domain"].map(short)),
        title="Per domain, in percent",
        labels={"run": "Model", "level": "Level"},
        across="domain",
        rivals=["level"],
        measures=_SCORES,
        notes=["domains: " + ", ".join(map(one_line, sorted(short)))],
    )


def lay_out_states(frame: pd.DataFrame) -> Table:
    """How the cases ended: see `tables.states`."""
    return build(
        frame,
        title="How the cases ended",
        labels={"run": "Model", "level": "Level"},
        measures=[
            Measure("total", "cases", "count"),
            *(Measure(state.value, state.value, "count") for state in State),
        ],
        notes=["only answered cases are scored; the states sum to the cases"],
    )


def lay_out_rule_types(frame: pd.DataFrame) -> Table:
    """Single rules by type: see `tables.rule_types`."""
    return build(
        frame,
        title="Single rules by type, in percent; “violated” is the positive class",
        labels={"run": "Model", "level": "Level", "type": "Type"},
        rivals=["level", "type"],
        measures=[
            Measure("n", "rules", "count"),
            Measure("accuracy", "accuracy", better="up", of_answered=True),
            Measure("accuracy_none", "if none"),
            Measure("precision", "precision", better="up", of_answered=True),
            Measure("recall", "recall", better="up", of_answered=True),
            Measure("f1", "F1", better="up", of_answered=True),
            Measure("refused_rate", "no verdict", better="down", of_answered=True),
        ],
        notes=["if none: the accuracy of calling nothing violated"],
    )


def lay_out_errors(frame: pd.DataFrame) -> Table:
    """Error attribution: see `tables.error_types`."""
    return build(
        frame,
        title="Errors by the kind of rule that was misread",
        labels={"run": "Model", "level": "Level"},
        across="type",
        measures=[
            Measure("share", "share of errors, %"),
            Measure("fp", "false positives", "count"),
            Measure("fn", "false negatives", "count"),
        ],
        notes=["of answered cases; a flagged rule that an exception waives is an exception error"],
    )


def lay_out_causes(frame: pd.DataFrame) -> Table:
    """Errors by cause: see `causes.causes`."""
    return build(
        frame,
        title="Errors by cause",
        labels={"run": "Model", "cause": "Cause"},
        across="level",
        measures=[Measure("share", "share of errors, %"), Measure("errors", "errors", "count")],
        notes=[f"{name}: {meaning}" for name, meaning in CAUSES.items()],
    )


def lay_out_failures(frame: pd.DataFrame) -> Table:
    """Failure modes: see `tables.failure_modes`."""
    return build(
        frame,
        title="How answered cases fail",
        labels={"run": "Model", "level": "Level"},
        across="mode",
        rivals=["level"],
        measures=[
            Measure("share", "share of answered cases, %", better="down", of_answered=True),
            Measure("cases", "cases", "count"),
        ],
        notes=[
            *(f"{mode}: {meaning}" for mode, meaning in FAILURE_MODES.items()),
            "a case counts in each of its modes",
        ],
    )


def lay_out_ablation(frame: pd.DataFrame, factor: str) -> Table:
    """Effort or harness: see `ablations.ablation`."""
    changes = [
        Measure("rmr_change", "ΔRMR", "points"),
        Measure("rmr_p_holm", "p (RMR)", "p"),
        Measure("rdr_change", "ΔRDR", "points"),
        Measure("rdr_p_holm", "p (RDR)", "p"),
    ]
    return build(
        frame,
        title=f"Runs that differ in {factor} only, in percent",
        labels={"series": "Model", factor: factor.capitalize()},
        across="level",
        rivals=["series"],
        measures=[*_SCORES, *changes],
        notes=[
            POOLED_NOTE,
            "Δ: change from the first of the series, on the cases that both answered, in points",
            "p: sign-flip test by conversation, adjusted within the series (Holm)",
        ],
    )


def lay_out_cost(frame: pd.DataFrame) -> Table:
    """Tokens, price and time: see `cost.cost`."""
    return build(
        frame.assign(price_per_1000=1000 * frame["price_per_case"]),
        title="Calls, tokens, price and time",
        labels={"run": "Model", "role": "Role"},
        measures=[
            Measure("rmr", "RMR, %", better="up", of_answered=True),
            Measure("calls", "calls", "count"),
            Measure("input_tokens", "input", "count"),
            Measure("cache_read_tokens", "from cache", "count"),
            Measure("cache_write_tokens", "to cache", "count"),
            Measure("output_tokens", "output", "count"),
            Measure("reasoning_tokens", "of it thinking", "count"),
            Measure("price", "price, $", "usd"),
            Measure("price_per_1000", "$/1,000 cases", "usd", "down"),
            Measure("seconds_per_case", "s/case", "number"),
            Measure("price_date", "prices of", "text"),
        ],
        notes=[
            "tokens of the cases in the log; list prices without discounts; – is not known, never 0",
            "$/1,000 cases: of the cases that were asked",
            *(f"prices: {source}" for source in _distinct(frame, "price_source")),
            "s/case: from start to end of a case, waiting included",
        ],
    )


def _distinct(frame: pd.DataFrame, column: str) -> list[str]:
    return sorted({str(value) for value in frame[column].dropna()}) if column in frame else []


def lay_out_repeats(frame: pd.DataFrame) -> Table:
    """Repetitions: see `compare.repeats`."""
    return build(
        frame,
        title="Runs that repeat each other",
        labels={"run": "Model", "level": "Level"},
        measures=[
            Measure("runs", "runs", "count"),
            Measure("rmr_mean", "RMR, %"),
            Measure("rmr_sd", "sd"),
            Measure("rmr_min", "least"),
            Measure("rmr_max", "most"),
            Measure("same_answer", "same set, %"),
            Measure("agreement", "same verdict, %"),
            Measure("alpha", "alpha", "number"),
            Measure("always_answered", "always answered, %"),
        ],
        notes=[
            "same set: of the cases that every run answered; same verdict: mean over pairs of runs, per "
            "rule; alpha: Krippendorff's, 1 is perfect and 0 is chance"
        ],
    )


def published_frame(number: int) -> pd.DataFrame:
    """One of the paper's result tables (3, 4 or 5), tidy: see `published.result_rows`."""
    return to_frame(result_rows([number]))


def lay_out_published(number: int) -> Table:
    """One of the paper's result tables, by the code that lays out a user's own."""
    title = f"{table_of(number)['title']}, in percent"
    return lay_out_results(published_frame(number), title)


def lay_out_comparison(comparison: Comparison, *, list_cases: bool = False) -> list[Table]:
    """A comparison as tables: metrics, cases and rules that changed, and the cases one by one."""
    block = f"{comparison.second} against {comparison.first}"

    def table(frame: pd.DataFrame, title: str, labels: dict[str, str], *measures: Measure) -> Table:
        framed = frame.assign(block=block, section="")
        return build(framed, title=title, labels=labels, measures=measures)

    size = "this size" if comparison.points is None else f"{comparison.points:g} points"
    counts = [
        Measure(name, name, "count")
        for name in ("cases", "fixed", "broken", "net", "moved", "same")
    ]
    found = [
        build(
            comparison.differences.assign(block=block, section=""),
            title="Metrics, in percent",
            labels={"metric": "Metric", "level": "Level"},
            measures=[
                Measure("first", "first"),
                Measure("second", "second"),
                Measure("difference", "change", "points"),
                Measure("p", "p", "p"),
                Measure("p_holm", "p (Holm)", "p"),
                Measure("cases", "cases", "count"),
                Measure("dropped", "left out", "count"),
                Measure("needed", "needed", "count"),
            ],
            notes=[
                *comparison.notes,
                "left out: cases that only one run answered; needed: cases it takes to find a change of "
                f"{size} (80 % power)",
            ],
        ),
        table(comparison.counts("level"), "Cases by level", {"level": "Level"}, *counts),
        table(comparison.counts("domain"), "Cases by domain", {"domain": "Domain"}, *counts),
        table(
            comparison.rules,
            "Rules by type, over cases that both answered",
            {"level": "Level", "type": "Type"},
            *(
                Measure(name, name, "count")
                for name in ("rules", "fixed", "broken", "net", "right", "wrong")
            ),
        ),
    ]
    if list_cases:
        changed = comparison.cases[comparison.cases["change"] != "same"]
        rules = {
            name: [", ".join(map(str, rules)) for rules in changed[name]]
            for name in ("rules_fixed", "rules_broken")
        }
        found.append(
            table(
                changed.assign(**rules),
                "Cases that changed",
                {"case": "Case", "change": "Change"},
                Measure("first_state", "first", "text"),
                Measure("second_state", "second", "text"),
                Measure("first_rmr", "RMR first"),
                Measure("second_rmr", "RMR second"),
                Measure("rules_fixed", "rules fixed", "text"),
                Measure("rules_broken", "rules broken", "text"),
            )
        )
    return found
