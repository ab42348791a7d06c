"""What is kept of data files: of live ones what a check needs, and within the window what happened to each.

Only ``replay`` changes what is here, and ``forgetting`` ends it.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from pyroaring import AbstractBitMap64, BitMap64

from commitlog.domain.model import DataFile

_CHUNK = 4096


class RecordCounts:
    """Record count of every live data file, eight bytes each, in chunks that are freed when their last file goes."""

    def __init__(self) -> None:
        # By data file id // _CHUNK: the counts of its ids, -1 where none is live, and behind them how many are.
        self._chunks: dict[int, array[int]] = {}

    def put(self, data_file_id: int, count: int) -> None:
        """Remember a file."""
        number, at = data_file_id // _CHUNK, data_file_id % _CHUNK
        chunk = self._chunks.get(number)
        if chunk is None:
            chunk = self._chunks[number] = array("q", [-1]) * (_CHUNK + 1)
            chunk[_CHUNK] = 0
        chunk[at] = count
        chunk[_CHUNK] += 1

    def get(self, data_file_id: int) -> int:
        """Return a live file's record count."""
        return self._chunks[data_file_id // _CHUNK][data_file_id % _CHUNK]

    def holds(self, data_file_id: int) -> bool:
        """Whether a file is live, in whatever table."""
        chunk = self._chunks.get(data_file_id // _CHUNK)
        return chunk is not None and chunk[data_file_id % _CHUNK] >= 0

    def chunks(self) -> Iterator[tuple[int, array[int]]]:
        """Every chunk with its number; the last item of a chunk counts its live files."""
        yield from self._chunks.items()

    def put_chunk(self, number: int, chunk: array[int]) -> None:
        """Take back what ``chunks`` gave."""
        self._chunks[number] = chunk

    def drop(self, data_file_id: int) -> None:
        """Forget a file."""
        number, at = data_file_id // _CHUNK, data_file_id % _CHUNK
        chunk = self._chunks[number]
        chunk[at] = -1
        chunk[_CHUNK] -= 1
        if chunk[_CHUNK] == 0:
            del self._chunks[number]


class FileDeletes:
    """Deleted positions of one live file; forgotten when the file goes.

    filed: those in its current delete file. inlined: those that the catalog holds one by one. No position is in both.
    """

    __slots__ = ("filed", "inlined")

    def __init__(self, filed: BitMap64, inlined: BitMap64) -> None:
        self.filed = filed
        self.inlined = inlined

    def count(self) -> int:
        """How many rows are deleted."""
        return len(self.filed) + len(self.inlined)


class RowsDeleted(NamedTuple):
    """One delete from a file within the window: the positions it added.

    ``every_row`` is set for delete files and whole files, which touch every row of their file (rules.md 3).
    """

    snapshot_id: int
    rows: AbstractBitMap64
    every_row: bool


class FileHistory:
    """What happened to a file within the window; forgotten when the last of it has left.

    deletes: oldest first. compacted_at, ended_at: the snapshot, None while the file is live; a whole-file delete ends it too.
    moved_to: the files that its compaction made, in some of which its rows are since.
    """

    __slots__ = ("compacted_at", "deletes", "ended_at", "moved_to", "table_id")

    def __init__(
        self,
        table_id: int,
        deletes: list[RowsDeleted],
        compacted_at: int | None = None,
        ended_at: int | None = None,
        moved_to: tuple[int, ...] = (),
    ) -> None:
        self.table_id = table_id
        self.deletes = deletes
        self.compacted_at = compacted_at
        self.ended_at = ended_at
        self.moved_to = moved_to

    def last_delete(self) -> int:
        """Snapshot of the last delete within the window, -1 if none."""
        return self.deletes[-1].snapshot_id if self.deletes else -1

    def last_change(self) -> int:
        """Snapshot of the last change within the window, -1 if none."""
        return max(self.last_delete(), -1 if self.compacted_at is None else self.compacted_at)


class AppendedFile:
    """A file appended within the window, as a read's filter needs it."""

    __slots__ = ("data_file_id", "file", "snapshot_id")

    def __init__(self, snapshot_id: int, data_file_id: int, file: DataFile) -> None:
        self.snapshot_id = snapshot_id
        self.data_file_id = data_file_id
        self.file = file


class AppendedFiles:
    """The files appended to a table within the window, oldest first, also those that are gone since.

    gone: how many have left the window; with them a file keeps its number while others leave. kept: what ``deciding`` has
    found out of them, so that it need not again; it follows from them and is not part of the state.
    """

    __slots__ = ("files", "gone", "kept")

    def __init__(self) -> None:
        self.files: deque[AppendedFile] = deque()
        self.gone = 0
        self.kept: object = None

    def forget_through(self, snapshot_id: int) -> None:
        """Let a snapshot, and those before it, leave the window."""
        files = self.files
        while files and files[0].snapshot_id <= snapshot_id:
            files.popleft()
            self.gone += 1

    def forget_all(self) -> None:
        """Forget them, for the table is dropped."""
        self.files.clear()
        self.kept = None
