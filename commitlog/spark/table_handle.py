"""A table of a log as Spark's users handle it, in one object. Thin: the rooms beside it do the work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from commitlog.client import CommitLog, SubmittedOutcome
from commitlog.client.arguments import shown
from commitlog.client.tables.names import TableName, parse_table_name
from commitlog.client.tables.others_names import knowing_arguments, told_instead
from commitlog.domain.model import PartitionSpec
from commitlog.errors import InvalidRequestError
from commitlog.spark.changing.delete import delete
from commitlog.spark.changing.merge import merge_by
from commitlog.spark.changing.merge_clauses import Merge
from commitlog.spark.changing.overwrite import overwrite
from commitlog.spark.changing.update import update
from commitlog.spark.columns import held_columns, table_schema
from commitlog.spark.connection import connect
from commitlog.spark.filters import Rows, Where
from commitlog.spark.maintaining.compact import TARGET_BYTES, compact
from commitlog.spark.reading.changes import row_changes
from commitlog.spark.reading.history import history
from commitlog.spark.reading.scan import read
from commitlog.spark.writing.append import append
from commitlog.spark.writing.column_fit import check_frame
from commitlog.spark.writing.key import Key
from commitlog.spark.writing.publish import WrittenOutcome

OF_TABLES: Mapping[str, str] = {
    "toDF": "read()",
    "optimize": "compact()",
    "vacuum": "commitlog.spark.expire(keep=100), and then `commitlog clean`,",
    "restore": "log.table(name).restore(snapshot)",
    "files": "log.table(name).files()",
    "restoreToVersion": "log.table(name).restore(snapshot)",
    "restoreToTimestamp": "log.table(name).restore(snapshot)",
    "detail": "log.table(name).files()",
    "count": "read().count()",
    "show": "read().show()",
    "write": "append(df) or overwrite(df, where)",
    "insert": "append(df)",
    "upsert": "merge(df, on=...).when_matched_update().when_not_matched_insert().commit()",
}
"""What users of delta-spark look for, and what there is instead."""
_WHERE: Mapping[str, str] = {"condition": "where=", "predicate": "where="}
ARGUMENTS: Mapping[str, Mapping[str, str]] = {
    "read": {**_WHERE, "snapshot": "version=", "versionAsOf": "version=", "timestampAsOf": "timestamp="},
    "append": {"mergeSchema": "merge_schema=", "partitionBy": "partition_by=", "mode": "the rows to overwrite()"},
    "overwrite": {**_WHERE, "replaceWhere": "where=", "mode": "partitions="},
    "delete": _WHERE,
    "update": {**_WHERE, "values": "set="},
    "merge": {"condition": "on="},
    "compact": {**_WHERE, "zorder_by": "z_order_by=", "zOrderBy": "z_order_by="},
}
"""Arguments as they call them, by method, and what they are called here."""


@knowing_arguments(ARGUMENTS)
class SparkTable:
    """A table of a log, read and written by native DataFrames. Made by `table`; each call asks for it as it is by then.

    Which rows a call is about, ``where``, is SQL such as ``"day = 3"``, a Column such as ``sf.col("day") == 3``, one
    ``(column, op, value)`` such as ``("day", "=", 3)``, or several of these, all of which must hold. What compares a column
    with a plain value is known to the log and to the catalog too: files that cannot have such rows are left out, and others'
    rows that are none of these do not get in the way.

    Changes of rows mind what others commit meanwhile as far as their ``isolation`` says: "serializable" all that touches what
    they have read; "write_serializable" not appends that rely on nothing they have read, as of a stream: it is as if these had
    come afterwards; "snapshot" only changes of the same rows or files.

    Args:
        spark: the session.
        log: the log.
        name: what the table is called; there need not be one of that name until it is asked for something.
    """

    def __init__(self, spark: SparkSession, log: CommitLog, name: TableName) -> None:
        self._spark = spark
        self._log = log
        self._name = name

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            return told_instead(self, name, OF_TABLES)

    @property
    def name(self) -> str:
        """Its name with its schema, such as ``main.flights``."""
        return str(self._name)

    def __repr__(self) -> str:
        return f"SparkTable({self.name!r})"

    @property
    def schema(self) -> StructType:
        """Its columns at the newest snapshot as Spark has them, without those that Spark has no type for.

        Raises:
            TableNotFoundError: there is none of that name.
        """
        return table_schema(held_columns(self._log.table(self.name).definition.columns, self.name))

    # --- reading ------------------------------------------------------------------------------------------------------

    def read(
        self, version: int | None = None, *, timestamp: datetime | str | None = None, where: Where = None
    ) -> DataFrame:
        """Its rows as of one snapshot; a table that changes is read anew by calling this again.

        What is computed from the newest snapshot knows it: `overwrite` and `merge` by such rows are refused when the table has
        changed since. Rows of a ``version`` or ``timestamp`` that was asked for may replace what came later.

        Args:
            version: as of which snapshot, by its id; None is the newest, with all that was committed before.
            timestamp: instead, as of which moment: ISO 8601, in the session's zone unless it says otherwise; or a datetime,
                one without a zone as Python has it, in this process's own, such as a ``time`` collected of `history`.
            where: only rows that match.

        Raises:
            TableNotFoundError: there is none of that name at the snapshot.
            SnapshotNotFoundError: there is no such snapshot, or not any more.
        """
        return read(self._spark, self.name, version, timestamp=timestamp, where=where, log=self._log)

    def changes(self, after: int, upto: int | None = None) -> DataFrame:
        """Which of its rows came and went in the snapshots after one and up to another, as DuckLake's ``table_changes`` has
        them: ``snapshot_id``, ``rowid`` and ``change_type`` (insert, delete, update_preimage, update_postimage) before the
        columns. Tasks read the files by Python.

        Args:
            after: the snapshot whose state is known: its own changes are not among them.
            upto: the last one; None is the newest.

        Raises:
            TableNotFoundError: there is none of that name at the last snapshot.
            SnapshotNotFoundError: there is no such snapshot, or not any more.
            InvalidRequestError: the table has a column of its own by one of these names.
        """
        return row_changes(self._spark, self._log.table(self.name).changes(after, upto), self.name)

    def history(self, limit: int | None = None) -> DataFrame:
        """The snapshots that changed it, the newest first, also those of an earlier name: ``snapshot_id``, ``time``,
        ``writer_id``, ``changes`` (their kinds), ``author``, ``message`` and ``extra``.

        Args:
            limit: how many at most; None is all that the log still knows.

        Raises:
            TableNotFoundError: there is none of that name.
        """
        return history(self._spark, self._log.table(self.name).history(limit))

    # --- writing ------------------------------------------------------------------------------------------------------

    def append(
        self,
        df: DataFrame,
        *,
        key: Key | str | None = None,
        create: bool = False,
        partition_by: Sequence[str | PartitionSpec] = (),
        merge_schema: bool = False,
        message: str | None = None,
    ) -> WrittenOutcome | None:
        """Append the rows of ``df`` as one commit; see `commitlog.spark.append`.

        Args:
            df: columns are matched by name.
            key: names this write, such as ``nightly:2024-01-31``, so that doing it again commits nothing.
            create: create the table for the columns of ``df``, in the same commit, if there is none.
            partition_by: of a table that is created: columns, or ``"month(day)"``, ``"bucket(16, id)"``.
            merge_schema: add columns of ``df`` that the table has not, in the same commit; rows that are there have NULL in
                them.
            message: for the history.

        Returns:
            The answer; None when there were no rows and no table to create, and so nothing to commit.

        Raises:
            DataFileError: the columns do not fit the table; the message lists every one that does not.
            TableNotFoundError: there is no such table, and it is not to be created.
            ProposalRejectedError: the commit was refused; its files are gone.
            OutcomeUnknownError: no answer in time. The files stay, for it may yet be accepted.
        """
        return append(
            df,
            self.name,
            log=self._log,
            key=key,
            create=create,
            partition_by=partition_by,
            merge_schema=merge_schema,
            message=message,
        )

    def overwrite(
        self,
        df: DataFrame,
        where: Rows = True,
        *,
        check: bool = True,
        partitions: str | None = None,
        key: Key | str | None = None,
        message: str | None = None,
        attempts: int = 1,
        isolation: str = "serializable",
    ) -> SubmittedOutcome | None:
        """Replace the rows that match ``where``, or all, by the rows of ``df``.

        Args:
            df: the new rows.
            where: which rows go; True is all.
            check: each new row must match ``where`` too, or nothing is committed.
            partitions: "dynamic" instead of ``where``: those in the partitions that ``df`` has rows of go, others stay.
            key: names this write, such as ``nightly:2024-01-31``, so that doing it again commits nothing.
            message: for the history.
            attempts: how often it is computed at most, each time from the newest snapshot on.
            isolation: "serializable", "write_serializable" or "snapshot"; see `SparkTable`.

        Returns:
            The answer; None when no row goes or comes, and so there is nothing to commit.

        Raises:
            InvalidRequestError: ``where`` is None or empty, and so says not which rows.
            DataFileError: the columns do not fit, or the table has no partitions that could be told; or rows do not match.
            ProposalRejectedError: it was refused, for example because rows came in since the base.
        """
        return overwrite(
            df,
            self.name,
            where,
            check=check,
            partitions=partitions,
            log=self._log,
            key=key,
            message=message,
            attempts=attempts,
            isolation=isolation,
        )

    def delete(
        self,
        where: Rows,
        *,
        key: Key | str | None = None,
        message: str | None = None,
        attempts: int = 3,
        isolation: str = "serializable",
    ) -> SubmittedOutcome | None:
        """Delete the rows that match ``where``, all where that is True; None when there are none.

        Args:
            where: which rows.
            key: names this write, such as ``nightly:2024-01-31``, so that doing it again commits nothing.
            message: for the history.
            attempts: how often it is computed at most: after a conflict only files that were added or lost rows since are read
                again.
            isolation: "serializable", "write_serializable" or "snapshot"; see `SparkTable`.

        Raises:
            InvalidRequestError: ``where`` is None or empty, and so says not which rows.
            ProposalRejectedError: the last attempt was refused too.
        """
        return delete(
            self._spark,
            self.name,
            where,
            log=self._log,
            key=key,
            message=message,
            attempts=attempts,
            isolation=isolation,
        )

    def update(
        self,
        where: Rows,
        set: Mapping[str, Any],
        *,
        key: Key | str | None = None,
        message: str | None = None,
        attempts: int = 3,
        isolation: str = "serializable",
    ) -> SubmittedOutcome | None:
        """Give columns of the rows that match ``where`` other values; None when there are none.

        Args:
            where: which rows; True is all.
            set: by column SQL over the row, such as ``"age + 1"``, a Column, such as ``sf.col("age") + 1``, or a plain value; a
                text as it is by ``sf.lit("New York")`` or ``"'New York'"``.
            key: names this write, such as ``nightly:2024-01-31``, so that doing it again commits nothing.
            message: for the history.
            attempts: how often it is computed at most: after a conflict rows are looked for only in files that were added or
                lost rows since.
            isolation: "serializable", "write_serializable" or "snapshot"; see `SparkTable`.

        Raises:
            InvalidRequestError: ``where`` is None or empty, and so says not which rows; or ``set`` gives no values.
            ProposalRejectedError: the last attempt was refused too.
        """
        return update(
            self._spark,
            self.name,
            set,
            where,
            log=self._log,
            key=key,
            message=message,
            attempts=attempts,
            isolation=isolation,
        )

    def merge(self, source: DataFrame, on: str | Sequence[str]) -> Merge:
        """Bring its rows in line with ``source``::

            merge = t.merge(changes, on="id").when_matched_delete("source.gone").when_matched_update()
            merge.when_not_matched_insert("NOT source.gone").commit()

        Args:
            source: computed once. No two of its rows have the same ``on``.
            on: columns that are equal in rows that match; NULL matches nothing.

        Returns:
            The merge, which clauses say more of; nothing is done before its ``commit()``.
        """
        check_frame(source)
        return Merge(partial(merge_by, source, self.name, on, log=self._log))

    # --- maintenance --------------------------------------------------------------------------------------------------

    def compact(
        self,
        *,
        where: Where = None,
        rewrite_all: bool = False,
        parallelism: int = 4,
        target_bytes: int = TARGET_BYTES,
        sort_by: Sequence[str] = (),
        z_order_by: Sequence[str] = (),
    ) -> list[SubmittedOutcome]:
        """Rewrite small files, and files with deleted rows, as fewer; one commit for each group of files.

        Args:
            where: only files that may have rows that match, as statistics and partition values tell of what it says of single
                columns. They are rewritten whole.
            rewrite_all: also the files that are large and have lost no rows, such as to sort what has not been sorted.
            parallelism: how many groups are rewritten at once.
            target_bytes: how large a new file is about; files of at least three quarters of it that have lost no rows stay.
            sort_by: columns by which the rows are sorted over all new files of a partition.
            z_order_by: instead, columns along whose Z-order curve they are sorted, for filters on any of them.

        Returns:
            The answers; empty when there is nothing to rewrite.

        Raises:
            DataFileError: a column to order by is not in the table, or has no order.
            InvalidRequestError: both orders are given, or too many columns; or ``where`` says nothing of whole files.
            ProposalRejectedError: rows of a group were deleted meanwhile; all other groups are compacted.
        """
        return compact(
            self._spark,
            self.name,
            where=where,
            rewrite_all=rewrite_all,
            parallelism=parallelism,
            target_bytes=target_bytes,
            sort_by=sort_by,
            z_order_by=z_order_by,
            log=self._log,
        )


def table(spark: SparkSession, name: str, *, log: CommitLog | None = None) -> SparkTable:
    """A table of a log, for all that Spark reads of it and writes to it.

    Args:
        spark: the session.
        name: what the table is called, ``schema.table`` or ``table``.
        log: the log; None connects by the settings found.

    Raises:
        InvalidRequestError: it is no name of a table, or ``log`` is none.
    """
    if not (log is None or isinstance(log, CommitLog)):
        raise InvalidRequestError(f"log is a CommitLog, such as CommitLog.connect(), not {shown(log)}")
    return SparkTable(spark, connect() if log is None else log, parse_table_name(name))
