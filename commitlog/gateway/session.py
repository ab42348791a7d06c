"""One client of the gateway: what it says goes to PostgreSQL and the answers come back, but for its commits.

A commit is one text, then COMMIT. The text is held and proposed. PostgreSQL's transaction, which has only read, is ended at
once. The text is answered with success whatever became of it: an error there would show the user the whole text, and its
words could make the client try again. COMMIT is answered by the gateway too: with success, or with the refusal.

PostgreSQL asks who the client is. A session that it lets in without asking ends, for whoever comes would be let in as the one
that they name; until it asks nothing is passed on to it. Until it has said that the session is ready, whatever the client says
goes to PostgreSQL, a commit too: nobody proposes in the name of a login that is not theirs. Where the gateway reaches it by
TLS, it offers to bind the password to that connection. A client that speaks in the clear ends its own where it hears of that,
so it does not.

While the log is awaited a client that loses its connection keeps its files; from COMMIT on it removes them. So nothing is
awaited there, and whoever asks for an end of the gateway waits for that answer.

Before and after each transaction the pools of DuckDB's clients ask whether the connection is well. Where PostgreSQL has
nothing to do it is, or the session would be over: the gateway says so itself.
"""

from __future__ import annotations

import asyncio
import logging
import re
from asyncio import StreamWriter, Transport
from collections.abc import Callable
from typing import Protocol

from commitlog.errors import CommitLogError
from commitlog.gateway import wire
from commitlog.gateway.batch import is_batch
from commitlog.gateway.committing import Answer
from commitlog.gateway.keeping import Watch
from commitlog.gateway.wording import refusal_of_statement, unretried

_COMMIT = re.compile(r"\s*(?:COMMIT|END)\b", re.IGNORECASE)
_IDLE = wire.READY + wire.IDLE
_ROLLBACK = re.compile(r"\s*(?:ROLLBACK|ABORT)\b", re.IGNORECASE)

_logger = logging.getLogger("commitlog.gateway")


_UNASKED = (
    "PostgreSQL lets the gateway in without asking for a password, by its certificate, its address or its user: who you are is "
    "not known. Have its pg_hba.conf ask for one here (scram-sha-256; for a certificate too, with clientcert=verify-ca)"
)


class Committing(Protocol):
    """Who takes commits, see ``Commits``."""

    async def commit(self, text: str, user: str) -> Answer: ...


class _Reading:
    """One of the two connections as it is read: not as long as anybody has a reason not to."""

    def __init__(self, connection: Transport) -> None:
        self._connection = connection
        self._reasons = 0

    def pause(self) -> None:
        """There is a reason not to read."""
        self._reasons += 1
        self._connection.pause_reading()

    def resume(self) -> None:
        """There is one less."""
        self._reasons -= 1
        if not self._reasons:
            self._connection.resume_reading()


class _Side(asyncio.Protocol):
    """One of the two connections: what comes is handed on. While it does not take what it is told, ``waiting`` is not read."""

    def __init__(self, hear: Callable[[bytes], None], lost: Callable[[], None], *waiting: _Reading) -> None:
        self._hear = hear
        self._lost = lost
        self._waiting = waiting

    def data_received(self, data: bytes) -> None:
        self._hear(data)

    def connection_lost(self, error: Exception | None) -> None:
        self._lost()

    def pause_writing(self) -> None:
        for each in self._waiting:
            each.pause()

    def resume_writing(self) -> None:
        for each in self._waiting:
            each.resume()


def is_by_tls(connection: Transport | StreamWriter) -> bool:
    """Whether a connection is encrypted."""
    return connection.get_extra_info("ssl_object") is not None


