"""What becomes of the forms in which programs have rows."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from commitlog.client.access.memory_contents import MemoryContents
from commitlog.client.reading.file_rows import FileReader
from commitlog.client.reading.rows_of_file import rows_left
from commitlog.client.tables.arrow_types import to_rows
from commitlog.client.tables.others_names import OF_SCANS, OF_TABLES
from commitlog.client.writing.parquet_file import GROUP_ROWS
from commitlog.client.writing.rows import Rows, rows_of
from commitlog.domain import model as m
from commitlog.domain.model import PartitionSpec
from commitlog.domain.model.types import parse_type
from commitlog.errors import DataFileError, InvalidChangeError, InvalidRequestError, ProposalRejectedError
from commitlog.log.codec import decode_statistics
from commitlog.testing import InMemoryCommitLog

FRAME = pd.DataFrame({"id": [1, 2, 3], "day": ["mon", "mon", "tue"], "n": [7, 8, 9]})


def columns_of(frame: Any) -> dict[str, list[Any]]:
    rows = rows_of(frame)
    assert isinstance(rows, Rows)
    (table,) = rows.pieces
    assert rows.schema == table.schema
    columns: dict[str, list[Any]] = table.to_pydict()
    return columns


def test_rows_when_a_frame_has_a_named_index_then_it_is_columns() -> None:
    assert columns_of(FRAME.set_index("id")) == FRAME.to_dict("list")
    assert columns_of(FRAME.set_index(["day", "id"])) == FRAME.to_dict("list")
    assert columns_of(FRAME.groupby("day").sum())["day"] == ["mon", "tue"]


@pytest.mark.parametrize("partition_by", [[], ["p"]], ids=["plain", "partitioned"])
def test_append_when_a_value_does_not_fit_after_many_rows_were_written_then_no_file_is_left(
    tmp_path: Path, partition_by: list[str]
) -> None:
    log = InMemoryCommitLog(data_path=tmp_path)
    with log.transaction() as tx:
        tx.create_table("t", {"p": "int8", "v": "int8"}, partition_by=partition_by)

    def pieces() -> Iterator[pa.RecordBatch]:
        many = np.zeros(GROUP_ROWS, np.int64)
        yield pa.record_batch({"p": many, "v": many})
        yield pa.record_batch({"p": [0], "v": [128]})

    with pytest.raises(DataFileError, match="not in range"):
        log.append("t", pieces())
    assert not list(tmp_path.rglob("*.parquet"))


@pytest.mark.parametrize(
    "frame",
    [FRAME, FRAME[FRAME.id > 1], FRAME.sort_values("n", ascending=False), FRAME.iloc[:0]],
    ids=["whole", "filtered", "sorted", "empty"],
)
def test_rows_when_the_index_only_numbers_them_then_it_is_left_out(frame: Any) -> None:
    assert columns_of(frame) == frame.to_dict("list")


@pytest.mark.parametrize(
    "frame",
    [
        FRAME.set_index("day").rename_axis(None),
        FRAME.set_index(["day", "id"]).rename_axis([None, "id"]),
        FRAME.set_index("day", drop=False),
    ],
    ids=["no name", "a level without one", "the name of a column"],
)
def test_rows_when_the_index_can_be_no_column_then_says_what_to_call(frame: Any) -> None:
    with pytest.raises(InvalidRequestError, match=r"call \.reset_index"):
        rows_of(frame)


def test_rows_when_a_frames_whole_numbers_are_beyond_arrows_then_says_so() -> None:
    with pytest.raises(DataFileError, match=r"Arrow has no type for: .* too large .*: give its values one type"):
        rows_of(pd.DataFrame({"n": [2**70, 1]}))


def test_append_when_days_come_as_midnights_then_they_are_dates_and_other_times_are_not(tmp_path: Path) -> None:
    log = InMemoryCommitLog(data_path=tmp_path)
    with log.transaction() as tx:
        tx.create_table("t", {"id": "int64", "day": "date"})
    log.append("t", pd.DataFrame({"id": [1, 2], "day": pd.to_datetime(["2026-03-01", None])}))
    assert log.table("t").scan().to_arrow()["day"].to_pylist() == [date(2026, 3, 1), None]
    with pytest.raises(DataFileError, match=r"column day \(date\): a time within a day is no date"):
        log.append("t", pd.DataFrame({"id": [3], "day": pd.to_datetime(["2026-03-01 12:00"])}))


@pytest.mark.parametrize(
    "day", [pd.Timestamp("2026-03-01"), datetime(2026, 3, 1), np.datetime64("2026-03-01", "ns"), date(2026, 3, 1)]
)
def test_keyed_rows_when_days_come_as_midnights_then_they_are_dates_and_other_times_are_not(
    tmp_path: Path, day: Any
) -> None:
    log = InMemoryCommitLog(data_path=tmp_path)
    with log.transaction() as tx:
        tx.create_table("t", {"day": "date", "v": "list(date)", "n": "int64"}, primary_key=["day"])
    table, row = log.table("t"), {"day": day, "v": [day]}
    table.insert({**row, "n": 1})
    table.upsert({**row, "n": 2})
    assert table.scan().to_arrow().to_pylist() == [{"day": date(2026, 3, 1), "v": [date(2026, 3, 1)], "n": 2}]
    table.delete_row({"day": day})
    assert table.scan().count() == 0
    for write in (table.insert, table.upsert):
        with pytest.raises((InvalidRequestError, ProposalRejectedError), match="is no date"):
            write({"day": datetime(2026, 3, 1, 12)})


_IN_LIST = pa.StructArray.from_arrays([pa.array([86_400 * 10**6], pa.time64("us"))], ["t"])


@pytest.mark.parametrize("keyed", [False, True], ids=["append", "insert"])
@pytest.mark.parametrize(
    ("kind", "at"),
    [
        ("time", pa.array([86_400], pa.time32("s"))),
        ("time", pa.array([86_400], pa.time32("s")).dictionary_encode()),
        ("time", pa.array([86_400 * 10**6], pa.time64("us"))),
        ("time", pa.array([-1], pa.time64("us"))),
        ("time", pa.array([1], pa.time64("ns"))),
        ("list(struct(t time))", pa.ListArray.from_arrays([0, 1], _IN_LIST)),
    ],
)
def test_rows_when_python_would_take_a_time_of_day_for_another_then_refused(
    tmp_path: Path, kind: str, at: pa.Array, keyed: bool
) -> None:
    log = InMemoryCommitLog(data_path=tmp_path)
    with log.transaction() as tx:
        tx.create_table("t", {"id": "int64", "at": kind}, primary_key=["id"] if keyed else [])
    write = log.table("t").insert if keyed else log.table("t").append
    with pytest.raises((DataFileError, ProposalRejectedError), match="column at"):
        write(pa.table({"id": [1], "at": at}))
    assert log.table("t").scan().count() == 0


def test_append_when_a_file_has_a_time_of_24_hours_then_it_has_no_bound_and_is_shown_as_a_text(tmp_path: Path) -> None:
    log = InMemoryCommitLog(data_path=tmp_path)
    with log.transaction() as tx:
        tx.create_table("t", {"at": "time"})
    pq.write_table(pa.table({"at": pa.array([60 * 10**6, 86_400 * 10**6], pa.time64("us"))}), tmp_path / "a.parquet")
    log.append("t", files=[tmp_path / "a.parquet"])
    appended = next(each for each in log.subscribe(follow=False) if each.snapshot_id == log.head_snapshot_id())
    [statistic] = decode_statistics(appended.proposal.changes[0].files[0].statistics)
    assert (statistic.min, statistic.max) == ("00:01:00", None)
    assert to_rows(log.table("t").scan().to_arrow()) == [{"at": time(0, 1)}, {"at": "24:00:00"}]


@pytest.mark.parametrize("keyed", [False, True], ids=["append", "insert"])
def test_rows_when_arrow_has_them_encoded_or_extended_then_they_are_the_columns(tmp_path: Path, keyed: bool) -> None:
    log = InMemoryCommitLog(data_path=tmp_path)
    runs = pa.RunEndEncodedArray.from_arrays([2], ["x"])
    rows = pa.table(
        {
            "id": [1, 2],
            "is_so": pa.ExtensionArray.from_storage(pa.bool8(), pa.array([2, 0], pa.int8())),
            "runs": runs,
            "listed": pa.ListArray.from_arrays([0, 1, 2], runs),
        }
    )
    with log.transaction() as tx:
        tx.create_table("t", rows.schema, primary_key=["id"] if keyed else [])
    assert [str(column.type) for column in log.table("t").definition.columns[1:]] == [
        "boolean",
        "varchar",
        "list(varchar)",
    ]
    (log.table("t").insert if keyed else log.table("t").append)(rows)
    expected = [
        {"id": 1, "is_so": True, "runs": "x", "listed": ["x"]},
        {"id": 2, "is_so": False, "runs": "x", "listed": ["x"]},
    ]
    assert log.table("t").scan().to_arrow().sort_by("id").to_pylist() == expected


TO_THE_NANOSECOND = pd.Timestamp("2026-01-01 00:00:00.123456789")


@pytest.mark.parametrize(
    "data",
    [
        [{"at": TO_THE_NANOSECOND}, {"at": None}],
        {"at": [TO_THE_NANOSECOND, None]},
        pd.DataFrame({"at": [TO_THE_NANOSECOND, None]}),
    ],
    ids=["rows", "columns", "frame"],
)
def test_append_when_times_have_nanoseconds_then_they_keep_them_or_are_refused(tmp_path: Path, data: Any) -> None:
    log = InMemoryCommitLog(data_path=tmp_path)
    with log.transaction() as tx:
        tx.create_table("t", {"at": "timestamp_ns"})
        tx.create_table("coarse", {"at": "timestamp"})
    log.append("t", data)
    log.append("created", data, create=True)
    for name in ("t", "created"):
        assert log.table(name).scan().to_arrow()["at"].to_pylist() == [TO_THE_NANOSECOND, None]
    with pytest.raises(DataFileError, match=r"column at .*would lose data"):
        log.append("coarse", data)


def test_append_when_a_text_of_json_is_no_utf_8_then_refused(tmp_path: Path) -> None:
    log = InMemoryCommitLog(data_path=tmp_path)
    with log.transaction() as tx:
        tx.create_table("t", {"told": "json"})
    torn = pa.array([b'"a\xc3("']).view(pa.string())
    with pytest.raises(DataFileError, match=r"column told \(string\): Invalid UTF8"):
        log.append("t", pa.table({"told": torn}))


def test_append_when_times_of_two_kinds_have_no_type_in_common_then_says_so(tmp_path: Path) -> None:
    t = InMemoryCommitLog(data_path=tmp_path).table("t")
    with pytest.raises(DataFileError, match=r"column at: .*out of bounds for nanosecond resolution"):
        t.append([{"at": TO_THE_NANOSECOND}, {"at": datetime(3000, 1, 1)}], create=True)


DAY, NOON = date(2026, 1, 1), datetime(2026, 1, 1, 12)


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("date", [DAY, NOON]),
        ("list(date)", [[DAY, NOON], None]),
        ("struct(x date)", [{"x": DAY}, {"x": NOON}]),
        ("timestamp", [NOON, NOON.replace(tzinfo=UTC)]),
        ("timestamptz", [NOON.replace(tzinfo=UTC), None, NOON]),
        ("list(timestamptz)", [[NOON.replace(tzinfo=UTC), NOON]]),
        ("time", [time(1), time(1, tzinfo=timezone(timedelta(hours=2)))]),
    ],
    ids=str,
)
@pytest.mark.parametrize(
    "form",
    [lambda values: [{"at": each} for each in values], lambda values: pd.DataFrame({"at": values}, dtype=object)],
)
def test_append_when_arrow_would_take_a_time_for_another_then_refused(
    tmp_path: Path, column: str, values: list[Any], form: Callable[[list[Any]], Any]
) -> None:
    log = InMemoryCommitLog(data_path=tmp_path)
    with log.transaction() as tx:
        tx.create_table("t", {"at": column})
    for name, create in (("t", False), ("created", True)):
        with pytest.raises(DataFileError, match=r"column at: .*(is no date|zone).*: give the column's values one type"):
            log.append(name, form(values), create=create)


def test_append_when_arrow_would_take_a_time_in_a_map_for_another_then_refused(tmp_path: Path) -> None:
    log = InMemoryCommitLog(data_path=tmp_path)
    with log.transaction() as tx:
        tx.create_table("t", {"at": "map(varchar, date)"})
    with pytest.raises(DataFileError, match=r"column at: .* is no date"):
        log.append("t", {"at": [[("x", DAY)], None, [("x", NOON)]]})
    log.append("t", {"at": [[("x", DAY)], None]})
    assert log.table("t").scan().to_arrow()["at"].to_pylist() == [[("x", DAY)], None]


def test_append_when_times_are_of_several_classes_that_mean_the_same_then_they_are_taken(tmp_path: Path) -> None:
    log = InMemoryCommitLog(data_path=tmp_path)
    with log.transaction() as tx:
        tx.create_table("t", {"day": "date", "at": "timestamp"})
    log.append("t", [{"day": DAY, "at": NOON}, {"day": datetime(2026, 1, 1), "at": np.datetime64("2026-01-01T12:00")}])
    log.append(
        "t", [{"day": np.datetime64("2026-01-01"), "at": None}, {"day": np.datetime64("NaT", "D"), "at": pd.NaT}]
    )
    found = log.table("t").scan().to_arrow()
    assert found["day"].to_pylist() == [DAY, DAY, DAY, None]
    assert found["at"].to_pylist() == [NOON, NOON, None, None]


@pytest.mark.parametrize("missing", [math.nan, pd.NA, None])
@pytest.mark.parametrize(("column", "value"), [("list(timestamp)", [NOON]), ("struct(x timestamp)", {"x": NOON})])
def test_append_when_a_frame_lacks_nested_times_then_they_are_null(
    tmp_path: Path, column: str, value: Any, missing: Any
) -> None:
    log = InMemoryCommitLog(data_path=tmp_path)
    with log.transaction() as tx:
        tx.create_table("t", {"at": column})
    log.append("t", pd.DataFrame({"at": [value, missing]}))
    assert log.table("t").scan().to_arrow()["at"].to_pylist() == [value, None]


def test_append_when_an_index_has_days_and_times_then_refused(tmp_path: Path) -> None:
    frame = pd.DataFrame({"n": [1, 2]}, index=pd.Index([DAY, NOON], name="day", dtype=object))
    with pytest.raises(DataFileError, match=r"column day: .* is no date"):
        InMemoryCommitLog(data_path=tmp_path).append("t", frame, create=True)


@pytest.mark.parametrize(
    "values", [pd.period_range("2026-01", periods=2, freq="M"), pd.arrays.SparseArray([1, 0])], ids=["period", "sparse"]
)
def test_append_when_a_column_of_pandas_means_nothing_to_others_then_says_so(tmp_path: Path, values: Any) -> None:
    log = InMemoryCommitLog(data_path=tmp_path)
    with pytest.raises(DataFileError, match="column a"):
        log.append("t", pd.DataFrame({"a": values}), create=True)
    with log.transaction() as tx:
        tx.create_table("t", {"a": "int64"})
    with pytest.raises(DataFileError, match="column a"):
        log.append("t", pd.DataFrame({"a": values}))


def test_append_when_a_number_is_beyond_float32_then_refused_and_infinities_are_taken(tmp_path: Path) -> None:
    log = InMemoryCommitLog(data_path=tmp_path)
    with log.transaction() as tx:
        tx.create_table("t", {"f": "float32"})
    log.append("t", {"f": [math.inf, None, 0.5]})
    assert log.table("t").scan().to_arrow()["f"].to_pylist() == [math.inf, None, 0.5]
    with pytest.raises(DataFileError, match=r"column f \(float32\): the value 1e\+300 is out of range"):
        log.append("t", [{"f": -math.inf}, {"f": 1e300}])


def test_append_when_a_column_of_polars_holds_objects_then_refused(tmp_path: Path) -> None:
    t = InMemoryCommitLog(data_path=tmp_path).table("t")
    series = pl.Series([object()], dtype=pl.Object)
    with pytest.raises(DataFileError, match="that Arrow has no type for: a holds Python objects: leave it out"):
        t.append(pl.DataFrame({"a": series}), create=True)
    with pytest.raises(DataFileError, match="column a: Could not convert <object"):
        t.append({"a": series}, create=True)


def test_rows_when_they_have_what_is_missing_to_pandas_then_it_is_null(tmp_path: Path) -> None:
    log = InMemoryCommitLog(data_path=tmp_path)
    columns = {"id": "int64", "at": "timestamptz", "n": "int32", "f": "float64"}
    at = pd.Timestamp("2026-01-01", tz="UTC")
    rows = [
        {"id": 1, "at": pd.NaT, "n": pd.NA},
        {"id": 2, "at": at, "n": 2, "f": math.inf},
        {"id": 3, "at": None},
    ]
    with log.transaction() as tx:
        tx.create_table("plain", columns)
        tx.create_table("keyed", columns, primary_key=["id"])
    log.append("plain", rows)
    log.table("keyed").insert(rows)
    log.table("keyed").upsert(rows[0])
    for name in ("plain", "keyed"):
        assert sorted(tuple(row.values()) for row in log.table(name).scan().to_arrow().to_pylist()) == [
            (1, None, None, None),
            (2, at, 2, math.inf),
            (3, None, None, None),
        ]


def test_append_when_numbers_are_beyond_int64_then_as_the_column_takes_them(tmp_path: Path) -> None:
    log = InMemoryCommitLog(data_path=tmp_path)
    with log.transaction() as tx:
        tx.create_table("t", {"u": "uint64"})
        tx.create_table("keyed", {"id": "int128"}, primary_key=["id"])
    log.append("t", [{"u": 2**64 - 1}, {"u": None}, {"u": np.uint64(3)}])
    assert log.table("t").scan().to_arrow()["u"].to_pylist() == [2**64 - 1, None, 3]
    log.table("keyed").insert({"id": [2**100]})
    assert log.table("keyed").scan().to_arrow()["id"].to_pylist() == [2**100]
    for number, create in ((2**64, False), (2**63, True)):
        with pytest.raises(DataFileError, match=r"out of range: it needs a column such as uint64"):
            log.append(f"t{create or ''}", {"u": [number]}, create=create)
    with pytest.raises(DataFileError, match=r"column u \(uint64\)"):
        log.append("t", {"u": [2**64 - 1, 1.5]})


@pytest.mark.parametrize("kind", [pa.list_view, pa.large_list_view])
def test_append_when_lists_come_as_views_then_they_are_lists(tmp_path: Path, kind: Any) -> None:
    t = InMemoryCommitLog(data_path=tmp_path).table("t")
    values = [[{"a": 1, "b": "x"}], None, [], [{"a": 2, "b": None}, {"a": 3, "b": "y"}]]
    inner = pa.struct([("b", pa.string()), ("a", pa.int32())])
    t.append(pa.table({"l": pa.array([[], *values], kind(inner)).slice(1)}), create=True)
    assert t.scan().to_arrow()["l"].to_pylist() == values


def test_append_when_lists_are_of_one_size_then_what_is_in_them_is_found_and_checked(tmp_path: Path) -> None:
    log = InMemoryCommitLog(data_path=tmp_path)
    with log.transaction() as tx:
        tx.create_table("t", {"texts": "list(json)", "structs": "list(struct(a int32, b int32))"})
        tx.create_table("long", {"l": "list(int8)"})
    texts, structs = pa.list_(pa.string(), 2), pa.list_(pa.struct([("b", pa.int32()), ("A", pa.int32())]), 1)
    rows = {
        "texts": pa.array([["x", "x"], ["1", None], None], texts).slice(1),
        "structs": pa.array([None, [{"A": 1, "b": 2}], [None]], structs).slice(1),
    }
    log.append("t", rows)
    assert log.table("t").scan().to_arrow().to_pydict() == {
        "texts": [["1", None], None],
        "structs": [[{"a": 1, "b": 2}], [None]],
    }
    with pytest.raises(DataFileError, match=r"column texts \(list\(json\)\): the value '\{bad' is no JSON text"):
        log.append("t", {"texts": pa.array([["1", "{bad"]], texts)})
    with pytest.raises(DataFileError, match="not in range"):
        log.append("long", {"l": pa.FixedSizeListArray.from_arrays(np.zeros(2**31, np.int8), 2**30)})


def test_append_when_a_frame_has_categories_then_they_are_texts(tmp_path: Path) -> None:
    kinds = pl.Series(["a", None, "b"], dtype=pl.Enum(["a", "b"]))
    t = InMemoryCommitLog(data_path=tmp_path).table("t")
    t.append(pl.DataFrame({"e": kinds, "c": kinds.cast(pl.Categorical)}), create=True)
    t.append(pd.DataFrame({"e": pd.Categorical(["a", None, "b"])}))
    found = t.scan().to_arrow()
    assert found["e"].to_pylist() == ["a", None, "b"] * 2
    assert found["c"].to_pylist() == ["a", None, "b"] + [None] * 3


def test_append_when_integers_go_into_decimals_then_those_that_have_room(tmp_path: Path) -> None:
    log = InMemoryCommitLog(data_path=tmp_path)
    with log.transaction() as tx:
        tx.create_table("t", {"id": "int64", "price": "decimal(6,2)"})
    log.append("t", [{"id": 1, "price": 9999}, {"id": 2, "price": None}, {"id": 3, "price": -2}])
    assert log.table("t").scan().to_arrow()["price"].to_pylist() == [Decimal("9999.00"), None, Decimal("-2.00")]
    with pytest.raises(DataFileError, match=r"column price \(decimal\(6,2\)\): .*does not fit in precision 6"):
        log.append("t", [{"id": 4, "price": 10_000}])


def test_rows_when_they_have_no_type_or_are_one_column_then_says_which_and_what_to_call(tmp_path: Path) -> None:
    with pytest.raises(DataFileError, match=r"column note with type object: Could not convert 'a' with type str"):
        rows_of(pd.DataFrame({"id": [1, 2], "note": [1, "a"]}))
    with pytest.raises(InvalidRequestError, match=r"not a single column, Series \(\.to_frame\(\) makes rows"):
        rows_of(pl.Series("id", [1]))
    with pytest.raises(DataFileError, match=r"a column that Arrow has no type for: .*i128.*: cast it"):
        rows_of(pl.DataFrame({"id": pl.Series([1], dtype=pl.Int128)}))
    t = InMemoryCommitLog(data_path=tmp_path).table("t")
    with pytest.raises(DataFileError, match="the frame has more than one column id: call"):
        rows_of(pd.concat([FRAME, FRAME[["id"]]], axis="columns"))
    with pytest.raises(InvalidRequestError, match="not None"):
        rows_of([None])
    t.append(FRAME, create=True)
    assert t.append([]) is None
    assert t.append(row for row in ()) is None
    with pytest.raises(InvalidChangeError, match="needs at least one column"):
        InMemoryCommitLog(data_path=tmp_path).table("t").append([], create=True)


def test_upsert_when_a_key_is_of_another_type_then_says_which(tmp_path: Path) -> None:
    log = InMemoryCommitLog(data_path=tmp_path)
    with log.transaction() as tx:
        tx.create_table("t", {"id": "int64"}, primary_key=["id"])
    with pytest.raises(InvalidRequestError, match=r"column id \(int64\): the value 'x' is no integer"):
        log.table("t").upsert({"id": "x"})


def test_upsert_when_a_row_gives_a_column_twice_or_one_without_a_name_then_refused(tmp_path: Path) -> None:
    log = InMemoryCommitLog(data_path=tmp_path)
    with log.transaction() as tx:
        tx.create_table("t", {"id": "int64"}, primary_key=["id"])
    with pytest.raises(InvalidRequestError, match="a row gives a column twice: id, ID"):
        log.table("t").upsert({"id": 1, "ID": 2})
    with pytest.raises(InvalidRequestError, match="the name of a column must be a text, not 1"):
        log.table("t").upsert([{1: 1}])


def test_name_when_it_is_that_of_another_library_then_says_what_does_it(tmp_path: Path) -> None:
    t: Any = InMemoryCommitLog(data_path=tmp_path).table("t")
    t.append(FRAME, create=True)
    with pytest.raises(
        AttributeError, match=r"'Table' object has no attribute 'to_pandas': scan\(\)\.to_pandas\(\) does"
    ):
        t.to_pandas()
    with pytest.raises(AttributeError, match=r"'Scan' object has no attribute 'head': to_batches\(\)"):
        t.scan().head()
    with pytest.raises(AttributeError, match=r"no attribute 'apend'$"):
        t.apend(FRAME)
    for given, known in ((t, OF_TABLES), (t.scan(), OF_SCANS)):
        assert not {*known} & {*dir(given)}


def test_partition_key_when_it_is_no_transform_then_says_which_there_are(tmp_path: Path) -> None:
    t = InMemoryCommitLog(data_path=tmp_path).table("t")
    for key in ("bukket(3, id)", "bucket(id, 16)", "month()"):
        with pytest.raises(InvalidRequestError, match=r"is no partition key: write a column's name, year\(c\)"):
            t.append(FRAME, create=True, partition_by=[key])
    odd = FRAME.rename(columns={"n": "f(x)"})
    t.append(odd, create=True, partition_by=[PartitionSpec("f(x)")])
    assert len(t.files()) == len(FRAME)


@pytest.mark.parametrize(
    ("column", "value", "why"),
    [
        ("varchar", math.nan, "give None for what is missing"),
        ("varchar", np.float32("inf"), "give None for what is missing"),
        ("blob", math.nan, "give None for what is missing"),
        ("int64", math.nan, "give None for what is missing"),
        ("timestamp", np.float64("nan"), "give None for what is missing"),
        ("list(int64)", [1, math.nan], "give None for what is missing"),
        ("list(varchar)", ["a", math.nan], "give None for what is missing"),
        ("list(varchar)", {math.nan}, "give None for what is missing"),
        ("list(varchar)", np.array([1, math.nan]), "give None for what is missing"),
        ("list(timestamptz)", np.array(["2026-01-01"], "datetime64[us]"), "give it a tzinfo"),
        ("varchar", b"x", "decode them"),
        ("struct(x varchar)", {"x": b"x"}, "decode them"),
        ("timestamptz", datetime(2026, 1, 1), "give it a tzinfo"),
        ("map(varchar, timestamptz)", {"x": datetime(2026, 1, 1)}, "give it a tzinfo"),
        ("float64", 2**53 + 1, "is no number that a float64 holds"),
        ("float64", np.int64(2**53 + 1), "is no number that a float64 holds"),
        ("list(float64)", np.array([2**53 + 1]), "is no number that a float64 holds"),
        ("float64", 10**400, "is no number that a float64 holds"),
        ("float32", np.int64(2**24 + 1), "is no number that a float32 holds"),
        ("list(float64)", [0, -(2**53) - 1], "is no number that a float64 holds"),
        ("map(float64, float64)", {2**53 + 1: 1.0}, "is no number that a float64 holds"),
    ],
)
def test_insert_when_a_row_would_keep_a_value_as_something_else_then_refused(
    tmp_path: Path, column: str, value: Any, why: str
) -> None:
    log = InMemoryCommitLog(data_path=tmp_path)
    with log.transaction() as tx:
        tx.create_table("t", {"id": "int64", "v": column}, primary_key=["id"])
    for write in (log.table("t").insert, log.table("t").upsert):
        with pytest.raises(InvalidRequestError, match=rf"column v of table main\.t is a {re.escape(column)}, .*{why}"):
            write({"id": 1, "v": value})


def test_insert_when_a_table_is_known_then_its_types_are_asked_of_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = InMemoryCommitLog(data_path=tmp_path)
    with log.transaction() as tx:
        tx.create_table("t", {"id": "int64", "at": "timestamp"}, primary_key=["id"])
    row = {"id": 2**53 + 1, "at": datetime(2026, 1, 1)}
    known = log.table("t").at()
    with monkeypatch.context() as patched:
        patched.setattr(log, "known_table", lambda *_: known)
        patched.setattr(log, "table_at", lambda *_: pytest.fail("the catalog was asked"))
        log.table("t").insert(row)
    assert log.table("t").scan().to_arrow().to_pylist() == [row]


def test_insert_when_bytes_and_numbers_are_what_the_column_has_then_they_are_taken(tmp_path: Path) -> None:
    log = InMemoryCommitLog(data_path=tmp_path)
    with log.transaction() as tx:
        tx.create_table("t", {"id": "int64", "b": "blob", "f": "float32", "at": "timestamp_ms"}, primary_key=["id"])
    row = {"id": 2**53 + 1, "b": b"x\x00", "f": math.inf, "at": datetime(2026, 1, 1, 0, 0, 0, 5000)}
    log.table("t").insert(row)
    assert log.table("t").scan().to_arrow().to_pylist() == [row]


def test_rows_with_zones_when_they_are_written_again_then_keep_them(tmp_path: Path) -> None:
    log = InMemoryCommitLog(data_path=tmp_path)
    with log.transaction() as tx:
        tx.create_table("t", {"id": "int64", "n": "int64", "at": "timetz"}, primary_key=["id"])
    t, at = log.table("t"), time(1, tzinfo=timezone(timedelta(hours=2)))
    inserted = t.insert([{"id": 1, "n": 1, "at": at}, {"id": 2, "n": 1}])
    t.upsert([{"id": 1, "n": 2, "at": at}, {"id": 2, "n": 2}])
    t.upsert({"id": 1, "n": 3})
    assert written(log)[-1] == {"id": 1, "n": 3, "at": "01:00:00+02:00"}
    t.upsert({"id": 1, "at": time(1)})
    t.restore(inserted.snapshot_id)
    assert {"id": 1, "n": 1, "at": "01:00:00+02:00"} in written(log)


def test_delete_when_keys_have_zones_or_more_digits_than_arrow_then_the_right_rows_go(tmp_path: Path) -> None:
    log, large = InMemoryCommitLog(data_path=tmp_path), 2**128 - 1
    with log.transaction() as tx:
        tx.create_table("t", {"at": "timetz", "n": "uint128", "v": "int64"}, primary_key=["at", "n"])
    t = log.table("t")
    inserted = t.insert([{"at": at, "n": str(large), "v": v} for v, at in enumerate(("12:00:00", "12:00:00+02"))])
    t.delete("v = 1")
    [gone] = log.outcomes[-1].proposal.changes  # type: ignore[union-attr]
    assert isinstance(gone, m.DeleteRow)
    assert gone.key == {"at": "12:00:00+02:00", "n": str(large)}
    assert t.scan(columns=["v"]).to_arrow().to_pylist() == [{"v": 0}]
    t.restore(inserted.snapshot_id)
    assert t.scan(columns=["v"]).count() == 2
    t.upsert([{"at": "12:00:00+02", "n": str(large), "v": 3}, {"at": "12:00:00-02", "n": 1, "v": 4}])
    assert sorted(t.scan(columns=["v"]).to_arrow()["v"].to_pylist()) == [0, 3, 4]


def test_upsert_when_the_key_has_several_columns_then_rows_are_looked_for_by_all_that_a_filter_compares(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, asked = InMemoryCommitLog(data_path=tmp_path), []
    with log.transaction() as tx:
        tx.create_table("t", {"at": "timetz", "a": "int64", "b": "varchar", "v": "int64"}, primary_key=["at", "a", "b"])
    t, read = log.table("t"), MemoryContents.rows_at
    t.insert([{"at": "12:00:00+02", "a": a, "b": b, "v": 0} for a in (1, 2) for b in ("x", "y")])

    def rows_at(contents: MemoryContents, *of: Any, among: Any = None, limit: int | None = None) -> Any:
        asked.append(among)
        return read(contents, *of, among=among, limit=limit)

    monkeypatch.setattr(MemoryContents, "rows_at", rows_at)
    t.upsert([{"at": "12:00:00+02", "a": 1, "b": "y", "v": 1}, {"at": "12:00:00+02", "a": 2, "b": "x", "v": 2}])
    assert [list(each.values()) for each in asked] == [[[1, 2], [b"y", b"x"]]]
    assert t.scan(columns=["a", "b", "v"]).to_arrow().sort_by([("a", "ascending"), ("b", "ascending")]).to_pylist() == [
        {"a": 1, "b": "x", "v": 0},
        {"a": 1, "b": "y", "v": 1},
        {"a": 2, "b": "x", "v": 2},
        {"a": 2, "b": "y", "v": 0},
    ]


def test_scan_when_a_file_has_numbers_that_arrow_does_not_hold_then_says_so(tmp_path: Path) -> None:
    log = InMemoryCommitLog(data_path=tmp_path)
    with log.transaction() as tx:
        tx.create_table("t", {"n": "float64"})
    log.table("t").append({"n": [1e39]})
    [file], [column] = log.table("t").scan().files(), log.table("t").scan().definition.columns
    reader = FileReader([column.replace(type=parse_type("int128"))], ())
    with pytest.raises(DataFileError, match="cannot be read as the table's columns"):
        list(reader.tables([rows_left(file)]))


def written(log: InMemoryCommitLog) -> list[m.Row]:
    """The rows that the last commit wrote."""
    proposal = log.outcomes[-1].proposal
    assert proposal is not None
    return [each.row for each in proposal.changes if isinstance(each, m.InsertRow | m.UpdateRow)]


# --- nested values -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "given", "read"),
    [
        ("map(varchar, int64)", {"k": 1}, [("k", 1)]),
        ("map(varchar, int64)", [("k", 1), ["l", None]], [("k", 1), ("l", None)]),
        ("map(varchar, int64)", {}, []),
        ("map(varchar, int64)", [], []),
        ("map(int32, float32)", {1: 0.5}, [(1, 0.5)]),
        ("map(date, decimal(10,2))", {date(2020, 1, 1): Decimal("1.5")}, [(date(2020, 1, 1), Decimal("1.50"))]),
        ("map(varchar, struct(a int64))", {"k": {"a": 1}, "l": {}}, [("k", {"a": 1}), ("l", {"a": None})]),
        ("list(map(varchar, int64))", [{"k": 1}, None, {}], [[("k", 1)], None, []]),
        ("struct(a int64, m map(varchar, int64))", {"m": {"k": 1}}, {"a": None, "m": [("k", 1)]}),
        ("struct(a int64, m map(varchar, int64))", {}, {"a": None, "m": None}),
        ("list(float32)", [0.5, None], [0.5, None]),
        ("list(float32)", np.array([0.5, 1]), [0.5, 1.0]),
        ("list(uint64)", (1, 2**63), [1, 2**63]),
        ("list(list(int64))", np.array([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
        ("struct(a float32)", {"A": 0.5}, {"a": 0.5}),
        ("map(varchar, int64)", pa.scalar([("k", 1)], pa.map_(pa.string(), pa.int64())), [("k", 1)]),
    ],
)
def test_append_when_a_column_is_nested_then_takes_what_python_has_for_it(
    tmp_path: Path, kind: str, given: Any, read: Any
) -> None:
    log = InMemoryCommitLog(data_path=tmp_path)
    with log.transaction() as tx:
        tx.create_table("t", {"id": "int64", "m": kind})
    log.append("t", [{"id": 1, "m": given}, {"id": 2, "m": None}, {"id": 3}])
    log.append("t", [{"id": 4, "m": None}])
    assert sorted(log.table("t").scan().to_arrow()["m"].to_pylist(), key=lambda each: each is None) == [
        read,
        *[None] * 3,
    ]


@pytest.mark.parametrize(
    ("kind", "given", "why"),
    [
        ("map(varchar, int64)", {"k": 1.5}, "expected int64, found double"),
        ("map(varchar, int64)", [("k", 1.5)], "expected int64, found double"),
        ("map(varchar, int8)", {"k": 1000}, "not in range"),
        ("map(varchar, int64)", {1: 1}, "expected varchar, found int64"),
        ("map(varchar, date)", {"k": datetime(2020, 1, 1, 5)}, "no date"),
        ("map(varchar, int64)", [(None, 1)], "a map has a key that is missing"),
        ("map(varchar, int64)", [("k",)], "is no map: give a dict"),
        ("map(varchar, int64)", "k", "is no map: give a dict"),
        ("list(map(varchar, int64))", {"k": 1}, "is no list"),
        ("struct(m map(varchar, int64))", [1], "is no struct: give a dict"),
        ("struct(m map(varchar, int64))", {"z": 1}, "field z is not in struct"),
        ("list(int64)", [1.5, Decimal(2)], "tried to convert to double"),
        ("list(uint64)", [2**63, 1.5], "too large"),
        ("struct(a int64)", {"a": 1.5}, "expected int64, found double"),
        ("list(struct(a int64))", [{"a": 1.5}, {"a": Decimal(1)}], "tried to convert to double"),
        ("list(varchar)", "abc", "is no list"),
        ("list(int64)", iter([1]), "is no list"),
        ("list(int64)", np.array(1), "is no list"),
        ("map(varchar, int64)", iter([("k", 1)]), "is no map: give a dict"),
        ("struct(a int64)", {1: 1}, "the name of a field must be a text, not 1"),
        ("struct(a int64)", {"a": 1, "A": 2}, "field a is there twice"),
    ],
)
def test_append_when_what_is_in_a_nested_column_does_not_fit_then_refused(
    tmp_path: Path, kind: str, given: Any, why: str
) -> None:
    log = InMemoryCommitLog(data_path=tmp_path)
    with log.transaction() as tx:
        tx.create_table("t", {"m": kind})
    with pytest.raises(DataFileError, match=why):
        log.append("t", [{"m": given}])


def test_rows_when_python_has_no_such_time_then_it_is_a_text() -> None:
    days = pa.array([2**31 - 1, -(2**31) + 1, 0, None], pa.int32()).cast(pa.date32())
    times = pa.array([2**63 - 1, -(2**63) + 1, 400_000 * 10**12, 0]).cast(pa.timestamp("us"))
    lists = pa.ListArray.from_arrays([0, 1, 2, 3, 4], times)
    maps = pa.MapArray.from_arrays([0, 1, 2, 3, 4], pa.array(["k"] * 4), days)
    nested = pa.StructArray.from_arrays([lists, maps], ["l", "m"])
    shown = to_rows(pa.table({"d": days, "t": times, "n": nested}))
    assert [row["d"] for row in shown] == ["infinity", "-infinity", date(1970, 1, 1), None]
    assert [row["t"] for row in shown] == ["infinity", "-infinity", "14645-06-30 15:06:40.000000", datetime(1970, 1, 1)]
    assert shown[1]["n"] == {"l": ["-infinity"], "m": [("k", "-infinity")]}
    twice = pa.StructArray.from_arrays([lists, lists], ["l", "l"])
    for columns in ({"n": twice}, {"d": days, "n": twice}):
        with pytest.raises(ValueError, match="duplicate field names"):
            to_rows(pa.table(columns))


def test_count_when_rows_are_in_files_and_in_none_then_the_catalog_is_asked_before_files_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = InMemoryCommitLog(data_path=tmp_path)
    log.append("t", [{"id": 1}, {"id": 2}], create=True)
    scan, asked = log.table("t").scan(where="id > 1"), []
    for where, name in ((MemoryContents, "rows_at"), (FileReader, "count")):
        original = getattr(where, name)
        monkeypatch.setattr(where, name, lambda *a, o=original, n=name, **k: (asked.append(n), o(*a, **k))[1])
    assert (scan.count(), asked) == (1, ["rows_at", "count"])
