"""What a proposal may hold: the changes, the files and columns that they bring, and the reads.

Every type is frozen. Field names are those of the Avro records in ``schemas/`` and of the JSON form (``json_form``), so
that a record can be followed from a writer's file to the catalog under one name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

from pyroaring import FrozenBitMap64

from commitlog.domain.model.kinds import AlterOp, ChangeKind, FilterOp, ReadKind, Row, Scalar

# --- tables -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ColumnSpec:
    """A column as a writer asks for it. ``type`` is a DuckLake type name; ``default`` the text of a literal, or None."""

    name: str
    type: str
    nullable: bool = True
    default: str | None = None


@dataclass(frozen=True, slots=True)
class ForeignKeySpec:
    """``columns`` of the table refer to ``ref_columns`` (a primary key or unique constraint) of another one."""

    columns: tuple[str, ...]
    ref_schema: str
    ref_table: str
    ref_columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PartitionSpec:
    """One partition key: a column and a transform (identity, year, month, day, hour, bucket(N))."""

    column: str
    transform: str = "identity"


@dataclass(frozen=True, slots=True)
class Alteration:
    """One step of an ALTER_TABLE; which of the other fields are set depends on ``op``."""

    op: AlterOp
    column: ColumnSpec | None = None
    name: str | None = None
    new_name: str | None = None
    type: str | None = None
    nullable: bool | None = None
    default: str | None = None
    partition_by: tuple[PartitionSpec, ...] = ()
    comment: str | None = None
    key: str | None = None
    value: str | None = None


# --- files ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """What a file's writer knows of one column; None is unknown. ``value_count`` does not count NULLs."""

    column: str
    min: Scalar = None
    max: Scalar = None
    null_count: int | None = None
    value_count: int | None = None
    contains_nan: bool | None = None
    size_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class MappedColumn:
    """For a file without field ids: the name in the file of the table's column ``column``."""

    source_name: str
    column: str
    children: tuple[MappedColumn, ...] = ()


Statistics: TypeAlias = "bytes | tuple[ColumnStatistics, ...]"
"""Opaque bytes as the writer made them (``file_statistics.avsc``), or the expanded form."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """A Parquet file with rows of one table.

    ``partition_values`` are in the order of the table's partition keys, after the transform, None if unknown.
    ``row_ids`` is set in FLUSH only: the row ids of the file's rows, in the order of the file.
    """

    path: str
    record_count: int
    file_size_bytes: int
    path_is_relative: bool = True
    footer_size: int | None = None
    statistics: Statistics = ()
    partition_values: tuple[Scalar, ...] | None = None
    name_mapping: tuple[MappedColumn, ...] | None = None
    row_ids: tuple[int, ...] | None = None


RowPositions: TypeAlias = "FrozenBitMap64 | tuple[int, ...]"
"""Row positions in a file. A tuple is what was written but is no set of positions (negative or given twice)."""


@dataclass(frozen=True, slots=True)
class PositionDelete:
    """Rows of one data file to delete, without a delete file."""

    data_file_id: int
    rows: RowPositions


@dataclass(frozen=True, slots=True)
class DeleteFile:
    """A Parquet delete file for one data file, with the positions it holds."""

    data_file_id: int
    path: str
    rows: RowPositions
    file_size_bytes: int
    path_is_relative: bool = True
    footer_size: int | None = None


# --- changes ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CreateSchema:
    kind: ClassVar[ChangeKind] = ChangeKind.CREATE_SCHEMA
    schema: str
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropSchema:
    kind: ClassVar[ChangeKind] = ChangeKind.DROP_SCHEMA
    schema: str
    cascade: bool = False
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class CreateTable:
    kind: ClassVar[ChangeKind] = ChangeKind.CREATE_TABLE
    schema: str
    table: str
    columns: tuple[ColumnSpec, ...]
    primary_key: tuple[str, ...] = ()
    unique: tuple[tuple[str, ...], ...] = ()
    foreign_keys: tuple[ForeignKeySpec, ...] = ()
    partition_by: tuple[PartitionSpec, ...] = ()
    exclusion_constraints: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropTable:
    kind: ClassVar[ChangeKind] = ChangeKind.DROP_TABLE
    schema: str
    table: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class RenameTable:
    kind: ClassVar[ChangeKind] = ChangeKind.RENAME_TABLE
    schema: str
    table: str
    new_table: str


@dataclass(frozen=True, slots=True)
class AlterTable:
    kind: ClassVar[ChangeKind] = ChangeKind.ALTER_TABLE
    schema: str
    table: str
    alterations: tuple[Alteration, ...]


@dataclass(frozen=True, slots=True)
class CreateView:
    kind: ClassVar[ChangeKind] = ChangeKind.CREATE_VIEW
    schema: str
    view: str
    sql: str
    dialect: str = "duckdb"
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class ReplaceView:
    kind: ClassVar[ChangeKind] = ChangeKind.REPLACE_VIEW
    schema: str
    view: str
    sql: str
    dialect: str = "duckdb"


@dataclass(frozen=True, slots=True)
class DropView:
    kind: ClassVar[ChangeKind] = ChangeKind.DROP_VIEW
    schema: str
    view: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class Append:
    kind: ClassVar[ChangeKind] = ChangeKind.APPEND
    schema: str
    table: str
    files: tuple[DataFile, ...]


@dataclass(frozen=True, slots=True)
class Delete:
    kind: ClassVar[ChangeKind] = ChangeKind.DELETE
    schema: str
    table: str
    positions: tuple[PositionDelete, ...] = ()
    delete_files: tuple[DeleteFile, ...] = ()
    whole_files: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Compact:
    kind: ClassVar[ChangeKind] = ChangeKind.COMPACT
    schema: str
    table: str
    replaced: tuple[int, ...]
    files: tuple[DataFile, ...]


@dataclass(frozen=True, slots=True)
class RowOrigin:
    """Where a replicated row version was made: node, its tick there, commit time in ms, the node's priority."""

    node: str
    tick: int
    stamp_ms: int
    priority: int


