"""The one Spark session of a run, with settings of a user's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession


@contextmanager
def session_with(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    """The session has this setting, and afterwards what it had."""
    before = spark.conf.get(name, None)
    spark.conf.set(name, value)
    try:
        yield
    finally:
        if before is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, before)
