"""Lakes of many tables, files, rows or bytes, or of large values, that are taken over by logs that have limits."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from stock import StockLake, differences_once_taken_over, stock_lake, taken_over

from commitlog.adoption import parts
from commitlog.adoption.definitions import SourceTable
from commitlog.adoption.rows import Piece
from commitlog.adoption.translation import Translation
from commitlog.domain import model as m
from commitlog.domain.model import Genesis, LogSettings
from commitlog.errors import AdoptionError
from commitlog.ops.maintenance.adopt import open_source


@pytest.fixture
def sqlite_lake(tmp_path: Path) -> StockLake:
    return stock_lake("sqlite", tmp_path)


def rows(first: int, last: int) -> str:
    return f"SELECT i AS id, 'x' || i AS v FROM range({first}, {last}) g(i)"


def expire_all_but_the_last(lake: StockLake) -> None:
    with lake.client() as connection:
        (head,) = connection.execute("SELECT max(snapshot_id) FROM ducklake_snapshots('lake')").fetchone() or (0,)
        connection.execute(f"CALL ducklake_expire_snapshots('lake', versions => {list(range(head))})")


MANY_TABLES = (
    *(f"CREATE {'VIEW v' if number == 4 else f'TABLE t{number}'} AS {rows(number, 20)}" for number in range(9)),
    "CREATE SCHEMA s",
    "CREATE TABLE s.t AS SELECT 7 AS seven",
    "ALTER TABLE t1 ADD COLUMN w INTEGER DEFAULT 5",
    "ALTER TABLE t8 DROP COLUMN v",
    *(f"DELETE FROM t{number} WHERE id = 15" for number in (0, 3, 8)),
    "INSERT INTO t3 VALUES (50, 'last')",
)


@pytest.mark.parametrize("limit", [{"changeset_objects_max": 6}, {"changeset_objects_max": 6, "files_max": 6}])
def test_adopt_when_the_oldest_snapshot_has_more_than_a_changeset_may_then_it_is_made_in_several(
    sqlite_lake: StockLake, database_url: str, limit: dict[str, int]
) -> None:
    sqlite_lake.run(*MANY_TABLES)
    expire_all_but_the_last(sqlite_lake)
    assert differences_once_taken_over(sqlite_lake, database_url, LogSettings(**limit)) == []


@pytest.mark.parametrize("is_expired", [False, True])
def test_adopt_when_one_snapshot_deletes_more_than_a_changeset_may_by_position_then_by_delete_files(
    sqlite_lake: StockLake, database_url: str, is_expired: bool
) -> None:
    appends = (f"INSERT INTO t {rows(first, first + 20)}" for first in range(0, 100, 20))
    deletes = ("DELETE FROM t WHERE id % 4 = 0", "DELETE FROM t WHERE id % 4 = 1")
    sqlite_lake.run("CREATE TABLE t (id INTEGER, v VARCHAR)", *appends, *deletes)
    if is_expired:
        expire_all_but_the_last(sqlite_lake)
    assert differences_once_taken_over(sqlite_lake, database_url, LogSettings(changeset_positions_max=12)) == []


@pytest.mark.timeout(60)
@pytest.mark.parametrize("is_expired", [False, True])
def test_adopt_when_a_file_has_many_rows_then_they_are_not_looked_at_one_by_one(
    sqlite_lake: StockLake, is_expired: bool
) -> None:
    sqlite_lake.run(f"CREATE TABLE t AS {rows(0, 20)}", "DELETE FROM t WHERE id = 3", "CREATE TABLE u (id INTEGER)")
    if is_expired:
        expire_all_but_the_last(sqlite_lake)
    with closing(sqlite3.connect(sqlite_lake.source)) as catalog, catalog:
        catalog.execute("UPDATE ducklake_data_file SET record_count = 1000000000000")
    with open_source(sqlite_lake.source) as lake:
        adopting = Translation(lake, Genesis(bytes(16), 4), write=False)
        for _ in adopting.run():
            pass
    assert adopting.counts.rows == 999_999_999_999


class Counting(Translation):
    """Counts of how many tables it looks for rows that go, in all snapshots."""

    looked_at = 0

    def _delete(self, table: SourceTable, snapshot_id: int, also: Iterable[Piece] = ()) -> Iterator[m.Change]:
        self.looked_at += 1
        return super()._delete(table, snapshot_id, also)


def test_adopt_when_a_snapshot_changes_rows_of_one_table_then_no_other_is_looked_at(sqlite_lake: StockLake) -> None:
    tables = [f"CREATE TABLE t{number} AS {rows(0, 20)}" for number in range(9)]
    sqlite_lake.run("BEGIN", *tables, "COMMIT", *(f"DELETE FROM t3 WHERE id = {key}" for key in range(5)))
    with open_source(sqlite_lake.source) as lake:
        counting = Counting(lake, Genesis(bytes(16), 4), write=False)
        assert [len(each.proposal.changes) for each in counting.run()] == [2 * len(tables), 1, 1, 1, 1, 1]
    assert counting.looked_at == len(tables) + 5


def test_adopt_when_the_files_of_the_oldest_snapshot_take_many_bytes_then_it_is_made_in_several(
    sqlite_lake: StockLake, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "BOUNDS_AT_ONCE", 6)
    sqlite_lake.run(*MANY_TABLES)
    expire_all_but_the_last(sqlite_lake)
    with open_source(sqlite_lake.source) as lake:
        made = [each.proposal.changes for each in Translation(lake, Genesis(bytes(16), 4), write=False).run()]
    assert max(sum(isinstance(change, m.Append) for change in changes) for changes in made) == 4
    assert differences_once_taken_over(sqlite_lake, database_url) == []


def test_adopt_when_one_snapshot_is_larger_than_a_log_takes_then_refused_before_anything_is_written(
    sqlite_lake: StockLake,
) -> None:
    text = "CALL lake.set_commit_message('a', 'b', extra_info => repeat('x', 70000000))"
    sqlite_lake.run("BEGIN", text, "CREATE TABLE t (id INTEGER)", "COMMIT")
    with open_source(sqlite_lake.source) as lake, pytest.raises(AdoptionError, match="what snapshot 1 has"):
        list(Translation(lake, Genesis(bytes(16), 4), write=False).run())


def test_adopt_when_one_snapshot_has_more_than_a_changeset_may_then_says_what_takes_it(
    sqlite_lake: StockLake, database_url: str
) -> None:
    sqlite_lake.run("BEGIN", *MANY_TABLES[:9], "COMMIT")
    with pytest.raises(AdoptionError, match=r"A log that begins with a larger changeset_objects_max takes it"):
        taken_over(sqlite_lake.source, database_url, LogSettings(changeset_objects_max=6))
    assert differences_once_taken_over(sqlite_lake, database_url, LogSettings(changeset_objects_max=9)) == []


@pytest.mark.parametrize("is_expired", [False, True])
def test_adopt_when_whole_numbers_of_128_bits_are_beyond_what_files_hold_then_refused_before_anything_is_written(
    sqlite_lake: StockLake, is_expired: bool
) -> None:
    sqlite_lake.run("CREATE TABLE t (h HUGEINT)", f"INSERT INTO t VALUES ({10**38 + 1})", "CREATE TABLE u (id INTEGER)")
    if is_expired:
        expire_all_but_the_last(sqlite_lake)
    with (
        open_source(sqlite_lake.source) as lake,
        pytest.raises(AdoptionError, match=r"column h of table main\.t has int128"),
    ):
        list(Translation(lake, Genesis(bytes(16)), write=False).run())
