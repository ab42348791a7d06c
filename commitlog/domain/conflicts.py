"""What conflicts with what: one table of named rules over the index, and the small loop that applies it.

``CONFLICT_MATRIX[(proposed, committed)]`` names the rule for every pair of change kinds (DESIGN 3, DuckLake's "Conflict
Resolution"); a missing cell fails at import, and the manual's page is printed from it. A rule looks only at the index, so
a check costs lookups in proportion to the proposal. Every hit is returned, naming the latest such snapshot.

Row changes of keyed tables meet by key: the cells say BY_KEY, the meeting itself is in ``rows``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pyroaring import AbstractBitMap64

from commitlog.domain.model import Change, ChangeKind, Conflict, ConflictKind, ConflictObject, Granularity
from commitlog.domain.state import Entry, SchemaState, SequencerState, TableState, ViewState

K = ChangeKind
ROW_CHANGES = (K.INSERT_ROW, K.UPDATE_ROW, K.DELETE_ROW)


@dataclass(slots=True)
class Footprint:
    """What one proposed change touches, in terms of the state's objects. Objects made by the changeset do not count.

    schema: the schema created in, or dropped. schema_name, name: a folded name that the change gives. entry: the table or
    view worked on; contained: the entries that a cascade drops. referenced_by: tables created since the base that refer to
    what is dropped. files: positions per data file, None for every row.
    """

    change: int
    kind: ChangeKind
    schema: SchemaState | None = None
    schema_name: str | None = None
    name: str | None = None
    old_name: str | None = None
    entry: Entry | None = None
    contained: Sequence[Entry] = ()
    parents: Sequence[TableState] = ()
    referenced_by: Sequence[TableState] = ()
    files: Mapping[int, AbstractBitMap64 | None] = field(default_factory=dict)
    row_ids: Sequence[int] = ()
    constrains_rows: bool = False


class Hit(NamedTuple):
    """A conflict in the making: what the committed side did, when, and to which object."""

    kind: ConflictKind
    snapshot_id: int
    object: ConflictObject
    detail: str = ""


Check = Callable[[SequencerState, Footprint, int, ChangeKind], Iterable[Hit]]


@dataclass(frozen=True, slots=True)
class Rule:
    """A named way in which a proposed change meets a committed one; ``meaning`` is the manual's sentence."""

    name: str
    meaning: str
    check: Check | None


def object_of(
    entry: Entry | SchemaState, *, data_file_id: int | None = None, row_key: str | None = None
) -> ConflictObject:
    """Name a schema, table, view, file or row as conflicts do."""
    if isinstance(entry, SchemaState):
        return ConflictObject(schema=entry.name)
    entry_id = entry.table_id if isinstance(entry, TableState) else entry.view_id
    return ConflictObject(entry.schema.name, entry.name, entry_id, data_file_id, row_key)


# --- checks -----------------------------------------------------------------------------------------------------------

_TABLE_HITS = {
    K.CREATE_TABLE: ConflictKind.TABLE_CREATED,
    K.DROP_TABLE: ConflictKind.TABLE_DROPPED,
    K.DROP_SCHEMA: ConflictKind.TABLE_DROPPED,
    K.RENAME_TABLE: ConflictKind.TABLE_RENAMED,
    K.ALTER_TABLE: ConflictKind.TABLE_ALTERED,
    K.APPEND: ConflictKind.TABLE_APPENDED,
    K.DELETE: ConflictKind.TABLE_DELETED_FROM,
    K.COMPACT: ConflictKind.TABLE_COMPACTED,
    K.INSERT_ROW: ConflictKind.TABLE_ROWS_CHANGED,
    K.UPDATE_ROW: ConflictKind.TABLE_ROWS_CHANGED,
    K.DELETE_ROW: ConflictKind.TABLE_ROWS_CHANGED,
    K.FLUSH: ConflictKind.TABLE_FLUSHED,
}
_VIEW_HITS = {
    K.CREATE_VIEW: ConflictKind.VIEW_CREATED,
    K.REPLACE_VIEW: ConflictKind.VIEW_REPLACED,
    K.DROP_VIEW: ConflictKind.VIEW_DROPPED,
    K.DROP_SCHEMA: ConflictKind.VIEW_DROPPED,
}


def hit_kind(entry: Entry, committed: ChangeKind) -> ConflictKind:
    """What to call a committed change of that kind to a table or view."""
    return (_TABLE_HITS if isinstance(entry, TableState) else _VIEW_HITS)[committed]


