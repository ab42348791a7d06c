"""What a Parquet footer says of a data file, and what does not fit a table."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from commitlog.client.files.data_files import read_data_file
from commitlog.client.files.file_columns import ROW_ID, ROW_ID_FIELD
from commitlog.client.files.footers import TAIL_BYTES
from commitlog.client.tables.arrow_types import columns_of
from commitlog.client.tables.overlay import altered_by, define_new
from commitlog.domain.model import (
    Alteration,
    AlterOp,
    ColumnSpec,
    ColumnStatistics,
    CreateTable,
    DataFile,
    MappedColumn,
    PartitionSpec,
)
from commitlog.domain.model.definitions import TableDefinition
from commitlog.errors import DataFileError


def table(*columns: ColumnSpec, partition_by: Iterable[PartitionSpec] = ()) -> TableDefinition:
    return define_new(CreateTable("main", "t", columns, partition_by=tuple(partition_by)))


def table_like(schema: pa.Schema, **options: Any) -> TableDefinition:
    return table(*columns_of(schema), **options)


def write(path: Path, data: pa.Table, **options: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(data, path, **options)
    return path


def described(directory: Path, data: pa.Table, definition: TableDefinition | None = None, **options: Any) -> DataFile:
    definition = definition or table_like(data.schema)
    return read_data_file(write(directory / "f.parquet", data, **options), definition, table_path=str(directory))


def statistics_of(directory: Path, values: pa.Array, **options: Any) -> ColumnStatistics:
    file = described(directory, pa.table({"c": values}), **options)
    assert isinstance(file.statistics, tuple)
    return file.statistics[0]


def with_id(name: str, kind: pa.DataType, field_id: int) -> pa.Field:
    return pa.field(name, kind, metadata={"PARQUET:field_id": str(field_id)})


# --- the file itself --------------------------------------------------------------------------------------------------


def test_read_data_file_when_it_fits_then_counts_and_sizes(tmp_path: Path) -> None:
    path = write(tmp_path / "t" / "p=1" / "f.parquet", pa.table({"c": [1, 2, 3]}))
    file = read_data_file(path, table(ColumnSpec("c", "int64")), table_path=f"{tmp_path}/t/")
    raw = path.read_bytes()
    assert (file.path, file.path_is_relative) == ("p=1/f.parquet", True)
    assert (file.record_count, file.file_size_bytes) == (3, len(raw))
    assert file.footer_size == int.from_bytes(raw[-8:-4], "little")


@pytest.mark.parametrize("table_path", [None, "elsewhere", "sibling"])
def test_read_data_file_when_outside_the_table_then_its_path_is_absolute(tmp_path: Path, table_path: str) -> None:
    path = write(tmp_path / "siblings" / "f.parquet", pa.table({"c": [1]}))
    file = read_data_file(path, table(ColumnSpec("c", "int64")), table_path=table_path and str(tmp_path / table_path))
    assert (file.path, file.path_is_relative) == (str(path), False)


def test_read_data_file_when_given_as_file_url_then_as_its_path(tmp_path: Path) -> None:
    path = write(tmp_path / "with space.parquet", pa.table({"c": [1]}))
    file = read_data_file(path.as_uri(), table(ColumnSpec("c", "int64")), table_path=tmp_path.as_uri())
    assert (file.path, file.path_is_relative) == ("with space.parquet", True)


def test_read_data_file_when_missing_then_names_it(tmp_path: Path) -> None:
    with pytest.raises(DataFileError, match=r"gone\.parquet does not exist"):
        read_data_file(tmp_path / "gone.parquet", table(ColumnSpec("c", "int64")), table_path=None)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "only 0 bytes"),
        (b"a,b\n1,2\n3,4\n5,6\n", "PAR1"),
        (b"PAR1" + b"\0" * 20 + b"PAR1", "not a readable"),
        (b"PARE" + b"\0" * 20 + b"PARE", "an encrypted footer"),
    ],
)
def test_read_data_file_when_not_parquet_then_says_so(tmp_path: Path, content: bytes, why: str) -> None:
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(DataFileError, match=why):
        read_data_file(tmp_path / "x", table(ColumnSpec("c", "int64")), table_path=None)


def test_read_data_file_when_a_directory_then_says_so(tmp_path: Path) -> None:
    with pytest.raises(DataFileError, match="is a directory; name the Parquet files in it"):
        read_data_file(tmp_path, table(ColumnSpec("c", "int64")), table_path=None)


def test_read_data_file_when_its_footer_is_larger_than_one_look_then_read_whole(tmp_path: Path) -> None:
    data = pa.table({f"column_{number}": [number] for number in range(700)})
    file = described(tmp_path, data)
    assert file.footer_size > TAIL_BYTES
    assert isinstance(file.statistics, tuple)
    assert [known.max for known in file.statistics] == list(range(32))


# --- columns ----------------------------------------------------------------------------------------------------------


def test_read_data_file_when_columns_do_not_fit_then_says_all_at_once(tmp_path: Path) -> None:
    definition = table(ColumnSpec("a", "int32"), ColumnSpec("b", "date"), ColumnSpec("k", "int64", nullable=False))
    data = pa.table({"a": ["x"], "b": [dt.datetime(2024, 1, 1)], "z": [1]})
    with pytest.raises(DataFileError) as raised:
        described(tmp_path, data, definition)
    said = str(raised.value)
    assert "column z not in the table (it has a, b, k)" in said
    assert "column a: expected int32, found string" in said
    assert "column b: expected date, found timestamp[us]" in said
    assert "column k is missing, expected int64 (never NULL)" in said


def test_read_data_file_when_files_of_one_table_differ_in_their_schema_then_each_is_read_by_its_own(
    tmp_path: Path,
) -> None:
    definition = table(ColumnSpec("a", "int64"), ColumnSpec("b", "int64"))
    by_name = pa.table({"a": [1], "b": [2]})
    turned = pa.table({"b": [3], "a": [4]})
    crossed = pa.table([[5], [6]], schema=pa.schema([with_id("a", pa.int64(), 2), with_id("b", pa.int64(), 1)]))
    strange = pa.table([[5], [6]], schema=pa.schema([with_id("a", pa.int64(), 2), with_id("b", pa.int64(), 9)]))
    for _ in range(2):
        for data, maxima in [(by_name, {"a": 1, "b": 2}), (turned, {"b": 3, "a": 4}), (crossed, {"b": 5, "a": 6})]:
            file = described(tmp_path, data, definition)
            assert isinstance(file.statistics, tuple)
            assert {known.column: known.max for known in file.statistics} == maxima
            assert (file.name_mapping is None) == (data is crossed)
        with pytest.raises(DataFileError, match="field id 9"):
            described(tmp_path, strange, definition)


def test_read_data_file_when_the_table_is_another_then_judged_by_that(tmp_path: Path) -> None:
    data = pa.table({"a": [1]})
    assert described(tmp_path, data, table(ColumnSpec("a", "int64"))).record_count == 1
    with pytest.raises(DataFileError, match="column a: expected date"):
        described(tmp_path, data, table(ColumnSpec("a", "date")))


def test_read_data_file_when_a_nullable_column_is_missing_then_fits(tmp_path: Path) -> None:
    definition = table(ColumnSpec("a", "int64"), ColumnSpec("b", "varchar"))
    assert described(tmp_path, pa.table({"a": [1]}), definition).record_count == 1


def test_read_data_file_when_an_added_column_with_default_is_missing_then_fits(tmp_path: Path) -> None:
    step = Alteration(AlterOp.ADD_COLUMN, column=ColumnSpec("b", "int64", nullable=False, default="7"))
    definition = altered_by(table(ColumnSpec("a", "int64")), [step])
    assert described(tmp_path, pa.table({"a": [1]}), definition).record_count == 1


def test_read_data_file_when_null_in_a_required_column_then_names_it(tmp_path: Path) -> None:
    definition = table(ColumnSpec("a", "int64", nullable=False))
    with pytest.raises(DataFileError, match="column a may not be NULL, but is in 1 row of the file"):
        described(tmp_path, pa.table({"a": [1, None]}), definition)


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("int64", pa.array([1], pa.int32())),
        ("float64", pa.array([1], pa.float32())),
        ("decimal(12,3)", pa.array([Decimal("1.5")], pa.decimal128(10, 2))),
        ("timestamp", pa.array([1], pa.timestamp("ms"))),
        ("varchar", pa.array(["a"]).dictionary_encode()),
        ("uuid", pa.array([uuid.UUID(int=1).bytes], pa.uuid())),
        ("json", pa.array(["{}"])),
        ("list(int64)", pa.array([[1]], pa.list_(pa.int32()))),
        ("map(varchar, int64)", pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64()))),
    ],
)
def test_read_data_file_when_the_type_is_narrower_then_fits(tmp_path: Path, kind: str, data: pa.Array) -> None:
    assert described(tmp_path, pa.table({"c": data}), table(ColumnSpec("c", kind))).record_count == 1


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("int32", pa.array([1], pa.int64())),
        ("int64", pa.array([1.0])),
        ("timestamp", pa.array([1], pa.timestamp("us", "UTC"))),
        ("timestamptz", pa.array([1], pa.timestamp("us"))),
        ("decimal(4,2)", pa.array([Decimal("1.5")], pa.decimal128(10, 2))),
        ("int64", pa.array([[1]])),
        ("list(int64)", pa.array([1])),
        ("list(int64)", pa.array([["a"]])),
        ("struct(a int64)", pa.array([{"b": 1}])),
    ],
)
def test_read_data_file_when_the_type_is_another_then_refused(tmp_path: Path, kind: str, data: pa.Array) -> None:
    with pytest.raises(DataFileError, match="column c"):
        described(tmp_path, pa.table({"c": data}), table(ColumnSpec("c", kind)))


def test_read_data_file_when_without_ids_then_mapped_by_name(tmp_path: Path) -> None:
    nested = pa.array([[{"z": 1}]], pa.list_(pa.struct([("z", pa.int64())])))
    definition = table(ColumnSpec("Id", "int64"), ColumnSpec("l", "list(struct(z int64))"))
    file = described(tmp_path, pa.table({"l": nested, "ID": [1]}), definition)
    assert file.name_mapping == (
        MappedColumn("l", "l", (MappedColumn("list", "element", (MappedColumn("z", "z"),)),)),
        MappedColumn("ID", "Id"),
    )


def test_read_data_file_when_with_ids_then_matched_by_them_alone(tmp_path: Path) -> None:
    schema = pa.schema([with_id("was_b", pa.int64(), 2), with_id("was_a", pa.string(), 1)])
    data = pa.table({"was_b": [5], "was_a": ["x"]}, schema=schema)
    file = described(tmp_path, data, table(ColumnSpec("a", "varchar"), ColumnSpec("b", "int64")))
    assert file.name_mapping is None
    assert isinstance(file.statistics, tuple)
    assert [(each.column, each.min) for each in file.statistics] == [("b", 5), ("a", "x")]


def test_read_data_file_when_only_columns_have_ids_then_mapped_by_name_unless_rows_carry_theirs(tmp_path: Path) -> None:
    definition = table(ColumnSpec("l", "list(int64)"), ColumnSpec("s", "struct(a int64, b int64)"))
    pair = pa.struct([with_id("was_b", pa.int64(), 5), pa.field("a", pa.int64())])
    fields = [with_id("was_s", pair, 3), with_id("was_l", pa.list_(pa.int64()), 1)]
    data = pa.table([[{"was_b": 2, "a": 1}], [[1]]], schema=pa.schema(fields))
    assert described(tmp_path, data, definition).name_mapping == (
        MappedColumn("was_s", "s", (MappedColumn("was_b", "b"), MappedColumn("a", "a"))),
        MappedColumn("was_l", "l", (MappedColumn("list", "element"),)),
    )
    carrying = data.append_column(with_id(ROW_ID, pa.int64(), ROW_ID_FIELD), [[7]])
    path = write(tmp_path / "carrying.parquet", carrying)
    with pytest.raises(DataFileError, match=r"field ids alone, and was_s\.a, was_l\.element have none"):
        read_data_file(path, definition, table_path=None, carries_row_ids=True)


@pytest.mark.parametrize(
    ("second", "why"),
    [
        (with_id("b", pa.int64(), 9), r"field id 9, which is none of the table's \(a=1, b=2\)"),
        (pa.field("b", pa.int64()), "has no field id though others have one"),
        (with_id("b", pa.int64(), 1), "column a is there twice"),
    ],
)
def test_read_data_file_when_ids_are_wrong_then_says_which(tmp_path: Path, second: pa.Field, why: str) -> None:
    data = pa.table([[1], [2]], schema=pa.schema([with_id("a", pa.int64(), 1), second]))
    with pytest.raises(DataFileError, match=why):
        described(tmp_path, data, table(ColumnSpec("a", "int64"), ColumnSpec("b", "int64")))


# --- statistics -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "low", "high"),
    [
        (pa.array([9, 10, None], pa.int32()), 9, 10),
        (pa.array([-5, 2**63 - 1]), -5, 2**63 - 1),
        (pa.array([0, 2**64 - 1], pa.uint64()), 0, "18446744073709551615"),
        (pa.array([1.5, -2.0]), -2.0, 1.5),
        (pa.array([1.0, float("inf")]), 1.0, None),
        (pa.array(["b", "a", None]), "a", "b"),
        (pa.array(["a", "z" * 300]), "a", None),
        (pa.array(["a", "tab\tnul\0"]), "a", None),
        (pa.array([True, False]), False, True),
        (pa.array([dt.date(2024, 1, 31), dt.date(1969, 12, 31)]), "1969-12-31", "2024-01-31"),
        (pa.array([dt.datetime(2024, 1, 1, 3)]), "2024-01-01 03:00:00", "2024-01-01 03:00:00"),
        (pa.array([1], pa.timestamp("us", "UTC")), "1970-01-01 00:00:00.000001+00", "1970-01-01 00:00:00.000001+00"),
        (pa.array([2**62], pa.timestamp("us")), None, None),
        (pa.array([Decimal("10.50"), Decimal("9.00")]), "9.00", "10.50"),
        (pa.array([b"a"]), None, None),
        (pa.array([None, None], pa.int64()), None, None),
    ],
)
def test_statistics_when_read_from_a_footer_then_exact_or_none(
    tmp_path: Path, values: pa.Array, low: object, high: object
) -> None:
    found = statistics_of(tmp_path, values)
    assert (found.min, found.max) == (low, high)
    assert (found.null_count, found.value_count) == (values.null_count, len(values) - values.null_count)
    assert found.contains_nan is None


@pytest.mark.parametrize(
    ("kind", "unit", "low", "high"),
    [
        ("timestamp", "ns", "1969-12-31 23:59:59.999998", "1970-01-01 00:00:00.000002"),
        ("timestamp_s", "us", "1969-12-31 23:59:59", "1970-01-01 00:00:01"),
        ("timestamp_ns", "us", "1969-12-31 23:59:59.998001", "1970-01-01 00:00:00.001001"),
        ("timestamp_ms", "s", "1969-12-31 23:26:41", "1970-01-01 00:16:41"),
    ],
)
def test_statistics_when_a_file_has_finer_times_than_the_column_then_bounds_are_around_what_readers_make_of_them(
    tmp_path: Path, kind: str, unit: str, low: str, high: str
) -> None:
    data = pa.table({"c": pa.array([-1999, 1001], pa.timestamp(unit))})
    file = described(tmp_path, data, table(ColumnSpec("c", kind)))
    assert isinstance(file.statistics, tuple)
    assert [(each.min, each.max) for each in file.statistics] == [(low, high)]


def test_read_data_file_when_a_time_is_beyond_the_columns_unit_then_says_which(tmp_path: Path) -> None:
    definition = table(ColumnSpec("at", "timestamp_ns"))
    for moment, other in (("9999-01-01", "2262-04-11 23:47:16.854775"), ("1677-09-21", "1677-09-21 00:12:43.145225")):
        data = pa.table({"at": pa.array([moment, other, None]).cast(pa.timestamp("us"))})
        with pytest.raises(
            DataFileError, match=f"column at: expected timestamp_ns, .*1677 and 2262, found {moment} 00:00:00$"
        ):
            described(tmp_path, data, definition)
        assert described(tmp_path, data[1:], definition).record_count == 2
    both = pa.table({"at": pa.array(["1600-01-01", "9999-01-01"]).cast(pa.timestamp("ms"))})
    with pytest.raises(DataFileError, match=r"found 1600-01-01 00:00:00 and 9999-01-01 00:00:00$"):
        described(tmp_path, both, definition)


def test_statistics_when_there_are_row_groups_then_over_all_in_the_value_domain(tmp_path: Path) -> None:
    found = statistics_of(tmp_path, pa.array([9, 8, 10, 11, None, None]), row_group_size=2)
    assert (found.min, found.max, found.null_count) == (8, 11, 2)


def test_statistics_when_a_row_group_has_none_then_no_bounds(tmp_path: Path) -> None:
    found = statistics_of(tmp_path, pa.array([1, 2]), write_statistics=False)
    assert found == ColumnStatistics("c", size_bytes=found.size_bytes)


def test_statistics_when_columns_are_nested_then_only_flat_ones(tmp_path: Path) -> None:
    data = pa.table({"s": [{"x": 1, "y": 2}], "l": [[1]], "c": [7], "d.e": [8]})
    file = described(tmp_path, data)
    assert isinstance(file.statistics, tuple)
    assert [(each.column, each.min) for each in file.statistics] == [("c", 7), ("d.e", 8)]


def test_statistics_when_decimals_are_integers_in_the_file_then_decimals(tmp_path: Path) -> None:
    found = statistics_of(tmp_path, pa.array([Decimal("-10.50")], pa.decimal128(9, 2)), store_decimal_as_integer=True)
    assert (found.min, found.max) == ("-10.50", "-10.50")


# --- partitions -------------------------------------------------------------------------------------------------------

DAYS = pa.table({"d": [dt.date(2024, 1, 2), dt.date(2024, 1, 30)], "m": [1, 1]})


@pytest.mark.parametrize(
    ("keys", "values"),
    [
        ([PartitionSpec("m")], (1,)),
        ([PartitionSpec("d", "year"), PartitionSpec("d", "month")], (2024, 1)),
        ([PartitionSpec("d", "day")], None),
        ([PartitionSpec("d")], None),
        ([PartitionSpec("m", "bucket(4)")], None),
        ([], None),
    ],
)
def test_partition_values_when_the_footer_proves_them_then_given(
    tmp_path: Path, keys: list[PartitionSpec], values: tuple[int, ...] | None
) -> None:
    assert described(tmp_path, DAYS, table_like(DAYS.schema, partition_by=keys)).partition_values == values


def test_partition_values_when_every_row_is_null_then_null(tmp_path: Path) -> None:
    data = pa.table({"m": pa.array([None, None], pa.int64())})
    keys = [PartitionSpec("m")]
    assert described(tmp_path, data, table_like(data.schema, partition_by=keys)).partition_values == (None,)


def test_partition_values_when_some_rows_are_null_then_unknown(tmp_path: Path) -> None:
    data = pa.table({"m": [1, None]})
    keys = [PartitionSpec("m")]
    assert described(tmp_path, data, table_like(data.schema, partition_by=keys)).partition_values is None


def test_partition_values_when_years_differ_at_the_same_month_then_unknown(tmp_path: Path) -> None:
    data = pa.table({"d": [dt.date(2023, 1, 2), dt.date(2024, 1, 2)]})
    keys = [PartitionSpec("d", "month")]
    assert described(tmp_path, data, table_like(data.schema, partition_by=keys)).partition_values is None


def test_columns_of_when_a_type_has_no_counterpart_then_names_the_column() -> None:
    with pytest.raises(DataFileError, match="column d: the Arrow type duration"):
        columns_of(pa.schema([("d", pa.duration("s"))]))


def test_statistics_when_a_table_has_many_columns_then_are_told_of_the_first_and_of_those_it_is_partitioned_by(
    tmp_path: Path,
) -> None:
    data = pa.table({f"c{at}": [1] for at in range(40)})
    columns = columns_of(data.schema)

    def told(**options: Any) -> list[str]:
        definition = define_new(CreateTable("main", "t", columns, **options))
        statistics = described(tmp_path, data, definition).statistics
        assert isinstance(statistics, tuple)
        return [each.column for each in statistics]

    assert told() == [f"c{at}" for at in range(32)]
    by_last = (PartitionSpec("c39", "identity"),)
    assert told(properties={"statistics_columns": "2"}, partition_by=by_last) == ["c0", "c1", "c39"]
    assert told(properties={"statistics_columns": "0"}) == []
    assert len(told(properties={"statistics_columns": "100"})) == 40
