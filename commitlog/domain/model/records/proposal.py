"""Generated from schemas/proposal.avsc by `make records`: the values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final, TypeAlias

from mypy_extensions import mypyc_attr

from commitlog.domain.model.record import Record, Symbol
from commitlog.domain.model.statistics import Statistics
from commitlog.domain.model.values import ProposalId, Row, RowPositions, Scalar

_NO_NAMES: Final[Mapping[str, str]] = {}


class Isolation(Symbol):
    """SNAPSHOT checks only writes; SERIALIZABLE also that everything read is unchanged since the base."""

    SNAPSHOT = "SNAPSHOT"
    SERIALIZABLE = "SERIALIZABLE"


class FilterOp(Symbol):
    """Comparison of a column with a literal in a read's filter."""

    EQ = "="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="
    IN = "in"
    BETWEEN = "between"
    IS_NULL = "is_null"
    IS_NOT_NULL = "is_not_null"


class AlterOp(Symbol):
    """One step of an ALTER_TABLE."""

    ADD_COLUMN = "ADD_COLUMN"
    DROP_COLUMN = "DROP_COLUMN"
    RENAME_COLUMN = "RENAME_COLUMN"
    SET_TYPE = "SET_TYPE"
    SET_NULLABLE = "SET_NULLABLE"
    SET_DEFAULT = "SET_DEFAULT"
    SET_PARTITION_BY = "SET_PARTITION_BY"
    SET_COMMENT = "SET_COMMENT"
    SET_PROPERTY = "SET_PROPERTY"


class ReadKind(Symbol):
    """Which read it is. The names are those of the log and of JSON and are never used again."""

    TABLE = "TABLE"
    NAME = "NAME"
    ROWS = "ROWS"


class ChangeKind(Symbol):
    """Which change it is. The names are those of the log and of JSON and are never used again."""

    CREATE_SCHEMA = "CREATE_SCHEMA"
    DROP_SCHEMA = "DROP_SCHEMA"
    CREATE_TABLE = "CREATE_TABLE"
    DROP_TABLE = "DROP_TABLE"
    RENAME_TABLE = "RENAME_TABLE"
    ALTER_TABLE = "ALTER_TABLE"
    CREATE_VIEW = "CREATE_VIEW"
    REPLACE_VIEW = "REPLACE_VIEW"
    DROP_VIEW = "DROP_VIEW"
    APPEND = "APPEND"
    DELETE = "DELETE"
    COMPACT = "COMPACT"
    INSERT_ROW = "INSERT_ROW"
    UPDATE_ROW = "UPDATE_ROW"
    DELETE_ROW = "DELETE_ROW"
    FLUSH = "FLUSH"
    EXPIRE_SNAPSHOTS = "EXPIRE_SNAPSHOTS"
    CONFIGURE = "CONFIGURE"


@mypyc_attr(acyclic=True)
class Predicate(Record):
    """``column op value``.

    column: Name of the column.
    op: The comparison.
    value: A list for IN, [low, high] for BETWEEN, null for the null checks.
    """

    __slots__ = ("column", "op", "value")

    FIELDS: ClassVar[tuple[str, ...]] = ("column", "op", "value")

    def __init__(self, column: str, op: FilterOp, value: Scalar | tuple[Scalar, ...] = None) -> None:
        self.column: Final = column
        self.op: Final = op
        self.value: Final = value


@mypyc_attr(acyclic=True)
class TableRead(Record):
    """Rows of a table that match a conjunction.

    schema: Name of the schema.
    table: Name of the table.
    filter: All of them hold of the rows read; empty: every row.
    files: Ids of the data files that the reader opened; null: not told.
    """

    __slots__ = ("files", "filter", "schema", "table")

    kind: ClassVar[ReadKind] = ReadKind.TABLE
    FIELDS: ClassVar[tuple[str, ...]] = ("schema", "table", "filter", "files")

    def __init__(
        self, schema: str, table: str, filter: tuple[Predicate, ...] = (), files: tuple[int, ...] | None = None
    ) -> None:
        self.schema: Final = schema
        self.table: Final = table
        self.filter: Final = filter
        self.files: Final = files


