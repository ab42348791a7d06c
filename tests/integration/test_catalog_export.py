"""commitlog catalog export: the stock client reads the frozen lake as it reads the living one, at every snapshot of it."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from click.testing import CliRunner, Result
from deciding import alter, change, create_table, insert, keyed_table, update
from lakes import Lake
from test_catalog_history import History

from commitlog.catalog.queries import Catalog
from commitlog.client.files.lake import claim
from commitlog.client.reading.duckdb_client import attach, open_duckdb, open_lake
from commitlog.config import Settings
from commitlog.errors import CatalogMismatchError, CatalogUnavailableError, ConfigurationError, SnapshotNotFoundError
from commitlog.ops.cli import cli
from commitlog.ops.maintenance.export import Export, ExportFormat, ExportProgress, _Freezing, export_catalog

TYPES = {
    "b": "boolean", "i8": "int8", "u32": "uint32", "u64": "uint64", "h": "int128", "f": "float32", "d": "float64",
    "t": "time", "tz": "timetz", "iv": "interval", "s": "varchar", "bl": "blob", "j": "json", "u": "uuid", "da": "date",
    "ts": "timestamp", "tns": "timestamp_ns", "tstz": "timestamptz", "de": "decimal(38,10)",
    "st": "struct(a int32, n varchar)", "l": "list(varchar)", "m": "map(varchar, int32)",
}  # fmt: skip
ROW = {
    "b": True, "i8": -8, "u32": 4294967295, "u64": "18446744073709551615", "h": "-170141183460469231731687303715884105727",
    "f": 1.5, "d": "nan", "t": "12:34:56.789", "tz": "12:34:56+02", "iv": "1 month -2 days 00:00:03.5",
    "s": "it's \"q\" äö\n", "bl": "\\x00\\xFFab", "j": '{"a": [1, null]}', "u": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
    "da": "2024-02-03", "ts": "2024-02-03 04:05:06.123456", "tns": "2024-02-03 04:05:06.123456789",
    "tstz": "2024-02-03 04:05:06.5+02", "de": "12345678901234567890.0123456789", "st": {"a": 1, "n": "it's, {x}"},
    "l": ["a,b", None, "NULL", 'q"'], "m": {"k, =": 1, "b": None},
}  # fmt: skip


@pytest.fixture
def lake(database_url: str, lake_dir: Path) -> Iterator[Lake]:
    """A lake with a random history of files, deletes and rows, rows of every type, partitions, views and a dropped table."""
    lake = Lake(database_url, lake_dir)
    history = History(lake, seed=3)
    for _ in range(20):
        history.step()
    lake.commit({"kind": "CREATE_SCHEMA", "schema": "s"})
    columns = [{"name": name, "type": kind} for name, kind in {"id": "int64", **TYPES}.items()]
    lake.commit({**keyed_table("types"), "columns": columns}, insert("types", id=1, **ROW), insert("types", id=2))
    lake.commit(update(2, "types", b=False, s=""), alter("SET_COMMENT", "types", name=None, comment="all of them"))
    lake.commit(create_table("p", "id int64, region varchar", schema="s"))
    by_region = {"op": "SET_PARTITION_BY", "partition_by": [{"column": "region", "transform": "identity"}]}
    lake.commit(change("ALTER_TABLE", "p", alterations=[by_region], schema="s"))
    file = lake.write("p", [{"id": 1, "region": "north"}], {"id": pa.int64(), "region": pa.string()})
    lake.commit(change("APPEND", "p", schema="s", files=[{**file, "partition_values": ["north"]}]))
    lake.commit({"kind": "CREATE_VIEW", "schema": "main", "view": "v", "sql": "SELECT count(*) AS n FROM k"})
    lake.commit(create_table("gone", "id int64"))
    lake.append("gone", [{"id": 5}], {"id": pa.int64()})
    lake.commit({"kind": "DROP_TABLE", "schema": "main", "table": "gone"})
    lake.append("t", [{"id": 99}], {"id": pa.int64()})
    yield lake
    lake.close()


@contextmanager
def attached(export: Export) -> Iterator[duckdb.DuckDBPyConnection]:
    with open_duckdb("sqlite_scanner", "ducklake") as client:
        client.execute(f"ATTACH '{export.attach}' AS lake (READ_ONLY)")
        client.execute("USE lake")
        yield client


def seen(client: duckdb.DuckDBPyConnection, snapshots: range) -> dict[str, Any]:
    """All that a client can see of a lake at these snapshots."""
    answers: dict[str, Any] = {}
    for snapshot_id in [*snapshots[::3], *snapshots[-3:]]:
        at = f"AT (VERSION => {snapshot_id})"
        for table in ("t", "k", "types", "s.p", "gone"):
            for what in ("rowid, *", "count(*), max(id), min(id)"):
                query = f"SELECT {what} FROM {table} {at}"
                try:
                    answers[query] = sorted(map(repr, client.execute(query).fetchall()))
                except (duckdb.CatalogException, duckdb.BinderException):
                    answers[query] = "not there"
    for query in (
        "SELECT * FROM v",
        "SELECT * FROM s.p WHERE region = 'north'",
        "SELECT id FROM t WHERE id > 0 ORDER BY rowid",
        f"SELECT * FROM ducklake_snapshots('lake') WHERE snapshot_id <= {snapshots[-1]} ORDER BY 1",
        f"SELECT * FROM ducklake_table_changes('lake', 'main', 't', {snapshots[0]}, {snapshots[-1]}) ORDER BY ALL",
        "SELECT table_name, table_id, file_count FROM ducklake_table_info('lake') ORDER BY 1",
        "SELECT table_name, comment FROM duckdb_tables() WHERE database_name = 'lake' ORDER BY 1",
    ):
        try:
            answers[query] = list(map(repr, client.execute(query).fetchall()))
        except duckdb.CatalogException:
            answers[query] = "not there"
    return answers


@pytest.mark.parametrize("form", list(ExportFormat))
def test_export_then_the_stock_client_sees_the_same_at_every_snapshot(
    lake: Lake, tmp_path: Path, form: ExportFormat
) -> None:
    made = export_catalog(lake.database_url, tmp_path / "out", form=form)
    assert made.snapshot_id == lake.log.head
    everything = range(1, lake.log.head + 1)
    with open_lake(lake.database_url) as living:
        expected = seen(living, everything)
    assert len(expected[f"SELECT rowid, * FROM types AT (VERSION => {lake.log.head})"]) == 2
    with attached(made) as frozen:
        assert seen(frozen, everything) == expected


@pytest.mark.parametrize(("form", "back"), [(ExportFormat.SQLITE, 3), (ExportFormat.DUCKDB, 12)])
def test_export_of_an_older_snapshot_then_it_is_the_newest_there(
    lake: Lake, tmp_path: Path, form: ExportFormat, back: int
) -> None:
    snapshot_id = lake.log.head - back
    made = export_catalog(lake.database_url, tmp_path, snapshot_id=snapshot_id, form=form)
    past = range(1, snapshot_id + 1)
    with open_lake(lake.database_url) as living, attached(made) as frozen:
        expected = {query: rows for query, rows in seen(living, past).items() if "AT (VERSION" in query}
        found = seen(frozen, past)
        assert {query: found[query] for query in expected} == expected
        now = frozen.execute("SELECT rowid, * FROM t").fetchall()
        assert sorted(map(repr, now)) == expected[f"SELECT rowid, * FROM t AT (VERSION => {snapshot_id})"]
        assert frozen.execute("SELECT max(snapshot_id) FROM ducklake_snapshots('lake')").fetchone() == (snapshot_id,)
        with pytest.raises(duckdb.Error):
            frozen.execute(f"SELECT * FROM t AT (VERSION => {snapshot_id + 1})")


def test_export_with_files_then_it_needs_nothing_of_the_living_lake(lake: Lake, tmp_path: Path) -> None:
    everything = range(1, lake.log.head + 1)
    with open_lake(lake.database_url) as living:
        expected = seen(living, everything)
    told: list[ExportProgress] = []
    made = export_catalog(
        lake.database_url, tmp_path / "out", form=ExportFormat.DUCKDB, copy_files=True, on_progress=told.append
    )
    assert made.files_copied > 5
    assert told[-1].files == told[-1].files_total == made.files_copied
    assert told == sorted(told, key=lambda each: (each.tables, each.files))
    with pytest.raises(ConfigurationError, match="holds files already"):
        export_catalog(lake.database_url, tmp_path / "out", form=ExportFormat.SQLITE, copy_files=True)
    shutil.rmtree(lake.folder)
    with attached(made) as frozen:
        assert seen(frozen, everything) == expected


def test_export_when_the_snapshot_is_not_there_then_says_which_are_and_leaves_nothing(
    lake: Lake, tmp_path: Path
) -> None:
    lake.commit({"kind": "EXPIRE_SNAPSHOTS", "older_than_snapshot_id": 5})
    for snapshot_id in (4, lake.log.head + 1):
        with pytest.raises(SnapshotNotFoundError, match=f"from 5 to {lake.log.head}"):
            export_catalog(lake.database_url, tmp_path / "out", snapshot_id=snapshot_id)
    assert list((tmp_path / "out").iterdir()) == []
    export_catalog(lake.database_url, tmp_path / "out", snapshot_id=5)
    with pytest.raises(ConfigurationError, match="there already"):
        export_catalog(lake.database_url, tmp_path / "out", snapshot_id=5)


def test_export_when_there_are_many_tables_then_asks_for_what_they_are_once(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    select = _Freezing._select

    def counting(of: Any, query: str, *parameters: Any) -> Any:
        asked.append(query)
        return select(of, query, *parameters)

    monkeypatch.setattr(_Freezing, "_select", counting)
    export_catalog(lake.database_url, tmp_path / "few")
    of_few = len(asked)
    asked.clear()
    lake.commit(*(create_table(f"many{number}") for number in range(20)))
    export_catalog(lake.database_url, tmp_path / "many")
    assert len(asked) == of_few


def test_export_when_another_one_writes_there_meanwhile_then_the_first_to_end_is_whole(
    lake: Lake, tmp_path: Path
) -> None:
    made: list[Export] = []
    out = tmp_path / "out"

    def another(progress: ExportProgress) -> None:
        if progress.tables == 1:
            made.append(export_catalog(lake.database_url, out))

    with pytest.raises(ConfigurationError, match=r"catalog\.sqlite is there already"):
        export_catalog(lake.database_url, out, on_progress=another)
    assert [each.name for each in out.iterdir()] == ["catalog.sqlite"]
    with attached(made[0]) as frozen:
        assert frozen.execute("SELECT max(snapshot_id) FROM ducklake_snapshots('lake')").fetchone() == (lake.log.head,)


def test_export_when_the_copy_cannot_be_written_then_it_is_not_told_as_postgresqls_fault(
    lake: Lake, tmp_path: Path
) -> None:
    there, gone = tmp_path / "there", tmp_path / "gone"

    def away(progress: ExportProgress) -> None:
        if there.exists():
            there.rename(gone)

    with pytest.raises(OSError, match=r"DuckDB cannot write the copy into .*catalog\.duckdb: .*No such file") as raised:
        export_catalog(lake.database_url, there, form=ExportFormat.DUCKDB, on_progress=away)
    assert "PostgreSQL" not in str(raised.value)


def test_attach_when_postgresql_answers_and_duckdb_refuses_then_it_is_duckdb_that_is_told(lake: Lake) -> None:
    with open_duckdb("postgres_scanner") as conn:
        with pytest.raises(ConfigurationError, match=r"DuckDB cannot open postgresql://.*no_such_option"):
            attach(conn, lake.database_url, "", "live (TYPE postgres, no_such_option 1)")
        with pytest.raises(CatalogUnavailableError, match="nowhere"):
            attach(conn, f"{lake.database_url.rpartition('/')[0]}/nowhere", "", "live (TYPE postgres)")


def test_catalog_when_its_url_has_an_option_that_is_none_then_that_is_said() -> None:
    with pytest.raises(ConfigurationError, match=r'postgresql://me:\*\*\*@h/db.*"sslmod"'):
        Catalog("postgresql://me:hush@h/db?sslmod=verify-full").exists()
    with pytest.raises(ConfigurationError, match=r"postgresql://me:\*\*\*@h/db: .*percent-encoded") as raised:
        Catalog("postgresql://me:hu%sh@h/db").exists()
    assert "hu%sh" not in str(raised.value)


def test_export_command_then_prints_what_duckdb_attaches(lake: Lake, settings: Settings, tmp_path: Path) -> None:
    arguments = ["catalog", "export", "--to", str(tmp_path / "Ann's"), "--snapshot", "2"]
    done = CliRunner(env=settings.environment()).invoke(cli, arguments, catch_exceptions=False)
    assert done.exit_code == 0
    assert f"ATTACH 'ducklake:sqlite:{tmp_path}/Ann''s/catalog.sqlite'" in done.output


def test_export_command_when_the_catalog_is_another_logs_then_refused_whether_kafka_is_there_or_not(
    lake: Lake, settings: Settings, tmp_path: Path
) -> None:
    def export(log: str) -> Result:
        away = replace(settings, log=log, bootstrap_servers="127.0.0.1:1")
        arguments = ["catalog", "export", "--to", str(tmp_path / log), "--snapshot", "2"]
        return CliRunner(env=away.environment()).invoke(cli, arguments)

    with closing(Catalog(lake.database_url)) as catalog:
        claim(catalog.data_path(), bytes(range(16)), "ours")
    refused = export("others").exception
    assert isinstance(refused, CatalogMismatchError)
    assert re.search(r"is that of log ours \(.*\), not of log others: check --log", str(refused))
    assert export("ours").exit_code == 0
