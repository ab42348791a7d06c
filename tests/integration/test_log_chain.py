"""The rule by which a reader accepts a record of the results topic: DESIGN 1, "the log verifies itself"."""

from __future__ import annotations

from dataclasses import replace

import pytest

from commitlog.domain import model as m
from commitlog.errors import LogIntegrityError, RulesVersionError
from commitlog.log import results
from commitlog.log.codec import encode_genesis, encode_outcome, hash_record
from commitlog.log.results import Chain

LOG_ID = b"L" * 16
GENESIS = encode_genesis(m.Genesis(LOG_ID))


def outcome(seq: int, prev: bytes, *, epoch: int = 1, log_id: bytes = LOG_ID, **more: object) -> bytes:
    refused = m.Outcome(
        seq,
        epoch,
        m.Position(0, seq - 1),
        5,
        m.Verdict.REJECTED,
        0,
        b"I" * 16,
        "w",
        reason=m.Reason.INVALID,
        detail="no",
    )
    return encode_outcome(replace(refused, **more), log_id=log_id, prev_hash=hash_record(prev))  # type: ignore[arg-type]


def a_chain(length: int) -> list[bytes]:
    records = [GENESIS]
    for seq in range(1, length + 1):
        records.append(outcome(seq, records[-1]))
    return records


def reading(records: list[bytes]) -> Chain:
    chain = Chain()
    for offset, record in enumerate(records):
        assert chain.accept(record, offset) is not None
    return chain


def test_chain_when_records_follow_then_all_are_accepted() -> None:
    records = a_chain(3)
    chain = reading(records)
    assert chain.position == results.LogPosition(LOG_ID, 3, 1, hash_record(records[3]), 3)


def test_chain_when_the_epoch_rises_then_accepted_and_a_lower_one_is_skipped_and_counted() -> None:
    records = a_chain(1)
    chain = reading(records)
    taken_over = outcome(2, records[1], epoch=3)
    assert chain.accept(taken_over, 2) is not None
    assert chain.accept(outcome(3, taken_over, epoch=2), 3) is None
    assert chain.zombies == 1
    assert chain.accept(outcome(3, taken_over, epoch=3), 4) is not None


def test_chain_when_a_record_comes_again_then_skipped_only_if_it_is_the_same() -> None:
    records = a_chain(3)
    chain = reading(records)
    assert chain.accept(records[2], 4) is None
    assert chain.accept(GENESIS, 5) is None
    with pytest.raises(LogIntegrityError, match="outcome 2 again, with another content"):
        chain.accept(outcome(2, records[1], detail="other"), 6)
    assert chain.position is not None
    assert chain.position.seq == 3


def test_chain_when_an_old_record_comes_again_then_stops_for_it_cannot_be_compared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(results, "HASHES_KEPT", 2)
    records = a_chain(4)
    chain = reading(records)
    assert chain.accept(records[3], 5) is None
    with pytest.raises(LogIntegrityError, match="too old to compare"):
        chain.accept(records[1], 6)


@pytest.mark.parametrize(
    ("record", "told"),
    [
        (outcome(4, a_chain(2)[2]), "holds outcome 4, but 3 comes after 2: outcomes are missing"),
        (outcome(3, a_chain(1)[1]), "was written after another outcome 2"),
        (outcome(3, a_chain(2)[2], log_id=b"O" * 16), "belongs to log 4f4f4f4f"),
        (encode_genesis(m.Genesis(b"O" * 16)), "belongs to log 4f4f4f4f"),
        (encode_genesis(m.Genesis(LOG_ID, partitions=9)), "outcome 0 again, with another content"),
        (b"junk", "no record of a log"),
        (None, "no record of a log"),
    ],
    ids=["gap", "other history", "other log", "other genesis", "second genesis", "junk", "nothing"],
)
def test_chain_when_a_record_does_not_fit_then_stops_and_nothing_has_changed(record: bytes | None, told: str) -> None:
    chain = reading(a_chain(2))
    before = chain.position
    with pytest.raises(LogIntegrityError, match=told):
        chain.accept(record, 7)
    assert chain.position == before
    assert chain.accept(a_chain(3)[3], 8) is not None


def test_chain_when_one_byte_is_changed_then_the_next_record_does_not_fit() -> None:
    records = a_chain(2)
    tampered = outcome(1, records[0], detail="so")
    chain = Chain()
    chain.accept(records[0], 0)
    chain.accept(tampered, 1)
    with pytest.raises(LogIntegrityError, match="another outcome 1"):
        chain.accept(records[2], 2)


def test_chain_when_it_does_not_start_with_the_genesis_then_stops() -> None:
    with pytest.raises(LogIntegrityError, match="instead of its genesis"):
        Chain().accept(a_chain(1)[1], 0)


def test_chain_when_decided_under_newer_rules_then_says_so() -> None:
    records = a_chain(1)
    chain = reading(records)
    with pytest.raises(RulesVersionError, match="rules version 2"):
        chain.accept(outcome(2, records[1], rules_version=2), 2)
    with pytest.raises(RulesVersionError):
        Chain().accept(encode_genesis(m.Genesis(LOG_ID, rules_version=2)), 0)


class _Reader:
    """Gives out records as a log would, then an error."""

    def __init__(self, records: list[results.ResultRecord]) -> None:
        self.left = list(records)
        self.next_offset = 0

    def read(self, *, records_max: int) -> list[results.ResultRecord]:
        if not self.left:
            raise LogIntegrityError("the end of the test's log")
        given, self.left = self.left[:records_max], self.left[records_max:]
        self.next_offset = given[-1].offset + 1
        return given


def test_read_ahead_then_every_record_once_in_order_and_then_the_error() -> None:
    records = [results.ResultRecord(m.Genesis(LOG_ID), n, b"", bytes(10)) for n in range(50)]
    with results.ReadAhead(_Reader(records), records_max=7, bytes_max=100) as ahead:  # type: ignore[arg-type]
        taken = [ahead.take(timeout_s=5) for _ in range(3)]
    assert len(records) > len([each for batch in taken for each in batch]) + 10
    while batch := ahead.take(timeout_s=0):
        taken.append(batch)
    offsets = [each.offset for batch in taken for each in batch]
    assert offsets == list(range(len(offsets)))
    assert all(len(batch) <= 7 for batch in taken)
    with results.ReadAhead(_Reader(records[:3]), records_max=7, bytes_max=100) as ahead:  # type: ignore[arg-type]
        assert [each.offset for each in ahead.take(timeout_s=5)] == [0, 1, 2]
        with pytest.raises(LogIntegrityError, match="the end of the test's log"):
            ahead.take(timeout_s=5)
