"""Arrow types and DuckLake types: which column a schema asks for, and whether a file's column fits a table's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import time
from typing import Any

import pyarrow as pa

from commitlog.domain.model import ColumnSpec
from commitlog.domain.model.types import ColumnType, can_widen, parse_type, quote
from commitlog.errors import DataFileError

_PLAIN = {
    pa.bool_(): "boolean",
    pa.int8(): "int8", pa.int16(): "int16", pa.int32(): "int32", pa.int64(): "int64",
    pa.uint8(): "uint8", pa.uint16(): "uint16", pa.uint32(): "uint32", pa.uint64(): "uint64",
    pa.float16(): "float32", pa.float32(): "float32", pa.float64(): "float64",
    pa.string(): "varchar", pa.large_string(): "varchar", pa.string_view(): "varchar",
    pa.binary(): "blob", pa.large_binary(): "blob", pa.binary_view(): "blob",
    pa.date32(): "date", pa.date64(): "date",
}  # fmt: skip
_TIMESTAMPS = {"s": "timestamp_s", "ms": "timestamp_ms", "us": "timestamp", "ns": "timestamp_ns"}
_EXTENSIONS = {"arrow.uuid": "uuid", "arrow.json": "json", "arrow.bool8": "boolean"}
_MEANINGLESS = frozenset({"pandas.period"})
"""Extensions without which what they are stored as says nothing: a period is a number of months, or of whatever it counts."""
_TIMESTAMP_NAMES = frozenset(_TIMESTAMPS.values())
_FIELD_ID = b"PARQUET:field_id"
# What Parquet has no type for is stored as one of these.
_STORED_AS = {
    "json": {"varchar"},
    "blob": {"varchar"},
    "varchar": {"json"},
    "uuid": {"blob", "varchar"},
    "interval": {"blob"},
    "geometry": {"blob"},
    "int128": {"float64", "int64", "uint64", "decimal"},
    "uint128": {"float64", "int64", "uint64", "decimal"},
    "timetz": {"time"},
}


def columns_of(schema: pa.Schema) -> tuple[ColumnSpec, ...]:
    """The columns that an Arrow schema asks for.

    Raises:
        DataFileError: a column's type has no DuckLake type; the message names it.
    """
    return tuple(ColumnSpec(field.name, _type_text(field), nullable=field.nullable) for field in schema)


def _type_text(field: pa.Field) -> str:
    text = type_text(field.type)
    if text is None:
        raise DataFileError(
            f"column {field.name}: the Arrow type {field.type} has no DuckLake type; cast it first, for example to "
            f"{_nearest(field.type)}"
        )
    return text


def _nearest(data_type: pa.DataType) -> str:
    return "int64" if pa.types.is_duration(data_type) else "string"


def type_text(data_type: pa.DataType) -> str | None:
    """The DuckLake type of an Arrow type; None when there is none."""
    # Before anything else: a program's own ones are not hashable.
    if isinstance(data_type, pa.BaseExtensionType):
        if data_type.extension_name in _MEANINGLESS:
            return None
        return _EXTENSIONS.get(data_type.extension_name) or type_text(data_type.storage_type)
    plain = _PLAIN.get(data_type)
    if plain is not None:
        return plain
    if _is_encoded(data_type):
        return type_text(data_type.value_type)
    if pa.types.is_timestamp(data_type):
        return "timestamptz" if data_type.tz is not None else _TIMESTAMPS[data_type.unit]
    if pa.types.is_time(data_type):
        return "time"
    if pa.types.is_decimal(data_type):
        return (
            f"decimal({data_type.precision},{data_type.scale})"
            if data_type.precision <= 38 and data_type.scale >= 0
            else None
        )
    if pa.types.is_fixed_size_binary(data_type):
        return "blob"
    return _nested_text(data_type)


def _is_encoded(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_dictionary(data_type) or pa.types.is_run_end_encoded(data_type))


def _nested_text(data_type: pa.DataType) -> str | None:
    if pa.types.is_struct(data_type):
        inner = [(field.name, type_text(field.type)) for field in fields_of(data_type)]
        if not inner or any(text is None for _, text in inner):
            return None
        return "struct(" + ", ".join(f"{quote(name)} {text}" for name, text in inner) + ")"
    if pa.types.is_map(data_type):
        key, value = type_text(data_type.key_type), type_text(data_type.item_type)
        return f"map({key}, {value})" if key and value else None
    if is_list(data_type):
        element = type_text(data_type.value_type)
        return f"list({element})" if element else None
    return None


_INFINITE = {
    (bits, sign * (2 ** (bits - 1) - 1)): text
    for bits in (32, 64)
    for sign, text in ((1, "infinity"), (-1, "-infinity"))
}
"""As DuckDB has them in Parquet, by the bits of the type."""


def is_list(data_type: pa.DataType) -> bool:
    """Whether it is one of Arrow's list types."""
    return bool(
        pa.types.is_list(data_type)
        or pa.types.is_large_list(data_type)
        or pa.types.is_fixed_size_list(data_type)
        or pa.types.is_list_view(data_type)
        or pa.types.is_large_list_view(data_type)
    )


def has_shape(expected: ColumnType, found: pa.DataType) -> bool:
    """Whether an Arrow type is nested as a column's type is."""
    shapes = {"struct": pa.types.is_struct, "map": pa.types.is_map, "list": is_list}
    return expected.name in shapes and bool(shapes[expected.name](stored_type(found)))


def stored_type(data_type: pa.DataType) -> pa.DataType:
    """What an extension, such as a tensor, is stored as; any other type itself."""
    return data_type.storage_type if isinstance(data_type, pa.BaseExtensionType) else data_type


