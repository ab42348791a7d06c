"""How a table's definition is made, and what it may hold.

``define``, and ``alter`` in `altering`, are used by ``decide`` (is the request possible?), by ``replay`` (what is the table
now?) and by the projector (which rows of the catalog change?), so that the three cannot disagree.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from decimal import Decimal

from commitlog.domain.model import (
    BIGINT_MAX,
    BIGINT_MIN,
    ColumnSpec,
    CreateTable,
    DataFile,
    ForeignKeySpec,
    Granularity,
    InvalidCode,
    PartitionSpec,
    RowValue,
    Scalar,
)
from commitlog.domain.model.definitions import (
    FOREIGN_PATHS,
    HANDLER_PREFIX,
    REPLICATED,
    STATISTICS_COLUMNS,
    Column,
    ForeignKey,
    PartitionKey,
    TableDefinition,
    quoted,
    quoted_value,
)
from commitlog.domain.model.typed_values import (
    canonical_value,
    check_float_digits,
    check_second_digits,
    timetz_text,
    value_text,
)
from commitlog.domain.model.types import (
    FLOATS,
    INTEGER_BITS,
    NESTED,
    TIMESTAMPS,
    ColumnType,
    fold,
    is_keyable,
    parse_type,
)
from commitlog.errors import InvalidChangeError

_POLICIES = ("ABORT", "LAST_UPDATE_WINS", "KEEP_EXISTING")
_NO_DEFAULT = "NULL"
_PROPERTIES = ("conflict_granularity", "on_conflict", FOREIGN_PATHS, STATISTICS_COLUMNS, REPLICATED)
_YEARS = {"date", *TIMESTAMPS}
_PART = ColumnType("int64")
_PARTS = {"year": (BIGINT_MIN, BIGINT_MAX), "month": (1, 12), "day": (1, 31), "hour": (0, 23)}
_BUCKETS_MAX = 4096
_COUNT = re.compile(r"0|[1-9][0-9]{0,3}")
_INLINED_COLUMNS_MAX = 1_590
_INLINED_NAME_BYTES_MAX = 63
_INLINED_RESERVED = frozenset(
    ("row_id", "begin_snapshot", "end_snapshot", "tableoid", "xmin", "cmin", "xmax", "cmax", "ctid")
)


def column_type(text: str) -> ColumnType:
    """A column's type from its text; raise InvalidChangeError when there is none such."""
    try:
        return parse_type(text)
    except ValueError as error:
        raise InvalidChangeError(InvalidCode.TYPE_UNKNOWN, str(error)) from None


def default_text(name: str, data_type: ColumnType, default: str | None) -> str | None:
    """The one text of a default that every reader takes; raise InvalidChangeError unless it can be a value of the type.

    Who cannot cast the default of one column can open none of the lake's tables.
    """
    if default is None:
        return None
    if data_type.name in NESTED:
        raise InvalidChangeError(
            InvalidCode.DEFAULT_INVALID, f"column {quoted(name)}: a default of a nested type is not supported"
        )
    try:
        canonical = canonical_value(data_type, default)
        check_second_digits(data_type, default)
    except ValueError as error:
        raise InvalidChangeError(
            InvalidCode.DEFAULT_INVALID, f"column {quoted(name)}: the default {default!r} {error}"
        ) from None
    if isinstance(canonical, Decimal):
        # With all its digits, as the stock client has it.
        return f"{canonical:.{data_type.scale}f}"
    text = timetz_text(default) if data_type.name == "timetz" else value_text(data_type, canonical)
    if text == _NO_DEFAULT:
        raise InvalidChangeError(
            InvalidCode.DEFAULT_INVALID,
            f"column {quoted(name)}: the text {_NO_DEFAULT} is what DuckLake's catalog has where there is no default",
        )
    return text


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


