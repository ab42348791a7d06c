"""A refusal drawn: the proposal and what it met, as bars over the line of snapshots.

A transaction is a bar from the snapshot that it was computed from to the place where it was decided. Of a long line only
the snapshots that matter are shown, and a gap for what lies between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from commitlog.catalog.history import HistoryEntry
from commitlog.client.outcomes.describing import describe_changes
from commitlog.domain import model as m
from commitlog.domain.model.definitions import quoted
from commitlog.ui.words import kinds

_PROPOSED_Y, _LINE_Y, _FIRST_LANE_Y, _LANE_HEIGHT = 58, 126, 218, 76
_ABOVE, _BESIDE = 34, 4
"""How far over a bar's middle its words begin: above it, and to its left."""
_STEP_MAX = 300
_ROOM_BELOW = 22


@dataclass(frozen=True, slots=True)
class Shape:
    """How wide a drawing is, and what has room in it.

    Attributes:
        width: of all.
        left: before the first snapshot.
        right: behind the last one.
        decided: from the last snapshot to where the refusal was decided.
        beyond: from there to the end of the line, which is named where it has room.
        words_min: a bar that begins so near to the right end has its words end with it; None: words begin at the left edge.
        writer_max: letters of a writer's name.
        text_max: letters of what it did.
        neighbours_max: snapshots that are shown without a gap.
    """

    width: int
    left: int
    right: int
    decided: int
    beyond: int
    words_min: int | None
    writer_max: int
    text_max: int
    neighbours_max: int


WIDE = Shape(920, 48, 216, 44, 90, words_min=380, writer_max=28, text_max=66, neighbours_max=9)
NARROW = Shape(360, 16, 136, 34, 18, words_min=None, writer_max=20, text_max=50, neighbours_max=6)
"""For phones."""


@dataclass(frozen=True, slots=True)
class Stop:
    """A snapshot on the line."""

    snapshot_id: int
    x: float
    is_met: bool


@dataclass(frozen=True, slots=True)
class Bar:
    """A transaction: from where it was read to where it was decided. Its words stand above it, or to its left."""

    x: float
    y: float
    width: float
    title: str
    text: str
    words_x: float
    words_y: float
    words_end: bool = False
    href: str | None = None
    meets_x: float | None = None

    @property
    def end(self) -> float:
        """Where it was decided."""
        return self.x + self.width


@dataclass(frozen=True, slots=True)
class RefusalDrawing:
    """All that the template draws."""

    shape: Shape
    height: float
    line_y: float
    line_end: float
    stops: tuple[Stop, ...]
    gaps: tuple[float, ...]
    proposed: Bar
    others: tuple[Bar, ...]
    again: Bar | None
    description: str


def draw_refusal(
    outcome: m.Outcome, others: Sequence[HistoryEntry], *, rebase_passes: bool | None, shape: Shape = WIDE
) -> RefusalDrawing | None:
    """The drawing of a refusal for a conflict; None for other reasons, which no other transaction has caused.

    others: the outcomes that it met, as far as they are known. rebase_passes: whether the same changes would have passed
    from the head. shape: how wide it is.
    """
    proposal = outcome.proposal
    if proposal is None or not outcome.conflicts:
        return None
    met = {each.committed_snapshot_id for each in outcome.conflicts}
    places = _places(shape, proposal.base_snapshot_id, outcome.head_snapshot_id, met, others)
    decided_x = places.end + shape.decided
    line_end = decided_x + shape.beyond
    bars = tuple(_met_bar(shape, places, outcome, each, lane) for lane, each in enumerate(others))
    proposed = _bar(
        shape,
        places.x(proposal.base_snapshot_id),
        decided_x,
        _PROPOSED_Y,
        f"{_writer(shape, outcome.writer_id)} read {_snapshot(shape)}{proposal.base_snapshot_id}",
        describe_changes(proposal.changes, shown_max=2),
    )
    lanes_end = _FIRST_LANE_Y + _LANE_HEIGHT * len(bars)
    again = _way_out(shape, places.end, line_end, lanes_end, outcome.head_snapshot_id) if rebase_passes else None
    return RefusalDrawing(
        shape=shape,
        height=lanes_end + _ROOM_BELOW - (0 if again else _LANE_HEIGHT),
        line_y=_LINE_Y,
        line_end=line_end,
        stops=tuple(Stop(each, places.x(each), each in met) for each in places.shown),
        gaps=places.gaps(),
        proposed=proposed,
        others=bars,
        again=again,
        description=_description(outcome, proposal, others),
    )


