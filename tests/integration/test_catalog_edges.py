"""Corners of the projection where a stock client would read wrong rows, or the projector would stop for ever."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import duckdb
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deciding import alter, change, create_table, delete, delete_row, insert, keyed_table, update
from deciding_sites import brought, node
from lakes import TYPES, Lake, some
from psycopg import sql

from commitlog.catalog import queries
from commitlog.catalog import query_statements as statements
from commitlog.catalog.guard import mark_projector
from commitlog.catalog.history import _CONDITIONS, _ENTRIES
from commitlog.catalog.projecting import objects
from commitlog.catalog.projecting.expiry import _SCHEDULE_FILES
from commitlog.catalog.queries import Catalog, CatalogTable, Shown
from commitlog.catalog.table_changes import ReadersCatalog
from commitlog.catalog.watching import CatalogWatch
from commitlog.client.reading.changes import RowChanges
from commitlog.client.reading.scan import Scan
from commitlog.client.tables.names import TableName
from commitlog.client.tables.stored_rows import stored_rows
from commitlog.domain.model import MappedColumn
from commitlog.domain.model.types import ColumnType
from commitlog.errors import CatalogMismatchError

VERSIONED = ("table", "column", "view", "schema", "data_file", "delete_file", "partition_info", "tag", "column_tag")


def query(lake: Lake, text: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(lake.database_url) as conn:
        return conn.execute(text.encode()).fetchall()


def check_no_empty_life(lake: Lake) -> None:
    for table in VERSIONED:
        assert query(lake, f"SELECT * FROM ducklake_{table} WHERE begin_snapshot >= end_snapshot") == [], table
    for (name,) in query(lake, "SELECT table_name FROM ducklake_inlined_data_tables"):
        assert query(lake, f'SELECT * FROM "{name}" WHERE begin_snapshot >= end_snapshot') == [], name


def test_row_changes_beside_an_append_then_row_ids_do_not_overlap(lake: Lake) -> None:
    lake.commit(create_table())
    lake.commit(keyed_table())
    lake.append("t", some(1, 2, 3), TYPES)
    file = lake.write("t", some(4, 5), TYPES)
    lake.commit(insert(id=7, v="k"), change("APPEND", files=[file]))
    assert lake.rows("SELECT rowid, id FROM t") == [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)]
    file = lake.write("t", some(6), TYPES)
    lake.commit(update(7, v="kk"), insert(id=8, v="l"), change("APPEND", files=[file]))
    assert lake.rows("SELECT rowid, id FROM t WHERE id = 6") == [(5, 6)]
    assert lake.rows("SELECT rowid, id, v FROM k") == [(0, 7, "kk"), (1, 8, "l")]


def test_rows_of_another_site_when_they_lack_a_column_then_have_what_older_rows_have(lake: Lake) -> None:
    lake.commit(keyed_table("k", "id int64 not null, w varchar", unique=[["w"]]))
    lake.commit(node("a", 1))
    lake.commit(insert(id=1, w="same"))
    brought(lake.log, insert(id=2, w="same"), tick=1)
    lake.commit(alter("ADD_COLUMN", "k", column={"name": "n", "type": "int64", "default": "5"}))
    lake.commit(alter("SET_DEFAULT", "k", name="n", default="6"))
    brought(lake.log, insert(id=3, w="b"), tick=2)
    lake.commit(delete_row(1), insert(id=4))
    assert lake.rows("SELECT * FROM k ORDER BY id") == [(2, "same", 5), (3, "b", 5), (4, None, 6)]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE ducklake_column SET column_type = 'nothing'",
        "UPDATE ducklake_column SET column_type = NULL",
        "UPDATE ducklake_column SET column_id = NULL",
        "UPDATE commitlog.table_definitions SET definition = '[1]'",
        "UPDATE ducklake_table SET path = NULL",
    ],
)
def test_table_when_the_catalog_was_changed_by_hand_then_its_reader_is_told(lake: Lake, statement: str) -> None:
    lake.commit(create_table("t", "id int64"))
    with lake.conn.transaction():
        lake.conn.execute(statement.encode())
    with (
        closing(Catalog(lake.database_url)) as catalog,
        pytest.raises(CatalogMismatchError, match=r"main\.t .* `commitlog doctor`"),
    ):
        catalog.table_at("main", "t", 1)


@pytest.mark.parametrize("again", [False, True])
def test_table_that_refers_to_itself_then_the_catalog_has_it(lake: Lake, again: bool) -> None:
    boss = {"columns": ["boss"], "ref_schema": "main", "ref_table": "k", "ref_columns": ["id"]}
    made = keyed_table("k", "id int64 not null, boss int64", foreign_keys=[boss])
    if again:
        lake.commit(keyed_table("k", "id int64 not null"))
        lake.commit(change("DROP_TABLE", "k"), made)
    else:
        lake.commit(made)
    lake.commit(insert(id=1, boss=None), insert(id=2, boss=1))
    assert lake.rows("SELECT id, boss FROM k") == [(1, None), (2, 1)]
    with closing(Catalog(lake.database_url)) as catalog:
        table = catalog.table_at("main", "k", lake.log.state.head_snapshot_id)
    assert table is not None
    assert [key.ref_table_id for key in table.definition.foreign_keys] == [table.definition.table_id]


@pytest.mark.parametrize("made", [keyed_table("k"), create_table("k", "id int64, v varchar")])
def test_rows_beside_alterations_of_their_table_then_each_is_where_its_columns_are(
    lake: Lake, made: dict[str, Any]
) -> None:
    lake.commit(made)
    lake.commit(insert(id=1, v="a"))
    lake.commit(
        insert(id=2, v="b"),
        alter("ADD_COLUMN", "k", column={"name": "n", "type": "int64", "default": "5"}),
        insert(id=3, v="c", n=7),
        alter("RENAME_COLUMN", "k", name="n", new_name="m"),
        insert(id=4, v="d"),
        alter("DROP_COLUMN", "k", name="v"),
        alter("ADD_COLUMN", "k", column={"name": "v", "type": "int64", "default": "6"}),
        insert(id=5, m=8, v=9),
    )
    lake.commit(insert(id=6, m=1, v=2))
    expected = [(1, 5, 6), (2, 5, 6), (3, 7, 6), (4, 5, 6), (5, 8, 9), (6, 1, 2)]
    assert lake.rows("SELECT id, m, v FROM k") == expected
    assert lake.rows("SELECT id, v FROM k AT (VERSION => 2)") == [(1, "a")]


def test_rows_beside_alterations_that_constrain_their_table_then_may_have_null_as_older_ones(lake: Lake) -> None:
    lake.commit(keyed_table("k"))
    lake.commit(
        alter("SET_COMMENT", "k", comment="altered"),
        insert(id=1, v=None),
        alter("SET_NULLABLE", "k", name="v", nullable=False),
        alter("ADD_COLUMN", "k", column={"name": "n", "type": "int64", "nullable": False}),
    )
    assert lake.rows("SELECT id, v, n FROM k") == [(1, None, None)]


def test_table_that_refers_to_one_made_under_the_name_of_another_then_the_catalog_knows_which(lake: Lake) -> None:
    lake.commit(keyed_table("k"))
    to_k = {"columns": ["k"], "ref_schema": "main", "ref_table": "k", "ref_columns": ["id"]}
    child = keyed_table("c", "id int64 not null, k int64", foreign_keys=[to_k])
    lake.commit(change("RENAME_TABLE", "k", new_table="old"), keyed_table("k"), child)
    head = lake.log.state.head_snapshot_id
    with closing(Catalog(lake.database_url)) as catalog:
        parent, found = catalog.table_at("main", "k", head), catalog.table_at("main", "c", head)
    assert parent is not None
    assert found is not None
    assert [key.ref_table_id for key in found.definition.foreign_keys] == [parent.definition.table_id]


def test_rows_updated_or_deleted_then_extremes_are_those_of_live_rows(lake: Lake) -> None:
    """The stock client takes MIN and MAX from the table's statistics while no row seems to have gone."""
    lake.commit(keyed_table("k", "id int64, n int64"))
    lake.commit(insert(id=1, n=5), insert(id=2, n=99), insert(id=3, n=-99))
    assert lake.rows("SELECT min(n), max(n), count(*) FROM k") == [(-99, 99, 3)]
    lake.commit(update(2, n=7))
    assert lake.rows("SELECT min(n), max(n), count(*) FROM k") == [(-99, 7, 3)]
    lake.commit(delete_row(3), insert(id=4, n=6))
    assert lake.rows("SELECT min(n), max(n), count(*) FROM k") == [(5, 7, 3)]
    assert lake.rows("SELECT min(n), max(n), count(*) FROM k AT (VERSION => 2)") == [(-99, 99, 3)]


