"""Rows that go and rows that come, as changes of one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from pyspark.sql import DataFrame

from commitlog.client import Transaction
from commitlog.client.files.removing import remove_files
from commitlog.client.writing.delete_files import split_deletes, write_delete_file
from commitlog.domain.model import DeleteFile
from commitlog.spark.changing.base import Base
from commitlog.spark.changing.matching import Found
from commitlog.spark.writing.column_fit import fit
from commitlog.spark.writing.partitions import described, write_rows

_FILE_WRITERS = 8


def put_delete(transaction: Transaction, base: Base, found: Found) -> list[str]:
    """Each file's rows in the form that suits their number: all of them, a delete file, or positions in the catalog.

    Returns the paths of the delete files.
    """
    if not found.files:
        return []
    files = {each.data_file_id: each for each in base.scan.files}
    positions = found.positions
    live = {each: files[each].record_count - len(files[each].deleted) for each in positions}
    split = split_deletes(positions, live, base.positions_max, base.all_positions_max)

    def filed(each: int) -> DeleteFile:
        return write_delete_file(each, files[each].path, positions[each] | files[each].in_delete_file, base.path)

    with ThreadPoolExecutor(_FILE_WRITERS) as pool:
        delete_files = list(pool.map(filed, split.in_files))
    inlined = {each: positions[each] for each in split.inlined}
    whole = [*found.whole_files, *split.whole]
    transaction.delete(base.table, inlined, delete_files=delete_files, whole_files=whole)
    folder = base.path.rstrip("/")
    return [f"{folder}/{each.path}" if each.path_is_relative else each.path for each in delete_files]


def put_replacement(transaction: Transaction, base: Base, found: Found, df: DataFrame | None) -> Sequence[str]:
    """Delete the rows that were found and append those of ``df``; returns the files that it has written."""
    delete_files = put_delete(transaction, base, found)
    return delete_files if df is None else [*delete_files, *put_append(transaction, base, df)]


def put_append(transaction: Transaction, base: Base, df: DataFrame) -> Sequence[str]:
    """Write the rows of ``df`` and append their files; returns these."""
    paths = write_rows(fit(df, base.definition), base.definition, base.path)
    try:
        if paths:
            transaction.append(base.table, described(paths, base.definition, base.path))
    except BaseException:
        remove_files(paths)
        raise
    return paths
