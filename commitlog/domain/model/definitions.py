"""What a table is: columns, keys, partitioning and properties; how a definition is made and altered.

``define`` and ``alter`` are used by ``decide`` (is the request possible?), by ``replay`` (what is the table now?) and by
the projector (which rows of the catalog change?), so that the three cannot disagree. Column ids count from 1 per table,
nested fields depth first, and are never reused; they are the field ids of the Parquet files.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import ClassVar, Final

from mypy_extensions import mypyc_attr

from commitlog.domain.model import (
    AlterOp,
    ColumnSpec,
    CreateTable,
    ForeignKeySpec,
    Granularity,
    InvalidCode,
    PartitionSpec,
    RowValue,
    Scalar,
)
from commitlog.domain.model.nested_text import check_nested_text
from commitlog.domain.model.record import Record
from commitlog.domain.model.types import (
    FLOATS,
    INTEGER_BITS,
    NESTED,
    TIMESTAMPS,
    ColumnType,
    canonical_value,
    check_json_type,
    fold,
    is_keyable,
    parse_type,
)
from commitlog.errors import InvalidChangeError as InvalidChangeError

POLICIES = ("ABORT", "LAST_UPDATE_WINS", "KEEP_EXISTING")
HANDLER_PREFIX = "handler:"
FOREIGN_PATHS = "foreign_paths"
"""The table property that lets files of a table lie outside of its folder."""
STATISTICS_COLUMNS = "statistics_columns"
"""The table property that says of how many columns, beside those of partition keys, the catalog has each file's statistics."""
STATISTICS_COLUMNS_DEFAULT = 32
REPLICATED = "replicated"
"""The table property that, as "false", has links between sites leave a table where it is."""
PROPERTIES = ("conflict_granularity", "on_conflict", FOREIGN_PATHS, STATISTICS_COLUMNS, REPLICATED)
_YEARS = {"date", *TIMESTAMPS}
_BUCKET = re.compile(r"bucket\(([0-9]{1,9})\)")
_BUCKETS_MAX = 4096
_COUNT = re.compile(r"0|[1-9][0-9]{0,3}")
_NO_PROPERTIES: Final[Mapping[str, str]] = {}


@mypyc_attr(acyclic=True)
class Column(Record):
    """A column or nested field. ``initial_default`` is what files written before it was added read as."""

    __slots__ = ("children", "column_id", "comment", "default", "initial_default", "name", "nullable", "type")

    FIELDS: ClassVar[tuple[str, ...]] = (
        "column_id",
        "name",
        "type",
        "nullable",
        "default",
        "initial_default",
        "comment",
        "children",
    )

    def __init__(
        self,
        column_id: int,
        name: str,
        type: ColumnType,
        nullable: bool = True,
        default: str | None = None,
        initial_default: str | None = None,
        comment: str | None = None,
        children: tuple[Column, ...] = (),
    ) -> None:
        self.column_id: Final = column_id
        self.name: Final = name
        self.type: Final = type
        self.nullable: Final = nullable
        self.default: Final = default
        self.initial_default: Final = initial_default
        self.comment: Final = comment
        self.children: Final = children

    def walk(self) -> Iterator[Column]:
        """This column, then its nested fields, depth first."""
        yield self
        for child in self.children:
            yield from child.walk()


@mypyc_attr(acyclic=True)
class PartitionKey(Record):
    """One partition key by column id; ``transform`` is identity, year, month, day, hour or bucket(N)."""

    __slots__ = ("column_id", "transform")

    FIELDS: ClassVar[tuple[str, ...]] = ("column_id", "transform")

    def __init__(self, column_id: int, transform: str) -> None:
        self.column_id: Final = column_id
        self.transform: Final = transform

    @property
    def buckets(self) -> int | None:
        """How many buckets there are; None for other transforms."""
        bucket = _BUCKET.fullmatch(self.transform)
        return int(bucket[1]) if bucket else None

    def hides_bucket(self, value: Scalar) -> bool:
        """Whether there are buckets, and a file's value is none of them."""
        if self.buckets is None or value is None:
            return False
        text = partition_text(value)
        is_number = text.isascii() and text.isdigit() and len(text) <= len(str(self.buckets))
        return not is_number or str(int(text)) != text or int(text) >= self.buckets


def partition_text(value: Scalar) -> str:
    """A partition value as the catalog has it."""
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


