"""Rows as programs have them, appended by `log.append`, `log.table(...).append` and `tx.append`."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import json

from commitlog.client import CommitLog
from commitlog.client.files.data_files import read_data_file
from commitlog.client.writing import table_writer
from commitlog.domain.model import Append, DataFile, Proposal
from commitlog.errors import (
    DataFileError,
    InvalidRequestError,
    KeyReusedError,
    ProposalRejectedError,
    TableNotFoundError,
)
from commitlog.log.codec import decode_statistics
from commitlog.testing import InMemoryCommitLog

WIDE = pa.table({"n": [2**40]})
ROWS = pa.table({"id": [1, 2, 3], "v": ["a", "b", None]})
PLAIN = ROWS.to_pylist()


def folder_of(log: CommitLog, table: str) -> Path:
    path = log.table(table).at().path
    assert path is not None
    return Path(path)


def rows_in(log: CommitLog, table: str) -> list[dict[str, Any]]:
    """What the files below a table's folder hold, in the order of their ids."""
    files = sorted(folder_of(log, table).rglob("*.parquet"))
    rows = [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]
    return sorted(rows, key=lambda row: row["id"])


def appended_by(log: CommitLog, snapshot_id: int | None) -> tuple[DataFile, ...]:
    """The files of a commit."""
    outcome = next(each for each in log.subscribe(follow=False) if each.snapshot_id == snapshot_id)
    assert isinstance(outcome.proposal, Proposal)
    files = [file for change in outcome.proposal.changes if isinstance(change, Append) for file in change.files]
    return tuple(file.replace(statistics=decode_statistics(file.statistics)) for file in files)


@pytest.mark.parametrize(
    "data",
    [
        ROWS,
        ROWS.to_batches()[0],
        ROWS.select(["v", "id"]),
        ROWS.to_batches(max_chunksize=2),
        PLAIN,
        ROWS.to_pydict(),
        {"id": ROWS["id"], "v": pl.Series(["a", "b", None])},
        pl.from_arrow(ROWS),
        ROWS.to_pandas(),
        pa.table({"ID": pa.array([1, 2, 3], pa.int16()), "V": ROWS["v"].cast(pa.large_string()).dictionary_encode()}),
    ],
    ids=lambda data: type(data).__name__,
)
def test_append_when_rows_come_in_a_form_that_programs_have_then_they_are_in_a_file(
    log: CommitLog, table: str, data: Any
) -> None:
    with log.transaction() as tx:
        tx.create_table(table, ROWS.schema)
    outcome = log.append(table, data)
    assert outcome is not None
    assert rows_in(log, table) == PLAIN
    [file] = appended_by(log, outcome.snapshot_id)
    assert file.record_count == 3
    assert file == read_data_file(
        folder_of(log, table) / file.path, log.table(table).definition, table_path=log.table(table).at().path
    )