def test_data_changed_and_table_dropped_in_one_changeset_then_no_row_begins_and_ends_there(lake: Lake) -> None:
    lake.commit(create_table(), keyed_table(), create_table("p"))
    lake.append("t", some(1, 2, 3), TYPES)
    lake.append("p", some(1), TYPES)
    lake.commit(insert(id=1, v="x"))
    one = lake.write("t", some(4), TYPES)
    path = lake.delete_file(str(lake.folder / "f1.parquet"), [0])
    lake.commit(
        change("APPEND", files=[one]),
        change(
            "DELETE",
            delete_files=[
                {"data_file_id": 0, "path": path, "path_is_relative": False, "rows": [0], "file_size_bytes": 9}
            ],
        ),
        update(1, v="y"),
        insert(id=2, v="z"),
        alter("ADD_COLUMN", column={"name": "x", "type": "int64"}),
        alter("SET_COMMENT", name=None, comment="c"),
        change("DROP_TABLE", "t"),
        change("DROP_TABLE", "k"),
    )
    check_no_empty_life(lake)
    assert lake.rows("SELECT id FROM t AT (VERSION => 2)") == [(1,), (2,), (3,)]
    assert lake.rows("SELECT id, v FROM k AT (VERSION => 4)") == [(1, "x")]
    assert len(lake.rows("SELECT snapshot_id FROM ducklake_snapshots('lake')")) == 6


def test_schema_dropped_with_what_the_changeset_changed_in_it_then_no_row_begins_and_ends_there(lake: Lake) -> None:
    lake.commit({"kind": "CREATE_SCHEMA", "schema": "s"})
    lake.commit(
        {**create_table(), "schema": "s"}, {"kind": "CREATE_VIEW", "schema": "s", "view": "v", "sql": "SELECT 1"}
    )
    file = lake.write("t", some(4), TYPES)
    lake.commit(
        {**change("APPEND", files=[file]), "schema": "s"},
        {"kind": "REPLACE_VIEW", "schema": "s", "view": "v", "sql": "SELECT 2"},
        {**change("RENAME_TABLE", new_table="u"), "schema": "s"},
        {"kind": "DROP_SCHEMA", "schema": "s", "cascade": True},
    )
    check_no_empty_life(lake)
    assert lake.rows("SELECT schema_name FROM duckdb_schemas() WHERE database_name = 'lake'") == [("main",)]


def test_view_replaced_twice_in_one_changeset_then_the_last_stands(lake: Lake) -> None:
    lake.commit({"kind": "CREATE_VIEW", "schema": "main", "view": "v", "sql": "SELECT 1 AS a"})
    lake.commit(
        {"kind": "REPLACE_VIEW", "schema": "main", "view": "v", "sql": "SELECT 2 AS a"},
        {"kind": "REPLACE_VIEW", "schema": "main", "view": "v", "sql": "SELECT 3 AS a"},
    )
    check_no_empty_life(lake)
    assert lake.rows("SELECT * FROM v") == [(3,)]


def test_views_made_replaced_and_dropped_then_announced_in_the_stock_clients_words(lake: Lake) -> None:
    lake.commit({"kind": "CREATE_VIEW", "schema": "main", "view": "v", "sql": "SELECT 1"})
    lake.commit({"kind": "REPLACE_VIEW", "schema": "main", "view": "v", "sql": "SELECT 2"})
    lake.commit({"kind": "DROP_VIEW", "schema": "main", "view": "v"})
    words = query(lake, "SELECT changes_made FROM ducklake_snapshot_changes WHERE snapshot_id > 0 ORDER BY snapshot_id")
    assert [word for (word,) in words] == [
        'created_view:"main"."v"',
        'dropped_view:1,created_view:"main"."v"',
        "dropped_view:1",
    ]


