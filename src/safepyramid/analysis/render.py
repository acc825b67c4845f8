"""Tables as text, Markdown and LaTeX; tidy tables as CSV and JSON lines."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import pandas as pd

from safepyramid.analysis.layout import FEW, Block, Cell, Column, Form, Row, Table, places

WIDTH = 140
"""Characters: a text table that is wider is cut between headings and goes on below."""
MISSING = "–"
ARROWS = {"up": " ↑", "down": " ↓", "": ""}
INTERVAL_NOTE = (
    "±: the larger half of the 95 % interval from resampled conversations; CSV has both bounds"
)


def show(value: Any, form: Form) -> str:
    """A value as people read it; a dash where there is none."""
    if value is None:
        return MISSING
    if form == "percent":
        return f"{100 * value:.1f}"
    if form == "points":
        return f"{100 * value:+.1f}".replace("-", "−")
    if form == "count":
        return f"{value:,.0f}"
    if form == "number":
        return f"{value:.2f}" if abs(value) < 100 else f"{value:,.0f}"
    if form == "usd":
        return f"{value:,.2f}" if value >= 1 or value == 0 else f"{value:.2g}"
    if form == "p":
        return "<0.001" if value < 0.001 else f"{value:.3f}"
    return str(value)


def half_width(cell: Cell) -> float | None:
    """The larger half of a cell's interval; None without one."""
    if cell.value is None or cell.low is None or cell.high is None:
        return None
    return float(max(cell.high - cell.value, cell.value - cell.low))


def cell_texts(cell: Cell, form: Form, intervals: bool) -> tuple[str, str]:
    """A cell's value, and what follows its ±; the latter empty without an interval."""
    half = half_width(cell) if intervals else None
    unsigned: Form = "percent" if form == "points" else form
    return show(cell.value, form), "" if half is None else show(half, unsigned)


def notes_of(table: Table, intervals: bool, marks: str) -> list[str]:
    """The lines below a table."""
    has_interval = any(
        half_width(cell) is not None
        for block in table.blocks
        for row in block.rows
        for cell in row.cells
    )
    return [
        *table.notes,
        *([INTERVAL_NOTE] if intervals and has_interval else []),
        *([f"a value without ±: {FEW}"] if intervals and table.bare else []),
        marks,
    ]


def thinned(rows: Sequence[Row]) -> Iterator[tuple[Row, tuple[str, ...]]]:
    """Rows with their labels, where a label that the row above has too is left empty."""
    above: tuple[str, ...] = ()
    part = None
    for row in rows:
        repeated = row.labels[:1] == above[:1] and len(row.labels) > 1 and row.part == part
        yield row, (("", *row.labels[1:]) if repeated else row.labels)
        above, part = row.labels, row.part


def _groups(columns: Sequence[Column]) -> list[list[int]]:
    """Runs of columns under one heading; a column without a heading stands alone."""
    keys = [(column.group, "" if column.group else i) for i, column in enumerate(columns)]
    return [list(found) for _, found in groupby(range(len(columns)), key=lambda i: keys[i])]


def _title(column: Column) -> str:
    return column.title if column.group else column.title + ARROWS[column.better]


def _heading(column: Column) -> str:
    return column.group + ARROWS[column.better] if column.group else ""


# --- text


def to_text(table: Table, *, intervals: bool = True, width: int = WIDTH) -> str:
    """A table for a terminal: * is the best of a column, ° the second."""
    texts = _text_cells(table, intervals)
    sizes = [
        max(len(_title(column)), *(len(row[j]) for rows in texts for row in rows), 1)
        for j, column in enumerate(table.columns)
    ]
    for group in _groups(table.columns):
        short = len(_heading(table.columns[group[0]])) - sum(sizes[j] + 2 for j in group) + 2
        sizes[group[-1]] += max(0, short)
    left = [
        max(len(title), *(len(row.labels[k]) for block in table.blocks for row in block.rows), 1)
        for k, title in enumerate(table.labels)
    ]
    parts = [table.title]
    for block, rows in zip(table.blocks, texts, strict=True):
        panels = [
            _panel(table, block, rows, panel, sizes, left)
            for panel in _fitting(table.columns, sizes, width - sum(left) - 2 * len(left))
            if any(row.cells[j].value is not None for row in block.rows for j in panel)
        ] or ["nothing is known of these"]
        parts += [f"{block.title}\n{panels[0]}", *panels[1:]]
    marked = any(places(table, block) for block in table.blocks)
    notes = notes_of(table, intervals, "* best, ° second of a column" if marked else "")
    return "\n\n".join([*parts, "\n".join(filter(None, notes))]).rstrip() + "\n"


