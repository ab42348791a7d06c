"""What is said of rows that do not fit their table, and what becomes of rows that do."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from commitlog.domain.definitions import TableDefinition, define
from commitlog.domain.model import ColumnSpec, CreateTable
from commitlog.errors import DataFileError
from commitlog.spark.files import write_parquet
from commitlog.spark.fitting import fit


def table(*columns: ColumnSpec) -> TableDefinition:
    return define(CreateTable("main", "t", columns), table_id=1, schema_id=0, partition_id=None)


PEOPLE = table(
    ColumnSpec("id", "int64", nullable=False),
    ColumnSpec("name", "varchar"),
    ColumnSpec("age", "int16"),
    ColumnSpec("country", "varchar", nullable=False, default="nl"),
)


def test_fit_when_columns_are_wrong_then_names_each_with_what_is_expected(spark: SparkSession) -> None:
    rows = spark.sql("SELECT 'x' AS id, 1 AS Name, 5 AS height")
    with pytest.raises(DataFileError) as error:
        fit(rows, PEOPLE)
    assert str(error.value) == (
        "the rows do not fit table t: column id: expected bigint (int64), found string; "
        "column name: expected string (varchar), found int; "
        "column height is not in the table (it has id, name, age, country)"
    )


def test_fit_when_a_column_that_may_not_be_null_is_missing_then_says_so(spark: SparkSession) -> None:
    with pytest.raises(DataFileError, match=r"column id is missing, expected bigint \(int64, never NULL\)"):
        fit(spark.sql("SELECT 'x' AS name"), PEOPLE)


def test_fit_when_columns_are_narrower_or_missing_then_widens_and_fills(spark: SparkSession) -> None:
    rows = fit(spark.sql("SELECT 1Y AS ID"), PEOPLE)
    assert [tuple(row) for row in rows.collect()] == [(1, None, None, "nl")]
    assert [each.metadata["parquet.field.id"] for each in rows.schema] == [1, 2, 3, 4]


def test_fit_when_a_column_is_unsigned_then_says_what_can_write_it(spark: SparkSession) -> None:
    with pytest.raises(DataFileError, match=r"column n is uint8, which Spark's writer has no type for"):
        fit(spark.sql("SELECT 1 AS n"), table(ColumnSpec("n", "uint8")))


def test_fit_when_a_value_that_may_not_be_null_is_then_the_write_fails(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(PySparkException, match="column id may not be NULL"):
        write_parquet(fit(spark.sql("SELECT CAST(NULL AS BIGINT) AS id"), PEOPLE), str(tmp_path / "out"))


def test_fit_when_struct_fields_come_in_another_order_then_goes_by_name(spark: SparkSession) -> None:
    nested = table(ColumnSpec("s", "struct(a int64, b list(struct(x int32)))"))
    rows = spark.sql("SELECT named_struct('B', array(named_struct('x', 9)), 'A', 1L) AS s")
    assert fit(rows, nested).first().s.asDict(recursive=True) == {"a": 1, "b": [{"x": 9}]}


def test_write_parquet_when_timestamps_are_written_then_have_bounds_and_the_session_keeps_its_setting(
    spark: SparkSession, tmp_path: Path
) -> None:
    before = spark.conf.get("spark.sql.parquet.outputTimestampType")
    times = table(ColumnSpec("at", "timestamptz"))
    rows = spark.sql("SELECT timestamp'2024-01-01 00:00:00' AS at FROM range(10)").coalesce(1)
    [path] = write_parquet(fit(rows, times), str(tmp_path / "out"))
    footer = pq.ParquetFile(path)
    assert footer.schema_arrow.field("at").metadata[b"PARQUET:field_id"] == b"1"
    assert footer.metadata.row_group(0).column(0).statistics.has_min_max
    assert spark.conf.get("spark.sql.parquet.outputTimestampType") == before
    assert [each.name for each in (tmp_path / "out").iterdir() if not each.name.endswith(".crc")] == [Path(path).name]
