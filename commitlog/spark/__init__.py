"""Spark on a log's tables: native reads and writes, and exactly-once streams.

`table` gives a table's handle, by which it is read and written through Spark's own Parquet reader and writer, which is the fast
way; `stream_into` writes streams, `transaction` several tables at once, `create_views` lets SQL read. The functions beside them
are what the handle calls. `format("commitlog")` (`commitlog.spark.source.data_source`) is there without an import. All publish
by the same code.

The names are loaded when they are asked for: each of Spark's Python workers that has to do with the data source imports this
room, and needs little of it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from commitlog.spark.changing.delete import delete
    from commitlog.spark.changing.merge import merge
    from commitlog.spark.changing.merge_clauses import Merge
    from commitlog.spark.changing.overwrite import overwrite
    from commitlog.spark.changing.update import update
    from commitlog.spark.columns import column_specs
    from commitlog.spark.maintaining.compact import compact
    from commitlog.spark.maintaining.expire import expire
    from commitlog.spark.maintaining.flush import flush
    from commitlog.spark.maintaining.verify import VerifyReport, verify
    from commitlog.spark.reading.scan import read
    from commitlog.spark.source.outcomes import outcomes
    from commitlog.spark.table_handle import SparkTable, table
    from commitlog.spark.transactions import SparkTransaction, transaction
    from commitlog.spark.views import create_views
    from commitlog.spark.writing.append import append, stream_into
    from commitlog.spark.writing.key import Key
    from commitlog.spark.writing.publish import WrittenOutcome

__all__ = [
    "Key",
    "Merge",
    "SparkTable",
    "SparkTransaction",
    "VerifyReport",
    "WrittenOutcome",
    "append",
    "column_specs",
    "compact",
    "create_views",
    "delete",
    "expire",
    "flush",
    "merge",
    "outcomes",
    "overwrite",
    "read",
    "stream_into",
    "table",
    "transaction",
    "update",
    "verify",
]

_HOMES = {
    "changing.delete": ("delete",),
    "changing.merge": ("merge",),
    "changing.merge_clauses": ("Merge",),
    "changing.overwrite": ("overwrite",),
    "changing.update": ("update",),
    "columns": ("column_specs",),
    "maintaining.compact": ("compact",),
    "maintaining.expire": ("expire",),
    "maintaining.flush": ("flush",),
    "maintaining.verify": ("VerifyReport", "verify"),
    "reading.scan": ("read",),
    "source.outcomes": ("outcomes",),
    "table_handle": ("SparkTable", "table"),
    "transactions": ("SparkTransaction", "transaction"),
    "views": ("create_views",),
    "writing.append": ("append", "stream_into"),
    "writing.key": ("Key",),
    "writing.publish": ("WrittenOutcome",),
}


def __getattr__(name: str) -> Any:
    home = next((module for module, names in _HOMES.items() if name in names), None)
    if home is None:
        raise AttributeError(f"module 'commitlog.spark' has no attribute {name!r}")
    return getattr(import_module(f"commitlog.spark.{home}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