@pytest.mark.parametrize(("row_count", "is_small"), [(100, True), (100_000, False)])
def test_append_when_rows_are_few_or_many_then_told_as_the_file_is_read_and_dictionaries_are_for_many(
    log: CommitLog, table: str, row_count: int, is_small: bool
) -> None:
    rows = pa.table({"id": pa.array(range(row_count), pa.int64()), "v": ["a", "b"] * (row_count // 2)})
    outcome = log.append(table, rows, create=True)
    assert outcome is not None
    [file] = appended_by(log, outcome.snapshot_id)
    path = folder_of(log, table) / file.path
    assert file == read_data_file(path, log.table(table).definition, table_path=log.table(table).at().path)
    metadata = pq.read_metadata(path)
    assert metadata.row_group(0).column(1).has_dictionary_page is not is_small
    assert log.table(table).scan().to_arrow().sort_by("id").equals(rows)


def test_append_when_a_column_has_ids_then_its_files_say_arrows_schema_and_others_need_none(
    log: CommitLog, table: str
) -> None:
    log.append(table, ROWS, create=True)
    with log.transaction() as tx:
        tx.create_table(f"{table}_ids", {"id": "uuid"})
    log.append(f"{table}_ids", [{"id": UUID(int=7)}])
    for name, is_there in ((table, False), (f"{table}_ids", True)):
        [path] = folder_of(log, name).glob("*.parquet")
        assert (b"ARROW:schema" in (pq.read_metadata(path).metadata or {})) is is_there
    assert rows_in(log, f"{table}_ids") == [{"id": UUID(int=7)}]


def test_append_when_the_table_is_not_there_then_created_if_asked_for(log: CommitLog, table: str) -> None:
    with pytest.raises(TableNotFoundError, match="create=True"):
        log.table(table).append(ROWS)
    first = log.table(table).append(ROWS, create=True)
    again = log.table(table).append(PLAIN, create=True)
    assert first is not None
    assert again is not None
    assert [str(column.type) for column in log.table(table).definition.columns] == ["int64", "varchar"]
    assert rows_in(log, table) == sorted(PLAIN * 2, key=lambda row: row["id"])


@pytest.mark.parametrize("name", ["{} x", "é_{}", "../../{}"])
def test_append_when_the_folder_of_a_new_table_is_not_known_then_after_a_commit_of_its_own(
    log: CommitLog, table: str, name: str
) -> None:
    odd = f'main."{name.format(table)}"'
    with pytest.raises(DataFileError, match=r"is not known yet: create it, and its schema, by a commit of their own"):
        log.append(odd, PLAIN, create=True)
    with log.transaction() as tx:
        tx.create_table(odd, ROWS.schema)
        with pytest.raises(DataFileError, match="is not known yet"):
            tx.append(odd, PLAIN)
    log.append(odd, PLAIN)
    assert rows_in(log, odd) == PLAIN
    assert folder_of(log, odd).resolve().parent == folder_of(log, odd).parent.resolve()
    assert folder_of(log, odd).parent.name == "main"


def test_append_when_its_schema_is_created_with_the_table_then_says_that_the_folder_is_not_known(
    log: CommitLog, table: str
) -> None:
    with log.transaction() as tx:
        tx.create_schema(table)
        tx.create_table(f"{table}.t", ROWS.schema)
        with pytest.raises(DataFileError, match="is not known yet"):
            tx.append(f"{table}.t", PLAIN)
    log.append(f"{table}.t", PLAIN)
    assert rows_in(log, f"{table}.t") == PLAIN
    assert folder_of(log, f"{table}.t").parent.name == table


def test_append_when_a_reader_gives_batches_then_they_stream_into_one_file(log: CommitLog, table: str) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        for start in range(0, 1000, 10):
            yield pa.record_batch({"id": list(range(start, start + 10))})

    log.append(table, pa.RecordBatchReader.from_batches(pa.schema([("id", pa.int64())]), batches()), create=True)
    outcome = log.append(table, batches())
    assert outcome is not None
    [file] = appended_by(log, outcome.snapshot_id)
    assert file.record_count == 1000
    assert pq.ParquetFile(folder_of(log, table) / file.path).num_row_groups == 1


def test_append_when_there_are_no_rows_then_nothing_is_committed(log: CommitLog, table: str) -> None:
    empty = ROWS.schema.empty_table()
    assert log.append(table, empty, create=True) is not None
    head = log.head_snapshot_id()
    assert log.append(table, empty) is None
    assert log.head_snapshot_id() == head
    assert rows_in(log, table) == []


def test_rows_when_none_has_a_column_then_they_are_refused_and_nothing_goes(log: CommitLog, table: str) -> None:
    log.append(table, ROWS, create=True)
    for write in (
        lambda: log.append(table, [{}, {}]),
        lambda: log.table(table).overwrite([{}], where=True),
    ):
        with pytest.raises(InvalidRequestError, match="the rows have no columns"):
            write()
    assert log.append(table, [{"id": 4}, {}]) is not None
    assert log.table(table).scan().count() == 5


def test_append_when_the_table_is_partitioned_then_a_file_for_each_partition(log: CommitLog, table: str) -> None:
    days = [date(2026, 3, 1), date(2026, 3, 2), None, date(2026, 3, 1)]
    rows = pa.table({"id": [1, 2, 3, 4], "day": days, "zone": ["a b", "a b", "a b", "x"]})
    outcome = log.append(table, rows, create=True, partition_by=["day", "zone", "bucket(4, id)"])
    assert outcome is not None
    files = appended_by(log, outcome.snapshot_id)
    assert sorted((str(file.partition_values[0]), file.partition_values[1]) for file in files) == [
        ("2026-03-01", "a b"), ("2026-03-01", "x"), ("2026-03-02", "a b"), ("None", "a b"),
    ]  # fmt: skip
    assert all(isinstance(file.partition_values[2], int) for file in files)
    assert len(rows_in(log, table)) == 4


@pytest.mark.parametrize("given", ["2024-01-01T10:00:00", "2024-01-01 10:00", "2024-01-01 10:00:00.000"])
def test_append_when_a_files_partition_is_told_in_another_form_then_its_rows_are_found(
    log: CommitLog, table: str, given: str
) -> None:
    with log.transaction() as tx:
        tx.create_table(table, {"ts": "timestamp"}, partition_by=["ts"])
    now = log.table(table).at()
    path = folder_of(log, table) / "given.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"ts": pa.array([datetime(2024, 1, 1, 10)], pa.timestamp("us"))}), path)
    with log.transaction() as tx:
        tx.append(table, [read_data_file(path, now.definition, table_path=now.path, partition_values=[given])])
    log.wait_for_snapshot()
    assert [file.partition_values for file in log.table(table).files()] == [("2024-01-01 10:00:00",)]
    assert log.table(table).scan(where="ts = '2024-01-01 10:00:00'").count() == 1


def test_append_when_a_partition_has_no_name_for_a_folder_then_its_files_are_below_the_tables(
    log: CommitLog, table: str
) -> None:
    zones = ["../../../../x", "a/b", "n", "%2e"]
    outcome = log.append(table, {"id": [1, 2, 3, 4], "zone": zones}, create=True, partition_by=["zone"])
    assert outcome is not None
    files = appended_by(log, outcome.snapshot_id)
    assert sorted(file.partition_values[0] for file in files) == sorted(zones)
    assert len({file.path.count("/") for file in files}) == 1
    assert not any(".." in file.path for file in files)


def test_append_when_one_of_the_partition_keys_is_not_computed_then_no_value_is_told(
    log: CommitLog, table: str
) -> None:
    rows = {"id": [1, 2, 3], "f": [0.5, 0.5, 1.5], "zone": ["a", "b", "b"]}
    outcome = log.append(table, rows, create=True, partition_by=["f", "zone"])
    assert outcome is not None
    assert [(each.record_count, each.partition_values) for each in appended_by(log, outcome.snapshot_id)] == [
        (1, None),
        (2, None),
    ]
    assert log.table(table).scan(where="zone = 'b' and f > 1").count() == 1


def test_append_when_partition_keys_have_more_values_together_than_a_number_holds_then_each_row_is_in_its_own(
    log: CommitLog, table: str
) -> None:
    columns = {f"k{key}": [(each * 37 + key * 11) % 100 for each in range(100)] for key in range(11)}
    log.append(table, pa.table(columns), create=True, partition_by=list(columns))
    log.wait_for_snapshot()
    handle = log.table(table)
    for file in handle.files():
        (row,) = pq.read_table(file.path, partitioning=None).to_pylist()
        assert file.partition_values == tuple(str(each) for each in row.values())
    assert len(handle.files()) == 100
    assert handle.scan(where="k7 = 42 and k0 >= 0").count() == 1


def test_append_when_each_batch_has_rows_of_many_partitions_then_a_file_for_each_partition(
    log: CommitLog, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_writer, "WAITING_BYTES", 4 * 2**20)
    monkeypatch.setattr(table_writer, "OPEN_FILES", 20)
    schema = pa.schema([("p", pa.int32()), ("x", pa.int64())])
    columns = {"p": [each % 50 for each in range(10_000)], "x": range(10_000)}
    batches = (pa.record_batch(columns, schema) for _ in range(10))
    log.append(table, pa.RecordBatchReader.from_batches(schema, batches), create=True, partition_by=["p"])
    log.wait_for_snapshot()
    assert [each.record_count for each in log.table(table).files()] == [2_000] * 50


@pytest.mark.parametrize(
    ("data_type", "values", "told"),
    [
        ("uuid", [UUID(int=7), None, UUID(int=8), UUID(int=7)], [str(UUID(int=7)), str(UUID(int=8)), None]),
        ("uint64", pa.array([2**63, 2**64 - 1, None, 1], pa.uint64()), [1, str(2**64 - 1), str(2**63), None]),
        ("boolean", [True, None, False, True], [False, None, True]),
        ("date", [date(1, 1, 1), None, date(2026, 1, 2), date(1, 1, 1)], ["0001-01-01", "2026-01-02", None]),
        ("decimal(9,2)", [Decimal("1.50"), None, Decimal("-0.01"), Decimal("1.50")], ["-0.01", "1.5", None]),
    ],
)
def test_append_when_partitioned_by_any_type_then_a_file_for_each_partition(
    log: CommitLog, table: str, data_type: str, values: Any, told: list[Any]
) -> None:
    with log.transaction() as tx:
        tx.create_table(table, {"id": "int64", "p": data_type}, partition_by=["p"])
    outcome = log.append(table, {"id": [0, 1, 2, 3], "p": values})
    assert outcome is not None
    files = appended_by(log, outcome.snapshot_id)
    assert sorted((file.partition_values[0] for file in files), key=str) == told
    found = log.table(table).scan().to_arrow().sort_by("id")["p"].to_pylist()
    assert found == [str(each) if isinstance(each, UUID) else each for each in pa.array(values).to_pylist()]


@pytest.mark.parametrize(
    ("kind", "far"),
    [(pa.date32(), 10**7), (pa.date32(), 2**31 - 1), (pa.timestamp("us"), 2**62), (pa.date32(), -(10**6))],
)
def test_append_when_partitioned_by_times_of_years_that_python_does_not_know_then_they_are_there(
    log: CommitLog, table: str, kind: pa.DataType, far: int
) -> None:
    days = pa.array([far, 0, None, far], pa.int64() if pa.types.is_timestamp(kind) else pa.int32()).cast(kind)
    keys = ["p", "bucket(4, p)", "year(p)"]
    with log.transaction() as tx:
        tx.create_table(table, {"id": "int64", "p": kind}, partition_by=keys)
    outcome = log.append(table, pa.table({"id": [0, 1, 2, 3], "p": days}))
    assert outcome is not None
    told = {file.record_count: file.partition_values for file in appended_by(log, outcome.snapshot_id)}
    assert len(told) == 2
    assert told[2] is None, "the log is told of no such year"
    found = log.table(table).scan().to_arrow().sort_by("id")["p"]
    assert found.combine_chunks().equals(days)
    assert log.table(table).scan(where=[("p", ">" if far > 0 else "<", date(1970, 1, 1))]).count() == 2


@pytest.mark.parametrize("times", [1, 50])
def test_append_when_floats_hold_nan_then_the_log_is_told(log: CommitLog, table: str, times: int) -> None:
    outcome = log.append(table, {"id": [1.5, math.nan, None] * times, "w": [1.0, 2.0, 3.0] * times}, create=True)
    assert outcome is not None
    statistics = appended_by(log, outcome.snapshot_id)[0].statistics
    assert [(each.min, each.max, each.null_count, each.contains_nan) for each in statistics] == [
        (1.5, 1.5, times, True), (1.0, 3.0, 0, False),
    ]  # fmt: skip


def test_append_when_columns_are_missing_or_of_other_kinds_then_filled_and_cast(log: CommitLog, table: str) -> None:
    with log.transaction() as tx:
        tx.create_table(table, {"id": "int32", "f": "float32", "u": "uuid", "d": "date", "n": "int64"})
    key = UUID(int=7)
    log.append(table, [{"id": 1, "f": 0.1, "u": key, "d": date(2026, 1, 1)}, {"id": 2, "u": None}])
    log.append(table, pa.table({"id": pa.array([3], pa.int64()), "u": [str(key)]}))
    assert rows_in(log, table) == [
        {"id": 1, "f": pytest.approx(0.1), "u": key, "d": date(2026, 1, 1), "n": None},
        {"id": 2, "f": None, "u": None, "d": None, "n": None},
        {"id": 3, "f": None, "u": key, "d": None, "n": None},
    ]


@pytest.mark.parametrize(
    ("kind", "default", "value"),
    [
        ("blob", b"\x00a", b"\x00a"),
        ("uuid", "00000000-0000-0000-0000-00000000000a", "00000000-0000-0000-0000-00000000000a"),
        ("time", "01:02:03.5", time(1, 2, 3, 500_000)),
        ("uint64", 2**64 - 1, 2**64 - 1),
        ("float64", math.inf, math.inf),
        ("boolean", False, False),
        ("decimal(38,2)", "1.50", Decimal("1.50")),
        ("timestamp_ms", "2026-01-01 00:00:00.123", datetime(2026, 1, 1, 0, 0, 0, 123_000)),
    ],
)
def test_append_when_a_column_is_missing_then_rows_have_its_default_as_those_of_before(
    log: CommitLog, table: str, kind: str, default: object, value: object
) -> None:
    log.append(table, pa.table({"id": [1]}), create=True)
    with log.transaction() as tx:
        tx.alter(table).add_column("v", kind, default=default)
    log.append(table, pa.table({"id": [2]}))
    found = sorted(log.table(table).scan().to_arrow().to_pylist(), key=lambda row: row["id"])
    assert found == [{"id": 1, "v": value}, {"id": 2, "v": value}]


@pytest.mark.parametrize(
    ("column", "good", "bad", "message"),
    [
        ("json", ['{"a": [1]}', None], '{"a":', r"column v \(json\): the value '\{\"a\":' is no JSON text"),
        ("list(json)", [["1"], None], ["1", "x"], r"column v \(list\(json\)\): the value 'x' is no JSON text"),
        ("timestamp_s", [datetime(2026, 1, 1), None], datetime(2026, 1, 1, 0, 0, 0, 500_000), "would lose data"),
        ("struct(at timestamp_s)", [None], {"at": datetime(2026, 1, 1, 0, 0, 0, 1)}, "would lose data"),
    ],
)
def test_append_when_readers_would_not_agree_on_a_value_then_refused(
    log: CommitLog, table: str, column: str, good: list[Any], bad: Any, message: str
) -> None:
    with log.transaction() as tx:
        tx.create_table(table, {"v": column})
    assert log.append(table, [{"v": each} for each in good]) is not None
    assert log.table(table).scan().to_arrow()["v"].to_pylist() == good
    with pytest.raises(DataFileError, match=message):
        log.append(table, [{"v": each} for each in (*good, bad)])


@pytest.mark.parametrize(
    "form",
    [
        lambda rows: rows,
        lambda rows: rows.to_batches()[0],
        lambda rows: rows.to_reader(),
        lambda rows: iter(rows.to_batches()),
        lambda rows: {"v": rows["v"]},
    ],
    ids=["table", "batch", "reader", "batches", "columns"],
)
@pytest.mark.parametrize("nested", [False, True])
def test_append_when_arrow_has_a_text_that_is_no_utf_8_then_refused(
    log: CommitLog, table: str, form: Callable[[pa.Table], Any], nested: bool
) -> None:
    given = b'{"v": ["a", "caf\xe9", "z"]}\n' if nested else b'{"v": "a"}\n{"v": "caf\xe9"}\n{"v": "z"}\n'
    rows = json.read_json(io.BytesIO(given))
    before = log.head_snapshot_id()
    with pytest.raises(DataFileError, match=r"column v \(.*\): .*Invalid UTF8"):
        log.append(table, form(rows), create=True)
    assert log.head_snapshot_id() == before


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        ({"id": [1], "w": [2]}, DataFileError, r"column w not in the table \(it has id, v\)"),
        ({"id": ["x"]}, DataFileError, "column id: expected int64, found string"),
        ({"id": [1.5]}, DataFileError, "column id: expected int64, found double"),
        ({"v": ["x"]}, DataFileError, "column id is missing, expected int64"),
        ({"id": [None, 1]}, DataFileError, "column id of table .* may not be NULL, but is in 1 row"),
        ({"id": [2**63]}, DataFileError, r"column id \(int64\): .*"),
        ({"id": [1], "ID": [2]}, DataFileError, "column id is there twice"),
        ({"id": [1, "x"]}, DataFileError, r"column id \(int64\)"),
        ({"id": [1, 2], "v": ["x"]}, InvalidRequestError, "different numbers of values: id 2, v 1"),
        ({"id": 1}, InvalidRequestError, "rows are a list of dicts"),
        ([{"id": 1}, 2], InvalidRequestError, "a list of rows has dicts only, not 2"),
        ([[1, 2]], InvalidRequestError, "rows are an Arrow table, .*not \\[1, 2\\]"),
        (17, InvalidRequestError, "rows are an Arrow table, .*not 17"),
        ("rows.parquet", InvalidRequestError, "files is a list of paths"),
        (pl.LazyFrame({"id": [1]}), InvalidRequestError, "collect"),
        (None, InvalidRequestError, "give either rows"),
    ],
)
def test_append_when_rows_do_not_fit_then_says_what_and_leaves_nothing(
    log: CommitLog, table: str, data: Any, error: type[Exception], message: str
) -> None:
    with log.transaction() as tx:
        tx.create_table(table, pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.string())]))
    seq = log.last_seq()
    with pytest.raises(error, match=message):
        log.append(table, data)
    with pytest.raises(error, match=message), log.transaction() as tx:
        tx.append(table, data)
    assert log.last_seq() == seq
    assert not list(folder_of(log, table).rglob("*.parquet"))