@mypyc_attr(acyclic=True)
class NameRead(Record):
    """What a name means, or without one what a schema holds.

    schema: Name of the schema.
    name: Name of a table or view; null: the schema's list.
    """

    __slots__ = ("name", "schema")

    kind: ClassVar[ReadKind] = ReadKind.NAME
    FIELDS: ClassVar[tuple[str, ...]] = ("schema", "name")

    def __init__(self, schema: str, name: str | None = None) -> None:
        self.schema: Final = schema
        self.name: Final = name


@mypyc_attr(acyclic=True)
class RowsRead(Record):
    """Rows of a keyed table, by key.

    schema: Name of the schema.
    table: Name of the table.
    keys: Primary keys, column to value.
    """

    __slots__ = ("keys", "schema", "table")

    kind: ClassVar[ReadKind] = ReadKind.ROWS
    FIELDS: ClassVar[tuple[str, ...]] = ("schema", "table", "keys")

    def __init__(self, schema: str, table: str, keys: tuple[Row, ...]) -> None:
        self.schema: Final = schema
        self.table: Final = table
        self.keys: Final = keys


@mypyc_attr(acyclic=True)
class CreateSchema(Record):
    """A new schema.

    schema: Its name.
    if_not_exists: Nothing to do if there is one already.
    """

    __slots__ = ("if_not_exists", "schema")

    kind: ClassVar[ChangeKind] = ChangeKind.CREATE_SCHEMA
    FIELDS: ClassVar[tuple[str, ...]] = ("schema", "if_not_exists")

    def __init__(self, schema: str, if_not_exists: bool = False) -> None:
        self.schema: Final = schema
        self.if_not_exists: Final = if_not_exists


@mypyc_attr(acyclic=True)
class DropSchema(Record):
    """A schema goes, with ``cascade`` with all in it.

    schema: Its name.
    cascade: What is in it goes too; otherwise it must be empty.
    if_exists: Nothing to do if there is none.
    """

    __slots__ = ("cascade", "if_exists", "schema")

    kind: ClassVar[ChangeKind] = ChangeKind.DROP_SCHEMA
    FIELDS: ClassVar[tuple[str, ...]] = ("schema", "cascade", "if_exists")

    def __init__(self, schema: str, cascade: bool = False, if_exists: bool = False) -> None:
        self.schema: Final = schema
        self.cascade: Final = cascade
        self.if_exists: Final = if_exists


@mypyc_attr(acyclic=True)
class ColumnSpec(Record):
    """A column as a writer asks for it.

    name: Its name.
    type: A DuckLake type name.
    nullable: Whether NULL may be in it.
    default: The text of a literal; null: none.
    """

    __slots__ = ("default", "name", "nullable", "type")

    FIELDS: ClassVar[tuple[str, ...]] = ("name", "type", "nullable", "default")

    def __init__(self, name: str, type: str, nullable: bool = True, default: str | None = None) -> None:
        self.name: Final = name
        self.type: Final = type
        self.nullable: Final = nullable
        self.default: Final = default


@mypyc_attr(acyclic=True)
class ForeignKeySpec(Record):
    """Columns of the table refer to a primary key or unique constraint of another one.

    columns: Names of the columns that refer.
    ref_schema: Schema of the table referred to.
    ref_table: The table referred to.
    ref_columns: Its columns, in the order of ``columns``.
    """

    __slots__ = ("columns", "ref_columns", "ref_schema", "ref_table")

    FIELDS: ClassVar[tuple[str, ...]] = ("columns", "ref_schema", "ref_table", "ref_columns")

    def __init__(self, columns: tuple[str, ...], ref_schema: str, ref_table: str, ref_columns: tuple[str, ...]) -> None:
        self.columns: Final = columns
        self.ref_schema: Final = ref_schema
        self.ref_table: Final = ref_table
        self.ref_columns: Final = ref_columns


@mypyc_attr(acyclic=True)
class PartitionSpec(Record):
    """One partition key: a column and a transform.

    column: Name of the column.
    transform: identity, year, month, day, hour or bucket(N).
    """

    __slots__ = ("column", "transform")

    FIELDS: ClassVar[tuple[str, ...]] = ("column", "transform")

    def __init__(self, column: str, transform: str = "identity") -> None:
        self.column: Final = column
        self.transform: Final = transform