def test_a_commit_between_looking_and_listening_then_waiting_ends_without_a_signal(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = Catalog(lake.database_url)
    looked: list[int] = []

    def look() -> Shown:
        looked.append(catalog.head_snapshot_id())
        if len(looked) == 1:
            lake.commit(create_table())
        return Shown(0, 0, looked[-1], 0)

    def hear(*_: Any, **__: Any) -> Iterator[psycopg.Notify]:
        raise AssertionError("waited for a signal that had come before")

    monkeypatch.setattr(catalog, "shown", look)
    monkeypatch.setattr(psycopg.Connection, "notifies", hear)
    watch = CatalogWatch(catalog)
    assert watch.wait_until(lambda shown: shown.snapshot_id == 1, timeout_s=60)
    assert looked == [0, 1]
    watch.close()


def test_column_added_with_a_default_then_old_rows_are_found_by_it(lake: Lake) -> None:
    lake.commit(create_table())
    lake.append("t", some(1, 2), TYPES)
    lake.commit(alter("ADD_COLUMN", column={"name": "x", "type": "int64", "default": "1000"}))
    assert lake.rows("SELECT id FROM t WHERE x = 1000") == [(1,), (2,)]
    lake.append("t", [{"id": 3, "v": "c", "x": 5}], {**TYPES, "x": pa.int64()})
    assert lake.rows("SELECT id FROM t WHERE x = 1000") == [(1,), (2,)]
    assert lake.rows("SELECT id FROM t WHERE x > 10") == [(1,), (2,)]
    assert lake.rows("SELECT max(x), min(x) FROM t") == [(1000, 5)]


DEFAULTS = [
    ("timestamptz", "2024-01-01 12:30+0230", "2024-01-01 10:00:00+00"),
    ("timestamptz", "2024-01-01 00:00:00 +02", "2023-12-31 22:00:00+00"),
    ("timestamptz", "2024-01-01T00:00:00z", "2024-01-01 00:00:00+00"),
    ("timestamptz", "2024-01-01", "2024-01-01 00:00:00+00"),
    ("timestamp_ns", "2262-04-11 23:47:16.854775806", "2262-04-11 23:47:16.854775806"),
    ("timestamp_ns", "1677-09-22", "1677-09-22 00:00:00"),
    ("timetz", "12:30Z", "12:30:00+00"),
    ("timetz", "12:30:00.5 -0330", "12:30:00.5-03:30"),
    ("blob", "a'\\x5c\\xfF", "a\\x27\\x5C\\xFF"),
    ("uuid", "urn:uuid:{00000000-0000-0000-0000-00000000000A}", "00000000-0000-0000-0000-00000000000a"),
    ("decimal(9,2)", "+1.5E1", "15.00"),
    ("float64", ".5", "0.5"),
    ("int64", "007", "7"),
    ("json", '{"a": 1}', '{"a": 1}'),
    ("interval", "+3 days -1 hour", "3 days -01:00:00"),
]
"""Of a type, as text that a default may be, and as the stock client shows it."""


def test_defaults_however_they_are_written_then_the_stock_reader_opens_the_lake_and_ours_reads_the_same(
    lake: Lake,
) -> None:
    lake.commit(create_table())
    lake.append("t", some(1), TYPES)
    added = [{"name": f"c{at}", "type": kind, "default": text} for at, (kind, text, _) in enumerate(DEFAULTS)]
    lake.commit(*[alter("ADD_COLUMN", column=column) for column in added])
    lake.commit({**create_table("made"), "columns": added}, create_table("set", columns="c timestamptz"))
    lake.commit(alter("SET_DEFAULT", "set", name="c", default="2024-01-01 12:30+0230"))
    columns = ", ".join(f"{column['name']}::varchar" for column in added)
    with lake.reader() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        found = connection.execute(f"SELECT {columns} FROM t").fetchone()
    assert found == tuple(shown for _, _, shown in DEFAULTS)
    with closing(ReadersCatalog(lake.database_url)) as catalog:
        ours = Scan(catalog, TableName("main", "t"), lake.log.head).to_arrow()
    with duckdb.connect() as connection:
        connection.register("ours", ours).execute("SET TimeZone = 'UTC'")
        shown = connection.execute(f"SELECT {columns} FROM ours").fetchone()
    assert shown == tuple(
        # Arrow has no time with a zone: ours leaves it out.
        re.sub(r"[+-]\d\d(:\d\d)?$", "", shown) if kind == "timetz" else shown
        for kind, _, shown in DEFAULTS
    )


def test_column_added_without_default_then_its_nulls_are_found(lake: Lake) -> None:
    lake.commit(create_table())
    lake.append("t", some(1, 2), TYPES)
    lake.commit(alter("ADD_COLUMN", column={"name": "x", "type": "int64"}))
    assert lake.rows("SELECT id FROM t WHERE x IS NULL") == [(1,), (2,)]
    lake.append("t", [{"id": 3, "v": "c", "x": 5}], {**TYPES, "x": pa.int64()})
    assert lake.rows("SELECT id FROM t WHERE x IS NULL") == [(1,), (2,)]
    assert lake.rows("SELECT count(*), count(x) FROM t") == [(3, 1)]


def test_null_counts_unknown_then_nulls_are_found(lake: Lake) -> None:
    lake.commit(create_table())
    file = lake.write("t", [{"id": 1, "v": "a"}, {"id": None, "v": None}], TYPES)
    for entry in file["statistics"]:
        entry["null_count"] = None
    lake.commit(change("APPEND", files=[file]))
    bare = lake.write("t", [{"id": None, "v": None}], TYPES)
    lake.commit(change("APPEND", files=[{**bare, "statistics": []}]))
    assert lake.rows("SELECT count(*) FROM t WHERE id IS NULL") == [(2,)]
    assert lake.rows("SELECT count(*) FROM t WHERE v IS NULL") == [(2,)]
    assert lake.rows("SELECT count(*), count(id) FROM t") == [(3, 1)]


def test_list_when_as_many_elements_are_null_as_there_are_rows_then_bounds_cover_the_others(lake: Lake) -> None:
    lake.commit({**create_table(), "columns": [{"name": "l", "type": "list(int64)"}]})
    for element, counts in ((-4, {"value_count": 1}), (2, {})):
        file = lake.write("t", [{"l": [element, None]}], {"l": pa.list_(pa.int64())})
        told = {"column": "l.element", "min": element, "max": element, "null_count": 1, **counts}
        lake.commit(change("APPEND", files=[{**file, "statistics": [told]}]))
    bounds = (
        "SELECT min_value, max_value FROM ducklake_table_column_stats JOIN ducklake_column USING (table_id, column_id)"
    )
    assert query(lake, f"{bounds} WHERE column_name = 'element'") == [("-4", "2")]


def test_column_named_as_a_field_of_a_struct_then_rows_are_found_by_either(lake: Lake) -> None:
    kinds = {"id": "int64", "s.x": "int64", "s": "struct(x int64)"}
    lake.commit({**create_table(), "columns": [{"name": name, "type": kind} for name, kind in kinds.items()]})
    field = pa.field("x", pa.int64(), metadata={"PARQUET:field_id": "4"})
    types = {"id": pa.int64(), "s.x": pa.int64(), "s": pa.struct([field])}
    file = lake.write("t", [{"id": 1, "s.x": 5, "s": {"x": 100}}, {"id": 2, "s.x": 6, "s": {"x": 200}}], types)
    file["statistics"].append({"column": "s.x", "min": 100, "max": 200, "null_count": 0})
    lake.commit(change("APPEND", files=[file]))
    lake.commit(change("INSERT_ROW", row={"id": 3, "s.x": 1000, "s": {"x": 2000}}))
    for row_id, of_column, of_field in ((1, 5, 100), (2, 6, 200), (3, 1000, 2000)):
        assert lake.rows(f'SELECT id FROM t WHERE "s.x" = {of_column}') == [(row_id,)]
        assert lake.rows(f"SELECT id FROM t WHERE s.x = {of_field}") == [(row_id,)]
    assert lake.rows('SELECT max("s.x"), max(s.x) FROM t') == [(1000, 2000)]


@pytest.mark.parametrize("nan", [True, False, None])
def test_nan_in_a_file_then_filters_and_maximum_are_right(lake: Lake, nan: bool | None) -> None:
    lake.commit(create_table("f", "id int64, x float64"))
    kinds = {"id": pa.int64(), "x": pa.float64()}
    lake.append("f", [{"id": 1, "x": 1.5}], kinds)
    values = [float("nan"), 7.0] if nan is not False else [6.0, 7.0]
    file = lake.write("f", [{"id": 2 + n, "x": value} for n, value in enumerate(values)], kinds)
    path = Path(file["path"])
    pq.write_table(pq.read_table(path), path, write_statistics=False)
    raw = path.read_bytes()
    file.update(file_size_bytes=len(raw), footer_size=int.from_bytes(raw[-8:-4], "little"))
    file["statistics"] = [
        {"column": "id", "min": 2, "max": 3, "null_count": 0},
        {"column": "x", "min": min(6.0, 7.0), "max": 7.0, "null_count": 0, "contains_nan": nan},
    ]
    lake.commit(change("APPEND", "f", files=[file]))
    assert lake.rows("SELECT id FROM f WHERE x = 'nan'::double") == ([(2,)] if nan is not False else [])
    assert lake.rows("SELECT id FROM f WHERE x > 100") == ([(2,)] if nan is not False else [])
    assert lake.rows("SELECT id FROM f WHERE x = 1.5") == [(1,)]
    assert str(lake.rows("SELECT max(x) FROM f")[0][0]) == ("nan" if nan is not False else "7.0")


@pytest.mark.parametrize(
    "names",
    [["row_id", "v"], ["ctid", "xmin"], ["n" * 70 + "1", "n" * 70 + "2"], ["begin_snapshot", "END_SNAPSHOT"]],
    ids=["row_id", "system", "long", "snapshot"],
)
def test_columns_that_an_inlined_table_cannot_have_then_the_table_works_with_files(
    lake: Lake, names: list[str]
) -> None:
    table = create_table()
    table["columns"] = [{"name": name, "type": "int64"} for name in names]
    lake.commit(table)
    lake.append("t", [{name: n for n, name in enumerate(names)}], {name: pa.int64() for name in names})
    lake.commit(alter("ADD_COLUMN", column={"name": "more", "type": "int64"}))
    assert lake.rows("SELECT * FROM t") == [(0, 1, None)]


def test_a_table_of_very_many_columns_then_the_projector_goes_on(lake: Lake) -> None:
    table = create_table()
    table["columns"] = [{"name": f"c{n}", "type": "int64"} for n in range(1700)]
    lake.commit(table)
    assert lake.rows("SELECT count(*) FROM t") == [(0,)]


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("float32", 1e300, "inf"),
        ("float32", "nan", "nan"),
        ("float64", "-inf", "-inf"),
        ("timetz", "12:00:00+15:59", "12:00:00+15:59"),
        ("timetz", "12:30Z", "12:30:00+00"),
        ("list(timetz)", ["12:30Z", "12:30 +0230", "12:30:00.5"], "['12:30:00+00', '12:30:00+02:30', '12:30:00.5+00']"),
        ("timestamp_ns", "2262-04-11 23:47:16.854775806", "2262-04-11 23:47:16.854775806"),
        ("list(timestamp_ns)", ["1677-09-22"], "['1677-09-22 00:00:00']"),
        ("list(interval)", ["+1 mon +04:05", "-1 day"], "['1 month 04:05:00', -1 day]"),
        ("interval", "+1 mon +04:05", "1 month 04:05:00"),
        ("timestamptz", "2024-01-02T03:04:05Z", "2024-01-02 03:04:05+00"),
        ("time", "03:04:05.123456", "03:04:05.123456"),
        ("json", {"a": [1, "x'y"]}, '{"a": [1, "x\'y"]}'),
        ("varchar", "tab\tnew\nline\\N", "tab\tnew\nline\\N"),
        ("blob", "\\x00\\xFFa\\x5C", "\\x00\\xFFa\\x5C"),
        ("decimal(38,10)", "1234567890123456789012345678.0123456789", "1234567890123456789012345678.0123456789"),
        ("uint64", "18446744073709551615", "18446744073709551615"),
        ("struct(a varchar, b list(varchar))", {"a": "x'y\\z\"", "b": ["", " s ", "NULL", None, "a,b"]}, None),
        ("map(varchar, varchar)", {"k=1": "v,}", "k'2": None, "": ""}, None),
        ("list(struct(t timestamp, d date))", [{"t": "2024-01-02 03:04:05.5", "d": "2024-01-02"}, None], None),
        ("list(float64)", ["nan", 1.5, "inf"], None),
        ("list(blob)", ["\\x00'a"], None),
        ("list(geometry)", ["LINESTRING(0 0, 1 1)"], "['LINESTRING (0 0, 1 1)']"),
        ("geometry", "POINT EMPTY", "POINT EMPTY"),
    ],
)  # fmt: skip
def test_a_value_of_a_row_then_it_reads_back_or_is_refused(lake: Lake, kind: str, value: Any, expected: str) -> None:
    lake.commit(create_table("a", columns="n int64"))
    lake.commit({**create_table("b"), "columns": [{"name": "x", "type": kind}]})
    outcome = lake.log.propose(change("INSERT_ROW", "b", row={"x": value}))
    lake.project()
    if outcome.snapshot_id is None:
        return
    found = lake.rows("SELECT x FROM b")[0][0]
    if expected is None:
        print(found)
        assert normal(found) == normal(value)
    else:
        assert lake.rows("SELECT x::varchar FROM b") == [(expected,)]


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("json", '{"a": 1e400}', {"a": 1e400}),
        (
            "list(json)",
            [{"a": "q'x]"}, "2", '"t"', "[1, null]", 3, "true"],
            [{"a": "q'x]"}, 2, "t", [1, None], 3, True],
        ),
        ("list(list(json))", [["1", {"a": "]"}], []], [[1, {"a": "]"}], []]),
        (
            "struct(a json, b list(json))",
            {"a": '{"k": "\\\\"}', "b": [[1], '"]"']},
            {"a": {"k": "\\"}, "b": [[1], "]"]},
        ),
        ("map(varchar, json)", {"k": {"a": [True]}}, {"k": {"a": [True]}}),
    ],
)
def test_json_in_a_row_then_the_stock_reader_and_ours_read_what_it_says(
    lake: Lake, kind: str, value: Any, expected: Any
) -> None:
    lake.commit({**create_table("b"), "columns": [{"name": "x", "type": kind}]})
    lake.commit(change("INSERT_ROW", "b", row={"x": value}))
    assert json.loads(lake.rows("SELECT to_json(x)::varchar FROM b")[0][0]) == expected
    catalog = Catalog(lake.database_url)
    table = catalog.table_at("main", "b", lake.log.head)
    assert table is not None
    columns = table.definition.columns
    (row,) = stored_rows(columns, catalog.rows_at(table.definition.table_id, lake.log.head)).to_pylist()
    assert plain(columns[0].type, row["x"]) == expected
    catalog.close()


