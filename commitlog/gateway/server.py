"""The gateway: where clients connect, how a session begins, and how all of it ends."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import ssl
import threading
from asyncio import StreamReader, StreamWriter, Transport
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any, NamedTuple, cast

from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import Conninfo

from commitlog.catalog.connecting import connect
from commitlog.errors import CommitLogError
from commitlog.gateway import wire
from commitlog.gateway.session import Committing, Session, is_by_tls

THREADS = 16
STOP_TIMEOUT_S = 4.0
_CLOSE_TIMEOUT_S = 0.5
_POLL_S = 0.05
_CONNECT_TIMEOUT_S = 10.0
_KEEPALIVES = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}
_NO_TLS = (ssl.SSLError, ConnectionResetError, ConnectionAbortedError)
_DEAD = (OSError, asyncio.IncompleteReadError, TimeoutError)

_logger = logging.getLogger("commitlog.gateway")


class ClientCertificate(NamedTuple):
    """The files of a certificate and its key, and what the key is encrypted by."""

    certificate: str
    key: str
    password: str


@dataclass(frozen=True, slots=True)
class Upstream:
    """Where PostgreSQL is.

    Attributes:
        places: hosts (a name or address, or the directory of a socket) and ports; of several, the first that answers is asked.
        choice: the URL by which libpq chooses one of several, as by what may be written there; None where it has no wishes.
        database: whose catalog the gateway's log has.
        ways: how it is spoken to, None is in the clear; one after another until it does not refuse.
        certificate: what it is shown where it is spoken to by TLS; read for each connection, for it may be renewed.
    """

    places: Sequence[tuple[str, int]]
    database: str
    ways: Sequence[ssl.SSLContext | None] = (None,)
    certificate: ClientCertificate | None = None
    choice: str | None = field(default=None, repr=False)

    @classmethod
    def of(cls, database_url: str) -> Upstream:
        """From a URL, as libpq would read it: what it does not say is in the environment, or libpq's default."""
        defaults = {each.keyword.decode(): each.val.decode() for each in Conninfo.get_defaults() if each.val}
        options = {**defaults, **conninfo_to_dict(database_url)}
        if options.get("sslrootcert") == "system":
            options["sslmode"] = "verify-full"
        hosts = str(options.get("host") or "").split(",")
        ports = str(options.get("port") or "").split(",")
        # One port is that of all hosts.
        places = [(host or "127.0.0.1", int(port or 5432)) for host, port in zip(hosts, cycle(ports), strict=False)]
        database = str(options.get("dbname") or options.get("user") or "")
        has_wishes = len(places) > 1 and options.get("target_session_attrs", "any") != "any"
        choice = database_url if has_wishes else None
        return cls(places, database, _ways_of(options), _certificate_of(options), choice)

    async def connect(self, startup: wire.Startup) -> tuple[StreamReader, StreamWriter, bytes] | None:
        """A connection to which a startup was sent, and what was read of the answer; None where nobody answers."""
        places = self.places if self.choice is None else await asyncio.to_thread(_chosen, self.choice)
        for host, port in places:
            try:
                return await asyncio.wait_for(self._connect(host, port, startup), _CONNECT_TIMEOUT_S)
            except _DEAD as error:
                _logger.warning("PostgreSQL at %s:%s does not answer: %s", host, port, error)
        return None

    async def _connect(self, host: str, port: int, startup: wire.Startup) -> tuple[StreamReader, StreamWriter, bytes]:
        *firsts, last = (None,) if host.startswith("/") else self.ways
        refused = ""
        for tls in firsts:
            with suppress(*_NO_TLS):
                reader, writer = await self._reach(host, port, tls, startup)
                if startup.code == wire.CANCEL_REQUEST or (tls is not None and not is_by_tls(writer)):
                    return reader, writer, b""
                told = await _answer(reader, writer)
                if told[:1] != wire.ERROR:
                    return reader, writer, told
                refused = wire.error_said(told)
                writer.close()
        reader, writer = await self._reach(host, port, last, startup)
        # A certificate is refused after the handshake, and in no words of PostgreSQL's.
        is_shown = self.certificate is not None and is_by_tls(writer) and startup.code != wire.CANCEL_REQUEST
        told = await _answer(reader, writer) if is_shown or refused else b""
        if refused and told[:1] == wire.ERROR:
            told = wire.error("FATAL", f"{refused}; asked in another way: {wire.error_said(told)}", "28000")
        return reader, writer, told

    async def _reach(
        self, host: str, port: int, tls: ssl.SSLContext | None, startup: wire.Startup
    ) -> tuple[StreamReader, StreamWriter]:
        if host.startswith("/"):
            reader, writer = await asyncio.open_unix_connection(f"{host}/.s.PGSQL.{port}")
        else:
            reader, writer = await asyncio.open_connection(host, port)
        try:
            _prepare(writer)
            if tls is not None:
                await self._encrypt(reader, writer, host, tls)
            writer.write(startup.raw)
        except BaseException:
            writer.close()
            raise
        return reader, writer

    async def _encrypt(self, reader: StreamReader, writer: StreamWriter, host: str, tls: ssl.SSLContext) -> None:
        if self.certificate is not None:
            tls.load_cert_chain(*self.certificate)
        writer.write(b"\x00\x00\x00\x08" + wire.SSL_REQUEST.to_bytes(4, "big"))
        answer = await reader.readexactly(1)
        if answer == wire.TLS:
            await writer.start_tls(tls, server_hostname=host)
        elif None not in self.ways or answer != wire.NO_TLS:
            raise ConnectionRefusedError("PostgreSQL does not speak TLS")


