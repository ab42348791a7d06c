"""Publishing from the client's side: a proposal goes out, its receipt comes back.

Where the receipts start is fixed before a proposal is sent, so that an answer cannot be missed. Whoever waits for one reads
the receipts of all proposals on their way (`answers`); while nobody waits, a thread of the publisher's own looks now and then.

A publisher outlives every outage: who publishes meanwhile is told so after their own timeout, nobody else notices. Only a
log that has become another one ends it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from functools import partial
from queue import SimpleQueue
from types import TracebackType

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from commitlog.config import Settings
from commitlog.domain.model import Genesis, Proposal, ProposalId, Receipt
from commitlog.domain.model.ids import partition_for
from commitlog.errors import (
    CommitLogError,
    LogIntegrityError,
    LogRefusedError,
    LogUnavailableError,
    MalformedRecordError,
    ProposalTooLargeError,
)
from commitlog.log.answers import Answers, PendingProposal
from commitlog.log.codec import decode_receipts, encode_proposal
from commitlog.log.connection import (
    BATCH_BYTES_MAX,
    FRAME_BYTES,
    MESSAGE_BYTES_MAX,
    REQUEST_TIMEOUT_S,
    answered,
    end_offset,
    make_admin,
    make_producer,
)
from commitlog.log.genesis import require_genesis
from commitlog.log.reading import TopicLossError, TopicReader
from commitlog.log.topics import topics_of
from commitlog.log.triage import Triage, triage

_logger = logging.getLogger("commitlog.publisher")

POLL_S = 0.05
IDLE_S = 0.2
UNHEARD_MAX = 100
LISTEN_S_MIN = 2.0
LISTEN_S_MAX = 30.0
FETCH_WAIT_MS = 250
"""A partition more is read when the fetch that is on its way has come back."""


class Publisher:
    """Sends proposals to a log. Thread-safe; keep one for the life of the process.

    Args:
        settings: which log, and where.

    Raises:
        ConfigurationError: there is no such log.
        LogUnavailableError: no broker has answered.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._topics = topics_of(settings.log)
        self.genesis: Genesis = require_genesis(settings)
        self._producer = self._make_producer()
        self._reader = TopicReader(settings, self._topics.receipts, fetch_wait_max_ms=FETCH_WAIT_MS)
        self._lock = threading.Lock()
        # The consumer belongs to the one who reads; a call from another thread would wait for it to be idle.
        self._to_read: SimpleQueue[tuple[int, int]] = SimpleQueue()
        self._listening: set[int] = set()
        self._heard_to: dict[int, int] = {}
        self._is_interrupted = False
        self._deliveries_heard_at = 0.0
        self._unsent: Counter[ProposalId] = Counter()
        self._called = threading.Event()
        self._answers = Answers(self._read, self._called.set)
        self._is_closing = False
        self._replacing = threading.Lock()
        self._retired: list[Producer] = []
        self._thread = threading.Thread(target=self._look_now_and_then, name="commitlog-receipts", daemon=True)
        self._thread.start()

    def _make_producer(self) -> Producer:
        producer = make_producer(
            self._settings,
            message_max_bytes=MESSAGE_BYTES_MAX,
            batch_size=min(BATCH_BYTES_MAX, self.genesis.settings.proposal_bytes_max + FRAME_BYTES // 2),
            linger_ms=0,
            retry_backoff_ms=5,
            # Beyond it the broker forgets who sent what, and an answer is no longer to be hoped for.
            delivery_timeout_ms=120_000,
        )
        # A producer without metadata waits half a second for its first idempotent batch.
        answered(self._settings, lambda: producer.list_topics(self._topics.proposals, timeout=REQUEST_TIMEOUT_S))
        return producer

    def publish(self, proposal: Proposal, *, timeout_s: float | None = None) -> PendingProposal:
        """Sends a proposal and returns at once, but for the first one of a partition.

        Args:
            proposal: what to send.
            timeout_s: how long a broker may take to say where the receipts begin, but two seconds at least; None is
                `receipts_timeout_ms`.

        Raises:
            MalformedRecordError: a record cannot hold it.
            ProposalTooLargeError: it is over the limit that the log was created with, and its topic's.
            LogUnavailableError: no broker has answered, or too much is waiting to be sent; nothing was sent.
        """
        return self.publish_bytes(
            encode_proposal(proposal), proposal.proposal_id, proposal.writer_id, timeout_s=timeout_s
        )

    def publish_bytes(
        self, encoded: bytes, proposal_id: ProposalId, writer_id: str, *, timeout_s: float | None = None
    ) -> PendingProposal:
        """Sends a proposal that is encoded already; see `publish`."""
        partition = partition_for(writer_id, self.genesis.partitions)
        default_timeout_s = self._settings.receipts_timeout_ms / 1000
        pending = PendingProposal(self._answers, proposal_id, partition, default_timeout_s)
        self._answers.expect(pending)
        try:
            if partition not in self._listening:
                self._listen_to(partition, default_timeout_s if timeout_s is None else timeout_s)
            self._send(pending, encoded, writer_id.encode("utf-8"))
        except BaseException:
            self._answers.forget(pending)
            raise
        return pending

    def submit(self, proposal: Proposal, *, timeout_s: float | None = None) -> Receipt:
        """Sends a proposal and waits for its receipt, both within the timeout; see `publish` and `PendingProposal.wait`."""
        started = time.monotonic()
        given_s = self._settings.receipts_timeout_ms / 1000 if timeout_s is None else timeout_s
        pending = self.publish(proposal, timeout_s=given_s)
        try:
            return pending.wait(max(0, given_s - (time.monotonic() - started)))
        finally:
            self._answers.forget(pending)

    def is_sending(self, proposal_id: ProposalId) -> bool:
        """Whether a proposal with this id may still come to the log from here."""
        self._hear_deliveries()
        return self._unsent[proposal_id] > 0

    def close(self) -> None:
        """Waits until everything is sent, not until it is answered."""
        self._producer.flush(self._settings.receipts_timeout_ms / 1000)
        self._is_closing = True
        self._called.set()
        self._thread.join()
        self._answers.end(LogUnavailableError(self._settings.bootstrap_servers, detail="the publisher was closed"))
        self._answers.stop_reading()
        self._reader.close()
        # Its threads and connections end with it, whoever still holds the publisher.
        self._producer.purge()
        self._producer.poll(0)
        self._retired.clear()
        del self._producer

    def __enter__(self) -> Publisher:
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    # --- sending ------------------------------------------------------------------------------------------------------

    def _listen_to(self, partition: int, timeout_s: float) -> None:
        """Returns when nothing that is answered from now on can be missed."""
        admin, timeout_s = make_admin(self._settings), max(LISTEN_S_MIN, min(timeout_s, LISTEN_S_MAX))
        end = end_offset(self._settings, admin, self._topics.receipts, partition, timeout_s=timeout_s)
        with self._lock:
            if partition not in self._listening:
                self._listening.add(partition)
                self._to_read.put((partition, end))

    def _send(self, pending: PendingProposal, encoded: bytes, key: bytes) -> None:
        with self._lock:
            self._unsent[pending.proposal_id] += 1
        try:
            self._produce(pending, encoded, key)
        except BaseException:
            self._sent(pending.proposal_id)
            raise
        if len(self._unsent) > UNHEARD_MAX:
            self._hear_deliveries()

    def _produce(self, pending: PendingProposal, encoded: bytes, key: bytes) -> None:
        def send(producer: Producer) -> None:
            producer.produce(
                self._topics.proposals,
                value=encoded,
                key=key,
                partition=pending.partition,
                on_delivery=partial(self._delivered, pending),
            )

        producer = self._producer
        try:
            try:
                send(producer)
            except KafkaException as error:
                if not error.args[0].fatal() and error.args[0].code() != KafkaError._FATAL:
                    raise
                send(self._replaced(producer))
        except KafkaException as error:
            raise self._not_sent(error.args[0], len(encoded)) from None
        except BufferError:
            detail = "too many proposals are waiting to be sent"
            raise LogUnavailableError(self._settings.bootstrap_servers, detail=detail) from None

    def _replaced(self, broken: Producer) -> Producer:
        """A producer in the place of one that can send no more: the broker has forgotten what it knew of it."""
        with self._replacing:
            if self._producer is broken:
                self._producer = self._make_producer()
                self._retired.append(broken)
            return self._producer

    def _not_sent(self, error: KafkaError, size_bytes: int) -> CommitLogError:
        match triage(error):
            case Triage.TOO_LARGE:
                return ProposalTooLargeError(size_bytes, self.genesis.settings.proposal_bytes_max)
            case Triage.REFUSED:
                return LogRefusedError(self._settings.bootstrap_servers, error.name(), detail=error.str())
            case _:
                return LogUnavailableError(self._settings.bootstrap_servers, detail=error.str())

    def _sent(self, proposal_id: ProposalId) -> None:
        with self._lock:
            self._unsent[proposal_id] -= 1
            if not self._unsent[proposal_id]:
                del self._unsent[proposal_id]

    def _delivered(self, pending: PendingProposal, error: KafkaError | None, message: Message) -> None:
        self._sent(pending.proposal_id)
        if error is None:
            offset = message.offset()
            assert offset is not None
            self._answers.place(pending, offset)
        elif triage(error) is Triage.TOO_LARGE:
            size = len(message.value() or b"")
            self._answers.fail(pending, ProposalTooLargeError(size, self.genesis.settings.proposal_bytes_max))
        else:
            # It may have been written before the connection broke.
            self._answers.fail(pending, pending.unknown())

    # --- receiving ----------------------------------------------------------------------------------------------------

    def _look_now_and_then(self) -> None:
        """What comes for nobody is not to pile up, and whoever is called back waits for nothing himself."""
        while not self._is_closing:
            self._called.wait(IDLE_S)
            self._called.clear()
            self._answers.read_for_others(POLL_S)

    def _read(self, timeout_s: float) -> bool:
        """Reads once, for whoever it is."""
        try:
            return self._read_some(min(timeout_s, POLL_S))
        except CommitLogError as error:
            self._answers.end(error)
        except Exception as error:
            _logger.exception("receipts cannot be read")
            self._answers.end(LogUnavailableError(self._settings.bootstrap_servers, detail=repr(error)))
        except BaseException:
            self._is_interrupted = True
            raise
        return False

    def _read_some(self, timeout_s: float) -> bool:
        self._begin_reading()
        messages: list[Message] = []
        try:
            # One message holds the answers of a batch.
            messages = self._reader.read(1, timeout_s)
            for message in messages:
                self._take(message)
        except TopicLossError as loss:
            # Receipts are kept for long, but not for ever. What was lost is no reason not to hear the others.
            self._answers.lose(loss.partition)
            self._reader.move(loss.partition, loss.end)
            self._heard_to[loss.partition] = loss.end
        if not messages or time.monotonic() - self._deliveries_heard_at > POLL_S:
            self._hear_deliveries()
        return bool(messages)

    def _begin_reading(self) -> None:
        while not self._to_read.empty():
            partition, offset = self._to_read.get()
            self._reader.add(partition, offset)
            self._heard_to[partition] = offset
        if self._is_interrupted:
            # What Kafka had given out by then may have come to nobody.
            for partition, offset in self._heard_to.items():
                self._reader.move(partition, offset)
            self._is_interrupted = False

    def _hear_deliveries(self) -> None:
        """What became of what was sent: few wait for it, and heard together it costs less."""
        self._deliveries_heard_at = time.monotonic()
        self._producer.poll(0)
        for retired in self._retired:
            retired.poll(0)

    def _take(self, message: Message) -> None:
        value, partition, offset = message.value(), message.partition(), message.offset()
        assert partition is not None
        assert offset is not None
        try:
            receipts = decode_receipts(value or b"")
        except MalformedRecordError as malformed:
            raise LogIntegrityError(f"{self._topics.receipts} holds what is no receipt: {malformed}") from None
        if receipts.log_id != self.genesis.log_id:
            raise LogIntegrityError(f"{self._topics.receipts} holds receipts of another log")
        self._answers.take(receipts.receipts, self._hear_deliveries)
        self._heard_to[partition] = offset + 1
