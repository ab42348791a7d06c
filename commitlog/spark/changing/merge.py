"""MERGE: a table's rows are brought in line with those of a source."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from commitlog.client import CommitLog, SubmittedOutcome, Transaction
from commitlog.domain.model.types import fold
from commitlog.errors import DataFileError, InvalidRequestError
from commitlog.spark.changing.attempts import Propose, committed
from commitlog.spark.changing.base import Base, names_of, refuse_inlined
from commitlog.spark.changing.matching import matching
from commitlog.spark.changing.row_replacement import put_replacement
from commitlog.spark.reading.dataframes import positions
from commitlog.spark.writing.column_fit import conform, fit


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


def _updated(rows: DataFrame, source: DataFrame, on: Sequence[str], names: Sequence[str]) -> DataFrame:
    given = {fold(name) for name in source.columns}
    old, new = rows.alias("old"), source.alias("new")
    same = reduce(Expression.__and__, [sf.col(f"old.`{name}`") == sf.col(f"new.`{name}`") for name in on])
    chosen = [sf.col(f"{'new' if fold(name) in given else 'old'}.`{name}`").alias(name) for name in names]
    return old.join(new, same).select(*chosen)
