"""The gateway: an unmodified DuckDB client writes through it, and the log decides."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import duckdb
import psycopg
import pytest
from gateways import gateway_of, losing_clients, stock_client
from log_running import wait_until
from psycopg import sql
from secured_servers import make_certificates

from commitlog.catalog.guard import READER_ROLE, WRITER_ROLE, membership
from commitlog.client import CommitLog
from commitlog.config import Settings
from commitlog.domain import model as m
from commitlog.errors import ConfigurationError


@contextmanager
def login_in(settings: Settings, role: str) -> Iterator[str]:
    """A login that has a role and nothing else: the settings' URL for it."""
    name = f"user_{settings.log.replace('-', '_')}_{role}"
    user = sql.Identifier(name)
    with psycopg.connect(settings.database_url, autocommit=True) as conn:
        conn.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD 'secret'").format(user))
        conn.execute(membership(name, role).encode())
    try:
        yield f"{name}:secret"
    finally:
        with psycopg.connect(settings.database_url, autocommit=True) as conn:
            conn.execute(sql.SQL("DROP OWNED BY {}; DROP ROLE {}").format(user, user))


def files_of(settings: Settings) -> list[str]:
    """What lies in the lake."""
    folder = Path(settings.data_path)
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*.parquet"))


@pytest.mark.usefixtures("gateway_url")
def test_gateway_when_it_listens_at_an_address_of_ipv6_then_what_it_tells_leads_there(settings: Settings) -> None:
    with gateway_of(replace(settings, gateway_host="::1", gateway_port=0)) as url, psycopg.connect(url) as conn:
        assert conn.info.host == "::1"
        assert conn.execute("SELECT count(*) FROM commitlog.lag").fetchone() == (1,)


def test_stock_client_when_it_inserts_then_reads_its_write_and_the_log_has_it(
    settings: Settings, gateway_url: str
) -> None:
    address = gateway_url.partition("@")[2]
    with login_in(settings, WRITER_ROLE) as account, stock_client(f"postgresql://{account}@{address}") as client:
        client.execute("CREATE TABLE t (id BIGINT, v VARCHAR)")
        client.execute("BEGIN")
        client.execute("CALL lake.set_commit_message('ann', 'the first''s; row')")
        client.execute("INSERT INTO t VALUES (1, 'it''s; x')")
        client.execute("COMMIT")
        assert client.execute("FROM t").fetchall() == [(1, "it's; x")]
        client.execute("BEGIN")
        client.execute("INSERT INTO t VALUES (2, 'gone')")
        client.execute("ROLLBACK")
        assert client.execute("SELECT count(*) FROM t").fetchall() == [(1,)]
        with CommitLog.connect(settings=settings) as log:
            created, inserted = log.history()[::-1]
            assert [created.change_kinds, inserted.change_kinds] == [("CREATE_TABLE",), ("APPEND",)]
            assert inserted.message == "the first's; row"
            assert inserted.writer_id == f"duckdb:{account.partition(':')[0]}"
    assert len(files_of(settings)) == 1
    with login_in(settings, READER_ROLE) as account, stock_client(f"postgresql://{account}@{address}") as client:
        assert client.execute("SELECT v FROM t").fetchall() == [("it's; x",)]
        with pytest.raises(duckdb.Error, match="may not write: grant it the role commitlog_writer"):
            client.execute("INSERT INTO t VALUES (3, 'y')")
    assert len(files_of(settings)) == 1


def test_stock_clients_when_they_race_then_inserts_commit_and_what_cannot_stand_is_refused_once(
    settings: Settings, gateway_url: str
) -> None:
    with (
        stock_client(gateway_url) as one,
        stock_client(gateway_url) as two,
        CommitLog.connect(settings=settings) as log,
    ):
        one.execute("CREATE TABLE conflicts (id BIGINT, v VARCHAR)")
        two.execute("BEGIN")
        two.execute("INSERT INTO conflicts VALUES (1, 'unique, concurrent'), (2, 'primary key')")
        one.execute("INSERT INTO conflicts VALUES (3, 'z')")
        two.execute("COMMIT")
        assert two.execute("SELECT id FROM conflicts ORDER BY id").fetchall() == [(1,), (2,), (3,)]
        files = files_of(settings)
        two.execute("BEGIN")
        two.execute("INSERT INTO conflicts VALUES (4, 'unique, concurrent')")
        with log.transaction() as tx:
            tx.alter("conflicts").add_column("w", "int64")
        with pytest.raises(duckdb.Error) as refused:
            two.execute("COMMIT")
        assert "con·flicts - but snapshot 4" in str(refused.value)
        assert "nothing was committed" in str(refused.value)
        answers = [entry.verdict for entry in log.history()]
        assert answers.count(m.Verdict.REJECTED) == 1
        assert answers.count(m.Verdict.COMMITTED) == 4
        assert files_of(settings) == files
        assert two.execute("SELECT count(*), count(w) FROM conflicts").fetchall() == [(3, 0)]


