"""What statistics and partition values prove of whole files: that every row matches, so that none need be read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from commitlog.client.tables.filters import NULL_CHECKS
from commitlog.domain.model import FilterOp, Predicate

if TYPE_CHECKING:
    from commitlog.catalog.queries import CatalogFile, CatalogTable

_OPPOSITES: Mapping[FilterOp, tuple[FilterOp, ...]] = {
    FilterOp.EQ: (FilterOp.LT, FilterOp.GT, FilterOp.IS_NULL),
    FilterOp.LT: (FilterOp.GE, FilterOp.IS_NULL),
    FilterOp.LE: (FilterOp.GT, FilterOp.IS_NULL),
    FilterOp.GT: (FilterOp.LE, FilterOp.IS_NULL),
    FilterOp.GE: (FilterOp.LT, FilterOp.IS_NULL),
    FilterOp.IS_NULL: (FilterOp.IS_NOT_NULL,),
    FilterOp.IS_NOT_NULL: (FilterOp.IS_NULL,),
}
"""What no row of a file may meet if all of them are to meet a condition."""


class FileList(Protocol):
    """Knows which files of a table may hold rows that match."""

    def files_at(
        self, table: CatalogTable, snapshot_id: int, *, where: Iterable[Predicate] = ()
    ) -> Sequence[CatalogFile]: ...


def uncertain_files(files: FileList, table: CatalogTable, at: int, where: Iterable[Predicate]) -> set[int]:
    """The ids of the files that may hold a row that does not match, or for which nothing is proved."""
    return {
        file.data_file_id
        for each in where
        for opposite in _opposites(each)
        for file in files.files_at(table, at, where=[opposite])
    }


def _opposites(predicate: Predicate) -> Iterator[Predicate]:
    if predicate.op is FilterOp.BETWEEN and isinstance(predicate.value, tuple):
        low, high = predicate.value
        for op, value in ((FilterOp.LT, low), (FilterOp.GT, high), (FilterOp.IS_NULL, None)):
            yield Predicate(predicate.column, op, value)
        return
    if predicate.op not in _OPPOSITES:
        # Of a list of values nothing is proved.
        yield Predicate(predicate.column, FilterOp.IS_NOT_NULL)
        yield Predicate(predicate.column, FilterOp.IS_NULL)
        return
    for op in _OPPOSITES[predicate.op]:
        yield Predicate(predicate.column, op, None if op in NULL_CHECKS else predicate.value)
