"""Publishing from the client's side: a proposal goes out, its receipt comes back.

Where the receipts start is fixed before a proposal is sent, so that an answer cannot be missed. Whoever waits for one reads
the receipts of all proposals on their way (`answers`); while nobody waits, a thread of the publisher's own looks now and then.

A publisher outlives every outage: who publishes meanwhile is told so after their own timeout, nobody else notices. Where its
rights to read answers are taken away nothing is sent until they are given back. Only a log that has become another one ends it.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Sequence
from functools import partial
from types import TracebackType

from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka.admin import AclOperation  # type: ignore[attr-defined]

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
from commitlog.log import replies
from commitlog.log.answers import Answers, PendingProposal
from commitlog.log.calling_back import CallingBack
from commitlog.log.codec import UnknownSchemaError, decode_receipts, encode_proposal
from commitlog.log.connection import REQUEST_TIMEOUT_S, check_may, end_offset
from commitlog.log.genesis import require_genesis
from commitlog.log.reading import TopicLossError, TopicReader
from commitlog.log.receipts import receipts_in
from commitlog.log.reports import offset_of
from commitlog.log.senders import CROWD_OF_THREADS, Crowding, Senders
from commitlog.log.sending import DELIVERY_TIMEOUT_S, Sender
from commitlog.log.topics import topics_of
from commitlog.log.triage import Triage, in_words, triage

_logger = logging.getLogger("commitlog.publisher")

POLL_S = 0.05
UNHEARD_MAX = 100
AWAITED_MAX = 20_000
OVERDUE_S = 10.0
"""So much longer than it may, a producer can keep a record before it is taken for one that never sends it."""
OVERDUE_LOOK_S = 1.0
PATIENCE_S_MIN = 2.0
PATIENCE_S_MAX = 30.0
FETCH_WAIT_MS = 250
"""A partition more is read when the fetch that is on its way has come back."""


class Publisher:
    """Sends proposals to a log. Thread-safe; keep one for the life of the process.

    Args:
        settings: which log, and where.
        genesis: what the log is, for whoever knows it already.
        timeout_s: how long a broker may take to answer, but two seconds at least.
        delivery_timeout_s: how long a proposal may be on its way to the broker.
        crowdings: when what is proposed waits for others, to go with them, as `Senders` takes it.
        reply_to: where the sequencer of this machine may send receipts sooner than to Kafka (`replies`); whoever reads
            there gives them to `take_reply`.
        listens_s: receipts that come so long after the last proposal are of others, and cost too, so no more are read; the
            next proposal then waits for the broker to say where its own begin. It can be changed.

    Raises:
        ConfigurationError: there is no such log.
        LogUnavailableError: no broker has answered.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        genesis: Genesis | None = None,
        timeout_s: float = REQUEST_TIMEOUT_S,
        delivery_timeout_s: float = DELIVERY_TIMEOUT_S,
        crowdings: Sequence[Crowding] = (CROWD_OF_THREADS,),
        reply_to: str | None = None,
        listens_s: float = math.inf,
    ) -> None:
        self._settings = settings
        self._headers = () if reply_to is None else ((replies.HEADER, reply_to.encode("ascii")),)
        self.listens_s = listens_s
        self._published_at_s = 0.0
        self._delivery_timeout_s = delivery_timeout_s
        self._topics = topics_of(settings.log)
        self._default_timeout_s = settings.receipts_timeout_ms / 1000
        self.genesis: Genesis = require_genesis(settings) if genesis is None else genesis
        self._senders = Senders(
            self._make_sender,
            settings.machine,
            timeout_s=timeout_s,
            later_timeout_s=PATIENCE_S_MIN,
            crowdings=crowdings,
        )
        self._own = _SentByThread()
        self._reader = TopicReader(
            settings, self._topics.receipts, timeout_s=_patience_s(timeout_s), fetch_wait_max_ms=FETCH_WAIT_MS
        )
        self._lock = threading.Lock()
        # The consumer belongs to the one who reads; a call from another thread would wait for it to be idle.
        self._starts: dict[int, int] = {}
        self._heard_to: dict[int, int] = {}
        self._is_interrupted = False
        self._is_refused = False
        self._deliveries_heard_at = 0.0
        self._overdue_looked_for_at = 0.0
        self._unsent: dict[PendingProposal, None] = {}
        self._calling_back = CallingBack(settings.machine)
        self._answers = Answers(self._read, self._calling_back.wake, settings.machine, self._senders.waits)
        self._is_closing = False
        self._calling_back.begin(lambda: self._answers.read_for_others(POLL_S), "commitlog-receipts")

    def publish(self, proposal: Proposal, *, timeout_s: float | None = None) -> PendingProposal:
        """Sends a proposal and returns at once, but for the first one of a partition.

        Args:
            proposal: what to send.
            timeout_s: how long a broker may take to say where the receipts begin, but two seconds at least, and how long
                room is waited for where too much is unanswered; None is `receipts_timeout_ms`.

        Raises:
            MalformedRecordError: a record cannot hold it.
            ProposalTooLargeError: it is over the limit that the log was created with, and its topic's.
            LogRefusedError: Kafka does not let it be written, or its answer be read; nothing was sent.
            LogUnavailableError: no broker has answered, or too much is still unanswered; nothing was sent.
        """
        return self.publish_bytes(
            encode_proposal(proposal), proposal.proposal_id, proposal.writer_id, timeout_s=timeout_s
        )

    def publish_bytes(
        self,
        encoded: bytes,
        proposal_id: ProposalId,
        writer_id: str,
        *,
        timeout_s: float | None = None,
        traceparent: str | None = None,
    ) -> PendingProposal:
        """Sends a proposal that is encoded already, in a span where there is one; see `publish`."""
        partition = partition_for(writer_id, self.genesis.partitions)
        pending = PendingProposal(self._answers, proposal_id, partition, self._default_timeout_s)
        given_s = self._default_timeout_s if timeout_s is None else timeout_s
        if self._is_refused:
            self._check_may_hear(given_s)
        if self._answers.awaited >= AWAITED_MAX:
            self._wait_for_room(given_s)
        self._published_at_s = self._settings.machine.now_s()
        try:
            self._answers.expect(pending)
            if not self._is_listening_to(partition):
                self._listen_to(partition, given_s)
            self._send(pending, encoded, writer_id.encode("utf-8"), given_s, traceparent)
        except BaseException:
            self._answers.forget(pending)
            raise
        return pending

    def submit(self, proposal: Proposal, *, timeout_s: float | None = None) -> Receipt:
        """Sends a proposal and waits for its receipt, both within the timeout; see `publish` and `PendingProposal.wait`."""
        started = self._settings.machine.now_s()
        given_s = self._default_timeout_s if timeout_s is None else timeout_s
        pending = self.publish(proposal, timeout_s=given_s)
        try:
            return pending.wait(max(0, given_s - (self._settings.machine.now_s() - started)))
        finally:
            self._answers.forget(pending)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is unanswered, or on its way to the broker."""
        if self._unsent:
            self._hear_deliveries()
        return not (self._unsent or self._answers.awaited)

    @property
    def failure(self) -> CommitLogError | None:
        """What has ended it for good; None while it goes on."""
        return self._answers.ended

    def others_wait(self, waiting: int) -> None:
        """Note that for so many answers somebody waits who proposes nothing more before."""
        self._senders.waits(waiting)

    def take_reply(self, encoded: bytes) -> None:
        """Take receipts that came sooner than Kafka brings them; who is to be called back is, in this thread."""
        try:
            receipts = decode_receipts(encoded)
        except (MalformedRecordError, UnknownSchemaError) as unread:
            _logger.warning("a reply is left out, Kafka brings what it says: %s", unread)
            return
        if receipts.log_id == self.genesis.log_id:
            self._answers.take(receipts.receipts, self._hear_deliveries, tells=True)

    def is_sending(self, proposal_id: ProposalId) -> bool:
        """Whether a proposal with this id may still come to the log from here."""
        self._hear_deliveries()
        return any(pending.proposal_id == proposal_id for pending in list(self._unsent))

    def flush(self, timeout_s: float) -> None:
        """Waits until everything is sent."""
        for sender in self._senders.all:
            sender.flush(timeout_s)

    def close(self) -> None:
        """Waits until everything is sent and who is to be called back was; nobody else's answer is waited for. Closed again, it
        stays closed."""
        if self._is_closing:
            return
        self.flush(self._settings.receipts_timeout_ms / 1000)
        self._senders.stop_making()
        self._is_closing = True
        self._calling_back.end()
        self._answers.end(LogUnavailableError(self._settings.bootstrap_servers, detail="the publisher was closed"))
        self._answers.stop_reading()
        self._reader.close()
        self._answers.tell()
        for sender in self._senders.all:
            sender.close()

    def __enter__(self) -> Publisher:
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    # --- sending ------------------------------------------------------------------------------------------------------

    def _wait_for_room(self, timeout_s: float) -> None:
        if not self._answers.wait_for_room(AWAITED_MAX, self._settings.machine.now_s() + timeout_s):
            detail = f"{AWAITED_MAX:,} proposals are unanswered"
            raise LogUnavailableError(self._settings.bootstrap_servers, waited_ms=int(timeout_s * 1000), detail=detail)

    def _check_may_hear(self, timeout_s: float) -> None:
        """Goes on where answers were refused, once they are not any more; raises LogRefusedError as long as they are."""
        check_may(self._settings, AclOperation.READ, self._topics.receipts, timeout_s=_patience_s(timeout_s))
        self._is_refused = False

    def _is_listening_to(self, partition: int) -> bool:
        """Asked once an answer is expected, so that nobody stops listening to it from then on."""
        with self._lock:
            return partition in self._starts

    def _listen_to(self, partition: int, timeout_s: float) -> None:
        """Returns when nothing that is answered from now on can be missed."""
        end = end_offset(self._settings, self._topics.receipts, partition, timeout_s=_patience_s(timeout_s))
        with self._lock:
            self._starts.setdefault(partition, end)

    def _send(
        self, pending: PendingProposal, encoded: bytes, key: bytes, timeout_s: float, traceparent: str | None
    ) -> None:
        # A dict's single steps need no lock.
        sender = self._sender(timeout_s)
        self._unsent[pending] = None
        try:
            delivered = partial(self._delivered, pending)
            sender.send(encoded, key, pending.partition, delivered, timeout_s=timeout_s, traceparent=traceparent)
        except KafkaException as error:
            del self._unsent[pending]
            raise self._not_sent(error.args[0], len(encoded)) from None
        except BufferError:
            del self._unsent[pending]
            detail = "too many proposals are waiting to be sent"
            raise LogUnavailableError(self._settings.bootstrap_servers, detail=detail) from None
        except BaseException:
            del self._unsent[pending]
            raise
        self._own.last, self._own.sender = pending, sender
        if len(self._unsent) > UNHEARD_MAX and self._settings.machine.now_s() - self._deliveries_heard_at > POLL_S:
            self._hear_deliveries()

    def _sender(self, timeout_s: float) -> Sender:
        """Whoever sends alone is sent for at once; beside many, what comes next is waited for a little.

        What a thread sends keeps its order. Two producers know nothing of each other, so it goes from one to the other when
        nothing of its own is on its way.
        """
        wanted = self._senders.wanted(self._answers.awaited, self._answers.going_on_s)
        before = self._own.sender
        if before is None or before is wanted or not self._is_last_on_its_way():
            return wanted
        if wanted.linger_ms > before.linger_ms:
            before.flush(timeout_s)
        return before if self._is_last_on_its_way() else wanted

    def _is_last_on_its_way(self) -> bool:
        self._hear_deliveries()
        return self._own.last in self._unsent

    def _make_sender(self, *, linger_ms: int, timeout_s: float) -> Sender:
        return Sender(
            self._settings,
            self._topics.proposals,
            proposal_bytes_max=self.genesis.settings.proposal_bytes_max,
            linger_ms=linger_ms,
            timeout_s=_patience_s(timeout_s),
            delivery_timeout_s=self._delivery_timeout_s,
            headers=self._headers,
        )

    def _not_sent(self, error: KafkaError, size_bytes: int) -> CommitLogError:
        match triage(error):
            case Triage.TOO_LARGE:
                return ProposalTooLargeError(size_bytes, self.genesis.settings.proposal_bytes_max)
            case Triage.REFUSED:
                return LogRefusedError(self._settings.bootstrap_servers, error.name(), detail=error.str())
            case _:
                return LogUnavailableError(self._settings.bootstrap_servers, detail=error.str())

    def _delivered(self, pending: PendingProposal, error: KafkaError | None, message: Message) -> None:
        self._unsent.pop(pending, None)
        if error is None:
            offset = offset_of(message)
            # Sent again after a lost answer, it is acknowledged without one: then its id alone tells its receipt.
            if offset is not None:
                self._answers.place(pending, offset)
        elif triage(error) is Triage.TOO_LARGE:
            size = len(message.value() or b"")
            self._answers.settle(pending, ProposalTooLargeError(size, self.genesis.settings.proposal_bytes_max))
        else:
            # It may have been written before the connection broke.
            self._answers.settle(pending, pending.unknown(in_words(error)))

    # --- receiving ----------------------------------------------------------------------------------------------------

    def _read(self, timeout_s: float) -> bool:
        """Reads once, for whoever it is."""
        try:
            return self._read_some(min(timeout_s, POLL_S))
        except LogRefusedError as error:
            # Rights can be given back.
            self._is_refused = self._is_interrupted = True
            self._answers.give_up(str(error))
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
        if not messages or self._settings.machine.now_s() - self._deliveries_heard_at > POLL_S:
            self._hear_deliveries()
        if messages:
            self._stop_listening_if_idle()
        return bool(messages)

    def _stop_listening_if_idle(self) -> None:
        """What came is of others then: theirs would go on coming."""
        if self._answers.awaited or self._settings.machine.now_s() - self._published_at_s < self.listens_s:
            return
        with self._lock:
            if self._answers.awaited or not self._starts:
                return
            self._starts.clear()
            self._heard_to.clear()
        self._reader.start({})

    def _begin_reading(self) -> None:
        if len(self._heard_to) < len(self._starts):
            for partition, offset in list(self._starts.items()):
                if partition not in self._heard_to:
                    self._heard_to[partition] = offset
                    self._reader.add(partition, offset)
        if self._is_interrupted:
            # What Kafka had given out by then may have come to nobody, and some partitions may be read no more.
            self._reader.start(self._heard_to)
            self._is_interrupted = False

    def _hear_deliveries(self) -> None:
        """What became of what was sent: few wait for it, and heard together it costs less."""
        self._deliveries_heard_at = self._settings.machine.now_s()
        for sender in self._senders.all:
            sender.hear_deliveries()
        if self._unsent and self._deliveries_heard_at - self._overdue_looked_for_at > OVERDUE_LOOK_S:
            self._give_up_overdue(self._deliveries_heard_at)

    def _give_up_overdue(self, now_s: float) -> None:
        """What a producer has kept for longer than it may, and said nothing of, is not on its way any more."""
        self._overdue_looked_for_at = now_s
        overdue = [each for each in list(self._unsent) if each.age_s() > self._delivery_timeout_s + OVERDUE_S]
        for pending in overdue:
            self._unsent.pop(pending, None)
            self._answers.settle(pending, pending.unknown())
        if overdue:
            for sender in self._senders.all:
                sender.give_up()

    def _take(self, message: Message) -> None:
        partition, offset = message.partition(), message.offset()
        assert partition is not None
        assert offset is not None
        receipts = receipts_in(message)
        if receipts is not None:
            if receipts.log_id != self.genesis.log_id:
                raise LogIntegrityError(f"{self._topics.receipts} holds receipts of another log")
            self._answers.take(receipts.receipts, self._hear_deliveries)
        self._heard_to[partition] = offset + 1


class _SentByThread(threading.local):
    """What the thread that asks has sent last, and through which producer."""

    last: PendingProposal | None = None
    sender: Sender | None = None


def _patience_s(timeout_s: float) -> float:
    """How long a broker may take to answer for a caller who waits so long."""
    return max(PATIENCE_S_MIN, min(timeout_s, PATIENCE_S_MAX))
