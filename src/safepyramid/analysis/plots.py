"""Plots of runs as SVG and PNG, each with its data as CSV beside.

Runs that stand on different cases or protocols are drawn in panels of their own. Everything that a
color says, a shape, a dash pattern or a label says too.
"""

from collections.abc import Callable, Sequence
from math import ceil, floor, log10
from pathlib import Path
from typing import Any

import altair as alt
import pandas as pd

from safepyramid.analysis import tables
from safepyramid.analysis.ablations import EFFORTS, METRICS, ablation
from safepyramid.analysis.compare import DRAWS as PAIRED_DRAWS
from safepyramid.analysis.cost import cost
from safepyramid.analysis.estimates import to_frame
from safepyramid.analysis.marks import (
    counted,
    line_panel,
    percents,
    remarks,
    run_marks,
    scored,
    shorten,
    stacked,
    styled,
    title_of,
)
from safepyramid.analysis.render import to_csv
from safepyramid.analysis.runs import Runs
from safepyramid.analysis.views import Options
from safepyramid.errors import DataError
from safepyramid.metrics.rulesets import EPSILONS
from safepyramid.metrics.stats import DRAWS
from safepyramid.metrics.summary import GROUPS, POOLED
from safepyramid.schema import Level, RuleType

SHADES = {
    RuleType.DECISIVE.value: "#1B3A57",
    RuleType.DISTRACTOR.value: "#5E8FB8",
    RuleType.EXCEPTION.value: "#E8A33D",
    RuleType.CONDITIONAL.value: "#F6E3B4",
    "unknown": "#FFFFFF",
}
"""From dark to light, so that they can be told apart in gray."""
_LIGHT_TEXT = (RuleType.DECISIVE.value, RuleType.DISTRACTOR.value)

LEVEL_NAMES = {**{level.value: level.value for level in Level}, POOLED: "all levels"}
PPI = 200
WIDTH = 520


def draw(name: str, runs: Runs, path: Path, options: Options | None = None) -> list[Path]:
    """Draw a plot.

    Args:
        name: A key of `PLOTS`.
        runs: What is drawn.
        path: Where to, without a suffix; one of .svg, .png or .csv is left out.
        options: As for a table.

    Returns:
        The files written: SVG, PNG, CSV.

    Raises:
        DataError: The runs do not hold what the plot shows, or the files cannot be written.
    """
    frame, chart = PLOTS[name](runs, options or Options())
    stem = path.with_suffix("") if path.suffix in (".svg", ".png", ".csv") else path
    files = [stem.with_name(stem.name + suffix) for suffix in (".svg", ".png", ".csv")]
    chart = styled(chart)
    try:
        stem.parent.mkdir(parents=True, exist_ok=True)
        chart.save(str(files[0]))
        chart.save(str(files[1]), ppi=PPI)
        files[2].write_text(to_csv(frame), encoding="utf-8", newline="\n")
    except OSError as error:
        raise DataError(f"cannot write {stem}: {error.strerror}; choose another place") from error
    return files


def plot_cost(runs: Runs, options: Options) -> tuple[pd.DataFrame, alt.TopLevelMixin]:
    """Price per 1,000 cases against pooled RMR, with the frontier of runs that none beats in both."""
    scores = tables.results(runs, published=False, seed=options.seed, draws=options.draws or DRAWS)
    scores = scores[(scores["section"] == "runs") & (scores["level"] == POOLED)]
    prices = cost(runs).dropna(subset=["rmr"])[["run", "price_per_case"]]
    frame = scores.merge(prices, on="run")
    frame = frame.assign(price_per_1000=1000 * frame.pop("price_per_case"))
    priced = frame.dropna(subset=["price_per_1000", "rmr"])
    if priced.empty:
        raise DataError(
            "no run has both a price and a score: `safepyramid table cost` says what is known of each"
        )
    frame = frame.assign(frontier=[run in frontier(priced) for run in frame["run"]])
    panels = []
    for block, part in frame.groupby("block", sort=False):
        shown = part.dropna(subset=["price_per_1000", "rmr"])
        left_out = len(part) - len(shown)
        notes = [f"{counted(left_out, 'run')} without a known price left out"] if left_out else []
        if len(shown):
            notes += remarks(shown, "rmr", lines=False)
            panels.append(_cost_panel(shown, str(block), notes))
    return frame, stacked(panels)


