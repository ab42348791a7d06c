"""What Spark has written, as each reader finds it: Spark itself, the client of Python, and stock DuckDB."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from sessions import session_with

import commitlog.spark
from commitlog.client import CommitLog
from commitlog.client.reading.duckdb_client import open_lake
from commitlog.config import Settings

TABLE = "main.t"


def found(spark: SparkSession, log: CommitLog, settings: Settings) -> list[dict[str, Any]]:
    """The rows of the table, which all readers agree about."""
    log.wait_for_snapshot()
    by_spark = commitlog.spark.table(spark, TABLE, log=log).read().orderBy("id").collect()
    rows = [row.asDict(recursive=True) for row in by_spark]
    by_python = log.table(TABLE).scan().to_arrow().sort_by("id").to_pylist(maps_as_pydicts="strict")
    with open_lake(settings.database_url) as duck:
        selected = duck.execute(f"FROM {TABLE} ORDER BY id")
        names = [each[0] for each in selected.description]
        by_duckdb = [dict(zip(names, row, strict=True)) for row in selected.fetchall()]
    assert by_python == rows
    assert by_duckdb == rows
    return rows


@pytest.mark.parametrize("partition_by", [[], ["p"]], ids=["plain", "partitioned"])
def test_lists_and_maps_when_spark_has_written_them_in_any_way_then_all_readers_find_them(
    spark: SparkSession, log: CommitLog, settings: Settings, partition_by: list[str]
) -> None:
    t = commitlog.spark.table(spark, TABLE, log=log)
    values = {
        "l": "array(v, NULL)",
        "m": "map('a', v)",
        "s": "named_struct('x', array(v), 'y', v)",
        "d": "array(array(named_struct('z', map(v, named_struct('e', array(v))))))",
    }

    def rows(pairs: dict[int, int]) -> DataFrame:
        given = spark.createDataFrame([*pairs.items()], "id int, v int")
        return given.selectExpr("id", "id % 2 AS p", *[f"{value} AS {name}" for name, value in values.items()])

    def check(pairs: dict[int, int]) -> None:
        assert found(spark, log, settings) == [
            {
                "id": id_, "p": id_ % 2, "l": [v, None], "m": {"a": v}, "s": {"x": [v], "y": v},
                "d": [[{"z": {v: {"e": [v]}}}]],
            }
            for id_, v in pairs.items()
        ]  # fmt: skip

    t.append(rows({1: 1, 2: 2, 3: 3}), create=True, partition_by=partition_by)
    check({1: 1, 2: 2, 3: 3})
    with commitlog.spark.transaction(log=log) as tx:
        tx.append(rows({4: 4}), TABLE)
    t.overwrite(rows({1: 10}), where="id = 1")
    t.update("id = 2", {name: value.replace("v", "20") for name, value in values.items()})
    t.merge(rows({3: 30, 5: 50}), on="id").when_matched_update().when_not_matched_insert().commit()
    check({1: 10, 2: 20, 3: 30, 4: 4, 5: 50})
    t.compact(rewrite_all=True)
    check({1: 10, 2: 20, 3: 30, 4: 4, 5: 50})


SETTINGS = {
    "spark.sql.parquet.datetimeRebaseModeInWrite": "LEGACY",
    "spark.sql.parquet.fieldId.write.enabled": "false",
    "spark.sql.parquet.writeLegacyFormat": "true",
}


def test_rows_when_the_session_writes_parquet_of_other_times_then_all_readers_find_the_same_values(
    spark: SparkSession, log: CommitLog, settings: Settings
) -> None:
    t = commitlog.spark.table(spark, TABLE, log=log)
    for name, value in SETTINGS.items():
        spark.conf.set(name, value)
    try:
        t.append(
            spark.sql("SELECT 1 AS id, DATE '1500-01-01' AS d, 1.5BD AS n, array(DATE '1500-01-01') AS l"), create=True
        )
        t.update("id = 1", {"n": "2.5BD"})
        assert {name: spark.conf.get(name) for name in SETTINGS} == SETTINGS
    finally:
        for name in SETTINGS:
            spark.conf.unset(name)
    day = date(1500, 1, 1)
    assert found(spark, log, settings) == [{"id": 1, "d": day, "n": Decimal("2.5"), "l": [day]}]


def test_rows_when_the_session_reads_parquet_of_other_times_then_spark_finds_the_values_of_all_readers(
    spark: SparkSession, log: CommitLog, settings: Settings
) -> None:
    with log.transaction() as tx:
        tx.create_table(TABLE, {"id": "int32", "d": "date"})
    day = date(1500, 1, 1)
    log.table(TABLE).append([{"id": 1, "d": day}])
    t = commitlog.spark.table(spark, TABLE, log=log)
    with session_with(spark, "spark.sql.parquet.datetimeRebaseModeInRead", "LEGACY"):
        assert found(spark, log, settings) == [{"id": 1, "d": day}]
        t.compact(rewrite_all=True)
    assert found(spark, log, settings) == [{"id": 1, "d": day}]


def test_read_when_the_session_is_reset_afterwards_then_finds_renamed_columns_still(
    spark: SparkSession, log: CommitLog
) -> None:
    t = commitlog.spark.table(spark, TABLE, log=log)
    t.append(spark.range(1).selectExpr("id", "'a' AS old"), create=True)
    with log.transaction() as tx:
        tx.alter(TABLE).rename_column("old", "new")
    log.wait_for_snapshot()
    rows = t.read()
    spark.conf.unset("spark.sql.parquet.fieldId.read.enabled")
    assert [row.new for row in rows.collect()] == ["a"]


def test_append_when_it_lacks_unsigned_columns_then_all_readers_find_what_they_were_added_with(
    spark: SparkSession, log: CommitLog, settings: Settings
) -> None:
    with log.transaction() as tx:
        tx.create_table(TABLE, {"id": "int64", "u": "uint8", "l": "list(uint32)"})
    with log.transaction() as tx:
        tx.alter(TABLE).add_column("w", "uint16", default=7)
    commitlog.spark.table(spark, TABLE, log=log).append(spark.range(1))
    assert found(spark, log, settings) == [{"id": 0, "u": None, "l": None, "w": 7}]


def test_rows_when_they_are_older_than_columns_with_wide_defaults_then_all_readers_find_these(
    spark: SparkSession, log: CommitLog, settings: Settings
) -> None:
    t = commitlog.spark.table(spark, TABLE, log=log)
    t.append(spark.range(3), create=True)
    with log.transaction() as tx:
        alter = tx.alter(TABLE)
        alter.add_column("d", "decimal(38,2)", default="123456789012345678901234.50")
        alter.add_column("u", "uint64", default=2**64 - 1)
        alter.add_column("b", "blob", default="a\\x00\\xFF")
    log.wait_for_snapshot()
    given = {"d": Decimal("123456789012345678901234.50"), "u": 2**64 - 1, "b": b"a\x00\xff"}
    assert found(spark, log, settings) == [{"id": id_, **given} for id_ in range(3)]
    t.delete("id = 1")
    assert found(spark, log, settings) == [{"id": id_, **given} for id_ in (0, 2)]
    assert t.read().select("id").count() == 2


def test_rows_when_they_are_older_than_a_columns_type_of_64_bits_then_all_readers_find_them(
    spark: SparkSession, log: CommitLog, settings: Settings
) -> None:
    with log.transaction() as tx:
        tx.create_table(TABLE, {"id": "int64", "u": "uint32"})
    log.table(TABLE).append(pa.table({"id": [1], "u": pa.array([2**32 - 1], pa.uint32())}))
    with log.transaction() as tx:
        tx.alter(TABLE).rename_column("u", "v")
    with log.transaction() as tx:
        tx.alter(TABLE).set_type("v", "uint64")
    log.table(TABLE).append(pa.table({"id": [2], "v": pa.array([2**64 - 1], pa.uint64())}))
    assert found(spark, log, settings) == [{"id": 1, "v": 2**32 - 1}, {"id": 2, "v": 2**64 - 1}]
    t = commitlog.spark.table(spark, TABLE, log=log)
    assert t.read(where=f"v > {2**32}").count() == t.read().where(f"v < {2**32}").count() == 1
    t.delete(f"v = {2**32 - 1}")
    assert found(spark, log, settings) == [{"id": 2, "v": 2**64 - 1}]
