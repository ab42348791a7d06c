"""Writes to several tables as one commit: all of them are seen, or none.

What a streaming query's batch brings goes to every table it is for at once, and a batch that is repeated after a crash
is answered with its first commit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession

from commitlog.client import CommitLog, SubmittedOutcome
from commitlog.client.arguments import checked_choice
from commitlog.client.files.removing import remove_files
from commitlog.client.tables.names import parse_table_name
from commitlog.domain.model import PartitionSpec
from commitlog.domain.model.types import fold
from commitlog.errors import InvalidRequestError
from commitlog.spark.changing.attempts import Propose
from commitlog.spark.changing.base import Asked, base_of
from commitlog.spark.changing.delete import put_deletion
from commitlog.spark.changing.isolation import Level
from commitlog.spark.changing.merge import Merging, plain_clauses
from commitlog.spark.changing.overwrite import put_overwrite
from commitlog.spark.changing.update import put_update
from commitlog.spark.connection import connect
from commitlog.spark.filters import Rows, filter_of
from commitlog.spark.jobs import shown_as
from commitlog.spark.reading.snapshots import read_at
from commitlog.spark.writing.column_fit import check_frame, fit
from commitlog.spark.writing.key import Key
from commitlog.spark.writing.partitions import described
from commitlog.spark.writing.proposal_room import write_few
from commitlog.spark.writing.publish import commit, committed_before
from commitlog.spark.writing.stream_runs import fenced
from commitlog.spark.writing.target import Making, prepared_target


class SparkTransaction:
    """Writes that are committed together when the ``with`` block ends well. Made by `transaction`.

    Everything is computed from one snapshot: what the transaction itself has written is not read. So rows of a table can be
    appended as often as one likes, but deleted, updated, merged or overwritten by one call only.
    """

    def __init__(self, log: CommitLog, *, key: Key | None, message: str | None, level: Level) -> None:
        self._log = log
        self._level = level
        options = {} if key is None else key.options
        self._transaction = log.transaction(isolation=level.of_transaction, message=message, **options)
        self._has_ended = False
        self._paths: list[str] = []
        self._table_paths: dict[str, str] = {}
        self._changed: dict[str, int] = {}
        self._half_done: str | None = None
        self._first = committed_before(log, key)
        self._outcome: SubmittedOutcome | None = self._first

    @property
    def is_repeat(self) -> bool:
        """Whether this was known, when it began, to have been committed under its key: its writes compute nothing."""
        return self._first is not None

    @property
    def outcome(self) -> SubmittedOutcome | None:
        """The answer; None before the end of the ``with`` block, unless it is a repeat, and where nothing was to commit."""
        return self._outcome

    @property
    def base_snapshot_id(self) -> int:
        """The snapshot that everything is computed from."""
        return self._transaction.base_snapshot_id

    def __enter__(self) -> SparkTransaction:
        if self._has_ended:
            raise InvalidRequestError(
                "the transaction's block has ended: begin another one, and compute its writes in that; with a key nothing is "
                "committed twice"
            )
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._has_ended = True
        if error_type is not None:
            remove_files(self._paths)
        elif self._half_done is not None:
            remove_files(self._paths)
            raise InvalidRequestError(
                f"a write to table {self._half_done} failed halfway in this transaction, whose block went on: nothing of it is "
                "committed; let the error leave the block, and begin another transaction"
            )
        elif self._transaction.changes:
            self._commit()

    def append(
        self,
        df: DataFrame,
        table: str,
        *,
        create: bool = False,
        partition_by: Sequence[str | PartitionSpec] = (),
        merge_schema: bool = False,
    ) -> None:
        """Append the rows of ``df``; see `commitlog.spark.append` for what is created or added.

        Raises:
            DataFileError: the columns do not fit the table.
            TableNotFoundError: there is no such table, and it is not to be created.
        """
        check_frame(df)
        if self.is_repeat:
            return
        with self._whole(table):
            to = prepared_target(self._transaction, table, Making(df.schema, create, partition_by, merge_schema))
            self._table_paths[table] = to.path
            with shown_as(df.sparkSession, "append to", table, to.snapshot_id):
                paths = write_few(self._log, fit(df, to.definition), to.definition, to.path)
            self._paths += paths
            if paths:
                self._transaction.append(table, described(paths, to.definition, to.path))

    def delete(self, spark: SparkSession, table: str, where: Rows) -> None:
        """Delete the rows that match; see `commitlog.spark.delete`."""
        self._change(spark, table, put_deletion(where), "delete from", where=filter_of(where))

    def update(self, spark: SparkSession, table: str, values: Mapping[str, Expression | Any], where: Rows) -> None:
        """Give columns of the rows that match other values; see `commitlog.spark.update`."""
        self._change(spark, table, put_update(values, where), "update", where=filter_of(where))

    def overwrite(
        self, df: DataFrame, table: str, where: Rows = True, *, check: bool = True, partitions: str | None = None
    ) -> None:
        """Replace rows by those of ``df``; see `commitlog.spark.overwrite`."""
        check_frame(df)
        propose = put_overwrite(df, where, partitions, check=check)
        self._change(df.sparkSession, table, propose, "overwrite", df, filter_of(where))

    def merge(
        self,
        source: DataFrame,
        table: str,
        on: Sequence[str],
        *,
        matched: str = "update",
        not_matched: str = "insert",
    ) -> None:
        """Bring rows in line with ``source``; see `commitlog.spark.merge`."""
        merging = Merging(source, on, plain_clauses(matched, not_matched))
        self._change(source.sparkSession, table, merging.put, "merge into", source, merging.bounds)

    def _change(
        self,
        spark: SparkSession,
        table: str,
        propose: Propose,
        operation: str,
        source: DataFrame | None = None,
        where: Asked = None,
    ) -> None:
        if self.is_repeat:
            return
        name = fold(str(parse_table_name(table)))
        if name in self._changed:
            raise InvalidRequestError(
                f"rows of table {table} have been changed in this transaction: it reads the table as it was before, so put "
                "what is to become of its rows into one call, or into two transactions"
            )
        base = base_of(spark, table, self._log, self._transaction, where)
        seen = None if source is None else read_at(source, self._log, base.definition.table_id)
        if seen is not None and seen < self.base_snapshot_id:
            raise InvalidRequestError(
                f"the rows for table {table} were made of its own at snapshot {seen}, and this transaction sees snapshot "
                f"{self.base_snapshot_id}: read them after it has begun, by read(..., snapshot=tx.base_snapshot_id)"
            )
        self._table_paths[table] = base.path
        with self._whole(table), shown_as(spark, operation, table, base.scan.snapshot_id):
            self._paths += propose(self._transaction, base)
        self._changed[name] = base.definition.table_id

    @contextmanager
    def _whole(self, table: str) -> Iterator[None]:
        """A write all of whose changes are in the transaction at its end: with some of them alone nothing may be committed."""
        before = len(self._transaction.changes)
        try:
            yield
        except BaseException:
            if len(self._transaction.changes) > before:
                self._half_done = table
            raise

    def _commit(self) -> None:
        committing = self._level.committing(self._log, self._transaction, list(self._changed.values()))
        self._outcome = commit(committing, self._paths, self._table_paths)


def transaction(
    log: CommitLog | None = None,
    *,
    key: Key | str | None = None,
    message: str | None = None,
    isolation: str = "serializable",
) -> SparkTransaction:
    """Begin writes to several tables that are one commit when the ``with`` block ends without an exception.

    In ``foreachBatch``, with the key of the batch, each batch is committed once whatever restarts::

        def write(df, batch_id):
            with commitlog.spark.transaction(log, key=Key.of_batch(df, batch_id)) as tx:
                tx.append(df.where("amount > 0"), "main.paid")
                tx.append(df.groupBy("shop").count(), "main.counts")

    Args:
        log: the log; None connects by the settings found.
        key: names this commit, such as ``nightly:2024-01-31``, so that doing it again computes and commits nothing.
        message: for the history.
        isolation: "serializable", "write_serializable" (others' appends that rely on nothing they have read do not matter) or
            "snapshot" (only changes of the same rows or files do).

    When a second driver runs on the same checkpoint, the first one's next batch is refused.

    The end of the block raises:
        InvalidRequestError: a write in it failed halfway, and the error did not leave the block; nothing is committed.
        ProposalRejectedError: it was refused, for example because rows that were read have changed; its files are gone.
        FencedError: the same, because a later driver of the streaming query has taken over.
        OutcomeUnknownError: no answer in time. The files stay, for it may yet be accepted.
    """
    to_log = connect() if log is None else log
    named = Key.given(key)
    fenced_key = None if named is None else fenced(to_log, named)
    return SparkTransaction(
        to_log, key=fenced_key, message=message, level=checked_choice("isolation", isolation, Level)
    )
