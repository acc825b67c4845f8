"""Charts as inline SVG, drawn for a phone's width and readable without colour.

Colours come from classes that the style sheet fills, so that a chart follows the page from light
to dark. What a colour says, a marker's shape, a pattern or a word says too. Values are fractions
from 0 to 1, and None where undefined: nothing is drawn there.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from markupsafe import Markup, escape

WIDTH = 360
"""Units of the drawing, which are pixels on a phone."""

MARKERS = ("circle", "square", "triangle", "diamond")


class Dot(NamedTuple):
    """A value with its interval."""

    value: float | None
    low: float | None = None
    high: float | None = None


class Line(NamedTuple):
    """A series of values, one for each place of the x axis."""

    name: str
    values: Sequence[float | None]


def percent(value: float | None) -> str:
    """A fraction as percent with one digit; a dash where undefined."""
    return "–" if value is None else f"{100 * value:.1f}"


def line_chart(title: str, lines: Sequence[Line], places: Sequence[str], axis: str) -> Markup:
    """Lines over ordered places, from 0 to 100 percent, each named where it ends.

    Args:
        title: What the chart says, for those who do not see it.
        lines: Up to four; each gets a marker of its own.
        places: Labels of the x axis.
        axis: The x axis's name.
    """
    left, top, right, bottom = 34.0, 12.0, 256.0, 178.0
    step = (right - left) / max(1, len(places) - 1)
    parts = [_grid_lines(left, top, right, bottom)]
    parts += [
        _text(left + i * step, bottom + 16, place, "middle") for i, place in enumerate(places)
    ]
    parts.append(_text((left + right) / 2, bottom + 34, axis, "middle", "axis"))
    ends = []
    for number, line in enumerate(lines):
        points = [
            (left + i * step, bottom - value * (bottom - top))
            for i, value in enumerate(line.values)
            if value is not None
        ]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(Markup('<polyline class="line c{}" points="{}"/>').format(number, path))
        parts += [_marker(number, x, y) for x, y in points]
        if points:
            ends.append((points[-1][1], number, line))
    for y, number, line in _apart(ends, 15.0, top, bottom):
        label = f"{line.name} {percent(_last(line.values))}"
        parts += [_marker(number, right + 16, y), _text(right + 26, y + 4, label)]
    return _svg(title, WIDTH, bottom + 42, parts)


def dot_chart(title: str, rows: Mapping[str, Dot]) -> Markup:
    """One value a row with its interval, on an axis from 0 to 100 percent.

    Args:
        title: What the chart says.
        rows: Label -> value. The labels stand above their lines, so that long ones fit.
    """
    left, right, height = 8.0, 306.0, 32.0
    bottom = 22 + height * len(rows)
    parts = [_percent_axis(left, right, 18.0, bottom)]
    for i, (label, dot) in enumerate(rows.items()):
        y = 22 + height * i
        parts += [_text(left, y + 11, label), _text(WIDTH - 2, y + 24, percent(dot.value), "end")]
        parts.append(_whisker(dot, left, right - left, y + 20))
    return _svg(title, WIDTH, bottom + 4, parts)


def bar_chart(
    title: str, rows: Mapping[str, Mapping[str, int]], parts: Mapping[str, int]
) -> Markup:
    """Counts as bars of one length, cut into shares by what they count.

    Args:
        title: What the chart says.
        rows: Label -> part -> count. A row that counts nothing has an empty bar.
        parts: Part -> its pattern, 0 to 6; in the order of the bars. Parts that never occur are
            left out of the legend.
    """
    height, width = 40.0, WIDTH - 4.0
    used = [part for part in parts if any(row.get(part) for row in rows.values())]
    drawn = []
    for i, (label, counts) in enumerate(rows.items()):
        y = height * i
        total = sum(counts.get(part, 0) for part in parts)
        drawn += [_text(2, y + 12, label), _text(WIDTH - 2, y + 12, f"{total:,}", "end")]
        drawn.append(
            Markup('<rect class="empty" x="2" y="{}" width="{}" height="18"/>').format(
                _n(y + 17), _n(width)
            )
        )
        x = 2.0
        for part in used if total else ():
            share = counts.get(part, 0) / total * width
            if share:
                drawn.append(_bar(parts[part], x, y + 17, share, part, counts[part]))
            x += share
    y = height * len(rows) + 4
    for i, part in enumerate(used):
        x, line = 2 + (i % 3) * 120, y + (i // 3) * 20
        drawn += [_swatch(parts[part], x, line), _text(x + 20, line + 11, part)]
    return _svg(title, WIDTH, y + 20 * ((len(used) + 2) // 3) + 2, drawn)


def interval(dot: Dot) -> Markup:
    """A value and its interval as a drawing of 100 × 16 for a table's cell."""
    title = f"{percent(dot.value)}"
    if dot.low is not None:
        title += f" ({percent(dot.low)} to {percent(dot.high)})"
    return Markup(
        '<svg class="interval" viewBox="0 0 100 16" role="img" aria-label="{}">'
        '<line class="axis" x1="0" x2="100" y1="15" y2="15"/>{}</svg>'
    ).format(title, _whisker(dot, 3, 94, 8))


