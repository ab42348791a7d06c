"""The sequencer's memory: what a check has to look up, indexed so that it costs the proposal's size, not history's.

Four kinds of entries, by how long they are kept:

- **objects and names**: schemas, tables, views and what each name meant when, back to the floor (the oldest snapshot kept);
- **live contents**: per file its record count (packed) and deleted positions (roaring), per key its row (``files``, ``rows``);
- **the window**: who committed the last ``window_snapshots`` snapshots, which files and rows they touched. A base older
  than ``index_floor`` is judged per table;
- **answers**: the ids of each partition's duplicate window; of writers for ever their epoch and committed seqs.

Snapshot ids count from 1; 0 is the empty log before them, -1 "never". Names are folded (``types.fold``) wherever they are
keys. Only ``replay`` (module ``replaying``) calls what changes anything here; ``forgetting`` ends what it began.

What is made for every proposal has an ``__init__`` of its own: the one that a dataclass or a named tuple makes for itself
stays interpreted where all else is compiled.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeAlias

from pyroaring import BitMap64

from commitlog.domain.model import ChangeKind, Genesis, Granularity, KnownNode, LogSettings, ProposalId
from commitlog.domain.model.definitions import TableDefinition
from commitlog.domain.model.nodes import Node
from commitlog.domain.model.types import fold
from commitlog.domain.state.duplicates import Answer, DuplicateWindow
from commitlog.domain.state.files import AppendedFiles, FileDeletes, FileHistory, RecordCounts
from commitlog.domain.state.rows import KeyedRows

ROW_CHANGES = (ChangeKind.INSERT_ROW, ChangeKind.UPDATE_ROW, ChangeKind.DELETE_ROW)
FILES_ENDED = (ChangeKind.DELETE, ChangeKind.COMPACT)
"""The kinds after which a file may not be live any more."""


# --- objects and names ------------------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class SchemaState:
    """A schema, kept until its drop lies at the floor.

    created_at, dropped_at: snapshots. entries: the tables and views that it held since the floor, by id, dropped ones too.
    names: folded ones that meant something in it since the floor. entry_created_at: the last snapshot that created a table,
    or a view, in it, by kind of change.
    """

    schema_id: int
    name: str
    created_at: int
    dropped_at: int | None = None
    entries: dict[int, Entry] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    entry_created_at: dict[ChangeKind, int] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class ViewState:
    """A view, kept until its drop lies at the floor; ``last`` is the last snapshot per kind of change that touched it."""

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
    """A table, kept until its drop lies at the floor; of a dropped one the contents are gone at once.

    definition: at the head. last: the last snapshot per kind of change that touched it. definition_changed_at: the last one
    that altered it by more than a comment, default or property, -1 if none. next_row_id: above every row id that was given.
    file_bytes: of all files that were ever in it. live_files: data file ids. appended: those within the window. rows: None
    without a primary key.
    """

    definition: TableDefinition
    schema: SchemaState
    created_at: int
    dropped_at: int | None = None
    last: dict[ChangeKind, int] = field(default_factory=dict)
    definition_changed_at: int = -1
    next_row_id: int = 0
    file_bytes: int = 0
    live_files: BitMap64 = field(default_factory=BitMap64)
    appended: AppendedFiles = field(default_factory=AppendedFiles)
    rows: KeyedRows | None = None

    @property
    def table_id(self) -> int:
        """Its id, which no other table or view has."""
        return self.definition.table_id

    @property
    def entry_id(self) -> int:
        """Its id among tables and views, which share one space."""
        return self.definition.table_id

    @property
    def name(self) -> str:
        """Its name at the head."""
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


class Referrer(NamedTuple):
    """A table that refers to another one, by its foreign key of that number."""

    table: TableState
    number: int


class NameEvent(NamedTuple):
    """From this snapshot on the name means ``entry`` (None: nothing), because of a change of kind ``kind``.

    called: what it, or what the name meant before, is called from then on, until it is renamed.
    """

    snapshot_id: int
    entry: Entry | None
    kind: ChangeKind
    called: str


class SchemaEvent(NamedTuple):
    """From this snapshot on the schema name means ``schema``."""

    snapshot_id: int
    schema: SchemaState | None


class Retired(Protocol):
    """Something that no base sees any more when the floor has reached a snapshot; the kinds are in ``forgetting``."""

    def forget(self, state: SequencerState, floor: int) -> None:
        """Take it out of the state."""

    def plain(self) -> list[str | int]:
        """It as plain values."""


# --- the window -------------------------------------------------------------------------------------------------------


class Commit:
    """Who made a snapshot, and what in the window goes with it.

    tables: those whose contents it touched. files: data file ids with a history, rows: (table, canonical key) with one. Each
    as often as it was touched.
    """

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


# --- answers ----------------------------------------------------------------------------------------------------------


class WriterState:
    """What is known of a writer, for ever.

    epoch: the highest that it was given, None if none. committed_seqs: exactly which, None if none. answers: by writer_seq,
    while its id is in the duplicate window.
    """

    __slots__ = ("answers", "committed_seqs", "epoch")

    def __init__(self) -> None:
        self.epoch: int | None = None
        self.committed_seqs: BitMap64 | None = None
        self.answers: dict[int, Answer] = {}


# --- all of it --------------------------------------------------------------------------------------------------------


class SequencerState:
    """Everything that ``decide`` may look at. See the module's head for what is kept how long."""

    def __init__(self, *, log_id: bytes, partitions: int, settings: LogSettings) -> None:
        self.log_id = log_id
        self.partitions = partitions
        self.settings = settings
        """As the last CONFIGURE left them; the first ones are the genesis's."""
        self.node: Node | None = None
        """What the log is among several sites; None: it is alone."""
        self.digest: dict[str, KnownNode] = {}
        """By name of every other node whose changes came here: how far they did."""
        self.next_seq = 1
        self.epoch = 0
        """Of the sequencer that made the last outcome."""
        self.next_offsets: dict[int, int] = {}
        """Of proposals, by partition: one more than the highest that was decided."""
        self.head_snapshot_id = 0
        self.floor_snapshot_id = 0
        """The oldest snapshot that can be a base; raised by EXPIRE_SNAPSHOTS and the settings, never lowered."""
        self.index_floor = 0
        """The oldest base that the window reaches back to: ``window_snapshots`` below the head."""
        self.decided_at_ms = 0
        self.snapshot_time_us = 0
        """Of the last outcome and of the head: neither falls."""
        self.snapshot_times: deque[tuple[int, int]] = deque()
        """(snapshot id, time in us), oldest first, about one a second at most: how the floor follows the clock."""
        self.schema_version = 0
        self.next_catalog_id = 1
        """Of schemas, tables, views and partitionings, which share one space."""
        self.next_file_id = 0
        """Of data files, delete files and name mappings, which share one space."""

        main = SchemaState(0, "main", 0)
        self.schemas: dict[int, SchemaState] = {0: main}
        self.tables: dict[int, TableState] = {}
        self.views: dict[int, ViewState] = {}
        """By id, dropped ones too until the floor has passed them."""
        self.schema_names: dict[str, list[SchemaEvent]] = {"main": [SchemaEvent(0, main)]}
        self.names: dict[tuple[int, str], list[NameEvent]] = {}
        """By folded name, of tables and views by schema id and folded name: what it meant from when on, oldest first."""
        self.referrers: dict[int, list[Referrer]] = {}
        """By id of the table that is referred to: who does; both are live."""
        self.retired: deque[tuple[int, Retired]] = deque()
        """(snapshot id, what to look at when the floor reaches it), oldest first: names that then changed, what was dropped."""

        self.record_counts = RecordCounts()
        self.deletes: dict[int, FileDeletes] = {}
        """By id of a live data file, if any of it is deleted."""
        self.keyed_rows = 0
        """How many there are in all tables."""

        self.commits: dict[int, Commit] = {}
        """By snapshot id above ``index_floor``."""
        self.file_history: dict[int, FileHistory] = {}
        """By id of a data file, live or not, that was deleted from or compacted above ``index_floor``."""

        self.writers: dict[str, WriterState] = {}
        self.duplicates: dict[int, DuplicateWindow] = {}
        """By partition of the proposals."""

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

    def name_events_after(self, schema: SchemaState, folded: str, base_snapshot_id: int) -> list[NameEvent]:
        """What happened to a name since a base, oldest first."""
        events = self.names.get((schema.schema_id, folded))
        if not events or events[-1].snapshot_id <= base_snapshot_id:
            return []
        return events[bisect_right(events, base_snapshot_id, key=lambda event: event.snapshot_id) :]

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

    def next_tick(self, node: str) -> int:
        """How far a node is contained here: the tick after the last one that was taken over; of this node the next snapshot."""
        if self.node is not None and node == self.node.name:
            return self.head_snapshot_id + 1
        known = self.digest.get(node)
        return 0 if known is None else known.tick

    def writer(self, writer_id: str) -> WriterState | None:
        """What is known of a writer."""
        return self.writers.get(writer_id)


def new_state(genesis: Genesis) -> SequencerState:
    """The state of a log in which nothing was proposed yet."""
    return SequencerState(log_id=genesis.log_id, partitions=genesis.partitions, settings=genesis.settings)
