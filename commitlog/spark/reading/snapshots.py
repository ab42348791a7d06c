"""Which snapshot a Spark query reads, and at which one a DataFrame has been read.

Spark tells its tasks which query they are of, and nothing else that all of them know: whatever executor they run in, they
agree in the catalog on the snapshot that the query reads. What `commitlog.spark.read` gives carries its snapshot in its
plan, by the name of an alias, so that whatever is made of it can still be told to have been read then. Where only columns are
known, not the plan, as to whoever writes for `format("commitlog")`, each column that was not computed carries it as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from threading import Lock
from typing import Any

from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from commitlog.client import CommitLog
from commitlog.client.arguments import checked_count, shown
from commitlog.errors import ConfigurationError, InvalidRequestError
from commitlog.spark.connection import catalog_of
from commitlog.spark.reading.moments import check_passed, parsed

_OF_QUERY = ("spark.app.id", "spark.sql.execution.id", "spark.sql.execution.query.id")
"""The local properties that tell one query, each time it runs, from all others; the last one only newer versions set."""
_MARK = re.compile(r"_commitlog_([0-9a-f]{32})_(\d+)_at_(\d+)\b")
_READ = "commitlog.read"
"""The key of a column's metadata."""
_LENGTH, _LENGTH_MAX = "spark.sql.maxPlanStringLength", 2**31 - 16
_lock = Lock()


def snapshot_of(log: CommitLog, snapshot: int | str | None, timestamp: datetime | str | None) -> int:
    """The snapshot that an id or a moment names; without both the newest, with all that was committed before.

    Raises:
        ConfigurationError: both are given, or one of them cannot be read; or the moment has no time zone, or is to come.
        SnapshotNotFoundError: the moment is before the oldest snapshot.
    """
    if snapshot is not None and timestamp is not None:
        raise ConfigurationError("give a snapshot or a timestamp to read a table at, not both")
    if snapshot is not None:
        asked = _snapshot_id(snapshot)
        if asked > catalog_of(log).head_snapshot_id():
            # What was committed just now may not be there for readers yet: that waits for it.
            log.head_snapshot_id()
        return asked
    moment = parsed(timestamp) if isinstance(timestamp, str) else timestamp
    if moment is not None:
        check_passed(moment)
    head = log.head_snapshot_id()
    return head if moment is None else catalog_of(log).snapshot_at(moment)


def _snapshot_id(given: int | str) -> int:
    try:
        return int(given) if isinstance(given, str) else checked_count("a snapshot", given)
    except (ValueError, InvalidRequestError):
        raise ConfigurationError(
            f"a table is read at a snapshot such as 42, or at a timestamp such as '2026-03-01', not at {shown(given)}"
        ) from None


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


def _log_id(log: CommitLog) -> str:
    applied = catalog_of(log).applied()
    return "" if applied is None else applied.log_id.hex()


def marks(log: CommitLog, table_id: int, snapshot_id: int) -> dict[str, str]:
    """What the columns of rows of a table carry to say at which snapshot they were read."""
    return {_READ: f"_commitlog_{_log_id(log)}_{table_id}_at_{snapshot_id}"}


def marked(df: DataFrame, marks: Mapping[str, str]) -> DataFrame:
    """Rows of a table, with a plan that says at which snapshot they were read."""
    return df.alias(marks[_READ])


def read_at(df: DataFrame, log: CommitLog, table_id: int) -> int | None:
    """The oldest snapshot at which what ``df`` is made of was read from a table; None when it was not, or it was pinned."""
    if hasattr(df, "_jdf"):
        analyzed = df._jdf.queryExecution().analyzed()
        plan = " ".join([_whole_text(df.sparkSession, analyzed), *_of_checkpoints(analyzed)])
    else:
        plan = " ".join([_whole_explanation(df), *_of_remote_checkpoints(df)])
    return _oldest(plan, log, table_id)


def _whole_text(spark: SparkSession, plan: Any) -> str:
    """A plan with its end, where it says what was read: sessions may have long ones cut, and be those of other threads, too."""
    conf = spark._jvm.org.apache.spark.sql.internal.SQLConf.get()  # type: ignore[union-attr]
    with _lock:
        length = conf.maxPlanStringLength()
        if length >= _LENGTH_MAX:
            return str(plan.toString())
        conf.setConfString(_LENGTH, str(_LENGTH_MAX))
        try:
            return str(plan.toString())
        finally:
            conf.setConfString(_LENGTH, str(length))


def _whole_explanation(df: DataFrame) -> str:
    """What Spark Connect tells of a plan, likewise with its end."""
    conf = df.sparkSession.conf
    with _lock:
        length: Any = conf.get(_LENGTH)
        conf.set(_LENGTH, str(_LENGTH_MAX))
        try:
            return str(df._explain_string(extended=True))  # type: ignore[operator]
        finally:
            conf.set(_LENGTH, length)


def _of_checkpoints(plan: Any) -> Iterator[str]:
    """What the columns of checkpoints tell, which are all that is left of the plan of their rows."""
    leaves = plan.collectLeaves()
    for leaf in map(leaves.apply, range(leaves.size())):
        # Rows of a program may have the columns of a read too, and be others.
        if leaf.getClass().getSimpleName() == "LogicalRDD" and leaf.rdd().checkpointData().isDefined():
            columns = leaf.output()
            yield from (str(columns.apply(at).metadata().json()) for at in range(columns.size()))


def _of_remote_checkpoints(df: Any) -> Iterator[str]:
    """The same of Spark Connect, whose plans name checkpoints by what the server calls them."""
    from pyspark.sql.connect.plan import CachedRemoteRelation

    session = df.sparkSession
    for each in _messages(df._plan.plan(session.client)):
        if each.DESCRIPTOR.name == CachedRemoteRelation.__name__:
            # Without a session: with one, the server lets go of the rows at the end of this object.
            rows = type(df)(CachedRemoteRelation(each.relation_id, None), session)  # type: ignore[arg-type]
            yield rows.schema.json()


def _messages(message: Any) -> Iterator[Any]:
    """A message of Protobuf's, and those in it."""
    yield message
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        within = value if isinstance(value, Sequence) else value.values() if isinstance(value, Mapping) else (value,)
        for each in within:
            if hasattr(each, "ListFields"):
                yield from _messages(each)


def columns_read_at(schema: StructType, log: CommitLog, table_id: int) -> int | None:
    """The oldest snapshot at which columns were read from a table, as far as they tell: those do that are its own still."""
    return _oldest(" ".join(str(each.metadata.get(_READ, "")) for each in schema.fields), log, table_id)


def _oldest(marks: str, log: CommitLog, table_id: int) -> int | None:
    found = _MARK.findall(marks)
    own = (_log_id(log), str(table_id)) if found else None
    return min((int(at) for log_id, table, at in found if (log_id, table) == own), default=None)
