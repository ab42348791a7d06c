"""What a stock client does through the gateway comes out as on a lake of its own, now and at each snapshot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pytest
from gateway_commits import commit
from gateways import stock_client
from stock import stock_lake

from commitlog.client import CommitLog
from commitlog.config import Settings
from commitlog.gateway.batch import parse

STATEMENTS = (
    "CREATE TABLE t (id BIGINT, v VARCHAR, d DOUBLE DEFAULT 1.5)",
    "INSERT INTO t SELECT range, 'v' || range, range / 2 FROM range(100)",
    "INSERT INTO t (id, v) VALUES (200, 'it''s; \"so\"'), (201, NULL)",
    "DELETE FROM t WHERE id = 3",
    "DELETE FROM t WHERE id < 10",
    "UPDATE t SET v = 'changed' WHERE id BETWEEN 20 AND 25",
    "DELETE FROM t WHERE id = 22 OR id = 60",
    "CREATE TABLE u AS SELECT id, v FROM t WHERE id > 50",
    "MERGE INTO t USING (VALUES (30, 'm'), (1000, 'n')) s (id, v) ON t.id = s.id "
    "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, s.v)",
    "ALTER TABLE t ADD COLUMN w INTEGER DEFAULT 7",
    "INSERT INTO t VALUES (2000, 'x', 0.5, 1)",
    "ALTER TABLE t RENAME COLUMN v TO name",
    "ALTER TABLE t ALTER COLUMN w SET DATA TYPE BIGINT",
    "ALTER TABLE t ALTER COLUMN w SET DEFAULT 9",
    "ALTER TABLE t ALTER COLUMN id SET NOT NULL",
    "ALTER TABLE t DROP COLUMN d",
    "INSERT INTO t (id) VALUES (3000)",
    "COMMENT ON TABLE t IS 'all of it'",
    "COMMENT ON COLUMN t.w IS 'why'",
    "BEGIN; INSERT INTO t (id) VALUES (4000); DELETE FROM u WHERE id < 90; COMMIT",
    "ALTER TABLE u RENAME TO renamed",
    "ALTER TABLE renamed RENAME TO Renamed",
    "TRUNCATE renamed",
    "INSERT INTO renamed VALUES (1, 'again')",
    "ALTER TABLE renamed ADD COLUMN empty VARCHAR DEFAULT ''",
    "ALTER TABLE renamed ADD COLUMN no_bytes BLOB DEFAULT ''",
    "CREATE OR REPLACE TABLE renamed AS SELECT 1 AS one",
    "BEGIN; CREATE TABLE made AS SELECT id, name FROM t ORDER BY id; ALTER TABLE renamed RENAME TO kept; "
    "ALTER TABLE made RENAME TO renamed; COMMIT",
    "BEGIN; CREATE TABLE made (id BIGINT, k INTEGER); ALTER TABLE made SET PARTITIONED BY (k); "
    "INSERT INTO made SELECT range, range % 2 FROM range(9); DROP TABLE kept; ALTER TABLE made RENAME TO kept; COMMIT",
    "INSERT INTO kept VALUES (100, 1)",
    "CREATE SCHEMA s",
    "CREATE TABLE s.p (k INTEGER, y INTEGER)",
    "ALTER TABLE s.p SET PARTITIONED BY (k)",
    "INSERT INTO s.p SELECT range % 3, range FROM range(9)",
    "DELETE FROM s.p WHERE k = 1",
    "CREATE VIEW s.v AS SELECT id FROM t WHERE id > 100",
    "CREATE TABLE n (a STRUCT(x INTEGER, y VARCHAR[]), m MAP(VARCHAR, INTEGER))",
    "INSERT INTO n VALUES ({'x': 1, 'y': ['a', NULL]}, MAP {'k': 2}), (NULL, NULL)",
    "ALTER TABLE n ADD COLUMN b STRUCT(z BIGINT)",
    "INSERT INTO n VALUES ({'x': 2, 'y': []}, MAP {}, {'z': 5})",
    "BEGIN; DELETE FROM n WHERE a IS NULL; INSERT INTO n VALUES (NULL, MAP {}, NULL); DROP TABLE n; COMMIT",
    "BEGIN; UPDATE kept SET k = 2 WHERE id < 3; CREATE OR REPLACE TABLE kept AS SELECT id FROM kept WHERE k = 2; COMMIT",
    "DROP VIEW s.v",
    "BEGIN; DELETE FROM s.p WHERE k = 2; TRUNCATE s.p; DROP SCHEMA s CASCADE; COMMIT",
    "BEGIN; CREATE TABLE gone (a INTEGER); DROP TABLE gone; COMMIT",
)
_TABLES = "SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = 'lake' ORDER BY ALL"
_VIEWS = "SELECT schema_name, view_name FROM duckdb_views() WHERE database_name = 'lake' AND NOT internal ORDER BY ALL"


def contents(client: duckdb.DuckDBPyConnection, at: str = "") -> dict[str, Any]:
    """Every table and view: its columns, and its rows with the ids of those of tables."""
    found: dict[str, Any] = {}
    for query, row_ids in ((_TABLES, "rowid, "), (_VIEWS, "")):
        for schema, name in client.execute(query).fetchall():
            read = f'SELECT {row_ids}* FROM lake."{schema}"."{name}"{at}'
            try:
                answer = client.execute(read)
            except duckdb.Error:
                continue  # It was not there then.
            columns = [(column[0], str(column[1])) for column in answer.description or ()]
            found[f"{schema}.{name}"] = columns, sorted(map(repr, answer.fetchall()))
    return found


def test_statements_when_run_through_the_gateway_then_as_on_a_lake_of_the_clients_own(
    settings: Settings, gateway_url: str, tmp_path: Path
) -> None:
    plain = stock_lake("duckdb", tmp_path)
    with plain.client() as theirs, stock_client(gateway_url) as ours:
        theirs.execute("CALL lake.set_option('data_inlining_row_limit', 0)")
        for client in (theirs, ours):
            # Of several threads the rows come in any order, and so have any ids.
            client.execute("SET threads = 1")
        for statement in STATEMENTS:
            theirs.execute(statement)
            ours.execute(statement)
            assert contents(ours) == contents(theirs), statement
        assert [row[:1] for row in ours.execute("FROM lake.snapshots()").fetchall()] == [
            row[:1] for row in theirs.execute("FROM lake.snapshots()").fetchall()
        ]
        for (snapshot_id,) in ours.execute("SELECT snapshot_id FROM lake.snapshots()").fetchall():
            at = f" AT (VERSION => {snapshot_id})"
            assert contents(ours, at) == contents(theirs, at), snapshot_id


def test_statements_when_the_log_cannot_take_them_then_refused_and_nothing_is_done(
    settings: Settings, gateway_url: str
) -> None:
    with stock_client(gateway_url) as client, CommitLog.connect(settings=settings) as log:
        with log.transaction() as tx:
            tx.create_table("k", {"id": "int64", "v": "varchar"}, primary_key=["id"])
            tx.insert_row("k", {"id": 1, "v": "x"})
        log.wait_for_snapshot()
        client.execute("CREATE TABLE t (id BIGINT, s STRUCT(x INTEGER))")
        for statement, told in (
            ("INSERT INTO k VALUES (1, 'y')", "already"),
            ("ALTER TABLE t SET SORTED BY (id)", "no sort order"),
            ("ALTER TABLE t ADD COLUMN s.y INTEGER", "whose fields change"),
            ("BEGIN; ALTER TABLE t RENAME TO T; ALTER TABLE t RENAME TO t; COMMIT", "rename it once"),
            (
                "BEGIN; ALTER TABLE t RENAME TO t; INSERT INTO t (id) VALUES (1); ALTER TABLE t RENAME TO t; COMMIT",
                "rename it once",
            ),
        ):
            before = contents(client)
            with pytest.raises(duckdb.Error, match=told):
                client.execute(statement)
            assert contents(client) == before
        assert log.head_snapshot_id() == 2
        client.execute("UPDATE k SET v = 'y'")
        assert client.execute("FROM k").fetchall() == [(1, "y")]
        assert log.history()[0].change_kinds == ("UPDATE_ROW",)


def test_rows_when_one_transaction_inserts_and_changes_them_then_what_is_left_is_there(
    settings: Settings, gateway_url: str
) -> None:
    with stock_client(gateway_url) as client:
        client.execute("CREATE TABLE t (id BIGINT, v VARCHAR)")
        client.execute("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
        client.execute(
            "BEGIN; INSERT INTO t VALUES (3, 'c'), (4, 'd'), (5, 'e'); DELETE FROM t WHERE id IN (2, 4); "
            "UPDATE t SET v = 'changed' WHERE id IN (1, 5); COMMIT"
        )
        assert client.execute("SELECT id, v FROM t ORDER BY id").fetchall() == [
            (1, "changed"),
            (3, "c"),
            (5, "changed"),
        ]
        row_ids = dict(client.execute("SELECT id, rowid FROM t").fetchall())
        assert row_ids[1] == 0
        assert len(set(row_ids.values())) == 3
        assert max(row_ids.values()) < 10
        client.execute("UPDATE t SET v = 'again' WHERE id = 5")
        assert client.execute("SELECT v FROM t WHERE id = 5").fetchall() == [("again",)]
        client.execute(
            "BEGIN; CREATE TABLE made (id BIGINT); INSERT INTO made VALUES (1), (2); DELETE FROM made WHERE id = 1; "
            "ALTER TABLE made RENAME TO last; COMMIT"
        )
        assert client.execute("FROM last").fetchall() == [(2,)]


def test_rows_when_one_transaction_brings_and_changes_them_then_as_on_a_lake_of_the_clients_own(
    settings: Settings, gateway_url: str, tmp_path: Path
) -> None:
    """Files are written anew that have no field ids, those of another table, or a folder with a column's name."""
    plain = stock_lake("duckdb", tmp_path)
    rows = "SELECT i * 1000 AS b, i AS A, {'x': i, 'l': [i]} AS s, 'v' || i AS v FROM range(10) g(i)"
    with plain.client() as theirs, stock_client(gateway_url) as ours:
        theirs.execute(f"COPY ({rows}) TO '{tmp_path}/names.parquet'")
        theirs.execute(f"COPY ({rows}) TO '{tmp_path}/other.parquet' (FIELD_IDS {{b: 1, A: 2, v: 3}})")
        theirs.execute("CALL lake.set_option('data_inlining_row_limit', 0)")
        for statement in (
            "CREATE TABLE added (a BIGINT, b BIGINT, v VARCHAR, s STRUCT(x BIGINT, l BIGINT[]))",
            f"BEGIN; CALL ducklake_add_data_files('lake', 'added', '{tmp_path}/names.parquet'); "
            "DELETE FROM added WHERE a < 3; UPDATE added SET v = 'changed' WHERE a = 7; COMMIT",
            f"BEGIN; CALL ducklake_add_data_files('lake', 'added', '{tmp_path}/../{tmp_path.name}/other.parquet'); "
            "DELETE FROM added WHERE a = 1; COMMIT",
            "CREATE TABLE parted (at_time TIMESTAMP, year INTEGER, month VARCHAR, file_row_number INTEGER)",
            "ALTER TABLE parted SET PARTITIONED BY (year(at_time), month(at_time))",
            "BEGIN; INSERT INTO parted SELECT TIMESTAMP '2020-05-01', 1990 + i, 'm' || i, i FROM range(9) g(i); "
            "DELETE FROM parted WHERE file_row_number = 3; COMMIT",
        ):
            theirs.execute(statement)
            ours.execute(statement)
            if statement.startswith("CREATE TABLE added"):
                with CommitLog.connect(settings=settings) as log, log.transaction() as opening:
                    opening.alter("main.added").set_property("foreign_paths", "true")
        for asked in (
            "SELECT * FROM added ORDER BY ALL",
            "SELECT min(a), max(a), min(b), max(b), min(v), max(v) FROM added",
            *(f"SELECT count(*) FROM added WHERE {each}" for each in ("b = 4000", "a = 4", "s.x = 4", "s.x > 9")),
            "SELECT * FROM parted ORDER BY ALL",
            "SELECT count(*) FROM parted WHERE year = 1992",
        ):
            assert ours.execute(asked).fetchall() == theirs.execute(asked).fetchall(), asked


