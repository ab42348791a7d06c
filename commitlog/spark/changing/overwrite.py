"""Overwrite: rows that match a filter, those of partitions, or all, go, and others come."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as sf

from commitlog.client import CommitLog, SubmittedOutcome, Transaction
from commitlog.client.files.removing import remove_files
from commitlog.domain.model import Append
from commitlog.errors import DataFileError, InvalidRequestError
from commitlog.spark.changing.attempts import Propose, committed
from commitlog.spark.changing.base import Base
from commitlog.spark.changing.matching import Found, Matches, all_files
from commitlog.spark.changing.overwrite_partitions import put_partitions
from commitlog.spark.changing.row_replacement import put_replacement
from commitlog.spark.filters import Rows, Where, condition, filter_of
from commitlog.spark.writing.column_fit import check_frame, completed
from commitlog.spark.writing.key import Key

_WRONG = "wrong"


def overwrite(
    df: DataFrame,
    table: str,
    where: Rows = True,
    *,
    check: bool = True,
    partitions: str | None = None,
    log: CommitLog | None = None,
    key: Key | str | None = None,
    message: str | None = None,
    attempts: int = 1,
    isolation: str = "serializable",
) -> SubmittedOutcome | None:
    """Replace the rows that match ``where``, or all, by the rows of ``df``.

    Args:
        df: the new rows.
        table: its name, ``schema.table`` or ``table``.
        where: which rows go; True is all.
        check: each new row must match ``where`` too, or nothing is committed.
        partitions: "dynamic" instead of ``where``: those in the partitions that ``df`` has rows of go, others stay.
        log: the log; None connects by the settings found.
        key: names this write to this table, such as ``nightly:2024-01-31``, so that doing it again commits nothing.
        message: for the history.
        attempts: how often it is computed at most.
        isolation: "serializable", "write_serializable" (others' appends that rely on nothing they have read do not matter) or
            "snapshot" (only changes of the same rows or files do).

    Returns:
        The answer; None when no row goes or comes, and so there is nothing to commit.

    Raises:
        InvalidRequestError: ``where`` is None or empty, and so says not which rows.
        DataFileError: the columns do not fit, or the table has no partitions that could be told; or rows do not match.
        ProposalRejectedError: it was refused, for example because rows came in since the base.
    """
    check_frame(df)
    propose = put_overwrite(df, where, partitions, check=check)
    return committed(
        df.sparkSession,
        table,
        log,
        propose,
        operation="overwrite",
        key=key,
        message=message,
        attempts=attempts,
        isolation=isolation,
        source=df,
        where=filter_of(where),
    )


def put_overwrite(df: DataFrame, rows: Rows, partitions: str | None, *, check: bool) -> Propose:
    """Deletes the rows that match, or those of the partitions, or all, and appends ``df``.

    Raises:
        InvalidRequestError: which rows go is said in two ways, or in none that there is.
    """
    where = filter_of(rows)
    if partitions not in (None, "dynamic") or (partitions is not None and where is not None):
        raise InvalidRequestError(
            "overwrite all rows, those that match where=..., or those of partitions='dynamic': one of these"
        )
    matches = Matches(where)

    def propose(transaction: Transaction, base: Base) -> Sequence[str]:
        if partitions is not None:
            return put_partitions(transaction, base, df)
        if where is None:
            return put_replacement(transaction, base, all_files(transaction, base), df)
        found = matches.at(base)
        transaction.read(base.table, filter=base.predicates, files=found.positions)
        if not check:
            return put_replacement(transaction, base, found, df)
        return _put_checked(transaction, base, found, df, where)

    return propose


def _put_checked(transaction: Transaction, base: Base, found: Found, df: DataFrame, where: Where) -> Sequence[str]:
    """Rows that do not match are counted as they are written. To end the job at the first would cost less where there is
    one, and Spark would tell of it by the stacks of its tasks."""
    seen = Observation()
    before = len(transaction.changes)
    rows = completed(df, base.definition)
    is_wrong = ~sf.coalesce(condition(where, rows), sf.lit(False))
    paths = put_replacement(transaction, base, found, rows.observe(seen, sf.count_if(is_wrong).alias(_WRONG)))
    # Of rows that turn out to be none, while it sorts them apart, Spark tells nothing, not even that none is wrong.
    has_new = any(isinstance(each, Append) for each in transaction.changes[before:])
    if has_new and (wrong := seen.get[_WRONG]):
        remove_files(paths)
        raise DataFileError(
            f"new rows do not match the filter of those that they replace, {wrong:,} of them: leave them out, such as by "
            "df.where(...), or overwrite with check=False"
        )
    return paths
