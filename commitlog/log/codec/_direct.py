"""The two records that are written for every proposal, encoded without the generic encoder.

Encoding is the sequencer's largest cost, and a generic encoder spends most of it on asking what each field is. Outcomes
with conflicts or resolutions are rarer and take the generic way. A test holds both ways to the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

from commitlog.domain.model import Assigned, Effect, Outcome, Reason, Receipt, Verdict
from commitlog.errors import MalformedRecordError
from commitlog.log.codec.framing import HEADER_SIZE_BYTES, NEWEST

_LOW_BITS = 14
_LOW_MASK = (1 << _LOW_BITS) - 1
_LONG_SHIFT_MAX = 63
_ID_SIZE_BYTES = 16
_HASH_SIZE_BYTES = 32


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


# Numbers are put together from tables of 14 bits: whole ones, and the lower part of larger ones.
_WHOLE = [_varint(number) for number in range(1 << _LOW_BITS)]
_LOWER = [bytes((number & 0x7F | 0x80, number >> 7 | 0x80)) for number in range(1 << _LOW_BITS)]
_ZERO, _NULL, _SOME = b"\x00", b"\x00", b"\x02"


def _long(value: int) -> bytes:
    number = value << 1 if value >= 0 else ~(value << 1)
    if number <= _LOW_MASK:
        return _WHOLE[number]
    if number >> 64:
        raise OverflowError(f"{value} is beyond a 64-bit integer")
    out = _LOWER[number & _LOW_MASK]
    number >>= _LOW_BITS
    while number > _LOW_MASK:
        out += _LOWER[number & _LOW_MASK]
        number >>= _LOW_BITS
    return out + _WHOLE[number]


def _maybe_long(value: int | None) -> bytes:
    return _NULL if value is None else _SOME + _long(value)


def _text(value: str) -> bytes:
    encoded = value.encode("utf-8")
    return _long(len(encoded)) + encoded


def _maybe_text(value: str | None) -> bytes:
    return _NULL if value is None else _SOME + _text(value)


def _maybe_id(value: bytes | None) -> bytes:
    return _NULL if value is None else _SOME + value


def _longs(values: Sequence[int]) -> bytes:
    if not values:
        return _ZERO
    return _long(len(values)) + b"".join(map(_long, values)) + _ZERO


_VERDICTS = {verdict: _long(index) for index, verdict in enumerate(Verdict)}
_MAYBE_VERDICTS: dict[Verdict | None, bytes] = {
    None: _NULL,
    **{verdict: _SOME + data for verdict, data in _VERDICTS.items()},
}
_MAYBE_REASONS: dict[Reason | None, bytes] = {
    None: _NULL,
    **{reason: _SOME + _long(index) for index, reason in enumerate(Reason)},
}
_FLAGS = {False: b"\x00", True: b"\x01"}
_MAYBE_FLAGS: dict[bool | None, bytes] = {None: _NULL, **{flag: _SOME + data for flag, data in _FLAGS.items()}}


def _assigned(assigned: Assigned) -> bytes:
    columns, starts = assigned.column_ids, assigned.row_id_starts
    return b"".join(
        (
            _longs(assigned.schema_ids),
            _longs(assigned.table_ids),
            _longs(assigned.view_ids),
            _longs(assigned.partition_ids),
            _long(len(columns)) + b"".join(map(_longs, columns)) + _ZERO if columns else _ZERO,
            _longs(assigned.mapping_ids),
            _longs(assigned.data_file_ids),
            _longs(assigned.delete_file_ids),
            _long(len(starts)) + b"".join(map(_maybe_long, starts)) + _ZERO if starts else _ZERO,
            _long(assigned.schema_version),
            _maybe_long(assigned.writer_epoch),
        )
    )


def _effects(effects: Sequence[Effect]) -> bytes:
    if not effects:
        return _ZERO
    parts = [_long(len(effects))]
    for effect in effects:
        parts += (
            _maybe_long(effect.object_id),
            _FLAGS[effect.skipped],
            _maybe_long(effect.ended_row_id),
            _maybe_long(effect.row_id),
        )
    parts.append(_ZERO)
    return b"".join(parts)


_OUTCOME_HEADER = NEWEST["Outcome"].header
_RECEIPTS_HEADER = NEWEST["Receipts"].header


def outcome_bytes(outcome: Outcome, log_id: bytes, prev_hash: bytes, told: int, proposal: bytes | None) -> bytes:
    """An outcome without conflicts and resolutions, as `schemas/outcome.avsc` has it."""
    return b"".join(
        (
            _OUTCOME_HEADER,
            log_id,
            _long(outcome.seq),
            _long(outcome.epoch),
            _long(outcome.rules_version),
            prev_hash,
            _long(told),
            _long(outcome.source.partition),
            _long(outcome.source.offset),
            _long(outcome.decided_at_ms),
            _VERDICTS[outcome.verdict],
            _long(outcome.head_snapshot_id),
            _maybe_id(outcome.proposal_id),
            _maybe_text(outcome.writer_id),
            _maybe_long(outcome.snapshot_id),
            _maybe_long(outcome.snapshot_time_us),
            _MAYBE_REASONS[outcome.reason],
            _maybe_text(outcome.detail),
            _ZERO,
            _long(outcome.conflict_count),
            _ZERO,
            _assigned(outcome.assigned),
            _effects(outcome.effects),
            _long(outcome.next_catalog_id),
            _long(outcome.next_file_id),
            _maybe_long(outcome.original_seq),
            _MAYBE_FLAGS[outcome.same_content],
            _maybe_long(outcome.content_hash),
            _NULL if proposal is None else _SOME + _long(len(proposal)) + proposal,
        )
    )


def outcome_head(data: bytes) -> tuple[bytes, int, int, int, bytes, int]:
    """log_id, seq, epoch, rules_version, prev_hash and told: the fields that every version of the record begins with.

    Raises:
        MalformedRecordError: the bytes end before.
    """
    at = HEADER_SIZE_BYTES + _ID_SIZE_BYTES
    log_id = data[HEADER_SIZE_BYTES:at]
    try:
        seq, at = _read_long(data, at)
        epoch, at = _read_long(data, at)
        rules_version, at = _read_long(data, at)
        prev_hash = data[at : at + _HASH_SIZE_BYTES]
        told, at = _read_long(data, at + _HASH_SIZE_BYTES)
    except IndexError:
        raise MalformedRecordError(f"an outcome of only {len(data)} bytes") from None
    return log_id, seq, epoch, rules_version, prev_hash, told


def _read_long(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at
        shift += 7
        if shift > _LONG_SHIFT_MAX:
            raise MalformedRecordError("an outcome with a number beyond 64 bits")


def _receipt(receipt: Receipt) -> bytes:
    return b"".join(
        (
            _long(receipt.source.offset),
            _long(receipt.seq),
            _maybe_id(receipt.proposal_id),
            _VERDICTS[receipt.verdict],
            _maybe_long(receipt.snapshot_id),
            _long(receipt.head_snapshot_id),
            _MAYBE_REASONS[receipt.reason],
            _maybe_text(receipt.detail),
            _assigned(receipt.assigned),
            _long(receipt.decided_at_ms),
            _maybe_long(receipt.original_seq),
            _MAYBE_FLAGS[receipt.same_content],
            _MAYBE_VERDICTS[receipt.answered_verdict],
            _maybe_long(receipt.answered_snapshot_id),
            _MAYBE_REASONS[receipt.answered_reason],
            _maybe_text(receipt.answered_detail),
        )
    )


def receipts_bytes(receipts: Sequence[Receipt], log_id: bytes, partition: int) -> bytes:
    """A packed record of receipts, as `schemas/receipts.avsc` has it."""
    count = _long(len(receipts)) if receipts else b""
    return b"".join((_RECEIPTS_HEADER, log_id, _long(partition), count, *map(_receipt, receipts), _ZERO))
