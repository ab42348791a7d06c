"""A lake of the stock client that is taken over: the same rows at the same snapshots, whatever the client did before."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from log_running import projecting, serving
from stock import StockLake, differences, differences_once_taken_over, stock_lake, taken_over

from commitlog.adoption.translation import Translation
from commitlog.catalog.projector import Projector
from commitlog.client.commit_log import CommitLog
from commitlog.client.files.lake import claim
from commitlog.client.reading.duckdb_client import open_lake
from commitlog.config import Settings
from commitlog.domain.model import Genesis
from commitlog.errors import AdoptionError, CatalogMismatchError, ConfigurationError
from commitlog.log.codec import decode_statistics
from commitlog.log.genesis import find_genesis
from commitlog.ops.maintenance.adopt import AdoptionProgress, adopt, open_source

MAIN = [sys.executable, "-c", "from commitlog.ops.cli import main; main()"]


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
    "ALTER TABLE other.k ADD COLUMN empty VARCHAR DEFAULT ''",
    "ALTER TABLE t RENAME TO T",
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
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> StockLake:
    """A lake of the stock client, with its catalog in each of the places that it knows."""
    url = request.getfixturevalue("other_database_url") if request.param == "postgres" else None
    return stock_lake(request.param, tmp_path, url)


@pytest.fixture
def sqlite_lake(tmp_path: Path) -> StockLake:
    return stock_lake("sqlite", tmp_path)


def test_adopt_when_the_lake_was_used_in_every_way_then_the_same_rows_at_every_snapshot(
    lake: StockLake, database_url: str
) -> None:
    lake.run(*EVERYDAY, *MAINTENANCE, *DEFINITIONS)
    assert differences_once_taken_over(lake, database_url) == []


@pytest.mark.parametrize("oldest", [2, 14, "the last"])
def test_adopt_when_older_snapshots_were_expired_then_the_others_are_the_same(
    sqlite_lake: StockLake, database_url: str, oldest: int | str
) -> None:
    sqlite_lake.run(*EVERYDAY, *((*MAINTENANCE, *DEFINITIONS) if oldest != 2 else ()))
    with sqlite_lake.client() as connection:
        (head,) = connection.execute("SELECT max(snapshot_id) FROM ducklake_snapshots('lake')").fetchone() or (0,)
        gone = range(head if oldest == "the last" else int(oldest))
        connection.execute(f"CALL ducklake_expire_snapshots('lake', versions => {list(gone)})")
    assert differences_once_taken_over(sqlite_lake, database_url) == []


def test_adopt_when_the_lake_is_empty_then_it_is_empty(sqlite_lake: StockLake, database_url: str) -> None:
    sqlite_lake.run()
    assert taken_over(sqlite_lake.source, database_url).snapshots == 1
    assert differences(sqlite_lake, database_url) == []


def test_adopt_when_files_are_partitioned_or_came_from_elsewhere_then_the_same_rows(
    sqlite_lake: StockLake, database_url: str, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere.parquet"
    pq.write_table(pa.table({"v": ["first", "second"], "id": pa.array([70, 71], pa.int32())}), elsewhere)
    sqlite_lake.run(
        "CREATE TABLE plain (id INTEGER, v VARCHAR)",
        f"CALL ducklake_add_data_files('lake', 'plain', '{elsewhere}')",
        "DELETE FROM plain WHERE id = 70",
        "CREATE TABLE parted (at_time TIMESTAMP, country VARCHAR, n BIGINT, ratio DOUBLE)",
        "ALTER TABLE parted SET PARTITIONED BY (year(at_time), country, bucket(3, n))",
        """INSERT INTO parted SELECT TIMESTAMP '2024-11-01' + INTERVAL (i) DAY,
           CASE i % 3 WHEN 0 THEN NULL ELSE 'c' || i % 3 END, i, i / 7 FROM range(100) g(i)""",
        "CALL ducklake_merge_adjacent_files('lake')",
        "DELETE FROM parted WHERE country = 'c1'",
        "UPDATE parted SET country = 'c9' WHERE n < 20",
        "ALTER TABLE parted SET PARTITIONED BY (country)",
        "INSERT INTO parted VALUES ('2030-01-01', 'c1', 1, 'nan')",
        "CALL ducklake_flush_inlined_data('lake')",
    )
    assert differences_once_taken_over(sqlite_lake, database_url) == []
    with open_lake(database_url) as ours, sqlite_lake.reader() as theirs:
        for where in ("country = 'c1'", "country IS NULL", "at_time > '2025-01-15'", "n = 50", "ratio > 13"):
            query = f"SELECT count(*), min(n), max(n) FROM parted WHERE {where}"
            assert ours.execute(query).fetchall() == theirs.execute(query).fetchall()


def test_adopt_when_a_transaction_deleted_from_what_it_brought_then_the_same_rows(
    sqlite_lake: StockLake, database_url: str, tmp_path: Path
) -> None:
    """Files are written anew that have no field ids, those of another table, or a folder with a column's name."""
    brought = "SELECT i * 1000 AS b, i AS a, {'x': i, 'l': [i]} AS s FROM range(10) g(i)"
    sqlite_lake.run(
        f"COPY ({brought}) TO '{tmp_path}/names.parquet'",
        f"COPY ({brought}) TO '{tmp_path}/other.parquet' (FIELD_IDS {{b: 1, a: 2}})",
        "CREATE TABLE added (a BIGINT, b BIGINT, s STRUCT(x BIGINT, l BIGINT[]))",
        *(
            f"BEGIN; CALL ducklake_add_data_files('lake', 'added', '{tmp_path}/{name}.parquet'); "
            "DELETE FROM added WHERE a = 1; COMMIT"
            for name in ("names", "other")
        ),
        "CREATE TABLE parted (at_time TIMESTAMP, year INTEGER, file_row_number INTEGER)",
        "ALTER TABLE parted SET PARTITIONED BY (year(at_time))",
        "BEGIN; INSERT INTO parted SELECT TIMESTAMP '2020-05-01', 1990 + i, i FROM range(99) g(i); "
        "DELETE FROM parted WHERE file_row_number = 3; COMMIT",
    )
    assert differences_once_taken_over(sqlite_lake, database_url) == []
    with open_lake(database_url) as ours, sqlite_lake.reader() as theirs:
        for where in ("b = 4000", "a = 4", "s.x = 4", "s.x > 9"):
            query = f"SELECT count(*), min(a), max(b) FROM added WHERE {where}"
            assert ours.execute(query).fetchall() == theirs.execute(query).fetchall()