def _whisker(dot: Dot, left: float, width: float, y: float) -> Markup:
    if dot.value is None:
        return Markup("")
    x, line = left + dot.value * width, Markup("")
    if dot.low is not None and dot.high is not None:
        line = Markup('<line class="whisker" x1="{}" x2="{}" y1="{}" y2="{}"/>').format(
            _n(left + dot.low * width), _n(left + dot.high * width), _n(y), _n(y)
        )
    return line + Markup('<circle class="dot" cx="{}" cy="{}" r="3.5"/>').format(_n(x), _n(y))


def _percent_axis(left: float, right: float, top: float, bottom: float) -> Markup:
    parts = []
    for value in (0, 25, 50, 75, 100):
        x = left + value / 100 * (right - left)
        parts.append(
            Markup('<line class="grid" x1="{0}" x2="{0}" y1="{1}" y2="{2}"/>').format(
                _n(x), _n(top), _n(bottom)
            )
        )
        parts.append(_text(x, 12, str(value), "middle", "tick"))
    return Markup("").join(parts)


def _grid_lines(left: float, top: float, right: float, bottom: float) -> Markup:
    parts = []
    for value in (0, 25, 50, 75, 100):
        y = bottom - value / 100 * (bottom - top)
        parts.append(
            Markup('<line class="grid" x1="{}" x2="{}" y1="{y}" y2="{y}"/>').format(
                _n(left), _n(right), y=_n(y)
            )
        )
        parts.append(_text(left - 6, y + 4, str(value), "end", "tick"))
    return Markup("").join(parts)


def _marker(number: int, x: float, y: float) -> Markup:
    shape = MARKERS[number % len(MARKERS)]
    if shape == "circle":
        return Markup('<circle class="mark c{}" cx="{}" cy="{}" r="4"/>').format(
            number, _n(x), _n(y)
        )
    corners = {
        "square": ((-3.5, -3.5), (3.5, -3.5), (3.5, 3.5), (-3.5, 3.5)),
        "triangle": ((0, -4.8), (4.6, 3.6), (-4.6, 3.6)),
        "diamond": ((0, -5.2), (5.2, 0), (0, 5.2), (-5.2, 0)),
    }[shape]
    points = " ".join(f"{x + dx:.1f},{y + dy:.1f}" for dx, dy in corners)
    return Markup('<polygon class="mark c{}" points="{}"/>').format(number, points)


