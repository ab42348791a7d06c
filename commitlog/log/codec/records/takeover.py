"""Generated from schemas/takeover.avsc by `make records`: their bytes."""

from __future__ import annotations

from librt.strings import BytesWriter

from commitlog.domain.model.record import new_named
from commitlog.domain.model.records.takeover import Takeover
from commitlog.log.codec.avro import Cursor, fixed, long


def write_takeover(out: BytesWriter, it: Takeover) -> None:
    """Writes a Takeover, as `schemas/takeover.avsc` has it."""
    fixed(out, it.log_id, 16)
    long(out, it.epoch)
    fixed(out, it.instance, 16)
    long(out, it.sent_at_ms)


def read_takeover(cursor: Cursor) -> Takeover:
    """Reads a Takeover."""
    it: Takeover = new_named(Takeover, (cursor.fixed(16), cursor.long(), cursor.fixed(16), cursor.long()))
    return it
