"""The proposals topic as the sequencer reads it: from positions that the outcomes say, never from a consumer group."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from commitlog.config import Settings
from commitlog.domain.model import Position
from commitlog.errors import LogLossError
from commitlog.log.batches import Incoming
from commitlog.log.connection import assign, end_offsets, make_consumer
from commitlog.log.deafness import DEAF, Hearing
from commitlog.log.reading import Patience, take
from commitlog.log.replies import reply_to_in
from commitlog.log.serving import DoubtError
from commitlog.log.topics import topics_of
from commitlog.log.triage import Consumed, consumed, in_words
from commitlog.log.undecided import has_proposal

_logger = logging.getLogger("commitlog.sequencer")

READ_TIMEOUT_S = 30.0
READ_ON_MAX = 30
POLL_S = 0.5

FETCH_WAIT_MS = 100
"""How long the broker keeps a request to which it has nothing to answer yet. The first one may go out before the client
knows of all partitions, and the others wait for it: writers of theirs wait so much longer after a takeover. Nor is a
partition asked for meanwhile of which enough was fetched."""
AHEAD_RECORDS = 4_000
AHEAD_BYTES = 256 * 1024
"""So much is fetched of each partition before it is decided, and a request more: what another partition's writer proposes comes
after it. Less would be decided before the next request is answered."""
AHEAD_LOOK_MS = 10
"""How soon it is looked again whether so much is still there."""


def make_proposals_consumer(settings: Settings) -> Consumer:
    """What a sequencer reads proposals by."""
    return make_consumer(
        settings,
        queued_min_messages=AHEAD_RECORDS,
        fetch_message_max_bytes=AHEAD_BYTES,
        fetch_queue_backoff_ms=AHEAD_LOOK_MS,
        fetch_wait_max_ms=FETCH_WAIT_MS,
    )


class ProposalSource:
    """Proposals in the order of each partition; librdkafka fetches ahead by itself.

    Args:
        settings: which log, and where.
        starts: the next offset to decide, by partition.
        on_message: told of each message that is given out.
    """

    def __init__(
        self, settings: Settings, starts: Mapping[int, int], *, on_message: Callable[[Message], None] | None = None
    ) -> None:
        self._settings = settings
        self._on_message = on_message
        self._next = dict(starts)
        self._without_proposals: dict[int, int] = {}
        self._consumer = make_proposals_consumer(settings)
        topic = self._topic = topics_of(settings.log).proposals
        assign(settings, self._consumer, [TopicPartition(topic, number, offset) for number, offset in starts.items()])
        self._hearing = Hearing(settings, topic)

    def poll(self, records_max: int, timeout_s: float, *, wanted: int = 1) -> list[Incoming]:
        """What is there, as soon as ``wanted`` are, or the time is over.

        Raises:
            DoubtError: an offset is not what was expected, or what is there is not given out.
            LogRefusedError: Kafka does not let the topic be read.
        """
        incoming: list[Incoming] = []
        for message in take(self._consumer, records_max, timeout_s, wanted=wanted):
            error = message.error()
            if error is None:
                incoming.append(self._incoming(message))
            elif cannot_be_unpacked(error):
                incoming += self._passed_over(message)
            else:
                self._heed(error)
        if not incoming and self._hearing.is_lost({**self._next, **self._without_proposals}):
            self._check_heard()
        return incoming

    def close(self) -> None:
        """Ends reading."""
        self._consumer.close()

    def _check_heard(self) -> None:
        """See that nothing was missed. What ends somebody's Kafka transaction has an offset, and is given to nobody: it is
        looked for once.

        Raises:
            DoubtError: something was.
        """
        ends = end_offsets(self._settings, self._topic, self._next)
        if has_proposal(self._settings, self._next, ends) or any(ends[at] < self._next[at] for at in ends):
            raise DoubtError(f"the consumer of proposals {DEAF}")
        self._without_proposals = ends

    def _incoming(self, message: Message) -> Incoming:
        partition, offset = message.partition(), message.offset()
        assert partition is not None
        assert offset is not None
        if offset < self._next[partition]:
            raise DoubtError(f"proposal {Position(partition, offset)} came again")
        self._next[partition] = offset + 1
        self._without_proposals.pop(partition, None)
        if self._on_message is not None:
            self._on_message(message)
        return Incoming(partition, offset, message.key(), message.value(), reply_to_in(message.headers()))

    def _passed_over(self, message: Message) -> list[Incoming]:
        """One record, of no bytes, in the place of those of a batch: whoever may propose can send one that unpacks to more than
        anybody takes, and nobody could read on behind it. A consumer says so again and again."""
        partition, offset = message.partition(), message.offset()
        assert partition is not None
        assert offset is not None
        if offset < self._next[partition]:
            return []
        end = end_of_batch(self._settings, self._topic, partition, offset)
        _logger.warning("proposals %d to %d of partition %d cannot be unpacked", offset, end - 1, partition)
        self._next[partition] = end
        self._without_proposals.pop(partition, None)
        self._consumer.incremental_unassign([TopicPartition(self._topic, partition)])
        self._consumer.incremental_assign([TopicPartition(self._topic, partition, end)])
        return [Incoming(partition, end - 1, None, b"")]

    def _heed(self, error: KafkaError) -> None:
        """Outages pass; an offset that is gone does not."""
        if consumed(error, self._settings.bootstrap_servers, self._topic) is Consumed.GONE:
            # Loading again looks where the partition begins and ends, and says so if it is a loss.
            raise DoubtError(f"the next proposal is not there: {in_words(error)}")


def read_proposals(settings: Settings, positions: Sequence[Position]) -> Iterator[Incoming]:
    """Messages that were decided already, in the order of where they are.

    Raises:
        LogLossError: one is gone.
        LogRefusedError: Kafka does not let them be read.
        LogUnavailableError: no broker has answered for long.
    """
    topic = topics_of(settings.log).proposals
    consumer = make_consumer(settings, fetch_wait_max_ms=10)
    try:
        next_position: Position | None = None
        for position in sorted(positions):
            # To begin anew costs as much as to read hundreds of small ones.
            if next_position is None or not next_position <= position <= _further(next_position, READ_ON_MAX):
                assign(settings, consumer, [TopicPartition(topic, position.partition, position.offset)])
            incoming = _read_one(settings, consumer, topic, position)
            next_position = _further(position, 1) if incoming.value else None
            yield incoming
    finally:
        consumer.close()


def _further(position: Position, count: int) -> Position:
    return Position(position.partition, position.offset + count)


def end_of_batch(settings: Settings, topic: str, partition: int, offset: int) -> int:
    """Where a batch ends that begins at an offset and cannot be unpacked: from within it, too, one is told of its beginning.

    Raises:
        LogRefusedError: Kafka does not let it be read.
        LogUnavailableError: no broker has answered for long.
    """
    within, end = offset, end_offsets(settings, topic, [partition])[partition]
    consumer = make_consumer(settings, fetch_wait_max_ms=10, enable_partition_eof=True)
    try:
        while end - within > 1:
            middle = (within + end) // 2
            assign(settings, consumer, [TopicPartition(topic, partition, middle)])
            first = _first_heard(settings, consumer, topic, Position(partition, middle))
            if cannot_be_unpacked(first.error()) and first.offset() == offset:
                within = middle
            else:
                end = middle
    finally:
        consumer.close()
    return end


def _first_heard(settings: Settings, consumer: Consumer, topic: str, position: Position) -> Message:
    patience = Patience(settings, READ_TIMEOUT_S, f"proposal {position} cannot be read")
    while True:
        for message in consumer.consume(1, POLL_S):
            error = message.error()
            if cannot_be_unpacked(error) or consumed(error, settings.bootstrap_servers, topic) is not Consumed.WAIT:
                return message
        patience.check()


def cannot_be_unpacked(error: KafkaError | None) -> bool:
    """Whether a consumer says so of the batch that it should give out next."""
    return error is not None and error.code() == KafkaError._BAD_COMPRESSION


def _read_one(settings: Settings, consumer: Consumer, topic: str, position: Position) -> Incoming:
    first = _first_heard(settings, consumer, topic, position)
    while first.error() is None and (first.offset() or 0) < position.offset:
        first = _first_heard(settings, consumer, topic, position)
    error = first.error()
    if cannot_be_unpacked(error):
        return Incoming(position.partition, position.offset, None, b"")
    if error is not None or first.offset() != position.offset:
        raise LogLossError(f"proposal {position} is gone before it was told what became of it")
    return Incoming(position.partition, position.offset, first.key(), first.value())
