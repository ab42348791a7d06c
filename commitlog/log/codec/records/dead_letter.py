"""Generated from schemas/dead_letter.avsc by `make records`: their bytes."""

from __future__ import annotations

from commitlog.domain.model.records.dead_letter import DeadLetter
from commitlog.log.codec.avro import Cursor, fixed, long, maybe_blob, text


def dead_letter_bytes(it: DeadLetter) -> bytes:
    """The bytes of a DeadLetter, as `schemas/dead_letter.avsc` has it."""
    return b"".join(
        (
            fixed(it.log_id, 16),
            long(it.seq),
            text(it.topic),
            long(it.partition),
            long(it.offset),
            text(it.detail),
            long(it.decided_at_ms),
            maybe_blob(it.key),
            long(it.value_size_bytes),
            maybe_blob(it.value),
        )
    )


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