def _chosen(database_url: str) -> Sequence[tuple[str, int]]:
    """Which of several servers libpq chooses now: after a failover another one than before. None where it finds none."""
    try:
        with connect(database_url, autocommit=True) as conn:
            return [(conn.info.host, conn.info.port)]
    except CommitLogError as error:
        _logger.warning("%s", error)
        return []


async def _answer(reader: StreamReader, writer: StreamWriter) -> bytes:
    """What PostgreSQL first says to a startup."""
    try:
        told = await reader.read(wire.STARTUP_BYTES_MAX)
        if not told:
            raise ConnectionRefusedError("PostgreSQL closed the connection")
    except BaseException:
        writer.close()
        raise
    return told


def _ways_of(options: dict[str, Any]) -> Sequence[ssl.SSLContext | None]:
    mode, root = options["sslmode"], options.get("sslrootcert")
    if mode == "disable":
        return (None,)
    is_choice = mode in ("allow", "prefer")
    root = root or _own_file("root.crt")
    context = ssl.create_default_context(cafile=None if is_choice or root == "system" else root)
    # From 3.13 on, Python refuses what libpq takes, such as a certificate that does not say which key has signed it.
    context.verify_flags = ssl.VERIFY_X509_TRUSTED_FIRST
    context.check_hostname = mode == "verify-full"
    if is_choice or (mode == "require" and not root):
        context.verify_mode = ssl.CERT_NONE
    return {"allow": (None, context), "prefer": (context, None)}.get(mode, (context,))


def _certificate_of(options: dict[str, Any]) -> ClientCertificate | None:
    """As with libpq one that is not there is not shown."""
    certificate = options.get("sslcert") or _own_file("postgresql.crt")
    if options.get("sslcertmode") == "disable" or certificate is None or not os.path.isfile(certificate):
        return None
    key = options.get("sslkey") or os.path.expanduser("~/.postgresql/postgresql.key")
    return ClientCertificate(certificate, key, options.get("sslpassword") or "")


def _own_file(name: str) -> str | None:
    """Where libpq looks for what it is not told of, if it is there."""
    path = os.path.expanduser(f"~/.postgresql/{name}")
    return path if os.path.isfile(path) else None


