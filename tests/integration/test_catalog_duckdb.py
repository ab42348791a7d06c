"""The stock DuckDB client reads exactly what the log committed, at the head and at every snapshot."""

from __future__ import annotations

from contextlib import closing
from decimal import Decimal
from typing import Any

import duckdb
import psycopg
import pyarrow as pa
import pytest
from deciding import (
    alter,
    change,
    compact,
    create_table,
    delete,
    delete_row,
    delete_whole,
    insert,
    keyed_table,
    update,
)
from lakes import TYPES, Lake, some

from commitlog.catalog.table_changes import ReadersCatalog
from commitlog.client.reading.duckdb_client import connection_text, extension_file
from commitlog.client.reading.scan import Scan
from commitlog.client.tables.names import TableName


def test_appends_then_rows_filters_snapshots_and_changes(lake: Lake) -> None:
    lake.commit(create_table(), author="me", message="made, with 'quotes'", extra="x")
    first = lake.append("t", some(1, 2, 3), TYPES)
    second = lake.append("t", some(10, 11), TYPES)
    assert lake.rows("SELECT id FROM t") == [(1,), (10,), (11,), (2,), (3,)]
    assert lake.rows("SELECT v FROM t WHERE id > 9") == [("v10",), ("v11",)]
    assert lake.rows("SELECT id FROM t WHERE id = 5") == []
    assert lake.rows(f"SELECT id FROM t AT (VERSION => {first})") == [(1,), (2,), (3,)]
    assert lake.rows("SELECT max(id), count(*) FROM t") == [(11, 5)]
    snapshots = lake.rows("SELECT snapshot_id, author, commit_message FROM ducklake_snapshots('lake')")
    assert snapshots[:2] == [(0, None, None), (1, "me", "made, with 'quotes'")]
    changes = f"SELECT change_type, id FROM ducklake_table_changes('lake', 'main', 't', {second}, {second})"
    assert lake.rows(changes) == [("insert", 10), ("insert", 11)]
    assert lake.rows("SELECT rowid, id FROM t WHERE id >= 3") == [(2, 3), (3, 10), (4, 11)]


def test_deletes_in_three_forms_then_rows_are_gone_from_their_snapshot_on(lake: Lake) -> None:
    lake.commit(create_table())
    lake.append("t", some(*range(10)), TYPES)
    data_file = str(lake.folder / "f1.parquet")
    third = lake.commit(delete({0: [0, 1]}))
    first_delete = {"data_file_id": 0, "path": lake.delete_file(data_file, [5, 6]), "path_is_relative": False}
    fourth = lake.commit(change("DELETE", delete_files=[{**first_delete, "rows": [5, 6], "file_size_bytes": 900}]))
    second_delete = {"data_file_id": 0, "path": lake.delete_file(data_file, [5, 6, 7]), "path_is_relative": False}
    fifth = lake.commit(change("DELETE", delete_files=[{**second_delete, "rows": [5, 6, 7], "file_size_bytes": 900}]))
    lake.append("t", some(20), TYPES)
    last = lake.commit(delete_whole(0))

    def ids(snapshot: int) -> list[int]:
        return sorted(i for (i,) in lake.rows(f"SELECT id FROM t AT (VERSION => {snapshot})"))

    assert ids(2) == list(range(10))
    assert ids(third) == [2, 3, 4, 5, 6, 7, 8, 9]
    assert ids(fourth) == [2, 3, 4, 7, 8, 9]
    assert ids(fifth) == [2, 3, 4, 8, 9]
    assert ids(last) == [20]
    for snapshot, gone in ((third, [0, 1]), (fourth, [5, 6]), (fifth, [7])):
        query = f"SELECT change_type, id FROM ducklake_table_changes('lake', 'main', 't', {snapshot}, {snapshot})"
        assert lake.rows(query) == [("delete", i) for i in gone]


