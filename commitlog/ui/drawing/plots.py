"""Curves of what was measured each second, as paths of SVG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, log10

WIDTH, HEIGHT = 400, 120
_LEFT, _TOP, _BOTTOM = 40, 8, 20


@dataclass(frozen=True, slots=True)
class Plot:
    """A picture of one or two curves over the last `seconds`; ``grid``: places and values of lines across."""

    width: int
    height: int
    left: int
    grid: tuple[tuple[float, str], ...]
    area: str
    curves: tuple[str, ...]
    seconds: int


def draw_plot(curves: Sequence[Sequence[float | None]], seconds: int) -> Plot:
    """Curves, the newest value last and at the right; None leaves a gap. The first one's area is filled."""
    high = nice_above(max((value for curve in curves for value in curve if value is not None), default=0))
    bottom = HEIGHT - _BOTTOM

    def x(at: int, length: int) -> float:
        return round(WIDTH - (length - 1 - at) * (WIDTH - _LEFT) / (seconds - 1), 1)

    def y(value: float) -> float:
        return round(bottom - (bottom - _TOP) * value / high, 1)

    points = [
        [None if v is None else (x(at, len(curve)), y(v)) for at, v in enumerate(curve[-seconds:])] for curve in curves
    ]
    return Plot(
        width=WIDTH,
        height=HEIGHT,
        left=_LEFT,
        grid=tuple((y(value), _short(value)) for value in (0, high / 2, high)),
        area=" ".join(f"{_path(run)}V{bottom}H{run[0][0]}Z" for run in _runs(points[0])),
        curves=tuple(" ".join(_path(run) for run in _runs(curve)) for curve in points),
        seconds=seconds,
    )


def nice_above(value: float) -> float:
    """1, 2 or 5 times a power of ten, not below the value; 1 for nothing."""
    if value <= 0:
        return 1.0
    power = 10.0 ** ceil(log10(value) - 1)
    return next(step * power for step in (1, 2, 5, 10) if step * power >= value * 0.999999)


def _runs(points: Sequence[tuple[float, float] | None]) -> list[list[tuple[float, float]]]:
    """Points that follow each other without a gap."""
    runs: list[list[tuple[float, float]]] = [[]]
    for point in points:
        if point is not None:
            runs[-1].append(point)
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if run]


def _path(run: Sequence[tuple[float, float]]) -> str:
    # A single point is shown as a short line.
    run = run if len(run) > 1 else [run[0], (run[0][0] + 1.5, run[0][1])]
    return "M" + "L".join(f"{x} {y}" for x, y in run)


def _short(value: float) -> str:
    return f"{value / 1000:g}k" if value >= 1000 else f"{value:g}"
