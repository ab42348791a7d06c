"""Generated from schemas/trim.avsc by `make records`: their bytes."""

from __future__ import annotations

from librt.strings import BytesWriter

from commitlog.domain.model.record import new_named
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
    it: Trim = new_named(
        Trim,
        (
            cursor.blob(),
            cursor.fixed(16),
            cursor.long(),
            cursor.long(),
            cursor.fixed(32),
            cursor.long(),
            cursor.long(),
            cursor.text(),
            cursor.long(),
        ),
    )
    return it
