"""The history drawn as a graph: the snapshots as a line, beside it a lane for each proposal that others overtook.

A lane leaves the line at the proposal's base and comes back at the snapshot that it made; one that ends in an ``x`` was
refused. So a row that a lane passes is what that proposal could not know.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from commitlog.catalog.history import HistoryEntry

LANES_MAX = 8
"""So many lanes at most stand side by side; of further proposals only the line is drawn."""

_LINE, _SNAPSHOT, _REFUSED, _REPEATED = "│", "*", "x", "="
_BEGINS, _ENDS, _CROSSES, _REACHES = "╯", "╮", "┼", "─"
_ASCII = str.maketrans({"│": "|", "╯": "'", "╮": ".", "┼": "+", "─": "-", "┴": "'", "┬": "."})


class GraphRow(NamedTuple):
    """What is drawn beside an entry, and beside further lines of it."""

    drawn: str
    below: str

    def in_ascii(self) -> GraphRow:
        """The same where only ASCII can be shown."""
        return GraphRow(self.drawn.translate(_ASCII), self.below.translate(_ASCII))


def graph_rows(entries: Iterable[HistoryEntry]) -> Iterator[GraphRow]:
    """What is drawn beside each entry.

    Args:
        entries: of one log, the newest first, without holes.
    """
    lanes: list[int | None] = []
    for entry in entries:
        drawn = _row(entry, lanes)
        while lanes and lanes[-1] is None:
            lanes.pop()
        yield GraphRow(drawn, _LINE + "".join("  " if base is None else f" {_LINE}" for base in lanes))


def _row(entry: HistoryEntry, lanes: list[int | None]) -> str:
    """What is drawn beside an entry; ``lanes``, each by its base, are those of the rows below afterwards."""
    marks = [" " if base is None else _LINE for base in lanes]
    joined = set()
    if entry.snapshot_id is not None:
        joined = {number for number, base in enumerate(lanes) if base is not None and base >= entry.snapshot_id}
        for number in joined:
            marks[number] = _BEGINS
    own = _own_lane(entry, lanes)
    for number in joined:
        lanes[number] = None
    if own is not None:
        marks[own:] = [_REFUSED if entry.snapshot_id is None else _ENDS, *marks[own + 1 :]]
        if entry.snapshot_id is not None:
            joined.add(own)
    line = _REPEATED if entry.verdict == "DUPLICATE" else _SNAPSHOT if entry.snapshot_id is not None else _LINE
    return line + _reached(marks, max(joined, default=-1))


def _own_lane(entry: HistoryEntry, lanes: list[int | None]) -> int | None:
    """The lane that an entry opens, which is none for what was proposed on what came just before it."""
    base = entry.base_snapshot_id
    if base is None or entry.verdict == "DUPLICATE":
        return None
    before = entry.head_snapshot_id if entry.snapshot_id is None else entry.snapshot_id - 1
    if entry.snapshot_id is not None and base >= before:
        return None
    number = lanes.index(None) if None in lanes else len(lanes)
    if number >= LANES_MAX:
        return None
    if number == len(lanes):
        lanes.append(base)
    else:
        lanes[number] = base
    return number


def _reached(marks: list[str], farthest: int) -> str:
    """The lanes of a row; up to the farthest that leaves or comes back, a line goes through them."""
    drawn = []
    for number, mark in enumerate(marks):
        if number > farthest:
            drawn.append(f" {mark}")
        elif number == farthest:
            drawn.append(_REACHES + mark)
        else:
            crossed = {_LINE: _CROSSES, " ": _REACHES, _BEGINS: "┴", _ENDS: "┬"}
            drawn.append(_REACHES + crossed[mark])
    return "".join(drawn)