def frontier(frame: pd.DataFrame) -> set[str]:
    """The runs that no other run of their block beats in price without losing in RMR, or the reverse."""
    kept = set()
    for _, part in frame.groupby("block", sort=False):
        rows = list(zip(part["run"], part["price_per_1000"], part["rmr"], strict=True))
        kept |= {
            run
            for run, price, rmr in rows
            if not any(p <= price and r >= rmr and (p, r) != (price, rmr) for _, p, r in rows)
        }
    return kept


def _cost_panel(frame: pd.DataFrame, block: str, notes: Sequence[str]) -> Any:
    data = percents(frame, ["rmr", "rmr_low", "rmr_high"])
    # Numbers tell many points apart where shapes repeat and colors cannot be seen.
    numbers = [str(number) for number in range(1, len(data) + 1)]
    spots = pd.Series(list(zip(data["price_per_1000"], data["rmr"], strict=True)))
    at_spot = {spot: [numbers[i] for i in spots[spots == spot].index] for spot in set(spots)}
    data = data.assign(
        number=[
            ", ".join(at_spot[spot]) if n == at_spot[spot][0] else ""
            for n, spot in zip(numbers, spots, strict=True)
        ],
        run=[f"{n}  {run}" for n, run in zip(numbers, data["run"], strict=True)],
    )
    x = alt.X(
        "price_per_1000:Q",
        scale=_price_scale(data["price_per_1000"]),
        axis=alt.Axis(format=",~r", values=_price_ticks(data["price_per_1000"])),
        title="US dollars per 1,000 cases (list price)",
    )
    base, marks = alt.Chart(data), run_marks(data)
    line = (
        base.transform_filter("datum.frontier")
        .mark_line(interpolate="step-after", color="#999999", strokeDash=[4, 3], strokeWidth=1.2)
        .encode(x=x, y="rmr:Q")
    )
    points = base.mark_point(filled=True, size=90, opacity=1).encode(
        x=x,
        y=alt.Y("rmr:Q", title="RMR, % (pooled, higher is better)", scale=alt.Scale(zero=False)),
        color=marks["color"],
        shape=marks["shape"],
    )
    bars = base.mark_rule().encode(x=x, y="rmr_low:Q", y2="rmr_high:Q", color=marks["color"])
    label = base.mark_text(align="left", dx=8, dy=-8, fontSize=11)
    names = label.encode(x=x, y="rmr:Q", text="number:N")
    lines = ["dashed: runs that no other beats in price and RMR", *notes]
    return alt.layer(line, bars, points, names).properties(
        width=WIDTH, height=300, title=title_of("Price and RMR", block, *lines)
    )


def _price_scale(prices: "pd.Series[float]") -> alt.Scale:
    """Logarithmic; with room for runs that cost nothing, if there are any."""
    paid = prices[prices > 0]
    if len(paid) == len(prices):
        return alt.Scale(type="log", domain=[paid.min() / 1.5, paid.max() * 1.5], nice=False)
    least, most = (paid.min(), paid.max()) if len(paid) else (1.0, 1.0)
    return alt.Scale(type="symlog", constant=least / 2, domain=[0, most * 1.5], nice=False)


def _price_ticks(prices: "pd.Series[float]") -> list[float]:
    """Round prices over the range: powers of ten, with 2 and 5 between where it is narrow."""
    paid = prices[prices > 0]
    if not len(paid):
        return [0.0]
    first, last = floor(log10(paid.min() / 1.5)), ceil(log10(paid.max() * 1.5))
    steps = (1,) if last - first > 3 else (1, 2, 5)
    ticks = [round(step * 10.0**power, 9) for power in range(first, last + 1) for step in steps]
    return ticks if len(paid) == len(prices) else [0.0, *ticks]