@mypyc_attr(acyclic=True)
class CreateTable(Record):
    """A new table.

    schema: Name of the schema.
    table: Name of the table.
    columns: In their order.
    primary_key: Names of the columns that say which row it is; makes the table keyed.
    unique: Further sets of columns of which no two rows have the same values.
    foreign_keys: What rows refer to.
    partition_by: Partition keys, in their order.
    exclusion_constraints: Not supported: here to be refused with a reason. JSON as text.
    properties: Table properties, name to text.
    if_not_exists: Nothing to do if there is one already.
    """

    __slots__ = (
        "columns",
        "exclusion_constraints",
        "foreign_keys",
        "if_not_exists",
        "partition_by",
        "primary_key",
        "properties",
        "schema",
        "table",
        "unique",
    )

    kind: ClassVar[ChangeKind] = ChangeKind.CREATE_TABLE
    FIELDS: ClassVar[tuple[str, ...]] = (
        "schema",
        "table",
        "columns",
        "primary_key",
        "unique",
        "foreign_keys",
        "partition_by",
        "exclusion_constraints",
        "properties",
        "if_not_exists",
    )

    def __init__(
        self,
        schema: str,
        table: str,
        columns: tuple[ColumnSpec, ...],
        primary_key: tuple[str, ...] = (),
        unique: tuple[tuple[str, ...], ...] = (),
        foreign_keys: tuple[ForeignKeySpec, ...] = (),
        partition_by: tuple[PartitionSpec, ...] = (),
        exclusion_constraints: tuple[str, ...] = (),
        properties: Mapping[str, str] = _NO_NAMES,
        if_not_exists: bool = False,
    ) -> None:
        self.schema: Final = schema
        self.table: Final = table
        self.columns: Final = columns
        self.primary_key: Final = primary_key
        self.unique: Final = unique
        self.foreign_keys: Final = foreign_keys
        self.partition_by: Final = partition_by
        self.exclusion_constraints: Final = exclusion_constraints
        self.properties: Final = properties
        self.if_not_exists: Final = if_not_exists


@mypyc_attr(acyclic=True)
class DropTable(Record):
    """A table goes.

    schema: Name of the schema.
    table: Name of the table.
    if_exists: Nothing to do if there is none.
    """

    __slots__ = ("if_exists", "schema", "table")

    kind: ClassVar[ChangeKind] = ChangeKind.DROP_TABLE
    FIELDS: ClassVar[tuple[str, ...]] = ("schema", "table", "if_exists")

    def __init__(self, schema: str, table: str, if_exists: bool = False) -> None:
        self.schema: Final = schema
        self.table: Final = table
        self.if_exists: Final = if_exists


@mypyc_attr(acyclic=True)
class RenameTable(Record):
    """A table gets another name in its schema.

    schema: Name of the schema.
    table: Name of the table.
    new_table: The name it gets.
    """

    __slots__ = ("new_table", "schema", "table")

    kind: ClassVar[ChangeKind] = ChangeKind.RENAME_TABLE
    FIELDS: ClassVar[tuple[str, ...]] = ("schema", "table", "new_table")

    def __init__(self, schema: str, table: str, new_table: str) -> None:
        self.schema: Final = schema
        self.table: Final = table
        self.new_table: Final = new_table


@mypyc_attr(acyclic=True)
class Alteration(Record):
    """One step; which of the other fields are set depends on op.

    op: What is done.
    column: The column that comes.
    name: The column it is about; of a comment null is the table.
    new_name: The name that the column gets.
    type: The wider type that the column gets.
    nullable: Whether NULL may be in it from now on.
    default: The text of a literal; null: none.
    partition_by: The partition keys from now on; empty: none.
    comment: The comment; null removes it.
    key: Name of the property.
    value: Its text; null removes it.
    """

    __slots__ = (
        "column",
        "comment",
        "default",
        "key",
        "name",
        "new_name",
        "nullable",
        "op",
        "partition_by",
        "type",
        "value",
    )

    FIELDS: ClassVar[tuple[str, ...]] = (
        "op",
        "column",
        "name",
        "new_name",
        "type",
        "nullable",
        "default",
        "partition_by",
        "comment",
        "key",
        "value",
    )

    def __init__(
        self,
        op: AlterOp,
        column: ColumnSpec | None = None,
        name: str | None = None,
        new_name: str | None = None,
        type: str | None = None,
        nullable: bool | None = None,
        default: str | None = None,
        partition_by: tuple[PartitionSpec, ...] = (),
        comment: str | None = None,
        key: str | None = None,
        value: str | None = None,
    ) -> None:
        self.op: Final = op
        self.column: Final = column
        self.name: Final = name
        self.new_name: Final = new_name
        self.type: Final = type
        self.nullable: Final = nullable
        self.default: Final = default
        self.partition_by: Final = partition_by
        self.comment: Final = comment
        self.key: Final = key
        self.value: Final = value


