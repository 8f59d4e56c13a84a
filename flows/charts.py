"""Small charts as inline SVG: lines, bars and a heat map. Colours come from CSS classes, so that a page can be dark.

Every chart carries its title for screen readers and shows a value when the pointer rests on a mark.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 480, 210
LEFT, RIGHT, TOP, BOTTOM = 48, 10, 8, 34
MAX_POINTS = 240
NUM_COLOURS = 6


@dataclass(frozen=True)
class Line:
    """One curve: (step, value) in the order of the steps."""

    label: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Bar:
    """One bar; `error` is the half length of its whisker (one standard error)."""

    label: str
    value: float
    error: float = 0.0
    text: str = ""


def number(value: float) -> str:
    """A number as a person reads it: three or four significant digits, k/M/G above ten thousand."""
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else str(value)
    for limit, suffix in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= limit:
            return f"{value / (1e3 if suffix == 'k' else limit):.4g}{suffix}"
    if float(value).is_integer():
        return str(int(value))
    return f"{value:.4g}" if abs(value) >= 1e-3 else f"{value:.2e}"


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Round numbers inside [low, high]."""
    if not high > low:
        return [low]
    rough = (high - low) / count
    magnitude: float = 10.0 ** math.floor(math.log10(rough))
    step = next(m * magnitude for m in (1, 2, 2.5, 5, 10) if m * magnitude >= rough)
    first = math.ceil(low / step - 1e-9)
    return [i * step for i in range(first, math.floor(high / step + 1e-9) + 1)]


def thinned(points: Sequence[tuple[float, float]], max_points: int = MAX_POINTS) -> list[tuple[float, float]]:
    """At most `max_points` points, each the mean of neighbours; few points stay as they are."""
    if len(points) <= max_points:
        return list(points)
    size = math.ceil(len(points) / max_points)
    groups = [points[i : i + size] for i in range(0, len(points), size)]
    return [(sum(x for x, _ in g) / len(g), sum(y for _, y in g) / len(g)) for g in groups]


def _svg(title: str, body: Sequence[str], height: float = HEIGHT) -> str:
    head = f'<svg viewBox="0 0 {WIDTH} {height:g}" role="img" aria-label="{escape(title, quote=True)}">'
    return "".join([head, f"<title>{escape(title)}</title>", *body, "</svg>"])


def _range(values: Sequence[float], from_zero: bool) -> tuple[float, float]:
    low, high = min(values), max(values)
    if from_zero:
        low, high = min(low, 0.0), max(high, 0.0)
    margin = (high - low) * 0.05 or abs(high) * 0.1 or 1.0
    return (low if from_zero and low == 0 else low - margin), high + margin


