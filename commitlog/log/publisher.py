"""Publishing from the client's side: a proposal goes out, its receipt comes back.

Where the receipts start is fixed before a proposal is sent, so that an answer cannot be missed. A receipt is recognised
by the offset that the delivery report names, and by the proposal's id: an earlier sending of the same id may have been
answered in between, and that is the one verdict too. One thread reads the receipts of all proposals on their way.

A publisher outlives every outage: who publishes meanwhile is told so after their own timeout, nobody else notices. Only a
log that has become another one ends it.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYetError
from queue import SimpleQueue
from types import TracebackType
from uuid import UUID

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from commitlog.config import Settings
from commitlog.domain.model import Genesis, Position, Proposal, ProposalId, Reason, Receipt
from commitlog.domain.model.ids import partition_for
from commitlog.errors import (
    CommitLogError,
    LogIntegrityError,
    LogRefusedError,
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
    make_admin,
    make_producer,
)
from commitlog.log.genesis import require_genesis
from commitlog.log.reading import TopicLossError, TopicReader
from commitlog.log.topics import topics_of
from commitlog.log.triage import Triage, triage

POLL_S = 0.01
IDLE_POLL_S = 0.2
LISTEN_S_MIN = 2.0
LISTEN_S_MAX = 30.0
READ_MAX = 1_000
EARLY_MAX = 1_000
FETCH_WAIT_MS = 250
"""A partition more is read when the fetch that is on its way has come back."""


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
        self._producer = self._make_producer()
        self._reader = TopicReader(settings, self._topics.receipts, fetch_wait_max_ms=FETCH_WAIT_MS)
        self._lock = threading.Lock()
        # The consumer belongs to the reading thread; a call from another one would wait for it to be idle.
        self._to_read: SimpleQueue[tuple[int, int]] = SimpleQueue()
        self._listening: set[int] = set()
        self._by_id: defaultdict[ProposalId | None, list[PendingProposal]] = defaultdict(list)
        self._by_position: dict[Position, PendingProposal] = {}
        self._early: dict[Position, Receipt] = {}
        self._unsent: Counter[ProposalId] = Counter()
        self._awake = threading.Event()
        self._closing = threading.Event()
        self._failure: CommitLogError | None = None
        self._replacing = threading.Lock()
        self._retired: list[Producer] = []
        self._thread = threading.Thread(target=self._read, name="commitlog-receipts", daemon=True)
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
        if self._failure is not None:
            raise self._failure
        partition = partition_for(writer_id, self.genesis.partitions)
        default_timeout_s = self._settings.receipts_timeout_ms / 1000
        pending = PendingProposal(proposal_id, partition, default_timeout_s)
        self._listen_to(partition, default_timeout_s if timeout_s is None else timeout_s)
        with self._lock:
            self._by_id[proposal_id].append(pending)
            self._unsent[proposal_id] += 1
        try:
            self._produce(pending, encoded, writer_id.encode("utf-8"))
        except BaseException:
            self._forget(pending)
            self._sent(proposal_id)
            raise
        self._awake.set()
        return pending

    def submit(self, proposal: Proposal, *, timeout_s: float | None = None) -> Receipt:
        """Sends a proposal and waits for its receipt, both within the timeout; see `publish` and `PendingProposal.wait`."""
        started = time.monotonic()
        given_s = self._settings.receipts_timeout_ms / 1000 if timeout_s is None else timeout_s
        pending = self.publish(proposal, timeout_s=given_s)
        try:
            return pending.wait(max(0, given_s - (time.monotonic() - started)))
        finally:
            self._forget(pending)

    def is_sending(self, proposal_id: ProposalId) -> bool:
        """Whether a proposal with this id may still come to the log from here."""
        return self._unsent[proposal_id] > 0

    def close(self) -> None:
        """Waits until everything is sent, not until it is answered."""
        self._producer.flush(self._settings.receipts_timeout_ms / 1000)
        self._closing.set()
        self._awake.set()
        self._thread.join()
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
        if partition in self._listening:
            return
        admin, timeout_s = make_admin(self._settings), max(LISTEN_S_MIN, min(timeout_s, LISTEN_S_MAX))
        end = end_offset(self._settings, admin, self._topics.receipts, partition, timeout_s=timeout_s)
        with self._lock:
            if partition not in self._listening:
                self._listening.add(partition)
                self._to_read.put((partition, end))

    def _produce(self, pending: PendingProposal, encoded: bytes, key: bytes) -> None:
        def send(producer: Producer) -> None:
            producer.produce(
                self._topics.proposals,
                value=encoded,
                key=key,
                partition=pending.partition,
                on_delivery=lambda error, message: self._delivered(pending, error, message),
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
            self._place(pending, Position(pending.partition, offset))
        elif triage(error) is Triage.TOO_LARGE:
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
        failure: CommitLogError = LogUnavailableError(
            self._settings.bootstrap_servers, detail="the publisher was closed"
        )
        try:
            while not self._closing.is_set():
                self._serve_producers()
                while not self._to_read.empty():
                    self._reader.add(*self._to_read.get())
                if not self._reader.next_offsets:
                    self._awake.wait(IDLE_POLL_S)
                    self._awake.clear()
                    continue
                self._read_some()
        except CommitLogError as error:
            failure = error
        except BaseException as error:
            failure = LogUnavailableError(self._settings.bootstrap_servers, detail=repr(error))
            raise
        finally:
            self._fail_all(failure)

    def _serve_producers(self) -> None:
        self._producer.poll(0)
        for retired in self._retired:
            retired.poll(0)

    def _read_some(self) -> None:
        try:
            for message in self._reader.read(READ_MAX, POLL_S if self._by_id else IDLE_POLL_S):
                self._take(message)
        except TopicLossError as loss:
            # Receipts are kept for long, but not for ever. What was lost is no reason not to hear the others.
            self._lost(loss.partition)
            self._reader.move(loss.partition, loss.end)

    def _lost(self, partition: int) -> None:
        with self._lock:
            lost = [pending for each in self._by_id.values() for pending in each if pending.partition == partition]
            for pending in lost:
                self._unlist(pending)
        for pending in lost:
            pending._fail(OutcomeUnknownError(UUID(bytes=pending.proposal_id)))

    def _take(self, message: Message) -> None:
        value = message.value()
        partition = message.partition()
        assert partition is not None
        # The delivery reports of what is answered here have come before.
        self._serve_producers()
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
