"""Who may do what with the catalog, on a PostgreSQL that takes TLS alone: roles, certificates, libpq's options everywhere."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import ssl
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import duckdb
import psycopg
import pytest
from click.testing import CliRunner
from deciding import change, create_table
from gateways import gateway_of
from gateways import stock_client as writing_client
from lakes import TYPES, Lake, some
from psycopg import sql
from replicas import replica_of
from secured_servers import Certificates, SecuredPostgres, make_certificates

from commitlog.catalog import reader
from commitlog.catalog.connecting import connect, told_plainly
from commitlog.catalog.queries import Catalog
from commitlog.client.reading.duckdb_client import attach_statement, open_lake
from commitlog.config import Settings
from commitlog.errors import CatalogUnavailableError, CommitLogError
from commitlog.gateway import wire
from commitlog.gateway.committing import Answer
from commitlog.gateway.server import Gateway, Upstream
from commitlog.local.postgres import EmbeddedPostgres
from commitlog.ops.cli import cli


@pytest.fixture(scope="module")
def certificates(servers_dir: Path) -> Certificates:
    return make_certificates(servers_dir / "catalog-certificates")


@pytest.fixture(scope="module")
def server(servers_dir: Path, certificates: Certificates) -> Iterator[SecuredPostgres]:
    rules = [
        "hostssl all certified 127.0.0.1/32 scram-sha-256 clientcert=verify-ca",
        "hostssl all unasked 127.0.0.1/32 trust clientcert=verify-ca",
        "hostnossl all plain 127.0.0.1/32 scram-sha-256",
        "hostssl all plain 127.0.0.1/32 reject",
    ]
    with SecuredPostgres(servers_dir / "secured-postgres", certificates, secrets.token_hex(16), rules) as server:
        with psycopg.connect(server.url(), autocommit=True) as conn:
            for name in ("certified", "unasked", "plain"):
                conn.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'known'".encode())
        yield server


@pytest.fixture
def lake(server: SecuredPostgres, tmp_path: Path) -> Iterator[Lake]:
    name = f"lake_{secrets.token_hex(4)}"
    with psycopg.connect(server.url(), autocommit=True) as conn:
        conn.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    lake = Lake(server.url(name), tmp_path / "lake")
    lake.commit(create_table())
    lake.append("t", some(1, 2, 3), TYPES)
    yield lake
    lake.close()


@pytest.fixture
def settings(settings: Settings, server: SecuredPostgres) -> Settings:
    """Of a log whose catalog is here."""
    name = f"log_{secrets.token_hex(4)}"
    with psycopg.connect(server.url(), autocommit=True) as conn:
        conn.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    return replace(settings, database_url=server.url(name))


def login(lake: Lake, server: SecuredPostgres) -> str:
    """A user without any right; the URL by which it reaches the lake's database."""
    name, password = f"user_{secrets.token_hex(4)}", secrets.token_hex(16)
    with psycopg.connect(lake.database_url, autocommit=True) as conn:
        conn.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(sql.Identifier(name), sql.Literal(password)))
    return server.url(lake.database_url.rpartition("/")[2].partition("?")[0], name, password)


def test_acl_apply_when_a_login_is_made_a_reader_then_it_reads_and_writes_nothing(
    lake: Lake, server: SecuredPostgres
) -> None:
    reader = login(lake, server)
    name = reader.partition("//")[2].partition(":")[0]
    with pytest.raises(CommitLogError, match=r"permission denied.*acl apply --catalog-reader"), open_lake(reader):
        pass
    settings = Settings.load(environment={}, database_url=lake.database_url, home=lake.folder)
    run = CliRunner(env=settings.environment())
    told = run.invoke(cli, ["acl", "print", "--catalog-reader", name], catch_exceptions=False).output
    assert told == f'GRANT "commitlog_reader" TO "{name}";\n'
    done = run.invoke(cli, ["acl", "apply", "--catalog-reader", name, "--json"], catch_exceptions=False)
    assert '"grants": 1' in done.output
    with open_lake(reader) as client:
        assert client.execute("SELECT count(*) FROM t").fetchone() == (3,)
    with psycopg.connect(reader, autocommit=True) as conn:
        for statement in ("DELETE FROM ducklake_snapshot", "UPDATE commitlog.applied SET seq = 0", "CREATE TABLE x ()"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                conn.execute(statement.encode())


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("sslmode=disable", "no encryption|pg_hba"),
        ("sslmode=verify-full&sslrootcert={strangers}", "certificate"),
        ("sslmode=verify-full&sslrootcert=/nowhere/authority.pem", "certificate"),
    ],
)
def test_client_when_it_asks_for_no_tls_or_trusts_another_authority_then_refused_by_psycopg_and_by_duckdb(
    lake: Lake, certificates: Certificates, options: str, told: str
) -> None:
    url = f"{lake.database_url.partition('?')[0]}?{options.format(strangers=certificates.strangers)}"
    password = url.partition("//")[2].partition("@")[0].partition(":")[2]
    for ask in (lambda: Catalog(url).exists(), lambda: open_lake(url).__enter__(), lambda: _attach(url)):
        with pytest.raises((CommitLogError, duckdb.Error), match=told) as refused:
            ask()
        if isinstance(refused.value, CommitLogError):
            assert password not in f"{refused.value} {refused.value!r}"