def test_compaction_then_rows_and_row_ids_stay(lake: Lake) -> None:
    lake.commit(create_table())
    lake.append("t", some(1, 2, 3), TYPES)
    lake.append("t", some(4, 5), TYPES)
    lake.commit(delete({0: [1]}))
    before = lake.rows("SELECT rowid, id FROM t")
    row_id = {"_ducklake_internal_row_id": {"PARQUET:field_id": "2147483540"}}
    rows = [{**row, "_ducklake_internal_row_id": r} for row, r in zip(some(1, 3, 4, 5), (0, 2, 3, 4), strict=True)]
    file = lake.write("t", rows, {**TYPES, "_ducklake_internal_row_id": pa.int64()}, ids=row_id)
    compacted = lake.commit(change("COMPACT", replaced=[0, 1], files=[file]))
    assert lake.rows("SELECT rowid, id FROM t") == before
    assert lake.rows("SELECT id FROM t AT (VERSION => 3)") == [(1,), (2,), (3,), (4,), (5,)]
    assert [f for (f,) in lake.rows("SELECT data_file FROM ducklake_list_files('lake', 't')")] == [file["path"]]
    assert compacted == 5


BY_A, BY_B = ({"column": name, "transform": "identity"} for name in "ab")
SWAPPED = [{"op": "RENAME_COLUMN", "name": old, "new_name": new} for old, new in (("a", "x"), ("b", "a"), ("x", "b"))]


@pytest.mark.parametrize(
    "alterations",
    [
        [{"op": "SET_PARTITION_BY", "partition_by": [BY_A, BY_B]}],
        [{"op": "SET_PARTITION_BY", "partition_by": [{"column": "b", "transform": "bucket(4)"}]}],
        [{"op": "SET_PARTITION_BY", "partition_by": []}],
        [{"op": "SET_PARTITION_BY", "partition_by": []}, *SWAPPED],
        [{"op": "SET_TYPE", "name": "b", "type": "int64"}],
        [
            {"op": "DROP_COLUMN", "name": "c"},
            {"op": "ADD_COLUMN", "column": {"name": "c", "type": "varchar", "default": "z"}},
        ],
        [{"op": "SET_COMMENT", "name": None, "comment": "a table"}],
    ],
)
def test_compaction_beside_an_alteration_then_each_row_is_found_as_before(
    lake: Lake, alterations: list[dict[str, Any]]
) -> None:
    types = {"a": pa.int64(), "b": pa.int32(), "c": pa.int64()}
    lake.commit(create_table("t", "a int64, b int32, c int64", partition_by=[BY_A]))
    rows = [{"a": 1, "b": 1000 + number, "c": number} for number in range(8)]
    for part in (rows[:4], rows[4:]):
        lake.commit(change("APPEND", files=[{**lake.write("t", part, types), "partition_values": [1]}]))
    base = lake.log.head
    made = {**lake.write("t", rows, types), "partition_values": [1]}
    lake.commit(change("ALTER_TABLE", alterations=alterations))
    questions = [
        "SELECT * FROM t",
        *(f"SELECT count(*) FROM t WHERE {name} = {number}" for name in "ab" for number in (1, *range(1000, 1008))),
        *(f"SELECT min({name}), max({name}) FROM t" for name in "ab"),
    ]

    def answers() -> list[list[tuple[Any, ...]]]:
        with lake.reader() as connection:
            return [sorted(connection.execute(each).fetchall(), key=repr) for each in questions]

    before = answers()
    assert len(before[0]) == 8
    lake.commit(change("COMPACT", replaced=[0, 1], files=[made]), base=base)
    assert answers() == before
    assert [f for (f,) in lake.rows("SELECT data_file FROM ducklake_list_files('lake', 't')")] == [made["path"]]


