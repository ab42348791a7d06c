"""MERGE: a table's rows are brought in line with those of a source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from functools import cached_property, reduce
from typing import Any, NamedTuple

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from commitlog.client import CommitLog, SubmittedOutcome, Transaction
from commitlog.client.arguments import checked_items, shown
from commitlog.client.files.column_statistics import TEXT_BYTES_MAX
from commitlog.client.tables.partitions import is_storable
from commitlog.domain.model.definitions import TableDefinition
from commitlog.domain.model.types import INTEGER_BITS, fold
from commitlog.errors import DataFileError, InvalidRequestError
from commitlog.spark.changing.attempts import committed
from commitlog.spark.changing.base import Base, refuse_inlined
from commitlog.spark.changing.matching import Found
from commitlog.spark.changing.merge_clauses import Clause, Clauses
from commitlog.spark.changing.merge_step import CLAUSE, NUMBER, MergeStep, doubled
from commitlog.spark.changing.new_values import explaining_text, named
from commitlog.spark.changing.row_replacement import put_replacement
from commitlog.spark.changing.source_size import is_kept_small
from commitlog.spark.columns import quoted
from commitlog.spark.filters import Where
from commitlog.spark.reading.snapshots import read_at
from commitlog.spark.writing.column_fit import check_conforming, check_frame, conform
from commitlog.spark.writing.key import Key

_BOUNDED = frozenset({*INTEGER_BITS, "date", "decimal", "varchar"})
_SIDES = (
    "A merge names columns as source.x and target.x: of rows that are inserted there is source.x alone, of those that no row "
    "of the source matches target.x alone."
)
_BOUNDED_KEYS = (st.IntegralType, st.DateType, st.DecimalType)
_APART, _ROWS = "_commitlog_apart", "_commitlog_rows"


def merge(
    source: DataFrame,
    table: str,
    on: str | Sequence[str],
    *,
    matched: str = "update",
    not_matched: str = "insert",
    log: CommitLog | None = None,
    key: Key | str | None = None,
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
        key: names this write to this table, such as ``nightly:2024-01-31``, so that doing it again commits nothing.
        message: for the history.
        attempts: how often it is computed at most.
        isolation: "serializable", "write_serializable" (others' appends that rely on nothing they have read do not matter) or
            "snapshot" (only changes of the same rows or files do).

    Raises:
        DataFileError: two source rows have the same ``on``, or match the same row of the table.
        ProposalRejectedError: the last attempt was refused too.
    """
    clauses = plain_clauses(matched, not_matched)
    return merge_by(
        source, table, on, clauses, log=log, key=key, message=message, attempts=attempts, isolation=isolation
    )


