"""Proposals that the carrier of this machine takes to the log, for a program of whose proposals few are unanswered at a time.

Whoever waits reads the line for everybody, as `publisher` has it, and while nobody waits, a thread that calls back whoever is
to be. Where the carrier is gone, says nothing any more, or has never been there, proposals go to Kafka from here: those that it
had, and did not answer, too. The log decides an id once, so it does not matter whether the carrier had sent them.
"""

from __future__ import annotations

import select
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial

from commitlog.config import Settings
from commitlog.domain.model import Genesis, ProposalId, Receipt
from commitlog.domain.model.ids import partition_for
from commitlog.errors import CommitLogError, LogUnavailableError, MalformedRecordError
from commitlog.log.answers import Answers, PendingProposal
from commitlog.log.calling_back import CallingBack
from commitlog.log.carrier_line import (
    ID_BYTES,
    PING,
    PONG,
    RECEIPT,
    RECEIVED_BYTES,
    WELCOME,
    Letter,
    Messages,
    UnknownMessageError,
    address_of,
    hello,
    message,
    new_socket,
)
from commitlog.log.codec import decode_receipts
from commitlog.log.publisher import Publisher

POLL_S = 0.05
PAUSE_S = 0.005
WELCOME_S = 0.5
SILENT_S_MAX = 1.0
"""After so much silence it is asked whether it is there, and after as much again it is not."""
RETRY_S = 5.0
"""After so long it is looked whether there is one now; a look that finds none takes some 10 us."""
RETRY_TIMES = 100
"""One that is there and says nothing takes WELCOME_S of whoever looks: so many times as long nobody looks again."""
UNANSWERED_MAX = 100
"""A socket of Linux has room for 167 receipts of up to 700 bytes, and the carrier does not wait for a program to read them."""
BY_ITSELF_S = 10.0
"""So long a program sends by itself of which more were unanswered at once."""


class CarrierLostError(Exception):
    """The line has ended."""


