"""Temporary views by which plain SQL reads the tables of a log."""

from __future__ import annotations

import logging

from pyspark.sql import SparkSession

from commitlog.client import CommitLog
from commitlog.client.reading.moments import snapshot_of
from commitlog.client.tables.names import DEFAULT_SCHEMA, TableName
from commitlog.errors import DataFileError, InvalidRequestError
from commitlog.spark.columns import quoted
from commitlog.spark.connection import connect
from commitlog.spark.reading.scan import rows_at

_logger = logging.getLogger("commitlog.spark")


def create_views(spark: SparkSession, snapshot: int | None = None, *, log: CommitLog | None = None) -> dict[str, str]:
    """Create, or replace, a temporary view of the session for each table, all as of one snapshot.

    A table of schema ``main`` is read by its own name, and ``sales.orders`` by ``sales_orders``. A table that Spark cannot read
    is left out, with a warning that says why. Views stay as of their snapshot: call this again to see what came since.

    Args:
        spark: the session.
        snapshot: as of which snapshot; None is the newest, with all that was committed before.
        log: the log; None connects by the settings found.

    Returns:
        The views' names by those of the tables.

    Raises:
        SnapshotNotFoundError: there is no such snapshot, or not any more.
        InvalidRequestError: two tables would have a view of the same name; none is created.
    """
    to_log = connect() if log is None else log
    at = snapshot_of(to_log, snapshot, None)
    tables = [TableName(schema, name) for schema, name, _ in to_log.contents().tables(at)]
    views = {each: each.name if each.schema == DEFAULT_SCHEMA else f"{each.schema}_{each.name}" for each in tables}
    _check_different(views)
    created = {}
    for table, view in views.items():
        try:
            rows = rows_at(spark, str(table), at, to_log, is_pinned=snapshot is not None)
        except DataFileError as error:
            _logger.warning("table %s has no view: %s", table, error)
            continue
        rows.createOrReplaceTempView(quoted(view))
        created[str(table)] = view
    return created


def _check_different(views: dict[TableName, str]) -> None:
    by_view: dict[str, TableName] = {}
    for table, view in views.items():
        if (other := by_view.setdefault(view.lower(), table)) is not table:
            raise InvalidRequestError(
                f"tables {other} and {table} would both be the view {view}: create views of your own by "
                "commitlog.spark.table(spark, name).read().createOrReplaceTempView(...)"
            )
