"""What the Spark UI says of the jobs of an operation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

_DESCRIPTION = "spark.job.description"


@contextmanager
def shown_as(spark: SparkSession, operation: str, table: str, snapshot_id: int) -> Iterator[None]:
    """Describe the jobs of this thread, in a session that has a driver of its own: Spark Connect has none to tell."""
    context = getattr(spark, "sparkContext", None)
    if context is None:
        yield
        return
    before = context.getLocalProperty(_DESCRIPTION)
    context.setJobDescription(f"commitlog: {operation} {table} at snapshot {snapshot_id}")
    try:
        yield
    finally:
        context.setLocalProperty(_DESCRIPTION, before)