@pytest.mark.parametrize(("part_rows", "sizes"), [(2, [2, 1, 2]), (queries.PART_ROWS, [3, 2])])
def test_rows_of_a_table_when_some_values_are_asked_for_then_no_others_are_read_but_from_before_their_column(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, part_rows: int, sizes: list[int]
) -> None:
    monkeypatch.setattr(queries, "PART_ROWS", part_rows)
    columns = [{"name": "id", "type": "int64"}, {"name": "name %", "type": "varchar"}, {"name": "u", "type": "uuid"}]
    lake.commit({**keyed_table(), "columns": columns})
    named = {1: "a", 2: "Ü", 3: None}
    lake.commit(*[insert(**{"id": n, "name %": name, "u": str(UUID(int=n))}) for n, name in named.items()])
    lake.commit(alter("ADD_COLUMN", "k", column={"name": "n", "type": "int32", "default": "7"}))
    lake.commit(insert(id=4, n=8), insert(id=5, n=9))
    head = lake.log.head
    with closing(ReadersCatalog(lake.database_url)) as catalog:
        table = catalog.table_at("main", "k", head)
        assert table is not None
        table_id, definition = table.definition.table_id, table.definition

        def ids(limit: int | None = None, **among: list[Any]) -> list[int]:
            asked = {definition.column(name.replace("_", " ")).column_id: found for name, found in among.items()}
            return [row[1] for row in catalog.rows_at(table_id, head, among=asked, limit=limit)]

        assert ids() == [1, 2, 3, 4, 5]
        assert ids(id=[2, 4, -(2**63)]) == [2, 4]
        assert ids(**{"name_%": ["Ü".encode(), b"x"]}) == [2]
        assert ids(u=[UUID(int=3)], id=[3, 4]) == [3]
        assert ids(n=[8]) == [1, 2, 3, 4]
        assert (ids(limit=2), ids(limit=4), ids(limit=0)) == ([1, 2], [1, 2, 3, 4], [])
        assert catalog.row_count_at(table_id, head) == 5
        assert catalog.row_count_at(table_id, 2) == 3
        assert len(catalog.changes(table, 0, head).rows(deletes=True)) == 5
        for where, count in ((("name %", "in", ["a", "Ü"]), 2), ("n = 7", 3), ("n in (8, 9)", 2), ("id = 6", 0)):
            assert Scan(catalog, TableName("main", "k"), head, where=where).count() == count
        with catalog.at_once():
            assert [len(each) for each in catalog.rows_in_parts(table_id, head)] == sizes
            changes = catalog.changes(table, 0, head)
            assert [len(each) for each in changes.rows_in_parts(deletes=False)] == sizes
        # As many become Arrow's before the next are taken.
        scan = Scan(catalog, TableName("main", "k"), head)
        assert [each.num_rows for each in scan.to_batches()] == sizes
        came = RowChanges(catalog, TableName("main", "k"), 0, head).to_arrow()
        assert came["id"].to_pylist() == [1, 2, 3, 4, 5]
        assert scan.to_arrow()["n"].to_pylist() == [7, 7, 7, 8, 9]
        # None is without rows, also where those of which no row matches come first.
        late = Scan(catalog, TableName("main", "k"), head, where="n > 7")
        assert [each.num_rows for each in late.to_batches()] == [2]


