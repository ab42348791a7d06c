"""The columns that `format("commitlog")` gives, told without what reads rows: a process of its own is asked for them first."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql.types import LongType, StringType, StructField, StructType

from commitlog.client.tables.missing import missing_table
from commitlog.client.tables.names import parse_table_name
from commitlog.domain.model.definitions import Column
from commitlog.spark.columns import held_columns, scan_schema
from commitlog.spark.connection import catalog_of, connect
from commitlog.spark.reading.snapshots import snapshot_of
from commitlog.spark.source.options import SourceOptions

CHANGE, SNAPSHOT = "_change", "_snapshot_id"


def source_schema(options: SourceOptions, table: str) -> StructType:
    """What a read gives: the table's columns, as of the snapshot that the options name; with the option `changes` also
    what became of a row, and in which snapshot. Columns that Spark cannot hold are left out, with a warning.

    Raises:
        TableNotFoundError: there is no such table at the snapshot.
    """
    log, name = connect(options.settings), parse_table_name(table)
    snapshot_id = snapshot_of(log, options.text("snapshot"), options.text("timestamp"))
    catalog = catalog_of(log)
    catalog.check_snapshot(snapshot_id)
    found = catalog.table_at(name.schema, name.name, snapshot_id)
    if found is None:
        raise missing_table(name, snapshot_id, catalog)
    return table_schema(held_columns(found.definition.columns, str(name)), changes=options.flag("changes"))


def table_schema(columns: Iterable[Column], *, changes: bool = False) -> StructType:
    fields = [StructField(each.name, each.dataType, True) for each in scan_schema(columns).fields]
    if changes:
        fields += [StructField(CHANGE, StringType(), False), StructField(SNAPSHOT, LongType(), False)]
    return StructType(fields)
