"""Generated from schemas/receipts.avsc by `make records`: their bytes."""

from __future__ import annotations

from commitlog.domain.model.records.outcome import Position
from commitlog.domain.model.records.receipts import Receipt, Receipts
from commitlog.log.codec.avro import (
    NULL,
    SOME,
    Cursor,
    array,
    fixed,
    long,
    maybe_fixed,
    maybe_flag,
    maybe_long,
    maybe_text,
)
from commitlog.log.codec.records.outcome import (
    _REASON,
    _REASON_MEMBERS,
    _VERDICT,
    _VERDICT_MEMBERS,
    assigned_bytes,
    read_assigned,
)


def receipt_bytes(it: Receipt) -> bytes:
    """The bytes of a Receipt, as `schemas/receipts.avsc` has it."""
    return b"".join(
        (
            long(it.source.offset),
            long(it.seq),
            maybe_fixed(it.proposal_id, 16),
            _VERDICT[it.verdict],
            maybe_long(it.snapshot_id),
            long(it.head_snapshot_id),
            NULL if it.reason is None else SOME + _REASON[it.reason],
            maybe_text(it.detail),
            maybe_text(it.invalid_code),
            assigned_bytes(it.assigned),
            long(it.decided_at_ms),
            maybe_long(it.original_seq),
            maybe_flag(it.same_content),
            NULL if it.answered_verdict is None else SOME + _VERDICT[it.answered_verdict],
            maybe_long(it.answered_snapshot_id),
            NULL if it.answered_reason is None else SOME + _REASON[it.answered_reason],
            maybe_text(it.answered_detail),
        )
    )


def read_receipt(cursor: Cursor, partition: int) -> Receipt:
    """Reads a Receipt."""
    return Receipt(
        source=Position(partition, cursor.long()),
        seq=cursor.long(),
        proposal_id=cursor.maybe_fixed(16),
        verdict=cursor.symbol(_VERDICT_MEMBERS),
        snapshot_id=cursor.maybe_long(),
        head_snapshot_id=cursor.long(),
        reason=cursor.symbol(_REASON_MEMBERS) if cursor.is_some() else None,
        detail=cursor.maybe_text(),
        invalid_code=cursor.maybe_text(),
        assigned=read_assigned(cursor),
        decided_at_ms=cursor.long(),
        original_seq=cursor.maybe_long(),
        same_content=cursor.maybe_flag(),
        answered_verdict=cursor.symbol(_VERDICT_MEMBERS) if cursor.is_some() else None,
        answered_snapshot_id=cursor.maybe_long(),
        answered_reason=cursor.symbol(_REASON_MEMBERS) if cursor.is_some() else None,
        answered_detail=cursor.maybe_text(),
    )


def receipts_bytes(it: Receipts) -> bytes:
    """The bytes of a Receipts, as `schemas/receipts.avsc` has it."""
    return b"".join((fixed(it.log_id, 16), long(it.partition), array(receipt_bytes, it.receipts)))


def read_receipts(cursor: Cursor) -> Receipts:
    """Reads a Receipts."""
    log_id = cursor.fixed(16)
    partition = cursor.long()
    receipts = cursor.array(lambda inner: read_receipt(inner, partition))
    return Receipts(log_id=log_id, partition=partition, receipts=receipts)
