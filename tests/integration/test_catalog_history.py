"""Random histories: the stock client reads, at every snapshot, the rows that an obvious model says; and a catalog that was
projected in one go equals one whose projector was restarted after every outcome.
"""

from __future__ import annotations

import random
import time
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from deciding import alter, change, create_table, delete_row, insert, keyed_table, update
from lakes import TYPES, Lake, some
from psycopg.sql import SQL, Identifier
from stock import attached

from commitlog.catalog.guard import mark_projector
from commitlog.catalog.history import HistoryFilter, HistoryReader
from commitlog.catalog.migrations import create_catalog
from commitlog.catalog.projecting.snapshots import Projection
from commitlog.catalog.queries import Catalog
from commitlog.catalog.snapshot_diff import TableDifference, differences
from commitlog.catalog.table_changes import ReadersCatalog
from commitlog.client.reading.duckdb_client import connection_text, open_lake
from commitlog.client.reading.scan import Scan
from commitlog.client.tables.names import TableName

STEPS = 40
ROW_ID = "_ducklake_internal_row_id"


@dataclass
class ModelFile:
    """A data file: its path, its rows by column id with their row ids, and what was deleted of it, in which form."""

    path: str
    rows: list[tuple[int, dict[int, Any]]]
    by_position: set[int] = field(default_factory=set)
    by_file: set[int] = field(default_factory=set)

    def live(self) -> list[tuple[int, dict[int, Any]]]:
        return [row for n, row in enumerate(self.rows) if n not in self.by_position | self.by_file]


class History:
    """A lake and its model, driven by a seed."""

    def __init__(self, lake: Lake, seed: int) -> None:
        self.lake = lake
        self.random = random.Random(seed)
        self.files: dict[int, ModelFile] = {}
        self.keyed: dict[int, str] = {}
        self.columns: list[tuple[int, str, int | None]] = [(1, "id", None), (2, "n", None)]
        self.next_column, self.next_row = 3, 0
        self.expected: dict[int, tuple[list[tuple[Any, ...]], list[tuple[int, str]]]] = {}
        lake.commit(create_table("t", "id int64, n int64"), keyed_table("k"))
        self.note()

    def note(self) -> None:
        rows = [
            (row_id, *(row.get(column, default) for column, _, default in self.columns))
            for file in self.files.values()
            for row_id, row in file.live()
        ]
        self.expected[self.lake.log.head] = sorted(rows, key=repr), sorted(self.keyed.items())

    def step(self) -> None:
        steps = [self.append] * 4 + [self.delete] * 3 + [self.delete_file] * 2 + [self.rows] * 4
        steps += [self.whole, self.compact, self.add_column, self.rename_column, self.drop_column]
        self.random.choice(steps)()
        self.note()

    def values(self) -> dict[int, Any]:
        return {column: self.random.choice([None, self.random.randint(-99, 99)]) for column, _, _ in self.columns}

    def write(self, rows: list[tuple[int, dict[int, Any]]], *, with_ids: bool) -> dict[str, Any]:
        named = [{ROW_ID: row_id, **{n: row.get(c, default) for c, n, default in self.columns}} for row_id, row in rows]
        types = {name: pa.int64() for _, name, _ in self.columns}
        more: dict[str, Any] = {}
        if with_ids:
            types[ROW_ID] = pa.int64()
            more["ids"] = {ROW_ID: {"PARQUET:field_id": "2147483540"}}
        file = self.lake.write("t", named, types, **more)
        if self.random.random() < 0.03:
            file["statistics"] = self.random.sample(file["statistics"], self.random.randint(0, len(self.columns) - 1))
        return file

    def append(self) -> None:
        rows = [(self.next_row + n, self.values()) for n in range(self.random.randint(1, 5))]
        file = self.write(rows, with_ids=False)
        data_file_id = self.lake.log.state.next_file_id
        self.lake.commit(change("APPEND", files=[file]))
        self.files[data_file_id] = ModelFile(file["path"], rows)
        self.next_row += len(rows)

    def some_live(self) -> tuple[int, list[int]] | None:
        candidates = [(f, p) for f, file in self.files.items() if (p := self.live_positions(file))]
        if not candidates:
            return None
        data_file_id, positions = self.random.choice(candidates)
        return data_file_id, sorted(self.random.sample(positions, self.random.randint(1, len(positions))))

    def live_positions(self, file: ModelFile) -> list[int]:
        return [n for n in range(len(file.rows)) if n not in file.by_position | file.by_file]

    def delete(self) -> None:
        if (found := self.some_live()) is not None:
            data_file_id, positions = found
            self.lake.commit(change("DELETE", positions=[{"data_file_id": data_file_id, "rows": positions}]))
            self.files[data_file_id].by_position.update(positions)

    def delete_file(self) -> None:
        if (found := self.some_live()) is not None:
            data_file_id, positions = found
            file = self.files[data_file_id]
            file.by_file.update(positions)
            rows = sorted(file.by_file)
            entry = {
                "data_file_id": data_file_id,
                "path": self.lake.delete_file(file.path, rows),
                "path_is_relative": False,
                "rows": rows,
                "file_size_bytes": 900,
            }
            self.lake.commit(change("DELETE", delete_files=[entry]))

    def whole(self) -> None:
        if self.files:
            data_file_id = self.random.choice(list(self.files))
            self.lake.commit(change("DELETE", whole_files=[data_file_id]))
            del self.files[data_file_id]

    def compact(self) -> None:
        if not self.files:
            return
        chosen = self.random.sample(list(self.files), self.random.randint(1, len(self.files)))
        rows = [row for data_file_id in chosen for row in self.files[data_file_id].live()]
        files = [self.write(rows, with_ids=True)] if rows else []
        data_file_id = self.lake.log.state.next_file_id
        self.lake.commit(change("COMPACT", replaced=chosen, files=files))
        filled = [(r, {c: row.get(c, default) for c, _, default in self.columns}) for r, row in rows]
        for gone in chosen:
            del self.files[gone]
        if files:
            self.files[data_file_id] = ModelFile(files[0]["path"], filled)

    def add_column(self) -> None:
        default = self.random.choice([None, 1000])
        name = f"c{self.next_column}"
        column = {"name": name, "type": "int64", "default": None if default is None else str(default)}
        self.lake.commit(alter("ADD_COLUMN", column=column))
        self.columns.append((self.next_column, name, default))
        self.next_column += 1

    def rename_column(self) -> None:
        at = self.random.randrange(1, len(self.columns))
        column, name, default = self.columns[at]
        self.lake.commit(alter("RENAME_COLUMN", name=name, new_name=name + "x"))
        self.columns[at] = (column, name + "x", default)

    def drop_column(self) -> None:
        if len(self.columns) > 3:
            _, name, _ = self.columns.pop(self.random.randrange(1, len(self.columns)))
            self.lake.commit(alter("DROP_COLUMN", name=name))

    def rows(self) -> None:
        changes = []
        for key in self.random.sample(range(8), self.random.randint(1, 3)):
            value = f"v{self.random.randint(0, 99)}"
            if key not in self.keyed:
                changes.append(insert(id=key, v=value))
                self.keyed[key] = value
            elif self.random.random() < 0.6:
                changes.append(update(key, v=value))
                self.keyed[key] = value
            else:
                changes.append(delete_row(key))
                del self.keyed[key]
        self.lake.commit(*changes)


