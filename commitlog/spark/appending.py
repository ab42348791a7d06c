"""Appending a DataFrame to a table, once, or batch after batch of a stream."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame

from commitlog.client import CommitLog, SubmittedOutcome
from commitlog.spark.fitting import fit
from commitlog.spark.partitioning import write_rows
from commitlog.spark.publishing import Key, Target, connect, publish, target

QUERY_ID = "sql.streaming.queryId"


def append(
    df: DataFrame,
    table: str,
    *,
    log: CommitLog | None = None,
    key: Key | str | None = None,
    message: str | None = None,
) -> SubmittedOutcome | None:
    """Append the rows of ``df`` to a table as one commit.

    Args:
        df: columns are matched by name; see `commitlog.spark.fitting.fit`.
        table: its name, ``schema.table`` or ``table``.
        log: the log; None connects by the settings found.
        key: names this write (``NAME:NUMBER``), so that doing it again commits nothing.
        message: for the history.

    Returns:
        The answer; None when there were no rows, and so nothing to commit.

    Raises:
        DataFileError: the columns do not fit the table; the message lists every one that does not.
        ProposalRejectedError: the commit was refused; its files are gone.
        OutcomeUnknownError: no answer in time. The files stay, for it may yet be accepted.
    """
    to_log = connect() if log is None else log
    return _append(df, target(to_log, table), to_log, Key.parse(key) if isinstance(key, str) else key, message)


def stream_into(table: str, *, log: CommitLog | None = None) -> Callable[[DataFrame, int], None]:
    """A function for ``foreachBatch`` that appends each batch exactly once, whatever restarts.

    The key is the query's id, which lives in the checkpoint, with the batch's number: a batch that is repeated after a
    crash is answered with its first commit. So a table can be written to once in a batch.
    """

    def append_batch(df: DataFrame, batch_id: int) -> None:
        to_log = connect() if log is None else log
        to = target(to_log, table)
        query_id = df.sparkSession.sparkContext.getLocalProperty(QUERY_ID)
        assert query_id is not None, "Spark gives every streaming query its id"
        _append(df, to, to_log, Key.of_stream(query_id, to.definition.table_id, batch_id), None)

    return append_batch


def _append(df: DataFrame, to: Target, log: CommitLog, key: Key | None, message: str | None) -> SubmittedOutcome | None:
    paths = write_rows(fit(df, to.definition), to.definition, to.path)
    return publish(log, to, paths, key=key, message=message) if paths else None
