"""Many tables of the catalog, some together: there can be more of them than PostgreSQL has locks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, TypeVar

from psycopg import sql

from commitlog.catalog.connecting import Connection

T = TypeVar("T")
TOGETHER = 200


def in_parts(tables: Iterable[T]) -> Iterator[list[T]]:
    """As many as one SQL transaction takes, then the next."""
    left = iter(tables)
    while part := list(islice(left, TOGETHER)):
        yield part


def looked_at(conn: Connection, looks: Iterable[sql.Composed]) -> Iterator[tuple[Any, ...]]:
    """The rows of queries, each of one table; in the caller's SQL transaction.

    Some are asked together in a part of it that is rolled back, which gives the locks on what was looked at back.
    """
    for part in in_parts(looks):
        with conn.transaction(force_rollback=True):
            rows = conn.execute(sql.SQL(" UNION ALL ").join(part)).fetchall()
        yield from rows