def plain(kind: ColumnType, value: Any) -> Any:
    """A value whose JSON is text as one whose JSON is not."""
    inner = dict(kind.fields)
    match kind.name:
        case "json":
            return json.loads(value)
        case "list":
            return [plain(inner["element"], each) for each in value]
        case "map":
            return {name: plain(inner["value"], each) for name, each in value}
        case _:
            return {name: plain(inner[name], each) for name, each in value.items()}


def test_fields_that_differ_in_the_case_of_a_letter_beyond_ascii_then_each_reads_its_own_value(lake: Lake) -> None:
    lake.commit(
        {**create_table("b"), "columns": [{"name": "x", "type": 'struct("é" int64, "É" int64, "a\'}\\" int64)'}]}
    )
    value = {"é": 1, "É": 2, "a'}\\": 3}
    lake.commit(change("INSERT_ROW", "b", row={"x": value}))
    assert lake.rows("SELECT x FROM b") == [(value,)]
    with closing(ReadersCatalog(lake.database_url)) as catalog:
        table = catalog.table_at("main", "b", lake.log.head)
        assert table is not None
        rows = catalog.rows_at(table.definition.table_id, lake.log.head)
        assert stored_rows(table.definition.columns, rows).to_pylist() == [{"x": value}]


def test_blobs_in_a_list_of_a_row_then_the_stock_reader_reads_their_bytes(lake: Lake) -> None:
    lake.commit({**create_table("b"), "columns": [{"name": "x", "type": "list(blob)"}]})
    lake.commit(change("INSERT_ROW", "b", row={"x": ["\\x5cx6", '\\xc3\\xa9"', "]", "\\x00\\xff"]}))
    assert lake.rows("SELECT x FROM b") == [([b"\\x6", 'é"'.encode(), b"]", b"\x00\xff"],)]


def normal(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: normal(item) for key, item in value.items()}
    if isinstance(value, list):
        return [normal(item) for item in value]
    if isinstance(value, bytes):
        return value.decode("latin1").replace("\0", "\\x00")
    if isinstance(value, str) and value in ("nan", "inf"):
        return repr(float(value))
    if isinstance(value, float):
        return repr(value)
    return value if value is None or isinstance(value, str) else str(value).replace("T", " ").removesuffix("00000")


@pytest.mark.parametrize(("kind", "value"), [("interval", "no interval"), ("timetz", "12:00:00+99:99"),
                                             ("timestamptz", "0001-01-01 00:00:00+05"), ("variant", {"a": 1}),
                                             ("geometry", "POINT(1 2)"),
                                             ("timestamp_ns", "9999-12-31"),
                                             ("list(timestamp_ns)", ["9999-12-31"])])  # fmt: skip
def test_a_value_that_postgresql_cannot_take_then_the_projector_goes_on(lake: Lake, kind: str, value: Any) -> None:
    lake.commit({**create_table("b"), "columns": [{"name": "x", "type": kind}, {"name": "n", "type": "int64"}]})
    lake.log.propose(change("INSERT_ROW", "b", row={"x": value, "n": 1}))
    lake.project()
    lake.commit(create_table("after"))
    assert lake.rows("SELECT count(*) FROM after") == [(0,)]
    lake.rows("SELECT x FROM b")


