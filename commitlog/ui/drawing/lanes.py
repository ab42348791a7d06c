"""Transactions that overlapped, a lane each: from the snapshot that each was computed from to where it was decided."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from commitlog.catalog.history import HistoryEntry
from commitlog.domain.model.definitions import counted, quoted

_TOP = 12


@dataclass(frozen=True, slots=True)
class LaneShape:
    """How wide a drawing is, and what has room in it.

    Attributes:
        width: of all.
        left: before the first snapshot.
        right: behind the last one.
        lane_height: of one transaction.
        name_above: how far over a bar's middle its writer's name stands; 0: beside it, at the left.
        labels_max: snapshots that are named.
    """

    width: int
    left: int
    right: int
    lane_height: int
    name_above: int
    labels_max: int


WIDE = LaneShape(920, 190, 130, lane_height=26, name_above=0, labels_max=12)
NARROW = LaneShape(360, 16, 92, lane_height=42, name_above=14, labels_max=6)
"""For phones."""


@dataclass(frozen=True, slots=True)
class Lane:
    """One transaction."""

    y: float
    x: float
    width: float
    name_y: float
    writer: str
    told: str
    href: str
    is_committed: bool

    @property
    def end(self) -> float:
        return self.x + self.width


@dataclass(frozen=True, slots=True)
class LaneDrawing:
    """The lanes, the oldest on top, over the snapshots."""

    shape: LaneShape
    height: float
    axis_y: float
    lanes: tuple[Lane, ...]
    labels: tuple[tuple[float, str], ...]
    description: str


def draw_lanes(entries: Sequence[HistoryEntry], shape: LaneShape = WIDE) -> LaneDrawing | None:
    """The outcomes, the newest first, as lanes; None when there are none to draw."""
    drawn = [each for each in reversed(entries) if each.base_snapshot_id is not None and each.verdict != "DUPLICATE"]
    if not drawn:
        return None
    # Snapshots at which nothing here began or ended take no room.
    stops = sorted({place for each in drawn for place in _span(each)})
    step = (shape.width - shape.left - shape.right) / max(1, len(stops) - 1)
    x = {stop: round(shape.left + step * at, 1) for at, stop in enumerate(stops)}
    middles = [_TOP + shape.lane_height * (at + 0.5) + shape.name_above / 2 for at in range(len(drawn))]
    lanes = tuple(
        Lane(
            y=y,
            x=x[_span(each)[0]],
            width=max(7.0, x[_span(each)[1]] - x[_span(each)[0]]),
            name_y=y - shape.name_above if shape.name_above else y + 4,
            writer=quoted(each.writer_id or "unknown"),
            told=_told(each),
            href=f"/outcome/{each.seq}",
            is_committed=each.verdict == "COMMITTED",
        )
        for y, each in zip(middles, drawn, strict=True)
    )
    axis_y = _TOP + shape.lane_height * len(drawn) + 8
    every = max(1, -(-len(stops) // shape.labels_max))
    labels = tuple((x[stop], str(stop)) for stop in stops[::-1][::every][::-1])
    told = f"{counted(len(drawn), 'transaction')}, {sum(not each.is_committed for each in lanes)} refused"
    return LaneDrawing(shape, axis_y + 28, axis_y, lanes, labels, told)


def _span(entry: HistoryEntry) -> tuple[int, int]:
    end = entry.head_snapshot_id if entry.snapshot_id is None else entry.snapshot_id
    return min(entry.base_snapshot_id or 0, end), end


def _told(entry: HistoryEntry) -> str:
    if entry.snapshot_id is None:
        return f"refused at {entry.head_snapshot_id}, read {entry.base_snapshot_id}"
    return f"snapshot {entry.snapshot_id}, read {entry.base_snapshot_id}"
