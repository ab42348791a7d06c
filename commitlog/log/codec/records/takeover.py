"""Generated from schemas/takeover.avsc by `make records`: their bytes."""

from __future__ import annotations

from commitlog.domain.model.records.takeover import Takeover
from commitlog.log.codec.avro import Cursor, fixed, long


def takeover_bytes(it: Takeover) -> bytes:
    """The bytes of a Takeover, as `schemas/takeover.avsc` has it."""
    return b"".join((fixed(it.log_id, 16), long(it.epoch), fixed(it.instance, 16), long(it.sent_at_ms)))


def read_takeover(cursor: Cursor) -> Takeover:
    """Reads a Takeover."""
    return Takeover(log_id=cursor.fixed(16), epoch=cursor.long(), instance=cursor.fixed(16), sent_at_ms=cursor.long())
