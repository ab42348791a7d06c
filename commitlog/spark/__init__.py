"""Spark on a log's tables: native reads and writes, and exactly-once streams.

`append`, `read`, `stream_into` and the others here use Spark's own Parquet reader and writer, which is the fast way;
`format("commitlog")` (`commitlog.spark.source.data_source`) is there without an import. Both publish by the same code.
"""

from commitlog.spark.changing.delete import delete
from commitlog.spark.changing.merge import merge
from commitlog.spark.changing.overwrite import overwrite
from commitlog.spark.changing.update import update
from commitlog.spark.columns import column_specs
from commitlog.spark.maintaining.compact import compact
from commitlog.spark.maintaining.expire import expire
from commitlog.spark.maintaining.flush import flush
from commitlog.spark.maintaining.verify import VerifyReport, verify
from commitlog.spark.reading.scan import read
from commitlog.spark.source.outcomes import outcomes
from commitlog.spark.transaction import SparkTransaction, transaction
from commitlog.spark.writing.append import append, stream_into
from commitlog.spark.writing.key import Key
from commitlog.spark.writing.publish import WrittenOutcome

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