def plot_thresholds(runs: Runs, options: Options) -> tuple[pd.DataFrame, alt.TopLevelMixin]:
    """RMR@τ from the exact match down, per level and pooled."""
    frame = tables.thresholds(
        runs, published=False, seed=options.seed, draws=options.draws or DRAWS
    )
    frame = frame[frame["section"] == "runs"]
    rows = [
        {
            **{key: row[key] for key in ("block", "run", "level", "alike")},
            "tau": tau,
            **{
                name: row[f"rmr@{tau}{bound}"]
                for name, bound in (("rmr", ""), ("rmr_low", "_low"), ("rmr_high", "_high"))
            },
        }
        for row in frame.to_dict("records")
        for tau in EPSILONS
    ]
    tidy = to_frame(rows)
    panels: list[Any] = []
    for block, part in tidy.groupby("block", sort=False):
        by_level = [
            line_panel(
                found, "tau", "rmr", list(EPSILONS), "τ", width=330, name="RMR@τ"
            ).properties(title=LEVEL_NAMES[level])
            for level in GROUPS
            if (found := part[part["level"] == level])["rmr"].notna().any()
        ]
        if by_level:
            heading = "RMR@τ: from the exact match to half of it"
            title = title_of(heading, str(block), *remarks(part, "rmr"))
            panels.append(alt.concat(*by_level, columns=2).properties(title=title))
    return tidy, stacked(panels)


def plot_levels(runs: Runs, options: Options) -> tuple[pd.DataFrame, alt.TopLevelMixin]:
    """The drop of RMR from L0 to L2; the paper's models in a panel of their own."""
    frame = tables.results(
        runs, published=options.published, seed=options.seed, draws=options.draws or DRAWS
    )
    frame = frame[frame["section"].isin(["runs", "published"]) & (frame["level"] != POOLED)]
    if not frame.loc[frame["section"] == "runs", "rmr"].notna().any():
        return frame, stacked([])
    if "harness" in frame:
        names = zip(frame["run"], frame["harness"], strict=True)
        frame = frame.assign(run=[f"{run} · {with_}" if with_ else run for run, with_ in names])
    levels = [level.value for level in Level]
    panels = [
        line_panel(part, "level", "rmr", levels, "level", width=WIDTH - 120).properties(
            title=title_of("RMR from L0 to L2", str(block), *remarks(part, "rmr"))
        )
        for block, part in frame.groupby("block", sort=False)
        if part["rmr"].notna().any()
    ]
    return frame, stacked(panels)


def plot_domains(runs: Runs, options: Options) -> tuple[pd.DataFrame, alt.TopLevelMixin]:
    """RMR per domain, all levels pooled: one small panel per run."""
    frame = tables.domains(runs, seed=options.seed, draws=options.draws or DRAWS)
    frame = frame[frame["level"] == POOLED]
    panels = []
    for block, part in frame.groupby("block", sort=False):
        shown = scored(part, "rmr")
        if len(shown):
            data = percents(shown, ["rmr", "rmr_low", "rmr_high"])
            data = data.assign(domain=data["domain"].str.replace("_", " "))
            by_run = data.groupby("run", sort=False)
            charts = [
                _domain_bars(found, str(run), named=i % _PER_ROW == 0)
                for i, (run, found) in enumerate(by_run)
            ]
            notes = remarks(part, "rmr", lines=False)
            title = title_of("RMR per domain", str(block), *notes)
            panels.append(alt.concat(*charts, columns=_PER_ROW).properties(title=title))
    return frame, stacked(panels)


_PER_ROW = 3


def _domain_bars(data: pd.DataFrame, run: str, *, named: bool) -> Any:
    """The bars of one run; the first of a row names the domains."""
    y = alt.Y(
        "domain:N",
        title=None,
        sort=sorted(set(data["domain"])),
        axis=alt.Axis(labels=named, ticks=named),
    )
    base = alt.Chart(data)
    bars = base.mark_bar(color="#9DB9D2", height=12).encode(
        y=y, x=alt.X("rmr:Q", title="RMR, %", scale=alt.Scale(domain=[0, 100]))
    )
    whiskers = base.mark_rule(color="#222222").encode(y=y, x="rmr_low:Q", x2="rmr_high:Q")
    ticks = base.mark_tick(color="#222222", thickness=2, height=12).encode(y=y, x="rmr:Q")
    title = alt.TitleParams(run, anchor="middle", fontSize=11, fontWeight="normal")
    return alt.layer(bars, whiskers, ticks).properties(width=260, height=alt.Step(19), title=title)


