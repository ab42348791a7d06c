"""Generated from schemas/genesis.avsc by `make records`: the values."""

from __future__ import annotations

from typing import ClassVar, Final

from mypy_extensions import mypyc_attr

from commitlog.domain.model.record import Record, Symbol


class Granularity(Symbol):
    """How fine deletes and compactions of one table are told apart."""

    TABLE = "TABLE"
    FILE = "FILE"
    ROW = "ROW"


@mypyc_attr(acyclic=True)
class LogSettings(Record):
    """What can change a verdict; first values in the genesis, later ones by CONFIGURE.

    conflict_granularity: How fine deletes and compactions of one table are told apart, where the table does not say.
    on_conflict: How rows that meet are settled, where the table does not say.
    window_snapshots: How far back the file and row index reaches; older bases are judged per TABLE.
    duplicate_window_outcomes: An id is forgotten when so many outcomes and the time below have passed in its
        partition.
    duplicate_window_ms: See duplicate_window_outcomes; ms.
    clock_skew_ms_max: How far a client's clock may be ahead of the sequencer's; ms.
    conflicts_max: Conflicts that an outcome lists.
    changes_max: Changes of a proposal.
    files_max: Files of a proposal.
    reads_max: Reads of a proposal.
    read_keys_max: Keys in the reads of a proposal.
    name_length_max: Characters of a name.
    inlined_positions_max: Positions to delete without a delete file, of one data file.
    changeset_positions_max: Positions to delete without a delete file, in all.
    changeset_objects_max: Schemas, tables and views that a changeset touches by more than appends of files.
    changeset_bucket_values_max: What the catalog writes down for files whose bucket is not known, one for each
        bucket.
    inlined_row_bytes_max: A row outside of files as PostgreSQL stores it, its long values elsewhere; bytes.
    keyed_rows_max: Rows of all keyed tables.
    proposal_bytes_max: Bytes of a proposal.
    expire_older_than_ms: Snapshots older than this go by themselves; ms, null is off.
    expire_keep_snapshots: Only so many of the newest snapshots stay, however young the others are; null is off.
    """

    __slots__ = (
        "changes_max",
        "changeset_bucket_values_max",
        "changeset_objects_max",
        "changeset_positions_max",
        "clock_skew_ms_max",
        "conflict_granularity",
        "conflicts_max",
        "duplicate_window_ms",
        "duplicate_window_outcomes",
        "expire_keep_snapshots",
        "expire_older_than_ms",
        "files_max",
        "inlined_positions_max",
        "inlined_row_bytes_max",
        "keyed_rows_max",
        "name_length_max",
        "on_conflict",
        "proposal_bytes_max",
        "read_keys_max",
        "reads_max",
        "window_snapshots",
    )

    FIELDS: ClassVar[tuple[str, ...]] = (
        "conflict_granularity",
        "on_conflict",
        "window_snapshots",
        "duplicate_window_outcomes",
        "duplicate_window_ms",
        "clock_skew_ms_max",
        "conflicts_max",
        "changes_max",
        "files_max",
        "reads_max",
        "read_keys_max",
        "name_length_max",
        "inlined_positions_max",
        "changeset_positions_max",
        "changeset_objects_max",
        "changeset_bucket_values_max",
        "inlined_row_bytes_max",
        "keyed_rows_max",
        "proposal_bytes_max",
        "expire_older_than_ms",
        "expire_keep_snapshots",
    )

    def __init__(
        self,
        conflict_granularity: Granularity = Granularity.FILE,
        on_conflict: str = "ABORT",
        window_snapshots: int = 100_000,
        duplicate_window_outcomes: int = 100_000,
        duplicate_window_ms: int = 60_000,
        clock_skew_ms_max: int = 60_000,
        conflicts_max: int = 100,
        changes_max: int = 10_000,
        files_max: int = 100_000,
        reads_max: int = 1000,
        read_keys_max: int = 100_000,
        name_length_max: int = 255,
        inlined_positions_max: int = 100_000,
        changeset_positions_max: int = 1_000_000,
        changeset_objects_max: int = 500,
        changeset_bucket_values_max: int = 500_000,
        inlined_row_bytes_max: int = 8000,
        keyed_rows_max: int = 10_000_000,
        proposal_bytes_max: int = 4_000_000,
        expire_older_than_ms: int | None = None,
        expire_keep_snapshots: int | None = None,
    ) -> None:
        self.conflict_granularity: Final = conflict_granularity
        self.on_conflict: Final = on_conflict
        self.window_snapshots: Final = window_snapshots
        self.duplicate_window_outcomes: Final = duplicate_window_outcomes
        self.duplicate_window_ms: Final = duplicate_window_ms
        self.clock_skew_ms_max: Final = clock_skew_ms_max
        self.conflicts_max: Final = conflicts_max
        self.changes_max: Final = changes_max
        self.files_max: Final = files_max
        self.reads_max: Final = reads_max
        self.read_keys_max: Final = read_keys_max
        self.name_length_max: Final = name_length_max
        self.inlined_positions_max: Final = inlined_positions_max
        self.changeset_positions_max: Final = changeset_positions_max
        self.changeset_objects_max: Final = changeset_objects_max
        self.changeset_bucket_values_max: Final = changeset_bucket_values_max
        self.inlined_row_bytes_max: Final = inlined_row_bytes_max
        self.keyed_rows_max: Final = keyed_rows_max
        self.proposal_bytes_max: Final = proposal_bytes_max
        self.expire_older_than_ms: Final = expire_older_than_ms
        self.expire_keep_snapshots: Final = expire_keep_snapshots


_DEFAULT_LOG_SETTINGS: Final = LogSettings()


@mypyc_attr(acyclic=True)
class Genesis(Record):
    """Outcome seq 0: what the log is, before anything was proposed.

    log_id: A random id of this log.
    partitions: Of the proposals topic, for ever.
    created_at_ms: When, ms since 1970.
    rules_version: Of the rules it begins with.
    data_path: Where the lake's files are; null: told by the configuration.
    settings: First values; CONFIGURE changes them later.
    """

    __slots__ = ("created_at_ms", "data_path", "log_id", "partitions", "rules_version", "settings")

    FIELDS: ClassVar[tuple[str, ...]] = (
        "log_id",
        "partitions",
        "created_at_ms",
        "rules_version",
        "data_path",
        "settings",
    )

    def __init__(
        self,
        log_id: bytes,
        partitions: int = 1,
        created_at_ms: int = 0,
        rules_version: int = 1,
        data_path: str | None = None,
        settings: LogSettings = _DEFAULT_LOG_SETTINGS,
    ) -> None:
        self.log_id: Final = log_id
        self.partitions: Final = partitions
        self.created_at_ms: Final = created_at_ms
        self.rules_version: Final = rules_version
        self.data_path: Final = data_path
        self.settings: Final = settings
