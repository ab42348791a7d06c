"""Doctor finds each thing that can be wrong between the log, the catalog and the files, and nothing in a healthy lake."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from confluent_kafka import Producer
from live_lakes import COLUMNS, LiveLake, live_lake
from psycopg import sql

from commitlog.catalog.checks import ALWAYS, WITH_STATE
from commitlog.catalog.connecting import connect
from commitlog.catalog.guard import missing_roles
from commitlog.client.reading.duckdb_client import open_lake
from commitlog.config import Settings
from commitlog.log.checkpoint import Checkpointer
from commitlog.log.genesis import init_log
from commitlog.ops.cli import cli
from commitlog.ops.maintenance import doctor, storage
from commitlog.ops.maintenance.doctor import (
    DURABILITY,
    HANDLERS,
    ROOM,
    STORAGE,
    CheckResult,
    checks_of,
    examine,
    examine_on,
)
from commitlog.ops.maintenance.export import export_catalog
from commitlog.ops.maintenance.log_side import read_log_side


@pytest.fixture
def lake(settings: Settings) -> Iterator[LiveLake]:
    with live_lake(settings) as lake:
        yield lake


def results(lake: LiveLake) -> dict[str, CheckResult]:
    return {result.check: result for result in examine(lake.settings)}


def wrong(examined: Iterable[CheckResult]) -> dict[str, str]:
    """The checks that found something wrong, with what."""
    return {
        result.check: "; ".join(finding.what for finding in result.findings) or str(result.not_checked)
        for result in examined
        if not result.is_well
    }


def found(lake: LiveLake) -> dict[str, str]:
    return wrong(examine(lake.settings))


def run(lake: LiveLake, *arguments: str) -> Result:
    return CliRunner().invoke(cli, ["doctor", *arguments], env=lake.settings.environment())


def test_doctor_when_all_is_well_then_every_check_is_ok_through_all_that_a_lake_does(lake: LiveLake) -> None:
    expected = [*ALWAYS, *WITH_STATE, HANDLERS, DURABILITY, ROOM, *STORAGE]
    assert list(results(lake)) == checks_of() == expected
    assert checks_of(storage=False) == expected[: -len(STORAGE)]
    assert found(lake) == {}
    with lake.log.transaction() as tx:
        tx.insert_row("main.k", {"id": 3, "v": "z"})
        tx.delete_row("main.k", {"id": 2})
    flushed = lake.folder / "main/k/flushed.parquet"
    flushed.parent.mkdir()
    pq.write_table(pa.table({"id": pa.array([1, 3], pa.int64()), "v": ["x", "z"]}), flushed)
    with lake.log.transaction() as tx:
        tx.flush("main.k", {flushed: [0, 2]})
    lake.settle()
    assert found(lake) == {}
    with lake.log.transaction() as tx:
        tx.update_row("main.k", {"id": 1}, {"id": 1, "v": "z"})
        tx.delete_row("main.k", {"id": 3})
    lake.settle()
    assert found(lake) == {}
    with lake.log.transaction() as tx:
        tx.alter("main.t").add_column("x", "int64", default="5")
    lake.append("main.t", "main/t/c.parquet")
    lake.settle()
    whole = lake.sql("SELECT max(data_file_id) FROM ducklake_data_file WHERE path LIKE '%b.parquet'")[0][0]
    with lake.log.transaction() as tx:
        tx.delete("main.t", whole_files=[whole])
        tx.create_schema("s")
        tx.rename_table("main.k", "k2")
    lake.settle()
    assert found(lake) == {}
    with lake.log.transaction() as tx:
        tx.expire_snapshots(lake.log.head_snapshot_id() - 1)
    lake.settle()
    assert found(lake) == {}
    Checkpointer(lake.settings).checkpoint_now()
    assert found(lake) == {}


def test_doctor_when_there_are_many_tables_then_asks_the_catalog_as_often_as_of_few(
    lake: LiveLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    def counted(of: type[psycopg.Connection[Any] | psycopg.ServerCursor[Any]]) -> None:
        execute = of.execute

        def counting(self: Any, query: Any, *args: Any, **more: Any) -> Any:
            asked.append(query)
            return execute(self, query, *args, **more)

        monkeypatch.setattr(of, "execute", counting)

    def statements() -> int:
        asked.clear()
        told: list[tuple[int, int]] = []
        examined = examine(lake.settings, storage=False, on_progress=lambda *seqs: told.append(seqs))
        assert wrong(examined) == {}
        assert told[0][0] <= told[0][1] == lake.sql("SELECT seq FROM commitlog.applied")[0][0]
        return len(asked)

    counted(psycopg.Connection)
    counted(psycopg.ServerCursor)
    of_few = statements()
    names = [f"many{number}" for number in range(40)]
    with lake.log.transaction() as tx:
        for name in names:
            tx.create_table(name, pa.schema(COLUMNS))
    with lake.log.transaction() as tx:
        for name in names:
            tx.append(name, files=[lake.write(f"main/{name}/{name}.parquet")])
    with lake.log.transaction() as tx:
        for name in names:
            tx.delete(name, {lake.log.table(name).files()[0].data_file_id: [1, 2]})
    lake.settle()
    assert statements() < of_few + len(names)
    table_id, deletes = lake.sql(
        "SELECT table_id, 'ducklake_inlined_delete_' || table_id FROM ducklake_table ORDER BY 1 DESC"
    )[0]
    lake.sql(f"DELETE FROM {deletes} WHERE row_id = 1")
    assert wrong(examine(lake.settings, storage=False)).keys() == {"deletes"}
    lake.sql(f"UPDATE ducklake_table_column_stats SET max_value = '3' WHERE column_id = 1 AND table_id = {table_id}")
    assert wrong(examine(lake.settings, storage=False)).keys() == {"deletes", "column statistics"}


@pytest.mark.parametrize("schema", ["Lake", 'an "odd" one'])
def test_doctor_when_the_schema_and_its_owner_have_names_that_need_quotes_then_all_is_well_and_a_rebuild_is(
    settings: Settings, schema: str
) -> None:
    name = sql.Identifier(schema)
    with psycopg.connect(settings.database_url, autocommit=True) as conn:
        if conn.execute("SELECT to_regrole('\"An-owner\"')").fetchone() == (None,):
            conn.execute('CREATE ROLE "An-owner" SUPERUSER')
        conn.execute(sql.SQL('CREATE SCHEMA {} AUTHORIZATION "An-owner"').format(name))
        path = name.as_string(conn).replace(" ", "\\ ")
    url = f"{settings.database_url}?options={quote(f'-csearch_path={path} -crole=An-owner')}"
    with live_lake(replace(settings, database_url=url)) as lake:
        assert found(lake) == {}
        rebuilt = CliRunner().invoke(cli, ["catalog", "rebuild"], env=lake.settings.environment())
        assert rebuilt.exit_code == 0, rebuilt.output
        with lake.log.transaction() as tx:
            tx.expire_snapshots(lake.log.head_snapshot_id() - 1)
        lake.settle()
        assert found(lake) == {}


def called_as_our_schema(database_url: str) -> None:
    """Makes a role of that name, and the database its own."""
    with psycopg.connect(database_url, autocommit=True) as conn:
        for role in missing_roles(conn):
            conn.execute(sql.SQL("CREATE ROLE {} NOLOGIN").format(sql.Identifier(role)))
        if conn.execute("SELECT to_regrole('commitlog')").fetchone() == (None,):
            conn.execute("CREATE ROLE commitlog LOGIN PASSWORD 'secret'")
        conn.execute(sql.SQL("ALTER DATABASE {} OWNER TO commitlog").format(sql.Identifier(conn.info.dbname)))


@pytest.mark.parametrize("by", ["login", "role"])
def test_catalog_when_its_owner_is_called_as_our_schema_then_everybody_else_finds_it_after_a_rebuild_too(
    settings: Settings, tmp_path: Path, by: str
) -> None:
    called_as_our_schema(settings.database_url)
    url = f"{settings.database_url}?options=-crole%3Dcommitlog"
    if by == "login":
        url = f"postgresql://commitlog:secret@{settings.database_url.rpartition('@')[2]}"
    with live_lake(replace(settings, database_url=url)) as lake:
        assert found(lake) == {}
        for name in ("first", "rebuilt"):
            with lake.log.transaction() as tx:
                tx.create_table(f"main.{name}", schema=pa.schema({"id": pa.int64()}), primary_key=["id"])
            with lake.log.transaction() as tx:
                tx.insert_row(f"main.{name}", {"id": 1})
            lake.settle()
            with open_lake(settings.database_url) as reader:
                assert reader.execute(f"SELECT id FROM {name}").fetchall() == [(1,)]
                assert reader.execute("SELECT count(*) FROM t").fetchone() == (18,)
            rebuilt = CliRunner().invoke(cli, ["catalog", "rebuild"], env=lake.settings.environment())
            assert rebuilt.exit_code == 0, rebuilt.output
        assert found(lake) == {}
        assert export_catalog(url, tmp_path / "export").path.exists()


@pytest.mark.parametrize(
    ("path", "left"),
    [
        ('"$user", public', "public"),
        ('public, "$user"', "public"),
        ('pg_catalog , "$user", public', "pg_catalog, public"),
        ("public", "public"),
    ],
)
def test_connection_when_its_role_is_called_as_our_schema_then_looks_there_only_where_the_catalog_is_there_already(
    database_url: str, path: str, left: str
) -> None:
    called_as_our_schema(database_url)
    url = f"{database_url}?options=-crole%3Dcommitlog"
    with connect(url) as conn:
        conn.execute(
            sql.SQL("ALTER DATABASE {} SET search_path = ").format(sql.Identifier(conn.info.dbname)) + sql.SQL(path)
        )
    with connect(url) as conn:
        assert conn.execute("SHOW search_path").fetchone() == (left,)
        conn.execute("CREATE SCHEMA commitlog CREATE TABLE ducklake_snapshot ()")
    with connect(url) as conn:
        assert conn.execute("SHOW search_path").fetchone() == (path.replace(" ,", ","),)


def test_doctor_when_called_then_exit_code_and_output_tell(lake: LiveLake) -> None:
    done = run(lake)
    assert done.exit_code == 0, done.output
    assert "live files" in done.stdout
    (lake.folder / "main/t/a.parquet").unlink()
    done = run(lake)
    assert done.exit_code == 1
    assert "a.parquet" in done.stdout
    assert "backup" in done.stdout
    lines = [json.loads(line) for line in run(lake, "--json").stdout.splitlines()]
    assert [line["check"] for line in lines if not line["well"]] == ["files"]


DAMAGES: dict[str, tuple[str, str, str]] = {
    "another outcome": ("UPDATE commitlog.applied SET hash = '\\x00'", "position", "another outcome"),
    "beyond the log": ("UPDATE commitlog.applied SET seq = seq + 100", "position", "ends at"),
    "another log": ("UPDATE commitlog.applied SET log_id = gen_random_uuid()", "position", "this log is"),
    "no guard": ("DROP TRIGGER commitlog_guard ON ducklake_tag", "guard", "ducklake_tag"),
    "no privileges": ("REVOKE SELECT ON ducklake_tag FROM commitlog_reader", "guard", "commitlog_reader"),
    "snapshot lost": ("DELETE FROM ducklake_snapshot WHERE snapshot_id = 2", "snapshots", "missing"),
    "head lost": (
        "DELETE FROM ducklake_snapshot WHERE snapshot_id = (SELECT max(snapshot_id) FROM ducklake_snapshot)",
        "snapshots",
        "head",
    ),
    "changes lost": ("DELETE FROM ducklake_snapshot_changes WHERE snapshot_id = 2", "snapshots", "without"),
    "time falls": (
        "UPDATE ducklake_snapshot SET snapshot_time = '2000-01-01' WHERE snapshot_id = 3",
        "snapshots",
        "not later",
    ),
    "counter": ("UPDATE ducklake_snapshot SET next_file_id = 1", "counters", "next_file_id"),
    "renamed": ("UPDATE ducklake_table SET table_name = 'q' WHERE table_name = 't'", "tables", "main.q"),
    "table lost": ("DELETE FROM ducklake_table WHERE table_name = 't'", "tables", "not there"),
    "table without id": ("UPDATE ducklake_table SET table_id = NULL WHERE table_name = 't'", "tables", "never writes"),
    "column lost": ("DELETE FROM ducklake_column WHERE table_id = 1 AND column_id = 1", "columns", "main.t"),
    "column doubled": ("INSERT INTO ducklake_column SELECT * FROM ducklake_column", "columns", "id (1)"),
    "column renamed": (
        "UPDATE ducklake_column SET column_name = 'q' WHERE table_id = 1 AND column_id = 1",
        "columns",
        "id (1), q (1)",
    ),
    "column of another type": (
        "UPDATE ducklake_column SET column_type = 'int32' WHERE table_id = 1 AND column_id = 1",
        "columns",
        "id (1)",
    ),
    "another default": ("UPDATE ducklake_column SET default_value = '7' WHERE column_id = 1", "columns", "id (1)"),
    "definition lost": ("DELETE FROM commitlog.table_definitions", "columns", "commitlog.table_definitions"),
    "definition is none": (
        """UPDATE commitlog.table_definitions SET definition = '[1]'""",
        "column statistics",
        "never writes",
    ),
    "definition too deep": (
        "UPDATE commitlog.table_definitions SET definition = (repeat('[', 5000) || repeat(']', 5000))::jsonb",
        "columns",
        "never writes",
    ),
    "file of no table": ("UPDATE ducklake_data_file SET table_id = NULL", "live files", "never writes"),
    "negative file": ("UPDATE ducklake_data_file SET data_file_id = -data_file_id - 1", "live files", "never writes"),
    "no record count": ("UPDATE ducklake_data_file SET record_count = NULL", "live files", "record_count"),
    "no row ids": ("UPDATE ducklake_table_stats SET next_row_id = NULL", "table statistics", "next_row_id is None"),
    "no bytes": ("UPDATE ducklake_table_stats SET file_size_bytes = NULL", "table statistics", "never writes"),
    "no data path": ("DELETE FROM ducklake_metadata WHERE key = 'data_path'", "files", "catalog rebuild"),
    "scheduled without a path": (
        "INSERT INTO ducklake_files_scheduled_for_deletion VALUES (7, NULL, true, now())",
        "orphans",
        "without an id, a path or a time",
    ),
    "data path in no store": (
        "UPDATE ducklake_metadata SET value = 'gopher://lake/' WHERE key = 'data_path'",
        "files",
        "gopher",
    ),
    "file lost": ("DELETE FROM ducklake_data_file WHERE path LIKE 'b%'", "live files", "not in the catalog"),
    "file ended": ("UPDATE ducklake_data_file SET end_snapshot = 5", "live files", "0 live"),
    "record count": ("UPDATE ducklake_data_file SET record_count = 11", "live files", "record_count"),
    "deletes lost": ("DELETE FROM ducklake_inlined_delete_1", "deletes", "by the log 2"),
    "two delete files": (
        "INSERT INTO ducklake_delete_file (delete_file_id, table_id, begin_snapshot, data_file_id, path, delete_count) "
        "VALUES (90, 1, 3, 1, 'x', 1), (91, 1, 3, 1, 'y', 1)",
        "deletes",
        "two live delete files",
    ),
    "row lost": ("DELETE FROM ducklake_inlined_data_2_2 WHERE id = 1", "keyed rows", "1 live row, by the log 2"),
    "row ids": ("UPDATE ducklake_table_stats SET next_row_id = 1", "table statistics", "next_row_id"),
    "too few rows": ("UPDATE ducklake_table_stats SET record_count = 1", "table statistics", "record_count"),
    "too few bytes": ("UPDATE ducklake_table_stats SET file_size_bytes = 1", "table statistics", "file_size_bytes"),
    "narrow": (
        "UPDATE ducklake_table_column_stats SET max_value = '9' WHERE table_id = 1 AND column_id = 1",
        "column statistics",
        "id",
    ),
    "narrow floats": (
        "UPDATE ducklake_table_column_stats SET min_value = '1.5' WHERE table_id = 1 AND column_id = 3",
        "column statistics",
        "f",
    ),
    "size": ("UPDATE ducklake_data_file SET file_size_bytes = 1", "files", "not 1)"),
    "footer": ("UPDATE ducklake_data_file SET footer_size = 1", "footers", "2 of 2"),
}


def test_doctor_when_the_catalog_is_damaged_then_the_check_that_is_for_it_says_so(
    lake: LiveLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    with psycopg.connect(lake.settings.database_url) as conn:
        row = conn.execute("SELECT log_id, seq, hash FROM commitlog.applied").fetchone()
    assert row is not None
    log = read_log_side(lake.settings, applied_log_id=row[0].bytes, applied_seq=row[1], applied_hash=row[2])
    quiet = []
    for damage, (statement, check, told) in DAMAGES.items():
        with psycopg.connect(lake.settings.database_url) as conn:
            conn.execute("SET commitlog.projector = 'on'")
            conn.execute(statement.encode())
            with monkeypatch.context() as patched:
                if check != "position":
                    patched.setattr("commitlog.ops.maintenance.log_side.read_log_side", lambda settings, **applied: log)
                result = wrong(examine_on(conn, lake.settings))
            conn.rollback()
        if told not in result.get(check, ""):
            quiet.append((damage, result))
    assert quiet == []
    assert found(lake) == {}


def test_doctor_when_somebody_else_writes_results_then_says_where_and_readers_say_it_too(
    lake: LiveLake, caplog: pytest.LogCaptureFixture
) -> None:
    producer = Producer({"bootstrap.servers": lake.settings.bootstrap_servers})
    for _ in range(12):
        producer.produce(f"{lake.settings.log}.results", b"forged", partition=0)
    assert producer.flush(20) == 0
    lake.append("main.t", "main/t/after.parquet")
    lake.settle()
    assert "no record of commitlog, at the offsets" in found(lake)["records"]
    told = [record.getMessage() for record in caplog.records if record.name == "commitlog.results"]
    assert any("(6 bytes; 1 such so far)" in line and ".results holds at offset" in line for line in told)
    assert any("10 such so far" in line for line in told)
    assert not any("9 such" in line for line in told)


def test_doctor_when_files_are_damaged_then_says_which(lake: LiveLake) -> None:
    a, b = lake.folder / "main/t/a.parquet", lake.folder / "main/t/b.parquet"
    stranger = lake.write("somewhere/else.parquet")
    (lake.folder / "main/t/.a.parquet.crc").touch()
    notes = results(lake)["orphans"]
    assert notes.is_well
    assert "1 file " in notes.findings[0].what
    assert str(stranger) in notes.findings[0].what
    raw = b.read_bytes()
    b.write_bytes(raw[:-8] + b"\1\0\0\0PAR1")
    assert "b.parquet" in found(lake)["footers"]
    b.write_bytes(raw + b"x")
    assert "b.parquet" in found(lake)["files"]
    b.write_bytes(raw)
    a.rename(a.with_suffix(".away"))
    assert "missing" in found(lake)["files"]


def test_doctor_when_a_store_does_not_answer_for_a_while_then_says_what_it_could_not_look_at(
    lake: LiveLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That nobody answers says nothing of the files: to propose that they be deleted would be bad advice."""

    class Busy:
        def open_input_file(self, _: str) -> None:
            raise OSError("AWS Error SLOW_DOWN")

    def busy(*_: object) -> None:
        raise OSError("AWS Error INTERNAL_FAILURE")

    monkeypatch.setattr(storage, "_opened", lambda path: (Busy(), path))
    monkeypatch.setattr(doctor, "check_owner", busy)
    assert found(lake) == {"data path": "AWS Error INTERNAL_FAILURE", "footers": "AWS Error SLOW_DOWN"}
    told = run(lake)
    assert (told.exit_code, told.output.count("not checked")) == (1, 2)


def test_doctor_when_the_projector_is_behind_then_compares_with_what_it_has_applied(
    lake: LiveLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("commitlog.catalog.checks.BEHIND_MS_MAX", math.inf)
    lake.pause()
    lake.append("main.t", "main/t/later.parquet")
    assert found(lake) == {}
    Checkpointer(lake.settings).checkpoint_now()
    assert found(lake) == {}
    monkeypatch.setattr("commitlog.catalog.checks.BEHIND_MS_MAX", -1)
    assert "1 outcome decided" in found(lake)["lag"]


def test_doctor_when_there_is_no_catalog_then_says_how_to_make_one(settings: Settings) -> None:
    init_log(settings)
    assert [result.findings[0].advice for result in examine(settings)] == ["run `commitlog init`"]