@mypyc_attr(acyclic=True)
class AlterTable(Record):
    """A table's definition changes, step by step.

    schema: Name of the schema.
    table: Name of the table.
    alterations: In the order in which they apply.
    """

    __slots__ = ("alterations", "schema", "table")

    kind: ClassVar[ChangeKind] = ChangeKind.ALTER_TABLE
    FIELDS: ClassVar[tuple[str, ...]] = ("schema", "table", "alterations")

    def __init__(self, schema: str, table: str, alterations: tuple[Alteration, ...]) -> None:
        self.schema: Final = schema
        self.table: Final = table
        self.alterations: Final = alterations


@mypyc_attr(acyclic=True)
class CreateView(Record):
    """A new view.

    schema: Name of the schema.
    view: Name of the view.
    sql: The query.
    dialect: Whose SQL it is.
    if_not_exists: Nothing to do if there is one already.
    """

    __slots__ = ("dialect", "if_not_exists", "schema", "sql", "view")

    kind: ClassVar[ChangeKind] = ChangeKind.CREATE_VIEW
    FIELDS: ClassVar[tuple[str, ...]] = ("schema", "view", "sql", "dialect", "if_not_exists")

    def __init__(self, schema: str, view: str, sql: str, dialect: str = "duckdb", if_not_exists: bool = False) -> None:
        self.schema: Final = schema
        self.view: Final = view
        self.sql: Final = sql
        self.dialect: Final = dialect
        self.if_not_exists: Final = if_not_exists


@mypyc_attr(acyclic=True)
class ReplaceView(Record):
    """A view gets another query.

    schema: Name of the schema.
    view: Name of the view.
    sql: The query.
    dialect: Whose SQL it is.
    """

    __slots__ = ("dialect", "schema", "sql", "view")

    kind: ClassVar[ChangeKind] = ChangeKind.REPLACE_VIEW
    FIELDS: ClassVar[tuple[str, ...]] = ("schema", "view", "sql", "dialect")

    def __init__(self, schema: str, view: str, sql: str, dialect: str = "duckdb") -> None:
        self.schema: Final = schema
        self.view: Final = view
        self.sql: Final = sql
        self.dialect: Final = dialect


@mypyc_attr(acyclic=True)
class DropView(Record):
    """A view goes.

    schema: Name of the schema.
    view: Name of the view.
    if_exists: Nothing to do if there is none.
    """

    __slots__ = ("if_exists", "schema", "view")

    kind: ClassVar[ChangeKind] = ChangeKind.DROP_VIEW
    FIELDS: ClassVar[tuple[str, ...]] = ("schema", "view", "if_exists")

    def __init__(self, schema: str, view: str, if_exists: bool = False) -> None:
        self.schema: Final = schema
        self.view: Final = view
        self.if_exists: Final = if_exists


@mypyc_attr(acyclic=True)
class MappedColumn(Record):
    """The name in a file of one of the table's columns.

    source_name: The name in the file.
    column: The table's column.
    children: The columns in it, in their order.
    """

    __slots__ = ("children", "column", "source_name")

    FIELDS: ClassVar[tuple[str, ...]] = ("source_name", "column", "children")

    def __init__(self, source_name: str, column: str, children: tuple[MappedColumn, ...] = ()) -> None:
        self.source_name: Final = source_name
        self.column: Final = column
        self.children: Final = children


