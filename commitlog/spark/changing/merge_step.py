"""A MERGE at one base of its table: the rows that it is about, found by one scan, and what they become."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

from pyroaring import FrozenBitMap64
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql import types as st
from pyspark.util import inheritable_thread_target

from commitlog.client.files.file_columns import ROW_ID
from commitlog.domain.model.types import fold
from commitlog.errors import DataFileError
from commitlog.spark.changing import source_keys
from commitlog.spark.changing.base import Base, names_of
from commitlog.spark.changing.merge_clauses import Clause, Clauses, first_that_holds
from commitlog.spark.changing.new_values import named, new_value
from commitlog.spark.columns import are_words, quoted, spark_type
from commitlog.spark.reading.dataframes import with_positions
from commitlog.spark.reading.positions import positions_and_repeated
from commitlog.spark.reading.scan_files import FILE, POSITION
from commitlog.spark.writing.column_fit import fit, fit_with_ids

CLAUSE = "_commitlog_clause"
NUMBER = "_commitlog_number"
"""Of a row of the source: another than that of all other rows."""
_PARTITION_BITS = 33
"""Spark numbers the rows of each partition, and puts the number of the partition before these bits."""
_NO_FILE = -1


@dataclass(frozen=True)
class MergeStep:
    """A merge at one base; rows of the ``source`` have a `NUMBER`."""

    base: Base
    source: DataFrame
    keys: Sequence[str]
    clauses: Clauses
    is_small: bool = False
    """Whether each task may have the whole source."""
    ends: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)
    """The least and the greatest value of keys of the source."""

    def rows(self) -> DataFrame:
        """The table's rows that a clause is about, each with its place, the number of its clause, itself as ``target`` and what
        it matches as ``source``, with its number; where something may be inserted, also those that match and stay."""
        old = self._candidates().alias("target")
        new = (sf.broadcast(self.source) if self.is_small else self.source).alias("source")
        pairs = [(self.base.definition.column(name).name, name) for name in self.keys]
        if are_words(each for pair in pairs for each in pair):
            same = sf.expr(" AND ".join(f"{_of('target', own)} = {_of('source', name)}" for own, name in pairs))
        else:
            equal = [sf.col(_of("target", own)) == sf.col(_of("source", name)) for own, name in pairs]
            same = reduce(Expression.__and__, equal)
        clauses = self.clauses
        if clauses.not_matched_by_source:
            unmatched = first_that_holds(clauses.not_matched_by_source, len(clauses.matched))
            # Of the source they have nothing, and what is said of it would be NULL in silence.
            old.select(unmatched)
            clause = sf.when(sf.col(NUMBER).isNotNull(), first_that_holds(clauses.matched)).otherwise(unmatched)
        else:
            clause = first_that_holds(clauses.matched)
        joined = old.join(new, same, "left" if clauses.not_matched_by_source else "inner").select(
            FILE,
            POSITION,
            ROW_ID,
            NUMBER,
            clause.alias(CLAUSE),
            self._whole("target", names_of(self.base)),
            self._whole("source", [name for name in self.source.columns if name != NUMBER]),
        )
        is_acting = f"{CLAUSE} IS NOT NULL"
        return joined.where(f"{is_acting} OR {NUMBER} IS NOT NULL" if clauses.not_matched else is_acting)

    def _candidates(self) -> DataFrame:
        """The table's rows, with their places, but for some that match nothing."""
        is_large = sum(each.record_count for each in self.base.scan.files) >= source_keys.ROWS_MIN
        if not (self.is_small and is_large) or self.clauses.not_matched_by_source:
            return with_positions(self.base.spark, self.base.scan)
        table = self.base.definition
        integers = {
            name: pair
            for name, pair in self.ends.items()
            if isinstance(spark_type(table.column(name).type), st.IntegralType)
        }
        # The rows are described to Spark while it computes the bits.
        with ThreadPoolExecutor(1) as pool:
            describing = pool.submit(
                inheritable_thread_target(self.base.spark)(with_positions), self.base.spark, self.base.scan
            )
            bits = source_keys.key_bits(self.source, integers)
        own = None if bits is None else bits._replace(name=table.column(bits.name).name)
        return source_keys.candidates(describing.result(), own)

    def _whole(self, side: str, names: Sequence[str]) -> Expression:
        """A row as one value, where an update is to read it."""
        is_read = any(each.values for each in (*self.clauses.matched, *self.clauses.not_matched_by_source))
        fields = [_of(side, name) for name in names]
        if is_read and not are_words(names):
            return sf.struct(*fields).alias(side)
        row = f"struct({', '.join(fields)})" if is_read else "NULL"
        return sf.expr(f"{row} AS `{side}`")

    def updated(self, acting: DataFrame) -> list[DataFrame]:
        """The rows that clauses have given other values, each with its ``ROW_ID``."""
        fresh = []
        for number, clause in enumerate((*self.clauses.matched, *self.clauses.not_matched_by_source)):
            if clause.values is not None:
                chosen = self._values(clause, otherwise="target")
                known = acting if number < len(self.clauses.matched) else acting.drop("source")
                rows = known.where(f"{CLAUSE} = {number}").select(*chosen, ROW_ID)
                new = [each.name for each in self.source.schema.fields] if clause.values == "*" else [*clause.values]
                fresh.append(fit_with_ids(rows, self.base.definition, new=new))
        return fresh

    def found(self, rows: DataFrame) -> tuple[dict[int, FrozenBitMap64], int]:
        """Where the rows that a clause is about stand, and how many rows of the source match any, by one job.

        Raises:
            DataFileError: a clause is about a row for two of the source: keys of another type than the table's may differ, such
                as '1' and '01', and be equal to the same number.
        """
        in_partition = f"{NUMBER} & {(1 << _PARTITION_BITS) - 1}L"
        standing = rows.selectExpr(
            f"stack(2, IF({CLAUSE} IS NULL, NULL, {FILE}), {POSITION}, "
            f"{_NO_FILE} - shiftright({NUMBER}, {_PARTITION_BITS}), {in_partition}) AS ({FILE}, {POSITION})"
        )
        found, repeated = positions_and_repeated(standing.where(f"{FILE} IS NOT NULL"))
        if any(each > _NO_FILE for each in repeated):
            raise doubled(f"match the same row by {', '.join(self.keys)}")
        matched = sum(len(found.pop(each)) for each in [*found] if each <= _NO_FILE)
        return found, matched

    def inserted(self, rows: DataFrame) -> list[DataFrame]:
        """The rows of the source that match none, as clauses insert them."""
        clauses = self.clauses.not_matched
        unmatched = self.source.join(rows.select(NUMBER), NUMBER, "left_anti").alias("source")
        numbered = unmatched.select("*", first_that_holds(clauses).alias(CLAUSE)).alias("source")
        return [
            fit(
                numbered.where(f"{CLAUSE} = {number}").select(*self._values(each, otherwise=None)), self.base.definition
            )
            for number, each in enumerate(clauses)
        ]

    def _values(self, clause: Clause, *, otherwise: str | None) -> list[Expression | str]:
        """The table's columns as a clause gives them; those that it does not give come from that side, or are left out."""
        table, given = self.base.definition, {fold(name): name for name in self.source.columns}
        values: dict[str, Expression | str]
        if clause.values == "*" or clause.values is None:
            values = {name: _of("source", given[fold(name)]) for name in names_of(self.base) if fold(name) in given}
        else:
            values = {name: new_value(value) for name, value in named(clause.values, table).items()}
        if otherwise is not None:
            values = {name: values.get(name, _of(otherwise, name)) for name in names_of(self.base)}
        return [value if isinstance(value, str) else value.alias(name) for name, value in values.items()]


def doubled(how: str) -> DataFileError:
    """What is wrong with two rows of a source for one of the table."""
    return DataFileError(f"two rows of the source {how}: which one counts is not defined")


def _of(side: str, name: str) -> str:
    """The name of a column of one side. It is no SQL, where a session may take names in quotes for patterns."""
    return f"{side}.{quoted(name)}"
