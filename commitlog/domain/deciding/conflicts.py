"""What conflicts are made of: what a proposed change touches, what it hits, and how a conflict reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from pyroaring import AbstractBitMap64

from commitlog.domain.model import (
    Change,
    ChangeKind,
    Conflict,
    ConflictKind,
    ConflictObject,
    Granularity,
    RenameTable,
)
from commitlog.domain.state.index import Entry, NameEvent, SchemaState, SequencerState, TableState

K = ChangeKind
_NO_FILES: Mapping[int, AbstractBitMap64 | None] = {}


class Footprint:
    """What one proposed change touches, in terms of the state's objects. Objects made by the changeset do not count.

    change: its index in the proposal. schema: the schema created in, or dropped. schema_name, name: a folded name that the
    change gives; old_name: one by which it names its table. entry: the table or view worked on; contained: the entries that
    a cascade drops. parents: tables that its foreign keys refer to; referenced_by: tables created since the base that refer
    to what is dropped. files: positions per data file, None for every row; granularity: how finely they are told apart
    from what was deleted and compacted. row_ids: of rows that are flushed. constrains_rows: whether rows that are there may
    not be as the change wants them.
    """

    __slots__ = (
        "change",
        "constrains_rows",
        "contained",
        "entry",
        "files",
        "granularity",
        "kind",
        "name",
        "old_name",
        "parents",
        "referenced_by",
        "row_ids",
        "schema",
        "schema_name",
    )

    def __init__(
        self,
        change: int,
        kind: ChangeKind,
        *,
        schema: SchemaState | None = None,
        schema_name: str | None = None,
        name: str | None = None,
        old_name: str | None = None,
        entry: Entry | None = None,
        contained: Sequence[Entry] = (),
        parents: Sequence[TableState] = (),
        referenced_by: Sequence[TableState] = (),
        files: Mapping[int, AbstractBitMap64 | None] = _NO_FILES,
        granularity: Granularity = Granularity.TABLE,
        row_ids: Sequence[int] = (),
        constrains_rows: bool = False,
    ) -> None:
        self.change = change
        self.kind = kind
        self.schema = schema
        self.schema_name = schema_name
        self.name = name
        self.old_name = old_name
        self.entry = entry
        self.contained = contained
        self.parents = parents
        self.referenced_by = referenced_by
        self.files = files
        self.granularity = granularity
        self.row_ids = row_ids
        self.constrains_rows = constrains_rows


def gone_deed(table: TableState, gone_at: int) -> str:
    """How it reads that a row is not there any more: an update may have given it another key."""
    is_deleted = table.last.get(K.UPDATE_ROW, -1) < gone_at
    return "deleted {object}" if is_deleted else "deleted {object} or gave it another key"


class Hit(NamedTuple):
    """A conflict in the making: what the committed side did, when, and to which object.

    deed: what it did in words, with ``{object}`` in them, where they are others than those of its kind.
    """

    kind: ConflictKind
    snapshot_id: int
    object: ConflictObject
    detail: str = ""
    deed: str = ""


def object_of(
    entry: Entry | SchemaState, *, data_file_id: int | None = None, row_key: str | None = None
) -> ConflictObject:
    """Name a schema, table, view, file or row as conflicts do."""
    if isinstance(entry, SchemaState):
        return ConflictObject(schema=entry.name)
    return ConflictObject(entry.schema.name, entry.name, entry.entry_id, data_file_id, row_key)


def name_hit(entry: Entry, event: NameEvent) -> Hit:
    """What happened to a name, and to the table or view that it then meant, as that was called then."""
    where = ConflictObject(entry.schema.name, event.called, entry.entry_id, None, None)
    return Hit(hit_kind(entry, event.kind), event.snapshot_id, where)


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
    ConflictKind.MULTIPLE_UNIQUE: "inserted or changed {object}",
    ConflictKind.UNIQUE: "took its unique value in {object}",
    ConflictKind.FOREIGN_KEY: "changed the other side of its foreign key in {object}",
}
RENAMED_IT = "renamed it to {object}"
"""Of the very table that was named; the deed of TABLE_RENAMED is of one that took, or gave up, a name."""


def _object_text(where: ConflictObject) -> str:
    if where.data_file_id is not None:
        return f"file {where.data_file_id}"  # Of the table that was tried to change, or read.
    name = f"{where.schema}.{where.table}" if where.table is not None else str(where.schema)
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
    deed = (hit.deed or _DEEDS[hit.kind]).format(object=_object_text(hit.object))
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
    to = f" to {change.new_table}" if isinstance(change, RenameTable) else ""
    return f"{_ATTEMPTS[change.kind]} {_object_text(ConflictObject(getattr(change, 'schema', None), name))}{to}"


def sorted_conflicts(conflicts: Iterable[Conflict]) -> list[Conflict]:
    """One per (change or read, object, committed kind), the latest snapshot, in the order of these."""
    latest: dict[tuple[object, ...], Conflict] = {}
    for conflict in conflicts:
        where = conflict.object
        # A table has several names in its time.
        object_id = where.schema, where.table_id, where.data_file_id, where.row_key
        key = (conflict.proposed_change, conflict.proposed_read, object_id, conflict.kind)
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
