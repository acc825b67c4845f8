"""Plots: files that can be opened, and marks that say the same without color."""

import csv
import json
import struct
from dataclasses import replace
from itertools import pairwise
from xml.etree import ElementTree

import pandas as pd
import pytest
from made_runs import pyramid, run, together

from safepyramid.analysis.marks import COLORS, DASHES, FOCUS, LONGEST, SHAPES, run_marks, shorten
from safepyramid.analysis.plots import PLOTS, SHADES, draw, frontier
from safepyramid.analysis.runs import Usage
from safepyramid.analysis.views import Options
from safepyramid.errors import DataError
from safepyramid.schema import State

CASES = pyramid(4)
IDS = [each.id for each in CASES]
WRONG = {1, 2, 4, 5, 7, 8}
OPTIONS = Options(draws=100)


def used(price):
    return [Usage("guard", "m", 12, 1000, 0, 0, 100, 0, price)]


@pytest.fixture(scope="module")
def runs():
    return together(
        run(CASES, {i: WRONG for i in IDS[:6]}, model="org/<b>", effort="low", usage=used(0.01)),
        run(CASES, {i: WRONG for i in IDS[:2]}, model="org/<b>", effort="high", usage=used(0.5)),
        run(CASES, {i: WRONG for i in IDS[:4]}, model="org/free", usage=used(0.0)),
        run(CASES, {i: WRONG for i in IDS[:5]}, model="org/unknown"),
        run(CASES[:6], {IDS[0]: State.REFUSED}, model="org/part", usage=used(2.0)),
    )


@pytest.fixture(scope="module")
def drawn(runs, tmp_path_factory):
    folder = tmp_path_factory.mktemp("plots")
    return {name: draw(name, runs, folder / name, OPTIONS) for name in PLOTS}


@pytest.mark.parametrize("name", PLOTS)
def test_files(drawn, name):
    svg, png, data = drawn[name]
    assert [path.suffix for path in drawn[name]] == [".svg", ".png", ".csv"]
    ElementTree.parse(svg)
    content = png.read_bytes()
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", content[16:24])
    assert min(width, height) > 400
    rows = list(csv.DictReader(data.open(encoding="utf-8")))
    assert rows
    assert {"block", "run"} <= rows[0].keys()


@pytest.mark.parametrize("name", PLOTS)
def test_names_and_what_it_stands_on_are_in_the_picture(drawn, runs, name):
    text = drawn[name][0].read_text(encoding="utf-8")
    assert f"data {runs[0].data_hash[:8]}" in text
    assert "org/&lt;b&gt;" in text
    assert "<b>" not in text


def test_runs_on_other_cases_stand_in_a_panel_of_their_own(runs):
    _, chart = PLOTS["levels"](runs, replace(OPTIONS, published=False))
    panels = chart.to_dict()["vconcat"]
    assert len(panels) == 2
    assert [panel["title"]["subtitle"][0] for panel in panels] == [
        runs[0].stands_on,
        runs[4].stands_on,
    ]


def test_published_rows_are_a_panel_too(runs):
    _, chart = PLOTS["levels"](runs, OPTIONS)
    titles = [panel["title"]["subtitle"][0] for panel in chart.to_dict()["vconcat"]]
    assert titles[-1].startswith("published")


def test_what_color_says_shape_and_dash_say_too():
    marks = run_marks(pd.DataFrame({"run": [f"r{i}" for i in range(30)]}))
    scales = {name: marks[name].to_dict()["scale"]["range"] for name in ("shape", "strokeDash")}
    looks = list(zip(scales["shape"], map(str, scales["strokeDash"]), strict=True))
    assert len(set(looks)) == 30
    assert len(COLORS) != len(SHAPES) != len(DASHES)


def luminance(color):
    red, green, blue = (int(color[i : i + 2], 16) for i in (1, 3, 5))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_rule_types_can_be_told_apart_in_gray():
    shades = [luminance(color) for color in SHADES.values()]
    steps = [b - a for a, b in pairwise(shades)]
    assert all(step > 20 for step in steps)


def test_frontier_by_hand():
    frame = pd.DataFrame(
        [
            ("b", "cheap", 1.0, 0.2),
            ("b", "good", 5.0, 0.6),
            ("b", "worse and dearer", 6.0, 0.5),
            ("b", "as good but dearer", 5.5, 0.6),
            ("b", "twin", 5.0, 0.6),
            ("other", "alone", 9.0, 0.1),
        ],
        columns=["block", "run", "price_per_1000", "rmr"],
    )
    assert frontier(frame) == {"cheap", "good", "twin", "alone"}


