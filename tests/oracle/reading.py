"""What was read and has changed: the oracle's view of SERIALIZABLE (rules.md 4, 12.13-14)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from commitlog.domain import model as m
from commitlog.domain.model.types import fold
from commitlog.domain.state.row_keys import given_key

from .proving import no_row_matches
from .sight import CannotBeError

if TYPE_CHECKING:
    from .oracle import Oracle

Report = Callable[..., None]


def read_conflicts(oracle: Oracle, read: m.Read, index: int, base: int, found: Report) -> None:
    """Report everything committed since the base that changes what was read."""
    world = oracle.worlds[base]
    since = oracle.since(base)
    if isinstance(read, m.NameRead):
        _names(oracle, read, index, base, found)
        return
    schema_id = world.schema(read.schema)
    table = world.entry(schema_id, read.table)
    if table is None or table.definition is None:
        raise CannotBeError("no such table")
    if isinstance(read, m.RowsRead) and not table.definition.primary_key:
        raise CannotBeError("no key")
    redefined = False
    for at, event in since:
        if event.id != table.id:
            continue
        kind = {"DROP": "TABLE_DROPPED", "RENAME": "TABLE_RENAMED"}.get(event.kind)
        if event.kind == "ALTER" and not event.benign:
            kind = "TABLE_ALTERED"
        if kind:
            redefined = True
            found(kind, at, read=index, id=table.id)
    if isinstance(read, m.RowsRead):
        if not redefined:
            _rows(oracle, read, index, base, table, found)
        return
    if not redefined:
        for predicate in read.filter:
            table.definition.column(predicate.column)
    _files_known(oracle, read, table, base)
    wide = oracle.beyond_window(base)
    holding = set(read.files or ())
    for at, event in since:
        if event.id != table.id:
            continue
        if event.kind == "ROW":
            found("TABLE_ROWS_CHANGED", at, read=index, id=table.id)
        if event.kind == "APPEND":
            now = oracle.worlds[oracle.head].entries.get(table.id)
            known = not wide and not redefined and now is not None and now.definition is not None
            proof = known and no_row_matches(now.definition, event.file, read.filter)
            if not proof:
                found("TABLE_APPENDED", at, read=index, id=table.id)
        if event.kind == "COMPACT" and event.file_id in holding:
            holding |= set(event.moved_to)
        if event.kind == "DELETE":
            if read.files is None or wide:
                found("TABLE_DELETED_FROM", at, read=index, id=table.id)
            elif event.file_id in holding:
                found("TABLE_DELETED_FROM", at, read=index, id=table.id, file_id=event.file_id)


def _files_known(oracle: Oracle, read: m.TableRead, table: Any, base: int) -> None:
    dropped = table.id not in oracle.worlds[-1].entries
    for file_id in read.files or ():
        seen = [s for s in range(base, oracle.head + 1) if _held(oracle, s, table.id, file_id)]
        if seen:
            continue
        raced = any(e.kind in ("DELETE", "COMPACT") and e.id == table.id for _, e in oracle.since(base))
        if oracle.beyond_window(base) and raced and _assigned(oracle, file_id):
            continue
        if dropped and _assigned(oracle, file_id):
            continue
        raise CannotBeError("never live")


def _held(oracle: Oracle, snapshot_id: int, table_id: int, file_id: int) -> bool:
    table = oracle.worlds[snapshot_id].entries.get(table_id)
    return table is not None and file_id in table.files


def _assigned(oracle: Oracle, file_id: int) -> bool:
    return 0 <= file_id < oracle.next_file_id


def _rows(oracle: Oracle, read: m.RowsRead, index: int, base: int, table: Any, found: Report) -> None:
    keys = [given_key(table.definition, key) for key in read.keys]
    for at, event in oracle.since(base):
        if event.id == table.id and event.kind == "ROW":
            if oracle.beyond_window(base):
                found("TABLE_ROWS_CHANGED", at, read=index, id=table.id)
            elif event.key in keys:
                found("ROW_CHANGED", at, read=index, id=table.id, key=event.key)


def _names(oracle: Oracle, read: m.NameRead, index: int, base: int, found: Report) -> None:
    world = oracle.worlds[base]
    schema_id = world.schema(read.schema)
    views = {e.id for w in oracle.worlds for e in w.entries.values() if e.definition is None}
    for at, event in oracle.since(base):
        if event.kind == "CREATE_SCHEMA" and event.name == fold(read.schema):
            found("SCHEMA_CREATED", at, read=index, id=event.name)
        if event.kind == "DROP_SCHEMA" and event.schema_id == schema_id:
            found("SCHEMA_DROPPED", at, read=index, id=event.name)
        if event.schema_id != schema_id or schema_id is None:
            continue
        if read.name is not None and event.name != fold(read.name):
            continue
        what = "VIEW" if event.id in views else "TABLE"
        kind = {
            "CREATE_TABLE": "TABLE_CREATED", "CREATE_VIEW": "VIEW_CREATED", "REPLACE_VIEW": "VIEW_REPLACED",
            "RENAME": "TABLE_RENAMED", "RENAME_AWAY": "TABLE_RENAMED", "DROP": f"{what}_DROPPED",
        }.get(event.kind)  # fmt: skip
        dropped_with_schema = event.kind == "DROP" and any(
            e.kind == "DROP_SCHEMA" and e.schema_id == schema_id for e in oracle.events[at]
        )
        if kind and not dropped_with_schema:
            found(kind, at, read=index, id=event.id)