def test_file_of_another_table_when_a_text_calls_it_its_own_then_stays(settings: Settings, gateway_url: str) -> None:
    """The gateway removes what its clients no longer need, and takes their word for what they have made only so far."""
    with stock_client(gateway_url) as client, psycopg.connect(gateway_url, autocommit=True) as hostile:
        client.execute("CREATE TABLE u AS SELECT i AS a, 'v' AS b FROM range(10) g(i)")
        asked = "SELECT s.*, path, d.file_size_bytes, footer_size FROM ducklake_snapshot s, ducklake_data_file d"
        snapshot, _, version, _, next_id, path, size, footer = (
            hostile.execute(asked + " ORDER BY 1 DESC").fetchone() or ()
        )
        given = commit("create_table_as")
        (told,) = parse(given.text).rows["data_file"]
        # The table t that it creates is said to lie where u does.
        text = given.text.replace("'u', 'u/'", "'t', 'u/'").replace('"u"', '"t"').replace(told["path"], path)
        text = text.replace("'int32'", "'int64'").replace("(3, NOW(), 2, 3, 2)", f"(3, NOW(), {version}, {next_id}, 2)")
        text = text.replace(", 3, NULL", f", {snapshot + 1}, NULL").replace("(3, ", f"({snapshot + 1}, ")
        text = text.replace("10, 367, 220", f"10, {size}, {footer}")
        hostile.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        hostile.execute(text.encode())
        hostile.execute("COMMIT")
        assert client.execute("SELECT count(*) FROM t").fetchall() == [(10,)]
        assert client.execute("SELECT sum(a) FROM u").fetchall() == [(45,)]


def test_a_refusal_when_no_repeat_could_help_then_does_not_advise_one(settings: Settings, gateway_url: str) -> None:
    with stock_client(gateway_url) as first, stock_client(gateway_url) as second:
        first.execute("CREATE TABLE t (id INTEGER)")
        with pytest.raises(duckdb.Error, match="does not fit") as invalid:
            first.execute("ALTER TABLE t ADD COLUMN price DECIMAL(10, 2) DEFAULT 1.239")
        assert "tells more" in str(invalid.value)
        assert "repeat" not in str(invalid.value)
        first.execute("CREATE TABLE u (id INTEGER)")
        second.execute("BEGIN; INSERT INTO t VALUES (1); INSERT INTO u VALUES (1)")
        first.execute("DROP TABLE t; DROP TABLE u")
        with pytest.raises(duckdb.Error, match="tells more; read again and repeat the transaction") as conflicting:
            second.execute("COMMIT")
        assert "since base 2 (and 1 more con·flict); nothing was committed" in str(conflicting.value)
