"""What is not as with most who write through the gateway: another schema, clients that cancel."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from pathlib import Path

import duckdb
import psycopg
import pytest
from gateway_checks import faults
from gateway_sides import lake_through_gateway, writing

LOOK_S = 0.02
_SLEEPING = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%' AND state = 'active'"


def test_a_catalog_in_a_schema_of_its_own_is_written_by_clients_who_say_so(
    new_database: Callable[[], AbstractContextManager[str]], tmp_path: Path
) -> None:
    with lake_through_gateway(new_database, tmp_path, schema="my_lake") as (ours, _, url):
        with writing(url, "l", "METADATA_SCHEMA 'my_lake'") as client:
            client.execute("CREATE TABLE l.t (a INTEGER); INSERT INTO l.t VALUES (1), (2); DELETE FROM l.t WHERE a = 1")
            assert client.execute("FROM l.t").fetchall() == [(2,)]
        assert ours.log.head == 3
        with pytest.raises(duckdb.Error), writing(url, "l"):
            pass  # There is no lake in the schema that is meant where none is said, and none is made.
        assert list(faults(ours)) == []


def test_a_query_when_cancelled_through_the_gateway_then_it_ends_and_the_session_goes_on(
    new_database: Callable[[], AbstractContextManager[str]], tmp_path: Path
) -> None:
    with (
        lake_through_gateway(new_database, tmp_path) as (ours, _, url),
        psycopg.connect(url, autocommit=True) as conn,
        ThreadPoolExecutor(1) as pool,
    ):
        running = pool.submit(conn.execute, "SELECT pg_sleep(3600)")
        while ours.conn.execute(_SLEEPING).fetchone() != (1,):
            ours.conn.rollback()
            assert not wait([running], LOOK_S).done
        conn.cancel_safe()
        with pytest.raises(psycopg.errors.QueryCanceled):
            running.result()
        assert conn.execute("SELECT 1").fetchone() == (1,)


def test_a_stock_client_when_interrupted_then_nothing_is_committed_and_it_goes_on(
    new_database: Callable[[], AbstractContextManager[str]], tmp_path: Path
) -> None:
    with (
        lake_through_gateway(new_database, tmp_path) as (ours, commits, url),
        writing(url, "l") as client,
        ThreadPoolExecutor(1) as pool,
    ):
        client.execute("CREATE TABLE l.t AS SELECT range AS id FROM range(1000)")
        begun = client.cursor()
        running = pool.submit(begun.execute, "INSERT INTO l.t SELECT a.id + b.range FROM l.t a, range(10000000000) b")
        while not wait([running], LOOK_S).done:
            begun.interrupt()  # Before the statement has begun it is not heard.
        with pytest.raises(duckdb.InterruptException):
            running.result()
        client.execute("INSERT INTO l.t VALUES (-1)")
        assert client.execute("SELECT count(*) FROM l.t").fetchall() == [(1001,)]
        assert len(commits.outcomes) == ours.log.head == 2
