"""Publishing from the client's side: a proposal goes out, its receipt comes back.

Where the receipts start is fixed before a proposal is sent, so that an answer cannot be missed. A receipt is recognised
by the offset that the delivery report names, and by the proposal's id: an earlier sending of the same id may have been
answered in between, and that is the one verdict too. One thread reads the receipts of all proposals on their way.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYetError
from queue import SimpleQueue
from types import TracebackType
from uuid import UUID

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from commitlog.config import Settings
from commitlog.domain.model import Genesis, Position, Proposal, ProposalId, Reason, Receipt
from commitlog.domain.partitioning import partition_for
from commitlog.errors import (
    CommitLogError,
    LogIntegrityError,
    LogLossError,
    LogUnavailableError,
    MalformedRecordError,
    OutcomeUnknownError,
    ProposalTooLargeError,
)
from commitlog.log.codec import decode_receipts, encode_proposal
from commitlog.log.connection import (
    BATCH_BYTES_MAX,
    FRAME_BYTES,
    MESSAGE_BYTES_MAX,
    REQUEST_TIMEOUT_S,
    answered,
    end_offset,
    know_topic,
    make_admin,
    make_consumer,
    make_producer,
)
from commitlog.log.topics import require_genesis, topics_of

POLL_S = 0.01
IDLE_S = 0.001
READ_MAX = 1_000
EARLY_MAX = 1_000


class PendingProposal:
    """A proposal on its way. Made by `Publisher.publish`."""

    def __init__(self, proposal_id: ProposalId, partition: int, default_timeout_s: float) -> None:
        self.proposal_id = proposal_id
        self.partition = partition
        self._position: Position | None = None
        self._default_timeout_s = default_timeout_s
        self._published_at = time.monotonic()
        self._answer: Future[Receipt] = Future()

    @property
    def done(self) -> bool:
        """Whether `wait` returns at once."""
        return self._answer.done()

    def wait(self, timeout_s: float | None = None) -> Receipt:
        """The receipt.

        Args:
            timeout_s: None is the setting `receipts_timeout_ms`.

        Raises:
            OutcomeUnknownError: no receipt in time; the proposal may still be decided.
            ProposalTooLargeError: the broker does not take it; nothing was sent.
        """
        try:
            return self._answer.result(self._default_timeout_s if timeout_s is None else timeout_s)
        except NotYetError:
            waited_ms = int((time.monotonic() - self._published_at) * 1000)
            raise OutcomeUnknownError(UUID(bytes=self.proposal_id), waited_ms=waited_ms) from None

    def on_answer(self, tell: Callable[[PendingProposal], None]) -> None:
        """Calls back, from the publisher's thread, when `wait` would return."""
        self._answer.add_done_callback(lambda _: tell(self))

    def _answer_with(self, receipt: Receipt) -> None:
        if not self._answer.done():
            self._answer.set_result(receipt)

    def _fail(self, error: CommitLogError) -> None:
        if not self._answer.done():
            self._answer.set_exception(error)


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
        self._admin = make_admin(settings)
        self._producer = make_producer(
            settings,
            message_max_bytes=MESSAGE_BYTES_MAX,
            batch_size=min(BATCH_BYTES_MAX, self.genesis.settings.proposal_bytes_max + FRAME_BYTES // 2),
            linger_ms=0.5,
            retry_backoff_ms=5,
            # Beyond it the broker forgets who sent what, and an answer is no longer to be hoped for.
            delivery_timeout_ms=120_000,
        )
        # A producer without metadata waits half a second for its first idempotent batch.
        answered(settings, lambda: self._producer.list_topics(timeout=REQUEST_TIMEOUT_S))
        self._consumer = make_consumer(settings, fetch_wait_max_ms=50, fetch_error_backoff_ms=5)
        know_topic(settings, self._consumer, self._topics.receipts)
        self._lock = threading.Lock()
        # The consumer belongs to the reading thread; a call from another one would wait for it to be idle.
        self._to_assign: SimpleQueue[int] = SimpleQueue()
        self._listening: dict[int, threading.Event] = {}
        self._by_id: defaultdict[ProposalId | None, list[PendingProposal]] = defaultdict(list)
        self._by_position: dict[Position, PendingProposal] = {}
        self._early: dict[Position, Receipt] = {}
        self._closing = threading.Event()
        self._failure: CommitLogError | None = None
        self._thread = threading.Thread(target=self._read, name="commitlog-receipts", daemon=True)
        self._thread.start()

    def publish(self, proposal: Proposal) -> PendingProposal:
        """Sends a proposal and returns at once.

        Raises:
            MalformedRecordError: a record cannot hold it.
            ProposalTooLargeError: it is over the limit that the log was created with, and its topic's.
            LogUnavailableError: no broker has answered, or too much is waiting to be sent.
        """
        return self.publish_bytes(encode_proposal(proposal), proposal.proposal_id, proposal.writer_id)

    def publish_bytes(self, encoded: bytes, proposal_id: ProposalId, writer_id: str) -> PendingProposal:
        """Sends a proposal that is encoded already; see `publish`."""
        if self._failure is not None:
            raise self._failure
        partition = partition_for(writer_id, self.genesis.partitions)
        pending = PendingProposal(proposal_id, partition, self._settings.receipts_timeout_ms / 1000)
        self._listen_to(partition)
        with self._lock:
            self._by_id[proposal_id].append(pending)
        try:
            self._producer.produce(
                self._topics.proposals,
                value=encoded,
                key=writer_id.encode("utf-8"),
                partition=partition,
                on_delivery=lambda error, message: self._delivered(pending, error, message),
            )
        except KafkaException as error:
            self._forget(pending)
            raise self._not_sent(error.args[0], len(encoded)) from None
        except BufferError:
            self._forget(pending)
            detail = "too many proposals are waiting to be sent"
            raise LogUnavailableError(self._settings.bootstrap_servers, detail=detail) from None
        return pending

    def submit(self, proposal: Proposal, *, timeout_s: float | None = None) -> Receipt:
        """Sends a proposal and waits for its receipt; see `publish` and `PendingProposal.wait`."""
        pending = self.publish(proposal)
        try:
            return pending.wait(timeout_s)
        finally:
            self._forget(pending)

    def close(self) -> None:
        """Waits until everything is sent, not until it is answered."""
        self._producer.flush(self._settings.receipts_timeout_ms / 1000)
        self._closing.set()
        self._thread.join()
        self._consumer.close()

    def __enter__(self) -> Publisher:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    # --- sending ------------------------------------------------------------------------------------------------------

    def _listen_to(self, partition: int) -> None:
        """Returns when nothing that is answered from now on can be missed."""
        with self._lock:
            listening = self._listening.get(partition)
            if listening is None:
                listening = self._listening[partition] = threading.Event()
                self._to_assign.put(partition)
        if not listening.wait(self._settings.receipts_timeout_ms / 1000):
            detail = f"partition {partition} of {self._topics.receipts} cannot be read"
            waited_ms = self._settings.receipts_timeout_ms
            raise LogUnavailableError(self._settings.bootstrap_servers, waited_ms=waited_ms, detail=detail)

    def _not_sent(self, error: KafkaError, size_bytes: int) -> CommitLogError:
        if error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
            return ProposalTooLargeError(size_bytes, self.genesis.settings.proposal_bytes_max)
        return LogUnavailableError(self._settings.bootstrap_servers, detail=error.str())

    def _delivered(self, pending: PendingProposal, error: KafkaError | None, message: Message) -> None:
        if error is None:
            offset = message.offset()
            assert offset is not None
            self._place(pending, Position(pending.partition, offset))
        elif error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
            size = len(message.value() or b"")
            pending._fail(ProposalTooLargeError(size, self.genesis.settings.proposal_bytes_max))
            self._forget(pending)
        else:
            # It may have been written before the connection broke.
            waited_ms = int((time.monotonic() - pending._published_at) * 1000)
            pending._fail(OutcomeUnknownError(UUID(bytes=pending.proposal_id), waited_ms=waited_ms))
            self._forget(pending)

    def _place(self, pending: PendingProposal, position: Position) -> None:
        with self._lock:
            early = self._early.pop(position, None)
            if early is None and not pending.done:
                pending._position = position
                self._by_position[position] = pending
        if early is not None:
            pending._answer_with(early)
            self._forget(pending)

    def _forget(self, pending: PendingProposal) -> None:
        with self._lock:
            self._unlist(pending)

    def _unlist(self, pending: PendingProposal) -> None:
        waiting = self._by_id.get(pending.proposal_id, [])
        if pending in waiting:
            waiting.remove(pending)
        if not waiting:
            self._by_id.pop(pending.proposal_id, None)
        if pending._position is not None:
            self._by_position.pop(pending._position, None)

    # --- receiving ----------------------------------------------------------------------------------------------------

    def _read(self) -> None:
        try:
            while not self._closing.is_set():
                self._producer.poll(0)
                self._assign_new()
                if not self._listening:
                    self._closing.wait(IDLE_S)
                    continue
                for message in self._consumer.consume(READ_MAX, 0) or self._consumer.consume(1, POLL_S):
                    self._take(message)
        except CommitLogError as error:
            self._fail_all(error)
        except KafkaException as error:
            self._fail_all(LogUnavailableError(self._settings.bootstrap_servers, detail=str(error)))
        else:
            self._fail_all(LogUnavailableError(self._settings.bootstrap_servers, detail="the publisher was closed"))

    def _assign_new(self) -> None:
        while not self._to_assign.empty():
            partition = self._to_assign.get()
            end = end_offset(self._settings, self._admin, self._topics.receipts, partition, committed=True)
            self._consumer.incremental_assign([TopicPartition(self._topics.receipts, partition, end)])
            self._listening[partition].set()

    def _take(self, message: Message) -> None:
        error, value = message.error(), message.value()
        if error is not None:
            if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
                raise LogLossError(f"{self._topics.receipts}: receipts were gone before they were read: {error.str()}")
            return
        partition = message.partition()
        assert partition is not None
        # The delivery reports of what is answered here have come before.
        self._producer.poll(0)
        try:
            receipts = decode_receipts(
                value or b"", wanted=lambda proposal_id, offset: self._is_ours(proposal_id, partition, offset)
            )
        except MalformedRecordError as malformed:
            raise LogIntegrityError(f"{self._topics.receipts} holds what is no receipt: {malformed}") from None
        if receipts.log_id != self.genesis.log_id:
            raise LogIntegrityError(f"{self._topics.receipts} holds receipts of another log")
        for receipt in receipts.receipts:
            self._match(receipt)

    def _is_ours(self, proposal_id: ProposalId | None, partition: int, offset: int) -> bool:
        return proposal_id in self._by_id or (partition, offset) in self._by_position

    def _match(self, receipt: Receipt) -> None:
        with self._lock:
            found = self._by_position.get(receipt.source)
            answered_ones = [] if found is None else [found]
            if receipt.reason is not Reason.MALFORMED and receipt.proposal_id is not None:
                answered_ones += self._by_id.get(receipt.proposal_id, [])
            elif found is None:
                # Malformed bytes say nothing of the proposal whose id they seem to carry: only the offset tells.
                self._early[receipt.source] = receipt
                if len(self._early) > EARLY_MAX:
                    del self._early[next(iter(self._early))]
            for pending in list(answered_ones):
                self._unlist(pending)
        for pending in answered_ones:
            pending._answer_with(receipt)

    def _fail_all(self, error: CommitLogError) -> None:
        self._failure = error
        with self._lock:
            waiting = [pending for each in self._by_id.values() for pending in each]
            self._by_id.clear()
            self._by_position.clear()
        for pending in waiting:
            pending._fail(OutcomeUnknownError(UUID(bytes=pending.proposal_id)))