def _text_cells(table: Table, intervals: bool) -> list[list[list[str]]]:
    """Block, row, column -> text. Digits stand below digits: gaps fill the place of mark and ±."""
    texts = [
        [
            [
                cell_texts(cell, column.form, intervals)
                for cell, column in zip(row.cells, table.columns, strict=True)
            ]
            for row in block.rows
        ]
        for block in table.blocks
    ]
    marks = [places(table, block) for block in table.blocks]
    marked = {j for found in marks for _, j in found}
    halves = [
        max((len(row[j][1]) for rows in texts for row in rows), default=0)
        for j in range(len(table.columns))
    ]

    def text(found: dict[tuple[int, int], int], i: int, j: int, value: str, half: str) -> str:
        mark = {1: "*", 2: "°"}.get(found.get((i, j), 0), " ") if j in marked else ""
        gap = " " * (halves[j] + 2) if halves[j] else ""
        return value + mark + (f" ±{half.rjust(halves[j])}" if half else gap)

    return [
        [
            [text(found, i, j, value, half) for j, (value, half) in enumerate(row)]
            for i, row in enumerate(rows)
        ]
        for rows, found in zip(texts, marks, strict=True)
    ]


def _fitting(columns: Sequence[Column], sizes: Sequence[int], width: int) -> list[list[int]]:
    """The columns of each panel: as many whole headings as fit, at least one."""
    panels: list[list[int]] = [[]]
    for group in _groups(columns):
        used = sum(sizes[j] + 2 for j in panels[-1])
        if panels[-1] and used + sum(sizes[j] + 2 for j in group) > width:
            panels.append([])
        panels[-1] += group
    return panels


def _panel(
    table: Table,
    block: Block,
    texts: Sequence[Sequence[str]],
    columns: Sequence[int],
    sizes: Sequence[int],
    left: Sequence[int],
) -> str:
    def line(labels: Sequence[str], cells: Sequence[str]) -> str:
        start = [label.ljust(size) for label, size in zip(labels, left, strict=True)]
        rest = [cell.rjust(sizes[j]) for cell, j in zip(cells, columns, strict=True)]
        return "  ".join([*start, *rest]).rstrip()

    shown = [table.columns[j] for j in columns]
    lines = []
    if any(column.group for column in shown):
        parts = [
            _heading(shown[group[0]]).ljust(sum(sizes[columns[j]] + 2 for j in group) - 2)
            for group in _groups(shown)
        ]
        lines.append("  ".join([*(" " * size for size in left), *parts]).rstrip())
    lines.append(line(table.labels, [_title(column) for column in shown]))
    part = ""
    for (row, labels), cells in zip(thinned(block.rows), texts, strict=True):
        if row.part != part:
            part = row.part
            lines.append(f"– {part}" if part else "")
        lines.append(line(labels, [cells[j] for j in columns]))
    return "\n".join(lines)


# --- Markdown


def to_markdown(table: Table, *, intervals: bool = True) -> str:
    """A Markdown table per block: best in bold, second underlined."""
    parts = [f"**{_md(table.title)}**"]
    for block in table.blocks:
        marks = places(table, block)
        titles = [f"{column.group} {_md(_title(column))}".strip() for column in table.columns]
        arrows = [ARROWS[column.better] if column.group else "" for column in table.columns]
        head = [*table.labels, *(t + a for t, a in zip(titles, arrows, strict=True))]
        rule = ["---"] * len(table.labels) + ["---:"] * len(table.columns)
        lines = [_md_row(head), _md_row(rule)]
        part = ""
        for i, (row, labels) in enumerate(thinned(block.rows)):
            if row.part != part:
                part = row.part
                lines.append(_md_row([f"*{_md(part)}*", *[""] * (len(head) - 1)]))
            cells = []
            for j, (cell, column) in enumerate(zip(row.cells, table.columns, strict=True)):
                value, half = cell_texts(cell, column.form, intervals)
                mark = {1: f"**{_md(value)}**", 2: f"<u>{_md(value)}</u>"}
                cells.append(
                    mark.get(marks.get((i, j), 0), _md(value)) + (f" ±{half}" if half else "")
                )
            lines.append(_md_row([*map(_md, labels), *cells]))
        parts += [_md(block.title), "\n".join(lines)]
    marked = any(places(table, block) for block in table.blocks)
    note = "bold: best, underlined: second of a column" if marked else ""
    parts += ["  \n".join(_md(line) for line in notes_of(table, intervals, note) if line)]
    return "\n\n".join(filter(None, parts)) + "\n"


def _md_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _md(text: str) -> str:
    return re.sub(r"([\\|*_<>`\[\]])", r"\\\1", text)


# --- LaTeX

