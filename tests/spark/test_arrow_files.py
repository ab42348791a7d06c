"""One task's batches as a file of the table."""

import math
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from commitlog.client.reading.rows_of_file import RowsOfFile
from commitlog.domain.model import ColumnSpec, CreateTable
from commitlog.domain.model.buckets import bucket
from commitlog.domain.model.defining import define
from commitlog.domain.model.definitions import TableDefinition
from commitlog.errors import DataFileError
from commitlog.spark.reading.arrow_rows import read_rows
from commitlog.spark.writing.arrow_files import write_batches


def table(*specs: ColumnSpec) -> TableDefinition:
    return define(CreateTable("main", "t", specs), table_id=1, schema_id=0, partition_id=None)


THREE = table(
    ColumnSpec("id", "int64", nullable=False), ColumnSpec("v", "float64"), ColumnSpec("c", "varchar", default="nl")
)


def test_write_batches_when_columns_are_narrower_and_missing_then_fills_and_widens(tmp_path: Path) -> None:
    batches = [pa.record_batch({"V": pa.array([1.5], pa.float32()), "id": pa.array([7], pa.int8())})] * 2
    [path] = write_batches(iter(batches), THREE, str(tmp_path / "new" / "table"))
    assert pq.read_table(path).to_pylist() == [{"id": 7, "v": 1.5, "c": "nl"}] * 2
    assert [field.metadata[b"PARQUET:field_id"] for field in pq.read_schema(path)] == [b"1", b"2", b"3"]


def test_write_batches_when_there_are_no_rows_then_makes_no_file(tmp_path: Path) -> None:
    assert write_batches(iter([pa.record_batch({"id": pa.array([], pa.int64())})]), THREE, str(tmp_path)) == ()
    assert list(tmp_path.iterdir()) == []


def test_write_batches_when_floats_may_hold_nan_then_the_footer_claims_no_bounds(tmp_path: Path) -> None:
    [path] = write_batches(iter([pa.record_batch({"id": [1, 2], "v": [1.0, math.nan]})]), THREE, str(tmp_path))
    group = pq.ParquetFile(path).metadata.row_group(0)
    assert group.column(0).statistics.max == 2
    assert group.column(1).statistics is None


def test_read_rows_when_the_file_was_cleaned_away_then_says_why(tmp_path: Path) -> None:
    gone, schema = RowsOfFile(str(tmp_path / "gone.parquet"), None), pa.schema({"id": pa.int64()})
    with pytest.raises(DataFileError, match=r"gone\.parquet is not there \(any more\): a snapshot that was expired"):
        next(read_rows(gone, THREE.columns[:1], schema))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"id": pa.array([None], pa.int64())}, "column id may not be NULL"),
        ({"id": pa.array(["x"])}, r"column id \(int64\)"),
        ({"v": pa.array([1.0])}, "column id may not be NULL"),
    ],
)
def test_write_batches_when_a_value_does_not_fit_then_says_which_column_and_leaves_no_file(
    tmp_path: Path, rows: dict[str, pa.Array], message: str
) -> None:
    with pytest.raises(DataFileError, match=message):
        write_batches(iter([pa.record_batch({"id": [1]}), pa.record_batch(rows)]), THREE, str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_bucket_when_numbers_are_hashed_then_is_what_duckdb_says() -> None:
    assert [bucket(number, 16) for number in range(8)] == [12, 4, 4, 3, 6, 7, 1, 3]
    days = (date(2017, 11, 16) - date(1970, 1, 1)).days
    assert [bucket(days + number, 16) for number in range(8)] == [10, 11, 0, 4, 4, 8, 11, 7]