def _bar(pattern: int, x: float, y: float, width: float, part: str, count: int) -> Markup:
    bar = Markup(
        '<rect class="part p{p}" x="{x}" y="{y}" width="{w}" height="18"><title>{t}</title></rect>'
    ).format(p=pattern, x=_n(x), y=_n(y), w=_n(width), t=f"{part}: {count:,}")
    texture = _texture(pattern, x, y, width, 18)
    label = f"{count:,}"
    if width < 7 * len(label) + 8:
        return bar + texture
    plate = Markup('<rect class="plate" x="{}" y="{}" width="{}" height="14" rx="2"/>').format(
        _n(x + width / 2 - 3.5 * len(label) - 3), _n(y + 2), _n(7 * len(label) + 6)
    )
    return bar + texture + plate + _text(x + width / 2, y + 13, label, "middle", "count")


def _swatch(pattern: int, x: float, y: float) -> Markup:
    box = Markup('<rect class="part p{}" x="{}" y="{}" width="14" height="14"/>').format(
        pattern, _n(x), _n(y)
    )
    return box + _texture(pattern, x, y, 14, 14)


def _texture(pattern: int, x: float, y: float, width: float, height: float) -> Markup:
    """Strokes that tell a part apart without colour: none, three slants and crossings."""
    if pattern % 7 == 0:
        return Markup("")
    gap = (0, 6, 6, 4, 8, 4, 9)[pattern % 7]
    kinds = (("",), ("up",), ("down",), ("flat",), ("up", "down"), ("steep",), ("flat", "steep"))
    strokes = []
    for kind in kinds[pattern % 7]:
        strokes += _strokes(kind, x, y, width, height, gap)
    path = "".join(f"M{a:.1f} {b:.1f}L{c:.1f} {d:.1f}" for a, b, c, d in strokes)
    return Markup('<path class="texture" d="{}"/>').format(path)


def _strokes(
    kind: str, x: float, y: float, width: float, height: float, gap: float
) -> list[tuple[float, float, float, float]]:
    """The strokes of a pattern, cut at the edges of a rectangle."""
    if kind == "flat":
        count = int(height // gap)
        return [(x, y + gap * (i + 0.5), x + width, y + gap * (i + 0.5)) for i in range(count)]
    if kind == "steep":
        count = int(width // gap)
        return [(x + gap * (i + 0.5), y, x + gap * (i + 0.5), y + height) for i in range(count)]
    found = []
    offset = gap - height
    while offset < width:
        start, end = max(0.0, offset), min(width, offset + height)
        if end > start:
            low, high = start - offset, end - offset
            if kind == "up":
                low, high = height - low, height - high
            found.append((x + start, y + low, x + end, y + high))
        offset += gap
    return found


def _apart(
    ends: Sequence[tuple[float, int, Line]], gap: float, top: float, bottom: float
) -> list[tuple[float, int, Line]]:
    """Labels moved so that none covers another, within the chart."""
    placed: list[tuple[float, int, Line]] = []
    for y, number, line in sorted(ends, key=lambda end: (end[0], end[1])):
        placed.append((max(y, placed[-1][0] + gap if placed else top), number, line))
    over = placed[-1][0] - bottom if placed else 0.0
    if over > 0:
        limit = bottom
        for i in range(len(placed) - 1, -1, -1):
            y = min(placed[i][0], limit)
            placed[i] = (y, *placed[i][1:])
            limit = y - gap
    return placed


def _last(values: Sequence[float | None]) -> float | None:
    return next((value for value in reversed(values) if value is not None), None)


def _text(x: float, y: float, text: str, anchor: str = "start", kind: str = "") -> Markup:
    return Markup('<text class="{}" x="{}" y="{}" text-anchor="{}">{}</text>').format(
        kind or "label", _n(x), _n(y), anchor, text
    )


def _svg(title: str, width: float, height: float, parts: Sequence[Markup]) -> Markup:
    return Markup(
        '<svg class="chart" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>'
    ).format(_n(width), _n(height), escape(title), Markup("").join(parts))


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