def _attach(url: str) -> None:
    from test_catalog_guard import stock_client

    with stock_client(url):
        pass


def test_statement_for_a_stock_client_then_it_has_the_tls_options_and_no_password(lake: Lake) -> None:
    statement = attach_statement(f"{lake.database_url}&sslpassword=hush&oauth_client_secret=hush&scram_client_key=hush")
    password = lake.database_url.partition("//")[2].partition("@")[0].partition(":")[2]
    assert "sslmode=verify-full" in statement
    assert "sslrootcert=" in statement
    assert password not in statement
    assert "hush" not in statement


class NoCommits:
    async def commit(self, text: str, user: str) -> Answer:
        raise AssertionError(f"{user} commits {text}")


@contextmanager
def gateway_to(url: str) -> Iterator[str]:
    """Where a gateway to a PostgreSQL is, and to which database, as a URL has it."""
    stop = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as taken, ThreadPoolExecutor(1) as pool:
        running = pool.submit(lambda: asyncio.run(Gateway(Upstream.of(url), NoCommits()).serve(taken, stop)))
        try:
            yield f"127.0.0.1:{taken.getsockname()[1]}/postgres?sslmode=disable"
        finally:
            stop.set()
            running.result()


@pytest.mark.parametrize(
    ("user", "options", "refused"),
    [
        ("certified", "sslcert={certificate}&sslkey={key}", None),
        (
            "certified",
            "sslmode=require&sslcert={certificate}&sslkey={key}&sslcertmode=disable",
            "requires a valid client certificate",
        ),
        ("certified", "sslmode=require", "requires a valid client certificate"),
        ("unasked", "sslcert={certificate}&sslkey={key}", "without asking for a password"),
        ("plain", "sslmode=prefer", None),
        ("plain", "sslmode=require", "pg_hba"),
        ("certified", "sslmode=allow&sslcert={certificate}&sslkey={key}", None),
        ("plain", "sslmode=allow", None),
        ("unknown", "sslmode=allow", "password authentication failed"),
    ],
)
def test_client_when_the_gateway_speaks_tls_to_postgres_then_it_shows_its_certificate_and_tries_again_as_libpq_does(
    server: SecuredPostgres,
    certificates: Certificates,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    user: str,
    options: str,
    refused: str | None,
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    place = server.url(user=user).partition("?")[0]
    with gateway_to(f"{place}?{options.format(**certificates._asdict())}") as address:
        url = f"postgresql://{user}:known@{address}"
        if refused is None:
            with psycopg.connect(url) as conn:
                assert conn.execute("SELECT current_user").fetchone() == (user,)
        else:
            with pytest.raises(psycopg.OperationalError, match=refused):
                psycopg.connect(url)


def test_client_when_postgres_refuses_the_gateways_certificate_then_the_gateway_says_that_it_cannot_reach_it_and_notes_why(
    certificates: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(certificates.strangers))
    tls.load_cert_chain(certificates.certificate, certificates.key)
    tls.verify_mode = ssl.CERT_REQUIRED

    def refuse(listening: socket.socket) -> None:
        accepted, _ = listening.accept()
        accepted.recv(8)
        accepted.sendall(wire.TLS)
        with tls.wrap_socket(accepted, server_side=True, do_handshake_on_connect=False) as refused:
            with pytest.raises(ssl.SSLError):
                refused.do_handshake()
            # Whoever ends a connection with something unread may take back what was said by it.
            while os.read(refused.fileno(), 4096):
                pass

    startup = wire.read_startup((wire.VERSION_3 << 16).to_bytes(4, "big") + b"user\x00ann\x00\x00")
    with socket.create_server(("127.0.0.1", 0)) as listening, ThreadPoolExecutor(1) as pool:
        refusing = pool.submit(refuse, listening)
        options = f"sslmode=require&sslcert={certificates.certificate}&sslkey={certificates.key}"
        upstream = Upstream.of(f"postgresql://ann@127.0.0.1:{listening.getsockname()[1]}/lake?{options}")
        assert asyncio.run(upstream.connect(startup)) is None
        refusing.result()
    assert "UNKNOWN_CA" in caplog.text.upper().replace(" ", "_")


def test_gateway_when_one_of_several_servers_is_a_replica_then_sessions_go_to_the_one_that_the_url_asks_for(
    tmp_path: Path,
) -> None:
    with EmbeddedPostgres(tmp_path / "primary") as primary:
        primary.create_database("lake")
    startup = wire.read_startup((wire.VERSION_3 << 16).to_bytes(4, "big") + b"user\x00ann\x00\x00")

    async def reached(url: str) -> int | None:
        connected = await Upstream.of(url).connect(startup)
        if connected is None:
            return None
        connected[1].close()
        port: int = connected[1].get_extra_info("peername")[1]
        return port

    with replica_of(tmp_path / "primary") as replica:
        with EmbeddedPostgres(tmp_path / "primary") as primary:
            account = primary.database_url("lake").rpartition("@")[0]
            url = f"{account}@127.0.0.1:{replica.port},127.0.0.1:{primary.port}/lake?sslmode=disable&target_session_attrs="
            told = {wish: asyncio.run(reached(f"{url}{wish}")) for wish in ("any", "standby", "primary", "read-write")}
        assert asyncio.run(reached(f"{url}read-write")) is None
    assert told == {wish: replica.port if wish in ("any", "standby") else primary.port for wish in told}


@pytest.mark.usefixtures("deciding")
@pytest.mark.parametrize("has_certificate", [False, True])
def test_stock_client_when_the_gateway_speaks_tls_to_postgres_then_it_writes_by_the_url_that_is_told(
    settings: Settings, certificates: Certificates, *, has_certificate: bool
) -> None:
    if has_certificate:
        settings = replace(settings, gateway_tls_cert=certificates.certificate, gateway_tls_key=certificates.key)
    # A URL that says nothing of TLS asks for it where there is some, as libpq does.
    for number, database_url in enumerate((settings.database_url, settings.database_url.partition("?")[0])):
        with gateway_of(replace(settings, database_url=database_url)) as url, writing_client(url) as client:
            client.execute(f"CREATE TABLE t{number} AS SELECT {number} AS id")
            assert client.execute(f"FROM t{number}").fetchall() == [(number,)]


def test_url_when_the_password_is_wrong_then_refused_without_telling_it(lake: Lake) -> None:
    wrong = lake.database_url.replace("postgres:", "postgres:hush", 1)
    with pytest.raises(CatalogUnavailableError, match="password authentication failed") as refused:
        Catalog(wrong).exists()
    assert "hush" not in str(refused.value)


def test_stock_client_when_rows_are_deleted_and_snapshots_expire_between_two_statements_then_it_sees_one_moment(
    lake: Lake,
) -> None:
    with open_lake(lake.database_url) as client:
        client.execute("BEGIN")
        assert client.execute("SELECT sum(id) FROM t").fetchone() == (6,)
        lake.commit(change("DELETE", "t", positions=[{"data_file_id": 0, "rows": [0]}]))
        lake.commit({"kind": "EXPIRE_SNAPSHOTS", "older_than_snapshot_id": lake.log.head})
        assert client.execute("SELECT sum(id) FROM t").fetchone() == (6,)
        client.execute("COMMIT")
        assert client.execute("SELECT sum(id) FROM t").fetchone() == (5,)


def test_connection_when_made_then_a_server_that_is_gone_without_a_word_is_noticed_and_the_url_has_the_last_word(
    lake: Lake,
) -> None:
    for url, idle in ((lake.database_url, "10"), (f"{lake.database_url}&keepalives_idle=77", "77")):
        with connect(url) as conn, closing(Catalog(url)) as catalog, catalog.connected() as reading:
            told = [each.info.get_parameters() for each in (conn, reading)]
        assert [each["keepalives_idle"] for each in told] == [idle, idle]
        assert [each.get("tcp_user_timeout") for each in told] == [None, "30000"]
        assert [each["sslmode"] for each in told] == ["verify-full", "verify-full"]


def test_reader_when_somebody_keeps_a_table_locked_then_it_is_told_so_in_time(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "_LOCKED_S_MAX", 1)
    with closing(Catalog(lake.database_url)) as catalog, connect(lake.database_url) as somebody:
        somebody.execute("LOCK TABLE ducklake_snapshot IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(CatalogUnavailableError, match="lock timeout"):
            catalog.head_snapshot_id()
        somebody.rollback()
        assert catalog.head_snapshot_id() > 0


def test_catalog_when_it_answers_that_it_can_only_be_read_for_now_then_it_is_not_said_to_be_silent(lake: Lake) -> None:
    with connect(lake.database_url) as conn:
        conn.execute("SET TRANSACTION READ ONLY")
        refused = pytest.raises(
            CatalogUnavailableError, match=r"cannot serve the request now: .* read-only transaction"
        )
        with refused as told, told_plainly(lake.database_url):
            conn.execute("CREATE TABLE other ()")
    assert "commitlog up" not in str(told.value)