def _axes(x_range: tuple[float, float], y_range: tuple[float, float], x_label: str) -> list[str]:
    parts = []
    for tick in ticks(*y_range):
        y = _scale(tick, y_range, HEIGHT - BOTTOM, TOP)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text class="tick" x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{number(tick)}</text>')
    for tick in ticks(*x_range, 6):
        x = _scale(tick, x_range, LEFT, WIDTH - RIGHT)
        label = f'<text class="tick" x="{x:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{number(tick)}</text>'
        parts.append(label)
    axis_y = HEIGHT - BOTTOM
    parts.append(f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{axis_y}" y2="{axis_y}"/>')
    parts.append(f'<text class="tick" x="{WIDTH - RIGHT}" y="{HEIGHT - 3}" text-anchor="end">{escape(x_label)}</text>')
    return parts


def _scale(value: float, domain: tuple[float, float], start: float, end: float) -> float:
    low, high = domain
    return start + (value - low) / ((high - low) or 1.0) * (end - start)


def legend(labels: Sequence[str]) -> str:
    """Colour keys for several curves; nothing for one."""
    if len(labels) < 2:
        return ""
    keys = (f'<span><i class="key k{i % NUM_COLOURS}"></i>{escape(label)}</span>' for i, label in enumerate(labels))
    return f'<p class="legend">{"".join(keys)}</p>'


def line_chart(title: str, lines: Sequence[Line], x_label: str = "step", from_zero: bool = False) -> str:
    """Curves over a common axis; empty text when there is nothing to draw."""
    shown = [Line(line.label, thinned(line.points)) for line in lines if line.points]
    if not shown:
        return ""
    xs = [x for line in shown for x, _ in line.points]
    y_range = _range([y for line in shown for _, y in line.points], from_zero)
    x_range = (min(xs), max(xs) if max(xs) > min(xs) else min(xs) + 1)
    body = _axes(x_range, y_range, x_label)
    for index, line in enumerate(shown):
        places = [
            (_scale(x, x_range, LEFT, WIDTH - RIGHT), _scale(y, y_range, HEIGHT - BOTTOM, TOP)) for x, y in line.points
        ]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        body.append(f'<polyline class="line c{index % NUM_COLOURS}" points="{path}"/>')
        if len(places) <= 40:
            for (x, y), (step, value) in zip(places, line.points, strict=True):
                tip = f"<title>{escape(line.label)}, {escape(x_label)} {number(step)}: {number(value)}</title>"
                dot = f'<circle class="dot f{index % NUM_COLOURS}" cx="{x:.1f}" cy="{y:.1f}" r="2.5">{tip}</circle>'
                body.append(dot)
    return _svg(title, body) + legend([line.label for line in shown])


def bar_chart(title: str, bars: Sequence[Bar], label_width: int = 150) -> str:
    """Horizontal bars from zero with their values; empty text when there is nothing to draw."""
    if not bars:
        return ""
    row, left, right = 24, label_width, 64
    high = max(0.0, *(bar.value + bar.error for bar in bars)) or 1.0
    body = []
    for index, bar in enumerate(bars):
        y = 4 + index * row
        width = max(0.0, bar.value) / high * (WIDTH - left - right)
        text = bar.text or number(bar.value)
        body.append(f'<text class="label" x="{left - 8}" y="{y + 14}" text-anchor="end">{escape(bar.label)}</text>')
        tip = f"<title>{escape(bar.label)}: {escape(text)}</title>"
        shape = f'<rect class="bar" x="{left}" y="{y + 2}" width="{max(width, 1):.1f}" height="{row - 9}" rx="2">'
        body.append(f"{shape}{tip}</rect>")
        end = left + width
        if bar.error:
            reach = bar.error / high * (WIDTH - left - right)
            body.append(
                f'<line class="whisker" x1="{end - reach:.1f}" x2="{end + reach:.1f}" y1="{y + 10}" y2="{y + 10}"/>'
            )
            end += reach
        body.append(f'<text class="value" x="{end + 6:.1f}" y="{y + 14}">{escape(text)}</text>')
    return _svg(title, body, len(bars) * row + 6)


def heat_map(title: str, rows: Sequence[Line], x_label: str = "step", max_columns: int = 60) -> str:
    """One row a series, darker where the value is higher; the scale runs from 0 to the highest value."""
    shown = [Line(row.label, thinned(row.points, max_columns)) for row in rows if row.points]
    if not shown:
        return ""
    high = max(y for row in shown for _, y in row.points) or 1.0
    cell_height, label_width = 15, 72
    body = []
    for row_idx, row in enumerate(shown):
        y = 2 + row_idx * cell_height
        anchor = f'x="{label_width - 6}" y="{y + 12}" text-anchor="end"'
        body.append(f'<text class="tick" {anchor}>{escape(row.label)}</text>')
        width = (WIDTH - label_width - RIGHT) / len(row.points)
        for column, (step, value) in enumerate(row.points):
            place = (
                f'x="{label_width + column * width:.1f}" y="{y}" width="{width + 0.3:.1f}" height="{cell_height - 2}"'
            )
            tip = f"<title>{escape(row.label)}, {escape(x_label)} {number(step)}: {number(value)}</title>"
            opacity = 0.04 + 0.96 * max(0.0, value) / high
            body.append(f'<rect class="cell" {place} fill-opacity="{opacity:.2f}">{tip}</rect>')
    bottom = len(shown) * cell_height + 18
    first, last = shown[0].points[0][0], shown[0].points[-1][0]
    body.append(f'<text class="tick" x="{label_width}" y="{bottom - 3}">{escape(x_label)} {number(first)}</text>')
    end = f'<text class="tick" x="{WIDTH - RIGHT}" y="{bottom - 3}" text-anchor="end">{number(last)}</text>'
    return _svg(f"{title} (darkest: {number(high)})", [*body, end], bottom)
