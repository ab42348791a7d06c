"""Clients of the gateway that do more than write: they cancel, they lie idle in pools, they are many."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import duckdb
import psycopg
import pytest
from gateways import stock_client
from log_running import wait_until

from commitlog.client import CommitLog
from commitlog.config import Settings

CLIENTS = 200
_SLEEPING = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%' AND state = 'active'"
_STATES = "SELECT state, count(*) FROM pg_stat_activity WHERE datname = current_database() GROUP BY 1"


def test_a_query_when_cancelled_through_the_gateway_then_it_ends_and_the_session_goes_on(gateway_url: str) -> None:
    with (
        psycopg.connect(gateway_url, autocommit=True) as conn,
        psycopg.connect(gateway_url, autocommit=True) as other,
        ThreadPoolExecutor(1) as pool,
    ):
        running = pool.submit(conn.execute, "SELECT pg_sleep(3600)")
        wait_until(lambda: other.execute(_SLEEPING).fetchone() == (1,), "a query that runs")
        conn.cancel()
        with pytest.raises(psycopg.errors.QueryCanceled):
            running.result()
        assert conn.execute("SELECT 1").fetchone() == (1,)


def test_a_stock_client_when_interrupted_then_nothing_is_committed_and_it_goes_on(
    settings: Settings, gateway_url: str
) -> None:
    with (
        stock_client(gateway_url) as client,
        CommitLog.connect(settings=settings) as log,
        ThreadPoolExecutor(1) as pool,
    ):
        client.execute("CREATE TABLE t AS SELECT range AS id FROM range(1000)")
        begun = client.cursor()
        begun.execute("USE lake")
        running = pool.submit(begun.execute, "INSERT INTO t SELECT a.id + b.range FROM t a, range(10000000000) b")
        wait_until(lambda: begun.query_progress() >= 0, "a statement that runs")
        begun.interrupt()
        with pytest.raises(duckdb.InterruptException):
            running.result()
        client.execute("INSERT INTO t VALUES (-1)")
        assert client.execute("SELECT count(*) FROM t").fetchall() == [(1001,)]
        assert log.head_snapshot_id() == 2


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
            assert client.execute("SELECT count(*), count(DISTINCT id), max(id) FROM t").fetchone() == expected
        with psycopg.connect(settings.database_url) as conn:
            states = dict(conn.execute(_STATES).fetchall())
        assert states["idle"] >= CLIENTS
        assert "idle in transaction" not in states
    with CommitLog.connect(settings=settings) as log:
        assert log.head_snapshot_id() == 1 + CLIENTS * rows
