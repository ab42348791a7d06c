"""Which rows a change finds: those that match its filter, with the places where they stand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pyroaring import FrozenBitMap64
from pyspark.sql import DataFrame

from commitlog.client import Transaction
from commitlog.domain.model.definitions import TableDefinition
from commitlog.spark.changing.base import Base, only, refuse_inlined
from commitlog.spark.filters import Where, condition, is_spark_only
from commitlog.spark.reading.dataframes import dataframe, positions, with_positions


def matching(base: Base, where: Where) -> DataFrame:
    """The rows in files that match, with their places; DataFileError when one that matches is in no file."""
    if where is not None and base.scan.inlined.num_rows:
        inlined = dataframe(base.spark, replace(base.scan, files=()))
        if inlined.where(condition(where)).limit(1).count():
            refuse_inlined(base)
    rows = with_positions(base.spark, base.scan)
    return rows if where is None else rows.where(condition(where))


def found_in(base: Base, where: Where) -> dict[int, tuple[int, ...]]:
    """Where the rows in files that match stand: positions by data file id."""
    return positions(matching(base, where))


class Matches:
    """Where the rows that match a filter stand, for one attempt after another.

    A file that has the same deleted rows as at the attempt before is not read again.
    """

    def __init__(self, where: Where) -> None:
        self._where = where
        self._definition: TableDefinition | None = None
        self._known: dict[int, tuple[FrozenBitMap64, tuple[int, ...]]] = {}

    def at(self, base: Base) -> dict[int, tuple[int, ...]]:
        """Positions by data file id, of files with rows that match."""
        if self._definition != base.definition:
            self._known.clear()
        self._definition = base.definition
        unread = [each for each in base.scan.files if self._known.get(each.data_file_id, (None,))[0] != each.deleted]
        if unread or base.scan.inlined.num_rows:
            part = replace(base.scan, files=tuple(unread))
            found = found_in(replace(base, scan=part), self._where)
            self._known.update({each.data_file_id: (each.deleted, found.get(each.data_file_id, ())) for each in unread})
        live = [each.data_file_id for each in base.scan.files]
        return {file: self._known[file][1] for file in live if self._known[file][1]}


def all_files(transaction: Transaction, base: Base) -> list[int]:
    """Declare all of the table read; returns its files. DataFileError when it has rows that are in no file."""
    refuse_inlined(base)
    transaction.read(base.table)
    return [each.data_file_id for each in base.scan.files]


def found_rows(base: Base, found: Mapping[int, Sequence[int]], where: Where) -> DataFrame:
    """The rows at the places where those that match ``where`` were found.

    They are those that match, which Spark finds faster, unless the filter could choose others the second time.
    """
    part = only(base, found)
    rows = matching(part, where)
    if not is_spark_only(where) or (hasattr(rows, "_jdf") and rows._jdf.queryExecution().analyzed().deterministic()):
        return rows
    others = {
        each.data_file_id: FrozenBitMap64(range(each.record_count)) - FrozenBitMap64(found[each.data_file_id])
        for each in part.scan.files
    }
    files = tuple(replace(each, deleted=others[each.data_file_id]) for each in part.scan.files)
    return with_positions(base.spark, replace(part.scan, files=files))