def test_adopt_when_many_rows_of_a_file_were_deleted_twice_then_the_same_rows(
    sqlite_lake: StockLake, database_url: str
) -> None:
    sqlite_lake.run(
        f"CREATE TABLE t AS {rows(0, 50_000)}",
        "DELETE FROM t WHERE id < 5",
        "DELETE FROM t WHERE id < 12000",
        "DELETE FROM t WHERE id > 37000",
        "DELETE FROM t WHERE id = 20000",
        "CREATE VIEW named(a, b) AS SELECT id, v FROM t",
    )
    assert differences_once_taken_over(sqlite_lake, database_url) == []


def test_adopt_when_the_catalog_is_in_another_schema_of_the_same_database_then_both_are_there(
    database_url: str, tmp_path: Path
) -> None:
    lake = stock_lake("postgres", tmp_path, database_url, schema="old")
    lake.run("CREATE TABLE t (id INTEGER)", "INSERT INTO t VALUES (1), (2)", "DELETE FROM t WHERE id = 1")
    assert differences_once_taken_over(lake, database_url) == []


# --- through the log --------------------------------------------------------------------------------------------------


def init(settings: Settings, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*MAIN, "init", *arguments], capture_output=True, text=True, env=settings.environment(), timeout=120
    )


def project(settings: Settings) -> None:
    Projector(settings, decode_statistics=decode_statistics).project_to_end()


def in_place(settings: Settings, lake: StockLake) -> Settings:
    return replace(settings, data_path=lake.data_path.rstrip("/"))


