"""Charts as drawings: well formed, in bounds, and complete."""

import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safepyramid.report.charts import (
    WIDTH,
    Dot,
    Line,
    bar_chart,
    dot_chart,
    interval,
    line_chart,
    percent,
)

SHARES = st.none() | st.floats(0, 1)


def parts(svg: str, kind: str) -> list[ElementTree.Element]:
    root = ElementTree.fromstring(svg)
    return [e for e in root.iter() if kind in (e.get("class") or "").split()]


def numbers(element: ElementTree.Element) -> list[float]:
    text = " ".join(v for k, v in element.attrib.items() if k not in ("class", "text-anchor"))
    return [float(n) for n in re.findall(r"-?\d+(?:\.\d+)?", text)]


@pytest.mark.parametrize(
    ("value", "text"), [(None, "–"), (0.0, "0.0"), (1.0, "100.0"), (0.1235, "12.3")]
)
def test_percent(value: float | None, text: str) -> None:
    assert percent(value) == text


@given(st.lists(st.lists(SHARES, min_size=4, max_size=4), max_size=4))
def test_a_line_chart_has_a_marker_for_each_value(rows: list[list[float | None]]) -> None:
    lines = [Line(f"<{i}>", values) for i, values in enumerate(rows)]
    svg = line_chart("a & b", lines, ["1.0", "0.9", "0.8", "0.7"], "τ")
    known = sum(value is not None for row in rows for value in row)
    named = sum(any(value is not None for value in row) for row in rows)
    assert len(parts(svg, "mark")) == known + named
    for marker in parts(svg, "mark"):
        assert all(0 <= n <= WIDTH for n in numbers(marker))


def test_labels_of_lines_do_not_cover_each_other() -> None:
    lines = [Line(str(i), [0.0, 0.0]) for i in range(4)]
    svg = line_chart("t", lines, ["a", "b"], "x")
    ys = sorted(
        float(e.get("y") or 0) for e in parts(svg, "label") if (e.text or "").endswith(" 0.0")
    )
    assert len(ys) == 4
    assert all(b - a >= 14 for a, b in pairwise(ys))


def test_an_undefined_value_is_not_drawn() -> None:
    svg = dot_chart("t", {"a": Dot(None), "b": Dot(0.5, 0.25, 0.75)})
    assert len(parts(svg, "dot")) == len(parts(svg, "whisker")) == 1
    assert "–" in svg
    (whisker,) = parts(svg, "whisker")
    (dot,) = parts(svg, "dot")
    middle = (float(whisker.get("x1") or 0) + float(whisker.get("x2") or 0)) / 2
    assert float(dot.get("cx") or 0) == pytest.approx(middle)
    assert "circle" not in interval(Dot(None))
    assert 'aria-label="50.0 (25.0 to 75.0)"' in interval(Dot(0.5, 0.25, 0.75))


@given(st.lists(st.integers(0, 10**6), min_size=7, max_size=7))
def test_a_bar_is_cut_into_its_shares(counts: list[int]) -> None:
    names = {f"part {i}": i for i in range(7)}
    row = dict(zip(names, counts, strict=True))
    svg = bar_chart("t", {"row": row}, names)
    bars = [e for e in parts(svg, "part") if e.get("height") == "18"]
    assert len(bars) == sum(count > 0 for count in counts)
    widths = [float(bar.get("width") or 0) for bar in bars]
    assert sum(widths) == pytest.approx(WIDTH - 4 if sum(counts) else 0, abs=0.5)
    titles = [bar[0].text for bar in bars]
    assert titles == [f"{name}: {count:,}" for name, count in row.items() if count]
    for stroke in parts(svg, "texture"):
        assert all(0 <= n <= WIDTH for n in numbers(stroke)[0::2])


def test_parts_differ_without_colour() -> None:
    names = {f"p{i}": i for i in range(7)}
    svg = bar_chart("t", {"row": dict.fromkeys(names, 10)}, names)
    root = ElementTree.fromstring(svg)
    patterns = []
    for element in root:
        if "part" in (element.get("class") or "").split() and element.get("width") == "14":
            patterns.append("")
            origin = float(element.get("x") or 0), float(element.get("y") or 0)
        elif element.get("class") == "texture" and patterns and not patterns[-1]:
            points = re.findall(r"([\d.]+) ([\d.]+)", element.get("d") or "")
            patterns[-1] = str(
                [(round(float(x) - origin[0]), round(float(y) - origin[1])) for x, y in points]
            )
    assert len(patterns) == len(set(patterns)) == 7
