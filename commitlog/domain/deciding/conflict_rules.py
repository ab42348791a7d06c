"""The named ways in which a proposed change meets a committed one (rules.md 3, DuckLake's "Conflict Resolution").

A rule looks only at the index, so a check costs lookups in proportion to the proposal, not to the history since its base. Each
hit names the latest such snapshot. Which rule judges which pair of kinds says ``conflict_matrix``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyroaring import AbstractBitMap64

from commitlog.domain.deciding.conflicts import RENAMED_IT, Footprint, Hit, hit_kind, name_hit, object_of
from commitlog.domain.model import ChangeKind, ConflictKind, Granularity
from commitlog.domain.state.index import Entry, SequencerState, TableState

K = ChangeKind

Check = Callable[[SequencerState, Footprint, int, ChangeKind], Sequence[Hit]]


@dataclass(frozen=True, slots=True)
class Rule:
    """A named way in which a proposed change meets a committed one; ``meaning`` is the manual's sentence."""

    name: str
    meaning: str
    check: Check | None


# --- checks -----------------------------------------------------------------------------------------------------------


def _touched(entry: Entry, committed: ChangeKind, base: int, *, renamed: str = "") -> Sequence[Hit]:
    """``renamed``: how a rename of it reads, where it is not any table of the schema."""
    snapshot_id = entry.last.get(committed, -1)
    if snapshot_id <= base:
        return ()
    deed = renamed if committed is K.RENAME_TABLE else ""
    return (Hit(hit_kind(entry, committed), snapshot_id, object_of(entry), deed=deed),)


def _same_object(_: SequencerState, footprint: Footprint, base: int, committed: ChangeKind) -> Sequence[Hit]:
    return () if footprint.entry is None else _touched(footprint.entry, committed, base, renamed=RENAMED_IT)


def _definition(_: SequencerState, footprint: Footprint, base: int, __: ChangeKind) -> Sequence[Hit]:
    table = footprint.entry
    if isinstance(table, TableState) and table.definition_changed_at > base:
        return (Hit(ConflictKind.TABLE_ALTERED, table.definition_changed_at, object_of(table)),)
    return ()


def _schema_name(state: SequencerState, footprint: Footprint, base: int, _: ChangeKind) -> Sequence[Hit]:
    assert footprint.schema_name is not None
    for event in reversed(state.schema_names.get(footprint.schema_name, ())):
        if event.snapshot_id <= base:
            break
        if event.schema is not None:
            return (Hit(ConflictKind.SCHEMA_CREATED, event.snapshot_id, object_of(event.schema)),)
    return ()


def _schema_dropped(_: SequencerState, footprint: Footprint, base: int, __: ChangeKind) -> Sequence[Hit]:
    schema = footprint.schema
    if schema is not None and schema.dropped_at is not None and schema.dropped_at > base:
        return (Hit(ConflictKind.SCHEMA_DROPPED, schema.dropped_at, object_of(schema)),)
    return ()


def _entry_created(_: SequencerState, footprint: Footprint, base: int, committed: ChangeKind) -> Sequence[Hit]:
    schema = footprint.schema
    if schema is not None and (snapshot_id := schema.entry_created_at.get(committed, -1)) > base:
        return (Hit(ConflictKind.ENTRY_CREATED, snapshot_id, object_of(schema)),)
    return ()


def _contained_entry(_: SequencerState, footprint: Footprint, base: int, committed: ChangeKind) -> Sequence[Hit]:
    return [hit for entry in footprint.contained for hit in _touched(entry, committed, base)]


def _name(state: SequencerState, footprint: Footprint, base: int, committed: ChangeKind) -> Sequence[Hit]:
    if footprint.name is None or footprint.schema is None:
        return ()
    last: Hit | None = None
    for event in state.name_events_after(footprint.schema, footprint.name, base):
        if event.kind == committed and event.entry is not None:
            last = name_hit(event.entry, event)
    return () if last is None else (last,)


def _name_means_another(state: SequencerState, footprint: Footprint, base: int, committed: ChangeKind) -> Sequence[Hit]:
    table = footprint.entry
    assert footprint.old_name is not None
    assert table is not None
    events = state.name_events_after(table.schema, footprint.old_name, base)
    if events and events[-1].kind == committed and events[-1].entry not in (None, table):
        other = events[-1].entry
        assert other is not None
        return (name_hit(other, events[-1]),)
    return ()


def _referenced(_: SequencerState, footprint: Footprint, __: int, ___: ChangeKind) -> Sequence[Hit]:
    return [Hit(ConflictKind.TABLE_REFERENCED, child.created_at, object_of(child)) for child in footprint.referenced_by]


def _parent(state: SequencerState, footprint: Footprint, base: int, committed: ChangeKind) -> Sequence[Hit]:
    hits: list[Hit] = []
    if committed is K.DROP_SCHEMA:
        hits += _schema_dropped(state, footprint, base, committed)
    for parent in footprint.parents:
        if committed is not K.ALTER_TABLE:
            hits += _touched(parent, committed, base, renamed="renamed the table of its foreign key to {object}")
        elif parent.definition_changed_at > base:
            hits.append(Hit(ConflictKind.TABLE_ALTERED, parent.definition_changed_at, object_of(parent)))
    return hits


def _rows_constrained(_: SequencerState, footprint: Footprint, base: int, committed: ChangeKind) -> Sequence[Hit]:
    if footprint.constrains_rows and footprint.entry is not None:
        return _touched(footprint.entry, committed, base)
    return ()


