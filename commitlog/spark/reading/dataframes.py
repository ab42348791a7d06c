"""A table at a snapshot as a native DataFrame over the exact list of its files.

Spark's own scan does the work (vectorised, columns pruned, filters pushed down); the catalog says which files, which of
their rows are deleted, and which rows are in no file. Files without deleted rows are read plainly.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TypeAlias

import pyarrow as pa
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from commitlog.client.files.file_columns import ROW_ID, ROW_ID_FIELD
from commitlog.domain.model import MappedColumn
from commitlog.domain.model.definitions import Column
from commitlog.domain.model.types import fold, parse_type
from commitlog.spark.columns import FIELD_ID, default_expression, quoted, scan_schema, spark_type
from commitlog.spark.reading.exact_files import file_rows
from commitlog.spark.reading.listed_files import FIELD_IDS
from commitlog.spark.reading.scan_files import FILE, POSITION, ROW_ID_START, ScanFile

_Mapping: TypeAlias = "tuple[MappedColumn, ...] | None"
_StoredTypes: TypeAlias = "tuple[tuple[int, str], ...]"
NO_METADATA: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class Scan:
    """All that a read of one table at one snapshot needs from the catalog.

    Attributes:
        columns: the table's columns at the snapshot.
        names: every name that a column of this table ever had, folded, with the ids of its columns.
        files: the data files.
        inlined: rows that are in no file, as columns named like the table's.
    """

    snapshot_id: int
    table_id: int
    columns: tuple[Column, ...]
    names: Mapping[str, frozenset[int]]
    files: tuple[ScanFile, ...]
    inlined: pa.Table


def dataframe(spark: SparkSession, scan: Scan, metadata: Mapping[str, str] = NO_METADATA) -> DataFrame:
    """The rows of ``scan``, with the table's columns in its order; ``metadata`` is what each of them carries."""
    parts = [
        rows
        for (mapping, stored_types), files in _alike(scan.files).items()
        for some in ([each for each in files if not each.has_deleted], [each for each in files if each.has_deleted])
        if some
        for rows in [_rows(spark, scan, mapping, stored_types, some, metadata=metadata)]
    ]
    if scan.inlined.num_rows or not parts:
        parts.append(typed_rows(spark, scan.columns, scan.inlined, metadata=metadata))
    return reduce(DataFrame.union, parts)


def with_positions(spark: SparkSession, scan: Scan) -> DataFrame:
    """The rows of ``scan`` that are in files, each with its ``ROW_ID``, and ``FILE`` and ``POSITION``: where it stands."""
    return _standing(spark, scan, ROW_ID, FILE, POSITION)


def with_row_ids(spark: SparkSession, scan: Scan) -> DataFrame:
    """The rows of ``scan`` that are in files, each with ``ROW_ID``: the file's own, or counted from its first."""
    return _standing(spark, scan, ROW_ID)


def _standing(spark: SparkSession, scan: Scan, *more: str) -> DataFrame:
    parts = [_rows(spark, scan, *alike, files, *more) for alike, files in _alike(scan.files).items()]
    if not parts:
        none = [sf.lit(0).cast("bigint").alias(name) for name in more]
        return typed_rows(spark, scan.columns, scan.inlined).where("false").select("*", *none)
    return reduce(DataFrame.union, parts)


def _alike(files: Iterable[ScanFile]) -> dict[tuple[_Mapping, _StoredTypes], list[ScanFile]]:
    """The files by what tells how they are read."""
    groups: dict[tuple[_Mapping, _StoredTypes], list[ScanFile]] = {}
    for each in files:
        groups.setdefault((each.name_mapping, each.stored_types), []).append(each)
    return groups


def _rows(
    spark: SparkSession,
    scan: Scan,
    mapping: _Mapping,
    stored_types: _StoredTypes,
    files: Sequence[ScanFile],
    *more: str,
    metadata: Mapping[str, str] = NO_METADATA,
) -> DataFrame:
    """The live rows of files that are alike as the table's columns, and ``more`` of those that tell of each row."""
    # Where Spark goes row by row it asks the session that runs the query, and not only the files' own options.
    spark.conf.set(FIELD_IDS, "true")
    wider = {c.name: spark_type(c.type) for c in scan.columns if c.column_id in dict(stored_types)}
    scan = replace(scan, columns=_as_stored(scan.columns, stored_types))
    row_ids = ROW_ID in more
    schema, chosen = _by_field_id(scan, metadata, row_ids) if mapping is None else _by_name(scan, mapping, metadata)
    rows = file_rows(spark, files, schema, placed=bool(more))
    if row_ids:
        # Rows that do not carry their id have the one that follows from where they stand.
        counted = f"{ROW_ID_START} + {POSITION}"
        chosen.append(sf.expr(f"{f'coalesce({ROW_ID}, {counted})' if mapping is None else counted} AS {ROW_ID}"))
    selected = rows.select(*chosen, *[name for name in more if name != ROW_ID])
    if not wider:
        return selected
    return selected.withColumns(
        {name: sf.col(quoted(name)).cast(kind).alias(name, metadata={**metadata}) for name, kind in wider.items()}
    )


