"""UPDATE: rows that match a filter go, and come with other values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import Column as Expression
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from commitlog.client import CommitLog, SubmittedOutcome, Transaction
from commitlog.client.arguments import checked_mapping
from commitlog.client.files.file_columns import ROW_ID
from commitlog.errors import InvalidRequestError
from commitlog.spark.changing.attempts import Propose, committed
from commitlog.spark.changing.base import Base, names_of, only
from commitlog.spark.changing.matching import Matches, found_rows
from commitlog.spark.changing.new_values import explaining_text, named, new_value
from commitlog.spark.changing.row_replacement import put_replacement
from commitlog.spark.columns import quoted
from commitlog.spark.filters import Rows, filter_of
from commitlog.spark.reading.dataframes import with_positions
from commitlog.spark.writing.column_fit import fit_with_ids
from commitlog.spark.writing.key import Key


def update(
    spark: SparkSession,
    table: str,
    values: Mapping[str, Expression | Any],
    where: Rows,
    *,
    log: CommitLog | None = None,
    key: Key | str | None = None,
    message: str | None = None,
    attempts: int = 3,
    isolation: str = "serializable",
) -> SubmittedOutcome | None:
    """Give columns of the rows that match ``where`` other values: SQL over the row such as ``"age + 1"``, a Column, or a plain
    value; for a text as it is ``sf.lit("New York")`` or ``"'New York'"``.

    The rows keep their ids, by which `SparkTable.changes` knows them.

    After a conflict the rows to change are looked for only in files that were added or lost rows since; the rows found
    are all read and written again. A ``key`` names this write to this table, so that doing it again commits nothing.

    Raises:
        InvalidRequestError: ``where`` is None or empty, and so says not which rows; True is all.
        ProposalRejectedError: the last attempt was refused too.
    """
    return committed(
        spark,
        table,
        log,
        put_update(values, where),
        operation="update",
        key=key,
        message=message,
        attempts=attempts,
        isolation=isolation,
        where=filter_of(where),
    )


def put_update(values: Mapping[str, Expression | Any], rows: Rows) -> Propose:
    """Deletes the rows that match and appends them with other values."""
    where = filter_of(rows)
    if not checked_mapping("set", values, "columns to their values, such as {'age': sf.col('age') + 1}"):
        raise InvalidRequestError("give the columns' values, such as {'age': sf.col('age') + 1}")
    matches = Matches(where)

    def propose(transaction: Transaction, base: Base) -> Sequence[str]:
        given = named(values, base.definition)
        with explaining_text():
            new = {name: new_value(value).alias(name) for name, value in given.items()}
            with_positions(base.spark, only(base, ()).scan).select(*new.values())
        changed = [new.get(name, sf.col(quoted(name))) for name in names_of(base)]
        found = matches.at(base)
        transaction.read(base.table, filter=base.predicates, files=found.files)
        if not found.files:
            return ()
        rows = found_rows(base, found, where).select(*changed, ROW_ID)
        fitted = fit_with_ids(rows, base.definition, new=new)
        return put_replacement(transaction, base, found, changed=fitted)

    return propose