@mypyc_attr(acyclic=True)
class ForeignKey(Record):
    """``column_ids`` refer to ``ref_column_ids`` of table ``ref_table_id``."""

    __slots__ = ("column_ids", "ref_column_ids", "ref_table_id")

    FIELDS: ClassVar[tuple[str, ...]] = ("column_ids", "ref_table_id", "ref_column_ids")

    def __init__(self, column_ids: tuple[int, ...], ref_table_id: int, ref_column_ids: tuple[int, ...]) -> None:
        self.column_ids: Final = column_ids
        self.ref_table_id: Final = ref_table_id
        self.ref_column_ids: Final = ref_column_ids


@mypyc_attr(acyclic=True)
class TableDefinition(Record):
    """Everything about a table but its rows and files."""

    __slots__ = (
        "_by_name",
        "columns",
        "comment",
        "foreign_keys",
        "name",
        "next_column_id",
        "partition_by",
        "partition_id",
        "primary_key",
        "properties",
        "schema_id",
        "table_id",
        "unique",
    )

    FIELDS: ClassVar[tuple[str, ...]] = (
        "table_id",
        "schema_id",
        "name",
        "columns",
        "next_column_id",
        "primary_key",
        "unique",
        "foreign_keys",
        "partition_id",
        "partition_by",
        "comment",
        "properties",
    )

    def __init__(
        self,
        table_id: int,
        schema_id: int,
        name: str,
        columns: tuple[Column, ...],
        next_column_id: int,
        primary_key: tuple[int, ...] = (),
        unique: tuple[tuple[int, ...], ...] = (),
        foreign_keys: tuple[ForeignKey, ...] = (),
        partition_id: int | None = None,
        partition_by: tuple[PartitionKey, ...] = (),
        comment: str | None = None,
        properties: Mapping[str, str] = _NO_PROPERTIES,
    ) -> None:
        self.table_id: Final = table_id
        self.schema_id: Final = schema_id
        self.name: Final = name
        self.columns: Final = columns
        self.next_column_id: Final = next_column_id
        self.primary_key: Final = primary_key
        self.unique: Final = unique
        self.foreign_keys: Final = foreign_keys
        self.partition_id: Final = partition_id
        self.partition_by: Final = partition_by
        self.comment: Final = comment
        self.properties: Final = properties
        self._by_name: Mapping[str, Column] | None = None

    def unknown_buckets(self, values: Sequence[Scalar] | None) -> int:
        """How many buckets the rows of a file may be in as far as its values tell; 0 for keys of which they tell it.

        The catalog names each of them, because the stock client passes over files without the one that it looks for.
        """
        if not self.partition_by:
            return 0
        keys = enumerate(self.partition_by)
        return sum(key.buckets or 0 for at, key in keys if values is None or key.hides_bucket(values[at]))

    @property
    def keyed(self) -> bool:
        """Whether rows are judged one by one (rules.md 5)."""
        return bool(self.primary_key)

    def column(self, name: str) -> Column:
        """Return the top-level column of that name, or raise InvalidChangeError naming the table's columns."""
        column = self.by_name.get(fold(name))
        if column is None:
            raise no_such_column(self.name, name, self.columns)
        return column

    @property
    def by_name(self) -> Mapping[str, Column]:
        """The top-level columns by their folded names; made once, for a wide table is asked for each of its columns."""
        by_name = self._by_name
        if by_name is None:
            by_name = self._by_name = {fold(column.name): column for column in self.columns}
        return by_name

    def with_options(
        self,
        comment: str | None,
        properties: Mapping[str, str],
        partition_by: tuple[PartitionKey, ...],
        partition_id: int | None,
    ) -> TableDefinition:
        """The same table with these instead of its own."""
        made = TableDefinition(
            self.table_id,
            self.schema_id,
            self.name,
            self.columns,
            self.next_column_id,
            self.primary_key,
            self.unique,
            self.foreign_keys,
            partition_id,
            partition_by,
            comment,
            properties,
        )
        made._by_name = self._by_name
        return made

    def index(self, by_name: Mapping[str, Column]) -> None:
        """Take the columns by their folded names from who has them at hand."""
        self._by_name = by_name

    def column_by_id(self, column_id: int) -> Column:
        """Return the top-level column with that id."""
        return next(column for column in self.columns if column.column_id == column_id)

    def all_columns(self) -> Iterator[Column]:
        """Every column and nested field, depth first."""
        for column in self.columns:
            yield from column.walk()


def quoted(name: str) -> str:
    """A name as it stands in a message: printable, and not longer than a line."""
    shown = name.encode("unicode_escape").decode("ascii") if not name.isprintable() else name
    return shown if len(shown) <= 80 else shown[:77] + "..."


