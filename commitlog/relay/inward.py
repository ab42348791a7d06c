"""Proposals from the border into the log, and its receipts back: each at least once, which is once to a log that knows ids.

What was read counts as done when the broker has what was made of it. Whoever dies before is followed by one that does it again,
and the log answers a repeat as it did first.
"""

from __future__ import annotations

import logging
import threading
from contextlib import suppress

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from commitlog.config import Settings
from commitlog.domain.model import Genesis
from commitlog.domain.model.ids import partition_for
from commitlog.errors import LogIntegrityError, LogRefusedError, LogUnavailableError, MalformedRecordError
from commitlog.log.codec import readable_ids
from commitlog.log.codec.confluent import framed, proposal_in
from commitlog.log.connection import FRAME_BYTES, batch_bytes, know_topic, make_consumer, ready_producer
from commitlog.log.genesis import require_genesis
from commitlog.log.proposals import cannot_be_unpacked, end_of_batch
from commitlog.log.reading import take
from commitlog.log.receipts import receipts_in
from commitlog.log.reports import WITHOUT_OFFSET, offset_of
from commitlog.log.topics import BorderTopics, relay_of, topics_of
from commitlog.log.triage import Consumed, Triage, consumed, in_words, triage
from commitlog.relay.progress import RelayProgress
from commitlog.relay.registry import Registry
from commitlog.relay.turn import SILENT_MS_MAX

MESSAGES_MAX = 1_000
POLL_S = 0.2
DELIVERY_TIMEOUT_S = 60.0
_logger = logging.getLogger("commitlog.relay")


