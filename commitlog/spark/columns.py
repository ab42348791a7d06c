"""Spark's types and DuckLake's, each as the other, and the schema by which Spark reads a table's files.

Files are matched by field id, so that a renamed column is found in old files and a column that was dropped and added
again is not; `scan_schema` puts the ids, and the values of columns younger than a file, where Spark looks for them.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from pyspark.sql import SparkSession
from pyspark.sql import types as st

from commitlog.domain.model import ColumnSpec
from commitlog.domain.model.definitions import Column
from commitlog.domain.model.typed_values import blob_bytes
from commitlog.domain.model.types import ColumnType, quote
from commitlog.errors import DataFileError

FIELD_ID = "parquet.field.id"
ELEMENT_IDS = "commitlog.element.ids"
"""Metadata of a column: the field ids of the elements, keys and values in it, outer ones first. Spark has none for them."""
DEFAULT = "EXISTS_DEFAULT"
LONG_DIGITS = 18
_WORD = re.compile("[A-Za-z0-9_]+")

_TO_SPARK: Mapping[str, Callable[[], st.DataType]] = {
    "boolean": st.BooleanType,
    "int8": st.ByteType,
    "int16": st.ShortType,
    "int32": st.IntegerType,
    "int64": st.LongType,
    "uint8": st.ShortType,
    "uint16": st.IntegerType,
    "uint32": st.LongType,
    "uint64": lambda: st.DecimalType(20, 0),
    "float32": st.FloatType,
    "float64": st.DoubleType,
    "date": st.DateType,
    "timestamp": st.TimestampNTZType,
    "timestamp_s": st.TimestampNTZType,
    "timestamp_ms": st.TimestampNTZType,
    "timestamptz": st.TimestampType,
    "varchar": st.StringType,
    "json": st.StringType,
    "blob": st.BinaryType,
}
_FROM_SPARK: Mapping[type[st.DataType], str] = {
    st.BooleanType: "boolean",
    st.ByteType: "int8",
    st.ShortType: "int16",
    st.IntegerType: "int32",
    st.LongType: "int64",
    st.FloatType: "float32",
    st.DoubleType: "float64",
    st.DateType: "date",
    st.TimestampNTZType: "timestamp",
    st.TimestampType: "timestamptz",
    st.StringType: "varchar",
    st.VarcharType: "varchar",
    st.CharType: "varchar",
    st.BinaryType: "blob",
}


def spark_type(data_type: ColumnType) -> st.DataType:
    """The Spark type that holds every value of ``data_type``; raises DataFileError when there is none."""
    match data_type.name:
        case "decimal":
            return st.DecimalType(data_type.precision, data_type.scale)
        case "list":
            return st.ArrayType(spark_type(data_type.fields[0][1]))
        case "map":
            return st.MapType(spark_type(data_type.fields[0][1]), spark_type(data_type.fields[1][1]))
        case "struct":
            return st.StructType([st.StructField(name, spark_type(inner)) for name, inner in data_type.fields])
    if data_type.name not in _TO_SPARK:
        raise DataFileError(
            f"Spark has no type for {data_type}: store another type, or read and change such rows by log.table(...), without "
            "Spark"
        )
    return _TO_SPARK[data_type.name]()


def ducklake_type(data_type: st.DataType) -> str:
    """The DuckLake type that a column of Spark's ``data_type`` gets in a new table; DataFileError if there is none."""
    if isinstance(data_type, st.DecimalType):
        return f"decimal({data_type.precision},{data_type.scale})"
    if isinstance(data_type, st.ArrayType):
        return f"list({ducklake_type(data_type.elementType)})"
    if isinstance(data_type, st.MapType):
        return f"map({ducklake_type(data_type.keyType)}, {ducklake_type(data_type.valueType)})"
    if isinstance(data_type, st.StructType):
        return (
            "struct("
            + ", ".join(f"{quote(each.name)} {ducklake_type(each.dataType)}" for each in data_type.fields)
            + ")"
        )
    name = _FROM_SPARK.get(type(data_type))
    if name is None:
        raise DataFileError(f"DuckLake has no type for Spark's {data_type.simpleString()}, cast it first")
    return name


def column_specs(schema: st.StructType) -> tuple[ColumnSpec, ...]:
    """The columns of a new table that takes rows of ``schema``; each may be NULL, as in the tables that Spark itself makes:
    that a DataFrame has no NULL is no promise about the rows of others.

    Raises:
        DataFileError: DuckLake has no type for some; the message lists every one.
    """
    specs, problems = [], []
    for each in schema.fields:
        try:
            specs.append(ColumnSpec(each.name, ducklake_type(each.dataType)))
        except DataFileError as error:
            problems.append(f"column {each.name}: {error}")
    if problems:
        raise DataFileError("; ".join(problems))
    return tuple(specs)


