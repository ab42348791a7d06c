"""DELETE: rows that match a filter go."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import SparkSession

from commitlog.client import CommitLog, SubmittedOutcome, Transaction
from commitlog.spark.changing.attempts import Propose, committed
from commitlog.spark.changing.base import Base
from commitlog.spark.changing.matching import Matches, all_files
from commitlog.spark.changing.row_replacement import put_delete
from commitlog.spark.filters import Rows, filter_of
from commitlog.spark.writing.key import Key


def delete(
    spark: SparkSession,
    table: str,
    where: Rows,
    *,
    log: CommitLog | None = None,
    key: Key | str | None = None,
    message: str | None = None,
    attempts: int = 3,
    isolation: str = "serializable",
) -> SubmittedOutcome | None:
    """Delete the rows that match ``where``, all where that is True; None when there are none.

    After a conflict only files that were added or lost rows since are read again. A ``key`` names this write to this table, so
    that doing it again commits nothing.

    Raises:
        InvalidRequestError: ``where`` is None or empty, and so says not which rows.
        ProposalRejectedError: the last attempt was refused too.
    """
    return committed(
        spark,
        table,
        log,
        put_deletion(where),
        operation="delete from",
        key=key,
        message=message,
        attempts=attempts,
        isolation=isolation,
        where=filter_of(where),
    )


def put_deletion(rows: Rows) -> Propose:
    """Deletes the rows that match."""
    where = filter_of(rows)
    matches = Matches(where)

    def propose(transaction: Transaction, base: Base) -> Sequence[str]:
        if where is None:
            return put_delete(transaction, base, all_files(transaction, base))
        found = matches.at(base)
        transaction.read(base.table, filter=base.predicates, files=found.positions)
        return put_delete(transaction, base, found)

    return propose
