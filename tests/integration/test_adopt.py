"""A lake of the stock client that is taken over: the same rows at the same snapshots, whatever the client did before."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from stock import StockLake, differences, stock_lake, taken_over


def rows(first: int, last: int, text: str = "x") -> str:
    return f"SELECT i AS id, '{text}' || i AS v FROM range({first}, {last}) g(i)"


EVERYDAY = (
    "CREATE TABLE t (id INTEGER, v VARCHAR)",
    "INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')",
    f"INSERT INTO t {rows(100, 200)}",
    "DELETE FROM t WHERE id = 2",
    "DELETE FROM t WHERE id = 150",
    "DELETE FROM t WHERE id BETWEEN 110 AND 140",
    "DELETE FROM t WHERE id BETWEEN 160 AND 180",
    "UPDATE t SET v = 'changed' WHERE id = 190",
    f"INSERT INTO t {rows(300, 400, 'y')}",
    "UPDATE t SET v = 'changed too' WHERE id BETWEEN 310 AND 350",
    "UPDATE t SET v = 'and again' WHERE id BETWEEN 340 AND 360",
    f"INSERT INTO t {rows(400, 500, 'z')}",
    "BEGIN",
    f"INSERT INTO t {rows(500, 600, 'w')}",
    "DELETE FROM t WHERE id BETWEEN 510 AND 530",
    "INSERT INTO t VALUES (7, 'seven')",
    "COMMIT",
)
MAINTENANCE = (
    "CALL ducklake_flush_inlined_data('lake')",
    "CALL ducklake_merge_adjacent_files('lake')",
    f"INSERT INTO t {rows(600, 650)}",
    f"INSERT INTO t {rows(650, 700)}",
    "CALL ducklake_merge_adjacent_files('lake')",
    "CALL ducklake_rewrite_data_files('lake', 't', delete_threshold => 0.1)",
    "DELETE FROM t WHERE id BETWEEN 300 AND 450",
    f"INSERT INTO t {rows(700, 800)}",
    "DELETE FROM t WHERE id BETWEEN 700 AND 799",
)
DEFINITIONS = (
    "ALTER TABLE t ADD COLUMN s STRUCT(a INTEGER, b VARCHAR[])",
    "INSERT INTO t VALUES (1000, 'n', {'a': 1, 'b': ['q', NULL]})",
    "ALTER TABLE t ADD COLUMN d DATE DEFAULT '2024-02-03'",
    "ALTER TABLE t DROP COLUMN v",
    "COMMENT ON TABLE t IS 'hello'",
    "COMMENT ON COLUMN t.id IS 'the number'",
    "CREATE VIEW w AS SELECT count(*) AS n FROM t",
    "ALTER TABLE t RENAME COLUMN id TO number",
    "ALTER TABLE t ALTER COLUMN number TYPE BIGINT",
    "ALTER TABLE t SET PARTITIONED BY (number)",
    "INSERT INTO t SELECT i % 3, NULL, NULL FROM range(40) g(i)",
    "CREATE SCHEMA other",
    "CREATE TABLE other.k (m MAP(VARCHAR, INTEGER), f DOUBLE, n DECIMAL(10, 2), at_time TIMESTAMP, u UUID, j JSON, b BLOB)",
    """INSERT INTO other.k VALUES (MAP {'a': 1}, 'nan', 1.25, '2024-01-01 01:02:03.123456',
       'c84b0d20-d35b-4b4b-9b0c-d2f7f3a2f0a1', '{"x": 1}', '\\xAA\\x00'::BLOB), (NULL, NULL, NULL, NULL, NULL, NULL, NULL)""",
    "ALTER TABLE t RENAME TO renamed",
    "DELETE FROM renamed WHERE number = 1",
    "ALTER TABLE renamed ALTER COLUMN number SET NOT NULL",
    "ALTER TABLE renamed ADD COLUMN v VARCHAR",
    "INSERT INTO renamed VALUES (5, NULL, NULL, 'back')",
    "CREATE TABLE gone (a INTEGER)",
    "INSERT INTO gone SELECT * FROM range(50)",
    "DROP TABLE gone",
    "CREATE TABLE gone (b VARCHAR)",
    "DROP VIEW w",
    "BEGIN",
    "CALL lake.set_commit_message('somebody', 'the last', extra_info => 'more')",
    "INSERT INTO gone VALUES ('z')",
    "COMMIT",
)


@pytest.fixture(params=["sqlite", "duckdb", "postgres"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StockLake]:
    """A lake of the stock client, with its catalog in each of the places that it knows."""
    url = request.getfixturevalue("other_database_url") if request.param == "postgres" else None
    yield stock_lake(request.param, tmp_path, url)


@pytest.fixture
def sqlite_lake(tmp_path: Path) -> StockLake:
    return stock_lake("sqlite", tmp_path)


def test_adopt_when_the_lake_was_used_in_every_way_then_the_same_rows_at_every_snapshot(
    lake: StockLake, database_url: str
) -> None:
    lake.run(*EVERYDAY, *MAINTENANCE, *DEFINITIONS)
    taken_over(lake.source, database_url)
    assert differences(lake, database_url) == []


@pytest.mark.parametrize("kept", [1, 2, 3, 6, 13, 14, 20, 40])
def test_adopt_when_older_snapshots_were_expired_then_the_others_are_the_same(
    sqlite_lake: StockLake, database_url: str, kept: int
) -> None:
    sqlite_lake.run(*EVERYDAY, *MAINTENANCE, *DEFINITIONS)
    versions = ", ".join(map(str, range(kept)))
    sqlite_lake.run(f"CALL ducklake_expire_snapshots('lake', versions => [{versions}])")
    taken_over(sqlite_lake.source, database_url)
    assert differences(sqlite_lake, database_url) == []