def test_expire_then_nothing_of_what_nobody_sees_is_left(lake: Lake) -> None:
    lake.commit(
        create_table(), keyed_table(), create_table("gone", partition_by=[{"column": "id", "transform": "identity"}])
    )
    lake.append("t", some(1, 2), TYPES)
    lake.commit(delete({0: [0]}))
    lake.commit(insert(id=1, v="a"))
    lake.commit(update(1, v="b"))
    lake.commit(change("DROP_TABLE", "gone"))
    lake.commit(change("DELETE", whole_files=[0]))
    head = lake.log.head
    lake.commit({"kind": "EXPIRE_SNAPSHOTS", "older_than_snapshot_id": head})
    for table in VERSIONED:
        assert query(lake, f"SELECT * FROM ducklake_{table} WHERE end_snapshot <= {head}") == [], table
    names = [name for (name,) in query(lake, "SELECT table_name FROM ducklake_inlined_data_tables")]
    for name in names:
        assert query(lake, f'SELECT * FROM "{name}" WHERE end_snapshot <= {head}') == []
    assert len(names) == 2
    assert query(lake, "SELECT * FROM ducklake_inlined_delete_1") == []
    assert query(lake, "SELECT * FROM ducklake_partition_column") == []
    assert lake.rows("SELECT id, v FROM k") == [(1, "b")]


@pytest.mark.parametrize(
    ("alteration", "name"),
    [
        (alter("RENAME_COLUMN", "k", name="v", new_name="w"), "w"),
        (alter("SET_DEFAULT", "k", name="v", default="x"), "v"),
        (alter("SET_NULLABLE", "k", name="v", nullable=False), "v"),
    ],
    ids=["renamed", "default", "nullable"],
)
def test_expire_when_rows_lie_inlined_from_before_an_alteration_then_they_keep_their_values(
    lake: Lake, alteration: dict[str, Any], name: str
) -> None:
    lake.commit(keyed_table())
    lake.commit(insert(id=1, v="a"))
    altered = lake.commit(alteration)
    lake.commit(insert(id=2, **{name: "b"}))
    again = lake.commit(alter("SET_DEFAULT", "k", name=name, default="y"))
    for older_than in (altered, again):
        lake.commit({"kind": "EXPIRE_SNAPSHOTS", "older_than_snapshot_id": older_than})
        assert lake.rows("SELECT * FROM k") == [(1, "a"), (2, "b")]
        with closing(ReadersCatalog(lake.database_url)) as contents:
            rows = Scan(contents, TableName("main", "k"), lake.log.head).to_arrow().to_pylist()
        assert rows == [{"id": 1, name: "a"}, {"id": 2, name: "b"}]
    dropped = lake.commit(change("DROP_TABLE", "k"))
    lake.commit({"kind": "EXPIRE_SNAPSHOTS", "older_than_snapshot_id": dropped})
    assert query(lake, "SELECT * FROM ducklake_column") == []


def test_expire_when_rows_lie_inlined_from_before_their_table_was_renamed_then_readers_find_them(lake: Lake) -> None:
    lake.commit(keyed_table())
    lake.commit(insert(id=1, v="a"))
    lake.commit(change("RENAME_TABLE", "k", new_table="l"))
    altered = lake.commit(alter("ADD_COLUMN", "l", column={"name": "w", "type": "int64", "default": "4"}))
    again = lake.commit(change("RENAME_TABLE", "l", new_table="m"))
    for older_than in (altered, again):
        lake.commit({"kind": "EXPIRE_SNAPSHOTS", "older_than_snapshot_id": older_than})
        assert lake.rows("SELECT * FROM m") == [(1, "a", 4)]
    dropped = lake.commit(change("DROP_TABLE", "m"))
    lake.commit({"kind": "EXPIRE_SNAPSHOTS", "older_than_snapshot_id": dropped})
    for table in ("table", "column"):
        assert query(lake, f"SELECT * FROM ducklake_{table}") == []


def test_expire_when_a_table_had_other_properties_then_those_of_snapshots_that_stay_are_kept(lake: Lake) -> None:
    lake.commit(keyed_table())
    values = ("ROW", "FILE", "TABLE")
    changed = [lake.commit(alter("SET_PROPERTY", "k", key="conflict_granularity", value=value)) for value in values]
    earlier = "SELECT end_snapshot, properties ->> 'conflict_granularity' FROM commitlog.earlier_properties ORDER BY 1"
    assert query(lake, earlier) == list(zip(changed, (None, "ROW", "FILE"), strict=True))
    lake.commit({"kind": "EXPIRE_SNAPSHOTS", "older_than_snapshot_id": changed[1]})
    assert query(lake, earlier) == [(changed[2], "FILE")]
    dropped = lake.commit(change("DROP_TABLE", "k"))
    lake.commit({"kind": "EXPIRE_SNAPSHOTS", "older_than_snapshot_id": dropped})
    assert query(lake, earlier) == []


def test_expire_when_rows_lie_inlined_from_before_a_partitioned_table_was_renamed_then_readers_find_them(
    lake: Lake,
) -> None:
    """They look at the whole schema of that time, where each partitioning must have its table."""
    lake.commit(create_table("p", partition_by=[{"column": "id", "transform": "identity"}]))
    lake.append("p", some(1, 2), TYPES)
    lake.commit(change("RENAME_TABLE", "p", new_table="q"))
    lake.commit(keyed_table())
    lake.commit(insert(id=1, v="a"))
    renamed = lake.commit(change("RENAME_TABLE", "q", new_table="r"))
    lake.commit({"kind": "EXPIRE_SNAPSHOTS", "older_than_snapshot_id": renamed})
    assert lake.rows("SELECT * FROM k") == [(1, "a")]
    assert lake.rows("SELECT id FROM r WHERE id = 2") == [(2,)]
    lake.append("r", some(3), TYPES)
    assert lake.rows("SELECT id FROM r") == [(1,), (2,), (3,)]


def snapshots(lake: Lake) -> list[int]:
    return [row[0] for row in query(lake, "SELECT snapshot_id FROM ducklake_snapshot ORDER BY 1")]


def test_expire_by_number_then_never_fewer_than_the_log_keeps_and_a_tenth_more_at_most(lake: Lake) -> None:
    lake.commit({"kind": "CONFIGURE", "settings": {"expire_keep_snapshots": 20}})
    lake.commit(create_table())
    for number in range(60):
        lake.append("t", some(number), TYPES)
        kept = snapshots(lake)
        assert kept == list(range(kept[0], lake.log.head + 1))
        assert kept[0] <= max(lake.log.state.floor_snapshot_id, 0)
        assert len(kept) <= 22
    assert lake.rows("SELECT count(*) FROM t") == [(60,)]
    lake.commit({"kind": "CONFIGURE", "settings": {"expire_keep_snapshots": None}})
    before = snapshots(lake)
    for number in range(5):
        lake.append("t", some(number), TYPES)
    assert len(snapshots(lake)) == len(before) + 5


