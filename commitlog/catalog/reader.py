"""A connection that only reads the catalog, opened at first use and opened anew after a failure.

So a restarted PostgreSQL costs a reader one error at most. One that was killed may come back a moment older, for the
projector does not wait for the disk: whoever reads is told when the connection is another one, before it is used.

What takes several statements reads them in one SQL transaction (``at_once``), so that nothing that the projector writes
meanwhile, such as an expiry, is seen by some of them only.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any, Concatenate, LiteralString, ParamSpec, TypeVar

import psycopg
from psycopg import IsolationLevel, sql
from psycopg.pq import TransactionStatus
from psycopg.rows import dict_row

from commitlog.catalog.connecting import Connection, connect_plainly, is_weather, told_plainly

FULL_TIMEOUT_S = 30.0
_FULL_PAUSE_S = 0.1
_UNTAKEN_MS_MAX = 30_000
"""For so long may a question be on its way to a machine that does not take it. What a projector writes may be: it is much,
and waits in a server that is busy."""
_LOCKED_S_MAX = 30
"""For so long may somebody else have locked a table that is read, unless the site says how long."""
_BOUND_LOCKS = "SELECT set_config('lock_timeout', %s || 's', false) WHERE current_setting('lock_timeout') = '0'"
_FULL = ("too many clients", "remaining connection slots", "too many connections")

CatalogT = TypeVar("CatalogT", bound="CatalogReader")
Parameters = ParamSpec("Parameters")
Answer = TypeVar("Answer")


def of_one_moment(
    read: Callable[Concatenate[CatalogT, Parameters], Answer],
) -> Callable[Concatenate[CatalogT, Parameters], Answer]:
    """Let a function read everything that it asks the catalog, its first argument, as of one moment."""

    @wraps(read)
    def reading(catalog: CatalogT, /, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Answer:
        with catalog.at_once():
            return read(catalog, *args, **kwargs)

    return reading


class CatalogReader:
    """A connection to one log's catalog. Safe to share between threads: they take turns.

    Args:
        database_url: where it is.
        connected_again: is called when a connection takes the place of one that was lost, before it is used; while it raises,
            nothing is read.
    """

    def __init__(self, database_url: str, *, connected_again: Callable[[], None] = lambda: None) -> None:
        self._url = database_url
        self._connected_again = connected_again
        self._was_connected = False
        self._conn: Connection | None = None
        self._lock = threading.RLock()

    def close(self) -> None:
        """Let go of the connection."""
        with self._lock:
            if self._conn is not None:
                self._conn.close()
                self._conn = None

    @contextmanager
    def connected(self) -> Iterator[Connection]:
        """The connection, for one reader at a time.

        Raises:
            CatalogUnavailableError: PostgreSQL does not answer.
            CatalogRefusedError: it answers and refuses: there is no catalog, or this user may not read it.
        """
        with self._lock, told_plainly(self._url):
            try:
                if self._conn is None or self._conn.closed:
                    self._conn = self._connect()
                yield self._conn
            except psycopg.Error as error:
                if is_weather(error):
                    self.close()
                raise
            except Exception:
                raise
            except BaseException:
                # Interrupted within a statement it would refuse the next one.
                self.close()
                raise

    def _connect(self) -> Connection:
        conn = _connected(self._url)
        try:
            if self._was_connected:
                self._connected_again()
        except BaseException:
            conn.close()
            raise
        self._was_connected = True
        return conn

    @contextmanager
    def at_once(self) -> Iterator[Connection]:
        """Everything that is read in the block is as of one moment: one SQL transaction, one snapshot of the database."""
        with self.connected() as conn:
            if conn.info.transaction_status is TransactionStatus.INTRANS:
                yield conn
                return
            with conn.transaction():
                # Before anything is read: a rebuild that exchanges the tables then has done it, or waits for us.
                conn.execute("LOCK TABLE ducklake_snapshot IN ACCESS SHARE MODE")
                yield conn

    def _select(
        self, query: LiteralString | sql.SQL | sql.Composed, parameters: Sequence[Any] | Mapping[str, Any] = ()
    ) -> list[tuple[Any, ...]]:
        with self.connected() as conn:
            return conn.execute(query, parameters).fetchall()

    def _records(self, query: sql.SQL, parameters: Sequence[Any] = ()) -> list[dict[str, Any]]:
        with self.connected() as conn, conn.cursor(row_factory=dict_row) as cursor:
            return cursor.execute(query, parameters).fetchall()


def _connected(url: str) -> Connection:
    """A new connection; a server that has as many as it takes is asked again, for a while."""
    deadline = time.monotonic() + FULL_TIMEOUT_S
    while True:
        try:
            conn = connect_plainly(url, autocommit=True, tcp_user_timeout=_UNTAKEN_MS_MAX)
            conn.execute(_BOUND_LOCKS, (_LOCKED_S_MAX,))
            conn.isolation_level = IsolationLevel.REPEATABLE_READ
            conn.read_only = True
            return conn
        except psycopg.OperationalError as error:
            # While it connects psycopg gives no SQLSTATE, only what the server says.
            if not any(words in str(error) for words in _FULL) or time.monotonic() > deadline:
                raise
            time.sleep(_FULL_PAUSE_S)
