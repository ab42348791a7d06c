"""Generated from schemas/heartbeat.avsc by `make records`: their bytes."""

from __future__ import annotations

from commitlog.domain.model.records.heartbeat import Heartbeat
from commitlog.log.codec.avro import Cursor, fixed, flag, long


def heartbeat_bytes(it: Heartbeat) -> bytes:
    """The bytes of a Heartbeat, as `schemas/heartbeat.avsc` has it."""
    return b"".join(
        (
            fixed(it.log_id, 16),
            long(it.epoch),
            fixed(it.instance, 16),
            long(it.seq),
            long(it.sent_at_ms),
            flag(it.leaving),
        )
    )


def read_heartbeat(cursor: Cursor) -> Heartbeat:
    """Reads a Heartbeat."""
    return Heartbeat(
        log_id=cursor.fixed(16),
        epoch=cursor.long(),
        instance=cursor.fixed(16),
        seq=cursor.long(),
        sent_at_ms=cursor.long(),
        leaving=cursor.flag(),
    )