def contents(database_url: str) -> dict[str, list[str]]:
    """Every row of every table, but for when it was applied."""
    with psycopg.connect(database_url) as conn:
        names = conn.execute(
            "SELECT format('%I.%I', table_schema, table_name) FROM information_schema.tables "
            "WHERE table_type = 'BASE TABLE' AND table_schema IN ('public', 'commitlog') ORDER BY 1"
        ).fetchall()
        return {
            name: sorted(row for (row,) in conn.execute(f"SELECT x::text FROM {name} x".encode()).fetchall())
            for (name,) in names
        }


def project_at_once(lake: Lake, database_url: str) -> None:
    log_id = lake.log.genesis.log_id
    with psycopg.connect(database_url) as conn:
        mark_projector(conn)
        created_at = datetime(2024, 1, 1, tzinfo=UTC)
        create_catalog(conn, log_id=log_id, data_path=f"{lake.folder}/", created_at=created_at)
        Projection(conn, log_id=log_id).project(lake.log.outcomes)


def check_differences(database_url: str, history: History) -> None:
    """Whatever two snapshots are compared, the rows are those of the model."""
    catalog = Catalog(database_url)
    for _ in range(20):
        first, last = (history.random.choice(list(history.expected)) for _ in range(2))
        found = {each.after.name: each for each in differences(catalog, first, last) if each.after is not None}
        for at, name in enumerate("tk"):
            counts = len(history.expected[first][at]), len(history.expected[last][at])
            each = found.get(name)
            if each is None:
                assert history.expected[first][at] == history.expected[last][at] or name == "k"
                assert counts[0] == counts[1]
            else:
                assert isinstance(each, TableDifference)
                assert (each.rows_before, each.rows_after) == counts
    catalog.close()


