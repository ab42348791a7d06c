"""The values that travel through the log: proposals, changes, reads, outcomes, conflicts.

Every type is frozen. Field names are those of the Avro records in ``schemas/`` and of the JSON form (``json_form``), so
that a record can be followed from a writer's file to the catalog under one name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar, NamedTuple, TypeAlias

from pyroaring import FrozenBitMap64

RULES_VERSION = 1
"""Version of the rules by which this code decides. A log that carries a newer one is refused."""

BIGINT_MIN, BIGINT_MAX = -(2**63), 2**63 - 1
TIME_US_MIN, TIME_US_MAX = -210_866_803_200_000_000, 9_224_318_015_999_999_999
"""The times that a PostgreSQL timestamp holds, in microseconds since 1970: 4713 BC to 294276 AD."""
MAIN_SCHEMA_ID = 0

ProposalId: TypeAlias = bytes
"""The 16 bytes of a UUID. ``json_form.format_id`` and ``parse_id`` turn it into text and back."""

Scalar: TypeAlias = bool | int | float | str | None
RowValue: TypeAlias = "Scalar | list[RowValue] | dict[str, RowValue]"
Row: TypeAlias = Mapping[str, RowValue]
"""A full row image, column name to value; values as JSON has them (dates, times, uuids and decimals as text)."""


class ChangeKind(StrEnum):
    """What a change does. The names are those of the log and of JSON and are never reused."""

    CREATE_SCHEMA = "CREATE_SCHEMA"
    DROP_SCHEMA = "DROP_SCHEMA"
    CREATE_TABLE = "CREATE_TABLE"
    DROP_TABLE = "DROP_TABLE"
    RENAME_TABLE = "RENAME_TABLE"
    ALTER_TABLE = "ALTER_TABLE"
    CREATE_VIEW = "CREATE_VIEW"
    REPLACE_VIEW = "REPLACE_VIEW"
    DROP_VIEW = "DROP_VIEW"
    APPEND = "APPEND"
    DELETE = "DELETE"
    COMPACT = "COMPACT"
    INSERT_ROW = "INSERT_ROW"
    UPDATE_ROW = "UPDATE_ROW"
    DELETE_ROW = "DELETE_ROW"
    FLUSH = "FLUSH"
    EXPIRE_SNAPSHOTS = "EXPIRE_SNAPSHOTS"
    CONFIGURE = "CONFIGURE"


class AlterOp(StrEnum):
    """One step of an ALTER_TABLE."""

    ADD_COLUMN = "ADD_COLUMN"
    DROP_COLUMN = "DROP_COLUMN"
    RENAME_COLUMN = "RENAME_COLUMN"
    SET_TYPE = "SET_TYPE"
    SET_NULLABLE = "SET_NULLABLE"
    SET_DEFAULT = "SET_DEFAULT"
    SET_PARTITION_BY = "SET_PARTITION_BY"
    SET_COMMENT = "SET_COMMENT"
    SET_PROPERTY = "SET_PROPERTY"


class Isolation(StrEnum):
    """SNAPSHOT checks only writes; SERIALIZABLE also that everything read is unchanged since the base."""

    SNAPSHOT = "SNAPSHOT"
    SERIALIZABLE = "SERIALIZABLE"


class Granularity(StrEnum):
    """How fine deletes and compactions of one table are told apart."""

    TABLE = "TABLE"
    FILE = "FILE"
    ROW = "ROW"


class ReadKind(StrEnum):
    """What an entry of a read set covers."""

    TABLE = "TABLE"
    NAME = "NAME"
    ROWS = "ROWS"


class FilterOp(StrEnum):
    """Comparison of a column with a literal in a read's filter."""

    EQ = "="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="
    IN = "in"
    BETWEEN = "between"
    IS_NULL = "is_null"
    IS_NOT_NULL = "is_not_null"


class Verdict(StrEnum):
    """The answer to a proposal."""

    COMMITTED = "COMMITTED"
    REJECTED = "REJECTED"
    DUPLICATE = "DUPLICATE"


class Reason(StrEnum):
    """Why a proposal was refused, in order of precedence: the first that applies is the answer (DESIGN 2)."""

    MALFORMED = "MALFORMED"
    PROPOSAL_EXPIRED = "PROPOSAL_EXPIRED"
    WRITER_FENCED = "WRITER_FENCED"
    TOO_LATE = "TOO_LATE"
    BASE_UNKNOWN = "BASE_UNKNOWN"
    BASE_EXPIRED = "BASE_EXPIRED"
    INVALID = "INVALID"
    CONFLICT = "CONFLICT"