@mypyc_attr(acyclic=True)
class DataFile(Record):
    """A Parquet file with rows of one table.

    path: Below the table's folder, or absolute.
    path_is_relative: Whether ``path`` is below the table's folder.
    record_count: Its rows.
    file_size_bytes: Its size.
    footer_size: Bytes of its footer; null: unknown.
    statistics: A FileStatistics record, single-object encoded; empty if there is none. Decoded only where somebody
        looks.
    partition_values: In the order of the table's partition keys, after the transform; null: unknown.
    name_mapping: For a file without field ids: its columns, a parent before its children; null: by field id.
    row_ids: In Flush only: the row ids of the file's rows, in the order of the file.
    """

    __slots__ = (
        "file_size_bytes",
        "footer_size",
        "name_mapping",
        "partition_values",
        "path",
        "path_is_relative",
        "record_count",
        "row_ids",
        "statistics",
    )

    FIELDS: ClassVar[tuple[str, ...]] = (
        "path",
        "path_is_relative",
        "record_count",
        "file_size_bytes",
        "footer_size",
        "statistics",
        "partition_values",
        "name_mapping",
        "row_ids",
    )

    def __init__(
        self,
        path: str,
        record_count: int,
        file_size_bytes: int,
        path_is_relative: bool = True,
        footer_size: int | None = None,
        statistics: Statistics = (),
        partition_values: tuple[Scalar, ...] | None = None,
        name_mapping: tuple[MappedColumn, ...] | None = None,
        row_ids: tuple[int, ...] | None = None,
    ) -> None:
        self.path: Final = path
        self.path_is_relative: Final = path_is_relative
        self.record_count: Final = record_count
        self.file_size_bytes: Final = file_size_bytes
        self.footer_size: Final = footer_size
        self.statistics: Final = statistics
        self.partition_values: Final = partition_values
        self.name_mapping: Final = name_mapping
        self.row_ids: Final = row_ids


@mypyc_attr(acyclic=True)
class Append(Record):
    """Data files come to a table.

    schema: Name of the schema.
    table: Name of the table.
    files: The new files.
    """

    __slots__ = ("files", "schema", "table")

    kind: ClassVar[ChangeKind] = ChangeKind.APPEND
    FIELDS: ClassVar[tuple[str, ...]] = ("schema", "table", "files")

    def __init__(self, schema: str, table: str, files: tuple[DataFile, ...]) -> None:
        self.schema: Final = schema
        self.table: Final = table
        self.files: Final = files


@mypyc_attr(acyclic=True)
class PositionDelete(Record):
    """Rows of one data file to delete, without a delete file.

    data_file_id: The data file.
    rows: Row positions: a portable 64-bit roaring bitmap, or the numbers as written where they are no set.
    """

    __slots__ = ("data_file_id", "rows")

    FIELDS: ClassVar[tuple[str, ...]] = ("data_file_id", "rows")

    def __init__(self, data_file_id: int, rows: RowPositions) -> None:
        self.data_file_id: Final = data_file_id
        self.rows: Final = rows


@mypyc_attr(acyclic=True)
class DeleteFile(Record):
    """A Parquet delete file for one data file, with the positions it holds.

    data_file_id: The data file.
    path: Below the table's folder, or absolute.
    path_is_relative: Whether ``path`` is below the table's folder.
    rows: All positions in it, as in PositionDelete.
    file_size_bytes: Its size.
    footer_size: Bytes of its footer; null: unknown.
    """

    __slots__ = ("data_file_id", "file_size_bytes", "footer_size", "path", "path_is_relative", "rows")

    FIELDS: ClassVar[tuple[str, ...]] = (
        "data_file_id",
        "path",
        "path_is_relative",
        "rows",
        "file_size_bytes",
        "footer_size",
    )

    def __init__(
        self,
        data_file_id: int,
        path: str,
        rows: RowPositions,
        file_size_bytes: int,
        path_is_relative: bool = True,
        footer_size: int | None = None,
    ) -> None:
        self.data_file_id: Final = data_file_id
        self.path: Final = path
        self.path_is_relative: Final = path_is_relative
        self.rows: Final = rows
        self.file_size_bytes: Final = file_size_bytes
        self.footer_size: Final = footer_size


