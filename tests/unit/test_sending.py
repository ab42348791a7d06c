"""What becomes of a producer that can send no more: another one takes its place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError

from commitlog.config import Settings
from commitlog.domain.model import Genesis
from commitlog.errors import OutcomeUnknownError
from commitlog.log import publisher as publishing
from commitlog.log import sending
from commitlog.log.answers import Answers, PendingProposal
from commitlog.log.calling_back import CallingBack
from commitlog.log.publisher import Publisher
from commitlog.log.senders import Senders
from commitlog.log.sending import Sender
from commitlog.machine import Machine

TIMED_OUT = KafkaError(KafkaError._MSG_TIMED_OUT)


class FakeProducer:
    """Keeps what it is given until the test says what became of it."""

    def __init__(self) -> None:
        self.given: list[Callable[[KafkaError | None, Any], None]] = []

    def produce(self, topic: str, *, value: bytes, key: bytes, partition: int, on_delivery: Any) -> None:
        self.given.append(on_delivery)

    def poll(self, timeout: float) -> int:
        return 0

    def report(self, error: KafkaError | None) -> None:
        self.given.pop(0)(error, None)

    def __len__(self) -> int:
        return len(self.given)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[FakeProducer]:
    """The producers that were made, in order."""
    producers: list[FakeProducer] = []

    def make(*_: object, **__: object) -> FakeProducer:
        producers.append(FakeProducer())
        return producers[-1]

    monkeypatch.setattr(sending, "ready_producer", make)
    monkeypatch.setattr(sending, "check_may", lambda *_, **__: None)
    return producers


def test_send_when_records_were_not_delivered_in_time_then_by_another_producer(made: list[FakeProducer]) -> None:
    sender = Sender(Settings.load(environment={}), "t", proposal_bytes_max=1000, linger_ms=0)
    heard: list[KafkaError | None] = []

    def send() -> None:
        sender.send(b"v", b"k", 0, lambda error, _: heard.append(error), timeout_s=1)

    for _ in range(3):
        send()
    made[0].report(None)
    send()
    assert len(made) == 1
    made[0].report(TIMED_OUT)
    send()
    assert [len(each) for each in made] == [2, 1]
    # What the old one still says is no word of the new one.
    made[0].report(TIMED_OUT)
    send()
    assert [len(each) for each in made] == [1, 2]
    assert heard == [None, TIMED_OUT, TIMED_OUT]


def test_publisher_when_a_producer_says_nothing_of_what_it_keeps_then_another_one_sends(
    made: list[FakeProducer],
) -> None:
    machine = SimpleNamespace(now_s=lambda: 200.0, lock=lambda: None)
    answers = Answers(lambda _: False, lambda: None, cast(Machine, machine))
    old, young = (PendingProposal(answers, bytes([n]) * 16, 0, 1.0) for n in range(2))
    old._published_at, young._published_at = 69.0, 71.0
    sender = Sender(Settings.load(environment={}), "t", proposal_bytes_max=1000, linger_ms=0)
    publisher = object.__new__(Publisher)
    publisher._unsent, publisher._answers = {old: None, young: None}, answers
    publisher._senders = cast(Senders, SimpleNamespace(all=[sender]))
    publisher._delivery_timeout_s = 120.0
    publisher._give_up_overdue(200.0)
    assert list(publisher._unsent) == [young]
    assert old.done, "who waits is not told"
    with pytest.raises(OutcomeUnknownError):
        old.wait(0)
    assert not young.done
    sender.send(b"v", b"k", 0, lambda *_: None, timeout_s=1)
    assert [len(each) for each in made] == [0, 1]
    publisher._give_up_overdue(200.0)
    sender.send(b"v", b"k", 0, lambda *_: None, timeout_s=1)
    assert len(made) == 2


class InterruptedReader:
    """Reads partitions; the program is interrupted where the test says so, and what was assigned is then gone."""

    def __init__(self) -> None:
        self.at: dict[int, int] = {}
        self.interrupts = 0

    def add(self, partition: int, offset: int) -> None:
        self._may_be_interrupted()
        self.at[partition] = offset

    def move(self, partition: int, offset: int) -> None:
        del self.at[partition]
        self.add(partition, offset)

    def start(self, starts: Mapping[int, int]) -> None:
        self.at.clear()
        self._may_be_interrupted()
        self.at.update(starts)

    def read(self, records_max: int, timeout_s: float) -> list[Any]:
        self._may_be_interrupted()
        return []

    def _may_be_interrupted(self) -> None:
        if self.interrupts:
            self.interrupts -= 1
            raise KeyboardInterrupt


@pytest.mark.parametrize("is_new", [False, True])
def test_publisher_when_interrupted_while_it_begins_to_read_then_it_reads_all_partitions_later(
    monkeypatch: pytest.MonkeyPatch, is_new: bool
) -> None:
    reader = InterruptedReader()
    monkeypatch.setattr(publishing, "Senders", lambda *_, **__: SimpleNamespace(all=[], waits=lambda _: None))
    monkeypatch.setattr(publishing, "TopicReader", lambda *_, **__: reader)
    monkeypatch.setattr(publishing, "end_offset", lambda *_, **__: 5)
    monkeypatch.setattr(CallingBack, "begin", lambda *_: None)
    publisher = Publisher(Settings.load(environment={}), genesis=cast(Genesis, SimpleNamespace()))
    for partition in range(2):
        publisher._listen_to(partition, 1.0)
    if not is_new:
        publisher._read(0)
    reader.interrupts = 2
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            publisher._read(0)
    publisher._read(0)
    assert reader.at == {0: 5, 1: 5}
