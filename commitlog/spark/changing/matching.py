"""Which rows a change finds: those that match its filter, with the places where they stand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from pyroaring import FrozenBitMap64
from pyspark.sql import DataFrame

from commitlog.client import Transaction
from commitlog.domain.model.definitions import TableDefinition
from commitlog.spark.changing.base import Base, certain_files, only, refuse_inlined
from commitlog.spark.columns import is_held
from commitlog.spark.filters import Where, condition, is_spark_only
from commitlog.spark.reading.dataframes import dataframe, with_positions
from commitlog.spark.reading.positions import positions
from commitlog.spark.reading.scan_files import NO_POSITIONS, ScanFile

ROWS_AT_ONCE = 800_000_000
"""Of which every 64th that is found makes 250 MB for the driver, a quarter of what Spark lets a job give it."""


def matching(base: Base, where: Where) -> DataFrame:
    """The rows in files that match, with their places."""
    rows = with_positions(base.spark, base.scan)
    return rows if where is None else rows.where(condition(where, rows))


def found_in(base: Base, where: Where) -> dict[int, FrozenBitMap64]:
    """Where the rows in files that match stand, by data file id; DataFileError when one that matches is in no file.

    Columns that Spark has no type for do not tell of it, and so are not read.
    """
    base = replace(base, scan=replace(base.scan, columns=tuple(c for c in base.scan.columns if is_held(c.type))))
    if where is not None and base.scan.inlined.num_rows:
        inlined = dataframe(base.spark, replace(base.scan, files=()))
        if inlined.where(condition(where, inlined)).limit(1).count():
            refuse_inlined(base)
    found: dict[int, FrozenBitMap64] = {}
    for files in searched_at_once(base.scan.files):
        found |= positions(matching(replace(base, scan=replace(base.scan, files=files)), where))
    return found


def searched_at_once(files: Iterable[ScanFile]) -> Iterator[tuple[ScanFile, ...]]:
    """Files of so few rows together that the driver can be told of any of them at once."""
    some: list[ScanFile] = []
    row_count = 0
    for each in files:
        if some and row_count + each.record_count > ROWS_AT_ONCE:
            yield tuple(some)
            some, row_count = [], 0
        some.append(each)
        row_count += each.record_count
    if some:
        yield tuple(some)


class Found(NamedTuple):
    """Rows that match: where they stand, by data file id, and the data files of which all rows do.

    ``remember`` is told where they stand in files that others were rewritten as.
    """

    positions: Mapping[int, FrozenBitMap64]
    whole_files: Sequence[int] = ()
    remember: Callable[[Mapping[int, FrozenBitMap64]], None] = lambda positions: None

    @property
    def files(self) -> list[int]:
        """All files with rows that match."""
        return [*self.positions, *self.whole_files]


_Lost: TypeAlias = "tuple[str | None, FrozenBitMap64]"
_LOST_NONE: _Lost = (None, NO_POSITIONS)


def _lost(file: ScanFile) -> _Lost:
    """What tells whether a file has the same deleted rows as before."""
    return file.delete_file_path, file.deleted


class Matches:
    """Where the rows that match a filter stand, for one attempt after another.

    A file that has the same deleted rows as at the attempt before is not read again, and one of which all rows are certain
    to match not at all.
    """

    def __init__(self, where: Where) -> None:
        self._where = where
        self._definition: TableDefinition | None = None
        self._known: dict[int, tuple[_Lost, FrozenBitMap64]] = {}

    def at(self, base: Base) -> Found:
        """The rows that match; DataFileError when one of them is in no file."""
        if self._where is None:
            refuse_inlined(base)
            return Found({}, [each.data_file_id for each in base.scan.files])
        if self._definition != base.definition:
            self._known.clear()
        self._definition = base.definition
        whole = certain_files(base)
        files = [each for each in base.scan.files if each.data_file_id not in whole]
        unread = [each for each in files if self._known.get(each.data_file_id, (None,))[0] != _lost(each)]
        if unread or base.scan.inlined.num_rows:
            part = replace(base.scan, files=tuple(unread))
            found = found_in(replace(base, scan=part), self._where)
            for each in unread:
                self._known[each.data_file_id] = (_lost(each), found.get(each.data_file_id, NO_POSITIONS))
        positions = {each.data_file_id: known for each in files if (known := self._known[each.data_file_id][1])}
        return Found(positions, sorted(whole), self._remember)

    def _remember(self, positions: Mapping[int, FrozenBitMap64]) -> None:
        self._known.update({file: (_LOST_NONE, rows) for file, rows in positions.items()})


def all_files(transaction: Transaction, base: Base) -> Found:
    """Declare all of the table read; returns its rows. DataFileError when it has some that are in no file."""
    transaction.read(base.table)
    return Matches(None).at(base)


def found_rows(base: Base, found: Found, where: Where) -> DataFrame:
    """The rows at the places where those that match ``where`` were found.

    They are those that match, which Spark finds faster, unless the filter could choose others the second time.
    """
    part = only(base, frozenset(found.files))
    rows = matching(part, where)
    if not is_spark_only(where) or _chooses_the_same(rows):
        return rows
    files = tuple(replace(each, deleted=_others(each, found)) for each in part.scan.files)
    return with_positions(base.spark, replace(part.scan, files=files))


def _chooses_the_same(rows: DataFrame) -> bool:
    """Whether a filter matches the same rows whenever it is asked: by now it is later, and what a subquery reads may have
    changed. Of Spark Connect's that is not known."""
    if not hasattr(rows, "_jdf"):
        return False
    plan, patterns = rows._jdf.queryExecution().analyzed(), rows.sparkSession._jvm.org.apache.spark.sql.catalyst.trees  # type: ignore[union-attr]
    moving = (patterns.TreePattern.CURRENT_LIKE(), patterns.TreePattern.PLAN_EXPRESSION())
    return bool(plan.deterministic()) and not any(map(plan.containsPattern, moving))


def _others(file: ScanFile, found: Found) -> FrozenBitMap64:
    """The rows of a file that were not found."""
    rows = found.positions.get(file.data_file_id)
    return file.deleted if rows is None else FrozenBitMap64(range(file.record_count)) - rows
