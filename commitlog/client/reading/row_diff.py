"""Which rows of a table are not the same at two snapshots, whatever became of them in between."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from commitlog.client.reading.changes import AFTER, BEFORE, CHANGE, DELETE, INSERT, ROW_ID, SNAPSHOT


def net_rows(changes: pa.Table) -> pa.Table:
    """The net effect of changes.

    Args:
        changes: as ``RowChanges.to_arrow`` gives them.

    Returns:
        By row id, without the snapshots: a row that only came or went once, one that became another twice, as it was and as it
        is; none of a row that came and went, or is as it was.
    """
    row_ids, kinds = changes[ROW_ID].to_numpy(), np.array(changes[CHANGE].to_pylist(), dtype=object)
    first = np.unique(row_ids, return_index=True)[1]
    last = len(row_ids) - 1 - np.unique(row_ids[::-1], return_index=True)[1]
    columns = changes.drop_columns([SNAPSHOT, CHANGE])
    kept: list[tuple[int, str]] = []
    for then, now in zip(first.tolist(), last.tolist(), strict=True):
        was, is_there = kinds[then] in (DELETE, BEFORE), kinds[now] in (INSERT, AFTER)
        if was and is_there:
            if columns.slice(then, 1).to_pylist() != columns.slice(now, 1).to_pylist():
                kept += [(then, BEFORE), (now, AFTER)]
        elif was:
            kept.append((then, DELETE))
        elif is_there:
            kept.append((now, INSERT))
    found = columns.take(pa.array([index for index, _ in kept], pa.int64()))
    return found.add_column(1, CHANGE, pa.array([kind for _, kind in kept], pa.string()))
