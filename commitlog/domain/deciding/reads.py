"""Read sets under SERIALIZABLE: was anything that the writer read changed since its base? (rules.md 4, 12.13, 12.20)"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import assert_never

from commitlog.domain import model as m
from commitlog.domain.deciding.append_blocks import newest_match
from commitlog.domain.deciding.conflicts import RENAMED_IT, Hit, gone_deed, hit_kind, name_hit, object_of
from commitlog.domain.deciding.row_conflicts import named_key
from commitlog.domain.deciding.rules import StatisticsDecoder
from commitlog.domain.model.definitions import quoted
from commitlog.domain.model.types import fold
from commitlog.domain.state.index import ROW_CHANGES, SchemaState, SequencerState, TableState, ViewState
from commitlog.domain.state.row_keys import shown_key
from commitlog.errors import InvalidChangeError


def find_read_hits(
    state: SequencerState, read: m.Read, base: int, decode_statistics: StatisticsDecoder | None
) -> Iterator[Hit]:
    """What was committed since the base to what was read; InvalidChangeError for a read that never could be."""
    match read:
        case m.TableRead():
            yield from _table_hits(state, read, base, decode_statistics)
        case m.NameRead():
            yield from _name_hits(state, read, base)
        case m.RowsRead():
            yield from _rows_hits(state, read, base)
        case _:
            assert_never(read)


def _read_table(state: SequencerState, schema_name: str, name: str, base: int) -> TableState:
    entry = state.entry_named(schema_name, name, base)
    if not isinstance(entry, TableState):
        is_view = isinstance(entry, ViewState)
        code, what = (
            (m.InvalidCode.NOT_A_TABLE, "is a view") if is_view else (m.InvalidCode.TABLE_MISSING, "did not exist")
        )
        raise InvalidChangeError(
            code, f"a read names table {quoted(schema_name)}.{quoted(name)}, which {what} at snapshot {base}"
        )
    return entry


def _definition_hits(table: TableState, base: int) -> Iterator[Hit]:
    """What was committed since the base to a table as such, after which its filters mean nothing certain."""
    for kind in (m.ChangeKind.DROP_TABLE, m.ChangeKind.DROP_SCHEMA, m.ChangeKind.RENAME_TABLE):
        if table.last.get(kind, -1) > base:
            deed = RENAMED_IT if kind is m.ChangeKind.RENAME_TABLE else ""
            yield Hit(hit_kind(table, kind), table.last[kind], object_of(table), deed=deed)
    if table.definition_changed_at > base:
        yield Hit(m.ConflictKind.TABLE_ALTERED, table.definition_changed_at, object_of(table))


# --- TABLE ------------------------------------------------------------------------------------------------------------


def _table_hits(
    state: SequencerState, read: m.TableRead, base: int, decode_statistics: StatisticsDecoder | None
) -> Iterator[Hit]:
    table = _read_table(state, read.schema, read.table, base)
    changed = list(_definition_hits(table, base))
    yield from changed
    if not changed:
        for predicate in read.filter:
            table.definition.column(predicate.column)
    for data_file_id in read.files or ():
        _check_file_read(state, table, data_file_id, base)
    yield from _append_hits(state, table, read, base, decode_statistics, same_definition=not changed)
    yield from _delete_hits(state, table, read, base)
    rows_changed = table.last_of(ROW_CHANGES)
    if rows_changed > base:
        yield Hit(m.ConflictKind.TABLE_ROWS_CHANGED, rows_changed, object_of(table))


def _check_file_read(state: SequencerState, table: TableState, data_file_id: int, base: int) -> None:
    if data_file_id < 0:
        raise InvalidChangeError(
            m.InvalidCode.NUMBER_NEGATIVE, f"a read lists data file {data_file_id}: ids are not negative"
        )
    if data_file_id in table.live_files:
        return
    if data_file_id < state.next_file_id and state.may_have_gone(table, data_file_id, base):
        return
    raise InvalidChangeError(
        m.InvalidCode.FILE_UNKNOWN,
        f"a read lists data file {data_file_id}, which table {quoted(table.name)} did not hold",
    )


def _append_hits(
    state: SequencerState,
    table: TableState,
    read: m.TableRead,
    base: int,
    decode_statistics: StatisticsDecoder | None,
    *,
    same_definition: bool,
) -> Iterator[Hit]:
    last = table.last.get(m.ChangeKind.APPEND, -1)
    if last <= base:
        return
    if base < state.index_floor or not same_definition:
        yield Hit(m.ConflictKind.TABLE_APPENDED, last, object_of(table))
        return
    appended = newest_match(table, read.filter, base, decode_statistics)
    if appended is not None:
        yield Hit(m.ConflictKind.TABLE_APPENDED, appended.snapshot_id, object_of(table))


def _delete_hits(state: SequencerState, table: TableState, read: m.TableRead, base: int) -> Iterator[Hit]:
    last = table.last.get(m.ChangeKind.DELETE, -1)
    if last <= base:
        return
    if read.files is None or base < state.index_floor:
        yield Hit(m.ConflictKind.TABLE_DELETED_FROM, last, object_of(table))
        return
    for data_file_id in _holding_since(state, read.files, base):
        history = state.file_history.get(data_file_id)
        if history is not None and history.last_delete() > base:
            yield Hit(
                m.ConflictKind.TABLE_DELETED_FROM, history.last_delete(), object_of(table, data_file_id=data_file_id)
            )


def _holding_since(state: SequencerState, data_file_ids: Sequence[int], base: int) -> Sequence[int]:
    """Files, and those that compactions since the base have moved their rows to."""
    found = dict.fromkeys(data_file_ids)
    waiting = list(found)
    while waiting:
        history = state.file_history.get(waiting.pop())
        if history is None or history.compacted_at is None or history.compacted_at <= base:
            continue
        for moved_to in history.moved_to:
            if moved_to not in found:
                found[moved_to] = None
                waiting.append(moved_to)
    return list(found)


# --- NAME -------------------------------------------------------------------------------------------------------------


def _name_hits(state: SequencerState, read: m.NameRead, base: int) -> Iterator[Hit]:
    folded = fold(read.schema)
    for event in reversed(state.schema_names.get(folded, ())):
        if event.snapshot_id <= base:
            break
        if event.schema is not None:
            yield Hit(m.ConflictKind.SCHEMA_CREATED, event.snapshot_id, object_of(event.schema))
    schema = state.schema_at(folded, base)
    if schema is None:
        return
    if schema.dropped_at is not None and schema.dropped_at > base:
        yield Hit(m.ConflictKind.SCHEMA_DROPPED, schema.dropped_at, object_of(schema))
    if read.name is None:
        for name in sorted(schema.names):
            yield from _name_event_hits(state, schema, name, base)
        return
    for hit in _name_event_hits(state, schema, fold(read.name), base):
        is_freed = hit.kind is m.ConflictKind.TABLE_RENAMED and fold(str(hit.object.table)) != fold(read.name)
        yield hit._replace(deed=RENAMED_IT) if is_freed else hit


def _name_event_hits(state: SequencerState, schema: SchemaState, name: str, base: int) -> Iterator[Hit]:
    before = state.entry_at(schema, name, base)
    for event in state.name_events_after(schema, name, base):
        entry = event.entry if event.entry is not None else before
        if entry is not None and not (event.entry is None and event.kind is m.ChangeKind.DROP_SCHEMA):
            yield name_hit(entry, event)
        if isinstance(before, ViewState) and before.last.get(m.ChangeKind.REPLACE_VIEW, -1) > base:
            yield Hit(m.ConflictKind.VIEW_REPLACED, before.last[m.ChangeKind.REPLACE_VIEW], object_of(before))
        before = event.entry
    if isinstance(before, ViewState) and before.last.get(m.ChangeKind.REPLACE_VIEW, -1) > base:
        yield Hit(m.ConflictKind.VIEW_REPLACED, before.last[m.ChangeKind.REPLACE_VIEW], object_of(before))


# --- ROWS -------------------------------------------------------------------------------------------------------------


def _rows_hits(state: SequencerState, read: m.RowsRead, base: int) -> Iterator[Hit]:
    table = _read_table(state, read.schema, read.table, base)
    if not table.definition.keyed:
        raise InvalidChangeError(
            m.InvalidCode.PRIMARY_KEY_MISSING,
            f"a read names rows of table {quoted(table.name)}, which has no primary key",
        )
    changed = list(_definition_hits(table, base))
    yield from changed
    if changed:
        return
    keys = [named_key(table.definition, key) for key in read.keys]
    if base < state.index_floor:
        last = table.last_of(ROW_CHANGES)
        if last > base:
            yield Hit(m.ConflictKind.TABLE_ROWS_CHANGED, last, object_of(table))
        return
    assert table.rows is not None
    for key in keys:
        if (last := table.rows.last_change(key)) > base:
            is_there = key in table.rows.live or key in table.rows.held
            where = object_of(table, row_key=shown_key(key))
            yield Hit(m.ConflictKind.ROW_CHANGED, last, where, deed="" if is_there else gone_deed(table, last))