def plot_errors(runs: Runs, options: Options) -> tuple[pd.DataFrame, alt.TopLevelMixin]:
    """Which kind of rule the errors come from, as shares of each level's errors."""
    frame = tables.error_types(runs, seed=options.seed, draws=options.draws or DRAWS)
    frame = frame[frame["level"] != POOLED]
    if not frame["share"].notna().any():
        raise DataError("these runs have no errors to draw")
    kinds = [kind for kind in SHADES if kind in set(frame["type"])]
    # As wide in all panels, so that equal shares stand below each other.
    widest = 7 * max(len(name) for name in shorten(frame["run"]).values())
    panels = []
    for block, part in frame.groupby("block", sort=False):
        known = part.dropna(subset=["share"])
        if known.empty:
            continue
        data = percents(known, ["share"])
        starts = data.groupby(["run", "level"], sort=False)["share"]
        data = data.assign(end=starts.cumsum(), label=data["share"].round().astype(int).astype(str))
        data = data.assign(start=data["end"] - data["share"])
        data = data.assign(middle=(data["start"] + data["end"]) / 2)
        y = alt.Y(
            "run:N",
            title=None,
            sort=list(dict.fromkeys(data["run"])),
            axis=alt.Axis(minExtent=widest, maxExtent=widest),
        )
        base = alt.Chart(data)
        bars = base.mark_bar(stroke="#333333", strokeWidth=0.7).encode(
            y=y,
            x=alt.X("start:Q", title="share of errors, %", scale=alt.Scale(domain=[0, 100])),
            x2="end:Q",
            color=alt.Color(
                "type:N",
                title="left to right",
                sort=kinds,
                scale=alt.Scale(domain=kinds, range=[SHADES[kind] for kind in kinds]),
            ),
        )
        light = alt.FieldOneOfPredicate(field="type", oneOf=list(_LIGHT_TEXT))
        text = (
            base.transform_filter("datum.share >= 7")
            .mark_text(fontSize=10)
            .encode(
                y=y,
                x="middle:Q",
                text="label:N",
                color=alt.condition(light, alt.value("white"), alt.value("black")),
            )
        )
        levels = alt.Column("level:N", title=None, sort=[level.value for level in Level])
        panels.append(
            alt.layer(bars, text)
            .properties(width=190, height=alt.Step(26))
            .facet(column=levels)
            .properties(
                title=title_of(
                    "Errors by the kind of rule that was misread",
                    str(block),
                    "of answered cases; the CSV has the intervals",
                )
            )
        )
    return frame, stacked(panels)


def plot_effort(runs: Runs, options: Options) -> tuple[pd.DataFrame, alt.TopLevelMixin]:
    """RMR and RDR by reasoning effort, a line per level."""
    frame = ablation(
        runs, "effort", published=False, seed=options.seed, draws=options.draws or PAIRED_DRAWS
    )
    if frame.empty:
        raise DataError("no two of these runs differ in effort and in nothing else")
    frame = frame.assign(effort=frame["effort"].fillna("default"))
    order = [effort for effort in (*EFFORTS, *sorted(set(frame["effort"]) - {*EFFORTS}))]
    panels = []
    for (block, name), part in frame.groupby(["block", "series"], sort=False):
        found = [effort for effort in order if effort in set(part["effort"])]
        if not part["rmr"].notna().any():
            continue
        named = part.assign(run=part["level"].map(LEVEL_NAMES)).drop(columns="alike")
        panels.append(
            alt.hconcat(
                *[
                    line_panel(named, "effort", metric, found, "reasoning effort", width=230)
                    for metric in METRICS
                    if metric != "rmr@1.0"
                ]
            ).properties(
                title=title_of(
                    f"Reasoning effort: {name}", str(block), *remarks(part, "rmr", lines=False)
                )
            )
        )
    return frame, stacked(panels)


PLOTS: dict[str, Callable[[Runs, Options], tuple[pd.DataFrame, alt.TopLevelMixin]]] = {
    "cost": plot_cost,
    "thresholds": plot_thresholds,
    "levels": plot_levels,
    "domains": plot_domains,
    "errors": plot_errors,
    "effort": plot_effort,
}
"""Name -> plot: the data that is drawn, and the chart."""
