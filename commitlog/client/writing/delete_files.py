"""Positions of deleted rows: in which form they go, and the Parquet files that hold many of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Sized
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import FrozenBitMap64

from commitlog.client.files.lake import new_name
from commitlog.client.files.places import Naming, filesystem_of, normal_path, relative_to
from commitlog.client.reading.rows_of_file import numbers
from commitlog.domain.model import DeleteFile

INLINED_MAX = 1_000
"""How many rows of a file go as positions in the catalog, where each is a row: more are a delete file."""
_FIELD_IDS = {"file_path": 2147483646, "pos": 2147483645}


class SplitDeletes(NamedTuple):
    """Data files by the form in which their rows go: all of them, positions in the catalog, or a delete file."""

    whole: Sequence[int]
    inlined: Sequence[int]
    in_files: Sequence[int]


def split_deletes(
    found: Mapping[int, Sized], live: Mapping[int, int], positions_max: int, all_positions_max: int
) -> SplitDeletes:
    """The form for each data file.

    Args:
        found: positions by data file id.
        live: how many rows each of these files has.
        positions_max: how many positions of one file the log takes without a delete file.
        all_positions_max: how many of all files together.
    """
    whole = [each for each, rows in found.items() if len(rows) == live[each]]
    parts = [each for each, rows in found.items() if len(rows) != live[each]]
    inlined: list[int] = []
    in_files: list[int] = []
    positions = 0
    for each in sorted(parts, key=lambda each: len(found[each])):
        positions += len(found[each])
        fits = len(found[each]) <= min(positions_max, INLINED_MAX) and positions <= all_positions_max
        (inlined if fits else in_files).append(each)
    return SplitDeletes(whole, inlined, in_files)


def write_delete_file(data_file_id: int, data_path: str, positions: Iterable[int], table_path: str) -> DeleteFile:
    """A Parquet delete file in the table's directory, which holds ``positions`` of one data file.

    A file has one delete file: a new one holds the rows of the one before.
    """
    rows = FrozenBitMap64(positions)
    path = f"{table_path.rstrip('/')}/{new_name()}-deletes.parquet"
    schema = pa.schema([_field("file_path", pa.string()), _field("pos", pa.int64())])
    table = pa.table([pa.repeat(pa.scalar(data_path), len(rows)), numbers(rows)], schema=schema)
    filesystem, inner = filesystem_of(normal_path(path))
    with Naming(path):
        pq.write_table(table, inner, filesystem=filesystem, compression="snappy")
    shown, is_relative = relative_to(normal_path(path), table_path)
    return DeleteFile(
        data_file_id=data_file_id,
        path=shown,
        path_is_relative=is_relative,
        rows=rows,
        file_size_bytes=filesystem.get_file_info(inner).size,
    )


def _field(name: str, data_type: pa.DataType) -> pa.Field:
    return pa.field(name, data_type, nullable=False, metadata={"PARQUET:field_id": str(_FIELD_IDS[name])})