class Carried:
    """Proposes by the carrier of this machine, where there is one. Thread-safe.

    Args:
        settings: which log, and where the carrier's socket is.
        genesis: what the log is.
        publisher: gives what sends from here; it is told how long a broker may take to answer.
    """

    def __init__(self, settings: Settings, genesis: Genesis, publisher: Callable[[float], Publisher]) -> None:
        self._settings = settings
        self._machine = settings.machine
        self._genesis = genesis
        self._publisher = publisher
        self._calling_back = CallingBack(settings.machine)
        self._answers = Answers(self._read, self._calling_back.wake, settings.machine)
        self._changing = threading.Lock()
        self._line: _Line | None = None
        self._is_closed = False
        self._looks_again_at_s = self._by_itself_until_s = float("-inf")

    def publish_bytes(
        self,
        encoded: bytes,
        proposal_id: ProposalId,
        writer_id: str,
        *,
        traceparent: str | None = None,
        is_awaited: bool = True,
    ) -> PendingProposal | None:
        """Give a proposal to the carrier, for a caller who does nothing else before the answer, or is called back; None: it
        is to go from here.

        A program of whose proposals very many are unanswered sends by itself.
        """
        now_s = self._machine.now_s()
        line = self._line
        # What nobody waits for any more is answered, too.
        if max(self._answers.awaited, 0 if line is None else line.unanswered) > UNANSWERED_MAX:
            self._by_itself_until_s = now_s + BY_ITSELF_S
        if now_s < self._by_itself_until_s:
            return None
        line = line or self._connect(now_s)
        if line is None:
            return None
        if not is_awaited and not self._calling_back.has_begun:
            self._begin_to_call_back()
        partition = partition_for(writer_id, self._genesis.partitions)
        pending = PendingProposal(self._answers, proposal_id, partition, self._settings.receipts_timeout_ms / 1000)
        try:
            self._answers.expect(pending)
            line.send(pending, Letter(proposal_id, writer_id, encoded, traceparent, is_awaited))
        except CarrierLostError:
            self._answers.forget(pending)
            self._send_from_here(line)
            return None
        except BaseException:
            self._answers.forget(pending)
            raise
        return pending

    def is_sending(self, proposal_id: ProposalId) -> bool:
        """Whether a proposal with this id may still come to the log from the carrier."""
        self._answers.read_what_is_there()
        line = self._line
        return line is not None and line.has(proposal_id)

    def close(self) -> None:
        """End the line, once who is to be called back was; what the carrier was given it takes to the log all the same."""
        with self._changing:
            self._is_closed = True
        self._calling_back.end()
        with self._changing:
            line, self._line = self._line, None
        self._answers.end(LogUnavailableError(self._settings.bootstrap_servers, detail="the log was closed"))
        self._answers.tell()
        if line is not None:
            line.close()

    # --- the line -----------------------------------------------------------------------------------------------------

    def _connect(self, now_s: float) -> _Line | None:
        """A line to the carrier; None where there is none, or none that knows this log."""
        path = self._settings.carrier_socket
        # A simulated machine has no sockets, and what is still unanswered from here is heard there.
        if path is None or now_s < self._looks_again_at_s or self._machine.kafka is not None or self._answers.awaited:
            return None
        with self._changing:
            # Whoever waited here for another one's look knows what that one found.
            if self._line is None and not self._is_closed and now_s >= self._looks_again_at_s:
                self._looks_again_at_s = now_s + RETRY_S
                with suppress(OSError, CarrierLostError), address_of(path) as address:
                    self._line = _Line(address, self._genesis.log_id, self._machine.now_s)
                took_s = self._machine.now_s() - now_s
                self._looks_again_at_s += RETRY_TIMES * took_s
            return self._line

    def _send_from_here(self, line: _Line) -> None:
        """The line has ended: what it was to bring an answer to is sent from here."""
        with self._changing:
            if self._line is not line:
                return
            self._looks_again_at_s = self._machine.now_s() + RETRY_S
            away: CommitLogError | None = None
            for pending, letter in line.left():
                if self._answers.awaits(pending):
                    if away is None:
                        away = self._send_one_from_here(pending, letter)
                    else:
                        # Each would wait as long as the first.
                        self._answers.settle(pending, pending.unknown(str(away)))
                line.forget(pending)
            # Not before: a signal may end this, and whoever reads next does what is left of it.
            self._line = None
            line.close()

    def _send_one_from_here(self, pending: PendingProposal, letter: Letter) -> CommitLogError | None:
        """Why nothing can be sent now; None where something can."""
        timeout_s = self._settings.receipts_timeout_ms / 1000
        try:
            own = self._publisher(timeout_s).publish_bytes(
                letter.encoded, letter.proposal_id, letter.writer_id, traceparent=letter.traceparent
            )
        except CommitLogError as error:
            self._answers.settle(pending, pending.unknown(str(error)))
            return error if isinstance(error, LogUnavailableError) else None
        own.on_answer(partial(self._answered_here, pending))
        return None

    def _answered_here(self, pending: PendingProposal, own: PendingProposal) -> None:
        answer: Receipt | CommitLogError
        try:
            answer = own.wait(0)
        except CommitLogError as error:
            answer = error
        self._answers.settle(pending, answer)

    # --- answers ------------------------------------------------------------------------------------------------------

    def _begin_to_call_back(self) -> None:
        with self._changing:
            if not self._calling_back.has_begun and not self._is_closed:
                # A signal may end this once there is a thread: then there is one too many, rather than none.
                self._calling_back.begin(lambda: self._answers.read_for_others(POLL_S), "commitlog-carried")

    def _read(self, timeout_s: float) -> bool:
        """Read once, for whoever it is."""
        line = self._line
        if line is None:
            # What is still unanswered was sent from here, and its answer comes by another thread.
            self._machine.sleep(min(timeout_s, PAUSE_S))
            return False
        try:
            return line.read(timeout_s, self._answers.settle)
        except CarrierLostError:
            self._send_from_here(line)
            return False
        except BaseException:
            # Some of what came may be lost with what was interrupted.
            line.break_off()
            raise


