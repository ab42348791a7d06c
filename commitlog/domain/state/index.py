"""The sequencer's memory: what a check has to look up, indexed so that it costs the proposal's size, not history's.

Three kinds of entries, by how long they are kept:

- **objects and names**: schemas, tables, views and what each name meant when, back to the floor (the oldest snapshot kept);
- **live contents**: per file its record count (packed) and deleted positions (roaring), per key its row;
- **the window**: who committed the last ``window_snapshots`` snapshots, which files and rows they touched. A base older
  than ``index_floor`` is judged per table.

What is made for every proposal has an ``__init__`` of its own: the one that a dataclass or a named tuple makes for itself
stays interpreted where all else is compiled.

Only ``replay`` (module ``replaying``) calls what changes anything here.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from pyroaring import AbstractBitMap64, BitMap64

from commitlog.domain.model import (
    ChangeKind,
    DataFile,
    Genesis,
    Granularity,
    LogSettings,
    ProposalId,
    Reason,
    Row,
    Verdict,
)
from commitlog.domain.model.definitions import TableDefinition
from commitlog.domain.model.types import fold

_CHUNK = 4096
ROW_CHANGES = (ChangeKind.INSERT_ROW, ChangeKind.UPDATE_ROW, ChangeKind.DELETE_ROW)
FILES_ENDED = (ChangeKind.DELETE, ChangeKind.COMPACT)


class RecordCounts:
    """Record count of every live data file, eight bytes each, in chunks that are freed when their last file goes."""

    def __init__(self) -> None:
        self._chunks: dict[int, array[int]] = {}

    def put(self, data_file_id: int, count: int) -> None:
        """Remember a file."""
        number, at = divmod(data_file_id, _CHUNK)
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
        number, at = divmod(data_file_id, _CHUNK)
        chunk = self._chunks[number]
        chunk[at] = -1
        chunk[_CHUNK] -= 1
        if chunk[_CHUNK] == 0:
            del self._chunks[number]


@dataclass(slots=True)
class FileDeletes:
    """Deleted positions of one live file: those in its delete file, and those the catalog holds as inlined deletes."""

    filed: BitMap64 = field(default_factory=BitMap64)
    inlined: BitMap64 = field(default_factory=BitMap64)

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


@dataclass(slots=True)
class FileHistory:
    """What happened to a file within the window."""

    table_id: int
    deletes: list[RowsDeleted] = field(default_factory=list)
    compacted_at: int | None = None
    ended_at: int | None = None

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


class Origin(NamedTuple):
    """Node of a row version, for ties of LAST_UPDATE_WINS; a row made on this log has priority 0 and no name."""

    priority: int
    node: str


LOCAL = Origin(0, "")


@dataclass(frozen=True, slots=True)
class RowVersion:
    """A live row of a keyed table. ``unique`` and ``references`` hold canonical values, None where a column is NULL.

    ``image`` is kept within the window only.
    """

    row_id: int
    snapshot_id: int
    time_us: int
    origin: Origin
    unique: tuple[str | None, ...]
    references: tuple[str | None, ...]
    image: Row | None


@dataclass(slots=True)
class KeyedRows:
    """The rows of one keyed table, by canonical key."""

    live: dict[str, RowVersion] = field(default_factory=dict)
    unique: list[dict[str, str]] = field(default_factory=list)
    referring: list[dict[str, set[str]]] = field(default_factory=list)
    history: dict[str, list[tuple[int, RowVersion | None]]] = field(default_factory=dict)
    row_touches: dict[int, tuple[int, ChangeKind]] = field(default_factory=dict)
    inlined: BitMap64 = field(default_factory=BitMap64)

    @classmethod
    def of(cls, definition: TableDefinition) -> KeyedRows | None:
        """The empty rows of a new table; None when it has no primary key."""
        if not definition.keyed:
            return None
        return cls(unique=[{} for _ in definition.unique], referring=[{} for _ in definition.foreign_keys])

    def at(self, key: str, base_snapshot_id: int) -> RowVersion | None:
        """The version of a key at a base within the window."""
        versions = self.history.get(key)
        if versions is None:
            return self.live.get(key)
        found: RowVersion | None = None
        for snapshot_id, version in versions:
            if snapshot_id > base_snapshot_id:
                break
            found = version
        return found

    def last_touch(self, row_id: int) -> int:
        """Snapshot of the last change or flush of a row within the window, -1 if none."""
        touch = self.row_touches.get(row_id)
        return -1 if touch is None else touch[0]

    def last_change(self, key: str) -> int:
        """Snapshot of the last change of a key within the window, -1 if none."""
        versions = self.history.get(key)
        return versions[-1][0] if versions else -1


@dataclass(slots=True, eq=False)
class SchemaState:
    """A schema, with every entry it held and every (folded) name it knew since the floor."""

    schema_id: int
    name: str
    created_at: int
    dropped_at: int | None = None
    entries: dict[int, Entry] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    entry_created_at: dict[ChangeKind, int] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class ViewState:
    """A view; ``last`` is the last snapshot per kind of change that touched it."""

    view_id: int
    schema: SchemaState
    name: str
    created_at: int
    dropped_at: int | None = None
    last: dict[ChangeKind, int] = field(default_factory=dict)

    @property
    def entry_id(self) -> int:
        """Its id among tables and views, which share one space."""
        return self.view_id

    @property
    def word(self) -> str:
        """What it is called in a message."""
        return "view"


@dataclass(slots=True, eq=False)
class TableState:
    """A table; ``last`` is the last snapshot per kind of change, ``definition_changed_at`` of one that is not benign."""

    definition: TableDefinition
    schema: SchemaState
    created_at: int
    dropped_at: int | None = None
    last: dict[ChangeKind, int] = field(default_factory=dict)
    definition_changed_at: int = -1
    next_row_id: int = 0
    file_bytes: int = 0
    live_files: BitMap64 = field(default_factory=BitMap64)
    appended: deque[AppendedFile] = field(default_factory=deque)
    rows: KeyedRows | None = None

    @property
    def table_id(self) -> int:
        return self.definition.table_id

    @property
    def entry_id(self) -> int:
        """Its id among tables and views, which share one space."""
        return self.definition.table_id

    @property
    def name(self) -> str:
        return self.definition.name

    @property
    def word(self) -> str:
        """What it is called in a message."""
        return "table"

    def last_of(self, kinds: tuple[ChangeKind, ...]) -> int:
        """Snapshot of the last change of one of these kinds, -1 if none."""
        return max([self.last.get(kind, -1) for kind in kinds])

    def is_known_at(self, base_snapshot_id: int) -> bool:
        """Whether it still is what it was at a base: not dropped, renamed, or altered by more than what is benign."""
        return (
            self.dropped_at is None
            and self.definition_changed_at <= base_snapshot_id
            and self.last.get(ChangeKind.RENAME_TABLE, -1) <= base_snapshot_id
        )


Entry: TypeAlias = TableState | ViewState
"""What a name in a schema means."""


class NameEvent(NamedTuple):
    """From this snapshot on the name means ``entry`` (None: nothing), because of a change of kind ``kind``."""

    snapshot_id: int
    entry: Entry | None
    kind: ChangeKind


class SchemaEvent(NamedTuple):
    """From this snapshot on the schema name means ``schema``."""

    snapshot_id: int
    schema: SchemaState | None


class Commit:
    """Who made a snapshot, and what in the window goes with it."""

    __slots__ = ("files", "proposal_id", "rows", "tables", "writer_id")

    def __init__(
        self,
        proposal_id: ProposalId,
        writer_id: str,
        tables: tuple[TableState, ...],
        files: tuple[int, ...],
        rows: tuple[tuple[TableState, str], ...],
    ) -> None:
        self.proposal_id = proposal_id
        self.writer_id = writer_id
        self.tables = tables
        self.files = files
        self.rows = rows


class Answer:
    """The first answer to a proposal id, to repeat; ``content_hash`` of what it asked for."""

    __slots__ = ("content_hash", "detail", "reason", "seq", "snapshot_id", "verdict")

    def __init__(
        self,
        seq: int,
        verdict: Verdict,
        snapshot_id: int | None,
        reason: Reason | None,
        detail: str | None,
        content_hash: int | None,
    ) -> None:
        self.seq = seq
        self.verdict = verdict
        self.snapshot_id = snapshot_id
        self.reason = reason
        self.detail = detail
        self.content_hash = content_hash


class RecentId:
    """An id in the duplicate window of its partition, in order of decision."""

    __slots__ = ("decided_at_ms", "number", "proposal_id", "writer_id", "writer_seq")

    def __init__(
        self, proposal_id: ProposalId, writer_id: str, writer_seq: int | None, decided_at_ms: int, number: int
    ) -> None:
        self.proposal_id = proposal_id
        self.writer_id = writer_id
        self.writer_seq = writer_seq
        self.decided_at_ms = decided_at_ms
        self.number = number


@dataclass(slots=True)
class DuplicateWindow:
    """The ids of one proposals partition that can still be told from new ones."""

    answers: dict[ProposalId, Answer] = field(default_factory=dict)
    recent: deque[RecentId] = field(default_factory=deque)
    outcomes: int = 0
    expired_time_ms: int = -1


@dataclass(slots=True)
class WriterState:
    """What is known of a writer for ever: its highest epoch and the exact set of its committed seqs."""

    epoch: int | None = None
    committed_seqs: BitMap64 | None = None
    answers: dict[int, Answer] = field(default_factory=dict)


class SequencerState:
    """Everything that ``decide`` may look at. See the module's head for what is kept how long."""

    def __init__(self, *, log_id: bytes, partitions: int, settings: LogSettings) -> None:
        self.log_id = log_id
        self.partitions = partitions
        self.settings = settings
        self.next_seq = 1
        self.epoch = 0
        self.head_snapshot_id = 0
        self.floor_snapshot_id = 0
        self.index_floor = 0
        self.decided_at_ms = 0
        self.snapshot_time_us = 0
        self.schema_version = 0
        self.next_catalog_id = 1
        self.next_file_id = 0
        self.next_offsets: dict[int, int] = {}
        self.keyed_rows = 0
        main = SchemaState(0, "main", 0)
        self.schema_names: dict[str, list[SchemaEvent]] = {"main": [SchemaEvent(0, main)]}
        self.schemas: dict[int, SchemaState] = {0: main}
        self.names: dict[tuple[int, str], list[NameEvent]] = {}
        self.tables: dict[int, TableState] = {}
        self.views: dict[int, ViewState] = {}
        self.referrers: dict[int, list[tuple[TableState, int]]] = {}
        self.record_counts = RecordCounts()
        self.deletes: dict[int, FileDeletes] = {}
        self.file_history: dict[int, FileHistory] = {}
        self.commits: dict[int, Commit] = {}
        self.writers: dict[str, WriterState] = {}
        self.duplicates: dict[int, DuplicateWindow] = {}
        self.retired: deque[tuple[int, tuple[int, str] | str | Entry | SchemaState]] = deque()
        self.snapshot_times: deque[tuple[int, int]] = deque()

    def entry_at(self, schema: SchemaState, folded: str, snapshot_id: int) -> Entry | None:
        """What a name in a schema meant at a snapshot not below the floor."""
        events = self.names.get((schema.schema_id, folded))
        if not events:
            return None
        if events[-1].snapshot_id <= snapshot_id:
            return events[-1].entry
        at = bisect_right(events, snapshot_id, key=lambda event: event.snapshot_id)
        return events[at - 1].entry if at else None

    def entry_named(self, schema_name: str, name: str, snapshot_id: int) -> Entry | None:
        """What a name, as it is written, meant at a snapshot not below the floor."""
        schema = self.schema_at(fold(schema_name), snapshot_id)
        return None if schema is None else self.entry_at(schema, fold(name), snapshot_id)

    def schema_at(self, folded: str, snapshot_id: int) -> SchemaState | None:
        """What a schema name meant at a snapshot not below the floor."""
        events = self.schema_names.get(folded)
        if not events:
            return None
        if events[-1].snapshot_id <= snapshot_id:
            return events[-1].schema
        at = bisect_right(events, snapshot_id, key=lambda event: event.snapshot_id)
        return events[at - 1].schema if at else None

    def name_events_after(self, schema: SchemaState, folded: str, base_snapshot_id: int) -> Iterator[NameEvent]:
        """What happened to a name since a base, oldest first."""
        for event in self.names.get((schema.schema_id, folded), ()):
            if event.snapshot_id > base_snapshot_id:
                yield event

    def granularity_of(self, table: TableState) -> Granularity:
        """How finely deletes and compactions of a table are told apart within the window: its own setting, else the log's."""
        own = table.definition.properties.get("conflict_granularity")
        return Granularity(own) if own is not None else self.settings.conflict_granularity

    def policy_of(self, table: TableState) -> str:
        """What settles races on rows of a table: its own ``on_conflict``, else the log's."""
        own = table.definition.properties.get("on_conflict")
        return own if own is not None else self.settings.on_conflict

    def may_have_gone(self, table: TableState, data_file_id: int, base_snapshot_id: int) -> bool:
        """Whether a file that is not live was the table's at a base, as far as can be told: beyond the window by the table."""
        if table.dropped_at is not None:
            return True
        if base_snapshot_id < self.index_floor:
            return table.last_of(FILES_ENDED) > base_snapshot_id
        history = self.file_history.get(data_file_id)
        if history is None or history.table_id != table.table_id or history.ended_at is None:
            return False
        return history.ended_at > base_snapshot_id

    def deleted_count(self, data_file_id: int) -> int:
        """How many rows of a live file are deleted."""
        deletes = self.deletes.get(data_file_id)
        return 0 if deletes is None else deletes.count()

    def writer(self, writer_id: str) -> WriterState | None:
        """What is known of a writer."""
        return self.writers.get(writer_id)


def new_state(genesis: Genesis) -> SequencerState:
    """The state of a log in which nothing was proposed yet."""
    return SequencerState(log_id=genesis.log_id, partitions=genesis.partitions, settings=genesis.settings)