def test_append_when_the_table_has_a_key_then_says_how_rows_come(log: CommitLog, table: str) -> None:
    with log.transaction() as tx:
        tx.create_table(table, {"id": "int64"}, primary_key=["id"])
    with pytest.raises(DataFileError, match="insert_row"):
        log.append(table, {"id": [1]})


def test_append_when_the_commit_is_refused_then_its_files_are_gone(log: CommitLog, table: str) -> None:
    log.append(table, ROWS, create=True)
    with pytest.raises(ProposalRejectedError):
        log.append(table, ROWS, decide_before_ms=1)
    late = log.transaction()
    late.append(table, ROWS)
    with log.transaction() as tx:
        tx.alter(table).add_column("w", "int64")
    with pytest.raises(ProposalRejectedError):
        late.commit()
    left = log.transaction()
    left.append(table, ROWS)
    left.__exit__(ZeroDivisionError, ZeroDivisionError(), None)
    assert rows_in(log, table) == PLAIN


def test_append_when_the_table_is_altered_meanwhile_then_a_stream_is_not_read_again(
    log: CommitLog, other: CommitLog, table: str
) -> None:
    log.append(table, ROWS, create=True)

    def batches() -> Iterator[pa.RecordBatch]:
        yield ROWS.to_batches()[0]
        with other.transaction() as tx:
            tx.alter(table).add_column("w", "int64")

    outcome = log.append(table, batches())
    assert outcome is not None
    [file] = appended_by(log, outcome.snapshot_id)
    assert file.record_count == 3
    assert len(rows_in(log, table)) == 6