def no_such_column(table: str, name: str, columns: Iterable[Column]) -> InvalidChangeError:
    """What is said of a name that no column of a table has."""
    known = ", ".join(column.name for column in islice(columns, 20))
    return InvalidChangeError(InvalidCode.COLUMN_UNKNOWN, f"table {table} has no column {name!r} (it has {known})")


# --- making a definition ----------------------------------------------------------------------------------------------


def column_type(text: str) -> ColumnType:
    """A column's type from its text; raise InvalidChangeError when there is none such."""
    try:
        return parse_type(text)
    except ValueError as error:
        raise InvalidChangeError(InvalidCode.TYPE_UNKNOWN, str(error)) from None


def check_default(name: str, data_type: ColumnType, default: str | None) -> None:
    """Raise InvalidChangeError unless a default can be a value of the type."""
    if default is None:
        return
    if data_type.name in NESTED:
        raise InvalidChangeError(
            InvalidCode.DEFAULT_INVALID, f"column {quoted(name)}: a default of a nested type is not supported"
        )
    try:
        default_value(data_type, default)
    except ValueError as error:
        raise InvalidChangeError(
            InvalidCode.DEFAULT_INVALID, f"column {quoted(name)}: the default {default!r} {error}"
        ) from None


def default_value(data_type: ColumnType, default: str) -> RowValue:
    """The value that the text of a default stands for; raise ValueError when it is none of the type."""
    value: RowValue = default
    if data_type.name == "json" or data_type.name == "variant":
        return value
    canonical_value(data_type, value)
    if data_type.name in INTEGER_BITS:
        return int(default)
    if data_type.name in FLOATS:
        return float(default)
    if data_type.name == "boolean":
        return default == "true"
    return value


def build_column(spec: ColumnSpec, column_id: int, *, initial_default: str | None = None) -> Column:
    """Give ``spec`` and its nested fields ids from ``column_id`` on, depth first."""
    data_type = column_type(spec.type)
    check_default(spec.name, data_type, spec.default)
    column, _ = _with_ids(spec.name, data_type, column_id)
    return column.replace(nullable=spec.nullable, default=spec.default, initial_default=initial_default)


def _with_ids(name: str, data_type: ColumnType, column_id: int) -> tuple[Column, int]:
    children: list[Column] = []
    next_id = column_id + 1
    for child_name, child_type in data_type.fields:
        child, next_id = _with_ids(child_name, child_type, next_id)
        children.append(child)
    return Column(column_id, name, data_type, children=tuple(children)), next_id


def _key_columns(table: TableDefinition, names: tuple[str, ...], what: str) -> tuple[int, ...]:
    columns = [table.column(name) for name in names]
    ids = tuple(column.column_id for column in columns)
    if not ids:
        raise InvalidChangeError(InvalidCode.KEY_INVALID, f"{what} of table {quoted(table.name)} has no columns")
    if len(set(ids)) < len(ids):
        raise InvalidChangeError(InvalidCode.KEY_INVALID, f"{what} of table {quoted(table.name)} names a column twice")
    for column in columns:
        if not is_keyable(column.type):
            raise InvalidChangeError(
                InvalidCode.KEY_INVALID,
                f"{what} of table {quoted(table.name)}: column {quoted(column.name)} is {column.type}, "
                "whose values have no exact equality",
            )
    return ids


def partition_keys(column_named: Callable[[str], Column], specs: tuple[PartitionSpec, ...]) -> tuple[PartitionKey, ...]:
    """Resolve partition keys; raise InvalidChangeError when one cannot be, or is given twice."""
    keys: dict[PartitionKey, None] = {}
    for spec in specs:
        column = column_named(spec.column)
        _check_transform(column, spec.transform)
        key = PartitionKey(column.column_id, spec.transform)
        if key in keys:
            raise InvalidChangeError(
                InvalidCode.PARTITION_KEY_INVALID,
                f"partition key {spec.transform}({quoted(column.name)}) is given twice",
            )
        keys[key] = None
    return tuple(keys)


