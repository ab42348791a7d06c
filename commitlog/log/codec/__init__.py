"""Bytes to values and back: the one place that knows the log's records are Avro (``schemas/``, rules.md 2).

Decoding raises ``MalformedRecordError`` with a plain reason, and nothing else, whatever the bytes are. What JSON would
call malformed is so here: whether a proposal makes sense is for ``decide``. How each record is read and written is
generated (`records`); their border is here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import ClassVar, Final

from mypy_extensions import mypyc_attr

from commitlog.domain import model as m
from commitlog.domain.model.record import Record
from commitlog.domain.model.records.dead_letter import DeadLetter
from commitlog.domain.model.records.heartbeat import Heartbeat
from commitlog.domain.model.records.receipts import Receipts
from commitlog.domain.model.records.takeover import Takeover
from commitlog.domain.model.records.trim import Trim
from commitlog.errors import MalformedRecordError
from commitlog.log.codec.avro import Cursor
from commitlog.log.codec.framing import (
    HEADER_SIZE_BYTES,
    UnknownSchemaError,
    begun,
    opened,
    record_of,
)
from commitlog.log.codec.records.dead_letter import read_dead_letter, write_dead_letter
from commitlog.log.codec.records.genesis import read_genesis, write_genesis
from commitlog.log.codec.records.headers import HEADERS
from commitlog.log.codec.records.heartbeat import read_heartbeat, write_heartbeat
from commitlog.log.codec.records.outcome import read_outcome, write_outcome
from commitlog.log.codec.records.proposal import read_proposal, write_proposal
from commitlog.log.codec.records.receipts import read_receipts, write_receipts
from commitlog.log.codec.records.takeover import read_takeover, write_takeover
from commitlog.log.codec.records.trim import read_trim, write_trim
from commitlog.log.codec.statistics import decode_statistics, encode_statistics

__all__ = [
    "DeadLetter",
    "Heartbeat",
    "OutcomeHead",
    "OutcomeRecord",
    "Receipts",
    "Takeover",
    "Trim",
    "UnknownSchemaError",
    "decode_dead_letter",
    "decode_head",
    "decode_heartbeat",
    "decode_proposal",
    "decode_receipts",
    "decode_record",
    "decode_statistics",
    "decode_trim",
    "encode_dead_letter",
    "encode_genesis",
    "encode_heartbeat",
    "encode_outcome",
    "encode_proposal",
    "encode_receipts",
    "encode_statistics",
    "encode_takeover",
    "encode_trim",
    "hash_record",
    "readable_ids",
    "with_statistics_expanded",
]

_ID_SIZE_BYTES = 16
_HASH_SIZE_BYTES = 32
_CANNOT_BE_WRITTEN = (ValueError, TypeError, OverflowError, AttributeError, KeyError)


# --- proposals --------------------------------------------------------------------------------------------------------


def encode_proposal(proposal: m.Proposal) -> bytes:
    """A proposal's bytes; statistics that are not opaque yet become so.

    Raises:
        MalformedRecordError: a value that the record cannot hold (a lone surrogate, a number beyond 64 bits, ...).
    """
    try:
        out = begun("Proposal")
        write_proposal(out, proposal)
        return out.getvalue()
    except UnicodeEncodeError as error:
        detail = f"a text of it holds the character U+{ord(error.object[error.start]):04X}, which no text here may hold"
        raise MalformedRecordError(f"the proposal cannot be written: {detail}") from None
    except _CANNOT_BE_WRITTEN as error:
        raise MalformedRecordError(f"the proposal cannot be written: {type(error).__name__} {error}"[:300]) from None


def decode_proposal(data: bytes) -> m.Proposal:
    """The proposal, its statistics left opaque.

    Raises:
        MalformedRecordError: for anything that is not exactly one well-formed proposal.
    """
    return opened(data, "Proposal", read_proposal)


def readable_ids(data: bytes) -> tuple[m.ProposalId | None, str | None]:
    """The ids at the head of bytes that are no proposal as a whole, for the writer to recognise its answer."""
    if data[:HEADER_SIZE_BYTES] != HEADERS["Proposal"] or len(data) <= HEADER_SIZE_BYTES + _ID_SIZE_BYTES:
        return None, None
    cursor = Cursor(data, HEADER_SIZE_BYTES)
    proposal_id = cursor.fixed(_ID_SIZE_BYTES)
    try:
        return proposal_id, cursor.text()
    except (ValueError, IndexError):
        return proposal_id, None


def with_statistics_expanded(proposal: m.Proposal) -> m.Proposal:
    """The proposal with its files' statistics decoded, as people read it."""
    return proposal.replace(changes=tuple([_expanded(change) for change in proposal.changes]))


def _expanded(change: m.Change) -> m.Change:
    if not isinstance(change, m.Append | m.Compact | m.Flush):
        return change
    files = [
        file.replace(statistics=decode_statistics(file.statistics)) if isinstance(file.statistics, bytes) else file
        for file in change.files
    ]
    return change.replace(files=tuple(files))


# --- the results topic ------------------------------------------------------------------------------------------------


@mypyc_attr(acyclic=True)
class OutcomeRecord(Record):
    """An outcome as the results topic holds it, with its place in the chain."""

    __slots__ = ("log_id", "outcome", "prev_hash", "told")

    FIELDS: ClassVar[tuple[str, ...]] = ("outcome", "log_id", "prev_hash", "told")

    def __init__(self, outcome: m.Outcome, log_id: bytes, prev_hash: bytes, told: int = 0) -> None:
        self.outcome: Final = outcome
        self.log_id: Final = log_id
        self.prev_hash: Final = prev_hash
        self.told: Final = told