@pytest.mark.parametrize("seed", range(4))
def test_random_history_then_every_snapshot_reads_as_the_model_and_a_rebuild_is_equal(
    other_database_url: str, database_url: str, lake: Lake, seed: int
) -> None:
    history = History(lake, seed)
    for _ in range(STEPS):
        lake.projection = Projection(lake.conn, log_id=lake.log.genesis.log_id)
        history.step()
    with open_lake(database_url) as client:
        for snapshot_id, (rows, keyed) in history.expected.items():
            found = client.execute(f"SELECT rowid, * FROM t AT (VERSION => {snapshot_id})").fetchall()
            assert sorted(found, key=repr) == rows, f"seed {seed}, snapshot {snapshot_id}"
            found = client.execute(f"SELECT id, v FROM k AT (VERSION => {snapshot_id})").fetchall()
            assert sorted(found) == keyed, f"seed {seed}, snapshot {snapshot_id}"
        rows = history.expected[lake.log.head][0]
        for at, (_, name, _) in enumerate(history.columns, start=1):
            for value in {row[at] for row in rows}:
                test = "IS NULL" if value is None else f"= {value}"
                found = client.execute(f"SELECT count(*) FROM t WHERE {name} {test}").fetchone()
                assert found == (sum(1 for row in rows if row[at] == value),), f"seed {seed}: {name} {test}"
    check_differences(database_url, history)
    project_at_once(lake, other_database_url)
    assert contents(other_database_url) == contents(database_url), f"seed {seed}"


def test_tables_when_dropped_in_the_batch_of_their_last_changes_then_older_snapshots_read_as_before(
    other_database_url: str, database_url: str, lake: Lake
) -> None:
    lake.commit(create_table())
    lake.append("t", some(1, 2), TYPES)
    project_at_once(lake, other_database_url)
    projected = len(lake.log.outcomes)
    lake.append("t", some(100, 101), TYPES)
    lake.commit(alter("RENAME_COLUMN", name="v", new_name="w"))
    lake.commit(create_table("u"))
    last = lake.append("u", some(7), TYPES)
    lake.commit(change("DROP_TABLE"), change("DROP_TABLE", "u"))
    with psycopg.connect(other_database_url) as conn:
        mark_projector(conn)
        Projection(conn, log_id=lake.log.genesis.log_id).project(lake.log.outcomes[projected:])
    assert contents(other_database_url) == contents(database_url)
    place = "postgres:" + connection_text(other_database_url)
    with attached(place, f"READ_ONLY, SNAPSHOT_VERSION {last}") as client:
        assert client.execute("SELECT id FROM t WHERE id > 50 ORDER BY 1").fetchall() == [(100,), (101,)]
        assert client.execute("SELECT max(id), count(*) FROM t").fetchall() == [(101, 4)]
        assert client.execute("SELECT id FROM u WHERE id = 7").fetchall() == [(7,)]
    with closing(ReadersCatalog(other_database_url)) as catalog:
        for name, column, ids in (("t", "w", (1, 2, 100, 101)), ("u", "v", (7,))):
            rows = Scan(catalog, TableName("main", name), last).to_arrow().to_pylist()
            assert rows == [{"id": i, column: f"v{i}"} for i in ids]


def test_history_of_a_table_when_it_has_very_many_commits_then_the_newest_are_found_without_reading_all(
    lake: Lake, database_url: str
) -> None:
    lake.commit(create_table("t"))
    with lake.conn.transaction():
        lake.conn.execute(
            "INSERT INTO ducklake_snapshot_changes (snapshot_id, changes_made) "
            "SELECT n, 'inserted_into_table:1' FROM generate_series(2, 20000) n"
        )
        lake.conn.execute(
            "INSERT INTO commitlog.outcomes (seq, verdict, snapshot_id, head_snapshot_id, conflict_count, decided_at, epoch, "
            "source_partition, source_offset) SELECT n, 'COMMITTED', n, n, 0, now(), 1, 0, n FROM generate_series(2, 20000) n"
        )
        # So little that these commits exceed it, as a few hundred thousand do what PostgreSQL gives by itself.
        lake.conn.execute(SQL("ALTER DATABASE {} SET work_mem = '64kB'").format(Identifier(lake.conn.info.dbname)))
    with psycopg.connect(database_url, autocommit=True) as conn:
        conn.execute("ANALYZE")

    def fastest_s(catalog: HistoryReader, **asked: int) -> float:
        took = []
        for _ in range(5):
            began = time.perf_counter()
            found = catalog.history(HistoryFilter(limit=200, **asked))
            took.append(time.perf_counter() - began)
            assert [each.snapshot_id for each in found] == list(range(20_000, 19_800, -1))
        return min(took)

    with closing(HistoryReader(database_url)) as catalog:
        of_all, of_table = fastest_s(catalog), fastest_s(catalog, table_id=1)
    # Where each outcome is looked for among all commits of the table it takes sixty times as long, and more with more.
    assert of_table < 10 * of_all, f"{of_table:.3f} s of a table, {of_all:.3f} s of all"