def shown_type(data_type: pa.DataType) -> str:
    """A type for a message."""
    text = str(data_type)
    return text if len(text) <= 80 else text[:77] + "..."


def fields_of(data_type: pa.DataType) -> Iterator[Any]:
    """The fields inside a nested type, by their roles in DuckLake's order: a map's key comes before its value."""
    data_type = stored_type(data_type)
    if pa.types.is_struct(data_type):
        yield from (data_type.field(index) for index in range(data_type.num_fields))
    elif pa.types.is_map(data_type):
        yield data_type.key_field
        yield data_type.item_field
    elif is_list(data_type):
        yield data_type.value_field


def field_id(field: pa.Field) -> int | None:
    """The id that a field of a Parquet file has; None where it has none."""
    value = (field.metadata or {}).get(_FIELD_ID)
    return None if value is None or int(value) < 0 else int(value)


def leaf_count(data_type: pa.DataType) -> int:
    """How many Parquet columns a field of this type takes."""
    inner = list(fields_of(data_type))
    return sum(leaf_count(field.type) for field in inner) if inner else 1


def fits(expected: ColumnType, found: pa.DataType) -> bool:
    """Whether a reader can take values of a file's flat column as the table's type without loss."""
    # In a file its booleans are mere numbers.
    text = type_text(found.storage_type if isinstance(found, pa.Bool8Type) else found)
    if text is None:
        return False
    given = parse_type(text)
    if given == expected or can_widen(given, expected) or given.name in _STORED_AS.get(expected.name, ()):
        return True
    if given.name in _TIMESTAMP_NAMES and expected.name in _TIMESTAMP_NAMES:
        return True
    if expected.name == "decimal" and given.name == "decimal":
        return expected.scale >= given.scale and expected.precision - expected.scale >= given.precision - given.scale
    return expected.name == "variant"


def to_rows(rows: pa.Table | pa.RecordBatch, **how: Any) -> list[dict[str, Any]]:
    """Rows as Python's values; as texts what Arrow has no value for where there is no pandas, nanoseconds, and what Python has
    none for, days and times that are infinite or of years that it does not know, times of day such as 24:00:00.

    how: for ``to_pylist``.
    """
    try:
        return _python_rows(rows, how)
    except ValueError:
        without_ns = pa.schema([each.with_type(with_text(each.type, _is_plain_ns)) for each in rows.schema])
        if without_ns == rows.schema:
            raise
        return _python_rows(rows.cast(without_ns), how)


def _python_rows(rows: pa.Table | pa.RecordBatch, how: Mapping[str, Any]) -> list[dict[str, Any]]:
    if not any(map(_has_strange_times, rows.columns)):
        with suppress(OverflowError):
            found: list[dict[str, Any]] = rows.to_pylist(**how)
            return found
    columns = [[_value_or_text(each, how) for each in column] for column in rows.columns]
    return [dict(zip(rows.schema.names, row, strict=True)) for row in zip(*columns, strict=True)]


def _has_strange_times(values: pa.ChunkedArray) -> bool:
    """Whether there may be times of day of which Python makes others: 24:00:00 becomes 00:00:00, and nanoseconds are cut."""
    units = set(_time_units(values.type))
    try:
        if units:
            values.validate(full=True)
    except pa.ArrowInvalid:
        return True
    return "ns" in units


def _time_units(data_type: pa.DataType) -> Iterator[str]:
    if _is_encoded(data_type):
        data_type = data_type.value_type
    if pa.types.is_time(data_type):
        yield data_type.unit
    for field in fields_of(data_type):
        yield from _time_units(field.type)


def _time_or_text(scalar: Any) -> time | str:
    seconds, nanoseconds = divmod(scalar.cast(pa.time64("ns")).value, 1_000_000_000)
    if 0 <= seconds < 86_400 and nanoseconds % 1000 == 0:
        found: time = scalar.as_py()
        return found
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{text}.{nanoseconds:09}" if nanoseconds else text


def _value_or_text(scalar: Any, how: Mapping[str, Any]) -> Any:
    if scalar.is_valid and _is_encoded(scalar.type):
        return _value_or_text(scalar.value, how)
    if scalar.is_valid and pa.types.is_time(scalar.type):
        return _time_or_text(scalar)
    if not scalar.is_valid or not any(_time_units(scalar.type)):
        with suppress(OverflowError):
            return scalar.as_py(**how)
    if isinstance(scalar, pa.StructScalar):
        return {name: _value_or_text(each, how) for name, each in scalar.items()}
    if pa.types.is_map(scalar.type):
        pairs = [(_value_or_text(each[0], how), _value_or_text(each[1], how)) for each in scalar.values]
        return dict(pairs) if how.get("maps_as_pydicts") else pairs
    if is_list(scalar.type):
        return [_value_or_text(each, how) for each in scalar.values]
    return _INFINITE.get((scalar.type.bit_width, scalar.value)) or scalar.cast(pa.string()).as_py()


def _is_plain_ns(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(data_type) and data_type.unit == "ns" and data_type.tz is None)


def with_text(data_type: pa.DataType, is_text: Callable[[pa.DataType], bool]) -> pa.DataType:
    """A type with text in the place of some others, also within nested ones."""
    if is_text(data_type):
        return pa.string()
    if pa.types.is_struct(data_type):
        return pa.struct([each.with_type(with_text(each.type, is_text)) for each in data_type])
    if pa.types.is_map(data_type):
        return pa.map_(with_text(data_type.key_type, is_text), with_text(data_type.item_type, is_text))
    return pa.list_(with_text(data_type.value_type, is_text)) if is_list(data_type) else data_type