class _Line:
    """A program's end of a line. Many threads send by it, one at a time reads.

    Args:
        address: of the carrier's socket.
        log_id: of the log that the program means.
        now_s: the time.

    Raises:
        OSError, CarrierLostError: there is no carrier, or not one of this log.
    """

    def __init__(self, address: str, log_id: bytes, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._messages = Messages()
        self._sending = threading.Lock()
        self._sent: dict[PendingProposal, Letter] = {}
        self._heard_at_s = self._asked_at_s = now_s()
        self._is_asked = False
        self._socket = new_socket()
        self._incoming = select.poll()
        try:
            self._wait_at_most(socket.SO_SNDTIMEO, 2 * SILENT_S_MAX)
            self._socket.connect(address)
            self._incoming.register(self._socket, select.POLLIN)
            self._socket.sendall(hello(log_id))
            kinds = [kind for kind, _ in self._received(WELCOME_S)]
            if kinds[:1] != [WELCOME]:
                raise CarrierLostError
        except BaseException:
            self._socket.close()
            raise

    def _wait_at_most(self, option: int, seconds: float) -> None:
        """The system's own limit, as one of Python's asks it twice."""
        whole = int(seconds)
        self._socket.setsockopt(socket.SOL_SOCKET, option, struct.pack("@ll", whole, int((seconds - whole) * 1e6)))

    def send(self, pending: PendingProposal, letter: Letter) -> None:
        """Give it to the carrier; CarrierLostError where that does not take it."""
        whole = letter.as_message()
        with self._sending:
            if not self._sent:
                self._heard_at_s = self._now_s()
            self._sent[pending] = letter
            try:
                self._socket.sendall(whole)
            except OSError:
                del self._sent[pending]
                self.break_off()
                raise CarrierLostError from None
            except BaseException:
                self.break_off()
                raise

    def read(self, timeout_s: float, settle: Callable[[PendingProposal, Receipt], None]) -> bool:
        """Settle what it answers, waiting for a moment at most; whether anything came."""
        came = False
        for kind, body in self._received(min(timeout_s, POLL_S)):
            came = True
            if kind == RECEIPT:
                self._take(body, settle)
            elif kind != PONG:
                raise CarrierLostError
        if not came and self._sent:
            self._see_that_it_is_there()
        return came

    def has(self, proposal_id: ProposalId) -> bool:
        """Whether a proposal with this id is not answered."""
        return any(pending.proposal_id == proposal_id for pending in list(self._sent))

    @property
    def unanswered(self) -> int:
        """How many it has brought no answer to."""
        return len(self._sent)

    def break_off(self) -> None:
        """Nothing more goes over it, which who reads it sees."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def left(self) -> list[tuple[PendingProposal, Letter]]:
        """What it has brought no answer to, as it was sent, once nothing more goes over it."""
        self.break_off()
        with self._sending:
            return list(self._sent.items())

    def forget(self, pending: PendingProposal) -> None:
        """Its answer is there, or comes by another way."""
        self._sent.pop(pending, None)

    def close(self) -> None:
        """End it."""
        self.break_off()
        with self._sending:
            self._socket.close()

    def _received(self, timeout_s: float) -> Iterator[tuple[int, bytes]]:
        # Whoever sleeps in `recv` is woken for nothing as soon as the carrier has read what was sent before.
        if not self._incoming.poll(timeout_s * 1000):
            return
        try:
            data = self._socket.recv(RECEIVED_BYTES, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except OSError:
            raise CarrierLostError from None
        if not data:
            raise CarrierLostError
        self._heard_at_s, self._is_asked = self._now_s(), False
        try:
            yield from self._messages.cut(data)
        except UnknownMessageError:
            raise CarrierLostError from None

    def _take(self, body: bytes, settle: Callable[[PendingProposal, Receipt], None]) -> None:
        proposal_id = body[:ID_BYTES]
        try:
            [receipt] = decode_receipts(body[ID_BYTES:]).receipts
        except (MalformedRecordError, ValueError):
            raise CarrierLostError from None
        for pending in [each for each in list(self._sent) if each.proposal_id == proposal_id]:
            # In this order: what a signal ends in between is sent again.
            settle(pending, receipt)
            self.forget(pending)

    def _see_that_it_is_there(self) -> None:
        now_s = self._now_s()
        if self._is_asked:
            if now_s - self._asked_at_s > SILENT_S_MAX:
                raise CarrierLostError
        elif now_s - self._heard_at_s > SILENT_S_MAX:
            self._is_asked, self._asked_at_s = True, now_s
            with self._sending:
                try:
                    self._socket.sendall(message(PING))
                except OSError:
                    raise CarrierLostError from None