class ConflictKind(StrEnum):
    """What the committed side did that the proposal cannot live with."""

    SCHEMA_CREATED = "SCHEMA_CREATED"
    SCHEMA_DROPPED = "SCHEMA_DROPPED"
    ENTRY_CREATED = "ENTRY_CREATED"
    TABLE_CREATED = "TABLE_CREATED"
    TABLE_DROPPED = "TABLE_DROPPED"
    TABLE_RENAMED = "TABLE_RENAMED"
    TABLE_ALTERED = "TABLE_ALTERED"
    TABLE_APPENDED = "TABLE_APPENDED"
    TABLE_DELETED_FROM = "TABLE_DELETED_FROM"
    TABLE_COMPACTED = "TABLE_COMPACTED"
    TABLE_ROWS_CHANGED = "TABLE_ROWS_CHANGED"
    TABLE_FLUSHED = "TABLE_FLUSHED"
    TABLE_REFERENCED = "TABLE_REFERENCED"
    VIEW_CREATED = "VIEW_CREATED"
    VIEW_DROPPED = "VIEW_DROPPED"
    VIEW_REPLACED = "VIEW_REPLACED"
    ROW_CHANGED = "ROW_CHANGED"
    INSERT_INSERT = "INSERT_INSERT"
    INSERT_UPDATE = "INSERT_UPDATE"
    UPDATE_UPDATE = "UPDATE_UPDATE"
    UPDATE_DELETE = "UPDATE_DELETE"
    UPDATE_KEY = "UPDATE_KEY"
    DELETE_DELETE = "DELETE_DELETE"
    MULTIPLE_UNIQUE = "MULTIPLE_UNIQUE"
    UNIQUE = "UNIQUE"
    FOREIGN_KEY = "FOREIGN_KEY"


class ResolutionAction(StrEnum):
    """What became of the proposed change to a row that met a committed one."""

    APPLIED = "APPLIED"
    SKIPPED = "SKIPPED"
    HANDLED = "HANDLED"


class Position(NamedTuple):
    """A place in a Kafka topic."""

    partition: int
    offset: int


# --- tables -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ColumnSpec:
    """A column as a writer asks for it. ``type`` is a DuckLake type name; ``default`` the text of a literal, or None."""

    name: str
    type: str
    nullable: bool = True
    default: str | None = None


@dataclass(frozen=True, slots=True)
class ForeignKeySpec:
    """``columns`` of the table refer to ``ref_columns`` (a primary key or unique constraint) of another one."""

    columns: tuple[str, ...]
    ref_schema: str
    ref_table: str
    ref_columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PartitionSpec:
    """One partition key: a column and a transform (identity, year, month, day, hour, bucket(N))."""

    column: str
    transform: str = "identity"


@dataclass(frozen=True, slots=True)
class Alteration:
    """One step of an ALTER_TABLE; which of the other fields are set depends on ``op``."""

    op: AlterOp
    column: ColumnSpec | None = None
    name: str | None = None
    new_name: str | None = None
    type: str | None = None
    nullable: bool | None = None
    default: str | None = None
    partition_by: tuple[PartitionSpec, ...] = ()
    comment: str | None = None
    key: str | None = None
    value: str | None = None


# --- files ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """What a file's writer knows of one column; None is unknown. ``value_count`` does not count NULLs."""

    column: str
    min: Scalar = None
    max: Scalar = None
    null_count: int | None = None
    value_count: int | None = None
    contains_nan: bool | None = None
    size_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class MappedColumn:
    """For a file without field ids: the name in the file of the table's column ``column``."""

    source_name: str
    column: str
    children: tuple[MappedColumn, ...] = ()


