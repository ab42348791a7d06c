"""A carrier takes the proposals of all programs of one machine to the log, and brings the receipts back to them.

A request costs a broker more than what is in it, so what several processes propose goes together, as what threads of one
process propose does. What they would otherwise each have of their own, a producer and a consumer that the broker answers, the
carrier has for all of them; a program speaks with it over a socket (`carrier_line`), which costs a tenth.

It is no part of the log: it decides nothing and keeps nothing. Where it has no answer to give, it hangs up, and the program
proposes by itself (`carried`).
"""

from __future__ import annotations

import logging
import os
import select
import socket
import threading
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

from commitlog.config import Settings
from commitlog.errors import CommitLogError, ConfigurationError
from commitlog.log.answers import PendingProposal
from commitlog.log.carrier_line import (
    HELLO,
    PING,
    PONG,
    PROPOSAL,
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
from commitlog.log.codec import encode_receipts
from commitlog.log.publisher import Publisher
from commitlog.log.replies import ReplySocket
from commitlog.log.senders import Crowding

POLL_MS = 200
PAUSE_S = 0.05
WAITING_MAX = 512
LISTENS_S = 1.0
"""Receipts that come so long after the last proposal by the carrier are of others, and no more are read."""
PATIENCE_S = 2.0
"""So long Kafka may keep all programs waiting for one of them, which then has to propose by itself."""
ANSWER_TIMEOUT_S = 300.0
"""Whoever still waits after so long is told nothing more, and asks the log."""

CROWDS = (Crowding(size_min=24, short_s=0.0, linger_ms=12), Crowding(size_min=2, short_s=0.0, linger_ms=4))
"""Of so many that wait at once none goes alone, for as long as the sequencer waits for those that come by no carrier. Three
times as long is little of the turn of 64 threads, 25 ms, and has them make 1.14 of the commits (measured)."""
GIVES_WAY_TO = 3
"""So many programs that are busy. One that waits for nobody else, beside others that only compute, would make 0.83 of the
commits (measured)."""
BUSY_PER_S = 400
SPAN_S = 0.1
"""As long as fewer come in a second, as counted in such spans, nothing waits: one or two more would come in that time."""

_logger = logging.getLogger("commitlog.carrier")


class Carrier:
    """Carries until it is told to stop.

    Args:
        settings: which log, and where its socket is.

    Raises:
        ConfigurationError: there is no such log, or its socket cannot be made.
        LogUnavailableError: no broker has answered.

    Attributes:
        programs: how many are connected.
        carried: proposals that were taken to the log.
    """

    def __init__(self, settings: Settings) -> None:
        if settings.carrier_socket is None:
            raise ConfigurationError("carrier_socket is off: say where programs of this machine find the carrier")
        self._path = settings.carrier_socket
        self._machine = settings.machine
        self._replies = _replies_to(self._path)
        try:
            self._publisher = Publisher(settings, crowdings=CROWDS, reply_to=self._replies.name, listens_s=LISTENS_S)
        except BaseException:
            self._replies.close()
            raise
        self._hello = hello(self._publisher.genesis.log_id)
        self._incoming = select.poll()
        self._programs: dict[int, _Program] = {}
        # Those of whoever waits: the crowd.
        self._awaited: dict[PendingProposal, None] = {}
        self._span_began_s = self._machine.now_s()
        self._carried_before = 0
        self._is_busy = False
        self._gives_way = False
        self.carried = 0

    @property
    def programs(self) -> int:
        return sum(program.is_welcomed for program in list(self._programs.values()))

    def run(self, stop: threading.Event) -> None:
        """Carry; what is not answered when it is told to stop, programs propose again."""
        with (
            closing(self._replies),
            closing(self._publisher),
            closing(_listening(self._path)) as listener,
        ):
            own = self._path.stat().st_ino
            self._incoming.register(listener, select.POLLIN)
            self._incoming.register(self._replies, select.POLLIN)
            try:
                while not stop.is_set():
                    self._carry_once(listener)
                    if (failure := self._publisher.failure) is not None:
                        raise failure
            finally:
                # The next carrier may run in this thread.
                self._give_way(False)
                with suppress(OSError):
                    if self._path.stat().st_ino == own:
                        self._path.unlink()
                for program in list(self._programs.values()):
                    self._let_go(program)

    def _carry_once(self, listener: socket.socket) -> None:
        for descriptor, _ in self._incoming.poll(POLL_MS):
            program = self._programs.get(descriptor)
            if program is not None:
                self._hear(program)
            elif descriptor == listener.fileno():
                self._take_in(listener)
            else:
                for reply in self._replies.received():
                    self._publisher.take_reply(reply)
        self._count()
        if self._is_busy:
            self._publisher.others_wait(len(self._awaited))

    def _count(self) -> None:
        """Finds, once in a span, whether many propose, and whether they are a crowd."""
        now_s = self._machine.now_s()
        past_s = now_s - self._span_began_s
        if past_s >= SPAN_S:
            self._is_busy = self.carried - self._carried_before >= BUSY_PER_S * past_s
            self._span_began_s, self._carried_before = now_s, self.carried
            self._give_way(self._is_busy and len(self._programs) >= GIVES_WAY_TO)

    def _give_way(self, gives_way: bool) -> None:
        """Whether what comes waits until a core is free, instead of taking one from a program that computes what is waited for
        next. A lone program's proposal would wait for strangers."""
        if gives_way != self._gives_way and hasattr(os, "sched_setscheduler"):
            with suppress(OSError):
                os.sched_setscheduler(0, os.SCHED_BATCH if gives_way else os.SCHED_OTHER, os.sched_param(0))
            self._gives_way = gives_way

    def _take_in(self, listener: socket.socket) -> None:
        try:
            connection, _ = listener.accept()
        except OSError as error:
            # This process may have no room for one more file.
            _logger.debug("a program could not be taken in: %s", error)
            self._machine.sleep(PAUSE_S)
            return
        connection.setblocking(False)
        self._programs[connection.fileno()] = _Program(connection)
        self._incoming.register(connection, select.POLLIN)

    def _hear(self, program: _Program) -> None:
        try:
            data = program.connection.recv(RECEIVED_BYTES)
            if not data:
                self._let_go(program)
                return
            for kind, body in program.messages.cut(data):
                self._do(program, kind, body)
        except BlockingIOError:
            return
        except OSError:
            self._let_go(program)
        except (UnknownMessageError, CommitLogError) as error:
            _logger.warning("a program has to propose by itself: %s", error)
            self._let_go(program)

    def _do(self, program: _Program, kind: int, body: bytes) -> None:
        if kind == PROPOSAL and program.is_welcomed:
            self._carry(program, Letter.of(body))
        elif kind == PING:
            program.tell(message(PONG))
        elif kind == HELLO and message(HELLO, body) == self._hello:
            program.tell(message(WELCOME))
            program.is_welcomed = True
        else:
            raise UnknownMessageError("it is of another version, or means another log")

    def _carry(self, program: _Program, letter: Letter) -> None:
        pending = self._publisher.publish_bytes(
            letter.encoded,
            letter.proposal_id,
            letter.writer_id,
            timeout_s=PATIENCE_S,
            traceparent=letter.traceparent,
        )
        self.carried += 1
        if letter.is_awaited:
            self._awaited[pending] = None
        pending.on_answer(partial(self._answer, program), ANSWER_TIMEOUT_S)

    def _answer(self, program: _Program, pending: PendingProposal) -> None:
        """In the thread that has the receipt: this one, from a reply, or the publisher's, which reads Kafka's."""
        self._awaited.pop(pending, None)
        try:
            receipt = pending.wait(0)
        except CommitLogError as error:
            _logger.warning("a program has to propose by itself: %s", error)
            program.hang_up()
            return
        encoded = encode_receipts([receipt], log_id=self._publisher.genesis.log_id, partition=pending.partition)
        program.tell(message(RECEIPT, pending.proposal_id + encoded))

    def _let_go(self, program: _Program) -> None:
        descriptor = program.connection.fileno()
        if self._programs.pop(descriptor, None) is not None:
            self._incoming.unregister(descriptor)
            program.connection.close()


class _Program:
    """One that is connected. It is told things by two threads."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.messages = Messages()
        self.is_welcomed = False

    def tell(self, told: bytes) -> None:
        """Send a message whole; to one that does not read what it is told, none is sent any more."""
        try:
            if self.connection.send(told) < len(told):
                self.hang_up()
        except OSError:
            self.hang_up()

    def hang_up(self) -> None:
        """The line ends: the program sees it, and so does who waits for messages from it."""
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)


def _replies_to(path: Path) -> ReplySocket:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return ReplySocket(path)
    except OSError as error:
        raise _cannot_be(path, error) from None


def _cannot_be(path: Path, error: OSError) -> ConfigurationError:
    return ConfigurationError(f"the carrier's socket cannot be at {path} (carrier_socket): {error}")


def _listening(path: Path) -> socket.socket:
    """A socket at a path, in the place of one that was there, for whoever runs this alone.

    Raises:
        ConfigurationError: it cannot be there.
    """
    unnamed = path.with_name(f"{path.name}.{os.getpid()}")
    listener = new_socket()
    try:
        unnamed.unlink(missing_ok=True)
        with address_of(unnamed) as address:
            listener.bind(address)
        unnamed.chmod(0o600)
        listener.listen(WAITING_MAX)
        # Programs are to find it when it listens, and never none.
        unnamed.replace(path)
    except OSError as error:
        listener.close()
        raise _cannot_be(path, error) from None
    return listener