def _touched(entry: Entry, committed: ChangeKind, base: int) -> tuple[Hit, ...]:
    snapshot_id = entry.last.get(committed, -1)
    return (Hit(hit_kind(entry, committed), snapshot_id, object_of(entry)),) if snapshot_id > base else ()


def _same_object(_: SequencerState, footprint: Footprint, base: int, committed: ChangeKind) -> tuple[Hit, ...]:
    return () if footprint.entry is None else _touched(footprint.entry, committed, base)


def _definition(_: SequencerState, footprint: Footprint, base: int, __: ChangeKind) -> tuple[Hit, ...]:
    table = footprint.entry
    if isinstance(table, TableState) and table.definition_changed_at > base:
        return (Hit(ConflictKind.TABLE_ALTERED, table.definition_changed_at, object_of(table)),)
    return ()


def _schema_name(state: SequencerState, footprint: Footprint, base: int, _: ChangeKind) -> Iterator[Hit]:
    assert footprint.schema_name is not None
    for event in reversed(state.schema_names.get(footprint.schema_name, ())):
        if event.snapshot_id <= base:
            return
        if event.schema is not None:
            yield Hit(ConflictKind.SCHEMA_CREATED, event.snapshot_id, object_of(event.schema))
            return


def _schema_dropped(_: SequencerState, footprint: Footprint, base: int, __: ChangeKind) -> Iterator[Hit]:
    schema = footprint.schema
    if schema is not None and schema.dropped_at is not None and schema.dropped_at > base:
        yield Hit(ConflictKind.SCHEMA_DROPPED, schema.dropped_at, object_of(schema))


def _entry_created(_: SequencerState, footprint: Footprint, base: int, committed: ChangeKind) -> Iterator[Hit]:
    schema = footprint.schema
    if schema is not None and (snapshot_id := schema.entry_created_at.get(committed, -1)) > base:
        yield Hit(ConflictKind.ENTRY_CREATED, snapshot_id, object_of(schema))


def _contained_entry(_: SequencerState, footprint: Footprint, base: int, committed: ChangeKind) -> Iterator[Hit]:
    for entry in footprint.contained:
        yield from _touched(entry, committed, base)


def _name(state: SequencerState, footprint: Footprint, base: int, committed: ChangeKind) -> Iterator[Hit]:
    if footprint.name is None or footprint.schema is None:
        return
    last: Hit | None = None
    for event in state.name_events_after(footprint.schema, footprint.name, base):
        if event.kind == committed and event.entry is not None:
            last = Hit(hit_kind(event.entry, committed), event.snapshot_id, object_of(event.entry))
    if last is not None:
        yield last


def _name_means_another(state: SequencerState, footprint: Footprint, base: int, committed: ChangeKind) -> Iterator[Hit]:
    table = footprint.entry
    assert footprint.old_name is not None
    assert table is not None
    events = list(state.name_events_after(table.schema, footprint.old_name, base))
    if events and events[-1].kind == committed and events[-1].entry not in (None, table):
        other = events[-1].entry
        assert other is not None
        yield Hit(hit_kind(other, committed), events[-1].snapshot_id, object_of(other))


def _referenced(_: SequencerState, footprint: Footprint, __: int, ___: ChangeKind) -> Iterator[Hit]:
    for child in footprint.referenced_by:
        yield Hit(ConflictKind.TABLE_REFERENCED, child.created_at, object_of(child))


def _parent(state: SequencerState, footprint: Footprint, base: int, committed: ChangeKind) -> Iterator[Hit]:
    if committed is K.DROP_SCHEMA:
        yield from _schema_dropped(state, footprint, base, committed)
    for parent in footprint.parents:
        if committed is not K.ALTER_TABLE:
            yield from _touched(parent, committed, base)
        elif parent.definition_changed_at > base:
            yield Hit(ConflictKind.TABLE_ALTERED, parent.definition_changed_at, object_of(parent))


def _rows_constrained(_: SequencerState, footprint: Footprint, base: int, committed: ChangeKind) -> Iterator[Hit]:
    if footprint.constrains_rows and footprint.entry is not None:
        yield from _touched(footprint.entry, committed, base)


def granularity_of(state: SequencerState, table: TableState, base: int) -> Granularity:
    """The granularity at which a base is judged: the table's, the log's, or TABLE beyond the index's window."""
    if base < state.index_floor:
        return Granularity.TABLE
    return state.granularity_of(table)