Statistics: TypeAlias = "bytes | tuple[ColumnStatistics, ...]"
"""Opaque bytes as the writer made them (``file_statistics.avsc``), or the expanded form."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """A Parquet file with rows of one table.

    ``partition_values`` are in the order of the table's partition keys, after the transform, None if unknown.
    ``row_ids`` is set in FLUSH only: the row ids of the file's rows, in the order of the file.
    """

    path: str
    record_count: int
    file_size_bytes: int
    path_is_relative: bool = True
    footer_size: int | None = None
    statistics: Statistics = ()
    partition_values: tuple[Scalar, ...] | None = None
    name_mapping: tuple[MappedColumn, ...] | None = None
    row_ids: tuple[int, ...] | None = None


RowPositions: TypeAlias = "FrozenBitMap64 | tuple[int, ...]"
"""Row positions in a file. A tuple is what was written but is no set of positions (negative or given twice)."""


@dataclass(frozen=True, slots=True)
class PositionDelete:
    """Rows of one data file to delete, without a delete file."""

    data_file_id: int
    rows: RowPositions


@dataclass(frozen=True, slots=True)
class DeleteFile:
    """A Parquet delete file for one data file, with the positions it holds."""

    data_file_id: int
    path: str
    rows: RowPositions
    file_size_bytes: int
    path_is_relative: bool = True
    footer_size: int | None = None


# --- changes ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CreateSchema:
    kind: ClassVar[ChangeKind] = ChangeKind.CREATE_SCHEMA
    schema: str
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropSchema:
    kind: ClassVar[ChangeKind] = ChangeKind.DROP_SCHEMA
    schema: str
    cascade: bool = False
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class CreateTable:
    kind: ClassVar[ChangeKind] = ChangeKind.CREATE_TABLE
    schema: str
    table: str
    columns: tuple[ColumnSpec, ...]
    primary_key: tuple[str, ...] = ()
    unique: tuple[tuple[str, ...], ...] = ()
    foreign_keys: tuple[ForeignKeySpec, ...] = ()
    partition_by: tuple[PartitionSpec, ...] = ()
    exclusion_constraints: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropTable:
    kind: ClassVar[ChangeKind] = ChangeKind.DROP_TABLE
    schema: str
    table: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class RenameTable:
    kind: ClassVar[ChangeKind] = ChangeKind.RENAME_TABLE
    schema: str
    table: str
    new_table: str


@dataclass(frozen=True, slots=True)
class AlterTable:
    kind: ClassVar[ChangeKind] = ChangeKind.ALTER_TABLE
    schema: str
    table: str
    alterations: tuple[Alteration, ...]


@dataclass(frozen=True, slots=True)
class CreateView:
    kind: ClassVar[ChangeKind] = ChangeKind.CREATE_VIEW
    schema: str
    view: str
    sql: str
    dialect: str = "duckdb"
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class ReplaceView:
    kind: ClassVar[ChangeKind] = ChangeKind.REPLACE_VIEW
    schema: str
    view: str
    sql: str
    dialect: str = "duckdb"


@dataclass(frozen=True, slots=True)
class DropView:
    kind: ClassVar[ChangeKind] = ChangeKind.DROP_VIEW
    schema: str
    view: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class Append:
    kind: ClassVar[ChangeKind] = ChangeKind.APPEND
    schema: str
    table: str
    files: tuple[DataFile, ...]


@dataclass(frozen=True, slots=True)
class Delete:
    kind: ClassVar[ChangeKind] = ChangeKind.DELETE
    schema: str
    table: str
    positions: tuple[PositionDelete, ...] = ()
    delete_files: tuple[DeleteFile, ...] = ()
    whole_files: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Compact:
    kind: ClassVar[ChangeKind] = ChangeKind.COMPACT
    schema: str
    table: str
    replaced: tuple[int, ...]
    files: tuple[DataFile, ...]


@dataclass(frozen=True, slots=True)
class RowOrigin:
    """Where a replicated row version was made: node, its tick there, commit time in ms, the node's priority."""

    node: str
    tick: int
    stamp_ms: int
    priority: int


@dataclass(frozen=True, slots=True)
class InsertRow:
    kind: ClassVar[ChangeKind] = ChangeKind.INSERT_ROW
    schema: str
    table: str
    row: Row
    row_time_us: int | None = None
    origin: RowOrigin | None = None


@dataclass(frozen=True, slots=True)
class UpdateRow:
    kind: ClassVar[ChangeKind] = ChangeKind.UPDATE_ROW
    schema: str
    table: str
    key: Row
    row: Row
    row_time_us: int | None = None
    origin: RowOrigin | None = None


@dataclass(frozen=True, slots=True)
class DeleteRow:
    kind: ClassVar[ChangeKind] = ChangeKind.DELETE_ROW
    schema: str
    table: str
    key: Row
    row_time_us: int | None = None
    origin: RowOrigin | None = None