def test_stock_client_when_its_connection_is_lost_then_what_was_committed_is_there_once_with_its_files(
    settings: Settings, gateway_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the log commits and the client does not know: before the answer to its text, and to COMMIT."""
    lost = losing_clients(monkeypatch)
    with stock_client(gateway_url) as client:
        client.execute("CREATE TABLE t (id BIGINT)")
        for number, arrow in enumerate(("at the text", "at COMMIT")):
            client.execute("BEGIN")
            client.execute(f"CALL lake.set_commit_message('ann', '{arrow}')")
            client.execute(f"INSERT INTO t VALUES ({number})")
            with pytest.raises(duckdb.Error):
                client.execute("COMMIT")
    assert lost == ["text", "COMMIT"]
    with stock_client(gateway_url) as other, CommitLog.connect(settings=settings) as log:
        assert log.wait_for_snapshot() == 3
        folder = Path(settings.data_path)
        wait_until(lambda: len(list(folder.rglob("*.parquet"))) == 2, "the files that the client removed")
        assert sorted(other.execute("FROM t").fetchall()) == [(0,), (1,)]
        # Nobody waited for the first one, so that the other may have come before it.
        messages = [entry.message for entry in log.history(verdict="committed")]
        assert sorted(messages[:2], key=str) == ["at COMMIT", "at the text"]
        assert messages[2:] == [None]


def test_stock_client_when_it_asks_for_what_is_not_here_then_told_so_and_nothing_is_done(
    settings: Settings, gateway_url: str
) -> None:
    with stock_client(gateway_url) as client, CommitLog.connect(settings=settings) as log:
        client.execute("CREATE TABLE t (id BIGINT)")
        client.execute("INSERT INTO t VALUES (1)")
        client.execute("INSERT INTO t VALUES (2)")
        unheard = Path(settings.data_path) / "main" / "t" / "of-a-writer-who-has-not-committed-yet.parquet"
        unheard.write_bytes(b"rows")
        files = files_of(settings)
        for statement in (
            "CALL ducklake_cleanup_old_files('lake', cleanup_all => true)",
            "CALL ducklake_delete_orphaned_files('lake', cleanup_all => true)",
            "CHECKPOINT lake",
            "CALL ducklake_merge_adjacent_files('lake')",
            "CALL ducklake_expire_snapshots('lake', versions => [1])",
            "CALL lake.set_option('parquet_compression', 'zstd')",
            "CALL lake.set_option('data_inlining_row_limit', 10)",
            "CREATE MACRO m() AS 1",
        ):
            with pytest.raises(duckdb.Error) as refused:
                client.execute(statement)
            assert "nothing was committed" in str(refused.value), statement
        assert log.head_snapshot_id() == 3
        assert client.execute("SELECT id FROM t ORDER BY id").fetchall() == [(1,), (2,)]
        assert set(files) <= set(files_of(settings))


@pytest.mark.usefixtures("deciding")
def test_stock_clients_when_many_write_at_once_by_tls_then_each_row_is_there_once(
    settings: Settings, tmp_path: Path
) -> None:
    clients, rows = 6, 4
    made = make_certificates(tmp_path / "certificates")
    settings = replace(settings, gateway_tls_cert=made.certificate, gateway_tls_key=made.key)
    with gateway_of(settings) as url:
        url = f"{url}&sslmode=verify-full&sslrootcert={made.authority}"
        with stock_client(url) as client:
            client.execute("CREATE TABLE t (id BIGINT)")

            def write(number: int) -> None:
                with stock_client(url) as mine:
                    for row in range(rows):
                        mine.execute(f"INSERT INTO t VALUES ({number * rows + row})")
                        assert (number * rows + row,) in mine.execute("FROM t").fetchall()

            with ThreadPoolExecutor(clients) as pool:
                list(pool.map(write, range(clients)))
            assert sorted(client.execute("FROM t").fetchall()) == [(n,) for n in range(clients * rows)]
    with CommitLog.connect(settings=settings) as log:
        assert log.head_snapshot_id() == 1 + clients * rows


@pytest.mark.usefixtures("deciding")
def test_gateway_when_its_certificate_is_renewed_then_who_connects_is_shown_that_and_instead_of_a_broken_one_the_one_before(
    settings: Settings, tmp_path: Path
) -> None:
    made = make_certificates(tmp_path / "certificates")
    settings = replace(settings, gateway_tls_cert=made.certificate, gateway_tls_key=made.key)
    with gateway_of(settings) as url:

        def connect() -> None:
            psycopg.connect(f"{url}&sslmode=verify-full&sslrootcert={made.authority}").close()

        connect()
        assert make_certificates(tmp_path / "certificates") == made
        connect()
        made.certificate.write_text("")
        connect()


def test_gateway_when_its_certificate_cannot_even_be_looked_at_then_says_so(settings: Settings) -> None:
    settings = replace(settings, gateway_tls_cert=Path("n" * 300))
    with pytest.raises(ConfigurationError, match=r"certificate n+ cannot be used"), gateway_of(settings):
        pass
