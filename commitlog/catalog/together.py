"""Many tables of the catalog, looked at some at a time: there can be more of them than PostgreSQL has locks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, TypeVar

from psycopg import sql

from commitlog.catalog.connecting import Connection

T = TypeVar("T")
TOGETHER = 200


def in_parts(tables: Iterable[T]) -> Iterator[list[T]]:
    """The tables in parts, each as large as one SQL transaction takes."""
    left = iter(tables)
    while part := list(islice(left, TOGETHER)):
        yield part


def looked_at(conn: Connection, looks: Iterable[sql.Composed]) -> Iterator[tuple[Any, ...]]:
    """The rows of queries, each of one table; in the caller's SQL transaction.

    Some are asked at a time, within a savepoint that is rolled back, which releases the locks on what was looked at.
    """
    for part in in_parts(looks):
        with conn.transaction(force_rollback=True):
            rows = conn.execute(sql.SQL(" UNION ALL ").join(part)).fetchall()
        yield from rows
