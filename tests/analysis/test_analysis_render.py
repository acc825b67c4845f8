"""Tables as text, Markdown, LaTeX, CSV and JSON lines."""

import csv
import io
import json
import re

import pandas as pd
import pytest
from made_runs import pyramid, run, together

from safepyramid.analysis.compare import compare
from safepyramid.analysis.estimates import to_frame
from safepyramid.analysis.layout import Block, Cell, Column, Measure, Row, Table, build, places
from safepyramid.analysis.layouts import lay_out_comparison
from safepyramid.analysis.render import (
    half_width,
    latex_escaped,
    show,
    to_csv,
    to_jsonl,
    to_latex,
    to_markdown,
    to_text,
)
from safepyramid.analysis.views import VIEWS, Options
from safepyramid.schema import State

CASES = pyramid(4)
IDS = [each.id for each in CASES]


@pytest.fixture(scope="module")
def runs():
    wrong = {1, 2, 4, 5, 7, 8}
    return together(
        run(CASES, {IDS[0]: wrong}, model="org/low_effort", effort="low"),
        run(CASES, {IDS[1]: State.REFUSED}, model="org/low_effort", effort="high"),
        run(CASES, {i: wrong for i in IDS}, model="org/a&b|c", harness="Codex"),
        run(CASES, {i: wrong for i in IDS[:2]}, model="org/a&b|c"),
        run(CASES, model="org/a&b|c"),
    )


@pytest.fixture(scope="module")
def shown(runs):
    options = Options(draws=100)
    return {name: view.lay_out(view.compute(runs, options)) for name, view in VIEWS.items()}


@pytest.mark.parametrize("name", VIEWS)
def test_every_table_renders(shown, name):
    table = shown[name]
    assert table.blocks
    text = to_text(table)
    assert "nan" not in text.lower().split()
    assert "None" not in text
    for line in text.split("\n"):
        assert not line.endswith(" ")


@pytest.mark.parametrize("name", VIEWS)
def test_latex_rows_have_one_cell_a_column(shown, name):
    table = shown[name]
    latex = to_latex(table)
    columns = len(table.labels) + len(table.columns)
    assert rf"{{{'l' * len(table.labels)}{'r' * len(table.columns)}}}" in latex
    for line in latex.split("\n"):
        if line.endswith(r"\\"):
            spans = [int(n) for n in re.findall(r"\\multicolumn\{(\d+)\}", line)]
            cells = len(re.findall(r"(?<!\\)&", line)) + 1
            assert cells - len(spans) + sum(spans) == columns
    assert latex.count(r"\begin{table*}") == latex.count(r"\end{table*}") == 1
    for command in (r"\toprule", r"\bottomrule"):
        assert latex.count(command) == 1


@pytest.mark.parametrize("name", VIEWS)
def test_markdown_rows_have_one_cell_a_column(shown, name):
    table = shown[name]
    for line in to_markdown(table).split("\n"):
        if line.startswith("| "):
            assert len(re.findall(r"(?<!\\)\|", line)) == len(table.labels) + len(table.columns) + 1


def test_text_is_cut_between_headings(shown):
    wide, narrow = to_text(shown["results"], width=1000), to_text(shown["results"], width=80)
    assert narrow.count("\nModel") > wide.count("\nModel")
    assert max(map(len, narrow.split("\n")[:12])) <= 110
    numbers = re.compile(r"(?<![\w.-])\d+\.\d(?![\w.])")  # but for those in names
    assert sorted(numbers.findall(wide)) == sorted(numbers.findall(narrow))


def test_intervals_can_be_left_out(shown):
    assert "±" in to_text(shown["results"])
    without = to_text(shown["results"], intervals=False)
    assert "±" not in without


# --- by hand

FRAME = pd.DataFrame(
    {
        "block": ["b"] * 4,
        "section": ["runs"] * 4,
        "run": ["x", "x", "y", "y"],
        "level": ["L0", "ALL", "L0", "ALL"],
        "rmr": [0.5, 0.25, 0.75, None],
        "rmr_low": [0.4, 0.2, 0.7, None],
        "rmr_high": [0.55, 0.4, 0.8, None],
    }
)


def table(**given):
    measures = [Measure("rmr", "RMR", better="up")]
    return build(
        FRAME, title="T", labels={"run": "Model"}, measures=measures, across="level", **given
    )


