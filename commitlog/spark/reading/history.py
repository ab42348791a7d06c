"""A table's history as rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict

from pyspark.sql import DataFrame, SparkSession

from commitlog.catalog.queries import CatalogSnapshot

_SCHEMA = (
    "snapshot_id bigint, `time` timestamp_ltz, writer_id string, changes array<string>, author string, message string, "
    "extra string"
)


def history(spark: SparkSession, snapshots: Iterable[CatalogSnapshot]) -> DataFrame:
    """Snapshots as rows, in their order."""
    # Spark Connect takes no tuple for an array.
    rows = [{**asdict(each), "changes": [*each.changes]} for each in snapshots]
    return spark.createDataFrame(rows, _SCHEMA)
