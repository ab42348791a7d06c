"""Row ids of one table: which id of the log stands for an id of the source.

A log numbers the rows of every file it is given, the source does not number those that an update or a compaction wrote
again. Where the two differ, files that carry row ids are written with those of the log, so that ids stay unique and a row
keeps its id through updates.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence


class RowIds:
    """Grows with the history; ids are given in the order of the log."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ranges: list[tuple[int, int, int]] = []
        self.is_identity = True

    def add(self, source_start: int, count: int, start: int) -> None:
        """``count`` ids of the source from ``source_start`` on are those of the log from ``start`` on."""
        if count == 0:
            return
        if source_start != start:
            self.is_identity = False
        at = bisect_right(self._starts, source_start)
        if at:
            before, known, to = self._ranges[at - 1]
            if before + known == source_start and to + known == start:
                self._ranges[at - 1] = (before, known + count, to)
                return
        self._starts.insert(at, source_start)
        self._ranges.insert(at, (source_start, count, start))

    def find(self, source_id: int) -> int | None:
        """The log's id, None when the source's id has not been met."""
        at = bisect_right(self._starts, source_id)
        if not at:
            return None
        before, known, to = self._ranges[at - 1]
        return to + source_id - before if source_id < before + known else None

    def carried(self, source_ids: Sequence[int], start: int | None) -> list[int]:
        """The ids that a file carries; those not met before get the ones that the log gives the file from ``start`` on."""
        found: list[int] = []
        for offset, source_id in enumerate(source_ids):
            known = self.find(source_id)
            if known is None:
                assert start is not None, f"row {source_id} of a compaction was never inserted"
                known = start + offset
                self.add(source_id, 1, known)
            found.append(known)
        return found