def widened_meanwhile(log: CommitLog, other: CommitLog, table: str) -> None:
    """A table that one program appends to, and whose column another one widens then."""
    with log.transaction() as tx:
        tx.create_table(table, {"n": "int32"})
    log.append(table, [{"n": 1}])
    with other.transaction() as tx:
        tx.alter(table).set_type("n", "int64")


@pytest.mark.parametrize("rows", [[{"n": 2**40}], WIDE, WIDE.to_pandas()], ids=["plain", "arrow", "pandas"])
def test_append_when_another_program_has_widened_a_column_then_takes_what_fits_it_now(
    log: CommitLog, other: CommitLog, table: str, rows: Any
) -> None:
    widened_meanwhile(log, other, table)
    log.append(table, rows)
    assert sorted(log.table(table).scan().to_arrow()["n"].to_pylist()) == [1, 2**40]
    with pytest.raises(DataFileError, match="n"):
        log.append(table, [{"n": 2**70}])
    assert len(list(folder_of(log, table).rglob("*.parquet"))) == 2


def test_append_when_another_program_has_dropped_a_column_that_no_row_gives_then_rows_are_written_without_it(
    log: CommitLog, other: CommitLog, table: str
) -> None:
    log.append(table, ROWS, create=True)
    with other.transaction() as tx:
        tx.alter(table).add_column("w", "int64")
    log.wait_for_snapshot()
    assert log.append(table, ROWS).committed
    with other.transaction() as tx:
        tx.alter(table).drop_column("w")
    assert log.append(table, ROWS).committed
    assert log.append(table, PLAIN).committed
    assert log.table(table).scan().count() == 12
    assert len(list(folder_of(log, table).rglob("*.parquet"))) == 4


