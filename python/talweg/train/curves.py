"""Training curves as SVG, drawn here: a notebook needs nothing else to show them."""

from __future__ import annotations

import html
import math
from typing import TYPE_CHECKING

from .._checked import checked

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

WIDTH, HEIGHT = 560, 260
LEFT, RIGHT, TOP, BOTTOM = 56, 110, 12, 30
POINTS_MAX = 400
COLORS = ["#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#8c564b"]


def _thin(points):
    """At most so many points: the mean of each run of neighbours, which also smooths a noisy loss."""
    size = -(-len(points) // POINTS_MAX) or 1
    runs = [points[i : i + size] for i in range(0, len(points), size)]
    return [(sum(x for x, _ in r) / len(r), sum(y for _, y in r) / len(r)) for r in runs]


def _ticks(low, high, count=5):
    """Round numbers from ``low`` to ``high``."""
    if high <= low:
        return [low]
    raw = (high - low) / count
    unit = 10.0 ** math.floor(math.log10(raw))
    step = next(unit * m for m in (1, 2, 5, 10) if unit * m >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [k * step for k in range(first, math.floor(high / step + 1e-9) + 1)]


def _bounds(values):
    low, high = min(values), max(values)
    if low == high:
        margin = abs(low) * 0.05 or 1.0
        return low - margin, high + margin
    return low, high


@checked
def curves(series: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """Lines over steps as SVG text: ``series`` maps names to lists of ``(step, value)``.

    >>> curves({"loss": [(1, 2.0), (2, 1.0)]}).startswith("<svg")
    True
    """
    series = {n: [(x, y) for x, y in pts if math.isfinite(y)] for n, pts in series.items()}
    series = {n: _thin(pts) for n, pts in series.items() if pts}
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif" font-size="11">'
    if not series:
        return head + '<text x="20" y="30">no steps yet</text></svg>'
    x_low, x_high = _bounds([x for pts in series.values() for x, _ in pts])
    y_low, y_high = _bounds([y for pts in series.values() for _, y in pts])

    def at(x, y):
        across = (x - x_low) / (x_high - x_low) * (WIDTH - LEFT - RIGHT) + LEFT
        down = (y_high - y) / (y_high - y_low) * (HEIGHT - TOP - BOTTOM) + TOP
        return across, down

    out = [head]
    for y in _ticks(y_low, y_high):
        _, down = at(x_low, y)
        out.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{down:.1f}" y2="{down:.1f}" stroke="#ddd"/>')
        out.append(f'<text x="{LEFT - 6}" y="{down + 4:.1f}" text-anchor="end">{y:.4g}</text>')
    for x in _ticks(x_low, x_high):
        across, _ = at(x, y_low)
        out.append(f'<text x="{across:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{x:.6g}</text>')
    for i, (name, pts) in enumerate(series.items()):
        color = COLORS[i % len(COLORS)]
        path = " ".join(f"{a:.1f},{d:.1f}" for a, d in (at(x, y) for x, y in pts))
        out.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="1.5"/>')
        if len(pts) == 1:
            a, d = at(*pts[0])
            out.append(f'<circle cx="{a:.1f}" cy="{d:.1f}" r="2.5" fill="{color}"/>')
        out.append(f'<text x="{WIDTH - RIGHT + 8}" y="{TOP + 12 + 16 * i}" fill="{color}">{html.escape(name)}</text>')
    return "".join(out) + "</svg>"