def test_buckets_of_a_decimal_when_its_scale_grows_then_the_client_finds_rows_in_older_files(lake: Lake) -> None:
    lake.commit(create_table("t", "k decimal(5,2)", partition_by=[{"column": "k", "transform": "bucket(64)"}]))
    # As the client hashes the digits of 1.50, and not those of 1.5000.
    written, made = (
        {**lake.write("t", [{"k": Decimal("1.50")}], {"k": pa.decimal128(5, 2)}), "partition_values": [15]}
        for _ in range(2)
    )
    base = lake.commit(change("APPEND", files=[written]))
    assert lake.rows("SELECT k FROM t WHERE k = 1.50") == [(Decimal("1.50"),)]
    lake.commit(alter("SET_TYPE", name="k", type="decimal(9,4)"))
    assert lake.rows("SELECT k FROM t WHERE k = 1.50") == [(Decimal("1.5000"),)]
    lake.commit(change("COMPACT", replaced=[0], files=[made]), base=base)
    assert lake.rows("SELECT k FROM t WHERE k = 1.50") == [(Decimal("1.5000"),)]


@pytest.mark.parametrize("values", [[], [1, 2], ["one"]])
def test_compaction_beside_an_alteration_when_its_partition_values_do_not_fit_then_they_are_unknown(
    lake: Lake, values: list[Any]
) -> None:
    types = {"a": pa.int64()}
    rows = [{"a": 1} for _ in range(8)]
    lake.commit(create_table("t", "a int64", partition_by=[BY_A]))
    lake.commit(change("APPEND", files=[{**lake.write("t", rows, types), "partition_values": [1]}]))
    base = lake.log.head
    made = {**lake.write("t", rows, types), "partition_values": values}
    lake.commit(change("ALTER_TABLE", alterations=[{"op": "ADD_COLUMN", "column": {"name": "b", "type": "int64"}}]))
    lake.commit(change("COMPACT", replaced=[0], files=[made]), base=base)
    assert lake.rows("SELECT count(*) FROM lake.t WHERE a = 1") == [(8,)]
    with closing(psycopg.connect(lake.database_url)) as connection:
        files = "SELECT partition_id FROM ducklake_data_file WHERE end_snapshot IS NULL"
        assert connection.execute(files).fetchall() == [(None,)]


def test_schema_changes_then_old_files_read_as_they_should(lake: Lake) -> None:
    lake.commit(create_table("t", "id int32, v varchar"))
    lake.append("t", some(1, 2), {"id": pa.int32(), "v": pa.string()})
    lake.commit(alter("ADD_COLUMN", column={"name": "x", "type": "int64", "default": "7"}))
    lake.commit(alter("RENAME_COLUMN", name="v", new_name="w"))
    lake.commit(alter("SET_TYPE", name="id", type="int64"))
    lake.commit(alter("SET_COMMENT", name=None, comment="a table"))
    assert lake.rows("SELECT * FROM t") == [(1, "v1", 7), (2, "v2", 7)]
    lake.append("t", [{"id": 2**40, "w": "big", "x": None}], {"id": pa.int64(), "w": pa.string(), "x": pa.int64()})
    assert lake.rows("SELECT id, x FROM t WHERE id > 5") == [(2**40, None)]
    assert lake.rows("SELECT * FROM t AT (VERSION => 2)") == [(1, "v1"), (2, "v2")]
    lake.commit(alter("DROP_COLUMN", name="x"), alter("SET_DEFAULT", name="w", default="z"))
    lake.commit(change("RENAME_TABLE", new_table='odd, "name"'))
    assert lake.rows('SELECT id, w FROM "odd, ""name""" WHERE id < 5') == [(1, "v1"), (2, "v2")]
    assert lake.rows("SELECT count(*) FROM t AT (VERSION => 7)") == [(3,)]
    assert lake.rows("SELECT comment FROM duckdb_tables() WHERE database_name = 'lake'") == [("a table",)]


