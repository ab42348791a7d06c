"""Generated from schemas/receipts.avsc by `make records`: their bytes."""

from __future__ import annotations

from librt.strings import BytesWriter

from commitlog.domain.model.record import new_named
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
    read_assigned,
    write_assigned,
)


def write_receipt(out: BytesWriter, it: Receipt) -> None:
    """Writes a Receipt, as `schemas/receipts.avsc` has it."""
    long(out, it.source.offset)
    long(out, it.seq)
    maybe_fixed(out, it.proposal_id, 16)
    out.append(_VERDICT[it.verdict])
    maybe_long(out, it.snapshot_id)
    long(out, it.head_snapshot_id)
    if it.reason is None:
        out.append(NULL)
    else:
        out.append(SOME)
        out.append(_REASON[it.reason])
    maybe_text(out, it.detail)
    maybe_text(out, it.invalid_code)
    write_assigned(out, it.assigned)
    long(out, it.decided_at_ms)
    maybe_long(out, it.original_seq)
    maybe_flag(out, it.same_content)
    if it.answered_verdict is None:
        out.append(NULL)
    else:
        out.append(SOME)
        out.append(_VERDICT[it.answered_verdict])
    maybe_long(out, it.answered_snapshot_id)
    if it.answered_reason is None:
        out.append(NULL)
    else:
        out.append(SOME)
        out.append(_REASON[it.answered_reason])
    maybe_text(out, it.answered_detail)


def read_receipt(cursor: Cursor, partition: int) -> Receipt:
    """Reads a Receipt."""
    return Receipt(
        source=new_named(Position, (partition, cursor.long())),
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


def write_receipts(out: BytesWriter, it: Receipts) -> None:
    """Writes a Receipts, as `schemas/receipts.avsc` has it."""
    fixed(out, it.log_id, 16)
    long(out, it.partition)
    array(out, write_receipt, it.receipts)


def read_receipts(cursor: Cursor) -> Receipts:
    """Reads a Receipts."""
    log_id = cursor.fixed(16)
    partition = cursor.long()
    receipts = cursor.array(lambda inner: read_receipt(inner, partition))
    return Receipts(log_id=log_id, partition=partition, receipts=receipts)
