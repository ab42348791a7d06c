"""What Kafka's errors mean to whoever reads: one answer, which every reader follows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from confluent_kafka import OFFSET_END, KafkaError, TopicPartition

from commitlog.config import Settings
from commitlog.domain.model import Position
from commitlog.errors import LogLossError, LogRefusedError
from commitlog.log import heartbeats, losses, proposals, reading
from commitlog.log.codec import Heartbeat, encode_heartbeat
from commitlog.log.serving import DoubtError
from commitlog.log.triage import Consumed, consumed

REFUSED = KafkaError.TOPIC_AUTHORIZATION_FAILED
BEAT = encode_heartbeat(Heartbeat(b"L" * 16, 3, b"A" * 16, 7, 5, False))


class Message:
    """What a consumer gives out: a record, or an error."""

    def __init__(self, code: int | None = None, *, partition: int = 0, offset: int = 0, value: bytes = b"") -> None:
        self._error = None if code is None else KafkaError(code)
        self._partition, self._offset, self._value = partition, offset, value

    def error(self) -> KafkaError | None:
        return self._error

    def partition(self) -> int:
        return self._partition

    def offset(self) -> int:
        return self._offset

    def key(self) -> None:
        return None

    def value(self) -> bytes:
        return self._value

    def headers(self) -> None:
        return None


class FakeConsumer:
    """Gives out what it is given, a message at a time."""

    def __init__(self, *messages: Message) -> None:
        self._messages = [*messages]
        self.assigned: list[int] = []

    def consume(self, records_max: int, timeout_s: float) -> list[Message]:
        return [self._messages.pop(0)] if self._messages else []

    def assign(self, starts: Sequence[TopicPartition]) -> None:
        self.assigned += [each.offset for each in starts]

    def close(self) -> None: ...


@pytest.fixture
def settings(tmp_path: Any) -> Settings:
    return Settings.load(environment={}, home=tmp_path)


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Has every reader read from a consumer that gives out these messages."""

    def give(*messages: Message) -> FakeConsumer:
        consumer = FakeConsumer(*messages)
        for module in (heartbeats, losses, proposals, reading):
            monkeypatch.setattr(module, "make_consumer", lambda *_, **__: consumer)
            for name, answer in {
                "end_offset": 7,
                "know_topic": None,
                "end_offsets": {0: 8},
                "first_offsets": {0: 0},
            }.items():
                monkeypatch.setattr(module, name, lambda *_, answer=answer, **__: answer, raising=False)
            monkeypatch.setattr(
                module, "assign", lambda settings, consumer, starts: consumer.assign(starts), raising=False
            )
        return consumer

    return give


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (None, Consumed.RECORD),
        (KafkaError._PARTITION_EOF, Consumed.END),
        (KafkaError.OFFSET_OUT_OF_RANGE, Consumed.GONE),
        (KafkaError._AUTO_OFFSET_RESET, Consumed.GONE),
        (KafkaError._TRANSPORT, Consumed.WAIT),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, Consumed.WAIT),
        (KafkaError.NOT_LEADER_FOR_PARTITION, Consumed.WAIT),
    ],
)
def test_consumed_when_a_message_comes_then_says_what_it_is(code: int | None, kind: Consumed) -> None:
    assert consumed(Message(code).error(), "here:1", "main.results") is kind


def test_consumed_when_kafka_refuses_then_names_the_topic() -> None:
    with pytest.raises(LogRefusedError, match=r"main\.results: "):
        consumed(KafkaError(REFUSED), "here:1", "main.results")


def test_every_reader_when_kafka_refuses_then_says_so_at_once(settings: Settings, given: Any) -> None:
    given(Message(REFUSED))
    with pytest.raises(LogRefusedError):
        heartbeats.HeartbeatListener(settings).listen()
    given(Message(REFUSED))
    with pytest.raises(LogRefusedError):
        losses.last_told(settings, b"L" * 16, 1)
    given(Message(REFUSED))
    with pytest.raises(LogRefusedError):
        list(proposals.read_proposals(settings, [Position(0, 5)]))
    given(Message(REFUSED))
    with pytest.raises(LogRefusedError):
        proposals.ProposalSource(settings, {0: 5}).poll(1, 0)


