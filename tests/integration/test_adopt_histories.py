"""Random histories of the stock client, taken over: the same rows at every snapshot that is kept."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from stock import snapshots, stock_lake, taken_over

from commitlog.client.reading.duckdb_client import open_lake

SEEDS = range(int(os.environ.get("COMMITLOG_TEST_HISTORIES", "2")))
STEPS = 30


class History:
    """What a user of one table might do next, from a seed."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.columns = ["id", "v"]
        self.names = 0
        self.next_id = 0

    def statements(self) -> Iterator[str]:
        """One more step."""
        chance = self.chance
        kinds = ["insert"] * 4 + ["delete"] * 4 + ["update"] * 3 + ["maintain"] * 3 + ["alter", "partition", "mixed"]
        yield from getattr(self, chance.choice(kinds))()

    def insert(self) -> Iterator[str]:
        count = self.chance.choice([1, 3, 40, 60])
        values = ["i"] + [f"'{name}' || i" for name in self.columns[1:]]
        first, self.next_id = self.next_id, self.next_id + count
        yield f"INSERT INTO t SELECT {', '.join(values)} FROM range({first}, {self.next_id}) g(i)"

    def _where(self) -> str:
        first = self.chance.randrange(self.next_id + 1)
        return f"id BETWEEN {first} AND {first + self.chance.choice([0, 1, 5, 30, 100])}"

    def delete(self) -> Iterator[str]:
        yield f"DELETE FROM t WHERE {self._where()}"

    def update(self) -> Iterator[str]:
        if len(self.columns) > 1:
            self.names += 1
            yield f"UPDATE t SET {self.chance.choice(self.columns[1:])} = 'u{self.names}' WHERE {self._where()}"

    def mixed(self) -> Iterator[str]:
        yield "BEGIN"
        for step in self.chance.sample(["insert", "delete", "update", "insert"], 3):
            yield from getattr(self, step)()
        yield "COMMIT"

    def maintain(self) -> Iterator[str]:
        yield self.chance.choice(
            [
                "CALL ducklake_flush_inlined_data('lake')",
                "CALL ducklake_merge_adjacent_files('lake')",
                "CALL ducklake_rewrite_data_files('lake', 't', delete_threshold => 0.1)",
            ]
        )

    def alter(self) -> Iterator[str]:
        self.names += 1
        name = f"c{self.names}"
        if len(self.columns) > 2 and self.chance.random() < 0.5:
            gone = self.columns.pop(self.chance.randrange(1, len(self.columns)))
            yield f"ALTER TABLE t DROP COLUMN {gone}"
        elif len(self.columns) > 1 and self.chance.random() < 0.4:
            at = self.chance.randrange(1, len(self.columns))
            old, self.columns[at] = self.columns[at], name
            yield f"ALTER TABLE t RENAME COLUMN {old} TO {name}"
        else:
            self.columns.append(name)
            yield f"ALTER TABLE t ADD COLUMN {name} VARCHAR DEFAULT 'd{self.names}'"

    def partition(self) -> Iterator[str]:
        yield self.chance.choice(
            ["ALTER TABLE t SET PARTITIONED BY (bucket(2, id))", "ALTER TABLE t RESET PARTITIONED BY"]
        )


def rows_of(connection: duckdb.DuckDBPyConnection, table: str) -> str:
    try:
        return repr(sorted(connection.execute(f"SELECT * FROM {table}").fetchall(), key=repr))
    except duckdb.Error as error:
        return str(error)


def row_ids_repeat(connection: duckdb.DuckDBPyConnection, snapshot_id: int) -> bool:
    query = f"SELECT count(*) > count(DISTINCT rowid) FROM t AT (VERSION => {snapshot_id})"
    return connection.execute(query).fetchone() == (True,)


def filters_that_lose_rows(connection: duckdb.DuckDBPyConnection, history: History) -> list[str]:
    """Filters whose answer differs from that of the same filter where statistics are of no help."""
    bounds = [(f"id >= {n}", f"id + 0 >= {n}") for n in range(0, history.next_id, 37)]
    bounds += [(f"{c} = 'u{n}'", f"{c} || '' = 'u{n}'") for c in history.columns[1:] for n in range(history.names)]
    count = "SELECT count(*) FROM t WHERE "
    return [
        a for a, b in bounds if connection.execute(count + a).fetchone() != connection.execute(count + b).fetchone()
    ]


@pytest.mark.parametrize("seed", SEEDS)
def test_adopt_when_the_history_is_random_then_the_same_rows_at_every_snapshot(
    seed: int, tmp_path: Path, database_url: str
) -> None:
    lake, history = stock_lake("sqlite", tmp_path), History(seed)
    done: list[str] = ["CREATE TABLE t (id INTEGER, v VARCHAR)"]
    seen: dict[int, str] = {}
    with lake.client() as connection:
        connection.execute(done[0])
        for _ in range(STEPS):
            for statement in history.statements():
                try:
                    connection.execute(statement)
                    done.append(statement)
                except duckdb.Error as error:
                    done.append(f"-- {statement}: {str(error).splitlines()[0]}")
                    if "INTERNAL" in str(error):
                        break
            found = connection.execute("SELECT max(snapshot_id) FROM ducklake_snapshots('lake')").fetchone()
            assert found is not None
            done.append(f"-- snapshot {found[0]}")
            seen.setdefault(found[0], rows_of(connection, "t"))
        if seed % 2:
            head = connection.execute("SELECT max(snapshot_id) FROM ducklake_snapshots('lake')").fetchone()
            assert head is not None
            kept = history.chance.randrange(1, head[0])
            versions = ", ".join(map(str, range(kept)))
            connection.execute(f"CALL ducklake_expire_snapshots('lake', versions => [{versions}])")
            done.append(f"-- expired below {kept}")
    taken_over(lake.source, database_url)
    # Not the source's answer alone: after maintenance the stock client does not always read its own past right.
    with lake.reader() as theirs, open_lake(database_url) as ours:
        kept = {snapshot_id for snapshot_id, *_ in snapshots(theirs)}
        differing = [
            snapshot_id
            for snapshot_id, rows in seen.items()
            if snapshot_id in kept
            and rows_of(ours, f"t AT (VERSION => {snapshot_id})")
            not in (rows, rows_of(theirs, f"t AT (VERSION => {snapshot_id})"))
        ]
        repeated = [n for n in kept if n and row_ids_repeat(ours, n)]
        unfiltered = filters_that_lose_rows(ours, history)
    assert (differing, repeated, unfiltered) == ([], [], []), "\n".join(done)