def test_types_when_widened_and_wider_values_come_then_older_snapshots_are_filtered_as_before(lake: Lake) -> None:
    lake.commit(create_table("t", "id int8, f float32"))
    rows = [{"id": 1, "f": 0.5}, {"id": 2, "f": 1.5}]
    before = lake.append("t", rows, {"id": pa.int8(), "f": pa.float32()})
    lake.commit(alter("SET_TYPE", name="id", type="int64"), alter("SET_TYPE", name="f", type="float64"))
    lake.append("t", [{"id": 2**40, "f": 1e300}], {"id": pa.int64(), "f": pa.float64()})
    for column, value in (("id", 2), ("f", 1.5)):
        assert lake.rows(f"SELECT id FROM t AT (VERSION => {before}) WHERE {column} = {value}") == [(2,)]
        assert lake.rows(f"SELECT id FROM t WHERE {column} > {value}") == [(2**40,)]
    assert lake.rows(f"SELECT max(id), max(f) FROM t AT (VERSION => {before})") == [(2, 1.5)]
    assert lake.rows("SELECT max(id), max(f) FROM t") == [(2**40, 1e300)]


def test_float32_when_written_with_an_exponent_then_its_files_are_found(lake: Lake) -> None:
    lake.commit(create_table("t", "id int64, f float32"))
    values = (1e-5, -1.5e-5, 7e-10, 1e17, -3e20, 3.4028235e38, 1e-40, 0.1, 1e15)
    for number, value in enumerate(values):
        lake.append("t", [{"id": number, "f": value}], {"id": pa.int64(), "f": pa.float32()})
    for number, value in enumerate(values):
        for op in ("=", ">=", "<="):
            found = lake.rows(f"SELECT id FROM t WHERE id = {number} AND f {op} ({value!r})::float")
            assert found == [(number,)], (value, op)
    largest, least = lake.rows("SELECT max(f), min(f) FROM t")[0]
    assert (largest, least) == (3.4028234663852886e38, -3.000000060122632e20)


def test_float32_when_widened_then_its_values_lie_within_the_bounds_of_their_files(lake: Lake) -> None:
    lake.commit(create_table("t", "id int64, f float32"))
    lake.append("t", [{"id": 1, "f": 0.1}, {"id": 2, "f": 0.3}], {"id": pa.int64(), "f": pa.float32()})
    assert lake.rows("SELECT id FROM t WHERE f = 0.3::float") == [(2,)]
    lake.commit(alter("SET_TYPE", name="f", type="float64"))
    assert lake.rows("SELECT id FROM t WHERE f >= 0.3::float::double") == [(2,)]
    with closing(ReadersCatalog(lake.database_url)) as contents:
        scan = Scan(contents, TableName("main", "t"), lake.log.head, where=[("f", ">", 0.3)], columns=["id"])
        assert scan.to_arrow().to_pylist() == [{"id": 2}]


def test_a_changeset_that_alters_and_undoes_then_no_row_begins_and_ends_in_one_snapshot(lake: Lake) -> None:
    lake.commit(create_table())
    lake.commit(
        alter("ADD_COLUMN", column={"name": "x", "type": "int64"}),
        alter("RENAME_COLUMN", name="x", new_name="y"),
        alter("DROP_COLUMN", name="y"),
        change("RENAME_TABLE", new_table="u"),
        change("RENAME_TABLE", "u", new_table="w"),
    )
    assert lake.rows("SELECT table_name FROM duckdb_tables() WHERE database_name = 'lake'") == [("w",)]
    with psycopg.connect(lake.database_url) as conn:
        for table in ("table", "column", "view", "data_file"):
            query = f"SELECT count(*) FROM ducklake_{table} WHERE begin_snapshot = end_snapshot"
            assert conn.execute(query.encode()).fetchone() == (0,)