def _deletes(state: SequencerState, footprint: Footprint, base: int, committed: ChangeKind) -> Sequence[Hit]:
    table = footprint.entry
    assert isinstance(table, TableState)
    if footprint.granularity is Granularity.TABLE:
        return _touched(table, committed, base)
    hits: list[Hit] = []
    for data_file_id, rows in footprint.files.items():
        history = state.file_history.get(data_file_id)
        if history is None or history.table_id != table.table_id:
            continue
        for delete in reversed(history.deletes):
            if delete.snapshot_id <= base:
                break
            if footprint.granularity is Granularity.FILE or rows is None or delete.every_row:
                detail = ""
            elif shared := rows & delete.rows:
                detail = _rows_text(shared)
            else:
                continue
            where = object_of(table, data_file_id=data_file_id)
            hits.append(Hit(ConflictKind.TABLE_DELETED_FROM, delete.snapshot_id, where, detail))
            break
    return hits


def _rows_text(rows: AbstractBitMap64) -> str:
    shown = ", ".join(str(row) for _, row in zip(range(10), rows, strict=False))
    return f"row {shown}" if len(rows) == 1 else f"rows {shown}" + (", ..." if len(rows) > 10 else "")


def _compactions(state: SequencerState, footprint: Footprint, base: int, committed: ChangeKind) -> Sequence[Hit]:
    table = footprint.entry
    assert isinstance(table, TableState)
    if footprint.granularity is Granularity.TABLE:
        return _touched(table, committed, base)
    return _same_files(state, footprint, base, committed)


def _same_files(state: SequencerState, footprint: Footprint, base: int, committed: ChangeKind) -> Sequence[Hit]:
    table = footprint.entry
    assert isinstance(table, TableState)
    if base < state.index_floor:
        if any(data_file_id not in table.live_files for data_file_id in footprint.files):
            return _touched(table, committed, base)
        return ()
    hits: list[Hit] = []
    for data_file_id in footprint.files:
        history = state.file_history.get(data_file_id)
        if history is None or history.table_id != table.table_id or history.compacted_at is None:
            continue
        if history.compacted_at > base:
            where = object_of(table, data_file_id=data_file_id)
            hits.append(Hit(ConflictKind.TABLE_COMPACTED, history.compacted_at, where))
    return hits


def _flushed_rows(state: SequencerState, footprint: Footprint, base: int, committed: ChangeKind) -> Sequence[Hit]:
    table = footprint.entry
    assert isinstance(table, TableState)
    assert table.rows is not None
    if base < state.index_floor:
        return _touched(table, committed, base)
    last = -1
    for row_id in footprint.row_ids:
        touch = table.rows.row_touches.get(row_id)
        if touch is not None:
            last = max(last, touch.last(committed))
    return (Hit(hit_kind(table, committed), last, object_of(table)),) if last > base else ()


def _either(one: Check, other: Check) -> Check:
    def both(state: SequencerState, footprint: Footprint, base: int, committed: ChangeKind) -> Sequence[Hit]:
        return [*one(state, footprint, base, committed), *other(state, footprint, base, committed)]

    return both


# --- rules ------------------------------------------------------------------------------------------------------------

NEVER = Rule("NEVER", "Both commit.", None)
SCHEMA_NAME = Rule("SCHEMA_NAME", "A schema of this name was created.", _schema_name)
SCHEMA_DROPPED = Rule("SCHEMA_DROPPED", "The schema was dropped.", _schema_dropped)
ENTRY_CREATED = Rule("ENTRY_CREATED", "A table or view was created in the schema.", _entry_created)
CONTAINED = Rule(
    "CONTAINED", "With cascade: an entry of the schema was dropped, replaced or renamed.", _contained_entry
)
NAME = Rule("NAME", "An entry was created with, or renamed to, this name in this schema.", _name)
SAME = Rule("SAME", "The same table or view.", _same_object)
DEFINITION = Rule("DEFINITION", "The table was altered by more than a comment, default or property.", _definition)
CONSTRAINED = Rule(
    "CONSTRAINED",
    "The alteration constrains rows: not nullable, a new column without default that may not be NULL, partitioning.",
    _rows_constrained,
)
PARENT = Rule(
    "PARENT", "The schema, or a table that a foreign key refers to, was dropped, renamed or altered.", _parent
)
DELETES = Rule("DELETES", "Rows were deleted, at the table's granularity: TABLE, FILE or ROW.", _deletes)
COMPACTIONS = Rule("COMPACTIONS", "The same files were compacted; at granularity TABLE any files.", _compactions)
SAME_FILES = Rule("SAME_FILES", "The same files were compacted.", _same_files)
NAME_REUSED = Rule("NAME_REUSED", "The table's old name means another table by now.", _name_means_another)
FLUSHED_ROWS = Rule("FLUSHED_ROWS", "One of the flushed rows was changed or flushed.", _flushed_rows)
REFERENCED = Rule("REFERENCED", "A table was created whose foreign key refers to it.", _referenced)
ENTRY_OR_REFERENCE = Rule(
    "ENTRY_OR_REFERENCE",
    "A table was created in the schema, or one whose foreign key refers to a table of it.",
    _either(_entry_created, _referenced),
)
SCHEMA_OR_CONTAINED = Rule(
    "SCHEMA_OR_CONTAINED",
    "The same schema.",
    _either(_schema_dropped, _contained_entry),
)
BY_KEY = Rule(
    "BY_KEY",
    "The same key, UNIQUE value or foreign key, as the table's on_conflict says; each that a change meets is listed. A handler "
    "that is not installed where the log is decided makes it INVALID.",
    None,
)
NAME_OR_PARENT = Rule("NAME_OR_PARENT", f"{NAME.meaning} Or: {PARENT.meaning}", _either(_name, _parent))
SAME_OR_NAME = Rule("SAME_OR_NAME", f"{SAME.meaning} Or: {NAME.meaning}", _either(_same_object, _name))
