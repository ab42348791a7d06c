"""Partitioned tables: each file is of one partition, and partitions are replaced and compacted apart."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from people import settings_given
from pyspark.sql import DataFrame, SparkSession

from commitlog.client import CommitLog
from commitlog.client.reading.duckdb_client import open_lake
from commitlog.config import Settings
from commitlog.errors import DataFileError, ProposalRejectedError
from commitlog.spark import append, compact, overwrite, read
from commitlog.spark.connection import catalog_of
from commitlog.spark.reading.scan import scan_at

SALES = "main.sales"


@pytest.fixture
def sales(log: CommitLog) -> None:
    """A table partitioned by a column and by the month of another."""
    with log.transaction() as tx:
        columns = {"id": "int64", "region": "varchar", "day": "date", "at": "timestamptz"}
        tx.create_table(SALES, columns, partition_by=["region", "month(day)"])


def rows(spark: SparkSession, *values: tuple[int, str | None, str]) -> DataFrame:
    return spark.createDataFrame(list(values), "id long, region string, day string").selectExpr(
        "id", "region", "CAST(day AS DATE) AS day", "CAST(day AS TIMESTAMP) AS at"
    )


def partitions(log: CommitLog) -> dict[tuple[str | None, ...] | None, int]:
    """How many files each partition has."""
    found: dict[tuple[str | None, ...] | None, int] = {}
    for file in scan_at(catalog_of(log), SALES, log.transaction().base_snapshot_id).files:
        found[file.partition_values] = found.get(file.partition_values, 0) + 1
    return found


def ids(spark: SparkSession, log: CommitLog) -> list[int]:
    return sorted(row.id for row in read(spark, SALES, log=log).collect())


def duck_ids(settings: Settings, where: str = "true") -> list[int]:
    with open_lake(settings.database_url) as connection:
        return [i for (i,) in connection.execute(f"SELECT id FROM {SALES} WHERE {where} ORDER BY id").fetchall()]


def append_by_source(df: DataFrame, log: CommitLog, settings: Settings) -> None:
    df.write.format("commitlog").options(**settings_given(settings), table=SALES).mode("append").save()
    log.wait_for_snapshot()


@pytest.mark.usefixtures("sales")
@pytest.mark.parametrize("by_source", [False, True])
def test_append_when_rows_are_of_several_partitions_then_each_file_is_of_one_and_keeps_all_columns(
    spark: SparkSession, log: CommitLog, settings: Settings, by_source: bool
) -> None:
    odd = "a/b=c %41 ü"
    given = rows(
        spark,
        (1, "DE", "2024-01-05"),
        (2, "DE", "2023-01-31"),
        (3, "DE", "2024-02-01"),
        (4, None, "2024-02-01"),
        (5, odd, "2024-02-01"),
        (6, "", "2024-02-01"),
        (7, "two\n", "2024-02-01"),
    )
    if by_source:
        append_by_source(given.coalesce(1), log, settings)
    else:
        append(given.repartition(3), SALES, log=log)
    # The log takes no text of two lines: that partition is not known.
    assert partitions(log) == dict.fromkeys([("DE", "1"), ("DE", "2"), (None, "2"), (odd, "2"), ("", "2"), None], 1)
    found = read(spark, SALES, log=log).orderBy("id").collect()
    assert found == given.orderBy("id").collect()
    assert duck_ids(settings) == [1, 2, 3, 4, 5, 6, 7]
    assert duck_ids(settings, "region = 'DE' AND month(day) = 1") == [1, 2]
    assert duck_ids(settings, f"region = '{odd}'") == [5]
    assert duck_ids(settings, "region IS NULL") == [4]
    assert duck_ids(settings, "region LIKE 'two%'") == [7]
    path = next(iter(Path(settings.data_path).rglob("*.parquet")))
    assert pq.read_schema(path).names == ["id", "region", "day", "at"]


@pytest.mark.usefixtures("sales")
def test_overwrite_when_partitions_are_dynamic_then_replaces_only_those_that_rows_come_into(
    spark: SparkSession, log: CommitLog, settings: Settings
) -> None:
    append(rows(spark, (1, "DE", "2024-01-05"), (2, "DE", "2024-02-01"), (3, None, "2024-01-01")), SALES, log=log)
    one = next(iter(Path(settings.data_path).rglob("*.parquet")))
    extra = rows(spark, (4, "DE", "2023-01-07"), (5, "FR", "2024-01-01")).toArrow()
    with log.transaction() as tx:
        mixed = tx.new_file(SALES)
        pq.write_table(extra.cast(pq.read_schema(one)), mixed)
        tx.append(SALES, [mixed])
    assert partitions(log)[None] == 1
    overwrite(rows(spark, (9, "DE", "2024-01-09"), (8, None, "2024-01-02")), SALES, partitions="dynamic", log=log)
    assert ids(spark, log) == duck_ids(settings) == [2, 5, 8, 9]
    assert overwrite(rows(spark).where("false"), SALES, partitions="dynamic", log=log) is None


class _Late(CommitLog):
    """Appends a row of one region between the making of a proposal and its sending."""

    row = (0, "", "")
    spark: SparkSession
    other: CommitLog

    def commit(self, proposal, *, timeout_ms=None):  # type: ignore[no-untyped-def]
        append(rows(self.spark, self.row), SALES, log=self.other)
        return super().commit(proposal, timeout_ms=timeout_ms)


@pytest.mark.usefixtures("sales")
@pytest.mark.parametrize("region", ["DE", "FR"])
def test_overwrite_when_rows_come_into_a_partition_meanwhile_then_is_refused_only_for_its_own(
    spark: SparkSession, log: CommitLog, settings: Settings, region: str
) -> None:
    append(rows(spark, (1, "DE", "2024-01-05")), SALES, log=log)
    with _Late.connect(settings=settings) as late:
        late.spark, late.other, late.row = spark, log, (2, region, "2024-01-06")
        replaced = rows(spark, (3, "DE", "2024-01-07"))
        if region == "DE":
            with pytest.raises(ProposalRejectedError, match="CONFLICT"):
                overwrite(replaced, SALES, partitions="dynamic", log=late)
        else:
            log.wait_for_snapshot(overwrite(replaced, SALES, partitions="dynamic", log=late).snapshot_id)  # type: ignore
    assert ids(spark, log) == ([1, 2] if region == "DE" else [2, 3])


@pytest.mark.usefixtures("sales")
@pytest.mark.parametrize("new", ["none", "filtered"])
def test_overwrite_when_there_are_no_new_rows_then_those_that_match_go(
    spark: SparkSession, log: CommitLog, new: str
) -> None:
    append(rows(spark, (1, "DE", "2024-01-05"), (2, "FR", "2024-01-05")), SALES, log=log)
    none = rows(spark) if new == "none" else rows(spark, (3, "DE", "2024-01-05")).where("id > 3")
    assert overwrite(none, SALES, "region = 'DE'", check=True, log=log)
    assert ids(spark, log) == [2]


@pytest.mark.usefixtures("sales")
def test_compact_when_the_table_is_partitioned_then_keeps_partitions_apart_and_splits_files_of_several(
    spark: SparkSession, log: CommitLog, settings: Settings
) -> None:
    for i in range(2):
        append(rows(spark, (i, "DE", "2024-01-05"), (10 + i, "FR", "2024-01-05")), SALES, log=log)
    assert len(compact(spark, SALES, log=log)) == 2
    assert partitions(log) == {("DE", "1"): 1, ("FR", "1"): 1}
    assert ids(spark, log) == duck_ids(settings) == [0, 1, 10, 11]
    with log.transaction() as tx:
        tx.alter(SALES).set_partition_by(["month(day)"])
    compact(spark, SALES, log=log)
    assert partitions(log) == {("1",): 1}
    assert ids(spark, log) == duck_ids(settings, "month(day) = 1") == [0, 1, 10, 11]


def test_overwrite_when_the_table_has_no_partitions_that_can_be_told_then_says_what_to_do(
    spark: SparkSession, log: CommitLog
) -> None:
    with log.transaction() as tx:
        tx.create_table("main.plain", {"id": "int64"})
        tx.create_table("main.buckets", {"id": "int64", "s": "varchar"}, partition_by=["bucket(4, s)"])
    with pytest.raises(DataFileError, match=r"plain is not partitioned: overwrite the rows that match a filter"):
        overwrite(spark.range(1), "main.plain", partitions="dynamic", log=log)
    with pytest.raises(DataFileError, match=r"bucket\(4\) of s"):
        overwrite(spark.range(1), "main.buckets", partitions="dynamic", log=log)
    with pytest.raises(ValueError, match="one of these"):
        overwrite(spark.range(1), "main.plain", "id = 1", partitions="dynamic", log=log)


def test_append_when_the_table_has_buckets_then_files_stand_where_duckdb_looks_for_their_rows(
    spark: SparkSession, log: CommitLog, settings: Settings
) -> None:
    kinds = {"id": "int64", "day": "date", "at": "timestamptz", "flag": "boolean"}
    df = spark.range(-20, 20).selectExpr(
        "nullif(id, 7) AS id",
        "date_add(DATE '1970-01-01', CAST(id * 100 AS INT)) AS day",
        "timestampadd(HOUR, CAST(id AS INT), TIMESTAMP '2017-11-16 22:31:08') AS at",
        "id % 3 = 0 AS flag",
    )
    given = df.collect()
    for column in kinds:
        table = f"main.by_{column}"
        with log.transaction() as tx:
            tx.create_table(table, kinds, partition_by=[f"bucket(16, {column})"])
        outcome = append(df, table, log=log)
        assert outcome is not None
        assert outcome.file_count == (2 if column == "flag" else pytest.approx(14, abs=3))
        log.wait_for_snapshot(outcome.snapshot_id or 0)
        with open_lake(settings.database_url) as connection:
            for row in given:
                where = f'"{column}" IS NULL' if row[column] is None else f'"{column}" = ?'
                parameters = [] if row[column] is None else [row[column]]
                found = connection.execute(f"SELECT count(*) FROM {table} WHERE {where}", parameters).fetchone()
                assert found == (sum(each[column] == row[column] for each in given),)
        texts = {
            row[0]: row[1] for row in df.selectExpr(f"CAST({column} AS STRING)", "count(*) OVER () AS n").collect()
        }
        for text in filter(None, texts):
            value = int(text) if column == "id" else text == "true" if column == "flag" else text
            where = (column, "=", f"{value}+00:00" if column == "at" else value)
            expected = df.where(f"CAST({column} AS STRING) = '{text}'").count() if column == "flag" else 1
            assert log.table(table).scan(where=where).count() == expected
    replaced = overwrite(df.where("id = 5"), "main.by_id", partitions="dynamic", log=log)
    assert replaced is not None
    assert 1 < read(spark, "main.by_id", log=log).count() < len(given)