def merge_by(
    source: DataFrame,
    table: str,
    on: str | Sequence[str],
    clauses: Clauses,
    *,
    log: CommitLog | None,
    key: Key | str | None,
    message: str | None,
    attempts: int,
    isolation: str,
) -> SubmittedOutcome | None:
    """`merge` by any clauses."""
    merging = Merging(source, on, clauses)
    return committed(
        source.sparkSession,
        table,
        log,
        merging.put,
        operation="merge into",
        key=key,
        message=message,
        attempts=attempts,
        isolation=isolation,
        source=source,
        where=merging.bounds,
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


class _Told(NamedTuple):
    """What the source's rows tell: their number, and the least and the greatest value of each key whose values have bounds."""

    row_count: int
    ends: Mapping[str, tuple[Any, Any]]


class Merging:
    """Deletes rows that match ``source`` or do not, and appends their new values and the rows that match nothing.

    What can be told wrong without computing anything is told first. The source is computed once, as a second time it might
    give other rows: those that find what is to be deleted must be those that are inserted. They are kept where they were
    computed, and so are the rows of the table that change. When an executor that keeps some of them is lost, the merge fails;
    they are not computed again.

    Raises:
        DataFileError: two source rows have the same ``on``.
        InvalidRequestError: ``on`` names no columns.
    """

    def __init__(self, source: DataFrame, on: str | Sequence[str], clauses: Clauses) -> None:
        check_frame(source)
        given: Any = (on,) if isinstance(on, str | Expression) else on
        keys = checked_items("on", given, str, "names of columns")
        if not keys:
            raise InvalidRequestError("on names the columns that are equal in rows that match, such as on='id'")
        known = {fold(name): name for name in source.columns}
        if unknown := [name for name in keys if fold(name) not in known]:
            raise InvalidRequestError(
                f"on names columns that the source and the table both have, such as on='id' or on=['day', 'id'], not "
                f"{shown(unknown[0])}: the source has {', '.join(source.columns[:20])}"
            )
        # Where case tells names apart in Spark, another column may differ by it alone.
        self._keys = [name if name in source.columns else known[fold(name)] for name in keys]
        self._clauses = clauses
        self._given = source

    @cached_property
    def _source(self) -> DataFrame:
        # What comes first computes it: that is what tells of its keys.
        return self._given.withColumn(NUMBER, sf.monotonically_increasing_id()).localCheckpoint(eager=False)

    @cached_property
    def _told(self) -> _Told:
        """DataFileError where keys are not unique."""
        names = [*map(quoted, self._keys)]
        types = {each.name: each.dataType for each in self._given.schema.fields}
        # Rows with a NULL key match nothing, and so are told apart.
        is_null = sf.greatest(*[sf.col(name).isNull() for name in names], sf.lit(False))
        apart = sf.when(is_null, sf.col(NUMBER)).alias(_APART)
        by_key = self._source.groupBy(*names, apart).agg(sf.count("*").alias(_ROWS))
        bounded = [quoted(name) for name in self._keys if _has_bounds(types[name])]
        days = {quoted(name) for name, data_type in types.items() if isinstance(data_type, st.DateType)}
        ends = [_day(f(name)) if name in days else f(name) for f in (sf.min, sf.max) for name in bounded]
        most, row_count, *values = by_key.agg(sf.max(_ROWS), sf.sum(_ROWS), *ends).collect()[0]
        if most is not None and most > 1:
            raise doubled(f"have the same {', '.join(self._keys)}")
        columns = [name for name, key in zip(self._keys, names, strict=True) if key in bounded]
        pairs = zip(values[: len(bounded)], values[len(bounded) :], strict=True)
        return _Told(row_count or 0, dict(zip(columns, pairs, strict=True)))

    def bounds(self, table: TableDefinition) -> Where:
        """Between which values the table's rows that it is about have the columns ``on``, where their types have bounds."""
        for name in self._keys:
            table.column(name)
        for values in (each.values for each in self._clauses.all if isinstance(each.values, Mapping)):
            named(values, table)
        if self._are_columns_taken:
            check_conforming(self._given.schema, table, ignored=self._ignored(self._given, table))
        ends = self._told.ends
        if self._clauses.not_matched_by_source:
            return None
        try:
            schema = st.StructType([each for each in self._given.schema.fields if each.name in self._keys])
            check_conforming(schema, table)
        except DataFileError:
            # Spark may compare them nevertheless; it has its own word on those that it does not.
            return None
        pairs = [
            (column.name, pair) for name, pair in ends.items() if (column := table.column(name)).type.name in _BOUNDED
        ]
        return [(name, "between", pair) for name, pair in pairs if all(map(_is_bound, pair))] or None

    def put(self, transaction: Transaction, base: Base) -> Sequence[str]:
        """Put what becomes of the rows into the transaction."""
        refuse_inlined(base)
        clauses = self._clauses
        source = self._fitted(self._source, base.definition)
        step = MergeStep(base, source, self._keys, clauses, is_kept_small(self._source), self._told.ends)
        # What the source was made of may have been any row.
        is_own = read_at(self._given, base.log, base.definition.table_id) is not None
        transaction.read(base.table, filter=() if is_own else base.predicates)
        with explaining_text(_SIDES):
            rows = step.rows().localCheckpoint(eager=False)
            acting = rows.where(f"{CLAUSE} IS NOT NULL")
            inserted, changed = _together(step.inserted(rows)), _together(step.updated(acting))
        places, matched = step.found(rows)
        is_new = matched < self._told.row_count
        return put_replacement(
            transaction, base, Found(places), inserted if is_new else None, changed if places else None
        )

    def _fitted(self, source: DataFrame, table: TableDefinition) -> DataFrame:
        """The source, its columns as those of the table where they are taken for them; others are for expressions only."""
        return conform(source, table, ignored=self._ignored(source, table)) if self._are_columns_taken else source

    @property
    def _are_columns_taken(self) -> bool:
        return any(each.values == "*" for each in self._clauses.all)

    def _ignored(self, source: DataFrame, table: TableDefinition) -> list[str]:
        known = {fold(column.name) for column in table.columns}
        others = [name for name in source.columns if fold(name) not in known]
        is_read = any(each.reads_expressions for each in self._clauses.all)
        return [name for name in others if is_read or name == NUMBER]


def _has_bounds(data_type: st.DataType) -> bool:
    """Whether the ends of values are their ends to the catalog too; text of another collation than by bytes has others."""
    return isinstance(data_type, _BOUNDED_KEYS) or data_type == st.StringType()


def _day(end: Expression) -> Expression:
    """A day, if it is one of those that Python has: Spark has more."""
    # As text, for PySpark has no literal of a day before the year 1000.
    return sf.when(end.between(*[sf.lit(str(each)).cast("date") for each in (date.min, date.max)]), end)


def _together(parts: Sequence[DataFrame]) -> DataFrame | None:
    return reduce(DataFrame.union, parts) if parts else None


def _is_bound(value: Any) -> bool:
    """Whether a filter may have the value: there need not be one, and some text stands in none."""
    if isinstance(value, str):
        return is_storable(value) and len(value.encode()) <= TEXT_BYTES_MAX
    return value is not None