@dataclass(frozen=True, slots=True)
class Flush:
    kind: ClassVar[ChangeKind] = ChangeKind.FLUSH
    schema: str
    table: str
    files: tuple[DataFile, ...]


@dataclass(frozen=True, slots=True)
class ExpireSnapshots:
    kind: ClassVar[ChangeKind] = ChangeKind.EXPIRE_SNAPSHOTS
    older_than_snapshot_id: int


@dataclass(frozen=True, slots=True)
class Configure:
    kind: ClassVar[ChangeKind] = ChangeKind.CONFIGURE
    settings: Mapping[str, Scalar]


Change: TypeAlias = (
    CreateSchema | DropSchema | CreateTable | DropTable | RenameTable | AlterTable
    | CreateView | ReplaceView | DropView | Append | Delete | Compact
    | InsertRow | UpdateRow | DeleteRow | Flush | ExpireSnapshots | Configure
)  # fmt: skip


# --- reads ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Predicate:
    """``column op value``. ``value`` is a tuple for ``in``, a pair for ``between``, None for the null checks."""

    column: str
    op: FilterOp
    value: Scalar | tuple[Scalar, ...] = None


@dataclass(frozen=True, slots=True)
class TableRead:
    """Rows of a table that match a conjunction; ``files`` are the data files the reader opened, None if not told."""

    kind: ClassVar[ReadKind] = ReadKind.TABLE
    schema: str
    table: str
    filter: tuple[Predicate, ...] = ()
    files: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class NameRead:
    """What a name means, or with ``name`` None what a schema holds."""

    kind: ClassVar[ReadKind] = ReadKind.NAME
    schema: str
    name: str | None = None


@dataclass(frozen=True, slots=True)
class RowsRead:
    """Rows of a keyed table, by key."""

    kind: ClassVar[ReadKind] = ReadKind.ROWS
    schema: str
    table: str
    keys: tuple[Row, ...]


Read: TypeAlias = TableRead | NameRead | RowsRead


# --- proposals and outcomes -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Proposal:
    """A changeset and the snapshot it was computed from (DESIGN 2)."""

    proposal_id: ProposalId
    writer_id: str
    base_snapshot_id: int
    changes: tuple[Change, ...]
    writer_epoch: int | None = None
    writer_seq: int | None = None
    open_writer: bool = False
    decide_before_ms: int | None = None
    isolation: Isolation = Isolation.SNAPSHOT
    reads: tuple[Read, ...] = ()
    author: str | None = None
    message: str | None = None
    extra: str | None = None
    created_at_ms: int = 0


@dataclass(frozen=True, slots=True)
class MalformedProposal:
    """What stands in for a proposal whose bytes or text do not decode; the ids are there if they could be read."""

    detail: str
    proposal_id: ProposalId | None = None
    writer_id: str | None = None


@dataclass(frozen=True, slots=True)
class ConflictObject:
    """What the two sides met on. ``table`` also names a view; ``row_key`` is the canonical text of a key."""

    schema: str | None = None
    table: str | None = None
    table_id: int | None = None
    data_file_id: int | None = None
    row_key: str | None = None


@dataclass(frozen=True, slots=True)
class Conflict:
    """One thing that the proposal and a snapshot committed after its base cannot both have.

    Exactly one of ``proposed_change`` and ``proposed_read`` is set: the index in the proposal's changes or reads.
    """

    kind: ConflictKind
    proposed_change: int | None
    proposed_read: int | None
    object: ConflictObject
    committed_snapshot_id: int
    committed_proposal_id: ProposalId | None = None
    committed_writer_id: str | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Resolution:
    """How a proposed change to a row that met a committed one was settled without a refusal (DESIGN 5).

    ``committed_row`` and ``proposed_row`` are the two images (None: deleted); ``row`` the one that stands after
    ``action`` HANDLED. ``handler`` names the handler that was asked and is never asked again on replay.
    """

    change: int
    kind: ConflictKind
    action: ResolutionAction
    policy: str
    object: ConflictObject
    committed_snapshot_id: int
    committed_proposal_id: ProposalId | None = None
    committed_writer_id: str | None = None
    committed_row: Row | None = None
    proposed_row: Row | None = None
    row: Row | None = None


