"""Generated from schemas/proposal.avsc by `make records`: their JSON form."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from commitlog.domain.model.checks import check_id_version
from commitlog.domain.model.json_values import (
    Field,
    Reader,
    boolean,
    by_name,
    default_text,
    integer,
    json_text,
    listed,
    member,
    name_mapping,
    one_of,
    optional,
    positions,
    predicate,
    proposal_id,
    record,
    row,
    scalar,
    text,
    to_json,
    without,
)
from commitlog.domain.model.records.file_statistics import ColumnStatistics
from commitlog.domain.model.records.proposal import (
    Alteration,
    AlterOp,
    AlterTable,
    Append,
    Change,
    ChangeKind,
    ColumnSpec,
    Compact,
    Configure,
    CreateSchema,
    CreateTable,
    CreateView,
    DataFile,
    Delete,
    DeleteFile,
    DeleteRow,
    DisplacedRow,
    DropSchema,
    DropTable,
    DropView,
    ExpireSnapshots,
    Flush,
    ForeignKeySpec,
    InsertRow,
    Isolation,
    KnownNode,
    NameRead,
    PartitionSpec,
    PositionDelete,
    Proposal,
    Read,
    ReadKind,
    RenameTable,
    ReplaceView,
    Replicated,
    RowOrigin,
    RowsRead,
    TableRead,
    UpdateRow,
)

_READ: Reader[Read] = one_of(
    "a read",
    "kind",
    ReadKind,
    {
        ReadKind.TABLE: (
            TableRead,
            {
                "schema": Field(text),
                "table": Field(text),
                "filter": Field(listed(predicate), ()),
                "files": Field(optional(listed(integer)), None),
            },
        ),
        ReadKind.NAME: (NameRead, {"schema": Field(text), "name": Field(optional(text), None)}),
        ReadKind.ROWS: (RowsRead, {"schema": Field(text), "table": Field(text), "keys": Field(listed(row))}),
    },
)

_COLUMN_SPEC: Reader[ColumnSpec] = record(
    ColumnSpec,
    {
        "name": Field(text),
        "type": Field(text),
        "nullable": Field(boolean, True),
        "default": Field(optional(default_text), None),
    },
)

_FOREIGN_KEY_SPEC: Reader[ForeignKeySpec] = record(
    ForeignKeySpec,
    {
        "columns": Field(listed(text)),
        "ref_schema": Field(text),
        "ref_table": Field(text),
        "ref_columns": Field(listed(text)),
    },
)

_PARTITION_SPEC: Reader[PartitionSpec] = record(PartitionSpec, {"column": Field(text), "transform": Field(text)})

_ALTERATION_CASES: Mapping[AlterOp, tuple[Callable[..., Alteration], Mapping[str, Field]]] = {
    AlterOp.ADD_COLUMN: (partial(Alteration, AlterOp.ADD_COLUMN), {"column": Field(_COLUMN_SPEC)}),
    AlterOp.DROP_COLUMN: (partial(Alteration, AlterOp.DROP_COLUMN), {"name": Field(text)}),
    AlterOp.RENAME_COLUMN: (partial(Alteration, AlterOp.RENAME_COLUMN), {"name": Field(text), "new_name": Field(text)}),
    AlterOp.SET_TYPE: (partial(Alteration, AlterOp.SET_TYPE), {"name": Field(text), "type": Field(text)}),
    AlterOp.SET_NULLABLE: (
        partial(Alteration, AlterOp.SET_NULLABLE),
        {"name": Field(text), "nullable": Field(boolean, True)},
    ),
    AlterOp.SET_DEFAULT: (
        partial(Alteration, AlterOp.SET_DEFAULT),
        {"name": Field(text), "default": Field(optional(default_text), None)},
    ),
    AlterOp.SET_PARTITION_BY: (
        partial(Alteration, AlterOp.SET_PARTITION_BY),
        {"partition_by": Field(listed(_PARTITION_SPEC), ())},
    ),
    AlterOp.SET_COMMENT: (
        partial(Alteration, AlterOp.SET_COMMENT),
        {"name": Field(optional(text), None), "comment": Field(optional(text))},
    ),
    AlterOp.SET_PROPERTY: (
        partial(Alteration, AlterOp.SET_PROPERTY),
        {"key": Field(text), "value": Field(optional(text))},
    ),
}
_ALTERATION: Reader[Alteration] = one_of("an alteration", "op", AlterOp, _ALTERATION_CASES)

_COLUMN_STATISTICS: Reader[ColumnStatistics] = record(
    ColumnStatistics,
    {
        "column": Field(text),
        "min": Field(scalar, None),
        "max": Field(scalar, None),
        "null_count": Field(optional(integer), None),
        "value_count": Field(optional(integer), None),
        "contains_nan": Field(optional(boolean), None),
        "size_bytes": Field(optional(integer), None),
    },
)

_DATA_FILE_WITHOUT_ROW_IDS: Reader[DataFile] = record(
    DataFile,
    {
        "path": Field(text),
        "path_is_relative": Field(boolean, True),
        "record_count": Field(integer),
        "file_size_bytes": Field(integer),
        "footer_size": Field(optional(integer), None),
        "statistics": Field(listed(_COLUMN_STATISTICS), ()),
        "partition_values": Field(optional(listed(scalar)), None),
        "name_mapping": Field(optional(name_mapping), None),
    },
)

_POSITION_DELETE: Reader[PositionDelete] = record(
    PositionDelete, {"data_file_id": Field(integer), "rows": Field(positions)}
)

_DELETE_FILE: Reader[DeleteFile] = record(
    DeleteFile,
    {
        "data_file_id": Field(integer),
        "path": Field(text),
        "path_is_relative": Field(boolean, True),
        "rows": Field(positions),
        "file_size_bytes": Field(integer),
        "footer_size": Field(optional(integer), None),
    },
)

_ROW_ORIGIN: Reader[RowOrigin] = record(
    RowOrigin, {"node": Field(text), "tick": Field(integer), "stamp_ms": Field(integer), "priority": Field(integer)}
)

_DATA_FILE_WITH_ROW_IDS: Reader[DataFile] = record(
    DataFile,
    {
        "path": Field(text),
        "path_is_relative": Field(boolean, True),
        "record_count": Field(integer),
        "file_size_bytes": Field(integer),
        "footer_size": Field(optional(integer), None),
        "statistics": Field(listed(_COLUMN_STATISTICS), ()),
        "partition_values": Field(optional(listed(scalar)), None),
        "name_mapping": Field(optional(name_mapping), None),
        "row_ids": Field(listed(integer)),
    },
)

_CHANGE: Reader[Change] = one_of(
    "a change",
    "kind",
    ChangeKind,
    {
        ChangeKind.CREATE_SCHEMA: (CreateSchema, {"schema": Field(text), "if_not_exists": Field(boolean, False)}),
        ChangeKind.DROP_SCHEMA: (
            DropSchema,
            {"schema": Field(text), "cascade": Field(boolean, False), "if_exists": Field(boolean, False)},
        ),
        ChangeKind.CREATE_TABLE: (
            CreateTable,
            {
                "schema": Field(text),
                "table": Field(text),
                "columns": Field(listed(_COLUMN_SPEC)),
                "primary_key": Field(listed(text), ()),
                "unique": Field(listed(listed(text)), ()),
                "foreign_keys": Field(listed(_FOREIGN_KEY_SPEC), ()),
                "partition_by": Field(listed(_PARTITION_SPEC), ()),
                "exclusion_constraints": Field(listed(json_text), ()),
                "properties": Field(by_name(text), {}),
                "if_not_exists": Field(boolean, False),
            },
        ),
        ChangeKind.DROP_TABLE: (
            DropTable,
            {"schema": Field(text), "table": Field(text), "if_exists": Field(boolean, False)},
        ),
        ChangeKind.RENAME_TABLE: (RenameTable, {"schema": Field(text), "table": Field(text), "new_table": Field(text)}),
        ChangeKind.ALTER_TABLE: (
            AlterTable,
            {"schema": Field(text), "table": Field(text), "alterations": Field(listed(_ALTERATION))},
        ),
        ChangeKind.CREATE_VIEW: (
            CreateView,
            {
                "schema": Field(text),
                "view": Field(text),
                "sql": Field(text),
                "dialect": Field(text, "duckdb"),
                "if_not_exists": Field(boolean, False),
            },
        ),
        ChangeKind.REPLACE_VIEW: (
            ReplaceView,
            {"schema": Field(text), "view": Field(text), "sql": Field(text), "dialect": Field(text, "duckdb")},
        ),
        ChangeKind.DROP_VIEW: (
            DropView,
            {"schema": Field(text), "view": Field(text), "if_exists": Field(boolean, False)},
        ),
        ChangeKind.APPEND: (
            Append,
            {"schema": Field(text), "table": Field(text), "files": Field(listed(_DATA_FILE_WITHOUT_ROW_IDS))},
        ),
        ChangeKind.DELETE: (
            Delete,
            {
                "schema": Field(text),
                "table": Field(text),
                "positions": Field(listed(_POSITION_DELETE), ()),
                "delete_files": Field(listed(_DELETE_FILE), ()),
                "whole_files": Field(listed(integer), ()),
            },
        ),
        ChangeKind.COMPACT: (
            Compact,
            {
                "schema": Field(text),
                "table": Field(text),
                "replaced": Field(listed(integer)),
                "files": Field(listed(_DATA_FILE_WITHOUT_ROW_IDS)),
            },
        ),
        ChangeKind.INSERT_ROW: (
            InsertRow,
            {
                "schema": Field(text),
                "table": Field(text),
                "row": Field(row),
                "row_time_us": Field(optional(integer), None),
                "origin": Field(optional(_ROW_ORIGIN), None),
                "identity": Field(optional(text), None),
            },
        ),
        ChangeKind.UPDATE_ROW: (
            UpdateRow,
            {
                "schema": Field(text),
                "table": Field(text),
                "key": Field(row),
                "row": Field(row),
                "row_time_us": Field(optional(integer), None),
                "origin": Field(optional(_ROW_ORIGIN), None),
                "identity": Field(optional(text), None),
            },
        ),
        ChangeKind.DELETE_ROW: (
            DeleteRow,
            {
                "schema": Field(text),
                "table": Field(text),
                "key": Field(row),
                "row_time_us": Field(optional(integer), None),
                "origin": Field(optional(_ROW_ORIGIN), None),
                "moves": Field(boolean, False),
            },
        ),
        ChangeKind.FLUSH: (
            Flush,
            {"schema": Field(text), "table": Field(text), "files": Field(listed(_DATA_FILE_WITH_ROW_IDS))},
        ),
        ChangeKind.EXPIRE_SNAPSHOTS: (ExpireSnapshots, {"older_than_snapshot_id": Field(integer)}),
        ChangeKind.CONFIGURE: (Configure, {"settings": Field(by_name(scalar))}),
    },
)

_KNOWN_NODE: Reader[KnownNode] = record(
    KnownNode, {"node": Field(text), "tick": Field(integer), "priority": Field(integer)}
)

_DISPLACED_ROW: Reader[DisplacedRow] = record(DisplacedRow, {"table_id": Field(integer), "row": Field(row)})

_REPLICATED: Reader[Replicated] = record(
    Replicated,
    {
        "node": Field(text),
        "tick": Field(integer),
        "digest": Field(listed(_KNOWN_NODE)),
        "displaced": Field(listed(_DISPLACED_ROW), ()),
    },
)

_PROPOSAL: Reader[Proposal] = record(
    Proposal,
    {
        "proposal_id": Field(proposal_id),
        "writer_id": Field(text),
        "writer_epoch": Field(optional(integer), None),
        "writer_seq": Field(optional(integer), None),
        "base_snapshot_id": Field(integer),
        "isolation": Field(member(Isolation), Isolation.SNAPSHOT),
        "open_writer": Field(boolean, False),
        "decide_before_ms": Field(optional(integer), None),
        "created_at_ms": Field(integer, 0),
        "author": Field(optional(text), None),
        "message": Field(optional(text), None),
        "extra": Field(optional(text), None),
        "reads": Field(listed(_READ), ()),
        "changes": Field(listed(_CHANGE)),
        "replicated": Field(optional(_REPLICATED), None),
    },
)


def alteration_to_json(it: Alteration) -> dict[str, Any]:
    """The JSON form of an Alteration: the fields that go with its op."""
    _, fields = _ALTERATION_CASES[it.op]
    return {"op": str(it.op), **{name: to_json(getattr(it, name)) for name in fields}}


def alter_table_to_json(it: AlterTable) -> dict[str, Any]:
    """The JSON form of an AlterTable."""
    return {
        "kind": "ALTER_TABLE",
        "schema": it.schema,
        "table": it.table,
        "alterations": [alteration_to_json(each) for each in it.alterations],
    }


def append_to_json(it: Append) -> dict[str, Any]:
    """The JSON form of an Append."""
    return {
        "kind": "APPEND",
        "schema": it.schema,
        "table": it.table,
        "files": [without(to_json(each), "row_ids") for each in it.files],
    }


def compact_to_json(it: Compact) -> dict[str, Any]:
    """The JSON form of a Compact."""
    return {
        "kind": "COMPACT",
        "schema": it.schema,
        "table": it.table,
        "replaced": to_json(it.replaced),
        "files": [without(to_json(each), "row_ids") for each in it.files],
    }


_CHANGE_TO_JSON: Mapping[type, Callable[[Any], dict[str, Any]]] = {
    AlterTable: alter_table_to_json,
    Append: append_to_json,
    Compact: compact_to_json,
}


def change_to_json(it: Change) -> Any:
    """The JSON form of a Change."""
    own = _CHANGE_TO_JSON.get(type(it))
    return to_json(it) if own is None else own(it)


def proposal_to_json(it: Proposal) -> dict[str, Any]:
    """The JSON form of a Proposal."""
    return {
        "proposal_id": to_json(it.proposal_id),
        "writer_id": it.writer_id,
        "writer_epoch": it.writer_epoch,
        "writer_seq": it.writer_seq,
        "base_snapshot_id": it.base_snapshot_id,
        "isolation": to_json(it.isolation),
        "open_writer": it.open_writer,
        "decide_before_ms": it.decide_before_ms,
        "created_at_ms": it.created_at_ms,
        "author": it.author,
        "message": it.message,
        "extra": it.extra,
        "reads": to_json(it.reads),
        "changes": [change_to_json(each) for each in it.changes],
        "replicated": to_json(it.replicated),
    }


def proposal_from_json(value: Any) -> Proposal:
    """Reads a proposal from what ``json.loads`` gave; MalformedRecordError names the field."""
    return check_id_version(_PROPOSAL(value, "proposal"))