@mypyc_attr(acyclic=True)
class OutcomeHead(Record):
    """What an outcome says of its place in the log, without what was decided.

    ``told``: all receipts and dead letters up to this seq were acknowledged when it was decided.
    """

    __slots__ = ("epoch", "log_id", "prev_hash", "rules_version", "seq", "told")

    FIELDS: ClassVar[tuple[str, ...]] = ("log_id", "seq", "epoch", "rules_version", "prev_hash", "told")

    def __init__(self, log_id: bytes, seq: int, epoch: int, rules_version: int, prev_hash: bytes, told: int) -> None:
        self.log_id: Final = log_id
        self.seq: Final = seq
        self.epoch: Final = epoch
        self.rules_version: Final = rules_version
        self.prev_hash: Final = prev_hash
        self.told: Final = told


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
    out = begun("Outcome")
    write_outcome(out, outcome, log_id, prev_hash, told, proposal)
    return out.getvalue()


def encode_genesis(genesis: m.Genesis) -> bytes:
    """The first record of the results topic."""
    out = begun("Genesis")
    write_genesis(out, genesis)
    return out.getvalue()


def encode_takeover(takeover: Takeover) -> bytes:
    """The record of the results topic that begins an epoch."""
    out = begun("Takeover")
    write_takeover(out, takeover)
    return out.getvalue()


def decode_record(data: bytes, *, expanded: bool = False) -> m.Genesis | Takeover | OutcomeRecord:
    """A record of the results topic; the outcome's proposal is decoded.

    Args:
        data: its bytes.
        expanded: whether the statistics of the proposal's files are decoded, too, or left opaque.

    Raises:
        MalformedRecordError: the bytes are none.
    """
    match record_of(data):
        case "Genesis":
            return opened(data, "Genesis", read_genesis)
        case "Takeover":
            return opened(data, "Takeover", read_takeover)
        case "Outcome":
            return opened(data, "Outcome", _read_outcome, expands=expanded)
        case other:
            raise MalformedRecordError(f"a record of kind {other}, not Outcome or Genesis or Takeover")


def _read_outcome(cursor: Cursor) -> OutcomeRecord:
    decode = _decode_expanded if cursor.expands else decode_proposal
    outcome, log_id, prev_hash, told = read_outcome(cursor, decode)
    return OutcomeRecord(outcome, log_id, prev_hash, told)


def _decode_expanded(data: bytes) -> m.Proposal:
    return opened(data, "Proposal", read_proposal, expands=True)


def decode_head(data: bytes) -> m.Genesis | Takeover | OutcomeHead:
    """What `Chain` must know of a record of the results topic.

    Raises:
        UnknownSchemaError: a record of ours, of a schema that this version does not know.
        MalformedRecordError: the bytes are no record of the results topic.
    """
    if record_of(data) == "Outcome":
        return _outcome_head(data)
    record = decode_record(data)
    assert not isinstance(record, OutcomeRecord)
    return record


def _outcome_head(data: bytes) -> OutcomeHead:
    """The fields that every version of an outcome begins with, whatever comes behind them."""
    cursor = Cursor(data, HEADER_SIZE_BYTES)
    try:
        return OutcomeHead(
            log_id=cursor.fixed(_ID_SIZE_BYTES),
            seq=cursor.long(),
            epoch=cursor.long(),
            rules_version=cursor.long(),
            prev_hash=cursor.fixed(_HASH_SIZE_BYTES),
            told=cursor.long(),
        )
    except (ValueError, IndexError):
        raise MalformedRecordError(f"an outcome of only {len(data)} bytes") from None


# --- receipts ---------------------------------------------------------------------------------------------------------


def encode_receipts(receipts: Sequence[m.Receipt], *, log_id: bytes, partition: int) -> bytes:
    """One message for the answers of a batch to one partition's proposals."""
    out = begun("Receipts")
    write_receipts(out, Receipts(log_id, partition, tuple(receipts)))
    return out.getvalue()


def decode_receipts(data: bytes) -> Receipts:
    """The answers in one message of the receipts topic; raises MalformedRecordError."""
    return opened(data, "Receipts", read_receipts)


# --- dead letters, heartbeats and trims --------------------------------------------------------------------------------------


def encode_dead_letter(letter: DeadLetter) -> bytes:
    """One message of the dead-letters topic."""
    out = begun("DeadLetter")
    write_dead_letter(out, letter)
    return out.getvalue()


def decode_dead_letter(data: bytes) -> DeadLetter:
    """A message of the dead-letters topic; raises MalformedRecordError."""
    return opened(data, "DeadLetter", read_dead_letter)


def encode_heartbeat(heartbeat: Heartbeat) -> bytes:
    """One message of the control topic."""
    out = begun("Heartbeat")
    write_heartbeat(out, heartbeat)
    return out.getvalue()


def decode_heartbeat(data: bytes) -> Heartbeat:
    """A message of the control topic; raises MalformedRecordError."""
    return opened(data, "Heartbeat", read_heartbeat)


def encode_trim(trim: Trim) -> bytes:
    """One message of the trims topic."""
    out = begun("Trim")
    write_trim(out, trim)
    return out.getvalue()


def decode_trim(data: bytes) -> Trim:
    """A message of the trims topic; raises MalformedRecordError."""
    return opened(data, "Trim", read_trim)