def test_schemas_views_and_drops(lake: Lake) -> None:
    lake.commit({"kind": "CREATE_SCHEMA", "schema": "my schema"})
    lake.commit({**create_table(), "schema": "my schema"})
    lake.commit({"kind": "CREATE_VIEW", "schema": "main", "view": "v", "sql": "SELECT 41 AS a"})
    lake.commit({"kind": "REPLACE_VIEW", "schema": "main", "view": "v", "sql": "SELECT 42 AS a"})
    assert lake.rows("SELECT * FROM v") == [(42,)]
    assert lake.rows('SELECT count(*) FROM "my schema".t') == [(0,)]
    lake.commit({"kind": "DROP_SCHEMA", "schema": "my schema", "cascade": True})
    lake.commit({"kind": "DROP_VIEW", "schema": "main", "view": "v"})
    lake.commit(create_table())
    names = lake.rows("SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = 'lake'")
    assert names == [("main", "t")]
    assert len(lake.rows("SELECT * FROM ducklake_snapshots('lake')")) == 8


def test_keyed_rows_then_read_at_once_and_at_every_snapshot(lake: Lake) -> None:
    lake.commit(keyed_table("k", "id int64, v varchar, d date, c decimal(9,2), b boolean, ts timestamp"))
    lake.commit(
        insert(id=1, v="it's", d="2024-01-02", c="1.50", b=True, ts="2024-01-02 03:04:05.5"),
        insert(id=2, v="two"),
    )
    third = lake.commit(update(1, v="new", c=2), delete_row(2), insert(id=3))
    rows = lake.rows("SELECT id, v, d::varchar, c::varchar, b, ts::varchar FROM k AT (VERSION => 2)")
    assert rows == [
        (1, "it's", "2024-01-02", "1.50", True, "2024-01-02 03:04:05.5"),
        (2, "two", None, None, None, None),
    ]
    assert lake.rows("SELECT id, v, c::varchar FROM k") == [(1, "new", "2.00"), (3, None, None)]
    changes = f"SELECT change_type, id FROM ducklake_table_changes('lake', 'main', 'k', {third}, {third})"
    assert lake.rows(changes) == [
        ("delete", 2),
        ("insert", 3),
        ("update_postimage", 1),
        ("update_preimage", 1),
    ]
    lake.commit(alter("ADD_COLUMN", "k", column={"name": "n", "type": "int32", "default": "4"}))
    lake.commit(update(3, v="three"))
    assert lake.rows("SELECT id, v, n FROM k") == [(1, "new", 4), (3, "three", 4)]
    assert lake.rows("SELECT v FROM k WHERE id = 3") == [("three",)]


def test_every_type_inlined_then_read_back(lake: Lake) -> None:
    table = create_table("all")
    values = {
        "int8": 1, "int64": 2, "int128": "170141183460469231731687303715884105727", "uint64": "18446744073709551615",
        "float32": 1.5, "float64": 2.5, "time": "03:04:05", "timestamp_ns": "2024-01-02 03:04:05.123456789",
        "timestamptz": "2024-01-02 03:04:05+00", "blob": "a\\x00b", "uuid": "40ff2166-bf0f-44db-aa3c-4e846646f44d",
        "list(int64)": [1, None, 3], "struct(a int64, b varchar)": {"a": 1, "b": "it's"}, "map(varchar, int64)": {"k": 1},
        "interval": "3 days", "boolean": False,
    }  # fmt: skip
    table["columns"] = [{"name": f"c{n}", "type": kind} for n, kind in enumerate(values)]
    lake.commit(table)
    lake.commit(change("INSERT_ROW", "all", row={f"c{n}": value for n, value in enumerate(values.values())}))
    columns = ", ".join(f"c{n}::varchar" for n in range(len(values)))
    assert lake.rows(f'SELECT {columns} FROM "all"') == [
        (
            "1", "2", "170141183460469231731687303715884105727", "18446744073709551615", "1.5", "2.5", "03:04:05",
            "2024-01-02 03:04:05.123456789", "2024-01-02 03:04:05+00", "a\\x00b", "40ff2166-bf0f-44db-aa3c-4e846646f44d",
            "[1, NULL, 3]", "{'a': 1, 'b': 'it\\'s'}", "{k=1}", "3 days", "false",
        )
    ]  # fmt: skip


