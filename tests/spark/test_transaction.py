"""Several tables in one commit, tables that are created by what is written to them, and what the Spark UI shows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from people import files_below, settings_given
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from commitlog.client import CommitLog
from commitlog.config import Settings
from commitlog.errors import (
    ConfigurationError,
    DataFileError,
    FencedError,
    InvalidRequestError,
    ProposalRejectedError,
    TableNotFoundError,
)
from commitlog.spark import Key, SparkTransaction, append, delete, overwrite, read, transaction
from commitlog.spark.jobs import shown_as


@pytest.fixture
def two_tables(log: CommitLog) -> None:
    """Tables a and b, of one column."""
    with log.transaction() as tx:
        tx.create_table("main.a", {"id": "int64"})
        tx.create_table("main.b", {"id": "int64"})


def ids(spark: SparkSession, log: CommitLog, table: str, snapshot: int | None = None) -> list[int]:
    return sorted(row.id for row in read(spark, table, snapshot, log=log).collect())


@pytest.mark.usefixtures("two_tables")
def test_transaction_when_it_writes_to_several_tables_then_is_one_commit_and_a_repeat_leaves_nothing(
    spark: SparkSession, log: CommitLog, settings: Settings
) -> None:
    append(spark.range(10), "a", log=log)
    before = log.transaction().base_snapshot_id

    def write() -> int:
        with transaction(log, key="load:1") as tx:
            tx.append(spark.range(3), "b")
            tx.append(spark.range(100, 102), "main.b")
            tx.delete(spark, "a", [("id", "<", 4)])
            tx.append(spark.range(50, 51), "a")
            tx.append(spark.sql("SELECT 'x' AS word"), "main.words", create=True)
        assert tx.outcome is not None
        assert tx.outcome.snapshot_id is not None
        return tx.outcome.snapshot_id

    assert write() == before + 1
    files = files_below(settings)
    assert write() == before + 1
    with transaction(log, key="load:1") as again:
        again.append(spark.range(1).select(sf.raise_error(sf.lit("it was computed")).alias("id")), "b")
        again.delete(spark, "a", True)
    assert (again.is_repeat, again.outcome and again.outcome.snapshot_id) == (True, before + 1)
    assert files_below(settings) == files
    assert log.wait_for_snapshot() == before + 1
    assert ids(spark, log, "a") == [4, 5, 6, 7, 8, 9, 50]
    assert ids(spark, log, "b") == [0, 1, 2, 100, 101]
    assert read(spark, "words", log=log).collect() == [("x",)]
    assert (ids(spark, log, "a", before), ids(spark, log, "b", before)) == (list(range(10)), [])


@pytest.mark.usefixtures("two_tables")
def test_transaction_when_a_call_fails_halfway_and_the_block_goes_on_then_nothing_of_it_is_committed(
    spark: SparkSession, log: CommitLog, settings: Settings
) -> None:
    append(spark.range(10), "a", log=log)
    there = files_below(settings)
    failing = spark.range(1).select(sf.raise_error(sf.lit("not computed")).cast("bigint").alias("id"))

    def goes_on(write: Callable[[SparkTransaction], None]) -> None:
        with transaction(log) as tx:
            tx.append(spark.range(3), "b")
            with pytest.raises(PySparkException, match="not computed"):
                write(tx)

    for write in (
        lambda tx: tx.overwrite(failing, "a"),
        lambda tx: tx.overwrite(failing, "a", where="id < 3"),
        lambda tx: tx.append(failing, "c", create=True),
    ):
        with pytest.raises(InvalidRequestError, match=r"table (a|c) .*failed halfway"):
            goes_on(write)
    assert files_below(settings) == there
    assert (ids(spark, log, "a"), ids(spark, log, "b")) == (list(range(10)), [])
    assert "main.c" not in log.tables()


@pytest.mark.usefixtures("two_tables")
def test_overwrite_when_columns_do_not_fit_then_nothing_of_it_is_there_and_the_transaction_goes_on(
    spark: SparkSession, log: CommitLog, settings: Settings
) -> None:
    append(spark.range(10_000).coalesce(1), "a", log=log)
    there, other = files_below(settings), spark.range(1).withColumnRenamed("id", "other")
    with transaction(log) as tx:
        for where in ("id % 2 = 0", True):
            with pytest.raises(DataFileError, match="other"):
                tx.overwrite(other, "a", where, check=False)
        assert files_below(settings) == there
        tx.append(spark.range(3), "b")
    assert (len(ids(spark, log, "a")), ids(spark, log, "b")) == (10_000, [0, 1, 2])


@pytest.mark.usefixtures("two_tables")
def test_overwrite_when_new_rows_do_not_match_the_filter_then_is_refused_by_the_function_and_in_a_transaction_too(
    spark: SparkSession, log: CommitLog, settings: Settings
) -> None:
    append(spark.range(5), "a", log=log)
    there = files_below(settings)

    def in_a_transaction() -> None:
        with transaction(log) as tx:
            tx.append(spark.range(3), "b")
            tx.overwrite(spark.range(2, 4), "a", "id < 3")

    with pytest.raises(DataFileError, match="do not match the filter of those that they replace, 1 of them"):
        overwrite(spark.range(2, 4), "a", "id < 3", log=log)
    with pytest.raises(DataFileError, match="do not match the filter of those that they replace, 1 of them"):
        in_a_transaction()
    assert files_below(settings) == there
    with transaction(log) as tx:
        tx.append(spark.range(3), "b")
        tx.overwrite(spark.range(1).where("false"), "a", "id < 3")
    assert (ids(spark, log, "a"), ids(spark, log, "b")) == ([3, 4], [0, 1, 2])
    with transaction(log) as tx:
        tx.overwrite(spark.range(8, 9), "a", "id = 3", check=False)
    assert ids(spark, log, "a") == [4, 8]


@pytest.mark.usefixtures("two_tables")
def test_transaction_when_it_fails_or_is_refused_then_none_of_it_is_there(
    spark: SparkSession, log: CommitLog, settings: Settings
) -> None:
    append(spark.range(10), "a", log=log)

    def does_not_fit() -> None:
        with transaction(log) as tx:
            tx.append(spark.range(3), "b")
            tx.append(spark.sql("SELECT 'x' AS id"), "a")

    def is_refused() -> None:
        with transaction(log) as tx:
            tx.append(spark.range(3), "b")
            tx.overwrite(spark.range(1), "a")
            delete(spark, "a", "id = 1", log=log)

    def changes_twice() -> None:
        with transaction(log) as tx:
            tx.update(spark, "a", {"id": 7}, "id = 3")
            tx.delete(spark, "MAIN.A", "id = 2")

    with pytest.raises(DataFileError, match="column id"):
        does_not_fit()
    with pytest.raises(ProposalRejectedError, match="CONFLICT"):
        is_refused()
    with pytest.raises(ValueError, match="one call, or into two transactions"):
        changes_twice()
    assert ids(spark, log, "b") == []
    assert ids(spark, log, "a") == [0, *range(2, 10)]
    assert len(files_below(settings)) == 2
    with transaction(log) as tx:
        pass
    assert tx.outcome is None


@pytest.mark.usefixtures("two_tables")
def test_transaction_when_a_stream_repeats_a_batch_then_each_table_has_its_rows_once(
    spark: SparkSession, log: CommitLog, tmp_path: Path
) -> None:
    spark.range(4).coalesce(1).write.parquet(str(tmp_path / "feed"))

    def write(df: DataFrame, batch_id: int) -> None:
        with transaction(log, key=Key.of_batch(df, batch_id)) as tx:
            tx.append(df.where("id < 3"), "a")
            tx.append(df.where("id >= 2"), "b")

    def drain() -> None:
        feed = spark.readStream.schema("id long").parquet(str(tmp_path / "feed"))
        writer = feed.writeStream.foreachBatch(write).option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()

    def written() -> list[int]:
        outcomes = log.subscribe(follow=False)
        return [outcome.seq for outcome in outcomes if outcome.proposal is not None and outcome.proposal.changes]

    drain()
    before = written()
    # As if Spark had been killed after the commit and before it was noted in the checkpoint.
    (tmp_path / "checkpoint/commits/0").unlink()
    (tmp_path / "checkpoint/commits/.0.crc").unlink(missing_ok=True)
    drain()
    assert written() == before
    assert (ids(spark, log, "a"), ids(spark, log, "b")) == ([0, 1, 2], [2, 3])
    with pytest.raises(ConfigurationError, match="nightly-load"):
        Key.of_batch(spark.range(1), 0)


@pytest.mark.usefixtures("two_tables")
def test_transaction_when_a_later_run_of_the_query_has_begun_then_is_refused_and_its_files_go(
    spark: SparkSession, log: CommitLog, settings: Settings
) -> None:
    earlier = transaction(log, key=Key("spark:query", 0, run_id="one"))
    with transaction(log, key=Key("spark:query", 1, run_id="two")) as tx:
        tx.append(spark.range(1), "a")
    earlier.append(spark.range(5), "b")
    with pytest.raises(FencedError, match=r"the same streaming query \(its checkpoint\) into b"), earlier:
        pass
    assert (ids(spark, log, "a"), ids(spark, log, "b")) == ([0], [])
    assert len(files_below(settings)) == 1


def test_append_when_the_table_is_missing_then_says_how_to_create_it_or_does_in_the_same_commit(
    spark: SparkSession, log: CommitLog, settings: Settings
) -> None:
    df = spark.sql("SELECT 1L AS id, 'a' AS name, array(1, 2) AS list")
    with pytest.raises(TableNotFoundError, match=r"no table main\.new at snapshot \d+; append\(\.\.\., create=True\)"):
        append(df, "new", log=log)
    with pytest.raises(TableNotFoundError, match="create=True"):
        overwrite(df, "new", log=log)
    before = log.transaction().base_snapshot_id
    outcome = append(df, "new", log=log, create=True)
    assert outcome is not None
    assert outcome.snapshot_id == before + 1
    assert (outcome.row_count, outcome.file_count) == (1, 1)
    assert outcome.file_bytes == sum(path.stat().st_size for path in files_below(settings))
    append(df, "new", log=log, create=True)
    assert read(spark, "new", log=log).collect() == df.union(df).collect()
    with pytest.raises(DataFileError, match="column nothing: DuckLake has no type for Spark's void, cast it first"):
        append(spark.sql("SELECT NULL AS nothing"), "other", log=log, create=True)
    with pytest.raises(
        InvalidRequestError, match=r"no schema nowhere \(there is main\): tx\.create_schema\('nowhere'\)"
    ):
        append(df, "nowhere.new", log=log, create=True)


def test_append_when_two_create_the_table_then_the_later_appends_to_the_first_ones(
    spark: SparkSession, log: CommitLog, settings: Settings
) -> None:
    class Late(CommitLog):
        waits = True

        def commit(self, proposal, *, timeout_ms=None):  # type: ignore[no-untyped-def]
            if self.waits:
                self.waits = False
                append(spark.sql("SELECT 1L AS other, 5L AS id"), "new", log=log, create=True)
            return super().commit(proposal, timeout_ms=timeout_ms)

    with Late.connect(settings=settings) as late:
        append(spark.sql("SELECT 6L AS id, 2L AS other"), "new", log=late, create=True)
    log.wait_for_snapshot()
    assert ids(spark, log, "new") == [5, 6]
    assert len(files_below(settings)) == 2


def test_format_when_the_table_is_missing_then_create_table_creates_it_in_batch_and_stream(
    spark: SparkSession, log: CommitLog, settings: Settings, tmp_path: Path
) -> None:
    options = settings_given(settings)
    writer = spark.range(2).write.format("commitlog").options(**options).mode("append")
    with pytest.raises(PySparkException, match="createTable"):
        writer.option("table", "main.batch").save()
    writer.option("table", "main.batch").option("createTable", "true").save()
    spark.range(0).write.format("commitlog").options(**options, table="main.batch").mode("append").save()
    spark.range(3).write.parquet(str(tmp_path / "feed"))
    feed = spark.readStream.schema("id long").parquet(str(tmp_path / "feed")).writeStream.format("commitlog")
    feed = feed.options(**options, table="main.stream", createTable="true", checkpointLocation=str(tmp_path / "c"))
    feed.trigger(availableNow=True).start().awaitTermination()
    log.wait_for_snapshot()
    assert (ids(spark, log, "batch"), ids(spark, log, "stream")) == ([0, 1], [0, 1, 2])


@pytest.mark.usefixtures("two_tables")
def test_append_when_it_runs_then_its_jobs_say_what_they_are_for_and_the_description_is_put_back(
    spark: SparkSession, log: CommitLog
) -> None:
    context = spark.sparkContext
    context.setJobDescription("mine")
    try:
        with shown_as(spark, "append to", "main.a", 42):
            assert context.getLocalProperty("spark.job.description") == "commitlog: append to main.a at snapshot 42"
        append(spark.range(1), "a", log=log)
        assert context.getLocalProperty("spark.job.description") == "mine"
    finally:
        context.setLocalProperty("spark.job.description", None)
    store = spark._jsparkSession.sparkContext().statusStore()
    jobs = store.jobsList(None)
    descriptions = [jobs.apply(index).description() for index in range(jobs.size())]
    shown = [each.get() for each in descriptions if each.isDefined()]
    assert any(each.startswith("commitlog: append to main.a at snapshot") for each in shown)