def test_layout_by_hand():
    found = table()
    assert found.columns == (
        Column("RMR", "L0", "percent", "up"),
        Column("RMR", "Avg.", "percent", "up"),
    )
    (block,) = found.blocks
    assert [row.labels for row in block.rows] == [("x",), ("y",)]
    assert block.rows[0].cells == (Cell(0.5, 0.4, 0.55), Cell(0.25, 0.2, 0.4))
    assert block.rows[1].cells[1] == Cell(None, None, None)


def test_text_by_hand():
    assert to_text(table(notes=["a note"])) == (
        "T\n"
        "\n"
        "b\n"
        "       RMR ↑\n"
        "Model          L0       Avg.\n"
        "x      50.0° ±10.0  25.0 ±15.0\n"
        "y      75.0* ± 5.0     –\n"
        "\n"
        "a note\n"
        "±: the larger half of the 95 % interval from resampled conversations; CSV has both bounds\n"
        "* best, ° second of a column\n"
    ).replace("Model          L0       Avg.", "Model           L0        Avg.")


def test_a_column_without_values_is_left_out():
    empty = FRAME.assign(rmr=[0.5, None, 0.75, None])
    found = build(
        empty,
        title="T",
        labels={"run": "Model"},
        measures=[Measure("rmr", "RMR"), Measure("absent", "A")],
        across="level",
    )
    assert [column.title for column in found.columns] == ["L0"]


def rows(*values, rivals=()):
    return Block("b", tuple(Row((str(i),), (Cell(v),), "", rivals) for i, v in enumerate(values)))


def marks(block, better="up"):
    one = Table("t", ("n",), (Column("", "x", "percent", better),), (block,))
    return {row: place for (row, _), place in places(one, block).items()}


@pytest.mark.parametrize(
    ("values", "better", "expected"),
    [
        ((0.1, 0.3, 0.2), "up", {1: 1, 2: 2}),
        ((0.1, 0.3, 0.2), "down", {0: 1, 2: 2}),
        ((0.3, 0.3, 0.2, 0.1), "up", {0: 1, 1: 1, 2: 2}),
        ((0.3, 0.2, 0.2), "up", {0: 1, 1: 2, 2: 2}),
        ((0.3, 0.3), "up", {}),  # nothing to tell apart
        ((0.3,), "up", {}),
        ((None, 0.2, 0.1), "up", {1: 1, 2: 2}),
        ((0.30001, 0.30002, 0.1), "up", {0: 1, 1: 1, 2: 2}),  # shown alike
        ((0.1, 0.2), "", {}),
    ],
)
def test_best_and_second(values, better, expected):
    assert marks(rows(*values), better) == expected


@pytest.mark.parametrize(("fair", "expected"), [(True, {0: 2, 1: 1}), (False, {})])
def test_there_is_no_best_of_values_on_different_cases(fair, expected):
    block = Block("b", (Row(("x",), (Cell(0.1, fair=fair),), "", ()), *rows(0.2).rows))
    assert marks(block) == expected


def test_marks_go_by_answered_cases_only_where_they_are_the_same():
    wrong = {1, 2, 4, 5, 7, 8}
    many = pyramid(8)
    ids = [each.id for each in many]
    careful = run(many, {i: wrong for i in ids[:6]}, model="m/careful")
    picky = run(many, dict.fromkeys(ids[:12], State.REFUSED), model="m/picky")
    silent = run(many, dict.fromkeys(ids, State.ERROR), model="m/silent")

    def marked(*members):
        frame = VIEWS["results"].compute(together(*members), Options(published=False, draws=100))
        found = VIEWS["results"].lay_out(frame)
        (block,) = found.blocks
        columns = {found.columns[j][:2] for _, j in places(found, block)}
        return {group or title for group, title in columns}, to_text(found)

    columns, text = marked(careful, picky)
    assert columns == {"lower bound", "not answered"}
    assert "no best is marked among scores of answered cases" in text
    # A run without any answer has no score that could be the best, and does not stand in the way.
    columns, text = marked(careful, run(many, {ids[0]: wrong}, model="m/good"), silent)
    assert {"RMR", "RDR", "lower bound"} <= columns
    assert "no best is marked" not in text


