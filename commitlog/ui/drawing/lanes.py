"""Transactions that overlapped, a lane each: from the snapshot that each was computed from to where it was decided."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from commitlog.catalog.history import HistoryEntry
from commitlog.domain.model.definitions import quoted

WIDTH, LANE_HEIGHT = 920, 26
_LEFT, _RIGHT, _TOP = 190, 130, 12
LABELS_MAX = 12


@dataclass(frozen=True, slots=True)
class Lane:
    """One transaction."""

    y: float
    x: float
    width: float
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

    width: int
    height: float
    axis_y: float
    lanes: tuple[Lane, ...]
    labels: tuple[tuple[float, str], ...]
    description: str


def draw_lanes(entries: Sequence[HistoryEntry]) -> LaneDrawing | None:
    """The outcomes, the newest first, as lanes; None when there are none to draw."""
    drawn = [each for each in reversed(entries) if each.base_snapshot_id is not None and each.verdict != "DUPLICATE"]
    if not drawn:
        return None
    # Snapshots at which nothing here began or ended take no room.
    stops = sorted({place for each in drawn for place in _span(each)})
    step = (WIDTH - _LEFT - _RIGHT) / max(1, len(stops) - 1)
    x = {stop: round(_LEFT + step * at, 1) for at, stop in enumerate(stops)}
    lanes = tuple(
        Lane(
            y=_TOP + LANE_HEIGHT * (at + 0.5),
            x=x[_span(each)[0]],
            width=max(7.0, x[_span(each)[1]] - x[_span(each)[0]]),
            writer=quoted(each.writer_id or "unknown"),
            told=_told(each),
            href=f"/outcome/{each.seq}",
            is_committed=each.verdict == "COMMITTED",
        )
        for at, each in enumerate(drawn)
    )
    axis_y = _TOP + LANE_HEIGHT * len(drawn) + 8
    every = max(1, -(-len(stops) // LABELS_MAX))
    labels = tuple((x[stop], str(stop)) for stop in stops[::-1][::every][::-1])
    told = f"{len(drawn)} transactions, of which {sum(not each.is_committed for each in lanes)} were refused"
    return LaneDrawing(WIDTH, axis_y + 28, axis_y, lanes, labels, told)


def _span(entry: HistoryEntry) -> tuple[int, int]:
    end = entry.head_snapshot_id if entry.snapshot_id is None else entry.snapshot_id
    return min(entry.base_snapshot_id or 0, end), end


def _told(entry: HistoryEntry) -> str:
    if entry.snapshot_id is None:
        return f"refused at {entry.head_snapshot_id}, read {entry.base_snapshot_id}"
    return f"snapshot {entry.snapshot_id}, read {entry.base_snapshot_id}"
