"""Bytes to values and back: the one place that knows the log's records are Avro (``schemas/``, rules.md 2).

Decoding raises ``MalformedRecordError`` with a plain reason, and nothing else, whatever the bytes are. What JSON would
call malformed is so here: whether a proposal makes sense is for ``decide``. The parts are in the private modules beside
this one; their border is here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from commitlog.domain import model as m
from commitlog.domain.model.json_form import check_id_version
from commitlog.errors import MalformedRecordError
from commitlog.log.codec._changes import change_from_avro, change_to_avro, read_from_avro, read_to_avro
from commitlog.log.codec._direct import outcome_bytes, outcome_head, receipts_bytes
from commitlog.log.codec._files import decode_statistics, encode_statistics
from commitlog.log.codec._outcomes import (
    genesis_from_avro,
    genesis_to_avro,
    outcome_from_avro,
    outcome_to_avro,
    receipt_from_avro,
)
from commitlog.log.codec._values import optional
from commitlog.log.codec.framing import (
    HEADER_SIZE_BYTES,
    NEWEST,
    UnknownSchemaError,
    read,
    schema_of,
    writer_of,
)

__all__ = [
    "DeadLetter",
    "Heartbeat",
    "OutcomeHead",
    "OutcomeRecord",
    "Receipts",
    "Takeover",
    "UnknownSchemaError",
    "decode_dead_letter",
    "decode_head",
    "decode_heartbeat",
    "decode_proposal",
    "decode_receipts",
    "decode_record",
    "decode_statistics",
    "encode_dead_letter",
    "encode_genesis",
    "encode_heartbeat",
    "encode_outcome",
    "encode_proposal",
    "encode_receipts",
    "encode_statistics",
    "encode_takeover",
    "hash_record",
    "readable_ids",
    "with_statistics_expanded",
]

_ISOLATIONS = {str(isolation): isolation for isolation in m.Isolation}
_ID_SIZE_BYTES = 16

_write_proposal = writer_of("Proposal")
_write_outcome = writer_of("Outcome")
_write_genesis = writer_of("Genesis")
_write_takeover = writer_of("Takeover")
_write_dead_letter = writer_of("DeadLetter")
_write_heartbeat = writer_of("Heartbeat")


# --- proposals --------------------------------------------------------------------------------------------------------


def encode_proposal(proposal: m.Proposal) -> bytes:
    """A proposal's bytes; statistics that are not opaque yet become so.

    Raises:
        MalformedRecordError: a value that the record cannot hold (a lone surrogate, a number beyond 64 bits, ...).
    """
    try:
        return _write_proposal(
            {
                "proposal_id": proposal.proposal_id,
                "writer_id": proposal.writer_id,
                "writer_epoch": optional("long", proposal.writer_epoch),
                "writer_seq": optional("long", proposal.writer_seq),
                "base_snapshot_id": proposal.base_snapshot_id,
                "isolation": str(proposal.isolation),
                "open_writer": proposal.open_writer,
                "decide_before_ms": optional("long", proposal.decide_before_ms),
                "created_at_ms": proposal.created_at_ms,
                "author": optional("string", proposal.author),
                "message": optional("string", proposal.message),
                "extra": optional("string", proposal.extra),
                "reads": [read_to_avro(each) for each in proposal.reads],
                "changes": [change_to_avro(change) for change in proposal.changes],
            }
        )
    except (ValueError, TypeError, OverflowError, AttributeError, KeyError) as error:
        raise MalformedRecordError(f"the proposal cannot be written: {type(error).__name__} {error}"[:300]) from None


def decode_proposal(data: bytes) -> m.Proposal:
    """The proposal, its statistics left opaque.

    Raises:
        MalformedRecordError: for anything that is not exactly one well-formed proposal.
    """
    _, fields = read(data, "Proposal")
    proposal_id: bytes = fields["proposal_id"]
    check_id_version(proposal_id, fields["writer_seq"])
    return m.Proposal(
        proposal_id,
        fields["writer_id"],
        fields["base_snapshot_id"],
        tuple([change_from_avro(branch) for branch in fields["changes"]]),
        fields["writer_epoch"],
        fields["writer_seq"],
        fields["open_writer"],
        fields["decide_before_ms"],
        _ISOLATIONS[fields["isolation"]],
        tuple([read_from_avro(branch) for branch in fields["reads"]]),
        fields["author"],
        fields["message"],
        fields["extra"],
        fields["created_at_ms"],
    )


def readable_ids(data: bytes) -> tuple[m.ProposalId | None, str | None]:
    """The ids at the head of bytes that are no proposal as a whole, for the writer to recognise its answer."""
    body = data[HEADER_SIZE_BYTES:]
    if data[:HEADER_SIZE_BYTES] != NEWEST["Proposal"].header or len(body) <= _ID_SIZE_BYTES:
        return None, None
    length, at = 0, _ID_SIZE_BYTES
    for shift in (0, 7):
        byte = body[at] if at < len(body) else 0
        length |= (byte & 0x7F) << shift
        at += 1
        if not byte & 0x80:
            break
    length, odd = divmod(length, 2)
    text = body[at : at + length]
    writer_id = None
    if not odd and len(text) == length:
        try:
            writer_id = text.decode("utf-8")
        except UnicodeDecodeError:
            writer_id = None
    return body[:_ID_SIZE_BYTES], writer_id


def with_statistics_expanded(proposal: m.Proposal) -> m.Proposal:
    """The proposal with its files' statistics decoded, as people read it."""
    return replace(proposal, changes=tuple(_expanded(change) for change in proposal.changes))