def test_partitioned_files_then_read_and_pruned(lake: Lake) -> None:
    lake.commit(create_table("p", "id int64, v varchar", partition_by=[{"column": "v", "transform": "identity"}]))
    for value in ("a", "b"):
        file = lake.write("p", [{"id": 1, "v": value}], TYPES)
        lake.commit(change("APPEND", "p", files=[{**file, "partition_values": [value]}]))
    assert lake.rows("SELECT id, v FROM p WHERE v = 'b'") == [(1, "b")]
    lake.commit(alter("SET_PARTITION_BY", "p", partition_by=[]))
    lake.append("p", [{"id": 3, "v": "c"}], TYPES)
    assert lake.rows("SELECT id, v FROM p") == [(1, "a"), (1, "b"), (3, "c")]


def test_a_file_without_field_ids_then_read_by_its_name_mapping(lake: Lake) -> None:
    lake.commit(create_table())
    lake.write("t", some(1), TYPES)
    path = lake.folder / "plain.parquet"
    pa.parquet.write_table(pa.table({"V": ["x", "y"], "ID": [8, 9]}), path)
    mapping = [{"source_name": "V", "column": "v"}, {"source_name": "ID", "column": "id"}]
    file = {
        "path": str(path),
        "path_is_relative": False,
        "record_count": 2,
        "file_size_bytes": 9,
        "name_mapping": mapping,
    }
    lake.commit(change("APPEND", files=[file]))
    assert lake.rows("SELECT id, v FROM t") == [(8, "x"), (9, "y")]


def test_statistics_unknown_of_one_file_then_no_row_is_lost(lake: Lake) -> None:
    lake.commit(create_table())
    lake.append("t", some(1, 2), TYPES)
    unknown = lake.write("t", some(100), TYPES)
    lake.commit(change("APPEND", files=[{**unknown, "statistics": []}]))
    lake.append("t", some(5), TYPES)
    assert lake.rows("SELECT id FROM t WHERE id = 100") == [(100,)]
    assert lake.rows("SELECT max(id) FROM t") == [(100,)]


def test_flush_then_rows_read_from_the_file_and_change_there(lake: Lake) -> None:
    lake.commit(keyed_table())
    lake.commit(insert(id=1, v="a"), insert(id=2, v="b"))
    row_id = {"_ducklake_internal_row_id": {"PARQUET:field_id": "2147483540"}}
    rows = [{"id": i, "v": v, "_ducklake_internal_row_id": r} for i, v, r in ((1, "a", 0), (2, "b", 1))]
    file = lake.write("k", rows, {**TYPES, "_ducklake_internal_row_id": pa.int64()}, ids=row_id)
    lake.commit(change("FLUSH", "k", files=[{**file, "row_ids": [0, 1]}]))
    assert lake.rows("SELECT id, v FROM k") == [(1, "a"), (2, "b")]
    lake.commit(update(1, v="changed"), delete_row(2))
    assert lake.rows("SELECT id, v FROM k") == [(1, "changed")]
    assert lake.rows("SELECT id, v FROM k AT (VERSION => 2)") == [(1, "a"), (2, "b")]
    assert lake.rows("SELECT id, v FROM k AT (VERSION => 3)") == [(1, "a"), (2, "b")]


def test_expire_then_snapshots_go_and_unseen_files_are_scheduled(lake: Lake) -> None:
    lake.commit(create_table())
    lake.append("t", some(1), TYPES)
    lake.append("t", some(2), TYPES)
    lake.commit(delete_whole(0))
    lake.commit({"kind": "EXPIRE_SNAPSHOTS", "older_than_snapshot_id": 4})
    assert lake.rows("SELECT id FROM t") == [(2,)]
    assert [s for (s,) in lake.rows("SELECT snapshot_id FROM ducklake_snapshots('lake')")] == [4, 5]
    with psycopg.connect(lake.database_url) as conn:
        scheduled = conn.execute("SELECT path FROM ducklake_files_scheduled_for_deletion").fetchall()
    assert scheduled == [(str(lake.folder / "f1.parquet"),)]


