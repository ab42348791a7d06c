"""What became of a table's proposals over time: commits above a line, refusals below it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from commitlog.catalog.history import HistoryEntry
from commitlog.domain.model.definitions import counted

WIDTH, HALF_HEIGHT = 480, 56
STRETCHES = 40
_GAP = 2


@dataclass(frozen=True, slots=True)
class Stretch:
    """A stretch of time: the heights of what stands above and below the line, and how much that is."""

    x: float
    committed: int
    refused: int
    up: float
    down: float


@dataclass(frozen=True, slots=True)
class TimesDrawing:
    """The stretches from the first to the last decision that is shown."""

    width: int
    height: int
    line_y: int
    bar_width: float
    stretches: tuple[Stretch, ...]
    begin: datetime
    end: datetime
    description: str


def draw_times(entries: Sequence[HistoryEntry]) -> TimesDrawing | None:
    """The outcomes, the newest first, counted in equal stretches of time; None when they are of one moment."""
    if not entries or entries[0].decided_at == entries[-1].decided_at:
        return None
    begin, end = entries[-1].decided_at, entries[0].decided_at
    committed, refused = [0] * STRETCHES, [0] * STRETCHES
    for each in entries:
        at = min(STRETCHES - 1, int(STRETCHES * ((each.decided_at - begin) / (end - begin))))
        committed[at] += each.verdict == "COMMITTED"
        refused[at] += each.verdict == "REJECTED"
    highest, step = max(*committed, *refused, 1), WIDTH / STRETCHES
    stretches = tuple(
        Stretch(round(at * step, 1), up, down, _height(up, highest), _height(down, highest))
        for at, (up, down) in enumerate(zip(committed, refused, strict=True))
    )
    made = f"{counted(sum(committed), 'commit')} and {counted(sum(refused), 'refusal')}"
    told = f"{made} between {begin:%Y-%m-%d %H:%M} and {end:%Y-%m-%d %H:%M}"
    return TimesDrawing(WIDTH, 2 * HALF_HEIGHT + 2, HALF_HEIGHT + 1, step - _GAP, stretches, begin, end, told)


def _height(count: int, highest: int) -> float:
    # One of many can still be seen.
    return 0.0 if count == 0 else round(max(2.0, HALF_HEIGHT * count / highest), 1)
