"""Generated from schemas/genesis.avsc by `make records`: their bytes."""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter

from commitlog.domain.model.records.genesis import Genesis, Granularity, LogSettings
from commitlog.log.codec.avro import Cursor, fixed, long, maybe_long, maybe_text, symbols, text

_GRANULARITY_MEMBERS: Final = tuple(Granularity)
_GRANULARITY: Final = symbols(Granularity)


def write_log_settings(out: BytesWriter, it: LogSettings) -> None:
    """Writes a LogSettings, as `schemas/genesis.avsc` has it."""
    out.append(_GRANULARITY[it.conflict_granularity])
    text(out, it.on_conflict)
    long(out, it.window_snapshots)
    long(out, it.duplicate_window_outcomes)
    long(out, it.duplicate_window_ms)
    long(out, it.clock_skew_ms_max)
    long(out, it.conflicts_max)
    long(out, it.changes_max)
    long(out, it.files_max)
    long(out, it.reads_max)
    long(out, it.read_keys_max)
    long(out, it.name_length_max)
    long(out, it.inlined_positions_max)
    long(out, it.changeset_positions_max)
    long(out, it.changeset_objects_max)
    long(out, it.changeset_bucket_values_max)
    long(out, it.inlined_row_bytes_max)
    long(out, it.keyed_rows_max)
    long(out, it.proposal_bytes_max)
    maybe_long(out, it.expire_older_than_ms)
    maybe_long(out, it.expire_keep_snapshots)


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


def write_genesis(out: BytesWriter, it: Genesis) -> None:
    """Writes a Genesis, as `schemas/genesis.avsc` has it."""
    fixed(out, it.log_id, 16)
    long(out, it.partitions)
    long(out, it.created_at_ms)
    long(out, it.rules_version)
    maybe_text(out, it.data_path)
    write_log_settings(out, it.settings)


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