def test_append_when_a_stream_does_not_fit_what_another_program_has_altered_since_then_the_next_one_does(
    log: CommitLog, other: CommitLog, table: str
) -> None:
    widened_meanwhile(log, other, table)
    taken = 0
    for _ in range(2):
        # Who has not heard of it yet is refused once: a stream is not read again.
        with suppress(DataFileError):
            log.append(table, WIDE.to_reader())
            taken += 1
    assert taken > 0
    assert sorted(log.table(table).scan().to_arrow()["n"].to_pylist()) == [1] + [2**40] * taken


@pytest.mark.parametrize("columns", [{"id": "int64", "v": "varchar"}, {"v": "varchar", "id": "int64"}])
def test_append_when_the_table_is_created_meanwhile_then_its_columns_are_compared(
    log: CommitLog, other: CommitLog, table: str, columns: dict[str, str]
) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield ROWS.to_batches()[0]
        with other.transaction() as tx:
            tx.create_table(table, columns)

    if list(columns) == ROWS.column_names:
        log.append(table, batches(), create=True)
        assert rows_in(log, table) == PLAIN
        return
    with pytest.raises(DataFileError, match="created meanwhile"):
        log.append(table, batches(), create=True)
    assert not list(folder_of(log, table).rglob("*.parquet"))