def _check_transform(column: Column, transform: str) -> None:
    if column.type.name in NESTED:
        raise InvalidChangeError(
            InvalidCode.PARTITION_KEY_INVALID,
            f"column {quoted(column.name)} is {column.type.name} and cannot be a partition key",
        )
    if transform == "identity":
        return
    if bucket := _BUCKET.fullmatch(transform):
        if not 0 < int(bucket[1]) <= _BUCKETS_MAX:
            raise InvalidChangeError(
                InvalidCode.PARTITION_KEY_INVALID, f"{transform}: there can be 1 to {_BUCKETS_MAX} buckets"
            )
        return
    if transform not in ("year", "month", "day", "hour"):
        raise InvalidChangeError(
            InvalidCode.PARTITION_KEY_INVALID,
            f"unknown partition transform {transform!r}; known are identity, year, month, day, hour, bucket(N)",
        )
    if column.type.name not in _YEARS or (transform == "hour" and column.type.name == "date"):
        raise InvalidChangeError(
            InvalidCode.PARTITION_KEY_INVALID,
            f"{transform}({quoted(column.name)}): the column is {column.type.name}, not a time",
        )


def check_property(key: str, value: str | None) -> None:
    """Raise InvalidChangeError unless ``key`` is a table property and ``value`` one of its values (None resets it)."""
    if key not in PROPERTIES:
        raise InvalidChangeError(
            InvalidCode.PROPERTY_UNKNOWN, f"unknown table property {key!r}; known are {', '.join(PROPERTIES)}"
        )
    if value is None:
        return
    if key == "conflict_granularity" and value not in tuple(Granularity):
        raise InvalidChangeError(
            InvalidCode.PROPERTY_VALUE_INVALID, f"conflict_granularity is TABLE, FILE or ROW, not {value!r}"
        )
    if key in (FOREIGN_PATHS, REPLICATED) and value not in ("true", "false"):
        raise InvalidChangeError(InvalidCode.PROPERTY_VALUE_INVALID, f"{key} is true or false, as text, not {value!r}")
    if key == STATISTICS_COLUMNS and not _COUNT.fullmatch(value):
        raise InvalidChangeError(
            InvalidCode.PROPERTY_VALUE_INVALID,
            f"{STATISTICS_COLUMNS} is a number from 0 to 9999, as text, not {value!r}",
        )
    if key == "on_conflict":
        check_policy(value)


def check_policy(value: str) -> None:
    """Raise InvalidChangeError unless ``value`` is a policy for row conflicts."""
    if value not in POLICIES and not re.fullmatch(HANDLER_PREFIX + r"[\w.-]+", value):
        raise InvalidChangeError(
            InvalidCode.POLICY_UNKNOWN, f"on_conflict is {', '.join(POLICIES)} or handler:NAME, not {value!r}"
        )


def define(change: CreateTable, *, table_id: int, schema_id: int, partition_id: int | None) -> TableDefinition:
    """Build the definition that ``change`` asks for, without its foreign keys, which need other tables.

    Raises InvalidChangeError that says what cannot be.
    """
    if change.exclusion_constraints:
        raise InvalidChangeError(
            InvalidCode.EXCLUSION_UNSUPPORTED,
            "exclusion constraints are unsupported: no order of commits could keep them",
        )
    if not change.columns:
        raise InvalidChangeError(InvalidCode.COLUMNS_MISSING, f"table {quoted(change.table)} needs at least one column")
    columns: list[Column] = []
    names: set[str] = set()
    next_id = 1
    for spec in change.columns:
        column = build_column(spec, next_id)
        if fold(column.name) in names:
            raise InvalidChangeError(
                InvalidCode.COLUMN_EXISTS, f"table {quoted(change.table)} has two columns {quoted(column.name)}"
            )
        columns.append(column)
        names.add(fold(column.name))
        next_id += sum(1 for _ in column.walk())
    table = TableDefinition(table_id, schema_id, change.table, tuple(columns), next_id)
    primary_key = _key_columns(table, change.primary_key, "the primary key") if change.primary_key else ()
    if change.unique and not primary_key:
        raise InvalidChangeError(
            InvalidCode.PRIMARY_KEY_MISSING, f"table {quoted(change.table)}: UNIQUE needs a primary key as well"
        )
    if change.foreign_keys and not primary_key:
        raise InvalidChangeError(
            InvalidCode.PRIMARY_KEY_MISSING, f"table {quoted(change.table)}: foreign keys need a primary key as well"
        )
    for key, value in change.properties.items():
        check_property(key, value)
    return table.replace(
        columns=tuple(c.replace(nullable=False) if c.column_id in primary_key else c for c in columns),
        primary_key=primary_key,
        unique=tuple(_key_columns(table, names, "a UNIQUE constraint") for names in change.unique),
        partition_id=partition_id if change.partition_by else None,
        partition_by=partition_keys(table.column, change.partition_by),
        properties=dict(change.properties),
    )