@dataclass(frozen=True, slots=True)
class Assigned:
    """Every id that an outcome gave, each list in the order of the changes (DESIGN 12, ruling 10).

    ``row_id_starts``: per new file the id of its first row (None: its rows carry their ids), and per single row that was
    given an id that id.
    """

    schema_ids: tuple[int, ...] = ()
    table_ids: tuple[int, ...] = ()
    view_ids: tuple[int, ...] = ()
    partition_ids: tuple[int, ...] = ()
    column_ids: tuple[tuple[int, ...], ...] = ()
    mapping_ids: tuple[int, ...] = ()
    data_file_ids: tuple[int, ...] = ()
    delete_file_ids: tuple[int, ...] = ()
    row_id_starts: tuple[int | None, ...] = ()
    schema_version: int = 0
    writer_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class Effect:
    """What one change of a committed proposal did, in ids, so that nobody has to resolve its names again.

    ``object_id`` is the schema, table or view (None for changes of the log itself). A row change ends the version of
    ``ended_row_id`` (None for an insert) and starts one of ``row_id`` (None for a delete). ``skipped``: it had nothing
    to do (if_exists, if_not_exists) or gave way to the committed row.
    """

    object_id: int | None = None
    skipped: bool = False
    ended_row_id: int | None = None
    row_id: int | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """The answer to one proposal, complete: ``replay`` and ``project`` need nothing else.

    ``next_catalog_id`` and ``next_file_id`` are the counters after this outcome. ``proposal`` is None for MALFORMED;
    ``proposal_bytes`` are the bytes as they arrived.
    """

    seq: int
    epoch: int
    source: Position
    decided_at_ms: int
    verdict: Verdict
    head_snapshot_id: int
    proposal_id: ProposalId | None
    writer_id: str | None
    rules_version: int = RULES_VERSION
    snapshot_id: int | None = None
    snapshot_time_us: int | None = None
    reason: Reason | None = None
    detail: str | None = None
    conflicts: tuple[Conflict, ...] = ()
    conflict_count: int = 0
    resolutions: tuple[Resolution, ...] = ()
    assigned: Assigned = Assigned()
    effects: tuple[Effect, ...] = ()
    next_catalog_id: int = 1
    next_file_id: int = 0
    original_seq: int | None = None
    proposal: Proposal | None = None
    proposal_bytes: bytes | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Receipt:
    """The verdict without the proposal. For a DUPLICATE ``answered_*`` repeat the first answer, where it is known."""

    seq: int
    source: Position
    proposal_id: ProposalId | None
    verdict: Verdict
    snapshot_id: int | None
    head_snapshot_id: int
    reason: Reason | None
    detail: str | None
    assigned: Assigned
    decided_at_ms: int
    original_seq: int | None = None
    answered_verdict: Verdict | None = None
    answered_snapshot_id: int | None = None
    answered_reason: Reason | None = None
    answered_detail: str | None = None


@dataclass(frozen=True, slots=True)
class LogSettings:
    """What can change a verdict; first values in the genesis, later ones by CONFIGURE.

    window_snapshots: how far back the file and row index reaches; older bases are judged per TABLE.
    duplicate_window_outcomes, duplicate_window_ms: an id is forgotten when both have passed in its partition.
    expire_older_than_ms, expire_keep_snapshots: let the log raise the floor by itself; None is off.
    """

    conflict_granularity: Granularity = Granularity.FILE
    on_conflict: str = "ABORT"
    window_snapshots: int = 100_000
    duplicate_window_outcomes: int = 100_000
    duplicate_window_ms: int = 60_000
    clock_skew_ms_max: int = 60_000
    conflicts_max: int = 100
    changes_max: int = 10_000
    files_max: int = 100_000
    reads_max: int = 1_000
    read_keys_max: int = 100_000
    name_length_max: int = 255
    inlined_positions_max: int = 100_000
    keyed_rows_max: int = 10_000_000
    proposal_bytes_max: int = 1_048_576
    expire_older_than_ms: int | None = None
    expire_keep_snapshots: int | None = None


@dataclass(frozen=True, slots=True)
class Genesis:
    """Outcome seq 0: what the log is, before anything was proposed."""

    log_id: bytes
    partitions: int = 1
    created_at_ms: int = 0
    settings: LogSettings = LogSettings()
    rules_version: int = RULES_VERSION
    data_path: str | None = None
