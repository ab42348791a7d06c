"""Generated from schemas/dead_letter.avsc by `make records`: their bytes."""

from __future__ import annotations

from librt.strings import BytesWriter

from commitlog.domain.model.records.dead_letter import DeadLetter
from commitlog.log.codec.avro import Cursor, fixed, long, maybe_blob, text


def write_dead_letter(out: BytesWriter, it: DeadLetter) -> None:
    """Writes a DeadLetter, as `schemas/dead_letter.avsc` has it."""
    fixed(out, it.log_id, 16)
    long(out, it.seq)
    text(out, it.topic)
    long(out, it.partition)
    long(out, it.offset)
    text(out, it.detail)
    long(out, it.decided_at_ms)
    maybe_blob(out, it.key)
    long(out, it.value_size_bytes)
    maybe_blob(out, it.value)


def read_dead_letter(cursor: Cursor) -> DeadLetter:
    """Reads a DeadLetter."""
    return DeadLetter(
        log_id=cursor.fixed(16),
        seq=cursor.long(),
        topic=cursor.text(),
        partition=cursor.long(),
        offset=cursor.long(),
        detail=cursor.text(),
        decided_at_ms=cursor.long(),
        key=cursor.maybe_blob(),
        value_size_bytes=cursor.long(),
        value=cursor.maybe_blob(),
    )
