"""Makes `format("commitlog")` known to Spark: it looks for a `DefaultSource` in every module named `pyspark_*`."""

from commitlog.spark.source.data_source import CommitLogDataSource


class DefaultSource(CommitLogDataSource):
    """What Spark finds."""
