"""The stock client, as the reader role, reads while about a thousand commits a second land: each answer is one snapshot.

Every commit writes its number in four places: the one row of a keyed table, a new row of another, and the one live file of
each of two tables, which it replaces. Whatever two places a reader looks at, in one query or in one transaction, must
tell the same number.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pyarrow as pa
import pytest
from deciding import change, create_table, insert, keyed_table, update
from lakes import Lake
from psycopg import sql

from commitlog.catalog.guard import READER_ROLE
from commitlog.client.reading.duckdb_client import open_lake

COMMITS = 6000
COMMITS_A_SECOND = 1000
BATCH = 250
FILES = 97
"""Files are written once and used in turn, so that the writer is as fast as its catalog."""
ROWS_A_FILE = 3
SECONDS_MAX = 14

NUMBERS = """SELECT (SELECT n FROM latest), (SELECT count(*) FROM every), (SELECT max(id) FROM every),
    (SELECT sum(id) FROM every)"""
FILED = """SELECT (SELECT n FROM latest), count(*), min(n), max(n), sum(n), (SELECT count(*) FROM {second}),
    (SELECT min(n) FROM {second}), (SELECT max(n) FROM {second}), (SELECT sum(n) FROM {second}) FROM {first}"""


@pytest.fixture
def reader_url(lake: Lake) -> Iterator[str]:
    """A user who has the reader role and nothing else."""
    name, password = f"reader_{uuid.uuid4().hex[:8]}", uuid.uuid4().hex
    with psycopg.connect(lake.database_url, autocommit=True) as conn:
        conn.execute(
            sql.SQL("CREATE ROLE {} LOGIN PASSWORD {} IN ROLE {}").format(
                sql.Identifier(name), sql.Literal(password), sql.Identifier(READER_ROLE)
            )
        )
        parts = urlsplit(lake.database_url)
        yield urlunsplit(parts._replace(netloc=f"{name}:{password}@{parts.hostname}:{parts.port}"))
        conn.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(name)))


def decide_all(lake: Lake) -> None:
    """Decide every commit; number n is in file n modulo FILES."""
    lake.commit(create_table("a", "n int64"), create_table("b", "n int64"))
    lake.commit(
        keyed_table("latest", "id int64, n int64"), keyed_table("every", "id int64"), insert("latest", id=0, n=0)
    )
    files = {
        table: [lake.write(table, [{"n": n}] * ROWS_A_FILE, {"n": pa.int64()}) for n in range(FILES)] for table in "ab"
    }
    lake.log.commit(*(change("APPEND", table, files=[files[table][0]]) for table in "ab"))
    for n in range(1, COMMITS + 1):
        changes: list[dict[str, Any]] = [insert("every", id=n), update(0, "latest", n=n)]
        for table in "ab":
            changes.append(change("DELETE", table, whole_files=live_files(lake, table)))
            changes.append(change("APPEND", table, files=[files[table][n % FILES]]))
        lake.log.commit(*changes)


def live_files(lake: Lake, name: str) -> list[int]:
    return next(list(t.live_files) for t in lake.log.state.tables.values() if t.name == name)


class Landing(threading.Thread):
    """Projects what was decided, in batches, no faster than COMMITS_A_SECOND."""

    def __init__(self, lake: Lake) -> None:
        super().__init__(name="landing")
        self.lake = lake
        self.stopping = threading.Event()
        self.error: BaseException | None = None
        self.landed = 0
        self.seconds = 0.0

    def run(self) -> None:
        try:
            self.land()
        except BaseException as error:
            self.error = error

    def land(self) -> None:
        outcomes, start = self.lake.log.outcomes[self.lake.projected :], time.monotonic()
        while self.landed < len(outcomes) and not self.stopping.wait(
            start + self.landed / COMMITS_A_SECOND - time.monotonic()
        ):
            with self.lake.conn.transaction():
                self.lake.projection.project(outcomes[self.landed : self.landed + BATCH])
            self.landed += len(outcomes[self.landed : self.landed + BATCH])
            self.seconds = time.monotonic() - start


def check_numbers(answer: tuple[Any, ...]) -> int:
    """The keyed tables tell one number, and every one up to it is there."""
    number, count, highest, total = answer
    assert (count, highest, total) == (number, number or None, number * (number + 1) // 2 or None), answer
    return int(number)


def check_files(answer: tuple[Any, ...]) -> int:
    """Both tables hold the one file of the number in the keyed table."""
    number, *rest = answer
    value = number % FILES
    assert rest == [ROWS_A_FILE, value, value, ROWS_A_FILE * value] * 2, answer
    return int(number)


def test_reader_role_reads_while_commits_land_then_every_answer_is_one_snapshot(lake: Lake, reader_url: str) -> None:
    decide_all(lake)
    with lake.conn.transaction():
        lake.projection.project(lake.log.outcomes[lake.projected : 3])
    lake.projected = 3
    landing = Landing(lake)
    seen: list[int] = []
    with open_lake(reader_url) as client:

        def ask(query: str) -> tuple[Any, ...]:
            row = client.execute(query).fetchone()
            assert row is not None
            return tuple(row)

        landing.start()
        deadline = time.monotonic() + SECONDS_MAX
        while landing.is_alive() and time.monotonic() < deadline:
            seen.append(check_numbers(ask(NUMBERS)))
            seen.append(check_files(ask(FILED.format(first="a", second="b"))))
            client.execute("BEGIN")
            inside = [check_files(ask(FILED.format(first="b", second="a"))), check_numbers(ask(NUMBERS))]
            past = ask("SELECT id FROM ducklake_current_snapshot('lake')")[0]
            client.execute("COMMIT")
            assert inside == [past - 3] * 2
            seen.append(past - 3)
            assert ask(f"SELECT max(n) FROM a AT (VERSION => {past})") == ((past - 3) % FILES,)
        landing.stopping.set()
        landing.join()
        assert landing.error is None
        assert check_numbers(ask(NUMBERS)) == check_files(ask(FILED.format(first="a", second="b"))) == landing.landed
    assert seen == sorted(seen)
    assert len(set(seen)) >= 5, f"{len(seen)} answers of {sorted(set(seen))}"
    print(f"{landing.landed / landing.seconds:.0f} commits/s, {len(seen)} answers, {len(set(seen))} snapshots")
