"""Rows of a keyed table that nobody changes any more, moved from the catalog into Parquet files.

A keyed table's rows stand in SQL, where each can be changed at once; those that have come to rest are read faster from
files. Each row keeps its id, by which the log finds it in its file when it does change.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from commitlog.client import CommitLog, SubmittedOutcome, Transaction
from commitlog.client.attempts import check_attempts
from commitlog.client.files.file_columns import ROW_ID
from commitlog.client.files.places import filesystem_of
from commitlog.client.files.removing import remove_files
from commitlog.client.tables.missing import rows_without_file
from commitlog.domain.model import Reason
from commitlog.errors import DataFileError, ProposalRejectedError
from commitlog.spark.connection import catalog_of, connect
from commitlog.spark.jobs import shown_as
from commitlog.spark.reading.dataframes import typed_rows
from commitlog.spark.reading.scan import rows_as_text
from commitlog.spark.writing.column_fit import fit_with_ids
from commitlog.spark.writing.partitions import described, write_rows
from commitlog.spark.writing.publish import commit
from commitlog.spark.writing.target import Target, target_of

_ROW_ID_BYTES = 10
"""At most, in a proposal, of which they take half."""


def flush(
    spark: SparkSession,
    table: str,
    *,
    older_than_snapshot: int | None = None,
    log: CommitLog | None = None,
    message: str | None = None,
    attempts: int = 3,
) -> SubmittedOutcome | None:
    """Move rows of a keyed table that are in no file into Parquet files, sorted by row id.

    What readers see does not change, and rows are changed by their key as before. More rows than a proposal can name go by
    several commits.

    Args:
        spark: the session.
        table: its name, ``schema.table`` or ``table``; it has a primary key.
        older_than_snapshot: only rows that have not changed in this snapshot or since; None takes all.
        log: the log; None connects by the settings found.
        message: for the history.
        attempts: how often it is tried at most, when one of the rows is changed meanwhile.

    Returns:
        The answer, that of the last commit; None when there are no such rows, and so nothing to commit.

    Raises:
        DataFileError: the table has no primary key, or Spark cannot read its rows.
        ProposalRejectedError: the last attempt was refused too; its files are gone.
    """
    check_attempts(attempts)
    to_log = connect() if log is None else log
    outcome, is_done = None, False
    while not is_done:
        found, is_done = _flush_some(
            spark, table, to_log, older_than_snapshot, "flush of rows" if message is None else message, attempts
        )
        outcome = found or outcome
    return outcome


def _flush_some(
    spark: SparkSession, table: str, to_log: CommitLog, older_than: int | None, message: str, attempts: int
) -> tuple[SubmittedOutcome | None, bool]:
    """Move as many rows as a proposal can name; the answer, and whether that is all of them."""
    rows_max = max(1, to_log.settings.proposal_bytes_max // 2 // _ROW_ID_BYTES)
    for remaining in range(attempts - 1, -1, -1):
        transaction = to_log.transaction(message=message)
        to = target_of(transaction, table)
        if not to.definition.primary_key:
            if catalog_of(to_log).row_count_at(to.definition.table_id, to.snapshot_id):
                raise rows_without_file(to.name, to.definition)
            raise DataFileError(
                f"table {to.name} has no primary key, so all of its rows are in files: compact it to make small files fewer"
            )
        rows = _cold_rows(to_log, to, older_than, rows_max + 1)
        with shown_as(spark, "flush", table, to.snapshot_id):
            paths = _write(spark, transaction, to, rows[:rows_max])
        if not paths:
            return None, True
        try:
            return commit(transaction, paths, {to.name: to.path}), len(rows) <= rows_max
        except ProposalRejectedError as error:
            if remaining == 0 or error.outcome.reason is not Reason.CONFLICT:
                raise
            to_log.wait_for_snapshot(error.outcome.head_snapshot_id)
    raise AssertionError("the last attempt returns or raises")


def _cold_rows(log: CommitLog, to: Target, older_than: int | None, limit: int) -> list[tuple[int, dict[int, Any]]]:
    upto = None if older_than is None else older_than - 1
    return catalog_of(log).rows_by_id_at(to.definition.table_id, to.snapshot_id, upto=upto, limit=limit)


def _write(
    spark: SparkSession, transaction: Transaction, to: Target, rows: Sequence[tuple[int, dict[int, Any]]]
) -> tuple[str, ...]:
    """Write the rows and put the FLUSH into the transaction; returns the files."""
    if not rows:
        return ()
    texts = rows_as_text(to.definition, [row for _, row in rows])
    texts = texts.append_column(ROW_ID, pa.array([row_id for row_id, _ in rows], pa.int64()))
    typed = typed_rows(spark, to.definition.columns, texts, ROW_ID)
    fitted = fit_with_ids(typed, to.definition).coalesce(1)
    paths = write_rows(fitted, to.definition, to.path, [ROW_ID])
    try:
        files = described(paths, to.definition, to.path, carry_row_ids=True)
        transaction.flush(to.name, {file: _row_ids(path) for file, path in zip(files, paths, strict=True)})
    except BaseException:
        remove_files(paths)
        raise
    return paths


def _row_ids(path: str) -> list[int]:
    filesystem, inner = filesystem_of(path)
    found: list[int] = pq.read_table(inner, columns=[ROW_ID], filesystem=filesystem, partitioning=None)[
        ROW_ID
    ].to_pylist()
    return found
