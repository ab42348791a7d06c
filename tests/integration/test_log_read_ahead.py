"""Reading ahead in a thread of its own."""

from __future__ import annotations

import pytest

from commitlog.domain import model as m
from commitlog.errors import LogIntegrityError
from commitlog.log.read_ahead import PIECE_RECORDS, ReadAhead
from commitlog.log.results import ResultRecord

LOG_ID = b"L" * 16


class _Reader:
    """Gives out records as a log would, then an error."""

    def __init__(self, records: list[ResultRecord]) -> None:
        self.left = list(records)
        self.next_offset = 0
        self.timeouts_s: list[float] = []

    def read(self, *, records_max: int, timeout_s: float) -> list[ResultRecord]:
        self.timeouts_s.append(timeout_s)
        if not self.left and timeout_s == 0:
            return []
        if not self.left:
            raise LogIntegrityError("the end of the test's log")
        given, self.left = self.left[:records_max], self.left[records_max:]
        self.next_offset = given[-1].offset + 1
        return given


def test_read_ahead_then_every_record_once_in_order_and_then_the_error() -> None:
    records = [ResultRecord(m.Genesis(LOG_ID), n, b"", bytes(10)) for n in range(50)]
    with ReadAhead(_Reader(records), records_max=7, bytes_max=100) as ahead:  # type: ignore[arg-type]
        taken = [ahead.take(timeout_s=5) for _ in range(3)]
    assert len(records) > len([each for batch in taken for each in batch]) + 10
    while batch := ahead.take(timeout_s=0):
        taken.append(batch)
    offsets = [each.offset for batch in taken for each in batch]
    assert offsets == list(range(len(offsets)))
    assert all(len(batch) <= 7 for batch in taken)
    with ReadAhead(_Reader(records[:3]), records_max=7, bytes_max=100) as ahead:  # type: ignore[arg-type]
        assert [each.offset for each in ahead.take(timeout_s=5)] == [0, 1, 2]
        with pytest.raises(LogIntegrityError, match="the end of the test's log"):
            ahead.take(timeout_s=5)


def test_read_ahead_when_more_is_there_than_is_decoded_at_a_time_then_it_is_taken_together() -> None:
    records = [ResultRecord(m.Genesis(LOG_ID), n, b"", b"") for n in range(3 * PIECE_RECORDS)]
    reader = _Reader(records)
    with ReadAhead(reader, records_max=10 * PIECE_RECORDS, bytes_max=100) as ahead:  # type: ignore[arg-type]
        assert len(ahead.take(timeout_s=5)) == 3 * PIECE_RECORDS
    assert reader.timeouts_s[1:4] == [0, 0, 0], "it waited for more, while what was there was waited for"