_LATEX = {
    **{c: f"\\{c}" for c in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": "$<$",
    ">": "$>$",
    "–": "--",
    "−": "$-$",
    "±": r"$\pm$",
    "·": r"$\cdot$",
    "°": r"$^\circ$",
    "τ": r"$\tau$",
    "Δ": r"$\Delta$",
    "↑": r"$\uparrow$",
    "↓": r"$\downarrow$",
    # At the start of a row they would be an option of the line break before it.
    "[": "{[}",
    "*": "{*}",
}


def latex_escaped(text: str) -> str:
    """Text with everything that LaTeX would act on made harmless."""
    return "".join(_LATEX.get(char, char) for char in text)


def to_latex(table: Table, *, intervals: bool = True) -> str:
    r"""A LaTeX table (packages booktabs and graphicx): best in bold, second underlined.

    A block is a group of rows under a line of its own; the notes come below as a comment on what the
    numbers are.
    """
    columns = len(table.labels) + len(table.columns)
    lines = [
        r"\begin{table*}[t]",
        r"\centering",
        rf"\caption{{{latex_escaped(table.title)}}}",
        r"\resizebox{\textwidth}{!}{%",
        rf"\begin{{tabular}}{{{'l' * len(table.labels)}{'r' * len(table.columns)}}}",
        r"\toprule",
        *_latex_head(table),
    ]
    for block in table.blocks:
        marks = places(table, block)
        lines += [r"\midrule", _spanning(columns, block.title)]
        part = ""
        for i, (row, labels) in enumerate(thinned(block.rows)):
            if row.part != part:
                part = row.part
                lines.append(_spanning(columns, part) if part else r"\addlinespace")
            cells = [
                _latex_cell(cell, column.form, intervals, marks.get((i, j), 0))
                for j, (cell, column) in enumerate(zip(row.cells, table.columns, strict=True))
            ]
            lines.append(" & ".join([*map(latex_escaped, labels), *cells]) + r" \\")
    marked = any(places(table, block) for block in table.blocks)
    note = "bold: best, underlined: second of a column" if marked else ""
    notes = [latex_escaped(line) for line in notes_of(table, intervals, note) if line]
    lines += [r"\bottomrule", r"\end{tabular}}"]
    if notes:
        lines += [r"\par\smallskip\footnotesize", ". ".join(notes) + "."]
    return "\n".join([*lines, r"\end{table*}"]) + "\n"


def _latex_head(table: Table) -> Iterator[str]:
    start = len(table.labels)
    if any(column.group for column in table.columns):
        cells, rules = [""] * start, []
        for group in _groups(table.columns):
            heading = latex_escaped(_heading(table.columns[group[0]]))
            cells.append(rf"\multicolumn{{{len(group)}}}{{c}}{{{heading}}}" if heading else "")
            if heading:
                rules.append(rf"\cmidrule(lr){{{start + group[0] + 1}-{start + group[-1] + 1}}}")
        yield " & ".join(cells) + r" \\"
        yield " ".join(rules)
    titles = [*table.labels, *(_title(column) for column in table.columns)]
    yield " & ".join(map(latex_escaped, titles)) + r" \\"


def _spanning(columns: int, text: str) -> str:
    return rf"\multicolumn{{{columns}}}{{l}}{{\textit{{{latex_escaped(text)}}}}} \\"


def _latex_cell(cell: Cell, form: Form, intervals: bool, place: int) -> str:
    value, half = cell_texts(cell, form, intervals)
    shown = latex_escaped(value)
    if place:
        shown = rf"\{'textbf' if place == 1 else 'underline'}{{{shown}}}"
    return shown + (rf"{{\scriptsize$\pm${latex_escaped(half)}}}" if half else "")


# --- data


def to_csv(frame: pd.DataFrame) -> str:
    """A tidy table in full precision; an undefined value is an empty field."""
    flat = frame.map(lambda value: _json(value) if isinstance(value, list | dict) else value)
    text: str = flat.to_csv(index=False, lineterminator="\n")
    return text


def to_jsonl(rows: Iterable[Mapping[Any, Any]]) -> str:
    """Rows as JSON lines; an undefined value is null. Of a tidy table: `frame.to_dict("records")`."""
    return "".join(_json({key: plain(value) for key, value in row.items()}) + "\n" for row in rows)


def plain(value: Any) -> Any:
    """A table's value as JSON has it: missing is None, and NumPy's numbers are Python's."""
    if isinstance(value, list | dict | str):
        return value
    if isinstance(value, set | frozenset):
        return sorted(value)
    if pd.isna(value):
        return None
    return value.item() if hasattr(value, "item") else value


def _json(value: Any) -> str:
    # Escaped to ASCII: a model's text may hold half a surrogate pair.
    return json.dumps(value, allow_nan=False)