def test_append_when_no_answer_comes_then_the_files_stay(tmp_path: Path) -> None:
    from commitlog.errors import OutcomeUnknownError

    with InMemoryCommitLog(data_path=tmp_path) as log:
        log.append("main.t", ROWS, create=True)
        log.lose_next_answer()
        with pytest.raises(OutcomeUnknownError):
            log.append("main.t", ROWS)
        assert len(list(tmp_path.rglob("*.parquet"))) == 2


def test_append_when_rows_are_repeated_by_number_then_only_the_first_files_stay(log: CommitLog, table: str) -> None:
    log.append(table, ROWS, create=True)
    first = log.append(table, ROWS, writer_id=f"{table}-w", writer_seq=1)
    again = log.append(table, ROWS, writer_id=f"{table}-w", writer_seq=1)
    assert first is not None
    assert again is not None
    assert (again.is_repeat, again.snapshot_id) == (True, first.snapshot_id)
    assert len(rows_in(log, table)) == 6


@pytest.mark.parametrize("key", ["load:1", "nightly:2026-03-02"])
def test_append_when_its_key_is_known_then_nothing_is_left_and_the_first_answers(
    log: CommitLog, other: CommitLog, table: str, key: str
) -> None:
    first = log.append(table, ROWS, create=True, key=key)
    assert first is not None
    log.wait_for_snapshot()
    folder = folder_of(log, table)
    with log.transaction() as tx:
        tx.alter(table).rename_column(ROWS.schema.names[-1], "renamed")
    again = other.append(table, pa.RecordBatchReader.from_batches(ROWS.schema, ROWS.to_batches()), create=True, key=key)
    with log.transaction() as tx:
        tx.alter(table).rename_column("renamed", ROWS.schema.names[-1])
    with pytest.raises(KeyReusedError, match=f"{2 * ROWS.num_rows} now"):
        other.append(table, pa.concat_tables([ROWS, ROWS]), key=key)
    assert len(list(folder.rglob("*.parquet"))) == 1
    assert again is not None
    assert (again.is_repeat, again.snapshot_id, again.proposal_id) == (True, first.snapshot_id, first.proposal_id)
    assert log.append(table, ROWS, key=f"{key}0") is not None
    assert len(rows_in(log, table)) == 6


