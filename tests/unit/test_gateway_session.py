"""A session of the gateway, between a client and a PostgreSQL that are both played here: who is told what, and what goes on."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from commitlog.config import Settings
from commitlog.errors import OutcomeUnknownError
from commitlog.gateway import wire
from commitlog.gateway.committing import Answer, identified
from commitlog.gateway.keeping import Watch
from commitlog.gateway.server import Gateway, Upstream
from commitlog.gateway.session import Session
from commitlog.gateway.wording import refusal_of_statement, unretried
from commitlog.ops.service.gateway import through_gateway

BATCH = (
    'INSERT INTO "public".ducklake_snapshot VALUES (2, NOW(), 1, 2, 0);INSERT INTO "public".ducklake_table VALUES (1);'
)
STARTUP = b"user\x00ann\x00database\x00lake\x00\x00"
OFFERED = b"\x00\x00\x00\x0aSCRAM-SHA-256-PLUS\x00SCRAM-SHA-256\x00\x00"
PASSWORD_ASKED = wire.frame(b"R", b"\x00\x00\x00\x03")
TIMEOUT_S = 30.0
LOOK_S = 0.01


class PlayedPostgres:
    """Answers every query at once, and keeps what it was told."""

    def __init__(self, *, knows_client: bool = True, is_asked: bool = True, ends_at: bytes = b"") -> None:
        self.told: list[bytes] = []
        self.writers: list[asyncio.StreamWriter] = []
        self.knows_client = knows_client
        self.asked = PASSWORD_ASKED if is_asked else b""
        self.ends_at = ends_at
        self.state = wire.IDLE
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        try:
            startup = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big") - 4)
            self.told.append(startup)
            # The value of this parameter looks as if the session were ready.
            parameter = wire.frame(b"S", b"application_name\x00" + wire.READY + b"\x00")
            let_in = self.asked + wire.LET_IN
            asked = (let_in if self.knows_client else wire.frame(b"R", OFFERED)) + parameter
            # A message may come in pieces.
            writer.write(asked[:3])
            await writer.drain()
            writer.write(asked[3:])
            if self.knows_client:
                writer.write(wire.READY + wire.IDLE)
            while True:
                header = await reader.readexactly(wire.HEADER_BYTES)
                said = (await reader.readexactly(int.from_bytes(header[1:], "big") - 4)).rstrip(b"\x00")
                self.told.append(said)
                if not self.knows_client or said == self.ends_at:
                    writer.write(wire.error("FATAL", "the connection is closed", "08P01"))
                    writer.close()
                    return
                await self.may_answer.wait()
                writer.write(wire.completed("DONE", self.state))
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    def lose_clients(self) -> None:
        for writer in self.writers:
            writer.transport.abort()


class PlayedLog:
    """Takes commits: answers as it is told to."""

    def __init__(self, answer: Answer | Exception = Answer()) -> None:  # noqa: B008
        self.answer = answer
        self.commits: list[tuple[str, str]] = []
        self.is_asked = asyncio.Event()
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.is_done = asyncio.Event()
        self.stop = threading.Event()

    async def commit(self, text: str, user: str) -> Answer:
        self.commits.append((text, user))
        self.is_asked.set()
        await self.may_answer.wait()
        self.is_done.set()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class PlayedClient:
    """A client as DuckDB is one: says one thing, and waits until it is answered."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def say(self, text: str) -> None:
        self.writer.write(wire.query(text))

    async def heard(self) -> tuple[dict[str, str], str]:
        """Messages by kind up to the one that says it is ready, and in which state the session is."""
        told: dict[str, str] = {}
        while True:
            header = await self.reader.readexactly(wire.HEADER_BYTES)
            body = await self.reader.readexactly(int.from_bytes(header[1:], "big") - 4)
            if header[:1] == b"Z":
                return told, body.decode()
            told[header[:1].decode()] = body.decode(errors="replace")

    async def ask(self, text: str) -> tuple[dict[str, str], str]:
        self.say(text)
        return await self.heard()


