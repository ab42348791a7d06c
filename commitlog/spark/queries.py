"""Which snapshot a Spark query reads, and at which one a DataFrame has been read.

Spark tells its tasks which query they are of, and nothing else that all of them know: whatever executor they run in, they
agree in the catalog on the snapshot that the query reads. What `commitlog.spark.read` gives carries its snapshot in its
plan, by the name of an alias, so that whatever is made of it can still be told to have been read then.
"""

from __future__ import annotations

import re
from functools import lru_cache

from pyspark import TaskContext
from pyspark.sql import DataFrame

from commitlog.client import CommitLog
from commitlog.spark.publishing import catalog_of

_OF_QUERY = ("spark.app.id", "spark.sql.execution.id", "spark.sql.execution.query.id")
"""The local properties that tell one query, each time it runs, from all others; the last one only newer versions set."""
_MARK = re.compile(r"_commitlog_(\d+)_at_(\d+)\b")


def query_of_task(otherwise: str) -> str:
    """The name of the query that this task is of. A job of the RDD interface is none: there each stage is one of
    ``otherwise``, which is the plan's own name."""
    context = TaskContext.get()
    assert context is not None, "only tasks are of a query"
    names = [context.getLocalProperty(each) for each in _OF_QUERY]
    return f"{otherwise}/{context.stageId()}" if names[1] is None else "/".join(each or "" for each in names)


@lru_cache(maxsize=64)
def agreed_snapshot(log: CommitLog, query: str) -> int:
    """The snapshot that a query reads: the newest when the first of its tasks asked."""
    return catalog_of(log).agreed_snapshot(query, log.head_snapshot_id)


def marked(df: DataFrame, table_id: int, snapshot_id: int) -> DataFrame:
    """Rows of a table, with a plan that says at which snapshot they were read."""
    return df.alias(f"_commitlog_{table_id}_at_{snapshot_id}")


def read_at(df: DataFrame, table_id: int) -> int | None:
    """The oldest snapshot at which what ``df`` is made of was read from a table; None when it was not, or it was pinned."""
    if hasattr(df, "_jdf"):
        plan = str(df._jdf.queryExecution().analyzed().toString())
    else:
        plan = str(df._explain_string(extended=True))  # type: ignore[operator]
    found = [int(snapshot) for table, snapshot in _MARK.findall(plan) if int(table) == table_id]
    return min(found, default=None)
