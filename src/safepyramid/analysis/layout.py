"""From tidy tables to tables for people: what becomes a row, a column, the best of its column."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import pandas as pd

from safepyramid.metrics.stats import FEWEST
from safepyramid.metrics.summary import GROUPS, POOLED
from safepyramid.terminal import one_line

Form = Literal["percent", "points", "count", "number", "usd", "p", "text"]
"""How a value is shown. Points are a difference of percents, with its sign."""

PARTS = {"runs": "", "baselines": "no guard needed"}
"""Section -> heading of its rows. Published rows bring their own."""

FEW = f"fewer than {FEWEST} conversations, too few for an interval"
UNLIKE = "the runs answered different cases, and each is scored on its own"
UNMARKED = (
    "where the runs answered different cases, no best is marked among scores of answered cases"
)


@dataclass(frozen=True, slots=True)
class Measure:
    """A column of a tidy table that is shown, once per value of the column that is spread out."""

    key: str
    title: str
    form: Form = "percent"
    better: Literal["up", "down", ""] = ""
    values: tuple[str, ...] | None = None
    """The spread values that are shown; None for all."""
    of_answered: bool = False
    """Counts answered cases only: rows compete where they answered the same, which `alike` says."""


class Column(NamedTuple):
    """A column of a shown table."""

    group: str
    """Heading shared with its neighbours; empty where it stands alone."""
    title: str
    form: Form
    better: str


class Cell(NamedTuple):
    """A value with its interval; None where undefined or not known."""

    value: Any = None
    low: float | None = None
    high: float | None = None
    fair: bool = True
    """Whether it stands on the same cases as the values that it competes with."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a shown table."""

    labels: tuple[str, ...]
    cells: tuple[Cell, ...]
    part: str = ""
    """Heading that it stands under, within its block."""
    rivals: tuple[str, ...] | None = None
    """Rows with equal `rivals` compete for best and second; None takes no part."""


@dataclass(frozen=True, slots=True)
class Block:
    """Rows that stand on the same cases."""

    title: str
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A table that can be rendered as text, Markdown or LaTeX."""

    title: str
    labels: tuple[str, ...]
    """Titles of the label columns."""
    columns: tuple[Column, ...]
    blocks: tuple[Block, ...]
    notes: tuple[str, ...] = ()
    bare: bool = False
    """Whether a value lacks its interval for want of conversations."""


def build(
    frame: pd.DataFrame,
    *,
    title: str,
    labels: Mapping[str, str],
    measures: Sequence[Measure],
    across: str | None = None,
    rivals: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> Table:
    """Lay out a tidy table.

    Blocks, sections, rows and spread values come in the order in which the table first names them;
    levels always from L0 to the average. Columns without any value are left out.

    Args:
        frame: With the columns `block` and `section`.
        title: Of the table.
        labels: Column -> title: what a row is named by.
        measures: What is shown.
        across: The column whose values are spread out side by side, such as `level`.
        rivals: Label columns whose values must be equal for rows to compete for best and second.
        notes: Lines below the table. What explains missing marks comes after them.
    """
    labels = {key: shown for key, shown in labels.items() if key in frame}
    keys = ["block", "section", *labels]
    order = _values(frame, across)
    cells: dict[tuple[Any, ...], dict[Any, Mapping[str, Any]]] = {}
    for record in frame.to_dict("records"):
        row_key = tuple(_known(record[key]) for key in keys)
        cells.setdefault(row_key, {})[record[across] if across else None] = {
            str(name): value for name, value in record.items()
        }
    wanted = [
        (measure, value)
        for measure in measures
        if measure.key in frame
        for value in order
        if measure.values is None or value in measure.values
    ]
    wanted = [
        (m, v)
        for m, v in wanted
        if any(_known(row[v].get(m.key)) is not None for row in cells.values() if v in row)
    ]
    blocks: dict[str, list[Row]] = {}
    for (block, section, *named), row in cells.items():
        first = next(iter(row.values()))
        blocks.setdefault(block, []).append(
            Row(
                tuple(_label(key, name) for key, name in zip(labels, named, strict=True)),
                tuple(_cell(row.get(value, {}), measure) for measure, value in wanted),
                PARTS.get(section, str(_known(first.get("part")) or "")),
                tuple(str(first[key]) for key in rivals) if section != "baselines" else None,
            )
        )
    own = frame[~frame["section"].isin(["baselines", "published"])]
    return Table(
        title,
        tuple(labels.values()),
        tuple(_column(measure, value, across) for measure, value in wanted),
        tuple(Block(block, tuple(rows)) for block, rows in blocks.items()),
        (*notes, *([UNMARKED] if _lacks_marks(own, measures) else [])),
        _lacks_intervals(own, measures),
    )


def _lacks_intervals(frame: pd.DataFrame, measures: Sequence[Measure]) -> bool:
    with_bounds = [m.key for m in measures if f"{m.key}_low" in frame]
    return any((frame[key].notna() & frame[f"{key}_low"].isna()).any() for key in with_bounds)


def _lacks_marks(frame: pd.DataFrame, measures: Sequence[Measure]) -> bool:
    marked = any(measure.of_answered and measure.better for measure in measures)
    return marked and "alike" in frame and any(value is False for value in frame["alike"])


def places(table: Table, block: Block) -> dict[tuple[int, int], int]:
    """(Row, column) -> 1 for the best and 2 for the second of a column, ties included.

    Values that are shown alike are alike. Where all competing values are alike, there is no best, and
    neither where one of them does not stand on the same cases.
    """
    found: dict[tuple[int, int], int] = {}
    teams: dict[tuple[str, ...], list[int]] = {}
    for i, row in enumerate(block.rows):
        if row.rivals is not None:
            teams.setdefault(row.rivals, []).append(i)
    for j, column in enumerate(table.columns):
        if not column.better:
            continue
        sign = -1 if column.better == "up" else 1
        for team in teams.values():
            values = {i: block.rows[i].cells[j].value for i in team}
            if not all(block.rows[i].cells[j].fair for i in team):
                continue
            shown = {i: sign * round(v, 3) for i, v in values.items() if v is not None}
            ranked = sorted(set(shown.values()))[:2]
            if len(ranked) > 1:
                found |= {(i, j): ranked.index(v) + 1 for i, v in shown.items() if v in ranked}
    return found


def _values(frame: pd.DataFrame, across: str | None) -> list[Any]:
    if across is None:
        return [None]
    found = list(dict.fromkeys(frame[across]))
    return [level for level in GROUPS if level in found] if across == "level" else found


def _known(value: Any) -> Any:
    return None if pd.api.types.is_scalar(value) and pd.isna(value) else value


def _label(key: str, value: Any) -> str:
    if value is None:
        return "default" if key == "effort" else "–"
    return "Avg." if key == "level" and value == POOLED else one_line(str(value))


def _cell(record: Mapping[str, Any], measure: Measure) -> Cell:
    key = measure.key
    low, high = (_known(record.get(f"{key}_{bound}")) for bound in ("low", "high"))
    fair = not measure.of_answered or _known(record.get("alike")) is not False
    return Cell(_known(record.get(key)), low, high, fair)


def _column(measure: Measure, value: Any, across: str | None) -> Column:
    alone = across is None or (measure.values is not None and len(measure.values) == 1)
    if alone:
        return Column("", measure.title, measure.form, measure.better)
    return Column(measure.title, _label(across or "", value), measure.form, measure.better)
