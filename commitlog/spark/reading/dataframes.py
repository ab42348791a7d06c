"""A table at a snapshot as a native DataFrame over the exact list of its files.

Spark's own scan does the work (vectorised, columns pruned, filters pushed down); the catalog says which files, which of
their rows are deleted, and which rows are in no file. Files without deleted rows are read plainly; each of the others is
joined with one bitmap, in which its rows look their positions up: several times faster than an anti join on positions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TypeAlias
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import FrozenBitMap64
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from commitlog.client.files.file_columns import ROW_ID, ROW_ID_FIELD
from commitlog.domain.model import MappedColumn
from commitlog.domain.model.definitions import Column
from commitlog.domain.model.types import fold
from commitlog.errors import DataFileError
from commitlog.spark.columns import FIELD_ID, default_expression, quoted, scan_schema, spark_type

FIELD_IDS = "spark.sql.parquet.fieldId.read.enabled"
NO_POSITIONS = FrozenBitMap64()
NO_METADATA: Mapping[str, str] = {}
FILE, POSITION = "_commitlog_file", "_commitlog_position"
_ROW_ID_START = "_commitlog_row_id_start"
_DELETED, _FILE_HASH = "_commitlog_deleted", "_commitlog_file_hash"
_WORD_BITS = 64
# As SQL, which is one call to Spark's JVM; as functions it would be twenty. NULL stands for a file without deleted rows, and
# for what is behind the last of them.
_IS_LIVE = f"""NOT coalesce(getbit(get({_DELETED}, CAST({POSITION} DIV {_WORD_BITS} AS INT)),
    CAST({POSITION} % {_WORD_BITS} AS INT)) = 1, false)"""
_PATTERN = re.compile(r"[][{}*?\\]")
"""What makes a path a pattern to Spark."""
_PLACE = (f"_metadata.file_path AS {FILE}", f"_metadata.row_index AS {POSITION}")


@dataclass(frozen=True, slots=True)
class ScanFile:
    """One data file of a snapshot and the positions of its deleted rows.

    ``in_delete_file`` are those of ``deleted`` that its delete file holds; the catalog itself holds the others. Without
    ``row_id_start`` the file carries the ids of its rows.
    """

    data_file_id: int
    path: str
    record_count: int = 0
    file_size_bytes: int = 0
    deleted: FrozenBitMap64 = NO_POSITIONS
    in_delete_file: FrozenBitMap64 = NO_POSITIONS
    name_mapping: tuple[MappedColumn, ...] | None = None
    partition_values: tuple[str | None, ...] | None = None
    row_id_start: int | None = None


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
    spark.conf.set(FIELD_IDS, "true")
    parts: list[DataFrame] = []
    for mapping, files in _by_mapping(scan.files).items():
        if mapping is None:
            load = _by_field_id(spark, scan, metadata=metadata)
        else:
            load = _by_name(spark, scan, mapping, metadata=metadata)
        parts += _live_rows(files, load)
    if scan.inlined.num_rows or not parts:
        parts.append(typed_rows(spark, scan.columns, scan.inlined, metadata=metadata))
    return reduce(DataFrame.union, parts)


def with_positions(spark: SparkSession, scan: Scan) -> DataFrame:
    """The rows of ``scan`` that are in files, each with ``FILE`` and ``POSITION``: where it stands."""
    return _standing(spark, scan, row_ids=False)


def with_row_ids(spark: SparkSession, scan: Scan) -> DataFrame:
    """The rows of ``scan`` that are in files, each with ``ROW_ID``: the file's own, or counted from its first."""
    return _standing(spark, scan, row_ids=True).drop(FILE, POSITION)


def _standing(spark: SparkSession, scan: Scan, *, row_ids: bool) -> DataFrame:
    spark.conf.set(FIELD_IDS, "true")
    parts = []
    for mapping, files in _by_mapping(scan.files).items():
        if mapping is None:
            load = _by_field_id(spark, scan, row_ids=row_ids)
        else:
            load = _by_name(spark, scan, mapping, row_ids=row_ids)
        rows, names = _placed(load, files)
        deleted = [each for each in files if each.deleted]
        live = _without_deleted(rows, deleted, names) if deleted else rows
        parts.append(_numbered(live, files, names) if row_ids else live)
    if not parts:
        place = (sf.lit("").alias(FILE), sf.lit(0).cast("bigint").alias(POSITION))
        none = [*place, sf.lit(0).cast("bigint").alias(ROW_ID)] if row_ids else place
        return typed_rows(spark, scan.columns, scan.inlined).where("false").select("*", *none)
    return reduce(DataFrame.union, parts)


def positions(rows: DataFrame, scan: Scan) -> dict[int, tuple[int, ...]]:
    """Where the rows of ``with_positions``, perhaps filtered, stand: positions by data file id."""
    ids = {_plain(each.path): each.data_file_id for each in scan.files}
    found = rows.groupBy(FILE).agg(sf.sort_array(sf.collect_set(POSITION)).alias(POSITION)).collect()
    return {ids[_plain(row[FILE])]: tuple(row[POSITION]) for row in found}


Load: TypeAlias = "Callable[[Sequence[str], Sequence[str]], DataFrame]"
"""Reads files as the table's columns; the further ones are SQL over the hidden column of the scan."""


def _by_mapping(files: Iterable[ScanFile]) -> dict[tuple[MappedColumn, ...] | None, list[ScanFile]]:
    groups: dict[tuple[MappedColumn, ...] | None, list[ScanFile]] = {}
    for each in files:
        groups.setdefault(each.name_mapping, []).append(each)
    return groups


