"""Much at once through a gateway: two hundred clients, and a commit of ten thousand files."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import duckdb
import psycopg
import pytest
from click.testing import CliRunner
from gateways import stock_client

from commitlog.client import CommitLog
from commitlog.client.files.lake import claim
from commitlog.config import Settings
from commitlog.log.genesis import require_genesis
from commitlog.ops.cli import cli

CLIENTS = 200
FILES = 10_000
_STATES = "SELECT state, count(*) FROM pg_stat_activity WHERE datname = current_database() GROUP BY 1"


@pytest.mark.nightly
def test_two_hundred_clients_when_they_write_at_once_then_each_row_is_there_once_and_all_lie_idle(
    settings: Settings, gateway_url: str
) -> None:
    rows = 2
    with ExitStack() as open_clients, ThreadPoolExecutor(CLIENTS) as pool:

        def attached(_: int) -> duckdb.DuckDBPyConnection:
            client = stock_client(gateway_url)
            found = client.__enter__()
            open_clients.push(client)
            found.execute("SET threads = 1")
            return found

        clients: list[duckdb.DuckDBPyConnection] = []
        for start in range(0, CLIENTS, 8):
            clients += pool.map(attached, range(start, start + 8))
        clients[0].execute("CREATE TABLE t (id BIGINT)")

        def write(number: int) -> None:
            for row in range(rows):
                clients[number].execute(f"INSERT INTO t VALUES ({number * rows + row})")

        list(pool.map(write, range(CLIENTS)))
        expected = (CLIENTS * rows, CLIENTS * rows, CLIENTS * rows - 1)
        for client in (clients[0], clients[-1]):
            # What was not fetched to its end holds its transaction open.
            assert client.execute("SELECT count(*), count(DISTINCT id), max(id) FROM t").fetchall() == [expected]
        with psycopg.connect(settings.database_url) as conn:
            states = dict(conn.execute(_STATES).fetchall())
        assert states["idle"] >= CLIENTS
        assert "idle in transaction" not in states
    with CommitLog.connect(settings=settings) as log:
        assert log.head_snapshot_id() == 1 + CLIENTS * rows


@pytest.mark.nightly
def test_a_client_when_it_commits_ten_thousand_files_then_they_are_one_proposal_by_the_logs_first_settings(
    settings: Settings, gateway_url: str
) -> None:
    claim(settings.data_path, require_genesis(settings).log_id, settings.log)
    with stock_client(gateway_url) as client:
        client.execute("CREATE TABLE t (a INTEGER, b INTEGER)")
        client.execute("ALTER TABLE t SET PARTITIONED BY (a)")
        client.execute(f"INSERT INTO t SELECT range, 2 * range FROM range({FILES})")
        files = "SELECT count(*) FROM ducklake_list_files('lake', 't')"
        assert client.execute(files).fetchall() == [(FILES,)]
        client.execute("DELETE FROM t WHERE b % 4 = 0")
        found = client.execute("SELECT count(*), sum(b) FROM t").fetchall()
        assert found == [(FILES // 2, sum(range(2, 2 * FILES, 4)))]
    with CommitLog.connect(settings=settings) as log:
        kinds = [entry.change_kinds for entry in log.history()]
    assert kinds == [("DELETE",), ("APPEND",), ("ALTER_TABLE",), ("CREATE_TABLE",)]
    for command in ("doctor", "verify"):
        done = CliRunner().invoke(cli, [command], env=settings.environment())
        assert done.exit_code == 0, done.output
