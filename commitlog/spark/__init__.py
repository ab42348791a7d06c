"""Spark on a log's tables: native reads and writes, and exactly-once streams.

`append`, `read`, `stream_into` and the others here use Spark's own Parquet reader and writer, which is the fast way;
`format("commitlog")` (`commitlog.spark.source`) is there without an import. Both publish by the same code.
"""

from commitlog.spark.appending import append, stream_into
from commitlog.spark.columns import column_specs
from commitlog.spark.compacting import compact
from commitlog.spark.expiring import expire
from commitlog.spark.flushing import flush
from commitlog.spark.outcomes import outcomes
from commitlog.spark.publishing import Key, WrittenOutcome
from commitlog.spark.rewriting import delete, merge, overwrite, update
from commitlog.spark.scanning import read
from commitlog.spark.transacting import SparkTransaction, transaction
from commitlog.spark.verifying import VerifyReport, verify

__all__ = [
    "Key",
    "SparkTransaction",
    "VerifyReport",
    "WrittenOutcome",
    "append",
    "column_specs",
    "compact",
    "delete",
    "expire",
    "flush",
    "merge",
    "outcomes",
    "overwrite",
    "read",
    "stream_into",
    "transaction",
    "update",
    "verify",
]
