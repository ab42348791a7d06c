"""Generated from schemas/trim.avsc by `make records`: their bytes."""

from __future__ import annotations

from librt.strings import BytesWriter

from commitlog.domain.model.records.trim import Trim
from commitlog.log.codec.avro import Cursor, blob, fixed, long, text


def write_trim(out: BytesWriter, it: Trim) -> None:
    """Writes a Trim, as `schemas/trim.avsc` has it."""
    blob(out, it.genesis)
    fixed(out, it.log_id, 16)
    long(out, it.seq)
    long(out, it.epoch)
    fixed(out, it.hash, 32)
    long(out, it.results_offset)
    long(out, it.head_snapshot_id)
    text(out, it.archive)
    long(out, it.trimmed_at_ms)


def read_trim(cursor: Cursor) -> Trim:
    """Reads a Trim."""
    return Trim(
        genesis=cursor.blob(),
        log_id=cursor.fixed(16),
        seq=cursor.long(),
        epoch=cursor.long(),
        hash=cursor.fixed(32),
        results_offset=cursor.long(),
        head_snapshot_id=cursor.long(),
        archive=cursor.text(),
        trimmed_at_ms=cursor.long(),
    )
