"""The sections of a run page: a table each, most with a chart."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

import pandas as pd
from markupsafe import Markup

from safepyramid.analysis.compare import repeats
from safepyramid.analysis.runs import TOKENS, Run, Runs
from safepyramid.metrics.failures import FAILURE_MODES
from safepyramid.metrics.rulesets import EPSILONS
from safepyramid.metrics.stats import FEWEST
from safepyramid.metrics.summary import POOLED
from safepyramid.report.charts import Dot, Line, bar_chart, dot_chart, line_chart, percent
from safepyramid.report.contents import ERROR_TYPES
from safepyramid.report.text import printable
from safepyramid.schema import Level, State

LEVELS = [level.value for level in Level]
_STATE_PATTERNS = {state.value: i for i, state in enumerate(State)}
_TYPE_PATTERNS = {kind: i for i, kind in enumerate(ERROR_TYPES)}
_SCORES = {
    "rmr": "RMR ↑",
    "rmr@1.0": "RMR@1.0 ↑",
    "rdr": "RDR ↓",
    "rmr_lower_bound": "lower bound ↑",
}

ERROR_DRAWS = 1_000
"""Resamples for the shares of errors, whose many columns would take most of a report's time."""

Cells = list[list[Any]]
"""The cells of a table, row by row."""
Row = Mapping[str, Any]
"""A row of an analysis table, with None in its gaps."""


def _section(
    key: str,
    title: str,
    about: str = "",
    charts: Sequence[Markup] = (),
    made: Sequence[Row] = (),
) -> dict[str, Any]:
    return {"key": key, "title": title, "about": about, "charts": charts, "tables": made}


def _table(caption: str, head: Sequence[str], rows: Cells) -> dict[str, Any]:
    return {"caption": caption, "head": head, "rows": rows}


def result_section(rows: Sequence[Row], baselines: Sequence[Row]) -> dict[str, Any]:
    """The metrics by level, the baselines beside them."""
    dots = {_level(row["level"]): _dot(row, "rmr") for row in rows}
    table: Cells = [
        [
            _level(row["level"]),
            *(_scored(row, m) for m in _SCORES),
            f"{row['scored']:,} / {row['total']:,}",
        ]
        for row in rows
    ]
    table += [
        [
            f"baseline {row['run']}",
            *(percent(row[m]) for m in _SCORES),
            f"{row['scored']:,} / {row['total']:,}",
        ]
        for row in baselines
        if row["level"] == POOLED
    ]
    head = ["level", *_SCORES.values(), "scored / all"]
    return _section(
        "results",
        "Results by level",
        "Percent, with 95 % intervals from resampled conversations. Baselines need no guard; they stand on all levels.",
        _dot_charts("RMR by level, in percent, with 95 % intervals", dots),
        [_table("Results by level", head, table)],
    )


def threshold_section(rows: Sequence[Row]) -> dict[str, Any]:
    """RMR@τ by level."""
    taus = list(EPSILONS)
    by_level = {row["level"]: [row[f"rmr@{tau}"] for tau in taus] for row in rows}
    lines = [
        Line(level.lower() if level == POOLED else level, values)
        for level, values in by_level.items()
    ]
    return _section(
        "thresholds",
        "RMR by tolerance",
        "How many cases match when a share of 1 − τ of the violated rules may be missed, and as many others flagged. RMR is the mean of the first four.",
        [line_chart("RMR by tolerance, one line per level, in percent", lines, taus, "τ")],
        [
            _table(
                "RMR@τ by level",
                ["level", *(f"τ\N{NO-BREAK SPACE}{tau}" for tau in taus)],
                [[_level(level), *map(percent, values)] for level, values in by_level.items()],
            )
        ],
    )


def state_section(rows: Sequence[Row]) -> dict[str, Any]:
    """How the cases ended, by level."""
    counts = {row["level"]: {state: int(row[state]) for state in _STATE_PATTERNS} for row in rows}
    used = [state for state in _STATE_PATTERNS if counts[POOLED][state]]
    return _section(
        "states",
        "How the cases ended",
        "Only answered cases are scored, an empty set included.",
        [
            bar_chart(
                "How the cases ended, by level",
                {_level(level): row for level, row in counts.items()},
                _STATE_PATTERNS,
            )
        ],
        [
            _table(
                "States by level",
                ["level", *used, "all"],
                [
                    [
                        _level(level),
                        *(f"{row[state]:,}" for state in used),
                        f"{sum(row.values()):,}",
                    ]
                    for level, row in counts.items()
                ],
            )
        ],
    )


