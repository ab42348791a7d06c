"""Generated from schemas/outcome.avsc by `make records`: the values."""

from __future__ import annotations

from typing import ClassVar, Final, NamedTuple

from mypy_extensions import mypyc_attr

from commitlog.domain.model.record import Record, Symbol
from commitlog.domain.model.records.proposal import Proposal
from commitlog.domain.model.values import ProposalId, Row


class Verdict(Symbol):
    """The answer to a proposal."""

    COMMITTED = "COMMITTED"
    REJECTED = "REJECTED"
    DUPLICATE = "DUPLICATE"


class Reason(Symbol):
    """Why a proposal was refused, in order of precedence: the first that applies is the answer."""

    MALFORMED = "MALFORMED"
    PROPOSAL_EXPIRED = "PROPOSAL_EXPIRED"
    WRITER_FENCED = "WRITER_FENCED"
    TOO_LATE = "TOO_LATE"
    BASE_UNKNOWN = "BASE_UNKNOWN"
    BASE_EXPIRED = "BASE_EXPIRED"
    INVALID = "INVALID"
    CONFLICT = "CONFLICT"
    INTERNAL = "INTERNAL"


class ConflictKind(Symbol):
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


class ResolutionAction(Symbol):
    """What became of the proposed change to a row that met a committed one."""

    APPLIED = "APPLIED"
    SKIPPED = "SKIPPED"
    HANDLED = "HANDLED"
    HELD = "HELD"
    RELEASED = "RELEASED"


class Position(NamedTuple):
    """A place in a Kafka topic.

    partition: The partition.
    offset: The offset in it.
    """

    partition: int
    offset: int


@mypyc_attr(acyclic=True)
class ConflictObject(Record):
    """What two sides met on.

    schema: Name of the schema.
    table: Name of the table or view.
    table_id: Id of the table or view.
    data_file_id: Id of the data file.
    row_key: The canonical text of a row's key.
    """

    __slots__ = ("data_file_id", "row_key", "schema", "table", "table_id")

    FIELDS: ClassVar[tuple[str, ...]] = ("schema", "table", "table_id", "data_file_id", "row_key")

    def __init__(
        self,
        schema: str | None = None,
        table: str | None = None,
        table_id: int | None = None,
        data_file_id: int | None = None,
        row_key: str | None = None,
    ) -> None:
        self.schema: Final = schema
        self.table: Final = table
        self.table_id: Final = table_id
        self.data_file_id: Final = data_file_id
        self.row_key: Final = row_key


@mypyc_attr(acyclic=True)
class Conflict(Record):
    """One thing that the proposal and a snapshot committed after its base cannot both have.

    Exactly one of proposed_change and proposed_read is set.

    kind: What the committed side did.
    proposed_change: Index in the proposal's changes.
    proposed_read: Index in the proposal's reads.
    object: What the two sides met on.
    committed_snapshot_id: The snapshot of the other side.
    committed_proposal_id: Its proposal; null when that is forgotten.
    committed_writer_id: Its writer; null when that is forgotten.
    detail: The same in words.
    """

    __slots__ = (
        "committed_proposal_id",
        "committed_snapshot_id",
        "committed_writer_id",
        "detail",
        "kind",
        "object",
        "proposed_change",
        "proposed_read",
    )

    FIELDS: ClassVar[tuple[str, ...]] = (
        "kind",
        "proposed_change",
        "proposed_read",
        "object",
        "committed_snapshot_id",
        "committed_proposal_id",
        "committed_writer_id",
        "detail",
    )

    def __init__(
        self,
        kind: ConflictKind,
        proposed_change: int | None,
        proposed_read: int | None,
        object: ConflictObject,
        committed_snapshot_id: int,
        committed_proposal_id: ProposalId | None = None,
        committed_writer_id: str | None = None,
        detail: str = "",
    ) -> None:
        self.kind: Final = kind
        self.proposed_change: Final = proposed_change
        self.proposed_read: Final = proposed_read
        self.object: Final = object
        self.committed_snapshot_id: Final = committed_snapshot_id
        self.committed_proposal_id: Final = committed_proposal_id
        self.committed_writer_id: Final = committed_writer_id
        self.detail: Final = detail