def _live_rows(files: Sequence[ScanFile], load: Load) -> Iterator[DataFrame]:
    clean = [each.path for each in files if not each.deleted]
    dirty = [each for each in files if each.deleted]
    if clean:
        yield load(clean, ())
    if dirty:
        rows, names = _placed(load, dirty)
        yield _without_deleted(rows, dirty, names).drop(FILE, POSITION)


def _placed(load: Load, files: Sequence[ScanFile]) -> tuple[DataFrame, Mapping[int, str]]:
    """The rows of files with their places, and by data file id the name that Spark gives the file there."""
    rows = load([each.path for each in files], _PLACE)
    # The scan writes file:/ where the list of its input writes file:///.
    shown = {_plain(name): name.replace("file:///", "file:/", 1) for name in rows.inputFiles()}
    return rows, {each.data_file_id: shown[_plain(each.path)] for each in files}


def _plain(path: str) -> str:
    """A path in one form: Spark's are URLs, with escapes and a scheme for local files too."""
    scheme, separator, rest = path.partition(":/")
    if not separator:
        return path
    return "/" + unquote(rest).lstrip("/") if scheme == "file" else f"{scheme}:/{unquote(rest)}"


def _without_deleted(rows: DataFrame, files: Sequence[ScanFile], names: Mapping[int, str]) -> DataFrame:
    """The rows of files but for the deleted ones.

    Rows find their file's bitmap by a hash of its path, since a join by numbers takes half the time of one by text. Two of
    a million paths have the same hash of 64 bits with odds of 1 to 30 million.
    """
    bitmaps = pa.table(
        {FILE: [names[each.data_file_id] for each in files], _DELETED: [_words(each.deleted) for each in files]}
    )
    file = f"xxhash64({FILE}) AS {_FILE_HASH}"
    by_file = rows.sparkSession.createDataFrame(bitmaps).selectExpr(file, _DELETED)
    joined = rows.selectExpr("*", file).join(sf.broadcast(by_file), _FILE_HASH, "left")
    return joined.where(_IS_LIVE).drop(_DELETED, _FILE_HASH)


def _words(positions: FrozenBitMap64) -> npt.NDArray[np.int64]:
    """A bit for each position up to the last, the lowest first in each word."""
    flags = np.zeros((positions.max() // _WORD_BITS + 1) * _WORD_BITS, np.uint8)
    flags[np.frombuffer(positions.to_array(), np.uint64).astype(np.int64)] = 1
    return np.packbits(flags, bitorder="little").view("<i8")


def _numbered(rows: DataFrame, files: Sequence[ScanFile], names: Mapping[int, str]) -> DataFrame:
    """Gives rows that do not carry their id the one that follows from where they stand."""
    starts = pa.table(
        {
            FILE: pa.array([names[each.data_file_id] for each in files], pa.string()),
            _ROW_ID_START: pa.array([each.row_id_start for each in files], pa.int64()),
        }
    )
    joined = rows.join(sf.broadcast(rows.sparkSession.createDataFrame(starts)), FILE)
    return joined.withColumn(ROW_ID, sf.coalesce(ROW_ID, sf.col(_ROW_ID_START) + sf.col(POSITION))).drop(_ROW_ID_START)


def _by_field_id(
    spark: SparkSession, scan: Scan, *, row_ids: bool = False, metadata: Mapping[str, str] = NO_METADATA
) -> Load:
    """Reads by field id. Spark pushes filters down by *name* nevertheless, so a column takes a name that no file has
    when its own was another column's once: else a filter on it would be tried on that column's bounds.
    """
    names = {
        column.column_id: f"_commitlog_{column.column_id}"
        for column in scan.columns
        if scan.names.get(fold(column.name), frozenset()) > {column.column_id}
    }
    schema = scan_schema(scan.columns, names)
    for field in schema.fields:
        field.metadata.update(metadata)
    chosen = [f"{quoted(field.name)} AS {quoted(c.name)}" for field, c in zip(schema.fields, scan.columns, strict=True)]
    if row_ids:
        schema = schema.add(st.StructField(ROW_ID, st.LongType(), True, {FIELD_ID: ROW_ID_FIELD}))
        chosen.append(ROW_ID)

    def load(paths: Sequence[str], place: Sequence[str]) -> DataFrame:
        return read_files(spark, paths, schema).selectExpr(*chosen, *place)

    return load


def _by_name(
    spark: SparkSession,
    scan: Scan,
    mapping: tuple[MappedColumn, ...],
    *,
    row_ids: bool = False,
    metadata: Mapping[str, str] = NO_METADATA,
) -> Load:
    """Reads files without field ids by the names that they came with."""
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

    chosen = [value(column).alias(column.name, metadata={**metadata}) for column in scan.columns]
    if row_ids:
        chosen.append(sf.lit(None).cast("bigint").alias(ROW_ID))

    def load(paths: Sequence[str], place: Sequence[str]) -> DataFrame:
        return read_files(spark, paths, schema).select(*chosen, *[sf.expr(each) for each in place])

    return load


def read_files(spark: SparkSession, paths: Sequence[str], schema: st.StructType | None = None) -> DataFrame:
    """Exactly these Parquet files: Spark takes a path for a pattern, and finds none whose name it takes for hidden.

    Raises:
        DataFileError: there is one that it would leave out.
    """
    for path in paths:
        if re.match(r"[._]", name := path.rpartition("/")[2]) and "=" not in name:
            raise DataFileError(
                f"Spark leaves out files whose names begin with _ or a dot, such as {path}: read the table with another "
                "client, or write its rows to other files"
            )
    reader = spark.read if schema is None else spark.read.schema(schema)
    return reader.parquet(*[_PATTERN.sub(r"\\\g<0>", path) for path in paths])


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