@mypyc_attr(acyclic=True)
class Delete(Record):
    """Rows of data files go.

    schema: Name of the schema.
    table: Name of the table.
    positions: Rows that go without a delete file.
    delete_files: Delete files that come.
    whole_files: Ids of data files that go with all their rows.
    """

    __slots__ = ("delete_files", "positions", "schema", "table", "whole_files")

    kind: ClassVar[ChangeKind] = ChangeKind.DELETE
    FIELDS: ClassVar[tuple[str, ...]] = ("schema", "table", "positions", "delete_files", "whole_files")

    def __init__(
        self,
        schema: str,
        table: str,
        positions: tuple[PositionDelete, ...] = (),
        delete_files: tuple[DeleteFile, ...] = (),
        whole_files: tuple[int, ...] = (),
    ) -> None:
        self.schema: Final = schema
        self.table: Final = table
        self.positions: Final = positions
        self.delete_files: Final = delete_files
        self.whole_files: Final = whole_files


@mypyc_attr(acyclic=True)
class Compact(Record):
    """Data files are rewritten as others with the same rows.

    schema: Name of the schema.
    table: Name of the table.
    replaced: Ids of the data files that go.
    files: The files that come.
    """

    __slots__ = ("files", "replaced", "schema", "table")

    kind: ClassVar[ChangeKind] = ChangeKind.COMPACT
    FIELDS: ClassVar[tuple[str, ...]] = ("schema", "table", "replaced", "files")

    def __init__(self, schema: str, table: str, replaced: tuple[int, ...], files: tuple[DataFile, ...]) -> None:
        self.schema: Final = schema
        self.table: Final = table
        self.replaced: Final = replaced
        self.files: Final = files


@mypyc_attr(acyclic=True)
class RowOrigin(Record):
    """Where a replicated row version was made.

    node: The site's name.
    tick: Its snapshot id there.
    stamp_ms: When it was committed there, ms since 1970.
    priority: The site's; the smaller number wins.
    """

    __slots__ = ("node", "priority", "stamp_ms", "tick")

    FIELDS: ClassVar[tuple[str, ...]] = ("node", "tick", "stamp_ms", "priority")

    def __init__(self, node: str, tick: int, stamp_ms: int, priority: int) -> None:
        self.node: Final = node
        self.tick: Final = tick
        self.stamp_ms: Final = stamp_ms
        self.priority: Final = priority


@mypyc_attr(acyclic=True)
class InsertRow(Record):
    """A row comes to a keyed table.

    schema: Name of the schema.
    table: Name of the table.
    row: The whole row, column to value.
    row_time_us: When the row was written at its source, for last-update-wins, us since 1970; null: when it is
        decided.
    origin: Where it was made, if it is replicated.
    identity: Which row it is, if it is replicated and not the first one of its key.
    """

    __slots__ = ("identity", "origin", "row", "row_time_us", "schema", "table")

    kind: ClassVar[ChangeKind] = ChangeKind.INSERT_ROW
    FIELDS: ClassVar[tuple[str, ...]] = ("schema", "table", "row", "row_time_us", "origin", "identity")

    def __init__(
        self,
        schema: str,
        table: str,
        row: Row,
        row_time_us: int | None = None,
        origin: RowOrigin | None = None,
        identity: str | None = None,
    ) -> None:
        self.schema: Final = schema
        self.table: Final = table
        self.row: Final = row
        self.row_time_us: Final = row_time_us
        self.origin: Final = origin
        self.identity: Final = identity


@mypyc_attr(acyclic=True)
class UpdateRow(Record):
    """A row of a keyed table gets other values.

    schema: Name of the schema.
    table: Name of the table.
    key: The key that the row had at the base.
    row: The whole row as it will be.
    row_time_us: When the row was written at its source, for last-update-wins, us since 1970; null: when it is
        decided.
    origin: Where it was made, if it is replicated.
    identity: Which row it is, if it is replicated and not the first one of its key.
    """

    __slots__ = ("identity", "key", "origin", "row", "row_time_us", "schema", "table")

    kind: ClassVar[ChangeKind] = ChangeKind.UPDATE_ROW
    FIELDS: ClassVar[tuple[str, ...]] = ("schema", "table", "key", "row", "row_time_us", "origin", "identity")

    def __init__(
        self,
        schema: str,
        table: str,
        key: Row,
        row: Row,
        row_time_us: int | None = None,
        origin: RowOrigin | None = None,
        identity: str | None = None,
    ) -> None:
        self.schema: Final = schema
        self.table: Final = table
        self.key: Final = key
        self.row: Final = row
        self.row_time_us: Final = row_time_us
        self.origin: Final = origin
        self.identity: Final = identity