def test_init_when_it_adopts_then_the_log_goes_on_from_there(
    sqlite_lake: StockLake, settings: Settings, tmp_path: Path
) -> None:
    sqlite_lake.run(*EVERYDAY)
    settings = in_place(settings, sqlite_lake)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.parquet")}
    told = json.loads(init(settings, "--adopt", sqlite_lake.source, "--dry-run", "--json").stdout)
    assert (told["adopted"], told["head_snapshot_id"], told["counts"]["tables"]) == (False, 13, 1)
    assert set(tmp_path.rglob("*.parquet")) == set(before)

    done = init(settings, "--adopt", sqlite_lake.source)
    assert done.returncode == 0, done.stderr
    assert "took over snapshots 0 to 13" in done.stdout
    assert {path: path.read_bytes() for path in before} == before
    assert differences(sqlite_lake, settings.database_url) == []

    again = init(settings, "--adopt", sqlite_lake.source)
    assert again.returncode == 0, again.stderr
    with serving(settings), projecting(settings), CommitLog.connect(settings=settings, writer_id="later") as log:
        file = tmp_path / "new.parquet"
        pq.write_table(pa.table({"id": pa.array([9000], pa.int32()), "v": ["new"]}), file)
        with log.transaction() as appending:
            appending.append("main.t", files=[file])
        with psycopg.connect(settings.database_url) as connection:
            found = connection.execute(
                "SELECT data_file_id FROM ducklake_data_file WHERE end_snapshot IS NULL ORDER BY begin_snapshot"
            ).fetchall()
        with log.transaction() as deleting:
            deleting.delete("main.t", whole_files=[found[0][0]])
        log.transaction()  # it waits until the catalog shows the one before
    assert (appending.outcome.snapshot_id, deleting.outcome.snapshot_id) == (14, 15)
    with open_lake(settings.database_url) as reader:
        rows_now = reader.execute("SELECT id FROM t WHERE id IN (1, 7, 9000) ORDER BY 1").fetchall()
        earlier = reader.execute("SELECT id FROM t AT (VERSION => 13) WHERE id IN (1, 7, 9000) ORDER BY 1").fetchall()
    assert (rows_now, earlier) == ([(7,), (9000,)], [(1,), (7,)])
    refused = init(settings, "--adopt", sqlite_lake.source)
    assert refused.returncode != 0
    assert "outcomes already" in refused.stderr


def test_adopt_when_the_checkpoints_would_be_below_the_lake_however_that_is_written_then_refused(
    sqlite_lake: StockLake, tmp_path: Path
) -> None:
    lake = replace(sqlite_lake, data_path=f"file://{tmp_path}/data/")
    lake.run(EVERYDAY[0])
    settings = Settings.load(log="main", checkpoint_dir=tmp_path / "data" / "checkpoints")
    with pytest.raises(ConfigurationError, match=rf"is {tmp_path}/data/checkpoints, under data_path"):
        adopt(settings, lake.source, dry_run=True)


def test_adopt_when_the_lake_is_another_logs_then_is_refused_before_kafka_is_asked(sqlite_lake: StockLake) -> None:
    sqlite_lake.run(EVERYDAY[0])
    claim(sqlite_lake.data_path, bytes(range(16)), "other")
    with pytest.raises(ConfigurationError, match=r"belongs to log other .*: choose another one for log main"):
        adopt(Settings.load(log="main"), sqlite_lake.source, dry_run=True)
    # An adoption of its own that is to go on has marked it, too.
    _, again = adopt(Settings.load(log="other"), sqlite_lake.source, dry_run=True)
    assert again.counts.tables == 1


def test_adopt_when_a_folder_has_the_letters_of_a_pattern_then_no_other_file_is_read(
    tmp_path: Path, database_url: str
) -> None:
    """Beside each of its files the same name as a pattern finds another one, of other rows."""
    (tmp_path / "l[12]").mkdir()
    lake = stock_lake("sqlite", tmp_path / "l[12]")
    lake.run(*EVERYDAY, *MAINTENANCE)
    for path in Path(lake.data_path).rglob("*.parquet"):
        other = Path(str(path).replace("l[12]", "l1"))
        other.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pq.read_table(path).slice(0, 1), other)
    assert differences_once_taken_over(lake, database_url) == []


def test_adopt_when_the_database_holds_another_logs_catalog_then_nothing_is_made(
    sqlite_lake: StockLake, settings: Settings, tmp_path: Path
) -> None:
    sqlite_lake.run(EVERYDAY[0])
    adopt(in_place(settings, sqlite_lake), sqlite_lake.source, dry_run=False)
    project(settings)
    (tmp_path / "other").mkdir()
    other = stock_lake("sqlite", tmp_path / "other")
    other.run(EVERYDAY[0])
    second = replace(in_place(settings, other), log=f"{settings.log}-second")
    with pytest.raises(CatalogMismatchError, match="holds the catalog of another log"):
        adopt(second, other.source, dry_run=False)
    assert find_genesis(second) is None


def test_adopt_when_the_log_is_to_take_less_at_once_than_a_snapshot_then_it_takes_that(
    sqlite_lake: StockLake, settings: Settings
) -> None:
    sqlite_lake.run("CREATE TABLE t (" + ", ".join(f"column_{number} INTEGER" for number in range(200)) + ")")
    settings = replace(in_place(settings, sqlite_lake), genesis={"proposal_bytes_max": 1024, "files_max": 7})
    adopt(settings, sqlite_lake.source, dry_run=False)
    genesis = find_genesis(settings)
    assert genesis is not None
    assert genesis.settings.proposal_bytes_max > 1024
    assert genesis.settings.files_max == 7


