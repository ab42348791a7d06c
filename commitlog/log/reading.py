"""Reading partitions of a topic through outages: the one consumer that publishers, look-ups and followers use.

A broker that is away, restarts or freezes shows as silence: nothing comes, and then the next record. librdkafka connects
anew by itself; what it cannot judge is whether an offset is gone. After an outage it says so of offsets that are there, so
it is believed only when the partition itself begins later, or ends before.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from commitlog.config import Settings
from commitlog.errors import LogLossError, LogRefusedError, LogUnavailableError
from commitlog.log.connection import REQUEST_TIMEOUT_S, end_offsets, first_offsets, know_topic, make_consumer
from commitlog.log.deafness import DEAF, Hearing
from commitlog.log.triage import Consumed, consumed, in_words

_logger = logging.getLogger("commitlog.reading")

CHECK_TIMEOUT_S = 1.0
SILENT_S_MAX = 10.0
POLL_S = 0.5
READ_MAX = 1_000
WAIT_S_MIN = 0.001
"""librdkafka counts whole milliseconds: whoever waits for less does not wait, and would ask again until the time is over."""


class TopicReader:
    """Reads partitions of one topic, each from an offset on. For one thread.

    Args:
        settings: which log, and where.
        topic: the topic.
        starts: the first offset to read, by partition; more can be added.
        timeout_s: how long a broker may take to say who leads the topic's partitions.
        options: of librdkafka, with underscores.

    Raises:
        LogUnavailableError: no broker has answered.

    Attributes:
        next_offsets: by partition, the offset after the last record that was given out.
        ends: by partition, the end that was last seen.
    """

    def __init__(
        self,
        settings: Settings,
        topic: str,
        starts: Mapping[int, int] | None = None,
        *,
        timeout_s: float = REQUEST_TIMEOUT_S,
        **options: object,
    ) -> None:
        self._settings = settings
        self._topic = topic
        self._options = options
        self._consumer = self._make_consumer(timeout_s)
        self._hearing = Hearing(settings, topic)
        self._doubtful: dict[int, str] = {}
        self.next_offsets: dict[int, int] = {}
        self.ends: dict[int, int] = {}
        if starts:
            self.start(starts)

    def _make_consumer(self, timeout_s: float) -> Consumer:
        consumer = make_consumer(self._settings, enable_partition_eof=True, fetch_error_backoff_ms=50, **self._options)
        try:
            know_topic(self._settings, consumer, self._topic, timeout_s=timeout_s)
        except BaseException:
            consumer.close()
            raise
        return consumer

    def start(self, starts: Mapping[int, int]) -> None:
        """Read these partitions from these offsets, and no others."""
        self.next_offsets, self.ends, self._doubtful = dict(starts), {}, {}
        self._consumer.assign([TopicPartition(self._topic, partition, offset) for partition, offset in starts.items()])

    def add(self, partition: int, offset: int) -> None:
        """Read one partition more."""
        self.next_offsets[partition] = offset
        self._consumer.incremental_assign([TopicPartition(self._topic, partition, offset)])

    def move(self, partition: int, offset: int) -> None:
        """Go on with a partition at another offset."""
        self._doubtful.pop(partition, None)
        self.ends.pop(partition, None)
        self._consumer.incremental_unassign([TopicPartition(self._topic, partition)])
        self.add(partition, offset)

    def read(self, records_max: int, timeout_s: float) -> list[Message]:
        """The records that are there, or the first that comes within the timeout; none while no broker answers.

        Raises:
            TopicLossError: the next record of a partition is gone.
            LogRefusedError: Kafka does not let it be read.
        """
        if self._doubtful:
            self._look_again()
        taken: list[Message] = []
        for message in self._received(records_max, timeout_s):
            error, partition, offset = message.error(), message.partition(), message.offset()
            assert partition is not None
            if error is None:
                if offset is not None and offset >= self.next_offsets.get(partition, 0):
                    self.next_offsets[partition] = offset + 1
                    taken.append(message)
                continue
            match consumed(error, self._settings.bootstrap_servers, self._topic):
                case Consumed.END:
                    self.ends[partition] = max(self.ends.get(partition, 0), offset or 0)
                case Consumed.GONE:
                    self._doubtful[partition] = in_words(error)
                case Consumed.WAIT:
                    pass
        if not taken and self._hearing.is_lost(self._awaited()):
            self._hear_anew()
        return taken

    def _awaited(self) -> dict[int, int]:
        """By partition the next offset; behind what is given to nobody, where the consumer has said that it ends there."""
        return {at: max(offset, self.ends.get(at, 0)) for at, offset in self.next_offsets.items()}

    def _hear_anew(self) -> None:
        """Has another consumer go on; the one that hears nothing may take for ever to close."""
        deaf = self._consumer
        try:
            self._consumer = self._make_consumer(CHECK_TIMEOUT_S)
        except LogUnavailableError:
            return
        _logger.warning("%s: a consumer %s; another one goes on", self._topic, DEAF)
        self.start(self.next_offsets)
        self._settings.machine.thread(deaf.close, "commitlog-deaf")

    def is_through(self, partition: int, end: int) -> bool:
        """Whether all that lies before an offset was given out; the last of it may be what nobody is given.

        A follower, and a leader that has just become one, may say that a partition ends before.
        """
        return max(self.next_offsets[partition], self.ends.get(partition, 0)) >= end

    def close(self) -> None:
        """Ends reading."""
        self._consumer.close()

    def _received(self, records_max: int, timeout_s: float) -> list[Message]:
        try:
            return take(self._consumer, records_max, timeout_s)
        except KafkaException as error:
            consumed(error.args[0], self._settings.bootstrap_servers, self._topic)
            return []

    def _look_again(self) -> None:
        """Whether an offset that is said to be gone is; librdkafka has stopped reading the partition meanwhile."""
        partitions = [*self._doubtful]
        try:
            firsts = first_offsets(self._settings, self._topic, partitions, timeout_s=CHECK_TIMEOUT_S)
            ends = end_offsets(self._settings, self._topic, partitions, timeout_s=CHECK_TIMEOUT_S)
        except (LogUnavailableError, LogRefusedError):
            # A broker that is just starting knows of no leader: what is there is not known yet.
            return
        for partition in partitions:
            at, first, end = self.next_offsets[partition], firsts[partition], ends[partition]
            if not first <= at <= end:
                raise TopicLossError(self._topic, partition, at, first, end, self._doubtful[partition])
            self.move(partition, at)


class Patience:
    """How long a reader waits for a broker from which nothing comes; what its caller does with what came does not count.

    Args:
        settings: where Kafka is.
        silent_s_max: after so much silence it is given up.
        missed: what did not come, in words.
    """

    def __init__(self, settings: Settings, silent_s_max: float, missed: str) -> None:
        self._settings = settings
        self._silent_s_max = silent_s_max
        self._missed = missed
        self._since_s = settings.machine.now_s()

    def renew(self) -> None:
        """Something came, and was dealt with."""
        self._since_s = self._settings.machine.now_s()

    def check(self) -> None:
        """Nothing came; LogUnavailableError when that has lasted for too long."""
        if self._settings.machine.now_s() - self._since_s > self._silent_s_max:
            waited_ms = int(self._silent_s_max * 1000)
            raise LogUnavailableError(self._settings.bootstrap_servers, waited_ms=waited_ms, detail=self._missed)


def take(consumer: Consumer, records_max: int, timeout_s: float, *, wanted: int = 1) -> list[Message]:
    """What a consumer has, as soon as ``wanted`` are there, or the time is over; it waits for all that it is asked for."""
    messages = consumer.consume(wanted, max(timeout_s, WAIT_S_MIN) if timeout_s > 0 else 0)
    if messages and records_max > wanted:
        messages += consumer.consume(records_max - wanted, 0)
    return messages


class TopicLossError(LogLossError):
    """The next record of a partition is not there: the partition begins after it, or ends before it."""

    def __init__(self, topic: str, partition: int, offset: int, first: int, end: int, detail: str) -> None:
        self.partition = partition
        self.offset = offset
        self.first = first
        self.end = end
        super().__init__(
            f"{topic} partition {partition} has no offset {offset} any more, it holds {first} to {end - 1} ({detail})"
        )


def read_through(
    settings: Settings, topic: str, starts: Mapping[int, int], ends: Mapping[int, int], *, skips_trimmed: bool = False
) -> Iterator[tuple[int, bytes | None]]:
    """Every record of some partitions between two offsets, with its partition.

    Args:
        settings: where Kafka is.
        topic: the topic.
        starts: by partition the first offset.
        ends: by partition the offset after the last; where that is not behind the first, nothing is read.
        skips_trimmed: go on where a partition begins now, when its first records were deleted meanwhile.

    Raises:
        TopicLossError: some of them are gone.
        LogUnavailableError: nothing has come for long.
    """
    unread = {at for at, start in starts.items() if start < ends[at]}
    if not unread:
        return
    reader = TopicReader(settings, topic, {at: starts[at] for at in unread})
    patience = Patience(settings, SILENT_S_MAX, f"{topic} cannot be read")
    try:
        while unread:
            messages = _read_on(reader, skips_trimmed=skips_trimmed)
            if not messages:
                patience.check()
            for message in messages:
                partition, offset = message.partition(), message.offset()
                assert partition is not None
                assert offset is not None
                if offset < ends[partition]:
                    yield partition, message.value()
                patience.renew()
            unread = {at for at in unread if not reader.is_through(at, ends[at])}
    finally:
        reader.close()


def _read_on(reader: TopicReader, *, skips_trimmed: bool) -> list[Message]:
    try:
        return reader.read(READ_MAX, POLL_S)
    except TopicLossError as loss:
        if not skips_trimmed or loss.first <= loss.offset:
            raise
        reader.move(loss.partition, loss.first)
        return []