def test_what_has_no_interval_says_why():
    def shown(conversations, **given):
        frame = VIEWS["results"].compute(
            together(run(pyramid(conversations))), Options(published=False, draws=100)
        )
        return to_text(VIEWS["results"].lay_out(frame), **given)

    assert "a value without ±: fewer than 6 conversations" in shown(5)
    assert "without ±" not in shown(6)
    assert "without ±" not in shown(5, intervals=False)


def test_rows_without_rivals_take_no_part():
    assert marks(rows(0.1, 0.2, rivals=None)) == {}


@pytest.mark.parametrize(
    ("value", "form", "expected"),
    [
        (None, "percent", "–"),
        (0.0, "percent", "0.0"),
        (0.5419, "percent", "54.2"),
        (0.055, "points", "+5.5"),
        (-0.157, "points", "−15.7"),
        (1234567, "count", "1,234,567"),
        (0.0004, "p", "<0.001"),
        (0.0314, "p", "0.031"),
        (0.0, "usd", "0.00"),
        (0.0153, "usd", "0.015"),
        (1234.5, "usd", "1,234.50"),
        (0.814, "number", "0.81"),
        (1234.0, "number", "1,234"),
        ("a", "text", "a"),
    ],
)
def test_show(value, form, expected):
    assert show(value, form) == expected


def test_half_width():
    assert half_width(Cell(0.5, 0.4, 0.55)) == pytest.approx(0.1)
    assert half_width(Cell(0.5)) is None
    assert half_width(Cell(None, 0.1, 0.2)) is None


def test_latex_escapes_everything_that_acts():
    assert latex_escaped(r"a_b&c%{d}\e#$^~<>") == (
        r"a\_b\&c\%\{d\}\textbackslash{}e\#\$\textasciicircum{}\textasciitilde{}$<$$>$"
    )


@pytest.mark.parametrize("name", ["[x] y", "*", "\\foo"])
def test_no_latex_row_begins_with_what_its_line_break_would_take(name):
    block = Block("b", (Row(("a",), (Cell(0.1),)), Row((name,), (Cell(0.2),))))
    latex = to_latex(Table("t", ("n",), (Column("", "x", "percent", ""),), (block,)))
    assert not re.search(r"\\\\\s*[\[*]", latex)
    assert not re.search(r"\n\s*[\[*]", latex)


def test_markdown_escapes_cells():
    hostile = Table(
        "t",
        ("n",),
        (Column("", "x", "text", ""),),
        (Block("b", (Row(("a|b*",), (Cell("<u>"),)),)),),
    )
    assert r"| a\|b\* | \<u\> |" in to_markdown(hostile)


# --- data


def test_csv_and_json_lines_keep_gaps_and_precision():
    frame = pd.DataFrame({"run": ["a, b", "c"], "rmr": [1 / 3, None], "rules": [[1, 2], []]})
    read = list(csv.DictReader(io.StringIO(to_csv(frame))))
    assert float(read[0]["rmr"]) == 1 / 3
    assert (read[0]["run"], read[1]["rmr"], read[0]["rules"]) == ("a, b", "", "[1, 2]")
    lines = [json.loads(line) for line in to_jsonl(frame.to_dict("records")).split("\n") if line]
    assert lines == [
        {"run": "a, b", "rmr": 1 / 3, "rules": [1, 2]},
        {"run": "c", "rmr": None, "rules": []},
    ]


def test_json_lines_survive_half_a_surrogate_pair():
    frame = to_frame([{"reply": "\ud83d \u2028"}])
    line = to_jsonl(frame.to_dict("records"))
    line.encode("utf-8")
    assert json.loads(line) == {"reply": "\ud83d \u2028"}
    assert line.count("\n") == 1


@pytest.mark.parametrize("name", VIEWS)
def test_every_table_as_data(runs, name):
    frame = VIEWS[name].compute(runs, Options(draws=100))
    lines = [json.loads(line) for line in to_jsonl(frame.to_dict("records")).split("\n") if line]
    assert len(lines) == len(frame)
    assert len(list(csv.reader(io.StringIO(to_csv(frame))))) == len(frame) + 1


def test_a_comparison_renders(runs):
    found = lay_out_comparison(compare(runs[0], runs[2], draws=100), list_cases=True)
    text = "\n".join(map(to_text, found))
    assert "Cases that changed" in text
    assert "org/a&b|c · Codex against org/low_effort · low" in text