def test_expire_by_age_then_what_is_younger_stays(lake: Lake) -> None:
    lake.commit({"kind": "CONFIGURE", "settings": {"expire_older_than_ms": 10_000}})
    lake.commit(create_table())
    start_ms = lake.log.state.decided_at_ms
    for second in range(1, 40):
        lake.commit(alter("SET_COMMENT", comment=str(second)), now_ms=start_ms + second * 1000)
        kept = snapshots(lake)
        assert kept[0] <= max(lake.log.head - 9, 0)
        assert len(kept) <= 13 or second < 10
    assert snapshots(lake)[0] > 20


def test_deletes_of_a_client_attached_before_then_it_sees_them(lake: Lake) -> None:
    lake.commit(create_table())
    lake.append("t", some(*range(10)), TYPES)
    with lake.reader() as client:
        assert client.execute("SELECT count(*) FROM t").fetchone() == (10,)
        lake.commit(delete({0: [0, 1]}))
        assert client.execute("SELECT count(*) FROM t").fetchone() == (8,)
        lake.commit(delete({0: [2]}))
        assert client.execute("SELECT min(id), count(*) FROM t").fetchone() == (3, 7)


def test_an_empty_snapshot_then_history_and_time_travel_go_on(lake: Lake) -> None:
    lake.commit(create_table())
    opened = lake.commit(open_writer=True, writer_id="opened")
    configured = lake.commit({"kind": "CONFIGURE", "settings": {"conflict_granularity": "ROW"}})
    skipped = lake.commit({**create_table(), "if_not_exists": True})
    prop = lake.commit(alter("SET_PROPERTY", key="conflict_granularity", value="ROW"))
    lake.append("t", some(1), TYPES)
    changes = lake.rows("SELECT snapshot_id, changes FROM ducklake_snapshots('lake')")
    assert [c for s, c in changes if s in (opened, configured, skipped, prop)] == [{}] * 4
    assert lake.rows(f"SELECT id FROM t AT (VERSION => {skipped})") == []


def test_names_of_every_kind_then_snapshots_can_be_listed(lake: Lake) -> None:
    names = ['we"ird', "a,b", "a b", "Ünï", "x.y", "SELECT", "ab'c", "a:b", "{}", "%s"]
    for name in names:
        lake.commit({"kind": "CREATE_SCHEMA", "schema": name})
        lake.commit({**create_table(name), "schema": name})
        lake.commit({"kind": "CREATE_VIEW", "schema": name, "view": name + "v", "sql": "SELECT 1 AS a"})
        lake.commit({"kind": "REPLACE_VIEW", "schema": name, "view": name + "v", "sql": "SELECT 2 AS a"})
    assert len(lake.rows("SELECT * FROM ducklake_snapshots('lake')")) == 4 * len(names) + 1
    found = lake.rows("SELECT table_name FROM duckdb_tables() WHERE database_name = 'lake'")
    assert sorted(name for (name,) in found) == sorted(names)


def test_a_refused_proposal_with_text_that_postgresql_cannot_hold_then_its_outcome_is_kept(lake: Lake) -> None:
    lake.commit(create_table())
    lake.log.refused("INVALID", create_table("nul\0"), writer_id="w1")
    lake.log.propose(create_table("x"), writer_id="bad\ud800\0")
    lake.log.propose(
        create_table("y"), reads=[{"kind": "NAME", "schema": "main", "name": "\0"}], isolation="SERIALIZABLE"
    )
    lake.project()
    assert query(lake, "SELECT count(*) FROM commitlog.outcomes") == [(4,)]


def test_key_changed_by_an_update_then_the_old_row_is_gone(lake: Lake) -> None:
    lake.commit(keyed_table())
    lake.commit(insert(id=1, v="a"), insert(id=2, v="b"))
    lake.commit(change("UPDATE_ROW", "k", key={"id": 1}, row={"id": 5, "v": "e"}))
    assert lake.rows("SELECT rowid, id, v FROM k") == [(1, 2, "b"), (2, 5, "e")]
    lake.commit(delete_row(5))
    assert lake.rows("SELECT id FROM k") == [(2,)]


def test_partition_set_twice_in_one_changeset_then_files_read(lake: Lake) -> None:
    lake.commit(create_table("p"))
    lake.commit(
        alter("SET_PARTITION_BY", "p", partition_by=[{"column": "v", "transform": "identity"}]),
        alter("SET_PARTITION_BY", "p", partition_by=[{"column": "id", "transform": "identity"}]),
    )
    file = lake.write("p", some(3), TYPES)
    lake.commit(change("APPEND", "p", files=[{**file, "partition_values": [3]}]))
    check_no_empty_life(lake)
    assert lake.rows("SELECT id FROM p WHERE id = 3") == [(3,)]
    assert len(query(lake, "SELECT * FROM ducklake_partition_column")) == 1


def test_a_key_then_is_looked_up_by_an_index_that_takes_whatever_writers_call_themselves(lake: Lake) -> None:
    lake.commit(create_table(), writer_seq=7)
    lake.log.refused("INVALID", create_table("u"), writer_id="w" * 10_000, writer_seq=8)
    lake.project()
    with closing(Catalog(lake.database_url)) as catalog, catalog.connected() as conn:
        found = catalog.committed_as("w1", 7)
        conn.execute("SET enable_seqscan = off")
        plan = conn.execute(sql.SQL("EXPLAIN ") + statements.COMMITTED_AS, ("w1", 7)).fetchall()
    assert found is not None
    assert found["seq"] == 1
    assert "outcomes_by_key" in str(plan)


def test_a_table_then_is_looked_up_by_indexes_however_many_there_are(lake: Lake) -> None:
    lake.commit({**create_table(), "partition_by": [{"column": "id", "transform": "identity"}]})
    with closing(Catalog(lake.database_url)) as catalog, catalog.connected() as conn:
        conn.execute("SET enable_seqscan = off")
        asked = {"schema": "main", "table": "T", "snapshot": 1}
        plan = str(conn.execute(sql.SQL("EXPLAIN ") + statements.TABLE_AT, asked).fetchall())
    for of in ("table_by_name", "column_by_table", "partition_info_by_table", "partition_column_by_table"):
        assert f"ducklake_{of}" in plan, plan


