"""Generated from schemas/outcome.avsc by `make records`: their bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from librt.strings import BytesWriter

from commitlog.domain.model.record import new_named
from commitlog.domain.model.records.outcome import (
    Assigned,
    Conflict,
    ConflictKind,
    ConflictObject,
    Effect,
    Outcome,
    Position,
    Reason,
    Resolution,
    ResolutionAction,
    Verdict,
)
from commitlog.domain.model.records.proposal import Proposal
from commitlog.log.codec.avro import (
    NULL,
    SOME,
    Cursor,
    array,
    fixed,
    flag,
    long,
    longs,
    maybe_blob,
    maybe_fixed,
    maybe_flag,
    maybe_long,
    maybe_text,
    symbols,
    text,
)
from commitlog.log.codec.values import read_row, write_row

_VERDICT_MEMBERS: Final = tuple(Verdict)
_VERDICT: Final = symbols(Verdict)


_REASON_MEMBERS: Final = tuple(Reason)
_REASON: Final = symbols(Reason)


_CONFLICT_KIND_MEMBERS: Final = tuple(ConflictKind)
_CONFLICT_KIND: Final = symbols(ConflictKind)


_RESOLUTION_ACTION_MEMBERS: Final = tuple(ResolutionAction)
_RESOLUTION_ACTION: Final = symbols(ResolutionAction)


def write_position(out: BytesWriter, it: Position) -> None:
    """Writes a Position, as `schemas/outcome.avsc` has it."""
    long(out, it.partition)
    long(out, it.offset)


def read_position(cursor: Cursor) -> Position:
    """Reads a Position."""
    it: Position = new_named(Position, (cursor.long(), cursor.long()))
    return it


def write_conflict_object(out: BytesWriter, it: ConflictObject) -> None:
    """Writes a ConflictObject, as `schemas/outcome.avsc` has it."""
    maybe_text(out, it.schema)
    maybe_text(out, it.table)
    maybe_long(out, it.table_id)
    maybe_long(out, it.data_file_id)
    maybe_text(out, it.row_key)


def read_conflict_object(cursor: Cursor) -> ConflictObject:
    """Reads a ConflictObject."""
    return ConflictObject(
        schema=cursor.maybe_text(),
        table=cursor.maybe_text(),
        table_id=cursor.maybe_long(),
        data_file_id=cursor.maybe_long(),
        row_key=cursor.maybe_text(),
    )


def write_conflict(out: BytesWriter, it: Conflict) -> None:
    """Writes a Conflict, as `schemas/outcome.avsc` has it."""
    out.append(_CONFLICT_KIND[it.kind])
    maybe_long(out, it.proposed_change)
    maybe_long(out, it.proposed_read)
    write_conflict_object(out, it.object)
    long(out, it.committed_snapshot_id)
    maybe_fixed(out, it.committed_proposal_id, 16)
    maybe_text(out, it.committed_writer_id)
    text(out, it.detail)


def read_conflict(cursor: Cursor) -> Conflict:
    """Reads a Conflict."""
    return Conflict(
        kind=cursor.symbol(_CONFLICT_KIND_MEMBERS),
        proposed_change=cursor.maybe_long(),
        proposed_read=cursor.maybe_long(),
        object=read_conflict_object(cursor),
        committed_snapshot_id=cursor.long(),
        committed_proposal_id=cursor.maybe_fixed(16),
        committed_writer_id=cursor.maybe_text(),
        detail=cursor.text(),
    )


def write_resolution(out: BytesWriter, it: Resolution) -> None:
    """Writes a Resolution, as `schemas/outcome.avsc` has it."""
    long(out, it.change)
    out.append(_CONFLICT_KIND[it.kind])
    out.append(_RESOLUTION_ACTION[it.action])
    text(out, it.policy)
    write_conflict_object(out, it.object)
    long(out, it.committed_snapshot_id)
    maybe_fixed(out, it.committed_proposal_id, 16)
    maybe_text(out, it.committed_writer_id)
    if it.committed_row is None:
        out.append(NULL)
    else:
        out.append(SOME)
        write_row(out, it.committed_row)
    if it.proposed_row is None:
        out.append(NULL)
    else:
        out.append(SOME)
        write_row(out, it.proposed_row)
    if it.row is None:
        out.append(NULL)
    else:
        out.append(SOME)
        write_row(out, it.row)
    maybe_long(out, it.ended_row_id)
    maybe_long(out, it.row_id)


def read_resolution(cursor: Cursor) -> Resolution:
    """Reads a Resolution."""
    return Resolution(
        change=cursor.long(),
        kind=cursor.symbol(_CONFLICT_KIND_MEMBERS),
        action=cursor.symbol(_RESOLUTION_ACTION_MEMBERS),
        policy=cursor.text(),
        object=read_conflict_object(cursor),
        committed_snapshot_id=cursor.long(),
        committed_proposal_id=cursor.maybe_fixed(16),
        committed_writer_id=cursor.maybe_text(),
        committed_row=read_row(cursor) if cursor.is_some() else None,
        proposed_row=read_row(cursor) if cursor.is_some() else None,
        row=read_row(cursor) if cursor.is_some() else None,
        ended_row_id=cursor.maybe_long(),
        row_id=cursor.maybe_long(),
    )


def write_assigned(out: BytesWriter, it: Assigned) -> None:
    """Writes an Assigned, as `schemas/outcome.avsc` has it."""
    longs(out, it.schema_ids)
    longs(out, it.table_ids)
    longs(out, it.view_ids)
    longs(out, it.partition_ids)
    array(out, longs, it.column_ids)
    longs(out, it.mapping_ids)
    longs(out, it.data_file_ids)
    longs(out, it.delete_file_ids)
    array(out, maybe_long, it.row_id_starts)
    long(out, it.schema_version)
    maybe_long(out, it.writer_epoch)


def read_assigned(cursor: Cursor) -> Assigned:
    """Reads an Assigned."""
    return Assigned(
        schema_ids=cursor.longs(),
        table_ids=cursor.longs(),
        view_ids=cursor.longs(),
        partition_ids=cursor.longs(),
        column_ids=cursor.array(Cursor.longs),
        mapping_ids=cursor.longs(),
        data_file_ids=cursor.longs(),
        delete_file_ids=cursor.longs(),
        row_id_starts=cursor.array(Cursor.maybe_long),
        schema_version=cursor.long(),
        writer_epoch=cursor.maybe_long(),
    )


def write_effect(out: BytesWriter, it: Effect) -> None:
    """Writes an Effect, as `schemas/outcome.avsc` has it."""
    maybe_long(out, it.object_id)
    flag(out, it.skipped)
    maybe_long(out, it.ended_row_id)
    maybe_long(out, it.row_id)
    maybe_text(out, it.identity)


def read_effect(cursor: Cursor) -> Effect:
    """Reads an Effect."""
    return Effect(
        object_id=cursor.maybe_long(),
        skipped=cursor.flag(),
        ended_row_id=cursor.maybe_long(),
        row_id=cursor.maybe_long(),
        identity=cursor.maybe_text(),
    )


def write_outcome(
    out: BytesWriter, it: Outcome, log_id: bytes, prev_hash: bytes, told: int, proposal: bytes | None
) -> None:
    """Writes an Outcome, as `schemas/outcome.avsc` has it."""
    fixed(out, log_id, 16)
    long(out, it.seq)
    long(out, it.epoch)
    long(out, it.rules_version)
    fixed(out, prev_hash, 32)
    long(out, told)
    write_position(out, it.source)
    long(out, it.decided_at_ms)
    out.append(_VERDICT[it.verdict])
    long(out, it.head_snapshot_id)
    maybe_fixed(out, it.proposal_id, 16)
    maybe_text(out, it.writer_id)
    maybe_long(out, it.snapshot_id)
    maybe_long(out, it.snapshot_time_us)
    if it.reason is None:
        out.append(NULL)
    else:
        out.append(SOME)
        out.append(_REASON[it.reason])
    maybe_text(out, it.detail)
    maybe_text(out, it.invalid_code)
    array(out, write_conflict, it.conflicts)
    long(out, it.conflict_count)
    array(out, write_resolution, it.resolutions)
    write_assigned(out, it.assigned)
    array(out, write_effect, it.effects)
    long(out, it.next_catalog_id)
    long(out, it.next_file_id)
    maybe_long(out, it.original_seq)
    maybe_flag(out, it.same_content)
    maybe_long(out, it.content_hash)
    maybe_blob(out, proposal)


def read_outcome(cursor: Cursor, decode: Callable[[bytes], Proposal]) -> tuple[Outcome, bytes, bytes, int]:
    """Reads an Outcome and where it stands in the log."""
    log_id = cursor.fixed(16)
    seq = cursor.long()
    epoch = cursor.long()
    rules_version = cursor.long()
    prev_hash = cursor.fixed(32)
    told = cursor.long()
    source = read_position(cursor)
    decided_at_ms = cursor.long()
    verdict = cursor.symbol(_VERDICT_MEMBERS)
    head_snapshot_id = cursor.long()
    proposal_id = cursor.maybe_fixed(16)
    writer_id = cursor.maybe_text()
    snapshot_id = cursor.maybe_long()
    snapshot_time_us = cursor.maybe_long()
    reason = cursor.symbol(_REASON_MEMBERS) if cursor.is_some() else None
    detail = cursor.maybe_text()
    invalid_code = cursor.maybe_text()
    conflicts = cursor.array(read_conflict)
    conflict_count = cursor.long()
    resolutions = cursor.array(read_resolution)
    assigned = read_assigned(cursor)
    effects = cursor.array(read_effect)
    next_catalog_id = cursor.long()
    next_file_id = cursor.long()
    original_seq = cursor.maybe_long()
    same_content = cursor.maybe_flag()
    content_hash = cursor.maybe_long()
    proposal = cursor.maybe_blob()
    return (
        Outcome(
            seq=seq,
            epoch=epoch,
            rules_version=rules_version,
            source=source,
            decided_at_ms=decided_at_ms,
            verdict=verdict,
            head_snapshot_id=head_snapshot_id,
            proposal_id=proposal_id,
            writer_id=writer_id,
            snapshot_id=snapshot_id,
            snapshot_time_us=snapshot_time_us,
            reason=reason,
            detail=detail,
            invalid_code=invalid_code,
            conflicts=conflicts,
            conflict_count=conflict_count,
            resolutions=resolutions,
            assigned=assigned,
            effects=effects,
            next_catalog_id=next_catalog_id,
            next_file_id=next_file_id,
            original_seq=original_seq,
            same_content=same_content,
            content_hash=content_hash,
            proposal=None if proposal is None else decode(proposal),
            proposal_bytes=proposal,
        ),
        log_id,
        prev_hash,
        told,
    )
