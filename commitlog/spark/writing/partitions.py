"""Rows of a partitioned table, written as files of one partition each.

A stock reader leaves files out by their partition values, so a file that holds rows of several partitions has none and
is opened by every query. The columns that say the partition stay in the file: a partition is told by directories of
their own (``commitlog_p0=v2024/commitlog_p1=vDE``), whose text Spark has no reason to escape.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from commitlog.client.files.data_files import read_data_file
from commitlog.client.tables.partitions import DIRECTORY, PLAIN, is_computed, is_storable, partition_value
from commitlog.domain.model import ColumnStatistics, DataFile, Scalar
from commitlog.domain.model.definitions import Column, PartitionKey, TableDefinition
from commitlog.spark.columns import quoted
from commitlog.spark.writing.parquet_files import write_new

_NAMED = re.compile(rf"/{DIRECTORY}(\d+)=(n|v[^/]*|h[0-9a-f]{{64}})(?=/)")
_FOOTER_READERS_MAX = 8
_EPOCH = "TIMESTAMP_NTZ '1970-01-01 00:00:00'"
_SEED_ZERO = -1_693_959_553
"""Spark's hash begins with 42 and takes each value's hash as the seed of the next. This value's is 0, Iceberg's seed."""
_PARTS: Mapping[str, Callable[[Expression], Expression]] = {
    "year": sf.year,
    "month": sf.month,
    "day": sf.day,
    "hour": sf.hour,
}


def directory_columns(table: TableDefinition) -> dict[str, Expression]:
    """By name what tells a row's partition, over the table's columns; nothing for keys that Spark cannot compute.

    The text is the value itself after a "v", its hash after an "h", or "n" for NULL.
    """
    found = {}
    for index, key in enumerate(table.partition_by):
        column = table.column_by_id(key.column_id)
        if is_computed(key, column):
            found[f"{DIRECTORY}{index}"] = _directory(_value(key, column))
    return found


def _value(key: PartitionKey, column: Column) -> Expression:
    value = sf.col(quoted(column.name))
    if column.type.name == "timestamptz":
        # Partitions are in UTC, whatever the session's time zone.
        value = sf.timestamp_add("MICROSECOND", sf.unix_micros(value), sf.expr(_EPOCH))
    if key.buckets is not None:
        return _bucket(value, column.type.name, key.buckets)
    return (value if key.transform == "identity" else _PARTS[key.transform](value)).cast("string")


def _bucket(value: Expression, data_type: str, buckets: int) -> Expression:
    """Iceberg's bucket, which is DuckLake's: murmur3 of the value as 8 bytes, without the sign, modulo."""
    if data_type == "date":
        number = sf.unix_date(value)
    elif data_type in ("timestamp", "timestamptz"):
        number = _micros(value)
    else:
        number = value
    hashed = sf.hash(sf.lit(_SEED_ZERO), number.cast("bigint"))
    bucket = hashed.bitwiseAND(sf.lit(2**31 - 1)) % buckets
    return sf.when(value.isNotNull(), bucket).cast("string")


def _micros(time: Expression) -> Expression:
    """Microseconds since 1970 of a time without a zone. What Spark has for that takes it for one of the session's zone, where
    some hours are left out."""
    days = sf.unix_date(time.cast("date")).cast("bigint")
    seconds = days * 86_400 + sf.hour(time) * 3_600 + sf.minute(time) * 60
    return seconds * 1_000_000 + sf.extract(sf.lit("SECOND"), time) * 1_000_000


def _directory(value: Expression) -> Expression:
    plain = sf.concat(sf.lit("v"), value)
    return sf.when(value.isNull(), "n").when(value.rlike(rf"\A{PLAIN}\z"), plain).otherwise(
        sf.concat(sf.lit("h"), sf.sha2(value.cast("binary"), 256))
    )  # fmt: skip


def write_rows(
    rows: DataFrame, table: TableDefinition, table_path: str, order: Sequence[str] = (), dropped: Sequence[str] = ()
) -> tuple[str, ...]:
    """Write rows, which `commitlog.spark.writing.column_fit.fit` has made, as files of one partition each; returns their paths.

    The rows of each file are sorted by the columns of ``order``; those ``dropped`` are then left out. What a failed write
    left is removed.
    """
    columns = directory_columns(table)
    if columns:
        rows = rows.select("*", *[value.alias(name) for name, value in columns.items()]).hint("rebalance", *columns)
    if columns or order:
        rows = rows.sortWithinPartitions(*columns, *map(quoted, order))
    return write_new(rows.drop(*dropped), table_path, list(columns))


def described(
    paths: Sequence[str],
    table: TableDefinition,
    table_path: str,
    *,
    carry_row_ids: bool = False,
    partition_values: Sequence[str | None] | None = None,
) -> list[DataFile]:
    """Files as data files of a table, with the partition that their directories say.

    Args:
        paths: of the files.
        table: the table.
        table_path: where its files are.
        carry_row_ids: whether they may have a column of row ids beside the table's.
        partition_values: instead of what directories say, as the catalog has them.

    Raises:
        DataFileError: a file does not fit the table.
    """
    known: list[Scalar] | None = None
    if partition_values is not None:
        types = [table.column_by_id(key.column_id).type for key in table.partition_by]
        pairs = zip(table.partition_by, types, partition_values, strict=True)
        known = [None if text is None else partition_value(key, data_type, text) for key, data_type, text in pairs]

    def describe(path: str) -> DataFile:
        file = read_data_file(path, table, table_path=table_path, partition_values=known, carries_row_ids=carry_row_ids)
        return file if file.partition_values is not None else _placed(file, path, table)

    with ThreadPoolExecutor(min(max(len(paths), 1), _FOOTER_READERS_MAX)) as pool:
        return list(pool.map(describe, paths))


def _placed(file: DataFile, path: str, table: TableDefinition) -> DataFile:
    """The file with the partition that its directories say, where they tell all of it."""
    texts = directory_texts(path)
    if len(texts) < len(table.partition_by) or not table.partition_by:
        return file
    assert isinstance(file.statistics, tuple)
    statistics = {each.column: each for each in file.statistics}
    values: list[Scalar] = []
    for index, key in enumerate(table.partition_by):
        column = table.column_by_id(key.column_id)
        text = texts[index]
        if text.startswith("h"):
            bound = _only_bound(statistics.get(column.name))
            if bound is None or not is_storable(bound):
                return file
            values.append(bound)
        else:
            try:
                values.append(None if text == "n" else partition_value(key, column.type, text[1:]))
            except ValueError:
                # Spark has days of more years than the log.
                return file
    return file.replace(partition_values=tuple(values))


def directory_texts(path: str) -> tuple[str, ...]:
    """The texts of the directory columns in a file's path, in the order of the keys."""
    return tuple(text for _, text in _NAMED.findall(path))


def _only_bound(statistic: ColumnStatistics | None) -> Scalar:
    if statistic is None or statistic.null_count != 0 or statistic.min != statistic.max:
        return None
    return statistic.min
