"""COPY that is sent while more is collected, by the collector's own connection."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from commitlog.catalog.connecting import Connection
from commitlog.catalog.copying import CopyQueue

INTO_T = b"COPY t FROM STDIN"
LARGER_THAN_A_SOCKET_HOLDS = 40 * 1024 * 1024


@pytest.fixture
def connection(database_url: str) -> Iterator[Connection]:
    with psycopg.connect(database_url, autocommit=True) as conn:
        conn.execute("CREATE TABLE t (id bigint PRIMARY KEY, v text)")
        conn.execute("CREATE TABLE other (id bigint)")
        yield conn


def count(connection: Connection, table: str = "t") -> int:
    row = connection.execute(f"SELECT count(*) FROM {table}").fetchone()  # type: ignore[arg-type]
    assert row is not None
    return int(row[0])


def test_copy_when_several_are_put_then_all_are_there_in_one_transaction(connection: Connection) -> None:
    queue = CopyQueue(connection)
    with connection.transaction():
        queue.put(INTO_T, b"1\ta\n2\tb\n")
        queue.put(b"COPY other FROM STDIN", b"7\n")
        queue.put(INTO_T, b"")
        queue.put(INTO_T, b"3\tc\n")
        assert not queue.is_done
        while not queue.is_done:
            queue.go_on()
        assert count(connection) == 3
        assert queue.size_bytes == 0
    queue.finish()
    assert (count(connection), count(connection, "other")) == (3, 1)


def test_copy_when_it_is_larger_than_the_socket_holds_then_nobody_waits_before_the_end(connection: Connection) -> None:
    row = b"x" * 1024
    rows = LARGER_THAN_A_SOCKET_HOLDS // len(row)
    queue = CopyQueue(connection)
    with connection.transaction():
        queue.put(INTO_T, b"".join(b"%d\t%s\n" % (number, row) for number in range(rows)))
        queue.go_on()
        assert not queue.is_done
        queue.finish()
        assert count(connection) == rows


def test_copy_when_it_is_waited_for_then_something_else_is_done_until_there_is_nothing_more(
    connection: Connection,
) -> None:
    done: list[bool] = []

    def meanwhile() -> bool:
        done.append(len(done) < 2)
        return done[-1]

    row = b"x" * 1024
    rows = LARGER_THAN_A_SOCKET_HOLDS // len(row)
    queue = CopyQueue(connection, meanwhile)
    with connection.transaction():
        queue.put(INTO_T, b"".join(b"%d\t%s\n" % (number, row) for number in range(rows)))
        queue.finish()
        assert count(connection) == rows
    assert done == [True, True, False]


def test_copy_when_one_is_refused_then_what_comes_after_it_is_dropped_and_the_connection_goes_on(
    connection: Connection,
) -> None:
    queue = CopyQueue(connection)
    queue.put(INTO_T, b"1\ta\n1\tb\n")
    queue.put(b"COPY other FROM STDIN", b"7\n")
    with pytest.raises(psycopg.errors.UniqueViolation, match="t_pkey"), connection.transaction():
        queue.finish()
    assert queue.is_done
    assert (count(connection), count(connection, "other")) == (0, 0)
    with connection.transaction():
        queue.put(INTO_T, b"1\ta\n")
        queue.finish()
    assert count(connection) == 1


def test_copy_when_a_table_is_not_there_then_its_error_says_so(connection: Connection) -> None:
    queue = CopyQueue(connection)
    queue.put(b"COPY nowhere FROM STDIN", b"1\n")
    with pytest.raises(psycopg.errors.UndefinedTable, match="nowhere"), connection.transaction():
        queue.finish()
    assert connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


def test_copy_when_the_server_ends_the_session_then_it_is_the_weather(
    connection: Connection, database_url: str
) -> None:
    queue = CopyQueue(connection)
    with psycopg.connect(database_url, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s)", (connection.info.backend_pid,))
    queue.put(INTO_T, b"1\ta\n")
    with pytest.raises(psycopg.OperationalError):
        queue.finish()
    assert queue.is_done
    assert connection.broken
