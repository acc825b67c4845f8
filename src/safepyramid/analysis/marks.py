"""What the plots share: colors, shapes and dash patterns of runs, and line panels."""

from collections.abc import Iterable, Sequence
from typing import Any

import altair as alt
import pandas as pd

from safepyramid.analysis.layout import FEW, UNLIKE
from safepyramid.analysis.runs import plain_text
from safepyramid.errors import DataError

COLORS = (
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#56B4E9", "#E69F00", "#8B6F00"),
)
"""Told apart with any kind of color vision (after Okabe and Ito)."""
SHAPES = (
    *("circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "triangle-right"),
)
"""One less than the colors, so that no two of 56 runs look the same."""
DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [4, 1])

FOCUS, FOCUS_BARE = 8, 12
"""Runs of a line panel that are drawn in full, with bars or without: the first, which are the best by
lower bound. The others are gray lines."""
LONGEST = 46
"""Characters of a name in a picture; longer ones lose their middle."""


def line_panel(
    frame: pd.DataFrame,
    x: str,
    metric: str,
    order: Sequence[str],
    title: str,
    *,
    width: int,
    name: str = "",
) -> Any:
    """A line per run with interval bars; runs stand side by side at each place of x if they have any.

    Runs without a value are not drawn. Of many, the first are drawn in full (see `FOCUS`).
    """
    frame = scored(frame, metric)
    data = percents(frame, [metric, f"{metric}_low", f"{metric}_high"])
    arrow = "lower is better" if metric == "rdr" else "higher is better"
    spread = alt.Scale(paddingInner=0.5, paddingOuter=0.25)
    place: dict[str, Any] = {
        "x": alt.X(
            f"{x}:O", sort=list(order), title=title, axis=alt.Axis(labelAngle=0), scale=spread
        )
    }
    with_bars, plain = _has_bars(data, metric), dict(place)
    first = data["run"].isin(list(dict.fromkeys(data["run"]))[: _focus(data, metric)])
    data, rest = data[first], data[~first]
    if with_bars:
        place["xOffset"] = alt.XOffset("run:N", sort=list(dict.fromkeys(data["run"])))
    y = alt.Y(
        f"{metric}:Q",
        title=f"{name or metric.upper()}, % ({arrow})",
        scale=alt.Scale(domain=[0, 100]),
    )
    marks, base = run_marks(data), alt.Chart(data)
    color, shape, dash = marks["color"], marks["shape"], marks["strokeDash"]
    lines = base.mark_line(strokeWidth=1.6).encode(**place, y=y, color=color, strokeDash=dash)
    points = base.mark_point(filled=True, size=55, opacity=1).encode(
        **place, y=y, color=color, shape=shape
    )
    layers = [lines, points]
    if with_bars:
        ends = {"y": f"{metric}_low:Q", "y2": f"{metric}_high:Q"}
        layers.insert(0, base.mark_rule().encode(**place, **ends, color=color))
    if len(rest):
        gray = alt.Chart(rest).mark_line(strokeWidth=1, color="#C4C4C4")
        layers.insert(0, gray.encode(**plain, y=y, detail="run:N"))
    return alt.layer(*layers).properties(width=width, height=260)


def _has_bars(frame: pd.DataFrame, metric: str) -> bool:
    return f"{metric}_low" in frame and bool(frame[f"{metric}_low"].notna().any())


def _focus(frame: pd.DataFrame, metric: str) -> int:
    return FOCUS if _has_bars(frame, metric) else FOCUS_BARE


def scored(frame: pd.DataFrame, metric: str) -> pd.DataFrame:
    """The rows of the runs that have a value anywhere."""
    return frame[frame["run"].isin(frame.loc[frame[metric].notna(), "run"])]


def remarks(frame: pd.DataFrame, metric: str, *, lines: bool = True) -> list[str]:
    """What a reader of a panel should know: runs not drawn or in gray, values that lack something."""
    if "section" in frame and not (frame["section"] == "runs").any():
        return []  # published rows were printed without intervals
    shown = scored(frame, metric)
    absent = frame["run"].nunique() - shown["run"].nunique()
    gray = shown["run"].nunique() - _focus(shown, metric) if lines else 0
    low = f"{metric}_low"
    bare = low in shown and bool((shown[metric].notna() & shown[low].isna()).any())
    return [
        *([f"not drawn, since no case was answered: {counted(absent, 'run')}"] if absent else []),
        *([f"gray: {counted(gray, 'more run')}, named in the CSV"] if gray > 0 else []),
        *([f"a value without interval: {FEW}"] if bare else []),
        *([UNLIKE] if "alike" in shown and not shown["alike"].all() else []),
    ]


def counted(number: int, what: str) -> str:
    """A number with its noun, in the plural but for one."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def shorten(names: Iterable[str]) -> dict[str, str]:
    """Name -> what stands for it in a picture: the same, or its beginning and end; never one twice."""
    found: dict[str, str] = {}
    taken: set[str] = set()
    for name in dict.fromkeys(names):
        plain = plain_text(name)
        if len(plain) > LONGEST:
            plain = f"{plain[: LONGEST // 2 - 1]}…{plain[-LONGEST // 2 :]}"
        short, number = plain, 1
        while short in taken:
            number += 1
            short = f"{plain} ({number})"
        taken.add(short)
        found[name] = short
    return found


def run_marks(frame: pd.DataFrame) -> dict[str, Any]:
    """Color, shape and dash pattern of each run, in one legend."""
    names = list(dict.fromkeys(frame["run"]))

    def scale(values: Sequence[Any]) -> dict[str, Any]:
        chosen = [values[i % len(values)] for i in range(len(names))]
        return {"scale": alt.Scale(domain=names, range=chosen), "sort": names, "title": None}

    return {
        "color": alt.Color("run:N", **scale(COLORS)),
        "shape": alt.Shape("run:N", **scale(SHAPES)),
        "strokeDash": alt.StrokeDash("run:N", **scale(DASHES)),
    }


def percents(frame: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """The columns that plots need, shares in percent, names as they stand in a picture."""
    known = [column for column in columns if column in frame]
    kept = [c for c in frame if c in known or c in KEPT]
    names = {
        column: frame[column].map(shorten(frame[column]))
        for column in ("run", "domain")
        if column in frame
    }
    return frame[kept].assign(**{column: 100 * frame[column] for column in known}, **names)


KEPT = (
    *("run", "level", "tau", "domain", "type", "effort", "series"),
    *("price_per_1000", "frontier"),
)


def stacked(panels: list[Any]) -> Any:
    """Panels below each other, each with a legend of its own.

    Raises:
        DataError: There is none.
    """
    if not panels:
        raise DataError("no run has a scored case, so there is nothing to draw")
    own: dict[str, Any] = dict.fromkeys(("color", "shape", "strokeDash", "xOffset"), "independent")
    return alt.vconcat(*panels).resolve_scale(**own)


def title_of(text: str, *lines: str) -> alt.TitleParams:
    """A title with lines below it."""
    return alt.TitleParams(text, subtitle=list(lines), anchor="start", offset=12)


def styled(chart: Any) -> Any:
    """The look of all plots."""
    return (
        chart.configure_view(stroke=None)
        .configure_axis(labelFontSize=11, titleFontSize=11, gridColor="#E3E3E3", labelLimit=400)
        .configure_title(fontSize=13, subtitleFontSize=11, subtitleColor="#555555")
        .configure_legend(labelFontSize=11, labelLimit=400, symbolSize=70, symbolStrokeWidth=0)
        .configure_header(labelFontSize=11, labelLimit=400)
    )