@mypyc_attr(acyclic=True)
class DeleteRow(Record):
    """A row of a keyed table goes.

    schema: Name of the schema.
    table: Name of the table.
    key: Its key.
    row_time_us: When the row was written at its source, for last-update-wins, us since 1970; null: when it is
        decided.
    origin: Where it was made, if it is replicated.
    moves: Whether it goes since it got another key, if it is replicated.
    """

    __slots__ = ("key", "moves", "origin", "row_time_us", "schema", "table")

    kind: ClassVar[ChangeKind] = ChangeKind.DELETE_ROW
    FIELDS: ClassVar[tuple[str, ...]] = ("schema", "table", "key", "row_time_us", "origin", "moves")

    def __init__(
        self,
        schema: str,
        table: str,
        key: Row,
        row_time_us: int | None = None,
        origin: RowOrigin | None = None,
        moves: bool = False,
    ) -> None:
        self.schema: Final = schema
        self.table: Final = table
        self.key: Final = key
        self.row_time_us: Final = row_time_us
        self.origin: Final = origin
        self.moves: Final = moves


@mypyc_attr(acyclic=True)
class Flush(Record):
    """Rows of a keyed table that nobody changed since the base move into data files, and keep their ids.

    schema: Name of the schema.
    table: Name of the table.
    files: The new files.
    """

    __slots__ = ("files", "schema", "table")

    kind: ClassVar[ChangeKind] = ChangeKind.FLUSH
    FIELDS: ClassVar[tuple[str, ...]] = ("schema", "table", "files")

    def __init__(self, schema: str, table: str, files: tuple[DataFile, ...]) -> None:
        self.schema: Final = schema
        self.table: Final = table
        self.files: Final = files


@mypyc_attr(acyclic=True)
class ExpireSnapshots(Record):
    """Snapshots cannot be read any more.

    older_than_snapshot_id: The first that stays.
    """

    __slots__ = ("older_than_snapshot_id",)

    kind: ClassVar[ChangeKind] = ChangeKind.EXPIRE_SNAPSHOTS
    FIELDS: ClassVar[tuple[str, ...]] = ("older_than_snapshot_id",)

    def __init__(self, older_than_snapshot_id: int) -> None:
        self.older_than_snapshot_id: Final = older_than_snapshot_id


@mypyc_attr(acyclic=True)
class Configure(Record):
    """Settings of the log change.

    settings: Name to value, see LogSettings.
    """

    __slots__ = ("settings",)

    kind: ClassVar[ChangeKind] = ChangeKind.CONFIGURE
    FIELDS: ClassVar[tuple[str, ...]] = ("settings",)

    def __init__(self, settings: Mapping[str, Scalar]) -> None:
        self.settings: Final = settings


@mypyc_attr(acyclic=True)
class KnownNode(Record):
    """How far one node had taken over another, or itself.

    node: Its name.
    tick: The next one: what lies before it is contained.
    priority: The node's; the smaller number wins.
    """

    __slots__ = ("node", "priority", "tick")

    FIELDS: ClassVar[tuple[str, ...]] = ("node", "tick", "priority")

    def __init__(self, node: str, tick: int, priority: int) -> None:
        self.node: Final = node
        self.tick: Final = tick
        self.priority: Final = priority


@mypyc_attr(acyclic=True)
class DisplacedRow(Record):
    """A row of the log that takes the snapshot over, as its readers see it at the base.

    table_id: Its table there.
    row: The whole row.
    """

    __slots__ = ("row", "table_id")

    FIELDS: ClassVar[tuple[str, ...]] = ("table_id", "row")

    def __init__(self, table_id: int, row: Row) -> None:
        self.table_id: Final = table_id
        self.row: Final = row