def test_all_tables_then_are_read_by_as_many_statements_as_two_and_are_what_each_one_is(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.commit({"kind": "CREATE_SCHEMA", "schema": "s"}, create_table("a"), create_table("B"))
    lake.append("a", some(1), TYPES)
    lake.append("a", some(2), TYPES)
    asked: list[object] = []
    select = Catalog._select

    def counting(catalog: Catalog, query: Any, parameters: Any = ()) -> list[tuple[Any, ...]]:
        asked.append(query)
        return select(catalog, query, parameters)

    def all_at(catalog: Catalog, at: int) -> tuple[list[CatalogTable], dict[int, int], int]:
        asked.clear()
        return catalog.tables_at(at), catalog.file_counts_at(at), len(asked)

    monkeypatch.setattr(Catalog, "_select", counting)
    with closing(Catalog(lake.database_url)) as catalog:
        _, _, statements_of_two = all_at(catalog, lake.log.head)
        lake.commit(
            *({**create_table(f"t{number}"), "schema": "s"} for number in range(20)),
            {**create_table("c"), "partition_by": [{"column": "id", "transform": "identity"}]},
            {"kind": "DROP_TABLE", "schema": "main", "table": "B"},
        )
        for at in range(lake.log.head + 1):
            tables, counts, statements_of_all = all_at(catalog, at)
            assert statements_of_all == statements_of_two
            names = [(each.schema_name, each.definition.name, each.definition.table_id) for each in tables]
            assert names == catalog.tables(at)
            assert tables == [catalog.table_at(schema, name, at) for schema, name, _ in names]
            assert [counts.get(table_id, 0) for _, _, table_id in names] == [
                catalog.file_count_at(table_id, at) for _, _, table_id in names
            ]
        assert len(tables) == 22


def test_what_is_ended_or_read_of_one_object_then_is_looked_up_by_an_index_however_many_there_are(lake: Lake) -> None:
    looked_up = {
        "column_tag_by_table": (objects._END_COLUMN_TAGS, (1, 1, [1])),
        "inlined_data_tables_by_table": (statements.ROWS_TABLES, (1,)),
        "name_mapping_by_mapping": (statements.MAPPINGS, ([1],)),
        "schema_versions_by_table": (statements.ROWS_COLUMNS, (1, ["t"])),
        "table_by_id": (objects._END_TABLE_NAME, (1, 1)),
        "tag_by_object": (
            objects._END.format(table=sql.Identifier("ducklake_tag"), key=sql.Identifier("object_id")),
            (1, 1),
        ),
        "view_by_id": (objects._END_VIEW, (1, 1)),
    }
    with closing(Catalog(lake.database_url)) as catalog, catalog.connected() as conn:
        conn.execute("SET enable_seqscan = off")
        for index, (statement, parameters) in looked_up.items():
            plan = str(conn.execute(sql.SQL("EXPLAIN ") + statement, parameters).fetchall())
            assert f"ducklake_{index}" in plan, plan


class ReadOnce(list[tuple[Any, ...]]):
    """Rows that may be gone through once."""

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        yield from [self.pop(0) for _ in range(len(self))]


def test_files_by_name_when_there_are_several_then_their_names_are_gone_through_once(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    nested = {"name": "s", "type": "struct(a int64, b varchar)"}
    lake.commit({**create_table(), "columns": [{"name": "id", "type": "int64"}, nested]})
    fields = [{"source_name": each.upper(), "column": each} for each in "ab"]
    mapping = [{"source_name": "ID", "column": "id"}, {"source_name": "S", "column": "s", "children": fields}]
    for number in range(3):
        file = {"path": f"f{number}.parquet", "record_count": 2, "file_size_bytes": 9, "name_mapping": mapping}
        lake.commit(change("APPEND", files=[file]))
    with closing(Catalog(lake.database_url)) as catalog:
        table = catalog.table_at("main", "t", lake.log.head)
        assert table is not None
        select = catalog._select

        def selected(query: Any, *parameters: Any) -> list[tuple[Any, ...]]:
            found = select(query, *parameters)
            return ReadOnce(found) if query is statements.MAPPINGS else found

        monkeypatch.setattr(catalog, "_select", selected)
        mappings = [each.name_mapping for each in catalog.files_of(table, [1, 3, 5])]
    a, b = MappedColumn("A", "a"), MappedColumn("B", "b")
    assert mappings == [(MappedColumn("ID", "id"), MappedColumn("S", "s", (a, b)))] * 3


def looked_at(conn: psycopg.Connection[Any], query: sql.Composable, parameters: Any, relation: str) -> int:
    """How many rows of a table a statement takes, each time that it looks through it."""
    found = conn.execute(sql.SQL("EXPLAIN (ANALYZE, FORMAT JSON) ") + query, parameters).fetchone()
    assert found is not None
    nodes, count = [found[0][0]["Plan"]], 0
    while nodes:
        node = nodes.pop()
        nodes += node.get("Plans", [])
        if node.get("Relation Name") == relation:
            count += (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"]
    return int(count)


@pytest.mark.parametrize("asked", [{"table_id": 3}, {"name": "t3", "schema": "main"}], ids=["id", "name"])
def test_history_of_a_table_when_the_log_is_long_then_tables_are_not_gone_through_for_each_outcome(
    lake: Lake, asked: dict[str, Any]
) -> None:
    lake.commit(*(create_table(f"t{number}") for number in range(1, 11)))
    for number in range(20):
        lake.append(f"t{number % 2 + 3}", some(number), TYPES)
    query = _ENTRIES.format(conditions=_CONDITIONS["table_id" if "table_id" in asked else "table"])
    with psycopg.connect(lake.database_url) as conn:
        entries = {"schema": None, "name": None, "limit": 50, **asked}
        assert len(conn.execute(query, entries).fetchall()) == 11
        assert looked_at(conn, query, entries, "ducklake_table") <= 10
        assert looked_at(conn, query, entries, "refused_tables") == 0


def test_expire_when_no_file_has_ended_then_those_that_stay_are_looked_through_once(lake: Lake) -> None:
    lake.commit(create_table())
    for number in range(20):
        lake.append("t", some(number), TYPES)
    tables = {"table": sql.Identifier("ducklake_data_file"), "key": sql.Identifier("data_file_id")}
    with closing(psycopg.connect(lake.database_url)) as conn:
        mark_projector(conn)
        conn.execute("SET enable_nestloop = off")
        at = datetime(2026, 1, 1, tzinfo=UTC)
        assert looked_at(conn, _SCHEDULE_FILES.format(**tables), (10, 10, at), "ducklake_data_file") <= 21


def test_reader_when_it_was_interrupted_within_a_statement_then_the_next_one_is_answered(lake: Lake) -> None:
    with closing(Catalog(lake.database_url)) as catalog:

        def interrupted() -> None:
            with catalog.connected() as conn:
                conn.pgconn.send_query(b"SELECT 1")
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            interrupted()
        assert catalog.head_snapshot_id() == lake.log.head
