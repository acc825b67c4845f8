"""The leaderboard: blocks of runs that can be compared, and the numbers of every view of them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from safepyramid.analysis.estimates import RUNS, ranks
from safepyramid.analysis.published import describe, result_rows, table_numbers, table_of
from safepyramid.analysis.runs import Run
from safepyramid.analysis.tables import RESULT_METRICS
from safepyramid.metrics.baselines import baseline_rows
from safepyramid.metrics.summary import GROUPS, POOLED
from safepyramid.report.charts import Dot, interval
from safepyramid.report.contents import Report, ReportRun
from safepyramid.report.text import counted
from safepyramid.schema import State

METRICS = (
    {"key": "rmr", "name": "RMR", "arrow": "↑", "up": True},
    {"key": "rmr@1.0", "name": "RMR@1.0, exact match", "arrow": "↑", "up": True},
    {"key": "rdr", "name": "RDR", "arrow": "↓", "up": False},
    {"key": "rmr_lower_bound", "name": "RMR, unanswered as misses", "arrow": "↑", "up": True},
)
BOUND = "rmr_lower_bound"
"""What places go by: a guard cannot climb by answering less."""

Cells = dict[str, list[float | None]]
Made = tuple[dict[str, Any], dict[str, dict[str, Any]]]
"""A block, and the numbers of its rows by key."""


def make_board(
    report: Report, results: pd.DataFrame, by_domain: pd.DataFrame, *, published: bool
) -> dict[str, Any]:
    """What the leaderboard shows.

    Args:
        report: Runs and cases.
        results: The table of results of its runs, as `analysis.tables` makes it.
        by_domain: The same by domain.
        published: Whether the paper's rows are there to be shown.

    Returns:
        `blocks`, each with its rows as they are shown first; and `data`, the numbers of all rows for
        every metric, level and domain, for the page's script: `row -> {"cells": {"metric|domain|level":
        [value, low, high]}, "scored": {"domain|level": [scored, total]}, "place": {"domain|level": [rank,
        best, worst]}}`, where all domains are an empty name.
    """
    groups = list(report.members.blocks().values())
    main = max(groups, key=lambda members: (len(members), len(members[0].cases)))
    groups.sort(key=lambda members: members is not main)
    made = [
        *(
            _run_block(members, main, report, results, by_domain, f"{number}.")
            for number, members in enumerate(groups)
        ),
        *(_published_blocks(report) if published else ()),
    ]
    return {
        "blocks": [block for block, _ in made],
        "metrics": METRICS,
        "levels": GROUPS,
        "domains": report.domains,
        "protocols": sorted({each.origin.protocol for each in report.runs}),
        "has_published": any(block["published"] for block, _ in made),
        "data": {key: numbers for _, rows in made for key, numbers in rows.items()},
    }


def _run_block(
    members: Sequence[Run],
    main: Sequence[Run],
    report: Report,
    results: pd.DataFrame,
    by_domain: pd.DataFrame,
    prefix: str,
) -> Made:
    """Runs that can be ranked, in the order of the analysis, and the baselines on their cases."""
    title = members[0].stands_on
    pooled = results[(results["block"] == title) & (results["section"] == RUNS)]
    by_domain = by_domain[by_domain["block"] == title]
    found = {
        name: _run_numbers(pooled[pooled["run"] == name], by_domain[by_domain["run"] == name])
        for name in dict.fromkeys(pooled["run"])
    }
    _add_places(found, pooled)
    pages = {each.name: each for each in report.runs}
    rows = [_row(f"{prefix}{i}", found[name], name, pages[name]) for i, name in enumerate(found)]
    baselines = _baseline_numbers(members[0])
    rows += [
        _row(f"{prefix}{name}", numbers, name, tag="baseline")
        for name, numbers in baselines.items()
    ]
    numbers = [*found.values(), *baselines.values()]
    reason = "" if members is main else _reason(members, main)
    block = _block(members[0].origin.protocol, title, rows, reason, about=_about(members))
    return block, {row["key"]: each for row, each in zip(rows, numbers, strict=True)}


def _block(
    protocol: str,
    title: str,
    rows: list[dict[str, Any]],
    reason: str,
    *,
    about: str = "",
    published: bool = False,
) -> dict[str, Any]:
    return {
        "protocol": protocol,
        "title": title[:1].upper() + title[1:],
        "rows": rows,
        "reason": reason,
        "about": about,
        "published": published,
    }


def _run_numbers(pooled: pd.DataFrame, by_domain: pd.DataFrame) -> dict[str, Any]:
    cells: Cells = {}
    scored: dict[str, list[int]] = {}
    rows = [("", row) for row in pooled.to_dict("records")]
    rows += [(row["domain"], row) for row in by_domain.to_dict("records")]
    for domain, row in rows:
        for metric in RESULT_METRICS:
            cell = [row[metric], row[f"{metric}_low"], row[f"{metric}_high"]]
            cells[f"{metric}|{domain}|{row['level']}"] = [_short(value) for value in cell]
        scored[f"{domain}|{row['level']}"] = [int(row["scored"]), int(row["total"])]
    return {"cells": cells, "scored": scored, "place": {}}


def _add_places(found: Mapping[str, dict[str, Any]], table: pd.DataFrame) -> None:
    """Give each run its place by the lower bound, for every level and domain."""
    views = dict.fromkeys(view for numbers in found.values() for view in numbers["scored"])
    for view in views:
        values = [numbers["cells"][f"{BOUND}|{view}"][0] for numbers in found.values()]
        for numbers, rank in zip(found.values(), ranks(values, higher_is_better=True), strict=True):
            numbers["place"][view] = [rank, None, None]
    for row in table[table["level"] == POOLED].to_dict("records"):
        spread = [row["rank"], row["rank_best"], row["rank_worst"]]
        place = [None if pd.isna(each) else int(each) for each in spread]
        found[row["run"]]["place"][f"|{POOLED}"] = place


def _baseline_numbers(run: Run) -> dict[str, dict[str, Any]]:
    """The trivial baselines on a run's cases, for all of them and per domain."""
    found: dict[str, dict[str, Any]] = {}
    for domain in ("", *sorted({case.domain for case in run.cases})):
        cases = [case for case in run.cases if domain in ("", case.domain)]
        for name, groups in baseline_rows(cases, protocol=run.origin.protocol).items():
            numbers = found.setdefault(name, _no_numbers())
            for level, cell in groups.items():
                values = {
                    "rmr": cell["rmr"],
                    "rmr@1.0": cell["rmr_at"]["1.0"],
                    "rdr": cell["rdr"],
                    BOUND: cell[BOUND],
                }
                for metric, value in values.items():
                    numbers["cells"][f"{metric}|{domain}|{level}"] = [_short(value), None, None]
                numbers["scored"][f"{domain}|{level}"] = [cell["scored"], cell["total"]]
    return found


def _published_blocks(report: Report) -> Iterator[Made]:
    harness = any(each.origin.harness for each in report.runs)
    protocols = [each.origin.protocol for each in report.runs]
    for number in table_numbers(protocols, harness=harness):
        table = table_of(number)
        found: dict[tuple[str, ...], dict[str, Any]] = {}
        for row in result_rows([number]):
            name = tuple(filter(None, (row["run"], row.get("harness"))))
            numbers = found.setdefault(name, _no_numbers())
            for metric in ("rmr", "rmr@1.0", "rdr"):
                numbers["cells"][f"{metric}||{row['level']}"] = [row[metric], None, None]
        rows = [
            _row(f"p{number}.{i}", numbers, " · ".join(name), tag="published")
            for i, (name, numbers) in enumerate(found.items())
        ]
        reason = (
            "printed in the paper, to one digit, without intervals, and measured with prompts of its own: "
            "for orientation, never ranked with the runs."
        )
        block = _block(table["protocol"], describe(table), rows, reason, published=True)
        yield block, {row["key"]: each for row, each in zip(rows, found.values(), strict=True)}


def _no_numbers() -> dict[str, Any]:
    return {"cells": {}, "scored": {}, "place": {}}


def _row(
    key: str, numbers: Mapping[str, Any], name: str, run: ReportRun | None = None, tag: str = ""
) -> dict[str, Any]:
    """A row as it is shown first: RMR, all domains, all levels."""
    view = f"|{POOLED}"
    empty: list[float | None] = [None, None, None]
    first = {level: numbers["cells"].get(f"rmr||{level}", empty) for level in GROUPS}
    place = numbers["place"].get(view, empty)
    scored = numbers["scored"].get(view)
    warning = _warning(run.run) if run else ""
    return {
        "key": key,
        "kind": tag or "run",
        "name": name,
        "tag": tag,
        "page": f"run/{run.slug}.html" if run else "",
        "first": first,
        "drawing": interval(Dot(*first[POOLED])),
        "bound": numbers["cells"].get(f"{BOUND}||{POOLED}", empty)[0],
        "place": place_text(place),
        "scored_text": f"{scored[0]:,} / {scored[1]:,}" if scored else "–",
        "warning": warning,
        "warning_short": warning.partition(" of ")[0],
    }


def place_text(place: Sequence[float | None]) -> tuple[str, str]:
    """A place, and the places taken in 95 % of the resamples: "2" and "1–3"."""
    rank, best, worst = place
    spread = "" if best is None or worst is None else f"{best:g}–{worst:g}"
    return ("–" if rank is None else f"{rank:g}"), spread


def _warning(run: Run) -> str:
    """What a reader of the row must know, or nothing."""
    missing = sum(said.state is State.MISSING for said in run.predictions.values())
    if missing:
        return f"{missing:,} not run of {counted(len(run.cases), 'case')}: counted as misses in the lower bound"
    return ""


def _about(members: Sequence[Run]) -> str:
    cases = members[0].cases
    conversations = len({case.conversation_id for case in cases})
    return (
        f"{counted(len(members), 'run')} on the same {counted(len(cases), 'case')} of "
        f"{counted(conversations, 'conversation')}."
    )


def _reason(members: Sequence[Run], main: Sequence[Run]) -> str:
    """Why a block is not ranked with the first one."""
    ours, first = members[0], main[0]
    reasons = []
    if ours.origin.protocol != first.origin.protocol:
        reasons.append(
            f"another protocol, {ours.origin.protocol.replace('_', '-')}, which asks another question of "
            "the guard"
        )
    if ours.data_hash != first.data_hash:
        common = ours.by_id.keys() & first.by_id.keys()
        same = sum(ours.by_id[i] == first.by_id[i] for i in common)
        text = (
            f"other cases: {same:,} of its {len(ours.cases):,} {'is' if same == 1 else 'are'} among the "
            f"{len(first.cases):,} of the first block"
        )
        if same != len(common):
            text += f", and {len(common) - same:,} more have the same id but another text or truth"
        reasons.append(text)
    return "; ".join(reasons) + "."


def _short(value: Any) -> float | None:
    """Five digits are enough to show and to sort by; gaps become None."""
    return None if value is None or pd.isna(value) else round(float(value), 5)