@mypyc_attr(acyclic=True)
class Resolution(Record):
    """How a proposed change to a row that met a committed one was settled without a refusal.

    change: Index in the proposal's changes.
    kind: How the two met, by BDR's names.
    action: What became of the change; of HELD and RELEASED, of the row of the object.
    policy: The table's on_conflict; of a handler its name, which is never asked again on replay.
    object: The row.
    committed_snapshot_id: The snapshot of the other side.
    committed_proposal_id: Its proposal; null when that is forgotten.
    committed_writer_id: Its writer; null when that is forgotten.
    committed_row: The committed image; null: deleted.
    proposed_row: The proposed image; null: deleted.
    row: The image that stands after HANDLED or RELEASED, or stood before HELD; null: none, or the proposed one.
    ended_row_id: Of HELD: the row that stood and does no longer.
    row_id: Of RELEASED: the row that stands from now on.
    """

    __slots__ = (
        "action",
        "change",
        "committed_proposal_id",
        "committed_row",
        "committed_snapshot_id",
        "committed_writer_id",
        "ended_row_id",
        "kind",
        "object",
        "policy",
        "proposed_row",
        "row",
        "row_id",
    )

    FIELDS: ClassVar[tuple[str, ...]] = (
        "change",
        "kind",
        "action",
        "policy",
        "object",
        "committed_snapshot_id",
        "committed_proposal_id",
        "committed_writer_id",
        "committed_row",
        "proposed_row",
        "row",
        "ended_row_id",
        "row_id",
    )

    def __init__(
        self,
        change: int,
        kind: ConflictKind,
        action: ResolutionAction,
        policy: str,
        object: ConflictObject,
        committed_snapshot_id: int,
        committed_proposal_id: ProposalId | None = None,
        committed_writer_id: str | None = None,
        committed_row: Row | None = None,
        proposed_row: Row | None = None,
        row: Row | None = None,
        ended_row_id: int | None = None,
        row_id: int | None = None,
    ) -> None:
        self.change: Final = change
        self.kind: Final = kind
        self.action: Final = action
        self.policy: Final = policy
        self.object: Final = object
        self.committed_snapshot_id: Final = committed_snapshot_id
        self.committed_proposal_id: Final = committed_proposal_id
        self.committed_writer_id: Final = committed_writer_id
        self.committed_row: Final = committed_row
        self.proposed_row: Final = proposed_row
        self.row: Final = row
        self.ended_row_id: Final = ended_row_id
        self.row_id: Final = row_id