def domain_section(rows: Sequence[Row]) -> dict[str, Any]:
    """RMR by domain."""
    by_domain: dict[str, dict[str, Row]] = {}
    for row in rows:
        by_domain.setdefault(row["domain"], {})[row["level"]] = row
    used = _levels(rows)
    dots = {_words(domain): _dot(levels[POOLED], "rmr") for domain, levels in by_domain.items()}
    table: Cells = [
        [
            _words(domain),
            *(percent(levels[level]["rmr"]) for level in used),
            _scored(levels[POOLED], "rmr"),
            percent(levels[POOLED]["rdr"]),
            f"{levels[POOLED]['scored']:,} / {levels[POOLED]['total']:,}",
        ]
        for domain, levels in by_domain.items()
    ]
    return _section(
        "domains",
        "By domain",
        f"A domain with fewer than {FEWEST} conversations has no interval.",
        _dot_charts("RMR by domain, all levels, in percent, with 95 % intervals", dots),
        [_table("RMR by domain", ["domain", *used, "all", "RDR ↓", "scored / all"], table)],
    )


def rule_type_sections(rows: Sequence[Row]) -> Iterator[dict[str, Any]]:
    """Single verdicts by level and rule type; nothing where there are none."""
    shares = ("accuracy", "accuracy_none", "precision", "recall", "f1")
    table: Cells = [
        [
            f"{_level(row['level'])}: {row['type']}",
            f"{row['n']:,}",
            f"{row['n_refused']:,}",
            *(percent(row[share]) for share in shares),
        ]
        for row in rows
        if row["n"]
    ]
    if not table:
        return
    head = [
        "rules",
        "verdicts",
        "unanswered",
        "accuracy ↑",
        "of “none”",
        "precision ↑",
        "recall ↑",
        "F1 ↑",
    ]
    yield _section(
        "rule-types",
        "Rule by rule",
        "Single verdicts on rules, with “violated” as the positive class. “Of none” is the accuracy of calling nothing violated.",
        [],
        [_table("Verdicts by level and rule type", head, table)],
    )


def error_section(rows: Sequence[Row]) -> dict[str, Any]:
    """Errors by the kind of rule that they are put down to."""
    counts: dict[str, dict[str, int]] = {}
    table: Cells = []
    for row in rows:
        counts.setdefault(_level(row["level"]), {})[row["type"]] = int(row["errors"])
        if row["errors"]:
            table.append(
                [
                    f"{_level(row['level'])}: {row['type']}",
                    f"{row['fp']:,}",
                    f"{row['fn']:,}",
                    _scored(row, "share"),
                    "–" if row["per_case"] is None else f"{row['per_case']:.2f}",
                ]
            )
    key, title = "errors", "What the errors are put down to"
    if not table:
        return _section(key, title, "No answered case has an error.")
    return _section(
        key,
        title,
        "A flagged rule that an exception waives is an exception error; a missed rule that only a conditional makes violated is a conditional error; any other error is put down to the rule's own type. Types without errors are left out. "
        f"The intervals of the shares are from {ERROR_DRAWS:,} resamples.",
        [bar_chart("Errors by rule type, by level", counts, _TYPE_PATTERNS)],
        [
            _table(
                "Errors by level and rule type",
                ["put down to", "flagged", "missed", "% of errors", "per case"],
                table,
            )
        ],
    )


