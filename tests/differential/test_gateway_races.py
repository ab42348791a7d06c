"""What stock clients do wrong to each other on a lake of their own, done through the gateway: right, or refused.

Each docstring says what comes of it there (duckdb 1.5.5, DuckLake 1.0). `test_catalog_anomalies.py` has the same as proposals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from itertools import count
from typing import NamedTuple

import duckdb
import pytest
from gateway_sides import lake_through_gateway, writing
from sides import Ours

MANY = 5_000
"""Rows of a file; more of them than go as positions can be deleted."""
_NUMBERS = count()


class Racers(NamedTuple):
    """Two stock clients, each with a schema `s` of this test's own in use, and who decides."""

    one: duckdb.DuckDBPyConnection
    two: duckdb.DuckDBPyConnection
    ours: Ours

    def race(self, first: str, second: str) -> str | None:
        """The second does its part, the first does its own and commits, then the second commits: what it is told if refused."""
        self.two.execute(f"BEGIN; {second}")
        self.one.execute(first)
        try:
            self.two.execute("COMMIT")
        except duckdb.Error as error:
            return str(error)
        return None

    def ids(self) -> list[int]:
        """The rows that both see, each by its number."""
        found, also = ([row[0] for row in c.execute("SELECT id FROM t ORDER BY id").fetchall()] for c in self[:2])
        assert found == also
        assert self.one.execute("SELECT count(*) FROM t").fetchall() == [(len(found),)]
        return found


@pytest.fixture(scope="module")
def lake(
    new_database: Callable[[], AbstractContextManager[str]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Racers]:
    with (
        lake_through_gateway(new_database, tmp_path_factory.mktemp("races")) as (ours, _, url),
        writing(url, "l") as one,
        writing(url, "l") as two,
    ):
        yield Racers(one, two, ours)


@pytest.fixture
def racers(lake: Racers) -> Racers:
    schema = f"s{next(_NUMBERS)}"
    lake.one.execute(
        f"CREATE SCHEMA l.{schema}; USE l.{schema}; CREATE TABLE t AS SELECT range AS id FROM range({MANY})"
    )
    lake.two.execute(f"USE l.{schema}")
    return lake


@pytest.mark.parametrize("rows", [10, 2_000])
def test_two_deletes_from_a_file_that_has_one_then_the_second_is_refused(racers: Racers, rows: int) -> None:
    """Both commit: the file has two live delete files and is read twice, and deleted rows are back."""
    racers.one.execute("DELETE FROM t WHERE id = 0")
    told = racers.race(f"DELETE FROM t WHERE id < {rows}", f"DELETE FROM t WHERE id >= {MANY - rows}")
    assert "deleted from file" in str(told)
    assert racers.ids() == list(range(rows, MANY))


@pytest.mark.parametrize("first", ["id = 3", "id < 2000"])
def test_a_small_and_a_large_delete_of_one_row_then_the_second_is_refused(racers: Racers, first: str) -> None:
    """Both commit, and rows of the large one are back."""
    second = {"id = 3": "id < 2000", "id < 2000": "id = 3"}[first]
    assert "deleted from file" in str(racers.race(f"DELETE FROM t WHERE {first}", f"DELETE FROM t WHERE {second}"))
    assert racers.ids() == [n for n in range(MANY) if (n != 3 if first == "id = 3" else n >= 2000)]


def test_a_small_delete_and_a_compaction_then_the_delete_stays(racers: Racers) -> None:
    """Both commit in either order, and the delete is lost."""
    for number in range(2):
        racers.one.execute(f"INSERT INTO t VALUES ({MANY + number})")
    compact = "CALL ducklake_merge_adjacent_files('l', 't')"
    assert "merge_adjacent_files" in str(racers.race("DELETE FROM t WHERE id = 3", compact))
    racers.two.execute("BEGIN; DELETE FROM t WHERE id = 4")
    with pytest.raises(duckdb.Error, match="merge_adjacent_files"):
        racers.one.execute(compact)
    racers.two.execute("COMMIT")
    assert racers.ids() == [n for n in range(MANY + 2) if n not in (3, 4)]


def test_an_upsert_of_one_key_twice_then_refused_where_the_table_has_a_key(racers: Racers) -> None:
    """Both commit, and the key is there twice; so it is here, where nothing says that it is a key."""
    upsert = (
        "MERGE INTO {} USING (SELECT 7 AS id, '{}' AS v) s USING (id) WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.v)"
    )
    racers.one.execute("CREATE TABLE plain (id BIGINT, v VARCHAR)")
    assert racers.race(upsert.format("plain", "a"), upsert.format("plain", "b")) is None
    assert racers.one.execute("SELECT v FROM plain ORDER BY v").fetchall() == [("a",), ("b",)]
    (schema,) = racers.one.execute("SELECT current_schema()").fetchone() or ()
    columns = [{"name": "id", "type": "int64", "nullable": False}, {"name": "v", "type": "varchar"}]
    keyed = {"kind": "CREATE_TABLE", "schema": schema, "table": "k", "columns": columns, "primary_key": ["id"]}
    racers.ours.commit([{**keyed, "properties": {"foreign_paths": "true"}}])
    assert "inserted or changed row 7" in str(racers.race(upsert.format("k", "a"), upsert.format("k", "b")))
    assert racers.one.execute("FROM k").fetchall() == [(7, "a")]


def test_a_drop_and_a_rename_then_the_second_is_refused(racers: Racers) -> None:
    """Both commit: the table is gone, and who renamed it was told that it worked."""
    assert "dropped table" in str(racers.race("DROP TABLE t", "ALTER TABLE t RENAME TO u"))
    racers.one.execute("CREATE TABLE t AS SELECT 1 AS id")
    assert "renamed it to" in str(racers.race("ALTER TABLE t RENAME TO u", "DROP TABLE t"))
    assert racers.two.execute("FROM u").fetchall() == [(1,)]


def test_a_flush_then_it_is_refused_and_others_go_on(racers: Racers) -> None:
    """Every other client fails at the table until it is altered."""
    racers.one.execute("DELETE FROM t WHERE id = 3")
    with pytest.raises(duckdb.Error, match=r"commitlog\.spark"):
        racers.one.execute("CALL ducklake_flush_inlined_data('l')")
    assert racers.ids() == [n for n in range(MANY) if n != 3]


def test_a_nan_in_a_struct_then_it_is_read(racers: Racers) -> None:
    """A small insert of it makes every read of the table fail."""
    racers.one.execute("CREATE TABLE n (s STRUCT(x DOUBLE))")
    racers.one.execute("INSERT INTO n VALUES ({'x': 'nan'::DOUBLE}), (NULL)")
    assert racers.two.execute("SELECT s.x::VARCHAR FROM n ORDER BY ALL").fetchall() == [("nan",), (None,)]
