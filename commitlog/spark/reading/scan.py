"""What a read needs of the catalog: the table, its files with their deleted rows, and the rows that are in no file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as st

from commitlog.catalog.queries import Catalog, CatalogFile
from commitlog.catalog.reader import of_one_moment
from commitlog.client import CommitLog
from commitlog.client.tables.missing import found_table
from commitlog.client.tables.names import parse_table_name
from commitlog.client.tables.stored_rows import as_text
from commitlog.domain.model import Predicate
from commitlog.domain.model.definitions import Column, TableDefinition
from commitlog.domain.model.types import NESTED
from commitlog.spark.columns import check_told_apart, held_columns, is_held, spark_type
from commitlog.spark.connection import catalog_of, connect
from commitlog.spark.filters import Where, condition, conjunction, is_spark_only
from commitlog.spark.reading.arrow_rows import arrow_schema, stored_array
from commitlog.spark.reading.dataframes import Scan, dataframe
from commitlog.spark.reading.derived_filters import derived
from commitlog.spark.reading.moments import moment_in
from commitlog.spark.reading.scan_files import ScanFile
from commitlog.spark.reading.snapshots import marked, marks, snapshot_of


def read(
    spark: SparkSession,
    table: str,
    snapshot: int | None = None,
    *,
    timestamp: datetime | str | None = None,
    where: Where = None,
    log: CommitLog | None = None,
) -> DataFrame:
    """A table as a native DataFrame, as of one snapshot: a table that changes is read anew by calling this again.

    What is computed from the newest snapshot knows it: `overwrite` and `merge` by such rows are refused when the table has
    changed since. Rows of a ``snapshot`` or ``timestamp`` that was asked for may replace what came later.

    Columns of a type that Spark has not are left out, and a warning names them.

    Args:
        spark: the session.
        table: its name, ``schema.table`` or ``table``.
        snapshot: as of which snapshot; None is the newest, with all that was committed before.
        timestamp: instead, as of which moment: ISO 8601, in the session's time zone unless it says otherwise; or a datetime,
            one without a zone as Python has it, in this process's own.
        where: only rows that match, as ``(column, op, value)`` or SQL. Files are left out by their statistics and partition
            values before Spark sees them, as far as there are conditions of one column and plain values.
        log: the log; None connects by the settings found.

    Raises:
        SnapshotNotFoundError: there is no such snapshot, or not any more.
        TableNotFoundError: there is no such table at the snapshot.
    """
    to_log = connect() if log is None else log
    at = snapshot_of(to_log, snapshot, None if timestamp is None else moment_in(spark, timestamp))
    return rows_at(spark, table, at, to_log, where=where, is_pinned=snapshot is not None or timestamp is not None)


def rows_at(
    spark: SparkSession, table: str, snapshot_id: int, log: CommitLog, *, where: Where = None, is_pinned: bool
) -> DataFrame:
    """`read` at a snapshot, which the rows know unless it is the one that was asked for."""
    catalog = catalog_of(log)
    scan = scan_at(catalog, table, snapshot_id, where=_predicates(spark, catalog, table, snapshot_id, where))
    check_told_apart(spark, scan.columns, table)
    scan = replace(scan, columns=held_columns(scan.columns, table))
    if is_pinned:
        rows = dataframe(spark, scan)
    else:
        read_now = marks(log, scan.table_id, scan.snapshot_id)
        rows = marked(dataframe(spark, scan, read_now), read_now)
    return rows if where is None else rows.where(condition(where, rows))


def _predicates(spark: SparkSession, catalog: Catalog, table: str, at: int, where: Where) -> Sequence[Predicate]:
    if not is_spark_only(where):
        return conjunction(where)
    name = parse_table_name(table)
    found = catalog.table_at(name.schema, name.name, at)
    return () if found is None else derived(spark, where, found.definition.columns).predicates


@of_one_moment
def scan_at(catalog: Catalog, table: str, snapshot_id: int, *, where: Sequence[Predicate] = ()) -> Scan:
    """Everything that a read of a table at a snapshot takes from the catalog.

    Args:
        catalog: of the log.
        table: its name at the snapshot.
        snapshot_id: which snapshot.
        where: files that the catalog proves to hold no such row are left out.

    Raises:
        SnapshotNotFoundError: there is no such snapshot, or not any more.
        TableNotFoundError: there is no such table at the snapshot.
    """
    catalog.check_snapshot(snapshot_id)
    name = parse_table_name(table)
    found = found_table(name, snapshot_id, catalog)
    names = catalog.column_names_ever(found.definition.table_id)
    unsigned = {each.column_id for each in found.definition.columns if each.type.name == "uint64"}
    types = catalog.column_types_before(found.definition.table_id) if unsigned else []
    before = [each for each in types if each[0] in unsigned]
    files = tuple(_scan_file(each, before) for each in catalog.files_at(found, snapshot_id, where=where))
    return Scan(
        snapshot_id=snapshot_id,
        table_id=found.definition.table_id,
        columns=found.definition.columns,
        names=names,
        files=files,
        inlined=rows_as_text(found.definition, catalog.rows_at(found.definition.table_id, snapshot_id)),
    )


def _scan_file(file: CatalogFile, types_before: Sequence[tuple[int, str, int]]) -> ScanFile:
    # Of several types that came later than the file, the first to end is its own.
    stored = {id_: name for id_, name, until in reversed(types_before) if file.begin_snapshot < until}
    return ScanFile(
        data_file_id=file.data_file_id,
        path=file.path,
        record_count=file.record_count,
        file_size_bytes=file.file_size_bytes,
        deleted=file.deleted,
        delete_file_path=file.delete_file_path,
        delete_count=file.delete_count,
        name_mapping=file.name_mapping,
        partition_values=file.partition_values,
        row_id_start=file.row_id_start,
        stored_types=tuple(stored.items()),
    )


def rows_as_text(table: TableDefinition, rows: Sequence[Mapping[int, Any]]) -> pa.Table:
    """Rows that are in no file, as the catalog has them, as text: Spark casts it to the columns' types, but for nested ones,
    to which it casts no text."""
    return pa.table({column.name: _values(column, rows) for column in table.columns})


def _values(column: Column, rows: Sequence[Mapping[int, Any]]) -> pa.Array:
    values = [row.get(column.column_id, column.initial_default) for row in rows]
    if rows and column.type.name in NESTED and is_held(column.type):
        [field] = arrow_schema(st.StructType([st.StructField(column.name, spark_type(column.type))]))
        return stored_array(column, values, field.type)
    if column.type.name == "blob":
        return stored_array(column, values, pa.binary())
    return pa.array([as_text(column.type, each) for each in values], pa.string())