def _deletes(state: SequencerState, footprint: Footprint, base: int, committed: ChangeKind) -> Iterator[Hit]:
    table = footprint.entry
    assert isinstance(table, TableState)
    granularity = granularity_of(state, table, base)
    if granularity is Granularity.TABLE:
        yield from _touched(table, committed, base)
        return
    for data_file_id, rows in footprint.files.items():
        history = state.file_history.get(data_file_id)
        if history is None or history.table_id != table.table_id:
            continue
        for delete in reversed(history.deletes):
            if delete.snapshot_id <= base:
                break
            if granularity is Granularity.FILE or rows is None or delete.every_row:
                detail = ""
            elif shared := rows & delete.rows:
                detail = _rows_text(shared)
            else:
                continue
            where = object_of(table, data_file_id=data_file_id)
            yield Hit(ConflictKind.TABLE_DELETED_FROM, delete.snapshot_id, where, detail)
            break


def _rows_text(rows: AbstractBitMap64) -> str:
    shown = ", ".join(str(row) for _, row in zip(range(10), rows, strict=False))
    return f"row {shown}" if len(rows) == 1 else f"rows {shown}" + (", ..." if len(rows) > 10 else "")


def _compactions(state: SequencerState, footprint: Footprint, base: int, committed: ChangeKind) -> Iterator[Hit]:
    table = footprint.entry
    assert isinstance(table, TableState)
    if granularity_of(state, table, base) is Granularity.TABLE:
        yield from _touched(table, committed, base)
    else:
        yield from _same_files(state, footprint, base, committed)


def _same_files(state: SequencerState, footprint: Footprint, base: int, committed: ChangeKind) -> Iterator[Hit]:
    table = footprint.entry
    assert isinstance(table, TableState)
    if base < state.index_floor:
        if any(data_file_id not in table.live_files for data_file_id in footprint.files):
            yield from _touched(table, committed, base)
        return
    for data_file_id in footprint.files:
        history = state.file_history.get(data_file_id)
        if history is None or history.table_id != table.table_id or history.compacted_at is None:
            continue
        if history.compacted_at > base:
            where = object_of(table, data_file_id=data_file_id)
            yield Hit(ConflictKind.TABLE_COMPACTED, history.compacted_at, where)


def _flushed_rows(state: SequencerState, footprint: Footprint, base: int, committed: ChangeKind) -> Iterator[Hit]:
    table = footprint.entry
    assert isinstance(table, TableState)
    assert table.rows is not None
    if base < state.index_floor:
        yield from _touched(table, committed, base)
        return
    last = -1
    for row_id in footprint.row_ids:
        snapshot_id, kind = table.rows.row_touches.get(row_id, (-1, committed))
        if kind is committed:
            last = max(last, snapshot_id)
    if last > base:
        yield Hit(hit_kind(table, committed), last, object_of(table))


# --- the matrix -------------------------------------------------------------------------------------------------------

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
    lambda *args: [*_entry_created(*args), *_referenced(*args)],
)
SCHEMA_OR_CONTAINED = Rule(
    "SCHEMA_OR_CONTAINED",
    "The same schema.",
    lambda *args: [*_schema_dropped(*args), *_contained_entry(*args)],
)
BY_KEY = Rule(
    "BY_KEY",
    "The same key, UNIQUE value or foreign key, as the table's on_conflict says; each that a change meets is listed. A handler "
    "that is not installed where the log is decided makes it INVALID.",
    None,
)

_DROPS = {K.DROP_TABLE: SAME, K.DROP_SCHEMA: SAME}
_DATA = {**_DROPS, K.RENAME_TABLE: SAME, K.ALTER_TABLE: DEFINITION}
_NAMES = {K.CREATE_TABLE: NAME, K.CREATE_VIEW: NAME, K.RENAME_TABLE: NAME, K.DROP_SCHEMA: SCHEMA_DROPPED}
_ROWS = {**_DATA, **dict.fromkeys(ROW_CHANGES, BY_KEY)}
_CONSTRAINED = dict.fromkeys((K.APPEND, *ROW_CHANGES), CONSTRAINED)

