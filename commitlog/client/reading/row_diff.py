"""Which rows of a table are not the same at two snapshots, whatever became of them in between."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from commitlog.client.reading.changes import AFTER, BEFORE, CHANGE, DELETE, INSERT, ROW_ID, SNAPSHOT
from commitlog.client.tables.arrow_types import to_rows

_Places = npt.NDArray[np.int64]


def net_rows(changes: pa.Table) -> pa.Table:
    """The net effect of changes.

    Args:
        changes: as ``RowChanges.to_arrow`` gives them.

    Returns:
        By row id, without the snapshots: a row that only came or went once, one that became another twice, as it was and as it
        is; none of a row that came and went, is as it was, or went while an equal one came.
    """
    row_ids = changes[ROW_ID].to_numpy()
    first = np.unique(row_ids, return_index=True)[1]
    last = len(row_ids) - 1 - np.unique(row_ids[::-1], return_index=True)[1]
    was = _is_one_of(changes, (DELETE, BEFORE))[first]
    is_there = _is_one_of(changes, (INSERT, AFTER))[last]
    then, now = first[was & is_there], last[was & is_there]
    gone, come = first[was & ~is_there], last[~was & is_there]
    columns = changes.drop_columns([SNAPSHOT, CHANGE])
    values = columns.drop_columns([ROW_ID])
    if len(then):
        before, after = np.split(_numbered(values.take(np.concatenate([then, now]))), 2)
        then, now = then[before != after], now[before != after]
    if len(gone) and len(come):
        numbers = _numbered(values.take(np.concatenate([gone, come])))
        of_gone, of_come = numbers[: len(gone)], numbers[len(gone) :]
        gone, come = gone[_beyond(of_gone, of_come)], come[_beyond(of_come, of_gone)]
    found = ((then, BEFORE), (now, AFTER), (gone, DELETE), (come, INSERT))
    places = np.concatenate([each for each, _ in found])
    kinds = np.repeat(np.arange(len(found)), [len(each) for each, _ in found])
    order = np.lexsort((kinds, row_ids[places]))
    marked = pa.array([kind for _, kind in found]).take(pa.array(kinds[order]))
    return columns.take(places[order]).add_column(1, CHANGE, marked)


def _is_one_of(changes: pa.Table, kinds: tuple[str, str]) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = pc.is_in(changes[CHANGE], pa.array(kinds)).to_numpy()
    return found


def _numbered(rows: pa.Table) -> _Places:
    """A number for each row, which equal rows share."""
    numbers = np.zeros(rows.num_rows, np.int64)
    for column in rows.columns:
        of_column = _encoded(column)
        numbers = _encoded(pa.array(numbers * (int(of_column.max(initial=0)) + 1) + of_column))
    return numbers


def _encoded(values: Any) -> _Places:
    """The place of each value among the different ones."""
    if pa.types.is_nested(values.type):
        values = pa.array([repr(each) for each in to_rows(pa.table({"value": values}))], pa.string())
    encoded = values.dictionary_encode(null_encoding="encode")
    whole = encoded.combine_chunks() if isinstance(encoded, pa.ChunkedArray) else encoded
    places: _Places = whole.indices.to_numpy().astype(np.int64)
    return places


def _beyond(numbers: _Places, others: _Places) -> npt.NDArray[np.bool_]:
    """Which of them are more than there are others of the same number."""
    matched = np.bincount(others, minlength=int(numbers.max()) + 1)
    order = np.argsort(numbers, kind="stable")
    sorted_numbers = numbers[order]
    starts = np.searchsorted(sorted_numbers, sorted_numbers)
    found = np.empty(len(numbers), np.bool_)
    found[order] = np.arange(len(numbers)) - starts >= matched[sorted_numbers]
    return found
