"""Generated from schemas/genesis.avsc by `make records`: their bytes."""

from __future__ import annotations

from typing import Final

from commitlog.domain.model.records.genesis import Genesis, Granularity, LogSettings
from commitlog.log.codec.avro import Cursor, fixed, long, maybe_long, maybe_text, symbols, text

_GRANULARITY_MEMBERS: Final = tuple(Granularity)
_GRANULARITY: Final = symbols(Granularity)


def log_settings_bytes(it: LogSettings) -> bytes:
    """The bytes of a LogSettings, as `schemas/genesis.avsc` has it."""
    return b"".join(
        (
            _GRANULARITY[it.conflict_granularity],
            text(it.on_conflict),
            long(it.window_snapshots),
            long(it.duplicate_window_outcomes),
            long(it.duplicate_window_ms),
            long(it.clock_skew_ms_max),
            long(it.conflicts_max),
            long(it.changes_max),
            long(it.files_max),
            long(it.reads_max),
            long(it.read_keys_max),
            long(it.name_length_max),
            long(it.inlined_positions_max),
            long(it.changeset_positions_max),
            long(it.changeset_objects_max),
            long(it.changeset_bucket_values_max),
            long(it.inlined_row_bytes_max),
            long(it.keyed_rows_max),
            long(it.proposal_bytes_max),
            maybe_long(it.expire_older_than_ms),
            maybe_long(it.expire_keep_snapshots),
        )
    )


def read_log_settings(cursor: Cursor) -> LogSettings:
    """Reads a LogSettings."""
    return LogSettings(
        conflict_granularity=cursor.symbol(_GRANULARITY_MEMBERS),
        on_conflict=cursor.text(),
        window_snapshots=cursor.long(),
        duplicate_window_outcomes=cursor.long(),
        duplicate_window_ms=cursor.long(),
        clock_skew_ms_max=cursor.long(),
        conflicts_max=cursor.long(),
        changes_max=cursor.long(),
        files_max=cursor.long(),
        reads_max=cursor.long(),
        read_keys_max=cursor.long(),
        name_length_max=cursor.long(),
        inlined_positions_max=cursor.long(),
        changeset_positions_max=cursor.long(),
        changeset_objects_max=cursor.long(),
        changeset_bucket_values_max=cursor.long(),
        inlined_row_bytes_max=cursor.long(),
        keyed_rows_max=cursor.long(),
        proposal_bytes_max=cursor.long(),
        expire_older_than_ms=cursor.maybe_long(),
        expire_keep_snapshots=cursor.maybe_long(),
    )


def genesis_bytes(it: Genesis) -> bytes:
    """The bytes of a Genesis, as `schemas/genesis.avsc` has it."""
    return b"".join(
        (
            fixed(it.log_id, 16),
            long(it.partitions),
            long(it.created_at_ms),
            long(it.rules_version),
            maybe_text(it.data_path),
            log_settings_bytes(it.settings),
        )
    )


def read_genesis(cursor: Cursor) -> Genesis:
    """Reads a Genesis."""
    return Genesis(
        log_id=cursor.fixed(16),
        partitions=cursor.long(),
        created_at_ms=cursor.long(),
        rules_version=cursor.long(),
        data_path=cursor.maybe_text(),
        settings=read_log_settings(cursor),
    )
