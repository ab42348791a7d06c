"""Records of a results topic, made by hand: for tests of the rule by which they are read."""

from __future__ import annotations

from typing import Any

from commitlog.domain import model as m
from commitlog.log.chain import hash_after_takeover
from commitlog.log.codec import Takeover, encode_genesis, encode_outcome, encode_takeover, hash_record

LOG_ID = b"L" * 16
OTHER = b"O" * 16
GENESIS = encode_genesis(m.Genesis(LOG_ID))


def takeover(epoch: int, instance: bytes = b"I", *, log_id: bytes = LOG_ID) -> bytes:
    return encode_takeover(Takeover(log_id, epoch, instance * 16, 5))


def outcome(
    seq: int, prev: bytes, *, epoch: int = 1, log_id: bytes = LOG_ID, told: int = 0, detail: str = "no", **more: Any
) -> bytes:
    """An outcome's bytes; ``prev`` is the hash so far."""
    refused = m.Outcome(
        seq, epoch, m.Position(0, seq - 1), 5, m.Verdict.REJECTED, 0, b"P" * 16, "w",
        reason=m.Reason.INVALID, detail=detail,
    )  # fmt: skip
    return encode_outcome(refused.replace(**more), log_id=log_id, prev_hash=prev, told=told)


class Written:
    """A results topic that one sequencer after another writes."""

    def __init__(self) -> None:
        self.records = [GENESIS]
        self.hash = hash_record(GENESIS)
        self.epoch = 0
        self.seq = 0

    def take_over(self, instance: bytes = b"I") -> bytes:
        self.epoch += 1
        record = takeover(self.epoch, instance)
        self.hash = hash_after_takeover(self.hash, record)
        self.records.append(record)
        return record

    def decide(self, count: int = 1) -> list[bytes]:
        made = self.next_outcomes(count)
        self.records += made
        self.seq += count
        self.hash = hash_record(made[-1])
        return made

    def next_outcomes(self, count: int = 1) -> list[bytes]:
        """What the active sequencer would append."""
        made: list[bytes] = []
        for seq in range(self.seq + 1, self.seq + count + 1):
            made.append(outcome(seq, hash_record(made[-1]) if made else self.hash, epoch=self.epoch))
        return made