def _expanded(change: m.Change) -> m.Change:
    if not isinstance(change, m.Append | m.Compact | m.Flush):
        return change
    files = tuple(
        replace(file, statistics=decode_statistics(file.statistics)) if isinstance(file.statistics, bytes) else file
        for file in change.files
    )
    return replace(change, files=files)


# --- the results topic ------------------------------------------------------------------------------------------------


class OutcomeRecord(NamedTuple):
    """An outcome as the results topic holds it, with its place in the chain."""

    outcome: m.Outcome
    log_id: bytes
    prev_hash: bytes
    told: int = 0


class OutcomeHead(NamedTuple):
    """What an outcome says of its place in the log, without what was decided.

    ``told``: all receipts and dead letters up to this seq were acknowledged when it was decided.
    """

    log_id: bytes
    seq: int
    epoch: int
    rules_version: int
    prev_hash: bytes
    told: int


class Takeover(NamedTuple):
    """A sequencer begins an epoch; ``instance`` is 16 bytes made anew for every attempt."""

    log_id: bytes
    epoch: int
    instance: bytes
    sent_at_ms: int


def hash_record(data: bytes) -> bytes:
    """What the next outcome carries as ``prev_hash``."""
    return hashlib.sha256(data).digest()


def encode_outcome(outcome: m.Outcome, *, log_id: bytes, prev_hash: bytes, told: int = 0) -> bytes:
    """An outcome's bytes, with its proposal's bytes as they came; those of a malformed one are in dead-letters only."""
    proposal = outcome.proposal_bytes
    if outcome.reason is m.Reason.MALFORMED:
        proposal = None
    elif proposal is None and outcome.proposal is not None:
        proposal = encode_proposal(outcome.proposal)
    if not outcome.conflicts and not outcome.resolutions:
        return outcome_bytes(outcome, log_id, prev_hash, told, proposal)
    return _write_outcome(outcome_to_avro(outcome, log_id, prev_hash, told, proposal))


def encode_genesis(genesis: m.Genesis) -> bytes:
    """The first record of the results topic."""
    return _write_genesis(genesis_to_avro(genesis))


def encode_takeover(takeover: Takeover) -> bytes:
    """The record of the results topic that begins an epoch."""
    return _write_takeover(takeover._asdict())


