"""The picture of `commitlog bench peers`: commits a second over the number of writers, a curve for each client, as SVG.

Both axes are logarithmic: a straight line is a power of the number of writers, equal distances are equal factors. It takes its
colours from the reader's scheme, light or dark, and names each curve at its end.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from commitlog.domain.model.definitions import counted

WIDTH, HEIGHT = 880, 440
TOP, BOTTOM = 92, 366
PANELS: Mapping[str, tuple[str, int, int]] = {
    "one": ("All writers append to one table", 56, 350),
    "own": ("Each writer has its own table", 496, 790),
}
"""By tables: the title, and from where to where it goes."""

LABEL_GAP = 34
TICKS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000)
COLOURS = (("#0b5fd8", "#6cb0ff"), ("#b4500a", "#f5a25d"), ("#127a45", "#5ccb8d"), ("#7a3fc4", "#c39bff"))
"""Of each curve on light and on dark."""

_STYLE = """\
text {{ font: 13px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328 }}
.title {{ font-size: 17px; font-weight: 600 }} .panel {{ font-weight: 600 }} .quiet {{ fill: #59636e; font-size: 12px }}
.name {{ font-weight: 600 }} .grid {{ stroke: #d1d9e0; stroke-width: 1 }} .curve {{ fill: none; stroke-width: 2.5 }}
.ours {{ stroke-width: 4 }} .hollow {{ fill: #ffffff; stroke-width: 2 }}
{light}
@media (prefers-color-scheme: dark) {{
text {{ fill: #e6edf3 }} .quiet {{ fill: #9198a1 }} .grid {{ stroke: #3d444d }} .hollow {{ fill: #0d1117 }}
{dark}
}}"""


@dataclass(frozen=True, slots=True)
class Point:
    """What so many writers reached, and how many of their commits failed."""

    writers: int
    per_second: float
    failed: int


@dataclass(frozen=True, slots=True)
class Curve:
    """One client's points in one panel."""

    client: str
    tables: str
    points: Sequence[Point]


def draw(curves: Sequence[Curve], note: str) -> str:
    """The picture; the first client is ours.

    Args:
        curves: of all panels.
        note: below the title: what was measured, and where.
    """
    clients = list(dict.fromkeys(curve.client for curve in curves))
    scale = _Scale([point for curve in curves for point in curve.points])
    body = [
        '<text class="title" x="16" y="28">Commits a second, by the number of writers that each wait for their answer</text>',
        f'<text class="quiet" x="16" y="48">{escape(note)}</text>',
    ]
    for tables, (title, left, right) in PANELS.items():
        body += _frame(scale, title, left, right)
        inside = [curve for curve in curves if curve.tables == tables]
        for curve in sorted(inside, key=lambda curve: -clients.index(curve.client)):
            body += _curve(scale, curve, clients.index(curve.client), left, right)
        body += _names(scale, inside, clients, right)
    legend = "Both axes are logarithmic. A hollow point: some commits failed there."
    body.append(f'<text class="quiet" x="16" y="{HEIGHT - 12}">{legend}</text>')
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
            f"<title>{escape(note)}</title>",
            f"<style>\n{_style(len(clients))}\n</style>",
            *body,
            "</svg>",
            "",
        ]
    )


class _Scale:
    """Where numbers of writers and rates are; both logarithmic."""

    def __init__(self, points: Sequence[Point]) -> None:
        rates = [point.per_second for point in points]
        self.writers = sorted({point.writers for point in points})
        self.ticks = [
            tick
            for tick in TICKS
            if max((each for each in TICKS if each <= min(rates)), default=TICKS[0])
            <= tick
            <= min((each for each in TICKS if each >= max(rates)), default=TICKS[-1])
        ]

    def x(self, writers: int, left: int, right: int) -> float:
        first, last = self.writers[0], self.writers[-1]
        share = math.log2(writers / first) / (math.log2(last / first) or 1)
        return round(left + share * (right - left), 1)

    def y(self, per_second: float) -> float:
        first, last = self.ticks[0], self.ticks[-1]
        return round(BOTTOM - math.log(per_second / first) / (math.log(last / first) or 1) * (BOTTOM - TOP), 1)


def _frame(scale: _Scale, title: str, left: int, right: int) -> list[str]:
    parts = [f'<text class="panel" x="{left}" y="{TOP - 16}">{escape(title)}</text>']
    for tick in scale.ticks:
        y = scale.y(tick)
        parts.append(f'<line class="grid" x1="{left}" y1="{y}" x2="{right}" y2="{y}"/>')
        parts.append(f'<text class="quiet" x="{left - 8}" y="{y + 4}" text-anchor="end">{tick:,}</text>')
    for writers in scale.writers:
        x = scale.x(writers, left, right)
        parts.append(f'<text class="quiet" x="{x}" y="{BOTTOM + 18}" text-anchor="middle">{writers}</text>')
    middle = (left + right) / 2
    parts.append(f'<text class="quiet" x="{middle}" y="{BOTTOM + 36}" text-anchor="middle">writers</text>')
    return parts


def _curve(scale: _Scale, curve: Curve, number: int, left: int, right: int) -> list[str]:
    places = [(scale.x(each.writers, left, right), scale.y(each.per_second)) for each in curve.points]
    path = " ".join(f"{x},{y}" for x, y in places)
    ours = " ours" if number == 0 else ""
    parts = [f'<polyline class="curve s{number}{ours}" points="{path}"/>']
    for (x, y), each in zip(places, curve.points, strict=True):
        fill = "hollow" if each.failed else f"f{number}"
        said = (
            f"{curve.client}, {counted(each.writers, 'writer')}: {each.per_second:,.0f} commits/s, {each.failed} failed"
        )
        parts.append(
            f'<circle class="{fill} s{number}" cx="{x}" cy="{y}" r="4.5"><title>{escape(said)}</title></circle>'
        )
    return parts


def _names(scale: _Scale, curves: Sequence[Curve], clients: Sequence[str], right: int) -> list[str]:
    """At the curves' ends, moved apart where they would lie on each other."""
    ends = sorted(curves, key=lambda curve: -curve.points[-1].per_second)
    places = apart([scale.y(curve.points[-1].per_second) for curve in ends], LABEL_GAP)
    parts = []
    for y, curve in zip(places, ends, strict=True):
        number, last = clients.index(curve.client), curve.points[-1]
        parts.append(f'<text class="name f{number}" x="{right + 12}" y="{y}">{escape(curve.client)}</text>')
        parts.append(f'<text class="quiet" x="{right + 12}" y="{y + 14}">{last.per_second:,.0f}/s</text>')
    return parts


def apart(places: Sequence[float], gap: float) -> list[float]:
    """Ascending places, moved as little as brings them so far from each other."""
    moved: list[list[float]] = []
    for place in places:
        group = [place]
        while moved and _spread(moved[-1], gap)[-1] + gap > _spread(group, gap)[0]:
            group = moved.pop() + group
        moved.append(group)
    return [round(each, 1) for group in moved for each in _spread(group, gap)]


def _spread(group: Sequence[float], gap: float) -> list[float]:
    """A group around its middle, so far from each other."""
    first = sum(group) / len(group) - gap * (len(group) - 1) / 2
    return [first + gap * number for number in range(len(group))]


def _style(clients: int) -> str:
    def rules(scheme: int) -> str:
        pairs = [colours[scheme] for colours in COLOURS[:clients]]
        return "\n".join(f".s{n} {{ stroke: {c} }} .f{n} {{ fill: {c} }}" for n, c in enumerate(pairs))

    return _STYLE.format(light=rules(0), dark=rules(1))
