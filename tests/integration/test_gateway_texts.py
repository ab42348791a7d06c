"""What the gateway reads in a commit's text is what PostgreSQL would have read: the text run there leaves the same rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import psycopg
import pytest
from gateway_commits import NAMES, commit
from gateway_texts import broken_texts
from hypothesis import HealthCheck, event, given, settings
from psycopg import sql
from psycopg.rows import dict_row

from commitlog.catalog.tables import DUCKLAKE_COLUMNS
from commitlog.errors import NotUnderstoodError
from commitlog.gateway.batch import Batch, parse

_TYPES = {"i": "bigint", "s": "varchar", "b": "boolean", "t": "timestamptz", "u": "uuid"}
_INLINED = "CREATE TABLE ducklake_inlined_data_1_1 (row_id bigint, begin_snapshot bigint, end_snapshot bigint)"


@pytest.fixture(scope="module")
def catalog(new_database: Callable[[], AbstractContextManager[str]]) -> Iterator[psycopg.Connection[Any]]:
    """A connection to DuckLake's tables, empty and without a guard."""
    with new_database() as url, psycopg.connect(url) as conn:
        for name, text in DUCKLAKE_COLUMNS.items():
            columns = (item.partition(":") for item in text.split())
            shape = ", ".join(f"{column} {_TYPES[kind[0]]}" for column, _, kind in columns)
            conn.execute(f"CREATE TABLE ducklake_{name} ({shape})")
        conn.execute(_INLINED)
        conn.commit()
        yield conn


def rows_after(conn: psycopg.Connection[Any], text: str, tables: Batch) -> dict[str, list[dict[str, Any]]]:
    """The rows that a text leaves in the tables that a batch has rows of; nothing of it stays."""
    try:
        conn.execute(text.encode())
        found = {}
        for name in tables.rows:
            columns = [item.partition(":") for item in DUCKLAKE_COLUMNS[name].split()]
            shown = sql.SQL(", ").join(
                sql.SQL("{}::text").format(sql.Identifier(n)) if k[0] == "u" else sql.Identifier(n)
                for n, _, k in columns
            )
            asked = sql.SQL("SELECT {} FROM {}").format(shown, sql.Identifier(f"ducklake_{name}"))
            found[name] = conn.cursor(row_factory=dict_row).execute(asked).fetchall()
        return found
    finally:
        conn.rollback()


def check(conn: psycopg.Connection[Any], text: str) -> bool:
    """See that PostgreSQL reads a text as we do, if we do."""
    try:
        batch = parse(text)
    except NotUnderstoodError:
        return False
    shown = sorted(repr(sorted(row.items())) for rows in rows_after(conn, text, batch).values() for row in rows)
    assert shown == sorted(repr(sorted(row.items())) for rows in batch.rows.values() for row in rows)
    return True


def test_the_commits_of_stock_clients_are_read_as_postgresql_reads_them(catalog: psycopg.Connection[Any]) -> None:
    assert sum(check(catalog, commit(name).text) for name in NAMES) > 75


@settings(
    max_examples=400, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(text=broken_texts())
def test_a_broken_text_is_refused_or_read_as_postgresql_reads_it(catalog: psycopg.Connection[Any], text: str) -> None:
    event(f"read: {check(catalog, text)}")
