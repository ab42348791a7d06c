"""Tables of so many files, or of so many deleted rows, that the driver must not hold what it could of a few."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import commitlog.spark
from commitlog.client.files.data_files import read_data_file
from commitlog.client.writing.delete_files import write_delete_file
from commitlog.domain.model import ColumnSpec
from commitlog.domain.model.defining import build_column
from commitlog.spark.columns import scan_schema
from commitlog.spark.reading.exact_files import file_rows
from commitlog.spark.reading.scan_files import ScanFile
from commitlog.testing import InMemoryCommitLog

TABLE = "main.wide"
ID = build_column(ColumnSpec("id", "int64"), 1)
MIB = 1024 * 1024


def write(path: Path, row_count: int) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"})])
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table([np.arange(row_count)], schema=schema), path, compression="zstd")


def planned(rows: DataFrame) -> int:
    """To how many partitions its files come."""
    return int(rows._jdf.queryExecution().toRdd().getNumPartitions())


def timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


@pytest.mark.nightly
@pytest.mark.parametrize(("file_count", "seconds"), [(1_000, 1), (100_000, 10)])
def test_read_when_files_are_many_then_plans_in_seconds(spark: SparkSession, file_count: int, seconds: float) -> None:
    folder = "/tmp/lake/main/table/commitlog-0123456789abcdef0123456789abcdef"
    files = [ScanFile(each, f"{folder}/{each:036d}.parquet", 100, 1_000_000) for each in range(file_count)]
    spent = [
        timed(lambda: planned(file_rows(spark, files, scan_schema((ID,)), placed=False).where("id = 5")))
        for _ in range(3)
    ]
    print(f"{file_count:,} files planned in {min(spent):.2f} s")
    assert min(spent) < seconds


@pytest.mark.nightly
@pytest.mark.timeout(7200)
def test_read_when_a_tenth_of_ten_billion_rows_is_deleted_then_the_driver_holds_none_of_that(
    spark: SparkSession, tmp_path: Path
) -> None:
    file_count, row_count, kinds = 10_000, 1_000_000, 4
    data = tmp_path / "data.parquet"
    write(data, row_count)
    chosen = np.random.default_rng(5)
    gone = [np.flatnonzero(chosen.random(row_count) < 0.1) for _ in range(kinds)]
    filed = [tmp_path / write_delete_file(kind, str(data), gone[kind], str(tmp_path)).path for kind in range(kinds)]
    files = [
        ScanFile(
            each, str(data), row_count, data.stat().st_size,
            delete_file_path=str(filed[each % kinds]), delete_count=len(gone[each % kinds]),
        )
        for each in range(file_count)
    ]  # fmt: skip
    jvm = spark._jvm
    assert jvm is not None
    runtime = jvm.java.lang.Runtime.getRuntime()

    def held() -> tuple[float, float]:
        jvm.java.lang.System.gc()
        return psutil.Process().memory_info().rss / MIB, (runtime.totalMemory() - runtime.freeMemory()) / MIB

    python, heap = held()
    rows = file_rows(spark, files, scan_schema((ID,)), placed=False)
    assert planned(rows) > 1
    now = held()
    print(f"{file_count:,} files: {now[0] - python:.0f} MiB more in Python, {now[1] - heap:.0f} MiB in the JVM's heap")
    assert now[0] - python < 100
    assert now[1] - heap < 200
    some = file_rows(spark, files[:8], scan_schema((ID,)), placed=False).selectExpr("count(*)", "sum(id)").collect()[0]
    live = [np.setdiff1d(np.arange(row_count), gone[each % kinds]) for each in range(8)]
    assert tuple(some) == (sum(map(len, live)), sum(int(each.sum()) for each in live))


@pytest.mark.nightly
@pytest.mark.timeout(7200)
def test_delete_when_a_hundred_million_rows_of_ten_thousand_files_go_then_is_committed(
    spark: SparkSession, tmp_path: Path
) -> None:
    file_count, row_count = int(os.environ.get("COMMITLOG_TEST_FILES", "10_000")), 20_000
    log = InMemoryCommitLog(data_path=tmp_path / "lake")
    with log.transaction() as tx:
        tx.create_table(TABLE, {"id": "int64"})
    at = log.table(TABLE).at()
    assert at.path is not None
    folder = Path(at.path)
    first = folder / "0.parquet"
    write(first, row_count)
    described = read_data_file(first, at.definition, table_path=str(folder))
    for start in range(0, file_count, 1_000):
        names = [f"{each}.parquet" for each in range(start, min(start + 1_000, file_count))]
        for name in names[start == 0 :]:
            (folder / name).hardlink_to(first)
        with log.transaction() as tx:
            tx.append(TABLE, [described.replace(path=name) for name in names])
    t = commitlog.spark.table(spark, TABLE, log=log)
    spent = timed(lambda: t.delete("id % 2 = 0"))
    print(f"{file_count * row_count // 2:,} rows of {file_count:,} files deleted in {spent:.0f} s")
    found = t.read().selectExpr("count(*)", "min(id)", "sum(id % 2)").collect()[0]
    assert tuple(found) == (file_count * row_count // 2, 1, file_count * row_count // 2)
