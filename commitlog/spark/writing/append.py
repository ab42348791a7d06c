"""Appending a DataFrame to a table, once, or batch after batch of a stream."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import DataFrame, is_remote

from commitlog.client import CommitLog
from commitlog.domain.model import PartitionSpec, Reason
from commitlog.errors import ConfigurationError, ProposalRejectedError
from commitlog.spark.connection import connect
from commitlog.spark.jobs import shown_as
from commitlog.spark.writing.arrow_files import write_batches
from commitlog.spark.writing.column_fit import check_fit, check_frame, fit
from commitlog.spark.writing.key import Key
from commitlog.spark.writing.proposal_room import write_few
from commitlog.spark.writing.publish import WrittenOutcome, committed_before, publish
from commitlog.spark.writing.stream_runs import fenced
from commitlog.spark.writing.target import NOTHING, Making, Target, create_if_missing, target

SMALL_BATCH_ROWS = 10_000
"""How many rows of a stream's batch the driver writes itself: a write by Spark's tasks costs 50 ms more."""


def append(
    df: DataFrame,
    table: str,
    *,
    log: CommitLog | None = None,
    key: Key | str | None = None,
    message: str | None = None,
    create: bool = False,
    partition_by: Sequence[str | PartitionSpec] = (),
    merge_schema: bool = False,
) -> WrittenOutcome | None:
    """Append the rows of ``df`` to a table as one commit.

    Args:
        df: columns are matched by name; see `commitlog.spark.writing.column_fit.fit`.
        table: its name, ``schema.table`` or ``table``. Rows of a partitioned table are split by its partitions.
        log: the log; None connects by the settings found.
        key: names this write to this table, such as ``nightly:2024-01-31``: once it has been committed, doing it again computes
            nothing and is answered as the first time, whatever rows ``df`` has now.
        message: for the history.
        create: create the table for the columns of ``df``, in the same commit, if there is none.
        partition_by: of a table that is created: columns, or ``"month(day)"``, ``"bucket(16, id)"``.
        merge_schema: add columns of ``df`` that the table has not, in the same commit; rows that are there have NULL in them.

    Returns:
        The answer; None when there were no rows and no table to create, and so nothing to commit.

    Raises:
        DataFileError: the columns do not fit the table; the message lists every one that does not.
        TableNotFoundError: there is no such table, and it is not to be created.
        ProposalRejectedError: the commit was refused; its files are gone.
        KeyReusedError: a write of other rows under the same key was committed while this one was computed; its files are gone.
        FencedError: the key is that of a stream's batch, and a later driver of the query has taken over; its files are gone.
        OutcomeUnknownError: no answer in time. The files stay, for it may yet be accepted.
    """
    check_frame(df)
    to_log = connect() if log is None else log
    given = Key.given(key)
    named = None if given is None else given.of_table(table)
    if (first := committed_before(to_log, named)) is not None:
        return first
    if named is not None:
        named = fenced(to_log, named)
    making = Making(df.schema, create, partition_by, merge_schema)
    to = target(to_log, table, making)
    try:
        return _append(df, to, to_log, named, message)
    except ProposalRejectedError as error:
        if to.preparation == NOTHING or error.outcome.reason is not Reason.CONFLICT:
            raise
        # Somebody else has created or altered it meanwhile: now it is as it is.
        to_log.wait_for_snapshot(error.outcome.head_snapshot_id)
    return _append(df, target(to_log, table, making), to_log, named, message)


def stream_into(
    table: str,
    *,
    log: CommitLog | None = None,
    create: bool = False,
    partition_by: Sequence[str | PartitionSpec] = (),
    on_schema_change: str = "fail",
) -> Callable[[DataFrame, int], None]:
    """A function for ``foreachBatch`` that appends each batch exactly once, whatever restarts.

    The key is the query's id, which lives in the checkpoint, with the batch's number: a batch that is repeated after a
    crash is answered with its first commit. So a table can be written to once in a batch. When a second driver runs on
    the same checkpoint, the first one's next batch is refused with a `FencedError`. With ``create`` a table that is not
    there is created before the first batch, partitioned by ``partition_by``.

    A batch during which others alter the table is refused, and the query fails: when it is started again, the rows are made
    to fit the table as it is then. With ``on_schema_change="retry"`` the query goes on if the files that were written fit
    the table as it is now: a column that was added has its default in them, or NULL.

    A batch that follows a small one is written by the driver itself if it is small too, in half the time; a large one that
    follows a small one is computed up to there first.

    Raises:
        ConfigurationError: the session is one of Spark Connect; or ``on_schema_change`` is neither fail nor retry.
    """
    if is_remote():
        raise ConfigurationError(
            "Spark Connect tells foreachBatch nothing of its query, so it cannot be exactly once: write the stream by "
            "writeStream.format('commitlog')"
        )
    return _Batches(table, log, create, partition_by, follows(on_schema_change))


def follows(on_schema_change: str) -> bool:
    """Whether a write goes on when its table is altered meanwhile.

    Raises:
        ConfigurationError: it is another word than fail or retry.
    """
    if on_schema_change.lower() not in ("fail", "retry"):
        raise ConfigurationError(f"on a schema change a write is to fail or to retry, not {on_schema_change!r}")
    return on_schema_change.lower() == "retry"


class _Batches:
    """Appends one batch of a streaming query after another."""

    def __init__(
        self,
        table: str,
        log: CommitLog | None,
        create: bool,
        partition_by: Sequence[str | PartitionSpec],
        follows: bool,
    ) -> None:
        self._table = table
        self._log = log
        self._create = create
        self._partition_by = partition_by
        self._follows = follows
        self._is_small = False

    def __call__(self, df: DataFrame, batch_id: int) -> None:
        log = connect() if self._log is None else self._log
        if self._create:
            create_if_missing(log, self._table, Making(df.schema, True, self._partition_by))
        to = target(log, self._table)
        key = fenced(log, Key.of_batch(df, batch_id, to.definition.table_id))
        with shown_as(df.sparkSession, "append to", to.name, to.snapshot_id):
            paths = _write_small(df, to) if self._is_small else None
            if paths is None:
                paths = write_few(log, fit(df, to.definition), to.definition, to.path)
        outcome = publish(log, to, paths, key=key, follows=self._follows)
        self._is_small = outcome is None or outcome.row_count <= SMALL_BATCH_ROWS


def _write_small(df: DataFrame, to: Target) -> Sequence[str] | None:
    """Write the rows here, if they are few; None when there are more."""
    check_fit(df.schema, to.definition, by_arrow=True)
    rows = df.limit(SMALL_BATCH_ROWS + 1).toArrow()
    return None if rows.num_rows > SMALL_BATCH_ROWS else write_batches(iter(rows.to_batches()), to.definition, to.path)


def _append(df: DataFrame, to: Target, log: CommitLog, key: Key | None, message: str | None) -> WrittenOutcome | None:
    with shown_as(df.sparkSession, "append to", to.name, to.snapshot_id):
        paths = write_few(log, fit(df, to.definition), to.definition, to.path)
    return publish(log, to, paths, key=key, message=message)
