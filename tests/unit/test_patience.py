"""For how long readers wait for a broker: its silence counts, and not what is done meanwhile with what it gave."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from chains import LOG_ID, Written
from confluent_kafka import KafkaError
from test_triage import FakeConsumer, Message

from commitlog.config import Settings
from commitlog.errors import LogUnavailableError
from commitlog.log import losses, reading, results
from commitlog.machine import Machine
from commitlog.relay import outward

LONG_S = 1_000.0
SLOW_S = 25.0
TOPIC = "commitlog.main.results"


class Clock(Machine):
    """The time is what the test says."""

    def __init__(self) -> None:
        self.at_s = 0.0
        self.now_s = lambda: self.at_s


class Pausing(FakeConsumer):
    """Gives out nothing once between one value and the next, and after the last one never more: the time goes on."""

    def __init__(self, clock: Clock, *values: bytes) -> None:
        super().__init__()
        self._clock = clock
        self._turns = [turn for at, value in enumerate(values) for turn in ([Message(offset=at, value=value)], [])]

    def consume(self, records_max: int, timeout_s: float) -> list[Message]:
        if timeout_s == 0:
            return []
        if not self._turns:
            self._clock.at_s += LONG_S
            return []
        return self._turns.pop(0)


class Slow(FakeConsumer):
    """Takes its time with each message."""

    def __init__(self, clock: Clock, *messages: Message) -> None:
        super().__init__(*messages)
        self._clock = clock

    def consume(self, records_max: int, timeout_s: float) -> list[Message]:
        self._clock.at_s += SLOW_S
        return super().consume(records_max, timeout_s)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def settings(tmp_path: Any, clock: Clock) -> Settings:
    return replace(Settings.load(environment={}, home=tmp_path), machine=clock)


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> Callable[..., None]:
    """Has every reader read these values from offset 0 on."""

    def give(*values: bytes) -> None:
        monkeypatch.setattr(reading, "make_consumer", lambda *_, **__: Pausing(clock, *values))
        monkeypatch.setattr(reading, "know_topic", lambda *_, **__: None)
        monkeypatch.setattr(reading, "Hearing", lambda *_: SimpleNamespace(is_lost=lambda _: False))
        monkeypatch.setattr(results, "first_offsets", lambda *_: {0: 0})

    return give


def test_read_through_when_the_caller_takes_its_time_then_goes_on(
    settings: Settings, clock: Clock, given: Callable[..., None]
) -> None:
    given(b"a", b"b")
    found = []
    for _, value in reading.read_through(settings, TOPIC, {0: 0}, {0: 2}):
        found.append(value)
        clock.at_s += LONG_S
    assert found == [b"a", b"b"]


@pytest.mark.parametrize("last", [Message(offset=3, value=b"c"), Message(KafkaError._PARTITION_EOF, offset=4)])
def test_read_through_when_a_follower_says_that_it_ends_before_then_reads_on(
    settings: Settings, given: Callable[..., None], monkeypatch: pytest.MonkeyPatch, last: Message
) -> None:
    given()
    said = [Message(offset=0, value=b"a"), Message(KafkaError._PARTITION_EOF, offset=1), Message(offset=1, value=b"b")]
    monkeypatch.setattr(reading, "make_consumer", lambda *_, **__: FakeConsumer(*said, last))
    read = [value for _, value in reading.read_through(settings, TOPIC, {0: 0}, {0: 4})]
    assert read == ([b"a", b"b", b"c"] if last.value() else [b"a", b"b"])


def test_results_when_the_caller_takes_its_time_then_go_on(
    settings: Settings, clock: Clock, given: Callable[..., None]
) -> None:
    log = Written()
    log.take_over()
    log.decide(2)
    given(*log.records)
    seqs = []
    with results.ResultsReader(settings) as reader:
        for records in reader.read_to(len(log.records)):
            seqs += [record.seq for record in records]
            if records:
                clock.at_s += LONG_S
    assert seqs == [0, 1, 2]


def test_relay_when_it_takes_long_to_find_what_it_gave_last_then_looks_on(
    settings: Settings, clock: Clock, given: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    given()
    foreign = [Message(offset=at, value=b"x") for at in range(5)]
    monkeypatch.setattr(reading, "make_consumer", lambda *_, **__: Slow(clock, *foreign))
    monkeypatch.setattr(outward, "first_offsets", lambda *_: {0: 0})
    monkeypatch.setattr(outward, "committed_end", lambda *_: len(foreign))
    assert outward.last_at_border(settings, LOG_ID) is None


def test_last_values_when_many_partitions_come_slowly_then_are_all_read(
    settings: Settings, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = Slow(clock, *(Message(partition=at, value=b"%d" % at) for at in range(4)))
    monkeypatch.setattr(losses, "make_consumer", lambda *_, **__: slow)
    monkeypatch.setattr(losses, "first_offsets", lambda *_: dict.fromkeys(range(4), 0))
    monkeypatch.setattr(losses, "end_offsets", lambda *_: dict.fromkeys(range(4), 1))
    monkeypatch.setattr(losses, "assign", lambda *_: None)
    assert losses.last_values(settings, TOPIC, 4) == [b"0", b"1", b"2", b"3"]


def test_readers_when_nothing_comes_then_say_what_and_for_how_long(
    settings: Settings, given: Callable[..., None]
) -> None:
    given(b"a")
    with pytest.raises(LogUnavailableError, match=rf"after 10\.0 s: {TOPIC} cannot be read"):
        list(reading.read_through(settings, TOPIC, {0: 0}, {0: 2}))
    given()
    with results.ResultsReader(settings) as reader, pytest.raises(LogUnavailableError, match=r"60\.0 s: offset 9 of"):
        list(reader.read_to(9))
    with pytest.raises(LogUnavailableError, match=r"60\.0 s: offset 9 of"):
        list(results.read_range(settings, 2, 9))