class Gateway:
    """Takes clients, until it is stopped.

    Args:
        upstream: where what they read is.
        commits: takes their commits.
        tls: gives what clients are shown, with the certificate as it is now; None lets them speak in the clear.
    """

    def __init__(
        self, upstream: Upstream, commits: Committing, tls: Callable[[], ssl.SSLContext] | None = None
    ) -> None:
        self._upstream = upstream
        self._commits = commits
        self._tls = tls
        self._taken: set[asyncio.Task[object]] = set()
        self._sessions: dict[Session, StreamWriter] = {}

    @property
    def sessions(self) -> int:
        """How many clients are connected; any thread may ask."""
        return len(self._sessions)

    async def serve(self, taken: socket.socket, stop: threading.Event) -> None:
        """Take clients at a socket that listens; commits that are on their way are answered before it ends."""
        server = await asyncio.start_server(self._take, sock=taken)
        while not stop.is_set():
            await asyncio.sleep(_POLL_S)
        server.close()
        deadline = asyncio.get_running_loop().time() + STOP_TIMEOUT_S
        while any(each.is_committing for each in self._sessions) and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(_POLL_S)
        for writer in list(self._sessions.values()):
            writer.close()
        if self._taken:
            await asyncio.wait(self._taken, timeout=_CLOSE_TIMEOUT_S)

    async def _take(self, reader: StreamReader, writer: StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._taken.add(task)
        try:
            _prepare(writer)
            await self._begin(reader, writer)
        except _DEAD:
            pass
        finally:
            writer.close()
            self._taken.discard(task)

    async def _begin(self, reader: StreamReader, writer: StreamWriter) -> None:
        said = bytearray()
        startup = await asyncio.wait_for(self._startup(reader, writer, said), _CONNECT_TIMEOUT_S)
        if startup is None:
            return
        connected = await self._upstream.connect(startup)
        if connected is None:
            writer.write(wire.error("FATAL", "the gateway cannot reach PostgreSQL", wire.UNKNOWN_STATE))
            return
        from_server, to_server, told = connected
        try:
            if startup.code == wire.CANCEL_REQUEST:
                # PostgreSQL ends the connection once it has taken it; the client waits for that.
                await asyncio.wait_for(from_server.read(), _CONNECT_TIMEOUT_S)
            else:
                # What came in the same packet as the startup, or as its answer.
                for side in (reader, from_server):
                    side.feed_eof()
                said += await reader.read()
                told += await from_server.read()
                await self._session(writer, to_server, startup.user, bytes(said), told)
        finally:
            to_server.close()

    async def _session(
        self, writer: StreamWriter, to_server: StreamWriter, user: str, said: bytes, told: bytes
    ) -> None:
        client, server = cast("Transport", writer.transport), cast("Transport", to_server.transport)
        session = Session(client, server, user, self._commits)
        self._sessions[session] = writer
        try:
            session.begin()
            session.hear_server(told)
            session.hear_client(said)
            await session.over()
        finally:
            del self._sessions[session]

    async def _startup(self, reader: StreamReader, writer: StreamWriter, said: bytearray) -> wire.Startup | None:
        """The message that begins a session; None where there is none to begin. What was read behind it is left in ``said``."""
        while True:
            await _read_at_least(4, reader, said)
            size = int.from_bytes(said[:4], "big")
            if not 8 <= size <= wire.STARTUP_BYTES_MAX + 4:
                return None
            await _read_at_least(size, reader, said)
            startup = wire.read_startup(bytes(said[4:size]))
            del said[:size]
            if startup.code in (wire.SSL_REQUEST, wire.GSS_REQUEST):
                if said:
                    # Somebody between may have put it there, to be taken as the client's once TLS stands.
                    told = "received unencrypted data after a request for encryption"
                    writer.write(wire.error("FATAL", told, "08P01"))
                    return None
                if startup.code == wire.SSL_REQUEST and self._tls is not None:
                    writer.write(wire.TLS)
                    await writer.start_tls(self._tls())
                else:
                    writer.write(wire.NO_TLS)
            elif startup.code == wire.CANCEL_REQUEST or startup.database == self._upstream.database:
                return startup
            else:
                told = f'the gateway is for the database "{self._upstream.database}" alone, not "{startup.database}"'
                writer.write(wire.error("FATAL", told, "3D000"))
                return None


async def _read_at_least(size: int, reader: StreamReader, said: bytearray) -> None:
    """Have so much, and more where more has come: of a reader in which something stays behind, it is more than a message."""
    while len(said) < size:
        came = await reader.read(2 * wire.STARTUP_BYTES_MAX)
        if not came:
            raise asyncio.IncompleteReadError(bytes(said), size)
        said += came


def _prepare(writer: StreamWriter) -> None:
    """Send small messages without waiting for more, and notice when the other side is gone without a word: its session would
    stay for ever, and one of PostgreSQL's with it."""
    made = writer.get_extra_info("socket")
    if made is None or made.family == socket.AF_UNIX:
        return
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVES.items():
        # Each system has its own of them.
        if hasattr(socket, name):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