@mypyc_attr(acyclic=True)
class Assigned(Record):
    """Every id that was given, each list in the order of the changes.

    schema_ids: Of schemas created.
    table_ids: Of tables created.
    view_ids: Of views created.
    partition_ids: Of partitionings.
    column_ids: Of columns, a list for each CREATE_TABLE and each ALTER_TABLE that adds some, children included.
    mapping_ids: Of name mappings.
    data_file_ids: Of data files.
    delete_file_ids: Of delete files.
    row_id_starts: Per new file the id of its first row (null: its rows carry their ids), and per single row that was
        given an id that id.
    schema_version: After it.
    writer_epoch: That was opened.
    """

    __slots__ = (
        "column_ids",
        "data_file_ids",
        "delete_file_ids",
        "mapping_ids",
        "partition_ids",
        "row_id_starts",
        "schema_ids",
        "schema_version",
        "table_ids",
        "view_ids",
        "writer_epoch",
    )

    FIELDS: ClassVar[tuple[str, ...]] = (
        "schema_ids",
        "table_ids",
        "view_ids",
        "partition_ids",
        "column_ids",
        "mapping_ids",
        "data_file_ids",
        "delete_file_ids",
        "row_id_starts",
        "schema_version",
        "writer_epoch",
    )

    def __init__(
        self,
        schema_ids: tuple[int, ...] = (),
        table_ids: tuple[int, ...] = (),
        view_ids: tuple[int, ...] = (),
        partition_ids: tuple[int, ...] = (),
        column_ids: tuple[tuple[int, ...], ...] = (),
        mapping_ids: tuple[int, ...] = (),
        data_file_ids: tuple[int, ...] = (),
        delete_file_ids: tuple[int, ...] = (),
        row_id_starts: tuple[int | None, ...] = (),
        schema_version: int = 0,
        writer_epoch: int | None = None,
    ) -> None:
        self.schema_ids: Final = schema_ids
        self.table_ids: Final = table_ids
        self.view_ids: Final = view_ids
        self.partition_ids: Final = partition_ids
        self.column_ids: Final = column_ids
        self.mapping_ids: Final = mapping_ids
        self.data_file_ids: Final = data_file_ids
        self.delete_file_ids: Final = delete_file_ids
        self.row_id_starts: Final = row_id_starts
        self.schema_version: Final = schema_version
        self.writer_epoch: Final = writer_epoch


_DEFAULT_ASSIGNED: Final = Assigned()


@mypyc_attr(acyclic=True)
class Effect(Record):
    """What one change of a committed proposal did, in ids, so that nobody has to resolve its names again.

    object_id: The schema, table or view; null for changes of the log itself.
    skipped: It had nothing to do (if_exists, if_not_exists) or gave way to the committed row.
    ended_row_id: The row whose version ended; null for an insert.
    row_id: The row whose version began; null for a delete.
    identity: Of a node's own row: which row it is for other sites, where it is not the first one of its key.
    """

    __slots__ = ("ended_row_id", "identity", "object_id", "row_id", "skipped")

    FIELDS: ClassVar[tuple[str, ...]] = ("object_id", "skipped", "ended_row_id", "row_id", "identity")

    def __init__(
        self,
        object_id: int | None = None,
        skipped: bool = False,
        ended_row_id: int | None = None,
        row_id: int | None = None,
        identity: str | None = None,
    ) -> None:
        self.object_id: Final = object_id
        self.skipped: Final = skipped
        self.ended_row_id: Final = ended_row_id
        self.row_id: Final = row_id
        self.identity: Final = identity


