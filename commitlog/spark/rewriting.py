"""Changes of rows that are there already: read at the base, say which rows go and which come, propose both at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from commitlog.client import CommitLog, SubmittedOutcome, Transaction
from commitlog.domain.model.types import fold
from commitlog.errors import DataFileError, InvalidRequestError
from commitlog.spark.filters import Rows, conjunction, filter_of
from commitlog.spark.fitting import conform, fit
from commitlog.spark.overwriting import put_partitions
from commitlog.spark.proposing import (
    Base,
    Matches,
    Propose,
    all_files,
    committed,
    found_rows,
    matching,
    names_of,
    put_append,
    put_delete,
    put_replacement,
    refuse_inlined,
)
from commitlog.spark.reading import positions


def delete(
    spark: SparkSession,
    table: str,
    where: Rows,
    *,
    log: CommitLog | None = None,
    message: str | None = None,
    attempts: int = 3,
) -> SubmittedOutcome | None:
    """Delete the rows that match ``where``, all where that is True; None when there are none.

    After a conflict only files that were added or lost rows since are read again.

    Raises:
        InvalidRequestError: ``where`` is None or empty, and so says not which rows.
        ProposalRejectedError: the last attempt was refused too.
    """

    propose = put_deletion(where)
    return committed(spark, table, log, propose, operation="delete from", message=message, attempts=attempts)


def update(
    spark: SparkSession,
    table: str,
    values: Mapping[str, Expression | Any],
    where: Rows,
    *,
    log: CommitLog | None = None,
    message: str | None = None,
    attempts: int = 3,
) -> SubmittedOutcome | None:
    """Give columns of the rows that match ``where`` other values (literals, or expressions over the row).

    After a conflict the rows to change are looked for only in files that were added or lost rows since; the rows found
    are all read and written again.

    Raises:
        InvalidRequestError: ``where`` is None or empty, and so says not which rows; True is all.
        ProposalRejectedError: the last attempt was refused too.
    """

    propose = put_update(values, where)
    return committed(spark, table, log, propose, operation="update", message=message, attempts=attempts)


def overwrite(
    df: DataFrame,
    table: str,
    where: Rows = True,
    *,
    partitions: str | None = None,
    log: CommitLog | None = None,
    message: str | None = None,
    attempts: int = 1,
) -> SubmittedOutcome | None:
    """Replace the rows that match ``where``, or all, by the rows of ``df``.

    Args:
        df: the new rows.
        table: its name, ``schema.table`` or ``table``.
        where: which rows go; True is all.
        partitions: "dynamic" instead of ``where``: those in the partitions that ``df`` has rows of go, others stay.
        log: the log; None connects by the settings found.
        message: for the history.
        attempts: how often it is computed at most.

    Returns:
        The answer; None when no row goes or comes, and so there is nothing to commit.

    Raises:
        InvalidRequestError: ``where`` is None or empty, and so says not which rows.
        DataFileError: the columns do not fit, or the table has no partitions that could be told.
        ProposalRejectedError: it was refused, for example because rows came in since the base.
    """
    propose = put_overwrite(df, where, partitions)
    return committed(
        df.sparkSession, table, log, propose, operation="overwrite", message=message, attempts=attempts, source=df
    )


def merge(
    source: DataFrame,
    table: str,
    on: Sequence[str],
    *,
    matched: str = "update",
    not_matched: str = "insert",
    log: CommitLog | None = None,
    message: str | None = None,
    attempts: int = 3,
) -> SubmittedOutcome | None:
    """Bring a table's rows in line with ``source`` by the columns ``on``, which must tell its rows apart.

    The source is computed once. After a conflict all else is computed again: any row that came or went can match another
    of the source.

    Args:
        source: its columns are the table's, or some of them; an update leaves the others as they are.
        table: its name.
        on: columns that are equal in rows that match; NULL matches nothing.
        matched: what becomes of rows that match: "update", "delete" or "keep".
        not_matched: what becomes of source rows without a match: "insert" or "ignore".
        log: the log; None connects by the settings found.
        message: for the history.
        attempts: how often it is computed at most.

    Raises:
        DataFileError: two source rows have the same ``on``.
        ProposalRejectedError: the last attempt was refused too.
    """
    propose = put_merge(source, on, matched, not_matched)
    return committed(
        source.sparkSession,
        table,
        log,
        propose,
        operation="merge into",
        message=message,
        attempts=attempts,
        source=source,
    )


def put_deletion(rows: Rows) -> Propose:
    """Deletes the rows that match."""
    where = filter_of(rows)
    matches = Matches(where)

    def propose(transaction: Transaction, base: Base) -> Sequence[str]:
        if where is None:
            return put_delete(transaction, base, {}, all_files(transaction, base))
        found = matches.at(base)
        transaction.read(base.table, filter=conjunction(where), files=found)
        return put_delete(transaction, base, found)

    return propose


def put_update(values: Mapping[str, Expression | Any], rows: Rows) -> Propose:
    """Deletes the rows that match and appends them with other values."""
    where = filter_of(rows)
    matches = Matches(where)

    def propose(transaction: Transaction, base: Base) -> Sequence[str]:
        if where is None:
            refuse_inlined(base)
        found = matches.at(base)
        given = {base.definition.column(name).name: value for name, value in values.items()}
        changed = [_value(given[name]).alias(name) if name in given else sf.col(f"`{name}`") for name in names_of(base)]
        transaction.read(base.table, filter=conjunction(where), files=found)
        if not found:
            return ()
        return put_replacement(transaction, base, found, found_rows(base, found, where).select(*changed))

    return propose


def put_overwrite(df: DataFrame, rows: Rows, partitions: str | None) -> Propose:
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
            whole = all_files(transaction, base)
            return [*put_delete(transaction, base, {}, whole), *put_append(transaction, base, df)]
        found = matches.at(base)
        transaction.read(base.table, filter=conjunction(where), files=found)
        return put_replacement(transaction, base, found, df)

    return propose


def put_merge(source: DataFrame, on: Sequence[str], matched: str, not_matched: str) -> Propose:
    """Deletes rows that match ``source``, and appends their new values and the rows that match nothing.

    The source is computed once, and its rows kept where they were computed: what finds rows to delete, and what inserts
    them again, must be the same even of a source that would give others the next time. When an executor that keeps some of
    them is lost, the merge fails; they are not computed again.

    Raises:
        InvalidRequestError: what becomes of rows is none of what there is.
        DataFileError: two source rows have the same ``on``.
    """
    if matched not in ("update", "delete", "keep") or not_matched not in ("insert", "ignore"):
        raise InvalidRequestError("matched is 'update', 'delete' or 'keep', not_matched is 'insert' or 'ignore'")
    fixed = source.localCheckpoint()
    if fixed.groupBy(*on).count().where("count > 1").limit(1).count():
        raise DataFileError(f"two rows of the source have the same {', '.join(on)}: which one counts is not defined")

    def propose(transaction: Transaction, base: Base) -> Sequence[str]:
        refuse_inlined(base)
        rows, given = matching(base, None), conform(fixed, base.definition)
        pairs = rows.join(given.select(*on), list(on), "left_semi")
        found = {} if matched == "keep" else positions(pairs, base.scan)
        transaction.read(base.table)
        fresh = []
        if matched == "update" and found:
            fresh.append(_updated(rows, given, on, names_of(base)))
        if not_matched == "insert":
            inserted = given.join(rows.select(*on), list(on), "left_anti")
            fresh.append(fit(inserted, base.definition).select(*[f"`{name}`" for name in names_of(base)]))
        return put_replacement(transaction, base, found, reduce(DataFrame.union, fresh) if fresh else None)

    return propose


def _value(given: Expression | Any) -> Expression:
    return given if isinstance(given, Expression) else sf.lit(given)


def _updated(rows: DataFrame, source: DataFrame, on: Sequence[str], names: Sequence[str]) -> DataFrame:
    given = {fold(name) for name in source.columns}
    old, new = rows.alias("old"), source.alias("new")
    same = reduce(Expression.__and__, [sf.col(f"old.`{name}`") == sf.col(f"new.`{name}`") for name in on])
    chosen = [sf.col(f"{'new' if fold(name) in given else 'old'}.`{name}`").alias(name) for name in names]
    return old.join(new, same).select(*chosen)