def test_expire_when_a_file_was_added_twice_then_is_scheduled_once_no_snapshot_has_it(lake: Lake) -> None:
    lake.commit(create_table())
    file = lake.write("t", some(1), TYPES)
    for data_file_id in (0, 1):
        lake.commit(change("APPEND", "t", files=[file]))
        lake.commit(delete_whole(data_file_id))
    scheduled = "SELECT path FROM ducklake_files_scheduled_for_deletion"
    for older_than, paths in ((4, []), (5, [(file["path"],)])):
        lake.commit({"kind": "EXPIRE_SNAPSHOTS", "older_than_snapshot_id": older_than})
        with psycopg.connect(lake.database_url) as conn:
            assert conn.execute(scheduled).fetchall() == paths


def test_a_client_attached_before_then_sees_later_commits(lake: Lake) -> None:
    lake.commit(create_table())
    lake.append("t", some(1), TYPES)
    with lake.reader() as client:
        assert client.execute("SELECT count(*) FROM t").fetchone() == (1,)
        lake.append("t", some(200), TYPES)
        assert client.execute("SELECT id FROM t WHERE id > 100").fetchone() == (200,)
        lake.commit(alter("ADD_COLUMN", column={"name": "x", "type": "int64", "default": "5"}))
        assert client.execute("SELECT sum(x) FROM t").fetchone() == (10,)
        lake.commit(create_table("later"))
        assert client.execute("SELECT count(*) FROM later").fetchone() == (0,)


def test_a_stock_client_that_writes_then_refused_and_told_where_to_propose(lake: Lake) -> None:
    lake.commit(create_table())
    config = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}
    with duckdb.connect(":memory:", config=config) as client:
        for extension in ("postgres_scanner", "ducklake"):
            client.execute(f"LOAD '{extension_file(extension)}'")
        client.execute(f"ATTACH 'ducklake:postgres:{connection_text(lake.database_url)}' AS l")
        with pytest.raises(duckdb.Error, match="written by commitlog"):
            client.execute("INSERT INTO l.t VALUES (1, 'x')")
    assert lake.rows("SELECT * FROM t") == []


def test_outcomes_then_every_verdict_with_its_reason_is_kept(lake: Lake) -> None:
    lake.commit(create_table())
    lake.log.refused("INVALID", compact([5], 1))
    lake.log.refused("CONFLICT", create_table(), base=0, writer_id="w2")
    lake.project()
    with psycopg.connect(lake.database_url) as conn:
        rows = conn.execute(
            "SELECT seq, verdict, reason, conflict_count FROM commitlog.outcomes ORDER BY seq"
        ).fetchall()
        history = conn.execute("SELECT seq, kind, table_name, resolution FROM commitlog.conflict_history").fetchall()
        assert conn.execute("SELECT count(*) FROM commitlog.commits").fetchone() == (2,)
        assert conn.execute("SELECT writer_id, rejected FROM commitlog.writers ORDER BY 1").fetchall() == [
            ("w1", 1),
            ("w2", 1),
        ]
    assert rows == [(1, "COMMITTED", None, 0), (2, "REJECTED", "INVALID", 0), (3, "REJECTED", "CONFLICT", 1)]
    assert history == [(3, "TABLE_CREATED", "t", "REFUSED")]


def test_keyed_row_changed_then_no_bound_is_taken_for_a_value(lake: Lake) -> None:
    lake.commit(keyed_table("k", "id int64, n int64"), insert(id=1, n=10))
    lake.commit(update(1, n=5))
    assert lake.rows("SELECT count(*), max(n), min(n) FROM k") == [(1, 5, 5)]
    assert lake.rows("SELECT max(n) FROM k AT (VERSION => 1)") == [(10,)]
    lake.commit(update(1, n=20))
    assert lake.rows("SELECT max(n), min(n) FROM k") == [(20, 20)]