def test_adopt_when_somebody_commits_to_the_lake_meanwhile_then_says_so_and_the_next_run_takes_that_too(
    other_database_url: str, settings: Settings, tmp_path: Path
) -> None:
    lake = stock_lake("postgres", tmp_path, other_database_url)
    settings = in_place(settings, lake)
    lake.run(*EVERYDAY[:3])

    def at_the_end_of(step: str, sql: str) -> Callable[[AdoptionProgress], None]:
        def told(progress: AdoptionProgress) -> None:
            if progress.step == step and progress.snapshot_id == progress.head_snapshot_id:
                lake.run(sql)

        return told

    late = at_the_end_of("deciding", "INSERT INTO t VALUES (77, 'late')")
    with pytest.raises(
        AdoptionError, match=r"newest snapshot was 3 and is 4 now.*the log holds the lake up to snapshot 3"
    ):
        adopt(settings, lake.source, dry_run=False, on_progress=late)
    later = at_the_end_of("translating", "INSERT INTO t VALUES (78, 'later')")
    with pytest.raises(AdoptionError, match="nothing was proposed"):
        adopt(settings, lake.source, dry_run=False, on_progress=later)
    adopt(settings, lake.source, dry_run=False)
    project(settings)
    assert differences(lake, settings.database_url) == []


def test_init_when_an_adoption_ended_early_then_it_goes_on_where_it_was(
    sqlite_lake: StockLake, settings: Settings
) -> None:
    settings = in_place(settings, sqlite_lake)
    sqlite_lake.run(*EVERYDAY[:7])
    assert init(settings, "--adopt", sqlite_lake.source).returncode == 0
    sqlite_lake.run(*EVERYDAY[7:])
    done = init(settings, "--adopt", sqlite_lake.source)
    assert done.returncode == 0, done.stderr
    project(settings)
    assert differences(sqlite_lake, settings.database_url) == []

    sqlite_lake.run(*MAINTENANCE)
    refused = init(settings, "--adopt", sqlite_lake.source)
    assert refused.returncode != 0
    assert "another state of this lake" in refused.stderr


def test_adopt_when_a_table_was_created_and_commented_on_at_once_then_it_has_its_comments_in_the_end(
    sqlite_lake: StockLake, database_url: str
) -> None:
    sqlite_lake.run(
        "BEGIN",
        "CREATE TABLE t (id INTEGER, v VARCHAR)",
        "COMMENT ON TABLE t IS 'all of it'",
        "COMMENT ON COLUMN t.id IS 'the number'",
        "INSERT INTO t VALUES (1, 'a')",
        "COMMIT",
        "COMMENT ON COLUMN t.v IS 'a word'",
    )
    assert differences_once_taken_over(sqlite_lake, database_url) == []
    asked = (
        "SELECT comment FROM duckdb_tables() WHERE database_name = 'lake' UNION ALL "
        "SELECT comment FROM duckdb_columns() WHERE database_name = 'lake'"
    )
    with sqlite_lake.reader() as theirs, open_lake(database_url) as ours:
        assert sorted(ours.execute(asked).fetchall()) == sorted(theirs.execute(asked).fetchall())


@pytest.mark.parametrize("count", [3, 30])
def test_adopt_when_a_table_was_created_filled_and_given_a_column_at_once_then_its_rows_have_the_default(
    sqlite_lake: StockLake, database_url: str, count: int
) -> None:
    sqlite_lake.run(
        "BEGIN",
        "CREATE TABLE t (id INTEGER)",
        f"INSERT INTO t SELECT * FROM range({count})",
        "ALTER TABLE t ADD COLUMN n INTEGER DEFAULT 5",
        "COMMIT",
        "DELETE FROM t WHERE id = 1",
        "INSERT INTO t SELECT i, NULL FROM range(100, 150) g(i)",
    )
    assert differences_once_taken_over(sqlite_lake, database_url) == []


def test_adopt_when_whole_numbers_of_128_bits_are_in_no_file_then_each_digit_is_kept(
    sqlite_lake: StockLake, database_url: str
) -> None:
    sqlite_lake.run(
        "CREATE TABLE t (h HUGEINT, u UHUGEINT)",
        f"INSERT INTO t VALUES ({2**60 + 1}, {2**100 + 1}), ({-(10**37) - 1}, 0), (NULL, NULL)",
        "CREATE TABLE beyond (h HUGEINT)",
        f"INSERT INTO beyond VALUES ({2**126}), (1)",
        "CREATE TABLE as_doubles (u UHUGEINT)",
        f"INSERT INTO as_doubles VALUES ({2**127}), (1)",
    )
    assert differences_once_taken_over(sqlite_lake, database_url) == []