def build_column(spec: ColumnSpec, column_id: int) -> Column:
    """Give ``spec`` and its nested fields ids from ``column_id`` on, depth first."""
    data_type = column_type(spec.type)
    default = default_text(spec.name, data_type, spec.default)
    column, _ = _with_ids(spec.name, data_type, column_id)
    return column.replace(nullable=spec.nullable, default=default)


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
        key = PartitionKey(column.column_id, spec.transform)
        _check_transform(column, key)
        if key in keys:
            raise InvalidChangeError(
                InvalidCode.PARTITION_KEY_INVALID,
                f"partition key {spec.transform}({quoted(column.name)}) is given twice",
            )
        keys[key] = None
    return tuple(keys)


def _check_transform(column: Column, key: PartitionKey) -> None:
    transform, buckets = key.transform, key.buckets
    if column.type.name in NESTED:
        raise InvalidChangeError(
            InvalidCode.PARTITION_KEY_INVALID,
            f"column {quoted(column.name)} is {column.type.name} and cannot be a partition key",
        )
    if transform == "identity":
        return
    if buckets is not None:
        if not 0 < buckets <= _BUCKETS_MAX:
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
    if key not in _PROPERTIES:
        raise InvalidChangeError(
            InvalidCode.PROPERTY_UNKNOWN, f"unknown table property {key!r}; known are {', '.join(_PROPERTIES)}"
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
    if value not in _POLICIES and not re.fullmatch(HANDLER_PREFIX + r"[\w.-]+", value):
        raise InvalidChangeError(
            InvalidCode.POLICY_UNKNOWN, f"on_conflict is {', '.join(_POLICIES)} or handler:NAME, not {value!r}"
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
    constraints = [parent.primary_key, *parent.unique]
    if theirs not in constraints:
        # The pairs say what refers to what; rows are looked up by the columns in the order of the constraint.
        referring = dict(zip(theirs, own, strict=True))
        theirs = next((each for each in constraints if set(each) == set(theirs)), ())
        own = tuple([referring[column_id] for column_id in theirs])
    if not theirs:
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


def check_partition_values(table: TableDefinition, file: DataFile) -> None:
    """Check that what a file says of its partition, if it does, can be values of the table's partition keys."""
    if file.partition_values is None:
        return
    if len(file.partition_values) != len(table.partition_by):
        raise InvalidChangeError(
            InvalidCode.PARTITION_VALUES_INVALID,
            f"file {quoted(file.path)} has {len(file.partition_values)} partition values, table {quoted(table.name)} has "
            f"{len(table.partition_by)} partition keys",
        )
    for key, value in zip(table.partition_by, file.partition_values, strict=True):
        if value is None or key.buckets is not None:
            continue  # A bucket that there is not counts as unknown.
        column = table.column_by_id(key.column_id)
        try:
            if key.transform == "identity":
                canonical_value(column.type, value)
                check_float_digits(column.type, value)
            else:
                check_part(key.transform, value)
        except ValueError as error:
            raise InvalidChangeError(
                InvalidCode.PARTITION_VALUES_INVALID,
                f"file {quoted(file.path)}: the partition value {quoted_value(value)} of {quoted(column.name)} {error}",
            ) from None


def partition_texts(table: TableDefinition, values: Sequence[Scalar]) -> tuple[str | None, ...]:
    """Partition values, which were checked, as the catalog has them: each in one text, in whatever form it was given."""
    return tuple(
        [
            None if value is None else _partition_text(table, key, value)
            for key, value in zip(table.partition_by, values, strict=True)
        ]
    )


def _partition_text(table: TableDefinition, key: PartitionKey, value: Scalar) -> str:
    if key.buckets is not None:
        return str(value)
    data_type = table.column_by_id(key.column_id).type if key.transform == "identity" else _PART
    if data_type.name == "timetz":
        return timetz_text(str(value))
    return value_text(data_type, canonical_value(data_type, value))


def check_part(transform: str, value: Scalar) -> None:
    """Raise ValueError with a phrase that continues "the value ..." for what is no year, month, day or hour of a time."""
    part = canonical_value(_PART, value)
    low, high = _PARTS[transform]
    assert isinstance(part, int)
    if not low <= part <= high:
        raise ValueError(f"is no {transform}, which is {low} to {high}")


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