_CONFLICTING: Mapping[ChangeKind, Mapping[ChangeKind, Rule]] = {
    K.CREATE_SCHEMA: {K.CREATE_SCHEMA: SCHEMA_NAME},
    K.DROP_SCHEMA: {
        K.DROP_SCHEMA: SCHEMA_OR_CONTAINED,
        K.CREATE_TABLE: ENTRY_OR_REFERENCE,
        K.CREATE_VIEW: ENTRY_CREATED,
        **dict.fromkeys((K.DROP_TABLE, K.RENAME_TABLE, K.REPLACE_VIEW, K.DROP_VIEW), CONTAINED),
    },
    K.CREATE_TABLE: {
        **_NAMES,
        **dict.fromkeys((K.DROP_SCHEMA, K.DROP_TABLE, K.ALTER_TABLE), PARENT),
        K.RENAME_TABLE: Rule(
            "NAME_OR_PARENT", f"{NAME.meaning} Or: {PARENT.meaning}", lambda *args: [*_name(*args), *_parent(*args)]
        ),
    },
    K.CREATE_VIEW: _NAMES,
    K.DROP_TABLE: {**_DROPS, K.RENAME_TABLE: SAME, K.CREATE_TABLE: REFERENCED},
    K.RENAME_TABLE: {
        **_NAMES,
        K.RENAME_TABLE: Rule(
            "SAME_OR_NAME", f"{SAME.meaning} Or: {NAME.meaning}", lambda *args: [*_same_object(*args), *_name(*args)]
        ),
        **dict.fromkeys((K.DROP_TABLE, K.DROP_SCHEMA, K.ALTER_TABLE), SAME),
    },
    K.ALTER_TABLE: {**_DROPS, K.RENAME_TABLE: SAME, K.ALTER_TABLE: SAME, **_CONSTRAINED},
    K.REPLACE_VIEW: dict.fromkeys((K.DROP_VIEW, K.DROP_SCHEMA, K.REPLACE_VIEW), SAME),
    K.DROP_VIEW: dict.fromkeys((K.DROP_VIEW, K.DROP_SCHEMA, K.REPLACE_VIEW), SAME),
    K.APPEND: _DATA,
    K.DELETE: {**_DATA, K.DELETE: DELETES, K.COMPACT: COMPACTIONS},
    K.COMPACT: {
        **_DROPS,
        K.DELETE: DELETES,
        K.COMPACT: SAME_FILES,
        **dict.fromkeys((K.CREATE_TABLE, K.CREATE_VIEW, K.RENAME_TABLE), NAME_REUSED),
    },
    **dict.fromkeys(ROW_CHANGES, _ROWS),
    K.FLUSH: {**_DATA, K.ALTER_TABLE: SAME, **dict.fromkeys((*ROW_CHANGES, K.FLUSH), FLUSHED_ROWS)},
    K.EXPIRE_SNAPSHOTS: {},
    K.CONFIGURE: {},
}

CONFLICT_MATRIX: Mapping[tuple[ChangeKind, ChangeKind], Rule] = {
    (proposed, committed): _CONFLICTING[proposed].get(committed, NEVER) for proposed in K for committed in K
}
"""Every pair of kinds, proposed first: the rule by which they meet."""

RULES_OF: Mapping[ChangeKind, tuple[tuple[ChangeKind, Check], ...]] = {
    proposed: tuple(
        (committed, rule.check) for committed in K if (rule := CONFLICT_MATRIX[proposed, committed]).check is not None
    )
    for proposed in K
}


def check_footprint(state: SequencerState, footprint: Footprint, base_snapshot_id: int) -> list[Hit]:
    """Everything committed since the base that the proposed change cannot live with."""
    hits: list[Hit] = []
    for committed, check in RULES_OF[footprint.kind]:
        if found := check(state, footprint, base_snapshot_id, committed):
            hits.extend(found)
    return hits


# --- naming them ------------------------------------------------------------------------------------------------------

