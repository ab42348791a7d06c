"""MERGE: a table's rows are brought in line with those of a source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from commitlog.client import CommitLog, SubmittedOutcome, Transaction
from commitlog.client.arguments import checked_items
from commitlog.domain.model.types import fold
from commitlog.errors import DataFileError, InvalidRequestError
from commitlog.spark.changing.attempts import Propose, committed
from commitlog.spark.changing.base import Base, names_of, refuse_inlined
from commitlog.spark.changing.matching import Found, matching
from commitlog.spark.changing.merge_clauses import Clause, Clauses, first_that_holds
from commitlog.spark.changing.row_replacement import put_replacement
from commitlog.spark.columns import quoted
from commitlog.spark.reading.dataframes import positions
from commitlog.spark.reading.scan_files import FILE, POSITION
from commitlog.spark.writing.column_fit import conform, fit

_CLAUSE, _MATCHED, _KEY = "_commitlog_clause", "_commitlog_matched", "_commitlog_key_"


def merge(
    source: DataFrame,
    table: str,
    on: str | Sequence[str],
    *,
    matched: str = "update",
    not_matched: str = "insert",
    log: CommitLog | None = None,
    message: str | None = None,
    attempts: int = 3,
    isolation: str = "serializable",
) -> SubmittedOutcome | None:
    """Bring a table's rows in line with ``source`` by the columns ``on``, which must tell its rows apart.

    After a conflict all but the source is computed again: any row that came or went can match another of the source.

    Args:
        source: its columns are the table's, or some of them; an update leaves the others as they are.
        table: its name.
        on: columns that are equal in rows that match; NULL matches nothing.
        matched: what becomes of rows that match: "update", "delete" or "keep".
        not_matched: what becomes of source rows without a match: "insert" or "ignore".
        log: the log; None connects by the settings found.
        message: for the history.
        attempts: how often it is computed at most.
        isolation: "serializable", "write_serializable" (others' appends that rely on nothing they have read do not matter) or
            "snapshot" (only changes of the same rows or files do).

    Raises:
        DataFileError: two source rows have the same ``on``.
        ProposalRejectedError: the last attempt was refused too.
    """
    clauses = plain_clauses(matched, not_matched)
    return merge_by(source, table, on, clauses, log=log, message=message, attempts=attempts, isolation=isolation)


def merge_by(
    source: DataFrame,
    table: str,
    on: str | Sequence[str],
    clauses: Clauses,
    *,
    log: CommitLog | None = None,
    message: str | None = None,
    attempts: int = 3,
    isolation: str = "serializable",
) -> SubmittedOutcome | None:
    """`merge` by any clauses."""
    return committed(
        source.sparkSession,
        table,
        log,
        put_merge(source, on, clauses),
        operation="merge into",
        message=message,
        attempts=attempts,
        isolation=isolation,
        source=source,
    )


def plain_clauses(matched: str, not_matched: str) -> Clauses:
    """The clauses that two words stand for.

    Raises:
        InvalidRequestError: what becomes of rows is none of what there is.
    """
    if matched not in ("update", "delete", "keep") or not_matched not in ("insert", "ignore"):
        raise InvalidRequestError("matched is 'update', 'delete' or 'keep', not_matched is 'insert' or 'ignore'")
    return Clauses(
        matched=() if matched == "keep" else (Clause(None, "*" if matched == "update" else None),),
        not_matched=(Clause(None, "*"),) if not_matched == "insert" else (),
    )


def put_merge(source: DataFrame, on: str | Sequence[str], clauses: Clauses) -> Propose:
    """Deletes rows that match ``source`` or do not, and appends their new values and the rows that match nothing.

    The source is computed once, and its rows kept where they were computed, as are the rows of the table that it changes: what
    finds rows to delete, and what inserts them again, must be the same even of a source that would give others the next time.
    When an executor that keeps some of them is lost, the merge fails; they are not computed again.

    Raises:
        DataFileError: two source rows have the same ``on``.
        InvalidRequestError: ``on`` names no columns.
    """
    keys = (on,) if isinstance(on, str) else checked_items("on", on, str, "names of columns")
    if not keys:
        raise InvalidRequestError("on names the columns that are equal in rows that match, such as on='id'")
    fixed = source.localCheckpoint()
    if fixed.groupBy(*map(quoted, keys)).count().where("count > 1").limit(1).count():
        raise DataFileError(f"two rows of the source have the same {', '.join(keys)}: which one counts is not defined")

    def propose(transaction: Transaction, base: Base) -> Sequence[str]:
        refuse_inlined(base)
        step = _Step(base, _source_for(base, fixed, clauses), keys, clauses)
        transaction.read(base.table)
        rows = step.rows().localCheckpoint()
        acting = rows.where(f"{_CLAUSE} IS NOT NULL")
        found = positions(acting) if clauses.matched or clauses.not_matched_by_source else {}
        fresh = [*(step.updated(acting) if found else ()), *step.inserted(rows)]
        return put_replacement(transaction, base, Found(found), reduce(DataFrame.union, fresh) if fresh else None)

    return propose


def _source_for(base: Base, fixed: DataFrame, clauses: Clauses) -> DataFrame:
    """The source, its columns as those of the table where they are taken for them; others are for expressions only."""
    if not any(each.values == "*" for each in clauses.all):
        return fixed
    known = {fold(name) for name in names_of(base)}
    others = [name for name in fixed.columns if fold(name) not in known]
    is_read = any(each.reads_expressions for each in clauses.all)
    return conform(fixed, base.definition, ignored=others if is_read else ())


@dataclass(frozen=True)
class _Step:
    """A merge at one base."""

    base: Base
    source: DataFrame
    keys: Sequence[str]
    clauses: Clauses

    def rows(self) -> DataFrame:
        """The table's rows that a clause is about, each with its place, the number of its clause, itself as ``target`` and what
        it matches as ``source``; where something may be inserted, also those that match and stay, for their keys."""
        old = matching(self.base, None).alias("target")
        new = self.source.withColumn(_MATCHED, sf.lit(True)).alias("source")
        pairs = [(f"target.{quoted(name)}", f"source.{quoted(name)}") for name in self.keys]
        same = reduce(Expression.__and__, [sf.col(theirs) == sf.col(given) for theirs, given in pairs])
        clauses = self.clauses
        if clauses.not_matched_by_source:
            unmatched = first_that_holds(clauses.not_matched_by_source, len(clauses.matched))
            clause = sf.when(sf.col(_MATCHED), first_that_holds(clauses.matched)).otherwise(unmatched)
        else:
            clause = first_that_holds(clauses.matched)
        joined = old.join(new, same, "left" if clauses.not_matched_by_source else "inner").select(
            FILE,
            POSITION,
            _MATCHED,
            clause.alias(_CLAUSE),
            *[sf.col(given).alias(f"{_KEY}{at}") for at, (_, given) in enumerate(pairs)],
            self._whole("target", names_of(self.base)),
            self._whole("source", self.source.columns),
        )
        return joined.where(f"{_CLAUSE} IS NOT NULL OR {_MATCHED}" if clauses.not_matched else f"{_CLAUSE} IS NOT NULL")

    def _whole(self, side: str, names: Sequence[str]) -> Expression:
        """A row as one value, where an update is to read it."""
        is_read = any(each.values for each in (*self.clauses.matched, *self.clauses.not_matched_by_source))
        row = sf.struct(*[sf.col(f"{side}.{quoted(name)}") for name in names])
        return (row if is_read else sf.lit(None)).alias(side)

    def updated(self, acting: DataFrame) -> list[DataFrame]:
        """The rows that clauses have given other values."""
        fresh = []
        for number, clause in enumerate((*self.clauses.matched, *self.clauses.not_matched_by_source)):
            if clause.values is not None:
                chosen = self._values(clause, otherwise="target")
                fresh.append(self._fitted(acting.where(f"{_CLAUSE} = {number}").select(*chosen)))
        return fresh

    def inserted(self, rows: DataFrame) -> list[DataFrame]:
        """The rows of the source that match none, as clauses insert them."""
        clauses = self.clauses.not_matched
        if not clauses:
            return []
        keys = [sf.col(f"{_KEY}{at}") for at in range(len(self.keys))]
        same = [sf.col(f"source.{quoted(name)}") == key for name, key in zip(self.keys, keys, strict=True)]
        matched = rows.where(_MATCHED).select(*keys)
        unmatched = self.source.alias("source").join(matched, reduce(Expression.__and__, same), "left_anti")
        numbered = unmatched.select("*", first_that_holds(clauses).alias(_CLAUSE)).alias("source")
        return [
            self._fitted(numbered.where(f"{_CLAUSE} = {number}").select(*self._values(each, otherwise=None)))
            for number, each in enumerate(clauses)
        ]

    def _values(self, clause: Clause, *, otherwise: str | None) -> list[Expression]:
        """The table's columns as a clause gives them; those that it does not give come from that side, or are left out."""
        table, given = self.base.definition, {fold(name): name for name in self.source.columns}
        if clause.values == "*" or clause.values is None:
            values = {
                name: sf.col(f"source.{quoted(given[fold(name)])}")
                for name in names_of(self.base)
                if fold(name) in given
            }
        else:
            values = {
                table.column(name).name: value if isinstance(value, Expression) else sf.lit(value)
                for name, value in clause.values.items()
            }
        if otherwise is not None:
            values = {name: values.get(name, sf.col(f"{otherwise}.{quoted(name)}")) for name in names_of(self.base)}
        return [value.alias(name) for name, value in values.items()]

    def _fitted(self, rows: DataFrame) -> DataFrame:
        return fit(rows, self.base.definition)