def test_cost_says_what_is_left_out(runs):
    frame, chart = PLOTS["cost"](runs, OPTIONS)
    assert "1 run without a known price left out" in json.dumps(chart.to_dict())
    unknown = frame[frame["run"] == "org/unknown"].iloc[0]
    assert pd.isna(unknown["price_per_1000"])
    with pytest.raises(DataError, match="no run has both a price and a score"):
        PLOTS["cost"](together(run(CASES)), OPTIONS)


def test_nothing_to_draw(tmp_path):
    silent = together(run(CASES, dict.fromkeys(IDS, State.ERROR)))
    with pytest.raises(DataError, match="no run has a scored case"):
        draw("thresholds", silent, tmp_path / "x", OPTIONS)
    for name in ("levels", "domains"):
        with pytest.raises(DataError, match="no run has a scored case"):
            draw(name, silent, tmp_path / "x", OPTIONS)
    with pytest.raises(DataError, match="no errors to draw"):
        draw("errors", together(run(CASES)), tmp_path / "x", OPTIONS)
    with pytest.raises(DataError, match="differ in effort"):
        draw("effort", together(run(CASES)), tmp_path / "x", OPTIONS)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["levels", "thresholds", "domains"])
def test_a_run_without_a_score_is_named_and_not_drawn(name, tmp_path):
    cases = pyramid(8)
    silent = run(cases, dict.fromkeys([c.id for c in cases], State.ERROR), model="org/silent")
    _, chart = PLOTS[name](together(run(cases), silent), replace(OPTIONS, published=False))
    drawn = chart.to_dict()
    assert "not drawn, since no case was answered: 1 run" in json.dumps(drawn["vconcat"])
    assert "org/silent" not in json.dumps(drawn["datasets"])


@pytest.mark.parametrize("name", ["levels", "thresholds"])
def test_of_many_runs_the_first_stand_out(name):
    cases = pyramid(6)
    many = [run(cases, {c.id: WRONG for c in cases[:k]}, model=f"m{k}") for k in range(FOCUS + 3)]
    _, chart = PLOTS[name](together(*many), replace(OPTIONS, published=False))
    text = json.dumps(chart.to_dict())
    assert "gray: 3 more runs, named in the CSV" in text
    assert text.count('"#C4C4C4"') == (1 if name == "levels" else 4)


@pytest.mark.parametrize("name", ["levels", "thresholds", "domains", "effort", "cost"])
def test_values_without_interval_say_why(runs, name):
    _, chart = PLOTS[name](runs, replace(OPTIONS, published=False))
    assert "a value without interval: fewer than 6 conversations" in json.dumps(chart.to_dict())


def test_names_are_cut_in_their_middle_and_stay_apart():
    long = [f"org/{'x' * 80} · guard · {effort}" for effort in ("low", "high")]
    twins = [f"{'a' * 40}{middle}{'b' * 40}" for middle in "12"]
    found = shorten([*long, *twins, "short", "a\x1bb\uffff"])
    assert found[long[0]].endswith("· guard · low")
    assert found[long[1]].endswith("· guard · high")
    assert found["short"] == "short"
    assert found["a\x1bb\uffff"] == "a b"
    assert len(set(found.values())) == len(found)
    assert max(map(len, found.values())) <= LONGEST + 4


def test_hostile_names_are_drawn(tmp_path):
    odd = "\x1b[31m\n\x00\uffff"
    cases = [replace(each, domain=f"a{odd}{'x' * 300}") for each in pyramid(6)]
    made = together(run(cases, {cases[0].id: WRONG}, model=f"m{odd}"))
    for name in ("domains", "errors", "levels", "thresholds"):
        svg, png, _ = draw(name, made, tmp_path / name, OPTIONS)
        ElementTree.parse(svg)
        width, _ = struct.unpack(">II", png.read_bytes()[16:24])
        assert width < 5000


def test_a_dot_in_the_name_is_kept(runs, tmp_path):
    files = draw("errors", runs, tmp_path / "gpt-5.5", OPTIONS)
    assert [path.name for path in files] == ["gpt-5.5.svg", "gpt-5.5.png", "gpt-5.5.csv"]
    assert draw("errors", runs, tmp_path / "a.png", OPTIONS)[0].name == "a.svg"