def reference(table: TableDefinition, spec: ForeignKeySpec, parent: TableDefinition) -> ForeignKey:
    """Resolve one foreign key of ``table`` to ``parent``; raise InvalidChangeError when it does not fit."""
    own = _key_columns(table, spec.columns, "a foreign key")
    theirs = _key_columns(parent, spec.ref_columns, "a foreign key")
    if len(own) != len(theirs):
        raise InvalidChangeError(
            InvalidCode.FOREIGN_KEY_INVALID,
            f"a foreign key of table {quoted(table.name)} has another number of columns on each side",
        )
    if theirs != parent.primary_key and theirs not in parent.unique:
        raise InvalidChangeError(
            InvalidCode.FOREIGN_KEY_INVALID,
            f"a foreign key of table {quoted(table.name)} refers to columns of {quoted(parent.name)} that are neither its "
            "primary key nor a UNIQUE constraint",
        )
    for own_id, ref_id in zip(own, theirs, strict=True):
        if table.column_by_id(own_id).type != parent.column_by_id(ref_id).type:
            raise InvalidChangeError(
                InvalidCode.FOREIGN_KEY_INVALID,
                f"a foreign key of table {quoted(table.name)}: column {quoted(table.column_by_id(own_id).name)} has another "
                f"type than {quoted(parent.column_by_id(ref_id).name)} of {quoted(parent.name)}",
            )
    return ForeignKey(own, parent.table_id, theirs)


BENIGN_OPS = frozenset({AlterOp.SET_COMMENT, AlterOp.SET_DEFAULT, AlterOp.SET_PROPERTY})
"""Alterations that change no definition in the sense of rules.md 12.2, 12.20."""


_INLINED_COLUMNS_MAX = 1_590
_INLINED_NAME_BYTES_MAX = 63
_INLINED_RESERVED = frozenset(
    ("row_id", "begin_snapshot", "end_snapshot", "tableoid", "xmin", "cmin", "xmax", "cmax", "ctid")
)


def inlining_problem(table: TableDefinition) -> str | None:
    """Why PostgreSQL can hold no rows of the table outside of files; None when it can.

    The stock client makes no inlined data table for such a table either, or refuses to create the table itself.
    """
    if len(table.columns) > _INLINED_COLUMNS_MAX:
        return f"it has {len(table.columns)} columns, more than {_INLINED_COLUMNS_MAX}"
    for column in table.columns:
        if fold(column.name) in _INLINED_RESERVED:
            return f"its column {quoted(column.name)} has a name that PostgreSQL or DuckLake uses"
        if len(column.name.encode("utf-8", "replace")) > _INLINED_NAME_BYTES_MAX:
            return f"the name of its column {quoted(column.name)} is longer than {_INLINED_NAME_BYTES_MAX} bytes"
    return None


# --- row images -------------------------------------------------------------------------------------------------------


def conformed_row(table: TableDefinition, row: Mapping[str, RowValue]) -> dict[str, RowValue]:
    """The full image of a row that was made before the table was altered: without columns that are gone."""
    names = {fold(column.name) for column in table.columns}
    return complete_row(table, {name: value for name, value in row.items() if fold(name) in names})


def complete_row(table: TableDefinition, row: Mapping[str, RowValue]) -> dict[str, RowValue]:
    """Return the full image under the table's own column names: missing columns are NULL or their default.

    Raises InvalidChangeError for an unknown column, one given twice, a value of another type, or NULL where none may be.
    """
    given: dict[str, RowValue] = {}
    by_name = {column.name: column for column in table.columns}
    for name, value in row.items():
        column = by_name.get(name) or table.column(name)
        if column.name in given:
            raise InvalidChangeError(
                InvalidCode.COLUMN_GIVEN_TWICE,
                f"a row of table {quoted(table.name)} gives column {quoted(column.name)} twice",
            )
        given[column.name] = value
    full: dict[str, RowValue] = {}
    for column in table.columns:
        value = given.get(column.name)
        if column.name not in given and column.default is not None:
            value = default_value(column.type, column.default)
        if value is None and not column.nullable:
            raise InvalidChangeError(
                InvalidCode.NULL_NOT_ALLOWED,
                f"column {quoted(column.name)} of table {quoted(table.name)} may not be NULL",
            )
        try:
            if column.name in given:
                check_json_type(column.type, value)
            canonical_value(column.type, value)
            check_nested_text(column.type, value)
        except ValueError as error:
            shown = str(value) if len(str(value)) <= 60 else str(value)[:57] + "..."
            raise InvalidChangeError(
                InvalidCode.VALUE_INVALID, f"column {quoted(column.name)}: the value {quoted(shown)!r} {error}"
            ) from None
        full[column.name] = value
    return full
