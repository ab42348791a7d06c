"""What a write makes for its rows: a table with partitions, further columns; and what `save` says of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from people import TABLE, Interrupted, duck_ids, files_below, ids, rows, source_options
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

import commitlog.spark
from commitlog.client import CommitLog
from commitlog.config import Settings
from commitlog.errors import DataFileError, InvalidRequestError
from commitlog.spark import stream_into, table, transaction
from commitlog.spark.source.options import SourceOptions


def partitions(log: CommitLog, name: str) -> list[str]:
    definition = log.table(name).definition
    return [f"{each.transform} {definition.column_by_id(each.column_id).name}" for each in definition.partition_by]


def test_append_when_it_creates_a_partitioned_table_then_its_rows_are_split_in_the_same_commit(
    spark: SparkSession, log: CommitLog, settings: Settings, tmp_path: Path
) -> None:
    df, keys = spark.range(6).withColumn("day", (sf.col("id") % 2).cast("int")), ["day"]
    t = table(spark, "days", log=log)
    with pytest.raises(InvalidRequestError, match="partition_by is for a table that is created: add create=True"):
        t.append(df, partition_by=keys)
    before = log.head_snapshot_id()
    outcome = t.append(df, create=True, partition_by=keys)
    assert outcome is not None
    assert (outcome.snapshot_id, outcome.file_count) == (before + 1, 2)
    assert partitions(log, "days") == ["identity day"]
    with transaction(log) as tx:
        tx.append(df, "buckets", create=True, partition_by=["bucket(4, id)"])
    df.write.parquet(str(tmp_path / "feed"))
    feed = spark.readStream.schema(df.schema).parquet(str(tmp_path / "feed")).writeStream
    feed = feed.foreachBatch(stream_into("streamed", log=log, create=True, partition_by=keys))
    feed.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True).start().awaitTermination()
    assert partitions(log, "buckets") == ["bucket(4) id"]
    assert partitions(log, "streamed") == ["identity day"]
    assert table(spark, "streamed", log=log).read(where=("day", "=", 1)).count() == 3


@pytest.mark.usefixtures("people")
def test_append_when_rows_have_new_columns_then_merge_schema_adds_them_in_the_same_commit(
    spark: SparkSession, log: CommitLog, settings: Settings
) -> None:
    t = table(spark, TABLE, log=log)
    t.append(rows(spark, 1))
    wide = rows(spark, 2).withColumn("city", sf.lit("Rome")).withColumn("tags", sf.array(sf.lit("a")))
    with pytest.raises(DataFileError, match="column city is not in the table"):
        t.append(wide)
    before = log.head_snapshot_id()
    t.append(wide, merge_schema=True)
    assert log.head_snapshot_id() == before + 1
    assert [tuple(row) for row in t.read().orderBy("id").collect()] == [
        (1, "n1", 1, None, None),
        (2, "n2", 2, "Rome", ["a"]),
    ]

    def alter() -> None:
        late.meanwhile = lambda: None
        with log.transaction() as tx:
            tx.alter(TABLE).add_column("zip", "varchar")

    with Interrupted.connect(settings=settings) as late:
        late.meanwhile = alter
        table(spark, TABLE, log=late).append(rows(spark, 3).withColumn("zip", sf.lit("00100")), merge_schema=True)
    head = log.head_snapshot_id()
    assert ids(spark, log) == duck_ids(settings, head) == [1, 2, 3]
    assert t.read().where("zip = '00100'").count() == 1
    assert len(files_below(settings)) == 3


@pytest.mark.usefixtures("people")
def test_format_when_load_and_save_are_given_the_name_then_options_say_what_is_made(
    spark: SparkSession, log: CommitLog, settings: Settings
) -> None:
    options = source_options(settings)
    del options["table"]

    def save(name: str, *given: int, mode: str = "append", **more: str) -> None:
        rows(spark, *given).write.format("commitlog").options(**options, **more).mode(mode).save(name)

    save(TABLE, 1, 2)
    found = spark.read.format("commitlog").options(**options).load(TABLE)
    assert sorted(row.id for row in found.collect()) == [1, 2]
    save(TABLE, 3, ifExists="ignore")
    with pytest.raises(Exception, match=r"table main\.people is there already"):
        save(TABLE, 3, ifExists="error")
    with pytest.raises(Exception, match="the table is named twice"):
        save(TABLE, 3, table="main.other")
    for mode in ("error", "ignore"):
        with pytest.raises(Exception, match="UNSUPPORTED_DATA_SOURCE_SAVE_MODE"):
            save(TABLE, 3, mode=mode)
    assert ids(spark, log) == [1, 2]
    save("main.aged", 3, 4, createTable="true", ifExists="error", partitionBy="age, bucket(4, id)")
    assert partitions(log, "aged") == ["identity age", "bucket(4) id"]
    wide = rows(spark, 5).withColumn("city", sf.lit("Rome")).write.format("commitlog").options(**options)
    wide.option("mergeSchema", "true").mode("append").save("main.aged")
    assert sorted(
        tuple(row) for row in commitlog.spark.read(spark, "aged", log=log).select("id", "city").collect()
    ) == [
        (3, None),
        (4, None),
        (5, "Rome"),
    ]
    with pytest.raises(Exception, match="ifExists is one of append, error, ignore, not 'replace'"):
        save(TABLE, 3, ifExists="replace")


def test_options_when_partitions_are_given_then_commas_within_brackets_divide_nothing() -> None:
    assert SourceOptions({"partitionBy": "day, bucket(16, id),month(at)"}).partition_by == (
        "day", "bucket(16, id)", "month(at)",
    )  # fmt: skip
    assert SourceOptions({}).partition_by == ()