def test_proposals_when_there_is_an_outage_or_a_loss_then_waits_or_says_so(settings: Settings, given: Any) -> None:
    given(Message(KafkaError._TRANSPORT), Message(offset=5, value=b"x"))
    assert [each.value for each in proposals.read_proposals(settings, [Position(0, 5)])] == [b"x"]
    given(Message(KafkaError.OFFSET_OUT_OF_RANGE))
    with pytest.raises(LogLossError):
        list(proposals.read_proposals(settings, [Position(0, 5)]))
    given(Message(KafkaError.OFFSET_OUT_OF_RANGE))
    with pytest.raises(DoubtError):
        proposals.ProposalSource(settings, {0: 5}).poll(1, 0)


class ConsumerOfBatches(FakeConsumer):
    """Reads a partition of eight records in batches. Of those that cannot be unpacked it says where they begin, again and
    again, wherever in them it is to read from."""

    batches = ((0, 3, True), (3, 6, False), (6, 7, False), (7, 8, True))

    def consume(self, records_max: int, timeout_s: float) -> list[Message]:
        at = self.assigned[-1]
        for first, end, is_well in self.batches:
            if first <= at < end:
                if not is_well:
                    return [Message(KafkaError._BAD_COMPRESSION, offset=first)] * records_max
                self.assigned[-1] += 1
                return [Message(offset=at, value=b"x")]
        return [Message(KafkaError._PARTITION_EOF, offset=at)]

    def incremental_unassign(self, left: Sequence[TopicPartition]) -> None:
        self.assigned.pop()

    incremental_assign = FakeConsumer.assign


def test_proposals_when_a_batch_cannot_be_unpacked_then_one_record_of_no_bytes_has_its_place(
    settings: Settings, given: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever may propose can send one that unpacks to more than any reader takes."""
    given()
    monkeypatch.setattr(proposals, "make_consumer", lambda *_, **__: ConsumerOfBatches())
    source = proposals.ProposalSource(settings, {0: 0})
    polled = [source.poll(3, 0) for _ in range(6)]
    found = [(each.offset, each.value) for incoming in polled for each in incoming]
    assert found == [(0, b"x"), (1, b"x"), (2, b"x"), (5, b""), (6, b""), (7, b"x")]
    assert [each.value for each in proposals.read_proposals(settings, [Position(0, 5), Position(0, 7)])] == [b"", b"x"]


class ConsumerOfPartitions(FakeConsumer):
    """Gives out the records of partitions that have all offsets, from where it was told to read."""

    def __init__(self) -> None:
        super().__init__()
        self.places: list[Position] = []

    def assign(self, starts: Sequence[TopicPartition]) -> None:
        [start] = starts
        self.places.append(Position(start.partition, start.offset))
        self._at = self.places[-1]

    def consume(self, records_max: int, timeout_s: float) -> list[Message]:
        (partition, offset), self._at = self._at, Position(self._at.partition, self._at.offset + 1)
        return [Message(partition=partition, offset=offset, value=b"%d-%d" % (partition, offset))]


def test_proposals_when_many_were_decided_then_they_are_read_on_and_not_begun_with_anew_for_each(
    settings: Settings, given: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    given()
    consumer = ConsumerOfPartitions()
    monkeypatch.setattr(proposals, "make_consumer", lambda *_, **__: consumer)
    asked = [Position(1, 4), *(Position(0, each) for each in range(1_000, 0, -3)), Position(0, 9_000), Position(1, 3)]
    found = proposals.read_proposals(settings, asked)
    assert [(each.partition, each.offset, each.value) for each in found] == [
        (*each, b"%d-%d" % (each.partition, each.offset)) for each in sorted(asked)
    ]
    assert consumer.places == [Position(0, 1), Position(0, 9_000), Position(1, 3)]


def test_heartbeats_when_the_listener_paused_for_longer_than_they_are_kept_then_hears_the_next(
    settings: Settings, given: Any
) -> None:
    consumer = given(Message(KafkaError._AUTO_OFFSET_RESET), Message(offset=90, value=BEAT))
    listener = heartbeats.HeartbeatListener(settings)
    listener.listen()
    assert consumer.assigned == [7, OFFSET_END]
    listener.listen()
    heard = listener.heard.newest(b"L" * 16)
    assert heard is not None
    assert heard.epoch == 3