@mypyc_attr(acyclic=True)
class Replicated(Record):
    """Which snapshot of which node is repeated here, and what that node had taken over when it made it.

    node: The name of the node that made it.
    tick: Its snapshot id there.
    digest: Before this snapshot; of the node itself the tick after the last one that it had others repeat.
    displaced: Rows that what comes displaces, and whose values have left the log's window.
    """

    __slots__ = ("digest", "displaced", "node", "tick")

    FIELDS: ClassVar[tuple[str, ...]] = ("node", "tick", "digest", "displaced")

    def __init__(
        self, node: str, tick: int, digest: tuple[KnownNode, ...], displaced: tuple[DisplacedRow, ...] = ()
    ) -> None:
        self.node: Final = node
        self.tick: Final = tick
        self.digest: Final = digest
        self.displaced: Final = displaced


@mypyc_attr(acyclic=True)
class Proposal(Record):
    """A changeset and the snapshot it was computed from.

    Key of the message: writer_id; partition: murmur2 of it.

    proposal_id: Made by the client before it sends; a UUID version 7 where no writer_seq tells repeats.
    writer_id: Who proposes; its proposals are decided in order.
    writer_epoch: The writer's own epoch: a smaller one than the log has seen is fenced. null: not fenced.
    writer_seq: Number of this write among the writer's, by which a repeat is recognised for ever. null: by
        proposal_id, within a window.
    base_snapshot_id: The snapshot that the changes were computed from.
    isolation: Whether only writes are checked, or reads too.
    open_writer: Begin a new epoch of the writer; the outcome says which.
    decide_before_ms: Refuse it when it is decided later, ms since 1970. null: whenever.
    created_at_ms: The client's clock, ms since 1970; told, never decided by.
    author: Who is behind it, for the history.
    message: What it is for, for the history.
    extra: Anything more, for the history; DuckLake's commit_extra_info.
    reads: What was read; checked under SERIALIZABLE.
    changes: In the order in which they apply.
    replicated: Of what a link proposes from another site's log; null: it is made here.
    """

    __slots__ = (
        "author",
        "base_snapshot_id",
        "changes",
        "created_at_ms",
        "decide_before_ms",
        "extra",
        "isolation",
        "message",
        "open_writer",
        "proposal_id",
        "reads",
        "replicated",
        "writer_epoch",
        "writer_id",
        "writer_seq",
    )

    FIELDS: ClassVar[tuple[str, ...]] = (
        "proposal_id",
        "writer_id",
        "writer_epoch",
        "writer_seq",
        "base_snapshot_id",
        "isolation",
        "open_writer",
        "decide_before_ms",
        "created_at_ms",
        "author",
        "message",
        "extra",
        "reads",
        "changes",
        "replicated",
    )

    def __init__(
        self,
        proposal_id: ProposalId,
        writer_id: str,
        base_snapshot_id: int,
        changes: tuple[Change, ...],
        writer_epoch: int | None = None,
        writer_seq: int | None = None,
        isolation: Isolation = Isolation.SNAPSHOT,
        open_writer: bool = False,
        decide_before_ms: int | None = None,
        created_at_ms: int = 0,
        author: str | None = None,
        message: str | None = None,
        extra: str | None = None,
        reads: tuple[Read, ...] = (),
        replicated: Replicated | None = None,
    ) -> None:
        self.proposal_id: Final = proposal_id
        self.writer_id: Final = writer_id
        self.writer_epoch: Final = writer_epoch
        self.writer_seq: Final = writer_seq
        self.base_snapshot_id: Final = base_snapshot_id
        self.isolation: Final = isolation
        self.open_writer: Final = open_writer
        self.decide_before_ms: Final = decide_before_ms
        self.created_at_ms: Final = created_at_ms
        self.author: Final = author
        self.message: Final = message
        self.extra: Final = extra
        self.reads: Final = reads
        self.changes: Final = changes
        self.replicated: Final = replicated


Read: TypeAlias = TableRead | NameRead | RowsRead


Change: TypeAlias = (
    CreateSchema
    | DropSchema
    | CreateTable
    | DropTable
    | RenameTable
    | AlterTable
    | CreateView
    | ReplaceView
    | DropView
    | Append
    | Delete
    | Compact
    | InsertRow
    | UpdateRow
    | DeleteRow
    | Flush
    | ExpireSnapshots
    | Configure
)
