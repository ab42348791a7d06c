"""A refusal drawn: the proposal and what it met, as bars over the line of snapshots.

A transaction is a bar from the snapshot that it was computed from to the place where it was decided. Of a long line only
the snapshots that matter are shown, and a gap for what lies between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from commitlog.catalog.history import HistoryEntry
from commitlog.client.outcomes.describing import describe_changes
from commitlog.domain import model as m
from commitlog.domain.model.definitions import quoted

WIDTH = 920
_LEFT, _RIGHT = 48, 216
_PROPOSED_Y, _LINE_Y, _FIRST_LANE_Y, _LANE_HEIGHT = 58, 126, 218, 76
_NEIGHBOURS_MAX = 9
_STEP_MAX = 300
_LABEL_WIDTH = 380
_WRITER_MAX = 28
_ROOM_BELOW = 22


@dataclass(frozen=True, slots=True)
class Stop:
    """A snapshot on the line."""

    snapshot_id: int
    x: float
    label: str
    is_met: bool


@dataclass(frozen=True, slots=True)
class Bar:
    """A transaction: from where it was read to where it was decided. Its words stand above it."""

    x: float
    y: float
    width: float
    title: str
    text: str
    href: str | None = None
    meets_x: float | None = None

    @property
    def end(self) -> float:
        """Where it was decided."""
        return self.x + self.width

    @property
    def words_x(self) -> float:
        """Where the words begin, or end when there is no room to the right."""
        return self.end + 12 if self.words_end else self.x

    @property
    def words_end(self) -> bool:
        """Whether they end at the bar's end."""
        return self.x > WIDTH - _LABEL_WIDTH


@dataclass(frozen=True, slots=True)
class RefusalDrawing:
    """All that the template draws."""

    width: float
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
    outcome: m.Outcome, others: Sequence[HistoryEntry], *, rebase_passes: bool | None
) -> RefusalDrawing | None:
    """The drawing of a refusal for a conflict; None for other reasons, which no other transaction has caused.

    others: the outcomes that it met, as far as they are known. rebase_passes: whether the same changes would have passed
    from the head.
    """
    proposal = outcome.proposal
    if proposal is None or not outcome.conflicts:
        return None
    met = {each.committed_snapshot_id for each in outcome.conflicts}
    places = _places(proposal.base_snapshot_id, outcome.head_snapshot_id, met, others)
    decided_x = places.end + 44
    bars = tuple(
        Bar(
            x=places.x(_base(each)),
            y=_FIRST_LANE_Y + _LANE_HEIGHT * lane,
            width=places.x(each.snapshot_id or 0) - places.x(_base(each)),
            title=f"{_writer(each.writer_id)} committed snapshot {each.snapshot_id}",
            text=_met_text(outcome, each),
            href=f"/outcome/{each.seq}",
            meets_x=places.x(each.snapshot_id or 0),
        )
        for lane, each in enumerate(others)
    )
    proposed = Bar(
        x=places.x(proposal.base_snapshot_id),
        y=_PROPOSED_Y,
        width=decided_x - places.x(proposal.base_snapshot_id),
        title=f"{_writer(outcome.writer_id)} read snapshot {proposal.base_snapshot_id}",
        text=describe_changes(proposal.changes, shown_max=2),
    )
    lanes_end = _FIRST_LANE_Y + _LANE_HEIGHT * len(bars)
    again = None
    if rebase_passes:
        start = places.x(outcome.head_snapshot_id)
        told = f"read snapshot {outcome.head_snapshot_id}, and propose from there"
        again = Bar(start, lanes_end, decided_x + 90 - start, "The way out", told)
    return RefusalDrawing(
        width=WIDTH,
        height=lanes_end + _ROOM_BELOW - (0 if again else _LANE_HEIGHT),
        line_y=_LINE_Y,
        line_end=decided_x + 90,
        stops=tuple(Stop(each, places.x(each), str(each), each in met) for each in places.shown),
        gaps=places.gaps(),
        proposed=proposed,
        others=bars,
        again=again,
        description=_description(outcome, proposal, others),
    )


@dataclass(frozen=True, slots=True)
class _Places:
    """Where the snapshots that are shown are on the line."""

    shown: tuple[int, ...]
    step: float

    def x(self, snapshot_id: int) -> float:
        """The place of a snapshot that is shown."""
        return round(_LEFT + self.step * self.shown.index(snapshot_id), 1)

    @property
    def end(self) -> float:
        return self.x(self.shown[-1])

    def gaps(self) -> tuple[float, ...]:
        """Where snapshots are left out."""
        pairs = zip(self.shown, self.shown[1:], strict=False)
        return tuple(round(self.x(left) + self.step / 2, 1) for left, right in pairs if right - left > 1)


def _places(base: int, head: int, met: set[int], others: Sequence[HistoryEntry]) -> _Places:
    drawn = {each.snapshot_id for each in others if each.snapshot_id is not None}
    needed = {base, head, *drawn, *map(_base, others)}
    between = range(min(needed), head + 1)
    shown = tuple(between) if len(between) <= _NEIGHBOURS_MAX else tuple(sorted(needed | set(sorted(met)[-4:])))
    return _Places(shown, min(_STEP_MAX, (WIDTH - _LEFT - _RIGHT) / max(1, len(shown) - 1)))


def _base(entry: HistoryEntry) -> int:
    """What a commit was computed from: never later than the snapshot before it."""
    before = (entry.snapshot_id or 1) - 1
    return before if entry.base_snapshot_id is None else min(before, entry.base_snapshot_id)


def _writer(writer_id: str | None) -> str:
    """A writer's name, so short that what it did has room beside it."""
    shown = quoted(writer_id or "unknown")
    return shown if len(shown) <= _WRITER_MAX else f"{shown[: _WRITER_MAX - 1]}…"


def _met_text(outcome: m.Outcome, entry: HistoryEntry) -> str:
    kinds = dict.fromkeys(
        each.kind.value.replace("_", " ").lower()
        for each in outcome.conflicts
        if each.committed_snapshot_id == entry.snapshot_id
    )
    where = next(
        (each.object for each in outcome.conflicts if each.committed_snapshot_id == entry.snapshot_id),
        m.ConflictObject(),
    )
    table = "" if where.table is None else f" · {quoted(f'{where.schema}.{where.table}')}"
    file = "" if where.data_file_id is None else f" · file {where.data_file_id}"
    row = "" if where.row_key is None else f" · row {quoted(where.row_key)}"
    return f"{', '.join(kinds)}{table}{file}{row}"


def _description(outcome: m.Outcome, proposal: m.Proposal, others: Sequence[HistoryEntry]) -> str:
    """The drawing in words, for those who do not see it."""
    proposer, base = quoted(outcome.writer_id or "unknown"), proposal.base_snapshot_id
    told = [f"Writer {proposer} read snapshot {base} and was refused at snapshot {outcome.head_snapshot_id}."]
    for each in others:
        writer = quoted(each.writer_id or "unknown")
        told.append(f"In between writer {writer} committed snapshot {each.snapshot_id}: {_met_text(outcome, each)}.")
    return " ".join(told)