def _bar(shape: Shape, x: float, end: float, y: float, title: str, text: str, **more: Any) -> Bar:
    """A bar with its words above it, where they have room."""
    words_x, words_end = x, False
    if shape.words_min is None:
        words_x = 0.0
    elif x > shape.width - shape.words_min:
        words_x, words_end = end + 12, True
    return Bar(x, y, end - x, title, text, words_x, y - _ABOVE, words_end, **more)


def _met_bar(shape: Shape, places: _Places, outcome: m.Outcome, met: HistoryEntry, lane: int) -> Bar:
    end = places.x(met.snapshot_id or 0)
    return _bar(
        shape,
        places.x(_base(met)),
        end,
        _FIRST_LANE_Y + _LANE_HEIGHT * lane,
        f"{_writer(shape, met.writer_id)} committed {_snapshot(shape)}{met.snapshot_id}",
        _met_text(outcome, met),
        href=f"/outcome/{met.seq}",
        meets_x=end,
    )


def _way_out(shape: Shape, x: float, end: float, y: float, head: int) -> Bar:
    """From the head on; its words stand to its left, where no line comes down to it."""
    text = f"read {_snapshot(shape)}{head}, propose again"
    return Bar(x, y, end - x, "The way out", text, x - 14, y - _BESIDE, words_end=True)


def _snapshot(shape: Shape) -> str:
    """The word before a snapshot's number, where there is room for it."""
    return "" if shape is NARROW else "snapshot "


@dataclass(frozen=True, slots=True)
class _Places:
    """Where the snapshots that are shown are on the line."""

    left: int
    shown: tuple[int, ...]
    step: float

    def x(self, snapshot_id: int) -> float:
        """The place of a snapshot that is shown."""
        return round(self.left + self.step * self.shown.index(snapshot_id), 1)

    @property
    def end(self) -> float:
        return self.x(self.shown[-1])

    def gaps(self) -> tuple[float, ...]:
        """Where snapshots are left out."""
        pairs = zip(self.shown, self.shown[1:], strict=False)
        return tuple(round(self.x(left) + self.step / 2, 1) for left, right in pairs if right - left > 1)


def _places(shape: Shape, base: int, head: int, met: set[int], others: Sequence[HistoryEntry]) -> _Places:
    drawn = {each.snapshot_id for each in others if each.snapshot_id is not None}
    needed = {base, head, *drawn, *map(_base, others)}
    between = range(min(needed), head + 1)
    shown = tuple(between) if len(between) <= shape.neighbours_max else tuple(sorted(needed | set(sorted(met)[-4:])))
    room = shape.width - shape.left - shape.right
    return _Places(shape.left, shown, min(_STEP_MAX, room / max(1, len(shown) - 1)))


def _base(entry: HistoryEntry) -> int:
    """What a commit was computed from: never later than the snapshot before it."""
    before = (entry.snapshot_id or 1) - 1
    return before if entry.base_snapshot_id is None else min(before, entry.base_snapshot_id)


def _writer(shape: Shape, writer_id: str | None) -> str:
    """A writer's name, so short that what it did has room beside it."""
    shown = quoted(writer_id or "unknown")
    return shown if len(shown) <= shape.writer_max else f"{shown[: shape.writer_max - 1]}…"


def _met_text(outcome: m.Outcome, entry: HistoryEntry) -> str:
    met = [each for each in outcome.conflicts if each.committed_snapshot_id == entry.snapshot_id]
    where = met[0].object if met else m.ConflictObject()
    table = "" if where.table is None else f" · {quoted(f'{where.schema}.{where.table}')}"
    file = "" if where.data_file_id is None else f" · file {where.data_file_id}"
    row = "" if where.row_key is None else f" · row {quoted(where.row_key)}"
    more = len({each.object for each in met}) - 1
    others = f" and {more} more" if more > 0 else ""
    return f"{kinds(tuple(dict.fromkeys(each.kind.value for each in met)))}{table}{file}{row}{others}"


def _description(outcome: m.Outcome, proposal: m.Proposal, others: Sequence[HistoryEntry]) -> str:
    """The drawing in words, for those who do not see it."""
    proposer, base = quoted(outcome.writer_id or "unknown"), proposal.base_snapshot_id
    told = [f"Writer {proposer} read snapshot {base} and was refused at snapshot {outcome.head_snapshot_id}."]
    for each in others:
        writer = quoted(each.writer_id or "unknown")
        told.append(f"In between writer {writer} committed snapshot {each.snapshot_id}: {_met_text(outcome, each)}.")
    return " ".join(told)
