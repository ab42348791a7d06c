"""The columns that `format("commitlog")` gives, told without what reads rows: a process of its own is asked for them first."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql.types import DataType, LongType, StringType, StructField, StructType

from commitlog.client.tables.missing import found_table
from commitlog.client.tables.names import parse_table_name
from commitlog.domain.model.definitions import Column
from commitlog.domain.model.types import fold
from commitlog.errors import ConfigurationError
from commitlog.spark.columns import DEFAULT, default_expression, held_columns, scan_schema
from commitlog.spark.connection import catalog_of, connect
from commitlog.spark.reading.snapshots import snapshot_of
from commitlog.spark.source.options import SourceOptions

_NEW_DEFAULT = "CURRENT_DEFAULT"
"""Metadata of a column: the SQL of what new rows have without it; Spark minds it only beside a `DEFAULT`."""
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
    found = found_table(name, snapshot_id, catalog)
    if options.flag("changes"):
        check_changes_told(found.definition.columns, str(name))
    return table_schema(held_columns(found.definition.columns, str(name)), changes=options.flag("changes"))


def check_changes_told(columns: Iterable[Column], table: str) -> None:
    """Raise ConfigurationError where a table has a column of its own by a name that tells of changes."""
    own = [each.name for each in columns if fold(each.name) in (CHANGE, SNAPSHOT)]
    if own:
        raise ConfigurationError(
            f"table {table} has a column {own[0]} of its own, and the option changes tells of changes by that name: rename the "
            "column, or follow the table without changes"
        )


def table_schema(columns: Iterable[Column], *, changes: bool = False) -> StructType:
    columns = tuple(columns)
    fields = [
        StructField(field.name, field.dataType, True, _default(field.dataType, column.default))
        for field, column in zip(scan_schema(columns).fields, columns, strict=True)
    ]
    if changes:
        fields += [StructField(CHANGE, StringType(), False), StructField(SNAPSHOT, LongType(), False)]
    return StructType(fields)


def _default(data_type: DataType, text: str | None) -> dict[str, str]:
    """How Spark knows a column's default, which it puts into rows that an INSERT leaves without the column."""
    if text is None:
        return {}
    # Whoever writes a frame's rows to files writes its metadata, too: other files there that lack the column have no default.
    return {_NEW_DEFAULT: default_expression(data_type, text), DEFAULT: "NULL"}
