"""A table's handle on both logs: what it is, and its rows as Arrow."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from contract.making import ANYWHERE, KEYED, ROWS, append, create

from commitlog.client import CommitLog
from commitlog.client.reading import file_rows, frames
from commitlog.client.reading.rows_of_file import RowsOfFile
from commitlog.client.reading.scan import Scan
from commitlog.errors import (
    DataFileError,
    InvalidRequestError,
    MomentNotFoundError,
    SnapshotNotFoundError,
    TableNotFoundError,
)
from commitlog.testing import InMemoryCommitLog


def test_table_when_nobody_made_it_then_says_so_when_asked(log: CommitLog, table: str) -> None:
    handle = log.table(table)
    assert (handle.name, repr(handle)) == (f"main.{table}", f"Table('main.{table}')")
    for ask in (lambda: handle.definition, lambda: handle.schema, handle.files, handle.history):
        with pytest.raises(TableNotFoundError, match=table):
            ask()
    create(log, table)
    assert [column.name for column in handle.definition.columns] == ["id", "day"]
    assert handle.schema == pa.schema([("id", pa.int64()), ("day", pa.string())])


def test_files_when_asked_as_of_a_snapshot_then_those_of_then(log: CommitLog, table: str, tmp_path: Path) -> None:
    create(log, table)
    handle = log.table(table)
    before = log.head_snapshot_id()
    first = append(log, table, tmp_path)
    append(log, table, tmp_path)
    assert [each.record_count for each in handle.files()] == [3, 3]
    assert handle.files(before) == []
    with log.transaction() as tx:
        tx.delete(table, whole_files=[first])
    assert len(handle.files()) == 1
    with pytest.raises(SnapshotNotFoundError, match="no snapshot 1000000"):
        handle.files(10**6)
    with pytest.raises(InvalidRequestError, match="snapshot must be an id, a datetime, or a text such as"):
        handle.files("last")


def test_history_when_a_table_changed_then_its_own_snapshots_newest_first(
    log: CommitLog, table: str, tmp_path: Path
) -> None:
    create(log, table)
    create(log, f"{table}_other")
    append(log, table, tmp_path)
    with log.transaction(message="a better name", author="ann") as tx:
        tx.rename_table(table, f"{table}_new")
    found = log.table(f"{table}_new").history()
    assert [each.changes for each in found] == [("RENAME_TABLE",), ("APPEND",), ("CREATE_TABLE",)]
    assert (found[0].message, found[0].author, found[0].writer_id) == ("a better name", "ann", "test")
    assert found[0].time >= found[1].time >= found[2].time
    assert log.table(f"{table}_new").history(limit=1) == found[:1]


def test_snapshots_when_listed_then_newest_first_and_as_many_as_asked_for(log: CommitLog, table: str) -> None:
    create(log, table)
    newest = log.head_snapshot_id()
    every = log.snapshots()
    assert [each.snapshot_id for each in every] == list(range(newest, -1, -1))
    assert log.snapshots(2) == every[:2]
    assert log.snapshots(1, before=newest) == every[1:2]


def test_tables_when_listed_then_named_with_their_schemas_as_of_a_snapshot(log: CommitLog, table: str) -> None:
    before = log.head_snapshot_id()
    with log.transaction() as tx:
        tx.create_schema(f"s_{table}")
        tx.create_table(f"s_{table}.odd name", ROWS.schema, properties=ANYWHERE)
    create(log, table)
    assert {f"main.{table}", f"s_{table}.odd name"} <= set(log.tables())
    assert f"s_{table}" in log.schemas()
    assert f"s_{table}" not in log.schemas(snapshot=before)
    assert f"main.{table}" not in log.tables(snapshot=before)
    made_at = log.snapshots(1)[0].time
    with log.transaction() as tx:
        tx.drop_table(table)
    assert f"main.{table}" not in log.tables()
    assert f"main.{table}" in log.tables(snapshot=made_at)
    assert f"s_{table}" in log.schemas(snapshot=made_at.isoformat())
    with pytest.raises(SnapshotNotFoundError):
        log.tables(snapshot=10**6)


def test_scan_when_a_table_was_changed_then_its_rows_at_each_snapshot(
    log: CommitLog, table: str, tmp_path: Path
) -> None:
    create(log, table)
    handle = log.table(table)
    first = append(log, table, tmp_path)
    whole = log.head_snapshot_id()
    append(log, table, tmp_path, pa.table({"id": [4, 5], "day": ["d", None]}))
    with log.transaction() as tx:
        tx.delete(table, positions={first: [1]})
    assert rows(handle.scan()) == [(1, "a"), (3, "c"), (4, "d"), (5, None)]
    assert rows(handle.scan(snapshot=whole)) == rows(ROWS)
    assert rows(handle.scan(where="id >= 3 and day is not null")) == [(3, "c"), (4, "d")]
    assert handle.scan(columns=["day"], where=("id", "=", 3)).to_arrow() == pa.table({"day": ["c"]})
    assert handle.scan(where=[("id", "in", [2, 5])]).count() == 1
    assert (handle.scan().count(), handle.scan(snapshot=whole).count()) == (4, 3)
    assert rows(handle.scan().to_batches().read_all()) == rows(handle.scan())
    assert sorted(handle.scan().to_polars()["id"]) == sorted(handle.scan().to_pandas()["id"]) == [1, 3, 4, 5]


def test_scan_when_a_filter_lists_many_values_then_rows_of_all_of_them(
    log: CommitLog, table: str, tmp_path: Path
) -> None:
    create(log, table)
    append(log, table, tmp_path, pa.table({"id": range(100), "day": [str(each) for each in range(100)]}))
    append(log, table, tmp_path)
    handle, many = log.table(table), [*range(2, 100_000, 2), None]
    assert rows(handle.scan(where=("id", "in", many), columns=["id"])) == [
        (2,),
        *((each,) for each in range(2, 100, 2)),
    ]
    assert handle.scan(where=("day", "not in", [str(each) for each in range(3, 100_000)])).count() == 6
    outcome = handle.delete(("id", "in", many))
    assert outcome is not None
    log.wait_for_snapshot()
    assert sorted(handle.scan(columns=["id"]).to_arrow()["id"].to_pylist()) == sorted([0, 1, 3, *range(1, 100, 2)])


def test_scan_when_values_are_excluded_then_the_rows_that_have_another_one(
    log: CommitLog, table: str, tmp_path: Path
) -> None:
    columns = pa.table({"id": [1, 2, 3, 4], "x": [1.5, float("nan"), None, 2.0]})
    with log.transaction() as tx:
        tx.create_table(table, columns.schema)
    append(log, table, tmp_path, columns)
    handle = log.table(table)

    def ids(where: Any) -> list[int]:
        return sorted(handle.scan(where=where, columns=["id"]).to_arrow()["id"].to_pylist())

    assert ids("id != 2") == ids([("id", "<>", 2)]) == [1, 3, 4]
    assert ids("x != 1.5") == [2, 4]
    assert ids(("x", "!=", float("nan"))) == [1, 4]
    assert ids("id not in (1, 4) and x is not null") == [2]
    assert ids(("id", "not in", [1, None])) == []
    assert handle.scan(where="x <> 1.5").count() == 2
    excluding = handle.scan(where="x != 1.5")
    with log.transaction(isolation="serializable") as tx:
        tx.read(table, filter=excluding.where)
        tx.alter(table).set_comment("what was read is told as more than was asked for")
    with pytest.raises(InvalidRequestError, match="which only scans take"):
        handle.delete("x != 1.5")


@pytest.mark.parametrize("is_masked", [False, True])
def test_scan_when_bounds_of_others_leave_nan_out_then_it_is_the_greatest_number_still(
    log: CommitLog, table: str, tmp_path: Path, is_masked: bool
) -> None:
    columns = pa.table({"id": [1, 2, 3], "x": [1.0, float("nan"), 1.0]})
    with log.transaction() as tx:
        tx.create_table(table, columns.schema)
    append(log, table, tmp_path, columns)
    handle = log.table(table)
    [file] = handle.files()
    assert pq.read_metadata(file.path).row_group(0).column(1).statistics.max == 1.0
    if is_masked:
        handle.delete("id = 3")
    ones = [1] if is_masked else [1, 3]
    for op, value, matching in (
        (">", 1.0, [2]), (">=", 1.0, [*ones, 2]), ("=", 1.0, ones), ("!=", 1.0, [2]), ("<=", 1.0, ones), ("<", 2.0, ones),
        ("=", float("nan"), [2]), ("in", [float("nan"), 5.0], [2]), ("!=", float("nan"), ones),
    ):  # fmt: skip
        scan = handle.scan(where=("x", op, value), columns=["id"])
        assert (op, sorted(scan.to_arrow()["id"].to_pylist()), scan.count()) == (op, sorted(matching), len(matching))


def test_scan_when_statistics_rule_files_out_then_says_how_many_it_opens(
    log: CommitLog, table: str, tmp_path: Path
) -> None:
    create(log, table)
    for start in (0, 10, 20):
        append(log, table, tmp_path, pa.table({"id": [start, start + 1], "day": ["a", "b"]}))
    scan = log.table(table).scan(where="id between 10 and 15")
    assert [(each.record_count, len(scan.files()), scan.table_file_count) for each in scan.files()] == [(2, 1, 3)]
    assert repr(scan) == f"Scan('main.{table}', snapshot={scan.snapshot_id}, files=1 of 3)"
    assert rows(scan) == [(10, "a"), (11, "b")]
    assert log.table(table).scan(where="id > 100").to_arrow().num_rows == 0


def test_scan_when_columns_were_renamed_added_and_dropped_then_matched_by_their_ids(
    log: CommitLog, table: str, tmp_path: Path
) -> None:
    create(log, table)
    append(log, table, tmp_path)
    before = log.head_snapshot_id()
    with log.transaction() as tx:
        alter = tx.alter(table)
        alter.rename_column("id", "number")
        alter.add_column("n", "int32", default=7)
        alter.drop_column("day")
    with log.transaction() as tx:
        tx.alter(table).add_column("day", "varchar")
    now = log.table(table).scan()
    assert now.to_arrow().to_pydict() == {"number": [1, 2, 3], "n": [7, 7, 7], "day": [None] * 3}
    assert rows(log.table(table).scan(where="n = 7 and number = 2")) == [(2, 7, None)]
    assert rows(log.table(table).scan(snapshot=before)) == rows(ROWS)


def test_scan_when_rows_are_in_no_file_then_they_are_read_beside_those_of_files(
    log: CommitLog, table: str, tmp_path: Path
) -> None:
    with log.transaction() as tx:
        tx.create_table(table, KEYED, primary_key=["id"])
        for key in (1, 2, 3):
            tx.insert_row(table, {"id": key, "v": f"v{key}"})
    inserted = log.head_snapshot_id()
    with log.transaction() as tx:
        tx.update_row(table, {"id": 2}, {"id": 2, "v": "other"})
        tx.delete_row(table, {"id": 3})
    handle = log.table(table)
    assert rows(handle.scan()) == [(1, "v1"), (2, "other")]
    assert rows(handle.scan(snapshot=inserted)) == [(1, "v1"), (2, "v2"), (3, "v3")]
    assert rows(handle.scan(where="v = 'other'", columns=["id"])) == [(2,)]
    assert (handle.scan().count(), handle.scan(where="id > 1").count()) == (2, 1)


def test_scan_when_asked_as_of_a_moment_then_what_was_the_newest_then(
    log: CommitLog, table: str, tmp_path: Path
) -> None:
    create(log, table)
    append(log, table, tmp_path)
    made = log.snapshots(1)[0].time
    handle = log.table(table)
    assert handle.scan(timestamp=made).snapshot_id == log.head_snapshot_id()
    assert handle.scan(timestamp=made.isoformat()).count() == 3
    with pytest.raises(MomentNotFoundError, match="no snapshot of 1999-01-01 00:00:00 UTC: the log began at 20"):
        handle.scan(timestamp="1999-01-01")
    for to_come in ({"timestamp": "2999-01-01"}, {"snapshot": "2999-01-01"}):
        with pytest.raises(InvalidRequestError, match="must be a moment that has passed: 2999-01-01T00:00:00"):
            handle.scan(**to_come)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"where": "id ="}, "position 5"),
        ({"where": "nothing = 1"}, "has no column .*nothing"),
        ({"where": "id = 'x'"}, r"the filter on column id \(int64\): the value 'x' is no integer"),
        ({"columns": ["nothing"]}, "has no column .*nothing"),
        ({"columns": "id"}, "columns must be a list of names of columns"),
        ({"columns": []}, "columns must name at least one"),
        ({"columns": ["id", "ID"]}, "columns names one twice: id, ID"),
        ({"snapshot": 1, "timestamp": "2026-01-01"}, "a snapshot or a timestamp to read at, not both"),
        ({"timestamp": "last week"}, "timestamp must be a datetime, or a text such as"),
        ({"snapshot": -1}, "snapshot must be a whole number from 0 on"),
    ],
)
def test_scan_when_it_cannot_be_then_says_why(log: CommitLog, table: str, given: dict[str, Any], says: str) -> None:
    create(log, table)
    with pytest.raises(InvalidRequestError, match=says):
        log.table(table).scan(**given)


def rows(read: Scan | pa.Table) -> list[tuple[Any, ...]]:
    """Rows in the order of their first column."""
    table = read if isinstance(read, pa.Table) else read.to_arrow()
    return sorted(tuple(row.values()) for row in table.to_pylist())


def test_changes_when_rows_came_and_went_then_each_with_what_became_of_it(
    log: CommitLog, table: str, tmp_path: Path
) -> None:
    create(log, table)
    start = log.head_snapshot_id()
    first = append(log, table, tmp_path)
    appended = log.head_snapshot_id()
    with log.transaction() as tx:
        tx.delete(table, positions={first: [0]})
    with log.transaction() as tx:
        tx.delete(table, whole_files=[first])
    deleted = log.head_snapshot_id()
    found = log.table(table).changes(start).to_arrow()
    assert found.schema.names == ["snapshot_id", "rowid", "change_type", "id", "day"]
    assert [(each["snapshot_id"] - start, each["change_type"], each["id"]) for each in found.to_pylist()] == [
        (1, "insert", 1), (1, "insert", 2), (1, "insert", 3), (2, "delete", 1), (3, "delete", 2), (3, "delete", 3),
    ]  # fmt: skip
    handle = log.table(table)
    assert handle.changes(appended, deleted).to_polars()["change_type"].to_list() == ["delete"] * 3
    assert handle.changes(start, appended).to_arrow().num_rows == 3
    assert handle.changes(deleted).to_arrow().num_rows == 0
    with pytest.raises(InvalidRequestError, match=f"not from {deleted} to {start}"):
        handle.changes(deleted, start)


def test_changes_when_rows_are_in_no_file_then_an_update_is_two_of_them(log: CommitLog, table: str) -> None:
    with log.transaction() as tx:
        tx.create_table(table, KEYED, primary_key=["id"])
    start = log.head_snapshot_id()
    with log.transaction() as tx:
        tx.insert_row(table, {"id": 1, "v": "a"})
    with log.transaction() as tx:
        tx.update_row(table, {"id": 1}, {"id": 1, "v": "b"})
    with log.transaction() as tx:
        tx.delete_row(table, {"id": 1})
    found = log.table(table).changes(start).to_arrow().to_pylist()
    assert [(each["snapshot_id"] - start, each["change_type"], each["v"]) for each in found] == [
        (1, "insert", "a"), (2, "update_preimage", "a"), (2, "update_postimage", "b"), (3, "delete", "b"),
    ]  # fmt: skip
    assert len({each["rowid"] for each in found}) == 1


def test_duckdb_when_asked_for_then_reads_what_was_committed_and_writes_nothing(
    log: CommitLog, table: str, tmp_path: Path
) -> None:
    create(log, table)
    append(log, table, tmp_path)
    before = log.head_snapshot_id()
    append(log, table, tmp_path)
    if isinstance(log, InMemoryCommitLog):
        with pytest.raises(InvalidRequestError, match="a log in memory has no catalog that DuckDB could attach"):
            log.duckdb()
        return
    with log.duckdb() as lake:
        assert lake.execute(f"SELECT count(*) FROM {table}").fetchone() == (6,)
        with pytest.raises(duckdb.Error, match="read-only"):
            lake.execute(f"DELETE FROM {table}")
    with log.duckdb(snapshot=before) as lake:
        assert lake.execute(f"SELECT count(*) FROM {table}").fetchone() == (3,)
    with pytest.raises(SnapshotNotFoundError):
        log.duckdb(snapshot=10**6)


TYPED = {
    "id": "int64", "i8": "int8", "u64": "uint64", "big": "int128", "f": "float64", "d": "decimal(9,2)", "b": "boolean",
    "day": "date", "at": "time", "ts": "timestamp", "ns": "timestamp_ns", "tz": "timestamptz", "iv": "interval",
    "s": "varchar", "bl": "blob", "u": "uuid", "j": "json", "l": "list(int64)",
    "st": 'struct(a int64, b varchar)', "m": "map(varchar, int64)",
}  # fmt: skip
VALUES = {
    "id": 1, "i8": -7, "u64": 2**64 - 1, "big": str(2**100), "f": float("nan"), "d": Decimal("1.50"), "b": True,
    "day": dt.date(2024, 2, 29), "at": dt.time(1, 2, 3), "ts": dt.datetime(2024, 2, 29, 1, 2, 3, 456),
    "ns": "2024-02-29 01:02:03.123456789", "tz": dt.datetime(2024, 2, 29, tzinfo=dt.UTC), "iv": "1 year 2 days 03:04:05",
    "s": "it's [a] 'word'", "bl": b"\x00z", "u": UUID(int=7), "j": '{"a": 1}', "l": [1, None],
    "st": {"a": 1, "b": "it's"}, "m": {"k": 1, "l": None},
}  # fmt: skip


def test_scan_when_a_row_is_in_no_file_then_its_values_are_of_the_types_that_duckdb_gives(
    log: CommitLog, table: str
) -> None:
    with log.transaction() as tx:
        tx.create_table(table, TYPED, primary_key=["id"])
        tx.insert_row(table, VALUES)
        tx.insert_row(table, {"id": 2})
        tx.insert_row(table, {"id": 3, "j": {"a": True, "b": [None, 1.5]}})
    found = log.table(table).scan().to_arrow()
    assert found.schema == log.table(table).schema
    one, none, other = found.sort_by("id").drop_columns(["f", "ns", "iv"]).to_pylist()
    assert one == {
        **{name: value for name, value in VALUES.items() if name not in ("f", "ns", "iv")},
        "big": Decimal(2**100), "u64": 2**64 - 1, "u": str(UUID(int=7)), "m": [("k", 1), ("l", None)],
    }  # fmt: skip
    assert set(none.values()) == {2, None}
    assert other["j"] == '{"a": true, "b": [null, 1.5]}'
    assert found["iv"].to_pylist()[0] == pa.MonthDayNano([12, 2, 11045 * 10**9])
    assert found["ns"].cast(pa.int64()).to_pylist()[0] % 10**9 == 123456789
    assert log.table(table).scan(where="f > 5 and u = '00000000-0000-0000-0000-000000000007'").count() == 1
    assert log.table(table).scan(where=[("bl", "=", b"\x00z"), ("ns", ">", "2024-02-29 01:02:03.1")]).count() == 1
    with pytest.raises(InvalidRequestError, match="column iv is a interval, which a filter cannot compare"):
        log.table(table).scan(where="iv = '1 day'")


MIDNIGHT, SEVEN = dt.datetime(2024, 1, 1, tzinfo=dt.UTC), str(UUID(int=7))


@pytest.mark.parametrize(
    ("kind", "given", "found"),
    [
        ("timestamptz", "2024-01-01 00:00:00", MIDNIGHT),
        ("timestamptz", "2024-01-01T05:30+05:30", MIDNIGHT),
        ("list(timestamptz)", ["2024-01-01", "2023-12-31 23:00:00 -01"], [MIDNIGHT, MIDNIGHT]),
        ("timestamp", "2024-01-01T00:00", dt.datetime(2024, 1, 1)),
        ("time", "01:02", dt.time(1, 2)),
        ("uuid", "{00000000-0000-0000-0000-000000000007}", SEVEN),
        ("list(uuid)", ["urn:uuid:00000000-0000-0000-0000-000000000007", "0" * 31 + "7"], [SEVEN, SEVEN]),
    ],
)
def test_scan_when_a_row_has_a_value_in_another_form_than_the_usual_one_then_it_is_the_same_value(
    log: CommitLog, table: str, kind: str, given: Any, found: object
) -> None:
    with log.transaction() as tx:
        tx.create_table(table, {"id": "int64", "v": kind}, primary_key=["id"])
        tx.insert_row(table, {"id": 1, "v": given})
    before = log.head_snapshot_id()
    log.table(table).delete("id = 1")
    log.table(table).restore(before)
    log.wait_for_snapshot()
    assert log.table(table).scan().to_arrow()["v"].to_pylist() == [found]


def test_scan_when_a_number_has_128_bits_then_is_read_and_filtered_whole_or_said_to_have_no_type(
    log: CommitLog, table: str
) -> None:
    least, most = 1 - 2**127, 2**127 - 1
    with log.transaction() as tx:
        tx.create_table(table, {"id": "int64", "n": "int128", "u": "uint128", "l": "list(int128)"}, primary_key=["id"])
        tx.insert_row(table, {"id": 1, "n": str(least)})
        tx.insert_row(table, {"id": 2, "n": str(most), "u": str(most), "l": [str(most), None]})
        tx.insert_row(table, {"id": 3})
    found = log.table(table).scan().to_arrow().sort_by("id")
    assert found["n"].to_pylist() == [Decimal(least), Decimal(most), None]
    assert found["u"].to_pylist() == [None, Decimal(most), None]
    assert found["l"].to_pylist() == [None, [Decimal(most), None], None]
    assert duckdb.sql("SELECT n FROM found ORDER BY id").fetchall() == [(Decimal(least),), (Decimal(most),), (None,)]
    for where, count in ((f"n = {most}", 1), (f"n < {least + 1}", 1), (f"n in ({most}, 0)", 1), (f"u >= {most}", 1)):
        assert log.table(table).scan(where=where).count() == count
    with log.transaction() as tx:
        tx.insert_row(table, {"id": 4, "n": "5", "u": str(2**128 - 1)})
    with pytest.raises(DataFileError, match=r"beyond 1701.*leave their column out"):
        log.table(table).scan().to_arrow()
    assert log.table(table).scan(columns=["n"], where="n = 5").count() == 1


def test_scan_when_a_file_is_gone_then_says_which(log: CommitLog, table: str, tmp_path: Path) -> None:
    create(log, table)
    append(log, table, tmp_path)
    scan = log.table(table).scan()
    Path(scan.files()[0].path).unlink()
    assert scan.count() == 3
    with pytest.raises(DataFileError, match=r"\.parquet is not there .*is lost: `commitlog doctor`"):
        scan.to_arrow()


def test_scan_when_files_go_once_their_footers_are_read_then_says_which(log: CommitLog, table: str) -> None:
    for first in (0, 1000):
        log.append(table, {"id": range(first, first + 1000)}, create=True)
    log.table(table).delete("id = 5")
    scan = log.table(table).scan(where="id > 1")
    groups = list(scan._reader._groups(scan._file_rows()))
    assert len(groups) == 2
    for file in scan.files():
        Path(file.path).unlink()
    for group in groups:
        for read in (group.table, lambda: list(group.batches())):  # noqa: B023
            with pytest.raises(DataFileError, match=r"\.parquet.* is not there \(any more\)"):
                read()


def test_scan_when_what_makes_frames_is_not_installed_then_says_what_to_install(
    log: CommitLog, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(log, table)
    monkeypatch.setattr(frames, "find_spec", lambda name: None)
    with pytest.raises(InvalidRequestError, match="needs polars, which is not installed: pip install polars"):
        log.table(table).scan().to_polars()
    with pytest.raises(InvalidRequestError, match="pip install pandas"):
        log.table(table).scan().to_pandas()


def test_scan_when_a_file_has_many_row_groups_and_deleted_rows_then_each_row_is_where_it_stands(
    log: CommitLog, table: str, tmp_path: Path
) -> None:
    create(log, table)
    path = tmp_path / f"{table}.parquet"
    pq.write_table(pa.table({"id": range(100), "day": [str(each) for each in range(100)]}), path, row_group_size=7)
    with log.transaction() as tx:
        tx.append(table, [str(path)])
    gone = {0, 6, 7, 50, 98, 99}
    with log.transaction() as tx:
        tx.delete(table, positions={log.table(table).files()[0].data_file_id: gone})
    left = [each for each in range(100) if each not in gone]
    handle = log.table(table)
    assert sorted(handle.scan().to_arrow()["id"].to_pylist()) == left
    assert [row[0] for row in rows(handle.scan(where="id >= 45 and id < 60"))] == [i for i in left if 45 <= i < 60]
    assert handle.scan(where="id > 90", columns=["day"]).count() == 7


def test_batches_when_a_table_has_many_files_then_the_first_rows_do_not_wait_for_all_footers(
    log: CommitLog, table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(log, table)
    for _ in range(3):
        append(log, table, tmp_path)
    opened: list[str] = []
    make = file_rows._Opened

    def noted(rows: RowsOfFile, *more: Any) -> file_rows._Opened:
        opened.append(rows.path)
        return make(rows, *more)

    monkeypatch.setattr(file_rows, "_Opened", noted)
    monkeypatch.setattr(file_rows, "_FOOTERS_AT_ONCE", 1)
    batches = log.table(table).scan().to_batches()
    batches.read_next_batch()
    assert len(opened) == 1
    assert sum(batch.num_rows for batch in batches) == 6
    assert len(opened) == 3