def test_append_when_its_key_names_a_change_of_other_rows_then_it_is_refused_and_nothing_is_left(
    log: CommitLog, table: str
) -> None:
    log.append(table, {"id": [1, 2, 3]}, create=True)
    handle = log.table(table)
    assert handle.delete("id = 1", key="load:1") is not None
    assert handle.overwrite({"id": [2]}, "id = 2", key="load:2") is not None
    files = set(folder_of(log, table).rglob("*.parquet"))
    for key in ("load:1", "load:2"):
        with pytest.raises(KeyReusedError, match="only the first has delete"):
            handle.append({"id": [9]}, key=key)
    assert set(folder_of(log, table).rglob("*.parquet")) == files
    assert handle.scan(where="id = 9").count() == 0


@pytest.mark.parametrize("key", ["", " ", 7, "a\nb"])
def test_append_when_its_key_is_none_then_says_so(log: CommitLog, table: str, key: Any) -> None:
    with pytest.raises(InvalidRequestError, match="key"):
        log.append(table, ROWS, create=True, key=key)


def test_append_when_given_a_key_and_a_number_then_says_which_to_leave_out(log: CommitLog, table: str) -> None:
    with pytest.raises(InvalidRequestError, match="leave out writer_seq"):
        log.append(table, ROWS, create=True, key="load:1", writer_seq=1)