@mypyc_attr(acyclic=True)
class Outcome(Record):
    """The answer to one proposal, complete: state and catalog need nothing else.

    The results topic holds one for each, after the genesis; it is the truth. Every version of this record begins with
    the fields up to told: whether it is accepted is seen from them alone.

    seq: Its place among the outcomes of the log.
    epoch: Of the sequencer; another one than the current is skipped.
    rules_version: Of the rules by which it was decided.
    source: Where the proposal lies in the proposals topic.
    decided_at_ms: The sequencer's clock, ms since 1970; never falls.
    verdict: The answer.
    head_snapshot_id: The newest snapshot after it.
    proposal_id: Of the proposal; null where it cannot be read.
    writer_id: Of the proposal; null where it cannot be read.
    snapshot_id: The snapshot that it made; null unless COMMITTED.
    snapshot_time_us: Of that snapshot, us since 1970; rises by at least one.
    reason: Why it was refused; null unless REJECTED.
    detail: The reason in words.
    invalid_code: Of INVALID: for programs what detail says to people, one of docs/invalid-codes.md.
    conflicts: The first of them, in the order of changes and reads.
    conflict_count: All of them, kept or not.
    resolutions: How rows that met were settled without a refusal.
    assigned: The ids that were given.
    effects: What each change did, in ids, in the order of the changes.
    next_catalog_id: Counter of schemas, tables, views and partitions after it.
    next_file_id: Counter of data and delete files after it.
    original_seq: Of a DUPLICATE: the seq of the first answer.
    same_content: Of a DUPLICATE: whether the first proposal asked for the same; null when that is forgotten.
    content_hash: Of what the proposal asked for, to compare repetitions with; null when the answer is not remembered.
    proposal: The proposal, decoded.
    proposal_bytes: The proposal's own bytes, unchanged; null for MALFORMED and INTERNAL, whose bytes are in dead-
        letters.
    """

    __slots__ = (
        "assigned",
        "conflict_count",
        "conflicts",
        "content_hash",
        "decided_at_ms",
        "detail",
        "effects",
        "epoch",
        "head_snapshot_id",
        "invalid_code",
        "next_catalog_id",
        "next_file_id",
        "original_seq",
        "proposal",
        "proposal_bytes",
        "proposal_id",
        "reason",
        "resolutions",
        "rules_version",
        "same_content",
        "seq",
        "snapshot_id",
        "snapshot_time_us",
        "source",
        "verdict",
        "writer_id",
    )

    FIELDS: ClassVar[tuple[str, ...]] = (
        "seq",
        "epoch",
        "rules_version",
        "source",
        "decided_at_ms",
        "verdict",
        "head_snapshot_id",
        "proposal_id",
        "writer_id",
        "snapshot_id",
        "snapshot_time_us",
        "reason",
        "detail",
        "invalid_code",
        "conflicts",
        "conflict_count",
        "resolutions",
        "assigned",
        "effects",
        "next_catalog_id",
        "next_file_id",
        "original_seq",
        "same_content",
        "content_hash",
        "proposal",
        "proposal_bytes",
    )
    ASIDE: ClassVar[frozenset[str]] = frozenset(["proposal_bytes"])

    def __init__(
        self,
        seq: int,
        epoch: int,
        source: Position,
        decided_at_ms: int,
        verdict: Verdict,
        head_snapshot_id: int,
        proposal_id: ProposalId | None,
        writer_id: str | None,
        rules_version: int = 1,
        snapshot_id: int | None = None,
        snapshot_time_us: int | None = None,
        reason: Reason | None = None,
        detail: str | None = None,
        invalid_code: str | None = None,
        conflicts: tuple[Conflict, ...] = (),
        conflict_count: int = 0,
        resolutions: tuple[Resolution, ...] = (),
        assigned: Assigned = _DEFAULT_ASSIGNED,
        effects: tuple[Effect, ...] = (),
        next_catalog_id: int = 1,
        next_file_id: int = 0,
        original_seq: int | None = None,
        same_content: bool | None = None,
        content_hash: int | None = None,
        proposal: Proposal | None = None,
        proposal_bytes: bytes | None = None,
    ) -> None:
        self.seq: Final = seq
        self.epoch: Final = epoch
        self.rules_version: Final = rules_version
        self.source: Final = source
        self.decided_at_ms: Final = decided_at_ms
        self.verdict: Final = verdict
        self.head_snapshot_id: Final = head_snapshot_id
        self.proposal_id: Final = proposal_id
        self.writer_id: Final = writer_id
        self.snapshot_id: Final = snapshot_id
        self.snapshot_time_us: Final = snapshot_time_us
        self.reason: Final = reason
        self.detail: Final = detail
        self.invalid_code: Final = invalid_code
        self.conflicts: Final = conflicts
        self.conflict_count: Final = conflict_count
        self.resolutions: Final = resolutions
        self.assigned: Final = assigned
        self.effects: Final = effects
        self.next_catalog_id: Final = next_catalog_id
        self.next_file_id: Final = next_file_id
        self.original_seq: Final = original_seq
        self.same_content: Final = same_content
        self.content_hash: Final = content_hash
        self.proposal: Final = proposal
        self.proposal_bytes: Final = proposal_bytes