_ATTEMPTS = {
    K.CREATE_SCHEMA: "create schema", K.DROP_SCHEMA: "drop schema", K.CREATE_TABLE: "create table",
    K.DROP_TABLE: "drop table", K.RENAME_TABLE: "rename table", K.ALTER_TABLE: "alter table",
    K.CREATE_VIEW: "create view", K.REPLACE_VIEW: "replace view", K.DROP_VIEW: "drop view",
    K.APPEND: "append to table", K.DELETE: "delete from table", K.COMPACT: "compact table",
    K.INSERT_ROW: "insert a row into table", K.UPDATE_ROW: "update a row of table",
    K.DELETE_ROW: "delete a row of table", K.FLUSH: "flush rows of table",
}  # fmt: skip
_DEEDS = {
    ConflictKind.SCHEMA_CREATED: "created schema {object}",
    ConflictKind.SCHEMA_DROPPED: "dropped schema {object}",
    ConflictKind.ENTRY_CREATED: "created an entry in schema {object}",
    ConflictKind.TABLE_CREATED: "created table {object}",
    ConflictKind.TABLE_DROPPED: "dropped table {object}",
    ConflictKind.TABLE_RENAMED: "renamed a table to {object}",
    ConflictKind.TABLE_ALTERED: "altered table {object}",
    ConflictKind.TABLE_APPENDED: "appended to {object}",
    ConflictKind.TABLE_DELETED_FROM: "deleted from {object}",
    ConflictKind.TABLE_COMPACTED: "compacted {object}",
    ConflictKind.TABLE_ROWS_CHANGED: "changed rows of {object}",
    ConflictKind.TABLE_FLUSHED: "flushed rows of {object}",
    ConflictKind.TABLE_REFERENCED: "created a foreign key to it in table {object}",
    ConflictKind.VIEW_CREATED: "created view {object}",
    ConflictKind.VIEW_DROPPED: "dropped view {object}",
    ConflictKind.VIEW_REPLACED: "replaced view {object}",
    ConflictKind.ROW_CHANGED: "changed {object}",
    ConflictKind.INSERT_INSERT: "inserted or changed {object}",
    ConflictKind.INSERT_UPDATE: "has not inserted {object} yet",
    ConflictKind.UPDATE_UPDATE: "updated {object}",
    ConflictKind.UPDATE_DELETE: "changed {object}",
    ConflictKind.UPDATE_KEY: "changed {object}",
    ConflictKind.DELETE_DELETE: "deleted {object}",
    ConflictKind.MULTIPLE_UNIQUE: "took several of its unique values in {object}",
    ConflictKind.UNIQUE: "took its unique value in {object}",
    ConflictKind.FOREIGN_KEY: "changed the other side of its foreign key in {object}",
}


def _object_text(where: ConflictObject) -> str:
    name = f"{where.schema}.{where.table}" if where.table is not None else str(where.schema)
    if where.data_file_id is not None:
        return f"file {where.data_file_id} of table {name}"
    if where.row_key is not None:
        return f"row {where.row_key} of table {name}"
    return name


def make_conflict(
    state: SequencerState,
    hit: Hit,
    *,
    attempt: str,
    base_snapshot_id: int,
    change: int | None = None,
    read: int | None = None,
) -> Conflict:
    """Turn a hit into the conflict that the outcome lists, with who committed it and its text."""
    commit = state.commits.get(hit.snapshot_id)
    by = f" by writer {commit.writer_id}" if commit is not None else ""
    deed = _DEEDS[hit.kind].format(object=_object_text(hit.object))
    more = f" ({hit.detail})" if hit.detail else ""
    return Conflict(
        kind=hit.kind,
        proposed_change=change,
        proposed_read=read,
        object=hit.object,
        committed_snapshot_id=hit.snapshot_id,
        committed_proposal_id=None if commit is None else commit.proposal_id,
        committed_writer_id=None if commit is None else commit.writer_id,
        detail=f"{attempt} - but snapshot {hit.snapshot_id}{by} {deed}{more} since base {base_snapshot_id}",
    )


def attempt_text(change: Change) -> str:
    """What the proposed change tried, in its own names and DuckLake's words: "delete from table main.t"."""
    name = getattr(change, "table", None) or getattr(change, "view", None)
    return f"{_ATTEMPTS[change.kind]} {_object_text(ConflictObject(getattr(change, 'schema', None), name))}"


def sorted_conflicts(conflicts: Iterable[Conflict]) -> list[Conflict]:
    """One per (change or read, object, committed kind), the latest snapshot, in the order of these."""
    latest: dict[tuple[object, ...], Conflict] = {}
    for conflict in conflicts:
        key = (conflict.proposed_change, conflict.proposed_read, conflict.object, conflict.kind)
        known = latest.get(key)
        if known is None or known.committed_snapshot_id < conflict.committed_snapshot_id:
            latest[key] = conflict
    return sorted(latest.values(), key=_order)


def _order(conflict: Conflict) -> tuple[object, ...]:
    where = conflict.object
    return (
        conflict.proposed_change is None,
        conflict.proposed_change if conflict.proposed_change is not None else conflict.proposed_read,
        where.schema or "",
        where.table or "",
        -1 if where.table_id is None else where.table_id,
        -1 if where.data_file_id is None else where.data_file_id,
        where.row_key or "",
        str(conflict.kind),
    )


def view_or_table(entry: Entry) -> str:
    """The word for an entry in a message."""
    return "view" if isinstance(entry, ViewState) else "table"
