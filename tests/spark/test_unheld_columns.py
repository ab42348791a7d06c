"""Tables with columns that Spark has no type for: they are read without them, and written where that says the same."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pyarrow as pa
import pytest
from people import committed, source_options
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import commitlog.spark
from commitlog.client import CommitLog
from commitlog.config import Settings
from commitlog.errors import DataFileError
from commitlog.spark import append, compact, read
from commitlog.spark.source.options import SourceOptions
from commitlog.spark.source.schemas import source_schema
from commitlog.testing import InMemoryCommitLog

TABLE = "main.mixed"


def test_table_when_columns_are_of_types_that_spark_lacks_then_is_read_without_them_and_keeps_them(
    spark: SparkSession, log: CommitLog, settings: Settings
) -> None:
    with log.transaction() as tx:
        tx.create_table(TABLE, {"id": "int64", "u": "uuid", "t": "time", "n": "timestamp_ns", "name": "varchar"})
    first = pa.table({"id": [1], "u": pa.array([UUID(int=7).bytes], pa.uuid()), "name": ["a"]})
    log.wait_for_snapshot(committed(log.table(TABLE).append(first)))
    log.wait_for_snapshot(committed(append(spark.range(2, 3).selectExpr("id", "'b' AS name"), TABLE, log=log)))
    with pytest.warns(UserWarning, match=r"without u \(uuid\), t \(time\), n \(timestamp_ns\): Spark has no such type"):
        native = read(spark, TABLE, log=log)
    assert [tuple(row) for row in native.orderBy("id").collect()] == [(1, "a"), (2, "b")]
    with pytest.warns(UserWarning, match="Spark has no such type"):
        assert read(spark, TABLE, where="id > 1", log=log).count() == 1
    source = {**source_options(settings), "table": TABLE}
    with pytest.warns(UserWarning, match="Spark has no such type"):
        assert source_schema(SourceOptions(source), TABLE).names == ["id", "name"]
    by_format = spark.read.format("commitlog").options(**source).load()
    assert [tuple(row) for row in by_format.orderBy("id").collect()] == [(1, "a"), (2, "b")]
    # Compaction rewrites rows as they are: it does not lose what Spark cannot see.
    with pytest.raises(DataFileError, match="Spark has no type for uuid"):
        compact(spark, TABLE, log=log)
    rows = log.table(TABLE).scan().to_arrow().sort_by("id").to_pylist()
    assert [(row["id"], row["u"], row["name"]) for row in rows] == [(1, str(UUID(int=7)), "a"), (2, None, "b")]


def test_append_when_a_column_that_spark_lacks_is_given_or_needed_then_says_how_to_write_it(
    spark: SparkSession, log: CommitLog
) -> None:
    with log.transaction() as tx:
        tx.create_table(TABLE, {"id": "int64", "u": "uuid"})
    with pytest.raises(
        DataFileError, match=r"column u is there, and Spark has no type for its uuid: append such rows with log"
    ):
        append(spark.range(1).selectExpr("id", "'x' AS u"), TABLE, log=log)
    with log.transaction() as tx:
        tx.create_table("main.unread", {"u": "uuid"})
    assert tx.outcome.snapshot_id is not None
    log.wait_for_snapshot(tx.outcome.snapshot_id)
    with pytest.raises(DataFileError, match=r"no type for any column of table main\.unread: u \(uuid\)"):
        read(spark, "main.unread", log=log)


def test_table_when_created_for_a_frame_without_null_then_takes_null(spark: SparkSession, log: CommitLog) -> None:
    numbers = spark.range(3)
    assert not numbers.schema["id"].nullable
    append(numbers, TABLE, log=log, create=True)
    append(spark.sql("SELECT CAST(NULL AS BIGINT) AS id"), TABLE, log=log)
    assert read(spark, TABLE, log=log).where("id IS NULL").count() == 1


def test_rows_when_columns_are_of_types_that_spark_lacks_then_go_and_are_not_rewritten(
    spark: SparkSession, tmp_path: Path
) -> None:
    log = InMemoryCommitLog(data_path=tmp_path / "lake")
    t = commitlog.spark.table(spark, TABLE, log=log)
    with log.transaction() as tx:
        tx.create_table(TABLE, {"id": "int64", "u": "uuid"})
    log.table(TABLE).append(
        pa.table({"id": [1, 2, 3], "u": pa.array([UUID(int=i).bytes for i in (7, 8, 9)], pa.uuid())})
    )
    t.delete("id = 2")
    left = [(row["id"], row["u"]) for row in log.table(TABLE).scan().to_arrow().sort_by("id").to_pylist()]
    assert left == [(1, str(UUID(int=7))), (3, str(UUID(int=9)))]
    with pytest.raises(DataFileError, match=r"no type for uuid: store another type, or .* by log\.table"):
        t.update("id = 1", {"id": "id + 1"})
    with pytest.raises(AnalysisException) as missing:
        t.delete(f"u = '{UUID(int=7)}'")
    assert "Spark has no type for u (uuid): log.table(...), without Spark" in missing.value.__notes__[0]