Scene = Callable[[PlayedClient, PlayedPostgres, PlayedLog], Awaitable[None]]


def play(
    scene: Scene,
    answer: Answer | Exception = Answer(),  # noqa: B008
    startup: bytes = STARTUP,
    postgres: PlayedPostgres | None = None,
) -> PlayedPostgres:
    """Have a client do something through a gateway."""
    postgres = PlayedPostgres() if postgres is None else postgres

    async def playing() -> None:
        log = PlayedLog(answer)
        server = await asyncio.start_server(postgres.take, "127.0.0.1", 0)
        upstream = Upstream([server.sockets[0].getsockname()[:2]], "lake")
        taken = socket.create_server(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        gateway = asyncio.create_task(Gateway(upstream, log).serve(taken, log.stop))
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            body = (wire.VERSION_3 << 16).to_bytes(4, "big") + startup
            writer.write(b"\x00\x00\x00\x08" + wire.SSL_REQUEST.to_bytes(4, "big"))
            assert await reader.readexactly(1) == wire.NO_TLS
            writer.write((len(body) + 4).to_bytes(4, "big") + body)
            await asyncio.wait_for(scene(PlayedClient(reader, writer), postgres, log), TIMEOUT_S)
            writer.close()
        finally:
            log.stop.set()
            await asyncio.wait_for(gateway, TIMEOUT_S)
            server.close()

    asyncio.run(playing())
    return postgres


def test_session_when_it_commits_then_the_text_is_proposed_and_postgres_only_ends_its_transaction() -> None:
    async def scene(client: PlayedClient, _: PlayedPostgres, log: PlayedLog) -> None:
        assert (await client.heard())[1] == "I"
        await client.ask("BEGIN")
        assert await client.ask(BATCH) == ({"C": "INSERT 0 1\x00"}, "T")
        assert await client.ask("COMMIT") == ({"C": "COMMIT\x00"}, "I")
        assert await client.ask("FROM t") == ({"C": "DONE\x00"}, "I")
        assert log.commits == [(BATCH, "ann")]

    told = play(scene).told
    assert told[1:] == [b"BEGIN", b"ROLLBACK", b"FROM t"]


def test_session_when_postgres_offers_to_bind_the_password_to_tls_then_a_client_in_the_clear_hears_of_the_other_way_alone() -> (
    None
):
    async def scene(client: PlayedClient, _: PlayedPostgres, __: PlayedLog) -> None:
        told = wire.frame(b"R", b"\x00\x00\x00\x0aSCRAM-SHA-256\x00\x00")
        assert await client.reader.readexactly(len(told)) == told

    play(scene, postgres=PlayedPostgres(knows_client=False))


def test_session_when_a_pool_asks_whether_it_is_well_then_told_so_for_a_postgres_that_has_nothing_to_do() -> None:
    async def ping(client: PlayedClient) -> bytes:
        """The row that is answered: PostgreSQL's is none here."""
        client.writer.write(wire.PING)
        told, _ = await client.heard()
        return told.get("D", "").encode()

    async def scene(client: PlayedClient, postgres: PlayedPostgres, _: PlayedLog) -> None:
        await client.heard()
        assert (await ping(client)).endswith(b"1")
        postgres.state = wire.IN_TRANSACTION
        await client.ask("BEGIN")
        assert await ping(client) == b""
        postgres.state = wire.IDLE
        assert await client.ask(BATCH) == ({"C": "INSERT 0 1\x00"}, "T")
        await client.ask("COMMIT")
        assert (await ping(client)).endswith(b"1")

    told = play(scene).told
    assert told[1:] == [b"BEGIN", b"SELECT 1", b"ROLLBACK"]


def test_session_when_refused_then_told_once_at_commit_without_a_word_that_is_tried_again() -> None:
    async def scene(client: PlayedClient, _: PlayedPostgres, __: PlayedLog) -> None:
        await client.heard()
        assert await client.ask(BATCH) == ({"C": "INSERT 0 1\x00"}, "T")
        told, state = await client.ask("COMMIT")
        assert state == "I"
        assert "Concur" not in told["E"]
        assert "table Con·flicts was altered" in told["E"]
        assert await client.ask("ROLLBACK") == ({"C": "DONE\x00"}, "I")

    play(scene, Answer(refusal="table Conflicts was altered"))


def test_session_when_it_writes_otherwise_then_refused_and_postgres_is_not_asked() -> None:
    async def scene(client: PlayedClient, postgres: PlayedPostgres, log: PlayedLog) -> None:
        await client.heard()
        # Only within a transaction can one have failed.
        for state_before, state_after in ((wire.IDLE, "I"), (wire.IN_TRANSACTION, "E")):
            postgres.state = state_before
            await client.ask("SELECT 2")
            told, state = await client.ask("UPDATE ducklake_metadata SET value = 'x'")
            assert state == state_after
            assert "CONFIGURE" in told["E"]
        assert log.commits == []

    assert play(scene).told[1:] == [b"SELECT 2", b"SELECT 2"]


def test_session_when_the_client_is_lost_while_the_log_decides_then_it_is_decided_and_not_again() -> None:
    async def scene(client: PlayedClient, _: PlayedPostgres, log: PlayedLog) -> None:
        await client.heard()
        log.may_answer.clear()
        client.say(BATCH)
        await log.is_asked.wait()
        client.writer.transport.abort()
        log.may_answer.set()
        await log.is_done.wait()
        assert len(log.commits) == 1

    play(scene)


def test_session_when_postgres_is_lost_while_the_log_decides_then_the_client_is_told_what_was_decided() -> None:
    async def scene(client: PlayedClient, postgres: PlayedPostgres, log: PlayedLog) -> None:
        await client.heard()
        log.may_answer.clear()
        client.say(BATCH)
        await log.is_asked.wait()
        postgres.lose_clients()
        log.may_answer.set()
        assert await client.heard() == ({"C": "INSERT 0 1\x00"}, "T")
        assert await client.ask("COMMIT") == ({"C": "COMMIT\x00"}, "I")
        assert await client.reader.read() == b""

    play(scene)


def test_session_when_postgres_has_not_let_the_client_in_then_nothing_is_proposed_in_that_name() -> None:
    async def scene(client: PlayedClient, _: PlayedPostgres, log: PlayedLog) -> None:
        client.say(BATCH)
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await client.heard()
        assert log.commits == []

    told = play(scene, postgres=PlayedPostgres(knows_client=False)).told
    assert told[1:] == [BATCH.encode()]


def test_session_when_postgres_lets_the_client_in_without_asking_who_it_is_then_it_ends() -> None:
    """By the gateway's address, or as the user that it runs as: so would be whoever comes, as the one that they name."""

    async def scene(client: PlayedClient, _: PlayedPostgres, log: PlayedLog) -> None:
        client.say(BATCH)
        assert b"without asking for a password" in await client.reader.read()
        assert log.commits == []

    assert len(play(scene, postgres=PlayedPostgres(is_asked=False)).told) == 1


class PlayedConnection(asyncio.Transport):
    """A connection that says whether it is read."""

    is_read = True

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        assert isinstance(protocol, asyncio.Protocol)
        self.protocol = protocol

    def pause_reading(self) -> None:
        self.is_read = False

    def resume_reading(self) -> None:
        self.is_read = True

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Nobody takes it."""


def test_session_when_a_side_does_not_take_what_it_is_told_then_nobody_is_heard_who_makes_it_more() -> None:
    async def playing() -> None:
        client, server = PlayedConnection(), PlayedConnection()
        session = Session(client, server, "ann", PlayedLog())
        session.begin()
        session.hear_server(PASSWORD_ASKED)
        client.protocol.pause_writing()
        assert (client.is_read, server.is_read) == (False, False), "the gateway answers a client itself, too"
        server.protocol.pause_writing()
        client.protocol.resume_writing()
        assert (client.is_read, server.is_read) == (False, True)
        server.protocol.resume_writing()
        assert (client.is_read, server.is_read) == (True, True)

    asyncio.run(playing())


def test_session_when_a_commit_is_on_its_way_then_the_client_is_not_heard_until_it_is_answered() -> None:
    async def playing() -> None:
        client, server, log = PlayedConnection(), PlayedConnection(), PlayedLog()
        session = Session(client, server, "ann", log)
        session.begin()
        session.hear_server(PASSWORD_ASKED + wire.LET_IN + wire.READY + wire.IDLE)
        log.may_answer.clear()
        session.hear_client(wire.query(BATCH))
        await log.is_asked.wait()
        assert not client.is_read
        session.hear_server(wire.completed("ROLLBACK", wire.IDLE))
        log.may_answer.set()
        while not client.is_read:
            await asyncio.sleep(0)
        assert session.is_committing, "COMMIT is still to come"

    asyncio.run(asyncio.wait_for(playing(), TIMEOUT_S))


def test_session_when_a_stranger_says_much_then_it_is_not_kept() -> None:
    async def scene(client: PlayedClient, _: PlayedPostgres, __: PlayedLog) -> None:
        client.writer.write(wire.QUERY + (wire.STARTUP_BYTES_MAX + 1).to_bytes(4, "big"))
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await client.heard()

    assert len(play(scene, postgres=PlayedPostgres(knows_client=False)).told) == 1


def test_session_when_postgres_is_lost_at_the_end_of_its_transaction_then_the_client_is_told_what_was_decided() -> None:
    async def scene(client: PlayedClient, _: PlayedPostgres, log: PlayedLog) -> None:
        await client.heard()
        assert await client.ask(BATCH) == ({"C": "INSERT 0 1\x00"}, "T")
        assert await client.ask("COMMIT") == ({"C": "COMMIT\x00"}, "I")
        assert await client.reader.read() == b""
        assert len(log.commits) == 1

    play(scene, postgres=PlayedPostgres(ends_at=b"ROLLBACK"))


def test_session_when_postgres_is_slow_to_end_its_transaction_then_the_log_is_asked_and_its_answer_waits() -> None:
    async def scene(client: PlayedClient, postgres: PlayedPostgres, log: PlayedLog) -> None:
        await client.heard()
        postgres.may_answer.clear()
        client.say(BATCH)
        await log.is_done.wait()
        client.say("COMMIT")
        client.say("FROM t")
        postgres.may_answer.set()
        assert await client.heard() == ({"C": "INSERT 0 1\x00"}, "T")
        assert await client.heard() == ({"C": "COMMIT\x00"}, "I")
        assert await client.heard() == ({"C": "DONE\x00"}, "I")

    assert play(scene).told[1:] == [b"ROLLBACK", b"FROM t"]


def test_session_when_nobody_knows_the_outcome_then_the_connection_ends_without_an_answer() -> None:
    async def scene(client: PlayedClient, _: PlayedPostgres, __: PlayedLog) -> None:
        await client.heard()
        client.say(BATCH)
        assert await client.reader.read() == b""

    play(scene, OutcomeUnknownError(UUID(int=1)))
    play(scene, RuntimeError("a defect"))


def test_gateway_when_told_to_stop_then_a_commit_on_its_way_is_answered_first() -> None:
    async def scene(client: PlayedClient, _: PlayedPostgres, log: PlayedLog) -> None:
        await client.heard()
        log.may_answer.clear()
        client.say(BATCH)
        await log.is_asked.wait()
        log.stop.set()
        log.may_answer.set()
        assert await client.heard() == ({"C": "INSERT 0 1\x00"}, "T")
        assert await client.ask("COMMIT") == ({"C": "COMMIT\x00"}, "I")
        assert await client.reader.read() == b""

    play(scene)


def test_gateway_when_another_database_is_asked_for_then_refused() -> None:
    async def scene(client: PlayedClient, _: PlayedPostgres, __: PlayedLog) -> None:
        assert b'the gateway is for the database "lake" alone' in await client.reader.read()

    assert play(scene, startup=b"user\x00ann\x00database\x00other\x00\x00").told == []


@pytest.mark.parametrize("tls", [None, ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)], ids=["no TLS", "TLS"])
@pytest.mark.parametrize("request_code", [wire.SSL_REQUEST, wire.GSS_REQUEST])
@pytest.mark.parametrize("size", [8, wire.STARTUP_BYTES_MAX])
def test_gateway_when_more_comes_with_a_request_for_encryption_then_refused(
    size: int, request_code: int, tls: ssl.SSLContext | None
) -> None:
    postgres = PlayedPostgres()

    async def playing() -> bytes:
        log = PlayedLog()
        server = await asyncio.start_server(postgres.take, "127.0.0.1", 0)
        upstream = Upstream([server.sockets[0].getsockname()[:2]], "lake")
        taken = socket.create_server(("127.0.0.1", 0))
        gateway = asyncio.create_task(Gateway(upstream, log, tls and (lambda: tls)).serve(taken, log.stop))
        try:
            reader, writer = await asyncio.open_connection(*taken.getsockname())
            body = (wire.VERSION_3 << 16).to_bytes(4, "big") + STARTUP
            injected = (len(body) + 4).to_bytes(4, "big") + body + wire.query("DROP TABLE t")
            writer.write(size.to_bytes(4, "big") + request_code.to_bytes(4, "big") + bytes(size - 8) + injected)
            told = await asyncio.wait_for(reader.read(), TIMEOUT_S)
            writer.close()
            return told
        finally:
            log.stop.set()
            await asyncio.wait_for(gateway, TIMEOUT_S)
            server.close()

    told = asyncio.run(playing())
    assert told.startswith(b"E")
    assert b"unencrypted data" in told
    assert postgres.told == []


def test_upstream_when_the_url_names_several_hosts_then_the_first_that_answers_is_asked_and_its_end_is_noticed() -> (
    None
):
    closed = socket.create_server(("127.0.0.1", 0))
    closed_port = closed.getsockname()[1]
    closed.close()

    async def connecting() -> tuple[str, int, int]:
        server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        upstream = Upstream.of(f"postgresql://ann@127.0.0.1:{closed_port},127.0.0.1:{port}/lake?sslmode=disable")
        connected = await upstream.connect(_startup())
        assert connected is not None
        writer = connected[1]
        is_alive = writer.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        found = upstream.database, writer.get_extra_info("peername")[1] - port, is_alive
        writer.close()
        server.close()
        return found

    assert asyncio.run(connecting()) == ("lake", 0, 1)
    assert asyncio.run(Upstream.of(f"postgresql://ann@127.0.0.1:{closed_port}/lake").connect(_startup())) is None


@pytest.mark.parametrize(
    ("url", "places"),
    [
        ("postgresql://ann@/lake", [("127.0.0.1", 5432)]),
        ("postgresql://ann@a,b/lake", [("a", 5432), ("b", 5432)]),
        ("postgresql://ann@a:1,b:2/lake", [("a", 1), ("b", 2)]),
        ("postgresql://ann@a,b/lake?port=7", [("a", 7), ("b", 7)]),
        ("postgresql:///lake?host=/run/pg&port=7", [("/run/pg", 7)]),
    ],
)
def test_upstream_then_hosts_and_ports_are_as_libpq_reads_them(url: str, places: list[tuple[str, int]]) -> None:
    assert Upstream.of(url).places == places


@pytest.mark.parametrize(
    ("options", "ways"),
    [
        ("", ["TLS", "clear"]),
        ("?sslmode=disable", ["clear"]),
        ("?sslmode=allow", ["clear", "TLS"]),
        ("?sslmode=require", ["TLS"]),
        ("?sslmode=verify-full", ["this host's TLS"]),
        ("?sslrootcert=system", ["this host's TLS"]),
    ],
)
def test_upstream_then_tls_is_as_libpq_reads_it(
    options: str, ways: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told() -> list[str]:
        found = Upstream.of(f"postgresql://ann@a/lake{options}").ways
        return ["clear" if each is None else "this host's TLS" if each.check_hostname else "TLS" for each in found]

    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("PGSSLMODE", "PGSSLROOTCERT"):
        monkeypatch.delenv(name, raising=False)
    assert told() == ways
    monkeypatch.setenv("PGSSLMODE", "verify-full")
    assert told() == (ways if options else ["this host's TLS"])


def test_upstream_when_python_is_as_strict_as_3_13_then_certificates_are_judged_as_libpq_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    context = ssl.create_default_context()
    context.verify_flags |= ssl.VERIFY_X509_STRICT | ssl.VERIFY_X509_PARTIAL_CHAIN
    monkeypatch.setattr(ssl, "create_default_context", lambda **_: context)
    assert Upstream.of("postgresql://ann@a/lake?sslmode=verify-full&sslrootcert=system").ways == (context,)
    assert context.verify_flags == ssl.VERIFY_X509_TRUSTED_FIRST


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ("", ("~/.postgresql/postgresql.crt", "~/.postgresql/postgresql.key", "")),
        ("?sslcert=~/own.pem", ("~/own.pem", "~/.postgresql/postgresql.key", "")),
        ("?sslcert=~/own.pem&sslkey=/k&sslpassword=x", ("~/own.pem", "/k", "x")),
        ("?sslcert=/nowhere.pem&sslkey=/k", None),
        ("?sslcert=~/own.pem&sslcertmode=disable", None),
    ],
)
def test_upstream_then_the_certificate_that_it_shows_is_as_libpq_reads_it(
    options: str, shown: tuple[str, ...] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".postgresql").mkdir()
    for file in (".postgresql/postgresql.crt", "own.pem"):
        (tmp_path / file).touch()
    told = Upstream.of(f"postgresql://ann@a/lake{options.replace('~', str(tmp_path))}").certificate
    assert told == (None if shown is None else tuple(each.replace("~", str(tmp_path)) for each in shown))


def test_url_for_clients_then_leads_to_the_gateway_also_where_postgres_is_named_among_the_options(
    tmp_path: Path,
) -> None:
    url = "postgresql://ann@/lake?host=/run/pg&port=7&sslmode=require&sslnegotiation=direct&application_name=x"
    settings = Settings.load(environment={}, database_url=url, home=tmp_path)
    assert through_gateway(settings, "127.0.0.1:9") == "postgresql://ann@127.0.0.1:9/lake?application_name=x"
    settings = replace(settings, gateway_tls_cert=tmp_path)
    expected = "postgresql://ann@127.0.0.1:9/lake?sslmode=require&application_name=x&channel_binding=disable"
    assert through_gateway(settings, "127.0.0.1:9") == expected


def test_upstream_when_the_home_has_an_authoritys_certificate_then_it_is_read_where_libpq_verifies_by_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("PGSSLROOTCERT", raising=False)
    (tmp_path / ".postgresql").mkdir()
    (tmp_path / ".postgresql" / "root.crt").write_text("no certificate", encoding="utf-8")
    for options in ("sslmode=require", "sslmode=verify-full"):
        with pytest.raises(ssl.SSLError):
            Upstream.of(f"postgresql://ann@a/lake?{options}")
    for options in ("sslmode=prefer", "sslmode=disable", "sslrootcert=system"):
        Upstream.of(f"postgresql://ann@a/lake?{options}")


def _startup() -> wire.Startup:
    return wire.read_startup((wire.VERSION_3 << 16).to_bytes(4, "big") + STARTUP)


@pytest.mark.parametrize(
    ("mode", "answer", "asked_by"),
    [
        ("prefer", b"Sno handshake", ["TLS", "clear"]),
        ("require", b"Sno handshake", ["TLS"]),
        ("prefer", b"Eout of memory\n\x00", ["TLS"]),
        ("prefer", b"", ["TLS"]),
    ],
)
def test_upstream_when_no_tls_comes_of_it_then_it_is_asked_in_the_clear_where_libpq_does(
    mode: str, answer: bytes, asked_by: list[str]
) -> None:
    asked: list[str] = []

    async def connecting() -> object:
        async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            said = await reader.readexactly(8)
            is_tls = said[4:] == wire.SSL_REQUEST.to_bytes(4, "big")
            asked.append("TLS" if is_tls else "clear")
            if is_tls:
                writer.write(answer)
            writer.close()

        server = await asyncio.start_server(take, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        try:
            url = f"postgresql://ann@127.0.0.1:{port}/lake?sslmode={mode}"
            connected = await Upstream.of(url).connect(_startup())
            if connected is not None:
                await connected[0].read()  # it has been taken
                connected[1].close()
            return connected
        finally:
            server.close()

    connected = asyncio.run(connecting())
    assert asked == asked_by
    assert (connected is not None) == ("clear" in asked_by)


def test_upstream_when_postgres_ends_the_connection_without_a_word_then_it_is_none_that_answers() -> None:
    asked = []

    async def connecting() -> object:
        async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            asked.append(await reader.readexactly(len(_startup().raw)))
            writer.close()

        server = await asyncio.start_server(take, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        try:
            return await Upstream.of(f"postgresql://ann@127.0.0.1:{port}/lake?sslmode=allow").connect(_startup())
        finally:
            server.close()

    assert asyncio.run(connecting()) is None
    assert asked == [_startup().raw]


def test_upstream_when_postgres_refuses_each_way_then_the_client_is_told_both_refusals() -> None:
    async def connecting() -> bytes:
        refusals = iter(("no encryption", "a certificate is needed"))

        async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            said = await reader.readexactly(8)
            if said[4:] == wire.SSL_REQUEST.to_bytes(4, "big"):
                writer.write(wire.NO_TLS)
            writer.write(wire.error("FATAL", next(refusals), "28000"))
            writer.close()

        server = await asyncio.start_server(take, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        try:
            connected = await Upstream.of(f"postgresql://ann@127.0.0.1:{port}/lake?sslmode=allow").connect(_startup())
            assert connected is not None
            connected[1].close()
            return connected[2]
        finally:
            server.close()

    said = wire.error_said(asyncio.run(connecting()))
    assert said == "no encryption; asked in another way: a certificate is needed"


def test_session_when_the_client_is_lost_before_it_heard_of_its_commit_then_its_files_are_watched(
    tmp_path: Path,
) -> None:
    kept = tmp_path / "kept"
    watched: list[Watch] = []
    let_go: list[Path] = []

    def watch() -> Watch:
        watched.append(Watch(kept, TIMEOUT_S, lambda _: None, let_go.append))
        return watched[-1]

    async def lost(client: PlayedClient, _: PlayedPostgres, log: PlayedLog) -> None:
        await client.heard()
        await client.ask(BATCH)
        client.writer.transport.abort()
        while not watched:
            await asyncio.sleep(0)
        assert let_go == []

    async def well(client: PlayedClient, _: PlayedPostgres, log: PlayedLog) -> None:
        await client.heard()
        await client.ask(BATCH)
        assert len(watched) == 1
        await client.ask("COMMIT")
        assert len(watched) == 2
        assert let_go == []
        await client.ask("FROM t")
        assert let_go == [kept]

    play(lost, Answer(watch=watch))
    play(well, Answer(watch=watch))


def test_session_when_the_client_says_nothing_after_its_commit_then_its_files_are_watched_until_it_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the network is gone, it removes them when it finds out: much later perhaps."""
    monkeypatch.setattr("commitlog.gateway.keeping._LOOK_S", LOOK_S)
    looked: list[Path] = []
    let_go: list[Path] = []

    def look(kept: Path) -> bool:
        looked.append(kept)
        return True

    async def scene(client: PlayedClient, _: PlayedPostgres, __: PlayedLog) -> None:
        await client.heard()
        await client.ask(BATCH)
        await client.ask("COMMIT")
        while len(looked) < 3:
            assert let_go == []
            await asyncio.sleep(LOOK_S)
        client.writer.transport.abort()
        while not let_go:
            await asyncio.sleep(LOOK_S)

    play(scene, Answer(watch=lambda: Watch(tmp_path, 0, look, let_go.append)))


@pytest.mark.parametrize("word", ["Primary Key", "UNIQUE", "conflicting", "concurrently"])
def test_unretried_when_a_text_has_a_word_of_the_clients_then_it_is_broken_and_can_be_read(word: str) -> None:
    broken = unretried(f"row {word!r} of a table")
    assert not any(each in broken.lower() for each in ("primary key", "unique", "conflict", "concurrent"))
    assert broken.replace("·", " " if " " in word else "") == f"row {word!r} of a table"


@pytest.mark.parametrize("word", ["UN\u0130QUE", "un\u0131que", "confl\u0131ct", "PR\u0130MARY KEY"])
def test_commit_when_its_refusal_has_letters_that_only_look_like_such_a_word_then_told_as_it_is(word: str) -> None:
    """Turkish writes I with a dot and i without: the client heard nothing, and took the outcome for unknown."""

    async def scene(client: PlayedClient, _: PlayedPostgres, log: PlayedLog) -> None:
        await client.heard()
        await client.ask(BATCH)
        told, _state = await client.ask("COMMIT")
        assert f"there is no column {word}" in told["E"]

    play(scene, Answer(refusal=f"there is no column {word}"))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("COPY ducklake_metadata FROM STDIN", "CONFIGURE"),
        ('CREATE LOCAL TEMPORARY TABLE "update_data_5d74b310-13ab"("value" VARCHAR) ON COMMIT DROP;', "CONFIGURE"),
        ('COPY "public"."ducklake_metadata" ("key", value) FROM STDIN (FORMAT BINARY)', "CONFIGURE"),
        ('delete from "public".ducklake_snapshot WHERE snapshot_id IN (1)', "EXPIRE_SNAPSHOTS"),
        ("DELETE FROM ducklake_files_scheduled_for_deletion", "commitlog clean"),
        ('COPY (SELECT "path" FROM "l".ducklake_files_scheduled_for_deletion ) TO STDOUT', "commitlog clean"),
        ('COPY (SELECT "path" FROM "l"."ducklake_files_scheduled_for_deletion") TO STDOUT', "commitlog clean"),
        ("DELETE FROM \"public\".ducklake_inlined_delete_3 WHERE ctid IN ('(0,1)')", "commitlog.spark"),
        ("CREATE TABLE x (a int)", "commitlog submit"),
    ],
)
def test_refusal_of_statement_when_it_writes_then_says_what_to_do_instead(text: str, told: str) -> None:
    assert told in str(refusal_of_statement(text))


@pytest.mark.parametrize(
    "text",
    [
        "COPY (SELECT 1) TO STDOUT",
        "COPY public.ducklake_table (table_id, path) TO stdout;",
        'copy "commitlog"."from" to stdout',
        "copy valid_from to stdout",
        "copy " + '""' * 60 + " to stdout",
        "SELECT 1",
        "BEGIN",
        "DISCARD ALL",
        "",
        "WITH a AS (SELECT 1)",
    ],
)
def test_refusal_of_statement_when_it_reads_then_none(text: str) -> None:
    assert refusal_of_statement(text) is None


def test_identified_when_the_same_files_come_again_then_the_same_id_of_their_time() -> None:
    newer, older = (
        "ducklake-019a0000-0001-7000-8000-000000000001.parquet",
        "ducklake-01990000-0000-7000-8000-000000000002.parquet",
    )
    first, time_ms = identified([newer, older])
    assert identified([older, newer]) == (first, time_ms)
    assert time_ms == 0x019A00000001
    assert UUID(bytes=first).version == 7
    assert identified([newer])[0] != first


def test_identified_when_nothing_is_named_then_a_new_id_each_time() -> None:
    assert identified([])[0] != identified([])[0]
