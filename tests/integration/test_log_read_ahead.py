"""Reading ahead: what is taken, and what is read in passing."""

from __future__ import annotations

import pytest

from commitlog.domain import model as m
from commitlog.errors import LogIntegrityError
from commitlog.log.read_ahead import PASSING_RECORDS, PIECE_RECORDS, ReadAhead
from commitlog.log.results import ResultRecord

LOG_ID = b"L" * 16


class _Reader:
    """Gives out records as a log would, then an error to whoever waits."""

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


def _records(count: int, raw: bytes = b"") -> list[ResultRecord]:
    return [ResultRecord(m.Genesis(LOG_ID), n, b"", raw) for n in range(count)]


def _ahead(reader: _Reader, *, records_max: int, bytes_max: int = 1_000_000) -> ReadAhead:
    return ReadAhead(reader, records_max=records_max, bytes_max=bytes_max)  # type: ignore[arg-type]


def test_read_ahead_then_every_record_once_in_order_and_then_the_error() -> None:
    ahead = _ahead(_Reader(_records(3)), records_max=7)
    assert [each.offset for each in ahead.take(timeout_s=5)] == [0, 1, 2]
    assert ahead.next_offset == 3
    with pytest.raises(LogIntegrityError, match="the end of the test's log"):
        ahead.take(timeout_s=5)
    with pytest.raises(LogIntegrityError, match="the end of the test's log"):
        ahead.take(timeout_s=5)


def test_read_ahead_when_more_is_there_than_one_call_gives_then_the_next_one_gives_it() -> None:
    ahead = _ahead(_Reader(_records(17)), records_max=7)
    taken = [[each.offset for each in ahead.take(timeout_s=0)] for _ in range(4)]
    assert taken == [list(range(7)), list(range(7, 14)), [14, 15, 16], []]


def test_read_ahead_when_a_piece_has_come_then_no_more_is_waited_for() -> None:
    reader = _Reader(_records(3 * PIECE_RECORDS))
    assert len(_ahead(reader, records_max=10 * PIECE_RECORDS).take(timeout_s=5)) == 3 * PIECE_RECORDS
    assert reader.timeouts_s == [5, 0, 0, 0]


def test_read_on_then_what_is_taken_begins_with_it_and_its_offset_is_of_what_was_taken() -> None:
    ahead = _ahead(_Reader(_records(3 * PASSING_RECORDS)), records_max=2 * PASSING_RECORDS)
    first = ahead.take(timeout_s=0)
    offset = ahead.next_offset
    assert ahead.read_on()
    assert ahead.next_offset == offset == 2 * PASSING_RECORDS
    assert not ahead.read_on(), "nothing more was there"
    taken = [*first, *ahead.take(timeout_s=5)]
    assert [each.offset for each in taken] == list(range(3 * PASSING_RECORDS))
    assert ahead.next_offset == 3 * PASSING_RECORDS


def test_read_on_when_enough_waits_then_no_more_is_read() -> None:
    reader = _Reader(_records(10 * PASSING_RECORDS, bytes(10)))
    by_count = _ahead(reader, records_max=PASSING_RECORDS + 5)
    assert [by_count.read_on() for _ in range(3)] == [True, True, False]
    assert len(by_count.rest()) == PASSING_RECORDS + 5
    by_size = _ahead(reader, records_max=10 * PASSING_RECORDS, bytes_max=1)
    assert [by_size.read_on() for _ in range(2)] == [True, False]
    assert len(by_size.take(timeout_s=5)) == PASSING_RECORDS
    assert reader.left


def test_read_on_when_reading_ends_in_an_error_then_who_takes_next_gets_it_after_the_records() -> None:
    class Broken(_Reader):
        def read(self, *, records_max: int, timeout_s: float) -> list[ResultRecord]:
            if not self.left:
                raise LogIntegrityError("the end of the test's log")
            return super().read(records_max=records_max, timeout_s=timeout_s)

    ahead = _ahead(Broken(_records(PASSING_RECORDS)), records_max=10 * PASSING_RECORDS)
    assert ahead.read_on()
    assert not ahead.read_on()
    assert len(ahead.take(timeout_s=0)) == PASSING_RECORDS
    with pytest.raises(LogIntegrityError, match="the end of the test's log"):
        ahead.take(timeout_s=0)