def decode_record(data: bytes) -> m.Genesis | Takeover | OutcomeRecord:
    """A record of the results topic; the outcome's proposal is decoded, its statistics are left opaque.

    Raises:
        MalformedRecordError: the bytes are none.
    """
    record, fields = read(data, "Outcome", "Genesis", "Takeover")
    if record == "Genesis":
        return genesis_from_avro(fields)
    if record == "Takeover":
        return Takeover(**fields)
    raw = fields["proposal"]
    outcome = outcome_from_avro(fields, None if raw is None else decode_proposal(raw))
    return OutcomeRecord(outcome, fields["log_id"], fields["prev_hash"], fields["told"])


def decode_head(data: bytes) -> m.Genesis | Takeover | OutcomeHead:
    """What `Chain` must know of a record of the results topic.

    Raises:
        UnknownSchemaError: a record of ours, of a schema that this version does not know.
        MalformedRecordError: the bytes are no record of the results topic.
    """
    if schema_of(data).record == "Outcome":
        return OutcomeHead(*outcome_head(data))
    record = decode_record(data)
    assert not isinstance(record, OutcomeRecord)
    return record


# --- receipts ---------------------------------------------------------------------------------------------------------


class Receipts(NamedTuple):
    """One message of the receipts topic: the answers of one batch to one partition's proposals."""

    log_id: bytes
    partition: int
    receipts: tuple[m.Receipt, ...]


def encode_receipts(receipts: Sequence[m.Receipt], *, log_id: bytes, partition: int) -> bytes:
    """One message for the answers of a batch to one partition's proposals."""
    return receipts_bytes(receipts, log_id, partition)


def decode_receipts(data: bytes, *, wanted: Callable[[m.ProposalId | None, int], bool] | None = None) -> Receipts:
    """The answers in one message of the receipts topic; raises MalformedRecordError.

    Args:
        data: the message's value.
        wanted: by proposal id and offset, which answers to make at all; a client wants few of them.
    """
    _, fields = read(data, "Receipts")
    partition = fields["partition"]
    receipts = tuple(
        [
            receipt_from_avro(receipt, partition)
            for receipt in fields["receipts"]
            if wanted is None or wanted(receipt["proposal_id"], receipt["offset"])
        ]
    )
    return Receipts(fields["log_id"], partition, receipts)


# --- dead letters and heartbeats --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Bytes that are no proposal, where they came from and why they were refused.

    ``value`` is cut off where ``value_size_bytes`` is larger; None is a message without a value.
    """

    log_id: bytes
    seq: int
    topic: str
    source: m.Position
    detail: str
    decided_at_ms: int
    key: bytes | None
    value: bytes | None
    value_size_bytes: int


def encode_dead_letter(letter: DeadLetter) -> bytes:
    """One message of the dead-letters topic."""
    return _write_dead_letter(
        {
            "log_id": letter.log_id,
            "seq": letter.seq,
            "topic": letter.topic,
            "partition": letter.source.partition,
            "offset": letter.source.offset,
            "detail": letter.detail,
            "decided_at_ms": letter.decided_at_ms,
            "key": optional("bytes", letter.key),
            "value_size_bytes": letter.value_size_bytes,
            "value": optional("bytes", letter.value),
        }
    )


def decode_dead_letter(data: bytes) -> DeadLetter:
    """A message of the dead-letters topic; raises MalformedRecordError."""
    _, fields = read(data, "DeadLetter")
    source = m.Position(fields.pop("partition"), fields.pop("offset"))
    return DeadLetter(**fields, source=source)


class Heartbeat(NamedTuple):
    """The sign of life of the active sequencer; ``seq`` is the last outcome that is accepted.

    ``leaving`` is the last sign: a standby takes over at once.
    """

    log_id: bytes
    epoch: int
    instance: bytes
    seq: int
    sent_at_ms: int
    leaving: bool = False


def encode_heartbeat(heartbeat: Heartbeat) -> bytes:
    """One message of the control topic."""
    return _write_heartbeat(heartbeat._asdict())


def decode_heartbeat(data: bytes) -> Heartbeat:
    """A message of the control topic; raises MalformedRecordError."""
    _, fields = read(data, "Heartbeat")
    return Heartbeat(**fields)