class Inward:
    """Takes what comes to the border to the log, and the log's receipts to the border.

    Args:
        settings: which log, and where.
        genesis: the log's own.
        border: the topics at the border.
        registry: says what the ids of schemas mean.
        progress: is added to.
        receipts_id: the id of the schema of receipts.
    """

    def __init__(
        self,
        settings: Settings,
        genesis: Genesis,
        border: BorderTopics,
        registry: Registry,
        progress: RelayProgress,
        *,
        receipts_id: int,
    ) -> None:
        self._settings = settings
        self._genesis = genesis
        self._topics, self._border = topics_of(settings.log), border
        self._registry = registry
        self._progress = progress
        self._receipts_id = receipts_id
        self._former: set[bytes] = set()
        self._failure: KafkaError | None = None

    def run(self, stop: threading.Event) -> None:
        """Do so until it is told to stop.

        Raises:
            LogUnavailableError: a broker did not take what was sent, or not in time.
            LogRefusedError: Kafka does not let a topic be read or written.
            RegistryUnavailableError: the registry does not answer.
            LogIntegrityError: a receipt is of a newer version, or another log has taken this one's place.
        """
        producer = ready_producer(
            self._settings,
            batch_size=batch_bytes(self._genesis.settings.proposal_bytes_max + FRAME_BYTES),
            delivery_timeout_ms=int(DELIVERY_TIMEOUT_S * 1000),
            linger_ms=0,
        )
        consumer = make_consumer(
            self._settings,
            group_id=relay_of(self._settings.log),
            auto_offset_reset="earliest",
            fetch_wait_max_ms=100,
            session_timeout_ms=SILENT_MS_MAX,
        )
        try:
            know_topic(self._settings, consumer, self._border.proposals)
            consumer.subscribe([self._border.proposals, self._topics.receipts])
            while not stop.is_set():
                self._take_over(consumer, producer)
        finally:
            # Whoever leaves without a word keeps its partitions until its session is over.
            consumer.close()

    def _take_over(self, consumer: Consumer, producer: Producer) -> None:
        """Take what has come to the other side, and say that this is done."""
        taken = take(consumer, MESSAGES_MAX, POLL_S)
        stuck = {each.partition(): each for each in taken if cannot_be_unpacked(each.error())}
        messages = [each for each in taken if not cannot_be_unpacked(each.error()) and self._is_record(each)]
        for message in stuck.values():
            self._pass_over(consumer, message)
        if not messages:
            return
        for message in messages:
            if message.topic() == self._topics.receipts:
                self._give_receipts(producer, message)
            else:
                self._give_proposal(producer, message)
        self._wait_until_taken(producer)
        # One that was not taken note of is done again.
        with suppress(KafkaException):
            consumer.commit(offsets=_ends_of(messages), asynchronous=False)

    def _pass_over(self, consumer: Consumer, message: Message) -> None:
        """Go on behind a batch that nobody can read: what it holds has no sender that could be told."""
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        assert topic is not None
        assert partition is not None
        assert offset is not None
        end = end_of_batch(self._settings, topic, partition, offset)
        _logger.warning("%s: records %d to %d of partition %d cannot be unpacked", topic, offset, end - 1, partition)
        consumer.seek(TopicPartition(topic, partition, end))

    def _is_record(self, message: Message) -> bool:
        return consumed(message.error(), self._settings.bootstrap_servers, self._border.proposals) is Consumed.RECORD

    def _give_receipts(self, producer: Producer, message: Message) -> None:
        receipts = receipts_in(message)
        if receipts is not None and self._is_of_this_log(receipts.log_id):
            value = framed(message.value() or b"", self._receipts_id)
            self._send(producer, self._border.receipts, message, value, message.partition())

    def _is_of_this_log(self, log_id: bytes) -> bool:
        """Whether receipts are this log's. Those of one that had its name before may lie among them as long as they are kept.

        Raises:
            LogIntegrityError: another log has its name by now.
        """
        if log_id == self._genesis.log_id:
            return True
        if log_id not in self._former:
            if require_genesis(self._settings).log_id != self._genesis.log_id:
                raise LogIntegrityError(f"{self._topics.receipts} holds receipts of another log")
            self._former.add(log_id)
        return False

    def _give_proposal(self, producer: Producer, message: Message) -> None:
        try:
            value = proposal_in(message.value(), self._registry.schema_of)
        except MalformedRecordError as error:
            self._set_aside(producer, message, str(error))
            return
        _, writer_id = readable_ids(value)
        key = message.key() if writer_id is None else writer_id.encode("utf-8")
        partition = partition_for(writer_id or "", self._genesis.partitions)
        self._send(producer, self._topics.proposals, message, value, partition, key=key)

    def _send(
        self,
        producer: Producer,
        topic: str,
        message: Message,
        value: bytes,
        partition: int | None,
        *,
        key: bytes | None = None,
    ) -> None:
        def told(error: KafkaError | None, written: Message) -> None:
            if error is not None and triage(error) is Triage.TOO_LARGE and topic == self._topics.proposals:
                self._set_aside(producer, message, f"{len(value):,} bytes are more than the log takes")
            elif self._has_failed(error, written):
                return
            elif topic == self._topics.proposals:
                self._progress.proposals += 1
            else:
                self._progress.receipts += 1

        producer.produce(
            topic,
            value=value,
            key=message.key() if key is None else key,
            partition=-1 if partition is None else partition,
            on_delivery=told,
            headers=message.headers() or [],
        )

    def _set_aside(self, producer: Producer, message: Message, why: str) -> None:
        """Keep as it came what is no proposal, with the reason, in headers that Kafka Connect gives its own dead letters."""
        place = f"{message.topic()}-{message.partition()}@{message.offset()}"
        _logger.warning("%s is not a proposal; it is kept in %s: %s", place, self._border.dead_letters, why)
        headers = {
            "__connect.errors.topic": message.topic() or "",
            "__connect.errors.partition": str(message.partition()),
            "__connect.errors.offset": str(message.offset()),
            "__connect.errors.exception.message": why,
        }
        producer.produce(
            self._border.dead_letters,
            value=message.value(),
            key=message.key(),
            headers=[*(message.headers() or ()), *headers.items()],
            on_delivery=self._told_of_dead_letter,
        )

    def _told_of_dead_letter(self, error: KafkaError | None, written: Message) -> None:
        if not self._has_failed(error, written):
            self._progress.dead_letters += 1

    def _has_failed(self, error: KafkaError | None, written: Message) -> bool:
        """Whether a record may not be there: what the client only supposes to be is sent again."""
        if error is None and offset_of(written) is None:
            error = KafkaError(KafkaError._RETRY, WITHOUT_OFFSET)
        self._failure = error or self._failure
        return error is not None

    def _wait_until_taken(self, producer: Producer) -> None:
        """Until the broker has all that was sent; what it had not in time is read and sent again."""
        left = producer.flush(DELIVERY_TIMEOUT_S)
        failure, self._failure = self._failure, None
        if failure is not None and triage(failure) is Triage.REFUSED:
            raise LogRefusedError(self._settings.bootstrap_servers, failure.name(), detail=failure.str())
        if left or failure is not None:
            detail = f"{left} records wait" if failure is None else in_words(failure)
            raise LogUnavailableError(
                self._settings.bootstrap_servers,
                met="has not taken all that was sent",
                detail=detail,
                advice="The relay sends it again when it starts",
            )


def _ends_of(messages: list[Message]) -> list[TopicPartition]:
    """By partition the offset after the last of some messages."""
    ends = {(each.topic(), each.partition()): each.offset() for each in messages}
    return [TopicPartition(topic, partition, offset + 1) for (topic, partition), offset in ends.items()]  # type: ignore
