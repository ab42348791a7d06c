"""Spark's Python workers, and what is done there and nowhere else."""

import gc
from importlib import import_module

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

SOURCE = "commitlog.spark.source"


def test_keep_imports_when_the_source_is_imported_then_holds_for_workers_and_not_for_the_driver(
    spark: SparkSession,
) -> None:
    @sf.udf("long")  # type: ignore[untyped-decorator]
    def kept(_):  # type: ignore[no-untyped-def]
        import_module(SOURCE)
        return gc.get_freeze_count()

    [row] = spark.range(1).select(kept("id").alias("kept")).collect()
    assert row.kept > 10_000
    import_module(SOURCE)
    assert gc.get_freeze_count() == 0