class Session:
    """A client that PostgreSQL knows, from its startup on.

    Args:
        client: its connection.
        server: PostgreSQL's, to which the startup was sent already.
        user: the login.
        commits: takes the commits.
    """

    def __init__(self, client: Transport, server: Transport, user: str, commits: Committing) -> None:
        self._client, self._server = client, server
        self._hearing_client, self._hearing_server = _Reading(client), _Reading(server)
        self._user = user
        self._commits = commits
        self._said = bytearray()
        self._passed = bytearray()
        self._greeting = bytearray()
        self._is_asked = self._is_known = False
        self._is_by_tls = is_by_tls(client)
        self._committing: asyncio.Task[None] | None = None
        self._answer: Answer | None = None
        self._watching: Watch | None = None
        self._is_muted = False
        self._tail = b""
        self._last_words = b""
        self._is_ready = asyncio.Event()
        self._has_client = self._has_server = True
        self._is_over = asyncio.Event()

    @property
    def is_committing(self) -> bool:
        """Whether a commit is on its way, whose COMMIT was not answered yet."""
        return self._committing is not None or (self._answer is not None and self._has_client)

    def begin(self) -> None:
        """Take over both connections."""
        # A client that asks on and on without taking the answers, the gateway's own too, is not heard either.
        of_client = self._hearing_server, self._hearing_client
        self._client.set_protocol(_Side(self.hear_client, self._client_lost, *of_client))
        self._server.set_protocol(_Side(self.hear_server, self._server_lost, self._hearing_client))
        self._hearing_client.pause()

    async def over(self) -> None:
        """Wait until one side has ended, and no commit is on its way."""
        await self._is_over.wait()

    # --- from PostgreSQL ----------------------------------------------------------------------------------------------

    def hear_server(self, data: bytes) -> None:
        """Pass on what PostgreSQL says, unless the gateway has asked itself."""
        self._last_words = data[-len(_IDLE) :]
        if not self._is_known:
            data = self._greet(data)
        if not self._is_muted:
            self._client.write(data)
            return
        self._tail = (self._tail + data)[-len(wire.READY) - 1 :]
        if self._tail.startswith(wire.READY):
            self._is_ready.set()

    def _greet(self, data: bytes) -> bytes:
        """What the client is told until PostgreSQL has let it in: then it says for the first time that it is ready."""
        self._greeting += data
        told = bytearray()
        while len(self._greeting) >= wire.HEADER_BYTES and not self._is_known:
            size = int.from_bytes(self._greeting[1 : wire.HEADER_BYTES], "big") + 1
            if len(self._greeting) < size:
                return bytes(told)
            message = bytes(self._greeting[:size])
            del self._greeting[:size]
            if message == wire.LET_IN and not self._is_asked:
                self._client.write(bytes(told) + wire.error("FATAL", _UNASKED, "28000"))
                self._client.close()
                self._server.abort()
                self._greeting.clear()
                return b""
            if not self._is_asked and message[:1] == wire.AUTHENTICATION:
                self._is_asked = True
                self._hearing_client.resume()
                self.hear_client(b"")
            self._is_known = message.startswith(wire.READY)
            told += message if self._is_by_tls else wire.without_binding(message)
        if self._is_known:
            told += self._greeting
            self._greeting.clear()
        return bytes(told)

    def _end_reading(self) -> None:
        """End the transaction at PostgreSQL, which has only read, and keep its answer to ourselves."""
        self._tail = b""
        self._is_ready.clear()
        self._is_muted = True
        if self._has_server:
            self._server.write(wire.query("ROLLBACK"))
        else:
            self._is_ready.set()

    async def _reading_ended(self) -> None:
        await self._is_ready.wait()
        self._is_muted = False

    def _server_lost(self) -> None:
        self._has_server = False
        # A server that has no room for a session says so without a frame.
        self._client.write(bytes(self._greeting))
        self._is_ready.set()
        self._look_whether_over()

    # --- from the client ----------------------------------------------------------------------------------------------

    def hear_client(self, data: bytes) -> None:
        """Take what a client says; what follows a commit waits for its answer."""
        self._said += data
        while self._is_asked and self._committing is None and len(self._said) >= wire.HEADER_BYTES:
            size = int.from_bytes(self._said[1 : wire.HEADER_BYTES], "big") + 1
            size_max = wire.MESSAGE_BYTES_MAX if self._is_known else wire.STARTUP_BYTES_MAX
            if not wire.HEADER_BYTES <= size <= size_max:
                self._client.write(wire.error("FATAL", "a message is too long for the gateway", "08P01"))
                self._client.close()
                return
            if len(self._said) < size:
                break
            message = bytes(self._said[:size])
            del self._said[:size]
            self._take(message)
        self._pass_on()

    def _pass_on(self) -> None:
        """Send PostgreSQL what came for it, in one piece."""
        if self._passed:
            self._last_words = b""
            self._server.write(bytes(self._passed))
            self._passed.clear()

    def _take(self, message: bytes) -> None:
        if self._watching is not None:
            # It has heard of its commit.
            self._watching.cancel()
            self._watching = None
        if message[:1] != wire.QUERY or not self._is_known:
            self._passed += message
            return
        if message == wire.PING and self._last_words == _IDLE and not self._passed and self._answer is None:
            self._client.write(wire.PONG)
            return
        text = message[wire.HEADER_BYTES : -1].decode(errors="replace")
        if self._answer is not None:
            self._client.write(self._ended(text, self._answer))
            self._look_whether_over()
        elif is_batch(text):
            self._committing = asyncio.create_task(self._commit(text))
        elif (refusal := refusal_of_statement(text)) is not None:
            # PostgreSQL has heard nothing of it: outside of a transaction there is none that could have failed.
            is_idle = self._last_words == _IDLE and not self._passed
            state = wire.IDLE if is_idle else wire.FAILED
            self._client.write(wire.refused(refusal, state, code=wire.FORBIDDEN_STATE))
        else:
            self._passed += message

    def _client_lost(self) -> None:
        self._has_client = False
        if self._watching is not None:
            self._watching.end_later()
        if self._answer is not None:
            self._watch(self._answer)
        self._look_whether_over()

    def _look_whether_over(self) -> None:
        has_both = self._has_client and self._has_server
        if not has_both and not self.is_committing:
            self._is_over.set()

    # --- commits ------------------------------------------------------------------------------------------------------

    async def _commit(self, text: str) -> None:
        self._hearing_client.pause()
        try:
            # Nothing is to be cleaned up later in PostgreSQL because a client waits for the log.
            self._end_reading()
            answer = await self._commits.commit(text, self._user)
            await self._reading_ended()
        except CommitLogError as error:
            _logger.warning("the connection of %s is closed, so that its files stay: %s", self._user, error)
            self._client.abort()
        except Exception:
            _logger.exception("the connection of %s is closed, so that its files stay", self._user)
            self._client.abort()
        else:
            self._answer = answer
            told = b"" if answer.warning is None else wire.notice(answer.warning)
            self._client.write(told + wire.completed("INSERT 0 1", wire.IN_TRANSACTION))
            if not self._has_client:
                self._watch(answer)
        finally:
            self._committing = None
            self._hearing_client.resume()
        self._look_whether_over()
        self.hear_client(b"")

    def _watch(self, answer: Answer) -> None:
        if answer.watch is not None:
            self._watching = answer.watch()
            if self._has_client:
                self._watching.go_on()

    def _ended(self, text: str, answer: Answer) -> bytes:
        """The answer to what ends a transaction whose commit was decided."""
        if _ROLLBACK.match(text) is not None and answer.refusal is not None:
            self._answer = None
            return wire.completed("ROLLBACK", wire.IDLE)
        if _COMMIT.match(text) is None:
            # It cannot be taken back, nor can anything be added.
            return wire.refused("the commit was decided: only COMMIT can follow", wire.IN_TRANSACTION)
        self._answer = None
        if answer.refusal is None:
            self._watch(answer)
            return wire.completed("COMMIT", wire.IDLE)
        return wire.refused(unretried(answer.refusal), wire.IDLE)