@pytest.mark.parametrize(
    ("statements", "obstacle"),
    [
        (["CREATE MACRO twice(a) AS a * 2"], "macro twice"),
        (["CREATE TABLE t (id INTEGER)", "ALTER TABLE t SET SORTED BY (id)"], "table t is sorted"),
        (["CREATE TABLE t (id INTEGER, g VARIANT)"], "column g of table t is variant"),
        (["CREATE TABLE t (id INTEGER, at_time TIMESTAMP DEFAULT now())"], "default expression"),
        (
            ["CREATE TABLE t (s STRUCT(a INTEGER))", "ALTER TABLE t ADD COLUMN s.b INTEGER"],
            "snapshot 2 has what a log cannot express",
        ),
    ],
)
def test_adopt_when_the_lake_has_what_a_log_has_not_then_names_it(
    sqlite_lake: StockLake, statements: list[str], obstacle: str
) -> None:
    sqlite_lake.run(*statements)
    with open_source(sqlite_lake.source) as lake, pytest.raises(AdoptionError) as refused:
        list(Translation(lake, Genesis(bytes(16)), write=False).run())
    assert obstacle in str(refused.value)


def test_open_source_when_it_is_no_lake_then_says_so(tmp_path: Path) -> None:
    path = tmp_path / "catalog"
    with pytest.raises(AdoptionError, match="cannot be read"), open_source(str(path)):
        pass
    path.write_text("no catalog")
    with pytest.raises(AdoptionError, match="does not open it"), open_source(str(path)):
        pass


def test_adopt_when_the_log_has_no_form_for_partition_values_then_they_are_unknown_and_not_null(
    sqlite_lake: StockLake, database_url: str
) -> None:
    sqlite_lake.run(
        "CALL lake.set_option('data_inlining_row_limit', 0)",
        "CREATE TABLE days (k DATE, n INTEGER)",
        "ALTER TABLE days SET PARTITIONED BY (k)",
        "INSERT INTO days VALUES ('2024-01-01', 1), ('12000-01-01', 2), ('0044-03-15 (BC)', 3), ('infinity', 4), (NULL, 5)",
    )
    assert differences_once_taken_over(sqlite_lake, database_url) == []
    with psycopg.connect(database_url) as conn:
        known = conn.execute("SELECT partition_value FROM ducklake_file_partition_value").fetchall()
    assert sorted(known, key=str) == [("2024-01-01",), (None,)]


def test_adopt_when_a_clients_zone_put_times_into_partitions_then_known_only_where_utc_does_too(
    sqlite_lake: StockLake, database_url: str
) -> None:
    sqlite_lake.run(
        "CALL lake.set_option('data_inlining_row_limit', 0)",
        "SET TimeZone = 'Asia/Tokyo'",
        "CREATE TABLE t (moment TIMESTAMPTZ)",
        "ALTER TABLE t SET PARTITIONED BY (year(moment), hour(moment))",
        "INSERT INTO t VALUES ('2019-12-31 20:00:00+00')",
        "SET TimeZone = 'UTC'",
        "INSERT INTO t VALUES ('2020-12-31 20:00:00+00')",
    )
    assert differences_once_taken_over(sqlite_lake, database_url) == []
    with psycopg.connect(database_url) as conn:
        known = conn.execute("SELECT partition_value FROM ducklake_file_partition_value ORDER BY partition_key_index")
        assert known.fetchall() == [("2020",), ("20",)]


def test_adopt_when_a_partition_counts_days_as_other_formats_do_then_it_is_unknown(
    sqlite_lake: StockLake, database_url: str
) -> None:
    sqlite_lake.run(
        "CALL lake.set_option('data_inlining_row_limit', 0)",
        "CREATE TABLE t (d DATE)",
        "ALTER TABLE t SET PARTITIONED BY (day(d))",
        "INSERT INTO t VALUES ('2024-03-05')",
        "INSERT INTO t VALUES ('2024-03-06')",
    )
    with closing(sqlite3.connect(sqlite_lake.source)) as catalog, catalog:
        catalog.execute(
            "UPDATE ducklake_file_partition_value SET partition_value = '19787' WHERE partition_value = '5'"
        )
    assert differences_once_taken_over(sqlite_lake, database_url) == []
    with psycopg.connect(database_url) as conn:
        known = conn.execute("SELECT partition_value FROM ducklake_file_partition_value").fetchall()
    assert known == [("6",)]
