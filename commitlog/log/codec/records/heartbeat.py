"""Generated from schemas/heartbeat.avsc by `make records`: their bytes."""

from __future__ import annotations

from librt.strings import BytesWriter

from commitlog.domain.model.record import new_named
from commitlog.domain.model.records.heartbeat import Heartbeat
from commitlog.log.codec.avro import Cursor, fixed, flag, long


def write_heartbeat(out: BytesWriter, it: Heartbeat) -> None:
    """Writes a Heartbeat, as `schemas/heartbeat.avsc` has it."""
    fixed(out, it.log_id, 16)
    long(out, it.epoch)
    fixed(out, it.instance, 16)
    long(out, it.seq)
    long(out, it.sent_at_ms)
    flag(out, it.leaving)


def read_heartbeat(cursor: Cursor) -> Heartbeat:
    """Reads a Heartbeat."""
    it: Heartbeat = new_named(
        Heartbeat, (cursor.fixed(16), cursor.long(), cursor.fixed(16), cursor.long(), cursor.long(), cursor.flag())
    )
    return it