def mode_section(rows: Sequence[Row], slug: str) -> dict[str, Any]:
    """Failure modes, each count a link to its cases."""
    by_mode: dict[str, dict[str, Row]] = {mode: {} for mode in FAILURE_MODES}
    for row in rows:
        by_mode[row["mode"]][row["level"]] = row
    table: Cells = []
    used = _levels(rows)
    for mode, meaning in FAILURE_MODES.items():
        cells: list[Any] = [f"{mode} {meaning}"]
        for level in used:
            found = by_mode[mode].get(level)
            if found is None or not found["cases"]:
                cells.append("–" if found is None or found["cases"] is None else "0")
                continue
            query = f"run={quote(slug)}&level={level}&mode={mode}&outcome=wrong"
            cells.append(
                Markup('<a href="../cases.html?{}">{}</a> <span class="ci">{} %</span>').format(
                    query, f"{found['cases']:,}", percent(found["share"])
                )
            )
        table.append(cells)
    return _section(
        "modes",
        "Failure modes",
        "Answered cases that failed in each way, and their share of the answered ones. A case can have several.",
        [],
        [_table("Failed cases by mode and level", ["mode", *used], table)],
    )


def repeat_sections(twins: Sequence[Run]) -> Iterator[dict[str, Any]]:
    """How far runs that were made in the same way agree; nothing for a single one."""
    if len(twins) < 2:
        return
    rows = rows_of(repeats(Runs(tuple(twins))))
    table: Cells = [
        [
            _level(row["level"]),
            *(
                percent(row[name])
                for name in ("rmr_mean", "rmr_sd", "rmr_min", "rmr_max", "same_answer", "agreement")
            ),
            "–" if row["alpha"] is None else f"{row['alpha']:.2f}",
        ]
        for row in rows
    ]
    head = ["level", "RMR, mean", "SD", "lowest", "highest", "same answer", "agreement", "α"]
    yield _section(
        "repeats",
        "Repetitions",
        f"The report has {len(twins)} runs that were made in the same way: "
        + ", ".join(twin.name for twin in twins)
        + ".",
        [],
        [_table("How far they agree", head, table)],
    )


def cost_sections(run: Run) -> Iterator[dict[str, Any]]:
    """Tokens and price by role; nothing where the file says nothing."""
    rows: Cells = [
        [
            f"{use.role}: {use.model}" if use.model else use.role,
            *(
                "unknown" if v is None else f"{v:,}"
                for v in (use.calls, *(getattr(use, kind) for kind in TOKENS))
            ),
            "unknown" if use.price is None else f"${use.price:,.4f}",
        ]
        for use in run.usage
    ]
    if not rows:
        return
    head = [
        "role",
        "calls",
        *(kind.removesuffix("_tokens").replace("_", " ") for kind in TOKENS),
        "price",
    ]
    origin = run.origin
    about = "Tokens by kind; thinking is a part of the output. "
    about += (
        f"At list prices of {origin.price_date} ({origin.price_source})."
        if origin.price_date
        else "No date, so no price."
    )
    yield _section(
        "cost", "Tokens and cost", about, [], [_table("Tokens and cost by role", head, rows)]
    )


def _levels(rows: Sequence[Row]) -> list[str]:
    """The levels that rows are of, without that of all of them."""
    return [level for level in LEVELS if any(row["level"] == level for row in rows)]


def _dot_charts(title: str, dots: Mapping[str, Dot]) -> list[Markup]:
    """A chart of values with intervals, where any is defined."""
    return [dot_chart(title, dots)] if any(dot.value is not None for dot in dots.values()) else []


def _level(level: str) -> str:
    return "all levels" if level == POOLED else level


def _words(domain: str) -> str:
    return printable(domain).replace("_", " ")


def rows_of(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """A table's rows, with None in its gaps."""
    return [
        {
            str(name): None if value is None or pd.isna(value) else value
            for name, value in row.items()
        }
        for row in frame.to_dict("records")
    ]


def _dot(row: Row, metric: str) -> Dot:
    return Dot(*(row[name] for name in (metric, f"{metric}_low", f"{metric}_high")))


def interval_of(row: Row, metric: str) -> str:
    """A metric's interval in brackets; empty without one."""
    low, high = row[f"{metric}_low"], row[f"{metric}_high"]
    return "" if low is None else f"({percent(low)}–{percent(high)})"


def _scored(row: Row, metric: str) -> Markup:
    return Markup('{} <span class="ci">{}</span>').format(
        percent(row[metric]), interval_of(row, metric).strip("()")
    )