def is_held(data_type: ColumnType) -> bool:
    """Whether Spark has a type for it."""
    try:
        spark_type(data_type)
    except DataFileError:
        return False
    return True


def unheld(columns: Iterable[Column]) -> str:
    """The columns that Spark has no type for, in words; empty where there are none."""
    return ", ".join(f"{each.name} ({each.type})" for each in columns if not is_held(each.type))


def held_columns(columns: Sequence[Column], table: str) -> tuple[Column, ...]:
    """The columns of a table that Spark can hold; a warning names the others, which reads leave out.

    Raises:
        DataFileError: Spark can hold none.
    """
    held = tuple(each for each in columns if is_held(each.type))
    if len(held) == len(columns):
        return held
    others = unheld(columns)
    if not held:
        raise DataFileError(f"Spark has no type for any column of table {table}: {others}; read it with DuckDB")
    warnings.warn(
        f"table {table} is read without {others}: Spark has no such type. DuckDB, and log.table({table!r}), read them.",
        stacklevel=3,
    )
    return held


def check_told_apart(spark: SparkSession, columns: Iterable[Column], table: str) -> None:
    """Raise DataFileError where two columns have one name to the session: it may fold letters that the log does not."""
    names: dict[str, str] = {}
    for each in columns:
        other = names.setdefault(each.name.lower(), each.name)
        if other != each.name and spark.conf.get("spark.sql.caseSensitive") != "true":
            raise DataFileError(
                f"columns {other} and {each.name} of table {table} are one name to this session: set "
                "spark.sql.caseSensitive=true, or rename one of them by tx.alter(...).rename_column(...)"
            )


def table_schema(columns: Iterable[Column]) -> st.StructType:
    """The columns as rows of the table have them.

    Raises:
        DataFileError: Spark has no type for one of them.
    """
    return st.StructType([st.StructField(each.name, spark_type(each.type)) for each in columns])


def scan_schema(columns: Iterable[Column], scan_names: Mapping[int, str] | None = None) -> st.StructType:
    """The schema to read files with: field ids down to the nested fields, and defaults for files without a column.

    Args:
        columns: the table's columns.
        scan_names: other names for some columns, by column id.
    """
    names = scan_names or {}
    return st.StructType([_scan_field(column, names.get(column.column_id, column.name)) for column in columns])


def field_metadata(column: Column) -> dict[str, object]:
    """What a column that is written carries, so that the file has all its field ids."""
    elements = list(_element_ids(column))
    return {FIELD_ID: column.column_id, **({ELEMENT_IDS: elements} if elements else {})}


def _element_ids(column: Column) -> Iterator[int]:
    for child in column.children:
        if column.type.name != "struct":
            yield child.column_id
        yield from _element_ids(child)


def _scan_field(column: Column, name: str) -> st.StructField:
    metadata: dict[str, object] = {FIELD_ID: column.column_id}
    if column.initial_default is not None:
        metadata[DEFAULT] = default_expression(spark_type(column.type), column.initial_default)
    return st.StructField(name, identified_type(column), True, metadata)


def identified_type(column: Column) -> st.DataType:
    """The Spark type of a column whose nested fields carry their field ids."""
    match column.type.name:
        case "struct":
            return st.StructType([_scan_field(child, child.name) for child in column.children])
        case "list":
            return st.ArrayType(identified_type(column.children[0]))
        case "map":
            return st.MapType(identified_type(column.children[0]), identified_type(column.children[1]))
    return spark_type(column.type)


def is_default_of_rows(field: st.StructField) -> bool:
    """Whether files without the column have a default that Spark's reader knows only when it goes row by row."""
    long_decimal = isinstance(field.dataType, st.DecimalType) and field.dataType.precision > LONG_DIGITS
    return DEFAULT in field.metadata and (long_decimal or isinstance(field.dataType, st.BinaryType))


def default_expression(data_type: st.DataType, text: str) -> str:
    """The SQL of a default's text as a value of the type, whatever a session takes escapes and TIMESTAMP for."""
    if isinstance(data_type, st.BinaryType):
        return f"X'{blob_bytes(text).hex()}'"
    if isinstance(data_type, st.StringType):
        return f"CAST(X'{text.encode().hex()}' AS STRING)"
    name = "TIMESTAMP_LTZ" if isinstance(data_type, st.TimestampType) else data_type.simpleString().upper()
    return f"CAST('{text}' AS {name})"


def quoted(name: str) -> str:
    """A column's name as Spark's expressions take it, whatever is in it."""
    return "`" + name.replace("`", "``") + "`"


def are_words(names: Iterable[str]) -> bool:
    """Whether every session takes these names, quoted, for columns in SQL, which costs fewer calls of Spark than expressions.

    A session may be set to take other quoted names for patterns."""
    return all(_WORD.fullmatch(name) for name in names)