def _as_stored(columns: Sequence[Column], stored_types: _StoredTypes) -> tuple[Column, ...]:
    types = {column_id: parse_type(text) for column_id, text in stored_types}
    return tuple(each.replace(type=types.get(each.column_id, each.type)) for each in columns)


def _by_field_id(
    scan: Scan, metadata: Mapping[str, str], row_ids: bool
) -> tuple[st.StructType, list[Expression | str]]:
    """How files are read by field id, and the columns of that. Spark pushes filters down by *name* nevertheless, so a column
    takes a name that no file has when its own was another column's once: else a filter on it would be tried on that column's
    bounds.
    """
    names = {
        column.column_id: f"_commitlog_{column.column_id}"
        for column in scan.columns
        if scan.names.get(fold(column.name), frozenset()) > {column.column_id}
    }
    schema = scan_schema(scan.columns, names)
    for field in schema.fields:
        field.metadata.update(metadata)
    # By names, which cost fewer calls of Spark than expressions. As SQL a session may take those in quotes for patterns.
    chosen: list[Expression | str] = [
        quoted(field.name) if field.name == column.name else sf.col(quoted(field.name)).alias(column.name)
        for field, column in zip(schema.fields, scan.columns, strict=True)
    ]
    if row_ids:
        schema = schema.add(st.StructField(ROW_ID, st.LongType(), True, {FIELD_ID: ROW_ID_FIELD}))
    return schema, chosen


def _by_name(
    scan: Scan, mapping: tuple[MappedColumn, ...], metadata: Mapping[str, str]
) -> tuple[st.StructType, list[Expression | str]]:
    """How files without field ids are read by the names that they came with, and the columns of that."""
    sources = {fold(each.column): each for each in mapping}
    found = [(column, sources[fold(column.name)]) for column in scan.columns if fold(column.name) in sources]
    schema = st.StructType([st.StructField(each.source_name, _mapped_type(column, each)) for column, each in found])

    def value(column: Column) -> Expression:
        each = sources.get(fold(column.name))
        data_type = spark_type(column.type)
        if each is not None:
            return sf.col(quoted(each.source_name)).cast(data_type)
        if column.initial_default is None:
            return sf.lit(None).cast(data_type)
        return sf.expr(default_expression(data_type, column.initial_default))

    return schema, [value(column).alias(column.name, metadata={**metadata}) for column in scan.columns]


def _mapped_type(column: Column, mapped: MappedColumn) -> st.DataType:
    children = {fold(each.column): each for each in mapped.children}
    if not children:
        return spark_type(column.type)
    inner = [(child, children.get(fold(child.name), MappedColumn(child.name, child.name))) for child in column.children]
    types = [_mapped_type(child, each) for child, each in inner]
    if column.type.name == "list":
        return st.ArrayType(types[0])
    if column.type.name == "map":
        return st.MapType(types[0], types[1])
    return st.StructType([st.StructField(each.source_name, kind) for (_, each), kind in zip(inner, types, strict=True)])


def typed_rows(
    spark: SparkSession,
    columns: Iterable[Column],
    rows: pa.Table,
    *more: str,
    metadata: Mapping[str, str] = NO_METADATA,
) -> DataFrame:
    """Rows as text, with the columns' names, as the columns' types; ``more`` columns as they are."""
    carried = {**metadata}
    if not rows.num_rows:
        # Text is cast to no nested type, not even where there is none.
        nothing = [sf.lit(None).cast(spark_type(c.type)).alias(c.name, metadata=carried) for c in columns]
        return spark.range(0).select(*nothing, *[sf.lit(None).alias(name) for name in more])
    values = [sf.col(quoted(c.name)).cast(spark_type(c.type)).alias(c.name, metadata=carried) for c in columns]
    return spark.createDataFrame(rows).select(*values, *more)