@dataclass(frozen=True, slots=True)
class InsertRow:
    kind: ClassVar[ChangeKind] = ChangeKind.INSERT_ROW
    schema: str
    table: str
    row: Row
    row_time_us: int | None = None
    origin: RowOrigin | None = None


@dataclass(frozen=True, slots=True)
class UpdateRow:
    kind: ClassVar[ChangeKind] = ChangeKind.UPDATE_ROW
    schema: str
    table: str
    key: Row
    row: Row
    row_time_us: int | None = None
    origin: RowOrigin | None = None


@dataclass(frozen=True, slots=True)
class DeleteRow:
    kind: ClassVar[ChangeKind] = ChangeKind.DELETE_ROW
    schema: str
    table: str
    key: Row
    row_time_us: int | None = None
    origin: RowOrigin | None = None


@dataclass(frozen=True, slots=True)
class Flush:
    kind: ClassVar[ChangeKind] = ChangeKind.FLUSH
    schema: str
    table: str
    files: tuple[DataFile, ...]


@dataclass(frozen=True, slots=True)
class ExpireSnapshots:
    kind: ClassVar[ChangeKind] = ChangeKind.EXPIRE_SNAPSHOTS
    older_than_snapshot_id: int


@dataclass(frozen=True, slots=True)
class Configure:
    kind: ClassVar[ChangeKind] = ChangeKind.CONFIGURE
    settings: Mapping[str, Scalar]


Change: TypeAlias = (
    CreateSchema | DropSchema | CreateTable | DropTable | RenameTable | AlterTable
    | CreateView | ReplaceView | DropView | Append | Delete | Compact
    | InsertRow | UpdateRow | DeleteRow | Flush | ExpireSnapshots | Configure
)  # fmt: skip


# --- reads ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Predicate:
    """``column op value``. ``value`` is a tuple for ``in``, a pair for ``between``, None for the null checks."""

    column: str
    op: FilterOp
    value: Scalar | tuple[Scalar, ...] = None


@dataclass(frozen=True, slots=True)
class TableRead:
    """Rows of a table that match a conjunction; ``files`` are the data files the reader opened, None if not told."""

    kind: ClassVar[ReadKind] = ReadKind.TABLE
    schema: str
    table: str
    filter: tuple[Predicate, ...] = ()
    files: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class NameRead:
    """What a name means, or with ``name`` None what a schema holds."""

    kind: ClassVar[ReadKind] = ReadKind.NAME
    schema: str
    name: str | None = None


@dataclass(frozen=True, slots=True)
class RowsRead:
    """Rows of a keyed table, by key."""

    kind: ClassVar[ReadKind] = ReadKind.ROWS
    schema: str
    table: str
    keys: tuple[Row, ...]


Read: TypeAlias = TableRead | NameRead | RowsRead
