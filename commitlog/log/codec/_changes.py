"""Changes and reads between the model and Avro: one small function each way per kind, in tables by kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields as fields_of
from typing import Any

from commitlog.domain import model as m
from commitlog.errors import MalformedRecordError
from commitlog.log.codec._files import (
    delete_file_from_avro,
    delete_file_to_avro,
    file_from_avro,
    file_to_avro,
    position_delete_from_avro,
    position_delete_to_avro,
)
from commitlog.log.codec._values import (
    optional,
    row_from_avro,
    row_to_avro,
    scalar_from_avro,
    scalar_to_avro,
    scalars_from_avro,
    scalars_to_avro,
)

Fields = dict[str, Any]

# --- parts ------------------------------------------------------------------------------------------------------------


def _column_to_avro(column: m.ColumnSpec) -> Fields:
    return {
        "name": column.name,
        "type": column.type,
        "nullable": column.nullable,
        "default": optional("string", column.default),
    }


def _foreign_key_to_avro(key: m.ForeignKeySpec) -> Fields:
    return {
        "columns": list(key.columns),
        "ref_schema": key.ref_schema,
        "ref_table": key.ref_table,
        "ref_columns": list(key.ref_columns),
    }


def _foreign_key_from_avro(fields: Fields) -> m.ForeignKeySpec:
    return m.ForeignKeySpec(
        tuple(fields["columns"]), fields["ref_schema"], fields["ref_table"], tuple(fields["ref_columns"])
    )


def _partitions_to_avro(partition_by: tuple[m.PartitionSpec, ...]) -> list[Fields]:
    return [{"column": each.column, "transform": each.transform} for each in partition_by]


def _partitions_from_avro(items: list[Fields]) -> tuple[m.PartitionSpec, ...]:
    return tuple([m.PartitionSpec(item["column"], item["transform"]) for item in items])


def _origin_to_avro(origin: m.RowOrigin | None) -> Any:
    if origin is None:
        return None
    return "commitlog.RowOrigin", {
        "node": origin.node,
        "tick": origin.tick,
        "stamp_ms": origin.stamp_ms,
        "priority": origin.priority,
    }


def _row_tail(change: m.InsertRow | m.UpdateRow | m.DeleteRow) -> Fields:
    return {"row_time_us": optional("long", change.row_time_us), "origin": _origin_to_avro(change.origin)}


def _row_change_from_avro(make: Callable[..., m.Change]) -> Callable[[Fields], m.Change]:
    def from_avro(fields: Fields) -> m.Change:
        for name in ("key", "row"):
            if name in fields:
                fields[name] = row_from_avro(fields[name])
        origin = fields["origin"]
        fields["origin"] = None if origin is None else m.RowOrigin(**origin[1])
        return make(**fields)

    return from_avro


# --- alterations ------------------------------------------------------------------------------------------------------

_ALTER_OPS = {str(op): op for op in m.AlterOp}
# By op: what must be set, and what may be; anything else set is a mistake of the writer that JSON would not take either.
_ALTERATION_FIELDS: Mapping[m.AlterOp, tuple[frozenset[str], frozenset[str]]] = {
    op: (frozenset(required.split()), frozenset((required + " " + allowed).split()))
    for op, required, allowed in (
        (m.AlterOp.ADD_COLUMN, "column", ""),
        (m.AlterOp.DROP_COLUMN, "name", ""),
        (m.AlterOp.RENAME_COLUMN, "name new_name", ""),
        (m.AlterOp.SET_TYPE, "name type", ""),
        (m.AlterOp.SET_NULLABLE, "name nullable", ""),
        (m.AlterOp.SET_DEFAULT, "name", "default"),
        (m.AlterOp.SET_PARTITION_BY, "", "partition_by"),
        (m.AlterOp.SET_COMMENT, "", "name comment"),
        (m.AlterOp.SET_PROPERTY, "key", "value"),
    )
}


def _alteration_to_avro(step: m.Alteration) -> Fields:
    column = step.column
    return {
        "op": str(step.op),
        "column": None if column is None else ("commitlog.ColumnSpec", _column_to_avro(column)),
        "name": optional("string", step.name),
        "new_name": optional("string", step.new_name),
        "type": optional("string", step.type),
        "nullable": optional("boolean", step.nullable),
        "default": optional("string", step.default),
        "partition_by": _partitions_to_avro(step.partition_by),
        "comment": optional("string", step.comment),
        "key": optional("string", step.key),
        "value": optional("string", step.value),
    }


def _alteration_from_avro(fields: Fields) -> m.Alteration:
    op = fields["op"] = _ALTER_OPS[fields["op"]]
    given = {name for name, value in fields.items() if name != "op" and value is not None and value != []}
    required, allowed = _ALTERATION_FIELDS[op]
    if missing := required - given:
        raise MalformedRecordError(f"{op}: the field {min(missing)!r} is missing")
    if unknown := given - allowed:
        raise MalformedRecordError(f"{op} takes no {min(unknown)!r}")
    if fields["column"] is not None:
        fields["column"] = m.ColumnSpec(**fields["column"][1])
    fields["partition_by"] = _partitions_from_avro(fields["partition_by"])
    return m.Alteration(**fields)


# --- changes to Avro --------------------------------------------------------------------------------------------------


def _plain_to_avro(change: m.Change) -> Fields:
    """Changes whose fields all are texts, numbers and flags."""
    return {each.name: getattr(change, each.name) for each in fields_of(change)}


def _create_table_to_avro(change: m.CreateTable) -> Fields:
    return {
        "schema": change.schema,
        "table": change.table,
        "columns": [_column_to_avro(column) for column in change.columns],
        "primary_key": list(change.primary_key),
        "unique": [list(columns) for columns in change.unique],
        "foreign_keys": [_foreign_key_to_avro(key) for key in change.foreign_keys],
        "partition_by": _partitions_to_avro(change.partition_by),
        "exclusion_constraints": list(change.exclusion_constraints),
        "properties": dict(change.properties),
        "if_not_exists": change.if_not_exists,
    }


def _alter_table_to_avro(change: m.AlterTable) -> Fields:
    steps = [_alteration_to_avro(step) for step in change.alterations]
    return {"schema": change.schema, "table": change.table, "alterations": steps}


def _files_to_avro(change: m.Append | m.Flush) -> Fields:
    return {"schema": change.schema, "table": change.table, "files": [file_to_avro(file) for file in change.files]}


def _compact_to_avro(change: m.Compact) -> Fields:
    files = [file_to_avro(file) for file in change.files]
    return {"schema": change.schema, "table": change.table, "replaced": list(change.replaced), "files": files}


def _delete_to_avro(change: m.Delete) -> Fields:
    return {
        "schema": change.schema,
        "table": change.table,
        "positions": [position_delete_to_avro(delete) for delete in change.positions],
        "delete_files": [delete_file_to_avro(file) for file in change.delete_files],
        "whole_files": list(change.whole_files),
    }


def _insert_to_avro(change: m.InsertRow) -> Fields:
    return {"schema": change.schema, "table": change.table, "row": row_to_avro(change.row), **_row_tail(change)}


def _update_to_avro(change: m.UpdateRow) -> Fields:
    images = {"key": row_to_avro(change.key), "row": row_to_avro(change.row)}
    return {"schema": change.schema, "table": change.table, **images, **_row_tail(change)}


def _delete_row_to_avro(change: m.DeleteRow) -> Fields:
    return {"schema": change.schema, "table": change.table, "key": row_to_avro(change.key), **_row_tail(change)}


def _configure_to_avro(change: m.Configure) -> Fields:
    return {"settings": {name: scalar_to_avro(value) for name, value in change.settings.items()}}


# --- changes from Avro ------------------------------------------------------------------------------------------------


def _create_table_from_avro(fields: Fields) -> m.CreateTable:
    return m.CreateTable(
        schema=fields["schema"],
        table=fields["table"],
        columns=tuple([m.ColumnSpec(**column) for column in fields["columns"]]),
        primary_key=tuple(fields["primary_key"]),
        unique=tuple([tuple(columns) for columns in fields["unique"]]),
        foreign_keys=tuple([_foreign_key_from_avro(key) for key in fields["foreign_keys"]]),
        partition_by=_partitions_from_avro(fields["partition_by"]),
        exclusion_constraints=tuple(fields["exclusion_constraints"]),
        properties=fields["properties"],
        if_not_exists=fields["if_not_exists"],
    )


def _alter_table_from_avro(fields: Fields) -> m.AlterTable:
    steps = tuple([_alteration_from_avro(step) for step in fields["alterations"]])
    return m.AlterTable(fields["schema"], fields["table"], steps)


def _unflushed(files: list[Fields], kind: m.ChangeKind) -> tuple[m.DataFile, ...]:
    for file in files:
        if file["row_ids"] is not None:
            raise MalformedRecordError(f"{kind}: only a file of FLUSH has 'row_ids'")
    return tuple([file_from_avro(file) for file in files])


def _append_from_avro(fields: Fields) -> m.Append:
    return m.Append(fields["schema"], fields["table"], _unflushed(fields["files"], m.ChangeKind.APPEND))


def _compact_from_avro(fields: Fields) -> m.Compact:
    files = _unflushed(fields["files"], m.ChangeKind.COMPACT)
    return m.Compact(fields["schema"], fields["table"], tuple(fields["replaced"]), files)


def _flush_from_avro(fields: Fields) -> m.Flush:
    for file in fields["files"]:
        if file["row_ids"] is None:
            raise MalformedRecordError("FLUSH: a file's field 'row_ids' is missing")
    return m.Flush(fields["schema"], fields["table"], tuple([file_from_avro(file) for file in fields["files"]]))


def _delete_from_avro(fields: Fields) -> m.Delete:
    return m.Delete(
        fields["schema"],
        fields["table"],
        tuple([position_delete_from_avro(delete) for delete in fields["positions"]]),
        tuple([delete_file_from_avro(file) for file in fields["delete_files"]]),
        tuple(fields["whole_files"]),
    )


def _configure_from_avro(fields: Fields) -> m.Configure:
    return m.Configure({name: scalar_from_avro(value) for name, value in fields["settings"].items()})


_CHANGES: Mapping[type, tuple[Callable[[Any], Fields], Callable[[Fields], m.Change]]] = {
    m.CreateSchema: (_plain_to_avro, lambda fields: m.CreateSchema(**fields)),
    m.DropSchema: (_plain_to_avro, lambda fields: m.DropSchema(**fields)),
    m.CreateTable: (_create_table_to_avro, _create_table_from_avro),
    m.DropTable: (_plain_to_avro, lambda fields: m.DropTable(**fields)),
    m.RenameTable: (_plain_to_avro, lambda fields: m.RenameTable(**fields)),
    m.AlterTable: (_alter_table_to_avro, _alter_table_from_avro),
    m.CreateView: (_plain_to_avro, lambda fields: m.CreateView(**fields)),
    m.ReplaceView: (_plain_to_avro, lambda fields: m.ReplaceView(**fields)),
    m.DropView: (_plain_to_avro, lambda fields: m.DropView(**fields)),
    m.Append: (_files_to_avro, _append_from_avro),
    m.Delete: (_delete_to_avro, _delete_from_avro),
    m.Compact: (_compact_to_avro, _compact_from_avro),
    m.InsertRow: (_insert_to_avro, _row_change_from_avro(m.InsertRow)),
    m.UpdateRow: (_update_to_avro, _row_change_from_avro(m.UpdateRow)),
    m.DeleteRow: (_delete_row_to_avro, _row_change_from_avro(m.DeleteRow)),
    m.Flush: (_files_to_avro, _flush_from_avro),
    m.ExpireSnapshots: (_plain_to_avro, lambda fields: m.ExpireSnapshots(**fields)),
    m.Configure: (_configure_to_avro, _configure_from_avro),
}
_TO_AVRO = {kind: (f"commitlog.{kind.__name__}", to_avro) for kind, (to_avro, _) in _CHANGES.items()}
_FROM_AVRO = {f"commitlog.{kind.__name__}": from_avro for kind, (_, from_avro) in _CHANGES.items()}


def change_to_avro(change: m.Change) -> tuple[str, Fields]:
    """The branch of the union of changes, and its fields."""
    name, to_avro = _TO_AVRO[type(change)]
    return name, to_avro(change)


def change_from_avro(branch: tuple[str, Fields]) -> m.Change:
    """A change from the branch of the union and its fields."""
    name, fields = branch
    return _FROM_AVRO[name](fields)


# --- reads ------------------------------------------------------------------------------------------------------------

_FILTER_OPS = {op.name: op for op in m.FilterOp}
_LISTS = frozenset({m.FilterOp.IN, m.FilterOp.BETWEEN})
_CHECKS = frozenset({m.FilterOp.IS_NULL, m.FilterOp.IS_NOT_NULL})


def _predicate_to_avro(predicate: m.Predicate) -> Fields:
    value = predicate.value
    literal = ("array", scalars_to_avro(value)) if isinstance(value, tuple) else scalar_to_avro(value)
    return {"column": predicate.column, "op": predicate.op.name, "value": literal}


def _predicate_from_avro(fields: Fields) -> m.Predicate:
    op, value = _FILTER_OPS[fields["op"]], fields["value"]
    if isinstance(value, list) != (op in _LISTS):
        raise MalformedRecordError(f"the filter's {op.value} takes {'a list' if op in _LISTS else 'no list'}")
    if op is m.FilterOp.BETWEEN and len(value) != 2:
        raise MalformedRecordError("the filter's between takes [low, high]")
    if op in _CHECKS and value is not None:
        raise MalformedRecordError(f"the filter's {op.value} takes no value")
    literal = scalars_from_avro(value) if isinstance(value, list) else scalar_from_avro(value)
    return m.Predicate(fields["column"], op, literal)


def read_to_avro(read: m.Read) -> tuple[str, Fields]:
    """The branch of the union of reads, and its fields."""
    if isinstance(read, m.TableRead):
        files = None if read.files is None else ("array", list(read.files))
        predicates = [_predicate_to_avro(predicate) for predicate in read.filter]
        fields: Fields = {"schema": read.schema, "table": read.table, "filter": predicates, "files": files}
        return "commitlog.TableRead", fields
    if isinstance(read, m.NameRead):
        return "commitlog.NameRead", {"schema": read.schema, "name": optional("string", read.name)}
    keys = [row_to_avro(key) for key in read.keys]
    return "commitlog.RowsRead", {"schema": read.schema, "table": read.table, "keys": keys}


def read_from_avro(branch: tuple[str, Fields]) -> m.Read:
    """A read from the branch of the union and its fields."""
    name, fields = branch
    if name == "commitlog.TableRead":
        predicates = tuple([_predicate_from_avro(predicate) for predicate in fields["filter"]])
        files = None if fields["files"] is None else tuple(fields["files"])
        return m.TableRead(fields["schema"], fields["table"], predicates, files)
    if name == "commitlog.NameRead":
        return m.NameRead(fields["schema"], fields["name"])
    return m.RowsRead(fields["schema"], fields["table"], tuple([row_from_avro(key) for key in fields["keys"]]))
