"""The values that travel through the log: proposals, outcomes, conflicts, receipts, and the log's settings.

All values of the domain are found under this module's name, those of ``kinds`` and ``changes`` too. Every type is frozen.
Field names are those of the Avro records in ``schemas/`` and of the JSON form (``json_form``), so that a record can be
followed from a writer's file to the catalog under one name.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from commitlog.domain.model.changes import (
    Alteration,
    AlterTable,
    Append,
    Change,
    ColumnSpec,
    ColumnStatistics,
    Compact,
    Configure,
    CreateSchema,
    CreateTable,
    CreateView,
    DataFile,
    Delete,
    DeleteFile,
    DeleteRow,
    DropSchema,
    DropTable,
    DropView,
    ExpireSnapshots,
    Flush,
    ForeignKeySpec,
    InsertRow,
    MappedColumn,
    NameRead,
    PartitionSpec,
    PositionDelete,
    Predicate,
    Read,
    RenameTable,
    ReplaceView,
    RowOrigin,
    RowPositions,
    RowsRead,
    Statistics,
    TableRead,
    UpdateRow,
)
from commitlog.domain.model.invalid_codes import InvalidCode
from commitlog.domain.model.kinds import (
    BIGINT_MAX,
    BIGINT_MIN,
    MAIN_SCHEMA_ID,
    RULES_VERSION,
    TIME_US_MAX,
    TIME_US_MIN,
    AlterOp,
    ChangeKind,
    ConflictKind,
    FilterOp,
    Granularity,
    Isolation,
    Position,
    ProposalId,
    ReadKind,
    Reason,
    ResolutionAction,
    Row,
    RowValue,
    Scalar,
    Verdict,
)

__all__ = [
    "BIGINT_MAX",
    "BIGINT_MIN",
    "MAIN_SCHEMA_ID",
    "RULES_VERSION",
    "TIME_US_MAX",
    "TIME_US_MIN",
    "AlterOp",
    "AlterTable",
    "Alteration",
    "Append",
    "Assigned",
    "Change",
    "ChangeKind",
    "ColumnSpec",
    "ColumnStatistics",
    "Compact",
    "Configure",
    "Conflict",
    "ConflictKind",
    "ConflictObject",
    "CreateSchema",
    "CreateTable",
    "CreateView",
    "DataFile",
    "Delete",
    "DeleteFile",
    "DeleteRow",
    "DropSchema",
    "DropTable",
    "DropView",
    "Effect",
    "ExpireSnapshots",
    "FilterOp",
    "Flush",
    "ForeignKeySpec",
    "Genesis",
    "Granularity",
    "InsertRow",
    "InvalidCode",
    "Isolation",
    "LogSettings",
    "MalformedProposal",
    "MappedColumn",
    "NameRead",
    "Outcome",
    "PartitionSpec",
    "Position",
    "PositionDelete",
    "Predicate",
    "Proposal",
    "ProposalId",
    "Read",
    "ReadKind",
    "Reason",
    "Receipt",
    "RenameTable",
    "ReplaceView",
    "Resolution",
    "ResolutionAction",
    "Row",
    "RowOrigin",
    "RowPositions",
    "RowValue",
    "RowsRead",
    "Scalar",
    "Statistics",
    "TableRead",
    "UpdateRow",
    "Verdict",
]


@dataclass(frozen=True, slots=True)
class Proposal:
    """A changeset and the snapshot it was computed from (rules.md 2)."""

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
    """How a proposed change to a row that met a committed one was settled without a refusal (rules.md 5).

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
    """Every id that an outcome gave, each list in the order of the changes (rules.md 12.10).

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

    ``next_catalog_id`` and ``next_file_id`` are the counters after this outcome. ``content_hash`` is what the proposal asked
    for (module ``contents``), None where the answer is not remembered. ``same_content``, of a DUPLICATE: whether the first
    proposal asked for the same; None when that is forgotten. ``proposal`` is None for MALFORMED and INTERNAL;
    ``proposal_bytes`` are the bytes as they arrived. ``invalid_code``, of INVALID: for programs what ``detail`` says to people;
    known where the proposal was decided, and not in the record.
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
    same_content: bool | None = None
    content_hash: int | None = None
    proposal: Proposal | None = None
    proposal_bytes: bytes | None = field(default=None, compare=False, repr=False)
    invalid_code: InvalidCode | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Receipt:
    """The verdict without the proposal. For a DUPLICATE ``answered_*`` repeat the first answer, where it is known.

    ``same_content`` is the outcome's.
    """

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
    same_content: bool | None = None
    answered_verdict: Verdict | None = None
    answered_snapshot_id: int | None = None
    answered_reason: Reason | None = None
    answered_detail: str | None = None


@dataclass(frozen=True, slots=True)
class LogSettings:
    """What can change a verdict; first values in the genesis, later ones by CONFIGURE.

    window_snapshots: how far back the file and row index reaches; older bases are judged per TABLE.
    duplicate_window_outcomes, duplicate_window_ms: an id is forgotten when both have passed in its partition.
    inlined_positions_max, changeset_positions_max: positions to delete without a delete file, of one data file and in all.
    changeset_objects_max: schemas, tables and views that a changeset touches by more than appends of files.
    changeset_bucket_values_max: what the catalog writes down for files whose bucket is not known, one for each bucket.
    inlined_row_bytes_max: a row outside of files as PostgreSQL stores it, its long values elsewhere.
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
    changeset_positions_max: int = 1_000_000
    changeset_objects_max: int = 500
    changeset_bucket_values_max: int = 500_000
    inlined_row_bytes_max: int = 8_000
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
