"""Rows that go and rows that come, as changes of one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeAlias

from pyroaring import FrozenBitMap64
from pyspark.sql import DataFrame
from pyspark.util import inheritable_thread_target

from commitlog.client import Transaction
from commitlog.client.files.removing import remove_files
from commitlog.client.writing.delete_files import split_deletes, write_delete_file
from commitlog.client.writing.proposal_room import beyond_room
from commitlog.domain.model import DataFile, DeleteFile
from commitlog.spark.changing.base import Base
from commitlog.spark.changing.matching import Found
from commitlog.spark.changing.setting_apart import ScatteredRowsError
from commitlog.spark.writing.column_fit import fit, fit_with_ids
from commitlog.spark.writing.partitions import described
from commitlog.spark.writing.proposal_room import write_few

_FILE_WRITERS = 8


def put_delete(transaction: Transaction, base: Base, found: Found) -> list[str]:
    """Each file's rows in the form that suits their number: all of them, a delete file, or positions in the catalog.

    Returns the paths of the delete files.

    Raises:
        ScatteredRowsError: a proposal does not hold the places of so many rows.
    """
    if not found.files:
        return []
    files = {each.data_file_id: each for each in base.scan.files}
    positions = found.positions
    live = {each: files[each].live_count for each in positions}
    limits = base.log.settings
    split = split_deletes(positions, live, limits.inlined_positions_max, limits.changeset_positions_max)

    def all_gone(each: int) -> FrozenBitMap64:
        return positions[each] | files[each].in_delete_file()

    def filed(each: int) -> DeleteFile:
        return write_delete_file(each, files[each].path, gone[each], base.path)

    scattered = beyond_room({each: positions[each] for each in split.in_files}, limits)
    with ThreadPoolExecutor(_FILE_WRITERS) as pool:
        # Delete files that are there are read only where those that follow them may fit.
        gone = {} if scattered else dict(zip(split.in_files, pool.map(all_gone, split.in_files), strict=True))
        if scattered := scattered or beyond_room(gone, limits):
            raise ScatteredRowsError(base, found, scattered)
        delete_files = list(pool.map(filed, split.in_files))
    inlined = {each: positions[each] for each in split.inlined}
    whole = [*found.whole_files, *split.whole]
    transaction.delete(base.table, inlined, delete_files=delete_files, whole_files=whole)
    folder = base.path.rstrip("/")
    return [f"{folder}/{each.path}" if each.path_is_relative else each.path for each in delete_files]


def put_replacement(
    transaction: Transaction, base: Base, found: Found, new: DataFrame | None = None, changed: DataFrame | None = None
) -> Sequence[str]:
    """Delete the rows that were found and append others; returns the files that it has written.

    Those of ``changed`` are rows that were found, which keep their ``ROW_ID``. A reader takes it for that of all rows of a file
    that has the column, so ``new`` rows are in files of their own.
    """
    parts = [] if changed is None else [_Part(fit_with_ids(changed, base.definition), keeps_ids=True)]
    if new is not None:
        parts.append(_Part(fit(new, base.definition), keeps_ids=False))
    paths = put_delete(transaction, base, found)
    try:
        for written, files in _side_by_side(base, parts):
            paths += written
            if files:
                transaction.append(base.table, files)
    except BaseException:
        remove_files(paths)
        raise
    return paths


class _Part(NamedTuple):
    """Rows, which `fit` has made, for files of their own."""

    rows: DataFrame
    keeps_ids: bool


_Written: TypeAlias = "tuple[Sequence[str], Sequence[DataFile]]"


def _side_by_side(base: Base, parts: Sequence[_Part]) -> list[_Written]:
    """The files of each part, written at the same time; when one fails, those of the others are removed."""
    if not parts:
        return []
    as_here = inheritable_thread_target(base.spark)
    with ThreadPoolExecutor(len(parts)) as pool:
        writing = [pool.submit(as_here(_written), base, part) for part in parts]
    try:
        return [each.result() for each in writing]
    except BaseException:
        remove_files([path for each in writing if each.exception() is None for path in each.result()[0]])
        raise


def _written(base: Base, part: _Part) -> _Written:
    paths = write_few(base.log, part.rows, base.definition, base.path)
    try:
        return paths, described(paths, base.definition, base.path, carry_row_ids=part.keeps_ids)
    except BaseException:
        remove_files(paths)
        raise
