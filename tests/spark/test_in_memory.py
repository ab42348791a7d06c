"""A user's Spark jobs on a log in memory: no broker, no catalog."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from people import ids_of, rows
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.util import inheritable_thread_target
from sessions import session_with

import commitlog.spark
from commitlog.client import CommitLog, Transaction
from commitlog.domain.model import ColumnSpec
from commitlog.domain.model.buckets import bucket_of
from commitlog.domain.model.types import parse_type
from commitlog.errors import (
    ConfigurationError,
    DataFileError,
    FencedError,
    InvalidRequestError,
    OutcomeUnknownError,
    ProposalRejectedError,
    ProposalTooLargeError,
)
from commitlog.spark import SparkTable, connection, create_views, outcomes, stream_into, transaction, verify
from commitlog.spark.changing import matching, row_replacement, source_keys
from commitlog.spark.changing.source_size import is_kept_small
from commitlog.spark.connection import catalog_of
from commitlog.spark.reading.scan import scan_at
from commitlog.spark.writing import column_fit, parquet_files
from commitlog.spark.writing.arrow_files import write_batches
from commitlog.spark.writing.key import Key
from commitlog.testing import InMemoryCommitLog

TABLE = "main.people"


def test_spark_job_when_the_log_is_in_memory_then_does_what_it_does_on_a_real_one(
    spark: SparkSession, tmp_path: Path
) -> None:
    log = InMemoryCommitLog(data_path=tmp_path / "lake")
    t = commitlog.spark.table(spark, TABLE, log=log)
    first = t.append(rows(spark, 1, 2, 3, 4), key="load:1", create=True)
    assert first is not None
    assert t.append(rows(spark, 1, 2, 3, 4), key="load:1").is_repeat
    never = spark.range(1).select("id", sf.raise_error(sf.lit("it was computed")).alias("name"))
    again = t.append(never, key="load:1")
    assert (again.is_repeat, again.snapshot_id, again.row_count) == (True, first.snapshot_id, 4)
    t.delete("id = 2")
    t.update(("id", "=", 3), {"age": 99})
    t.merge(rows(spark, 4, 9), on="id").when_matched_delete().when_not_matched_insert().commit()
    assert [(row.id, row.age) for row in t.read().orderBy("id").collect()] == [(1, 1), (3, 99), (9, 9)]
    assert ids_of(t.read(first.snapshot_id)) == [1, 2, 3, 4]
    t.compact(rewrite_all=True)
    assert ids_of(t.read(where="age > 50")) == [3]
    with transaction(log) as tx:
        tx.append(rows(spark, 20), TABLE)
    assert t.history().count() == len(log.outcomes) - [each.verdict.value for each in log.outcomes].count("DUPLICATE")
    t.append(rows(spark, 21))
    appended = log.outcomes[-1].snapshot_id
    assert appended is not None
    blind = catalog_of(log).only_blind_appends
    table_id = log.table(TABLE).definition.table_id
    assert blind(table_id, after=appended - 1, upto=appended)
    assert not blind(table_id, after=appended - 2, upto=appended)
    create_views(spark, log=log)
    assert spark.table("people").count() == 5
    assert log.outcomes[-1].verdict == "COMMITTED"


@pytest.mark.parametrize("is_unknown", [False, True])
def test_transaction_when_its_block_has_ended_then_it_cannot_be_begun_again(
    spark: SparkSession, tmp_path: Path, is_unknown: bool
) -> None:
    log = InMemoryCommitLog(data_path=tmp_path / "lake")
    commitlog.spark.table(spark, TABLE, log=log).append(rows(spark, 1), create=True)
    tx = transaction(log)
    if is_unknown:
        log.lose_next_answer()

    def end() -> None:
        with tx:
            tx.append(rows(spark, 2), TABLE)
            if not is_unknown:
                raise ZeroDivisionError

    with pytest.raises((OutcomeUnknownError, ZeroDivisionError)):
        end()
    with pytest.raises(InvalidRequestError, match="begin another one"), tx:
        pass
    assert ids_of(commitlog.spark.table(spark, TABLE, log=log).read()) == ([1, 2] if is_unknown else [1])


class OvertakenLog(InMemoryCommitLog):
    """Somebody else deletes what a job is to delete, under its key, just before it begins."""

    was_overtaken = False

    def transaction(self, **options: Any) -> Transaction:
        if options.get("writer_seq") is not None and not self.was_overtaken:
            self.was_overtaken = True
            self.table(TABLE).delete("id = 2", key="cleanup:1")
        return super().transaction(**options)


def test_delete_when_another_run_has_just_committed_its_key_then_is_answered_as_that(
    spark: SparkSession, tmp_path: Path
) -> None:
    log = OvertakenLog(data_path=tmp_path / "lake")
    t = commitlog.spark.table(spark, TABLE, log=log)
    t.append(rows(spark, 1, 2), create=True)
    outcome = t.delete("id = 2", key="cleanup:1")
    assert outcome is not None
    assert (outcome.is_repeat, outcome.snapshot_id) == (True, log.head_snapshot_id())
    assert t.delete("id = 2", key="cleanup:2") is None


def test_compact_when_its_writing_fails_then_nothing_is_left_of_it(
    people_table: SparkTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, save = sorted((tmp_path / "lake").rglob("*")), parquet_files.save

    def save_and_fail(*given: Any) -> None:
        save(*given)
        raise ZeroDivisionError

    monkeypatch.setattr(parquet_files, "save", save_and_fail)
    with pytest.raises(ZeroDivisionError):
        people_table.compact(rewrite_all=True)
    assert sorted((tmp_path / "lake").rglob("*")) == before


def test_append_when_a_task_is_writing_that_another_was_faster_than_then_its_file_is_not_taken(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save = parquet_files.save

    def save_beside_a_slower_task(writer, session, schema, directory):  # type: ignore[no-untyped-def]
        save(writer, session, schema, directory)
        attempt = Path(directory, "_temporary", "0", "_temporary", "attempt_1")
        attempt.mkdir(parents=True)
        (committed,) = Path(directory).glob("*.parquet")
        shutil.copy(committed, attempt)

    monkeypatch.setattr(parquet_files, "save", save_beside_a_slower_task)
    t = commitlog.spark.table(spark, TABLE, log=InMemoryCommitLog(data_path=tmp_path / "lake"))
    t.append(rows(spark, 1, 2), create=True)
    assert ids_of(t.read()) == [1, 2]


def test_overwrite_when_plans_are_shown_short_then_knows_which_rows_its_own_were_made_of(
    spark: SparkSession, tmp_path: Path
) -> None:
    t = commitlog.spark.table(spark, TABLE, log=InMemoryCommitLog(data_path=tmp_path / "lake"))
    t.append(rows(spark, 1, 2), create=True)
    own = t.read().where("id < 2")
    t.append(rows(spark, 3))
    with session_with(spark, "spark.sql.maxPlanStringLength", "10"):
        with pytest.raises(ProposalRejectedError):
            t.overwrite(own)
        assert spark.conf.get("spark.sql.maxPlanStringLength") == "10"
    assert ids_of(t.read()) == [1, 2, 3]


def test_rows_when_zero_is_negative_then_are_found_by_zero(spark: SparkSession, tmp_path: Path) -> None:
    t = commitlog.spark.table(spark, TABLE, log=InMemoryCommitLog(data_path=tmp_path / "lake"))
    # The same numbers over and over, of which Parquet makes a dictionary.
    t.append(spark.sql("SELECT id, IF(id < 8, -0.0D, 1.5D) AS change FROM range(10)").coalesce(1), create=True)
    assert ids_of(t.read(where="change = 0")) == [*range(8)]
    t.delete(("change", "=", 0.0))
    assert ids_of(t.read()) == [8, 9]


def test_rows_when_readers_would_not_agree_on_a_value_then_are_refused_and_those_there_are_written_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = InMemoryCommitLog(data_path=tmp_path / "lake")
    with log.transaction() as tx:
        tx.create_table(
            TABLE,
            {
                "id": "int64",
                "name": "varchar",
                "told": "json",
                "more": "list(json)",
                "at": "timestamp_s",
                "ms": "timestamp_ms",
            },
        )
    t = commitlog.spark.table(spark, TABLE, log=log)
    second = "TIMESTAMP_NTZ '2026-01-01 00:00:01"
    values = {
        "id": "1L",
        "told": "'{\"a\": [1]}'",
        "more": "array('1', NULL)",
        "at": f"{second}'",
        "ms": f"{second}.123'",
    }
    good = spark.range(1).selectExpr(*[f"{value} AS {name}" for name, value in values.items()])
    t.append(good)
    bad = {"told": "'1 2'", "more": "array('1', '{\"a\":')", "at": f"{second}.5'", "ms": f"{second}.1234'"}
    for name, value in bad.items():
        with pytest.raises(Exception, match=r"the value .* (is no JSON|has parts of a)"):
            t.append(good.withColumn(name, sf.expr(value)))
    with pytest.raises(Exception, match=r"the value .* is no JSON"):
        t.update("id = 1", {"told": "'x'"})
    torn = good.select("id", sf.expr("CAST(X'61C328' AS STRING)").alias("name"))
    with pytest.raises(Exception, match="INVALID_UTF8_STRING"):
        t.append(torn)
    good_text, torn_text = "'a'", "CAST(X'61C328' AS STRING)"
    for value in ("array(NULL, {})", "map('k', {})", "map({}, 'v')", "array(named_struct('text', {}))"):
        given = spark.range(1).selectExpr(f"{value.format(good_text)} AS texts", f"{value.format(torn_text)} AS torn")
        of_this = commitlog.spark.table(spark, f"main.n{len(log.outcomes)}", log=log)
        of_this.append(given.select("texts"), create=True)
        assert of_this.read().collect() == given.select("texts").collect()
        with pytest.raises(Exception, match="INVALID_UTF8_STRING"):
            of_this.append(given.selectExpr("torn AS texts"))
    fitted = {"id": pa.array([1]), "name": pa.array([b"a\xc3("]).view(pa.string())}
    with pytest.raises(DataFileError, match=r"column name .* Invalid UTF8"):
        write_batches(iter(pa.table(fitted).to_batches()), log.table(TABLE).definition, str(tmp_path / "lake" / "torn"))
    with monkeypatch.context() as patch:
        patch.setattr(column_fit, "_READABLE", {})
        t.append(good.selectExpr("2L AS id", "'x' AS told"))
    t.update("id = 2", {"id": "3L"})
    t.compact(rewrite_all=True)
    assert [(row.id, row.told) for row in t.read().orderBy("id").collect()] == [(1, '{"a": [1]}'), (3, "x")]


def test_merge_when_one_of_its_writes_fails_then_the_files_of_the_other_are_gone_too(
    spark: SparkSession, tmp_path: Path
) -> None:
    log = InMemoryCommitLog(data_path=tmp_path / "lake")
    t = commitlog.spark.table(spark, TABLE, log=log)
    t.append(rows(spark, 1, 2, 3, 4), create=True)
    there = {*(tmp_path / "lake").rglob("*.parquet")}
    merge = t.merge(rows(spark, 4, 9), on="id").when_matched_update()
    with pytest.raises(Exception, match="no such row"):
        merge.when_not_matched_insert(values={"id": "source.id", "age": "raise_error('no such row')"}).commit()
    assert {*(tmp_path / "lake").rglob("*.parquet")} == there
    assert ids_of(t.read()) == [1, 2, 3, 4]


def test_merge_when_every_row_of_the_source_matches_then_writes_nothing_for_inserts(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = InMemoryCommitLog(data_path=tmp_path / "lake")
    t = commitlog.spark.table(spark, TABLE, log=log)
    t.append(rows(spark, 1, 1, 2, 3), create=True)
    written: list[object] = []
    write = row_replacement.write_few
    monkeypatch.setattr(row_replacement, "write_few", lambda *given: written.append(given) or write(*given))
    unlike = rows(spark, *range(90, 99)).repartition(3)
    upsert = t.merge(rows(spark, 1, 3).union(unlike).where("id < 4"), on="id")
    upsert.when_matched_update("source.id = 1", set={"age": 7}).when_not_matched_insert().commit()
    assert len(written) == 1
    # As many rows of the table match as the source has, and one of those is new nevertheless.
    t.merge(rows(spark, 1, 5), on="id").when_matched_update(
        set={"age": "target.age + 1"}
    ).when_not_matched_insert().commit()
    assert len(written) == 3
    assert [(row.id, row.age) for row in t.read().orderBy("id").collect()] == [(1, 8), (1, 8), (2, 2), (3, 3), (5, 5)]


def test_append_when_the_session_leaves_an_hour_out_then_its_times_are_in_their_buckets_nevertheless(
    spark: SparkSession, tmp_path: Path
) -> None:
    log = InMemoryCommitLog(data_path=tmp_path / "lake")
    t = commitlog.spark.table(spark, TABLE, log=log)
    moments = ["1969-12-31 23:59:59.999999", "2024-03-10 02:30:00.25"]
    rows = " UNION ALL ".join(f"SELECT TIMESTAMP_NTZ '{at}' AS there, TIMESTAMP_LTZ '{at}Z' AS at" for at in moments)
    with session_with(spark, "spark.sql.session.timeZone", "America/New_York"):
        t.append(spark.sql(rows), create=True, partition_by=["bucket(1000, there)", "bucket(1000, at)"])
    kinds = {"timestamp": "", "timestamptz": "+00"}
    buckets = {tuple(bucket_of(parse_type(kind), at + zone, 1000) for kind, zone in kinds.items()) for at in moments}
    files = scan_at(catalog_of(log), TABLE, log.head_snapshot_id()).files
    assert {tuple(map(int, each.partition_values or ())) for each in files} == buckets


def test_table_when_its_session_takes_quoted_names_for_patterns_then_does_what_it_does_else(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_keys, "ROWS_MIN", 1)
    log = InMemoryCommitLog(data_path=tmp_path / "lake")
    t = commitlog.spark.table(spark, TABLE, log=log)
    columns = "id AS `id (own)`, 10 * id AS `.*`, timestamp_seconds(id) AS `at|by`"
    with session_with(spark, "spark.sql.parser.quotedRegexColumnNames", "true"):
        t.append(spark.range(9).selectExpr(*columns.split(", ")), create=True, partition_by=["day(at|by)"])
        t.update(("id (own)", "=", 1), {".*": sf.lit(11)})
        t.delete(("id (own)", "in", [2, 3]))
        source = spark.range(4, 11).selectExpr("id AS `id (own)`", "id AS `.*`")
        is_early = sf.col("target.`at|by`") < sf.timestamp_seconds(sf.lit(6))
        t.merge(source, on="id (own)").when_matched_update(is_early).when_not_matched_insert().commit()
        t.compact(rewrite_all=True, z_order_by=["id (own)", "at|by"])
        plain = commitlog.spark.table(spark, "main.plain", log=log)
        plain.append(spark.range(3).selectExpr("id", "id AS id_1"), create=True)
        plain.merge(spark.range(1, 4).selectExpr("id", "9L AS id_1"), on="id").when_matched_update().commit()
        assert {tuple(row) for row in plain.read().collect()} == {(0, 0), (1, 9), (2, 9)}
        found = {row["id (own)"]: row[".*"] for row in t.read().collect()}
    assert found == {0: 0, 1: 11, 4: 4, 5: 5, 6: 60, 7: 70, 8: 80, 9: 9, 10: 10}


@pytest.mark.parametrize("in_columns", ["true", "false"])
def test_read_when_its_rows_are_written_as_plain_parquet_then_these_files_are_read_as_any_others(
    spark: SparkSession, tmp_path: Path, in_columns: str
) -> None:
    log = InMemoryCommitLog(data_path=tmp_path / "lake")
    t, other = (commitlog.spark.table(spark, name, log=log) for name in ("main.left", "main.right"))
    rows = spark.sql("SELECT 7L AS ident, array(named_struct('n', 8L)) AS items, named_struct('n', 9L) AS item")
    t.append(rows, create=True)
    other.append(spark.sql("SELECT 7L AS id, 1L AS amount"), create=True)
    with log.transaction() as tx:
        tx.alter("main.left").rename_column("ident", "id").add_column("region", "varchar", default="eu")
    with session_with(spark, "spark.sql.parquet.enableVectorizedReader", in_columns):
        joined = (
            t.read().join(other.read(), "id").selectExpr("id", "id AS key", "items[0].n", "item", "region", "amount")
        )
        joined.write.parquet(str(tmp_path / "joined"))
        again = spark.read.parquet(str(tmp_path / "joined")).collect()
        spark.range(1).write.parquet(str(tmp_path / "plain"))
        plain = spark.read.schema(t.read().schema).parquet(str(tmp_path / "plain")).collect()
    assert again == [(7, 7, 8, (9,), "eu", 1)]
    assert plain == [(0, None, None, None)]


def test_table_when_a_session_ignores_files_that_are_missing_then_those_of_tables_are_missed_nevertheless(
    spark: SparkSession, tmp_path: Path
) -> None:
    log = InMemoryCommitLog(data_path=tmp_path / "lake")
    t = commitlog.spark.table(spark, TABLE, log=log)
    t.append(rows(spark, 1, 2), create=True)
    [lost] = (tmp_path / "lake").rglob("*.parquet")
    lost.rename(lost.with_suffix(".lost"))
    with session_with(spark, "spark.sql.files.ignoreMissingFiles", "true"):
        for work in (t.read().count, t.merge(rows(spark, 2), on="id").when_not_matched_insert().commit):
            with pytest.raises(Exception, match="does not exist"):
                work()


def test_overwrite_when_new_rows_leave_out_a_column_of_the_filter_then_checks_what_they_will_have_there(
    spark: SparkSession, tmp_path: Path
) -> None:
    log = InMemoryCommitLog(data_path=tmp_path / "lake")
    with log.transaction() as tx:
        region = ColumnSpec("region", "varchar", default="eu")
        tx.create_table(TABLE, [ColumnSpec("id", "int64"), region, ColumnSpec("note", "varchar")])
    t = commitlog.spark.table(spark, TABLE, log=log)
    t.append(spark.sql("SELECT 1L AS id, 'us' AS region UNION ALL SELECT 2L, 'eu'"))
    t.overwrite(spark.range(3, 4), where="region = 'eu' AND note IS NULL")
    assert {tuple(row) for row in t.read().collect()} == {(1, "us", None), (3, "eu", None)}
    with pytest.raises(DataFileError, match="1 of them"):
        t.overwrite(spark.range(5, 6), where=("region", "=", "us"))
    assert ids_of(t.read()) == [1, 3]


def test_table_when_two_of_its_columns_are_one_name_to_the_session_then_says_so_and_hides_no_other_table(
    spark: SparkSession, tmp_path: Path
) -> None:
    log = InMemoryCommitLog(data_path=tmp_path / "lake")
    t, other = (commitlog.spark.table(spark, name, log=log) for name in ("main.ways", "main.others"))
    with log.transaction() as tx:
        tx.create_table("main.ways", {"id": "int64", "Ä": "int64", "ä": "int64"})
    other.append(rows(spark, 1), create=True)
    for work in (t.read, lambda: t.append(spark.range(1)), lambda: t.delete("id = 1"), lambda: t.compact()):
        with pytest.raises(DataFileError, match=r"columns Ä and ä .* set spark.sql.caseSensitive=true"):
            work()
    assert create_views(spark, log=log) == {"main.others": "others"}
    with session_with(spark, "spark.sql.caseSensitive", "true"):
        t.append(spark.sql("SELECT 1L AS id, 2L AS `Ä`, 3L AS `ä`"))
        t.update("`ä` = 3", {"Ä": "`ä` + 4"})
        assert t.read().collect() == [(1, 7, 3)]


@pytest.mark.parametrize("order", [{}, {"z_order_by": ["id", "_commitlog_morton"]}])
def test_compact_when_a_column_is_called_as_the_place_on_the_curve_then_its_values_stay(
    spark: SparkSession, tmp_path: Path, order: dict[str, list[str]]
) -> None:
    t = commitlog.spark.table(spark, TABLE, log=InMemoryCommitLog(data_path=tmp_path / "lake"))
    t.append(spark.range(9).selectExpr("id", "10 * id AS `_commitlog_morton`"), create=True)
    t.compact(rewrite_all=True, **order)
    assert {tuple(row) for row in t.read().collect()} == {(each, 10 * each) for each in range(9)}


def test_history_when_its_session_reserves_words_of_sql_then_is_told_nevertheless(
    spark: SparkSession, tmp_path: Path
) -> None:
    t = commitlog.spark.table(spark, TABLE, log=InMemoryCommitLog(data_path=tmp_path / "lake"))
    t.append(rows(spark, 1), create=True)
    with session_with(spark, "spark.sql.ansi.enforceReservedKeywords", "true"):
        assert [row.snapshot_id for row in t.history().collect()] == [1]


def test_append_when_a_partition_is_of_a_day_that_no_catalog_has_then_is_of_any_partition(
    spark: SparkSession, tmp_path: Path
) -> None:
    log = InMemoryCommitLog(data_path=tmp_path / "lake")
    t = commitlog.spark.table(spark, TABLE, log=log)
    for day in ("2024-01-31", "10000-01-01"):
        t.append(spark.sql(f"SELECT DATE '{day}' AS day"), create=True, partition_by=["day"])
    files = scan_at(catalog_of(log), TABLE, log.head_snapshot_id()).files
    assert [each.partition_values for each in files] == [("2024-01-31",), None]


def test_compact_when_it_sorts_files_of_any_partition_then_by_columns_of_whatever_name(
    spark: SparkSession, tmp_path: Path
) -> None:
    log = InMemoryCommitLog(data_path=tmp_path / "lake")
    t = commitlog.spark.table(spark, TABLE, log=log)
    t.append(spark.sql("SELECT id % 2 AS part, 9 - id AS `a.b` FROM range(10)").coalesce(1), create=True)
    with log.transaction() as tx:
        tx.alter(TABLE).set_partition_by(["part"])
    t.compact(rewrite_all=True, sort_by=["a.b"])
    files = scan_at(catalog_of(log), TABLE, log.head_snapshot_id()).files
    found = {each.partition_values: pq.read_table(each.path, partitioning=None)["a.b"].to_pylist() for each in files}
    assert found == {("0",): [1, 3, 5, 7, 9], ("1",): [0, 2, 4, 6, 8]}


def test_append_when_it_has_more_partitions_than_a_proposal_names_then_says_how_many_and_what_to_do(
    spark: SparkSession, tmp_path: Path
) -> None:
    log = InMemoryCommitLog(data_path=tmp_path / "lake", proposal_bytes_max=2048)
    t = commitlog.spark.table(spark, TABLE, log=log)
    with pytest.raises(ProposalTooLargeError) as refused:
        t.append(rows(spark, *range(20)), create=True, partition_by=["id"])
    assert "20 files of 20 partitions" in refused.value.__notes__[0]
    assert not [*(tmp_path / "lake").rglob("*.parquet")]


def test_delete_when_files_have_more_rows_than_the_driver_is_told_of_at_once_then_looks_through_some_at_a_time(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = InMemoryCommitLog(data_path=tmp_path / "lake")
    t = commitlog.spark.table(spark, TABLE, log=log)
    for first in range(0, 20, 4):
        t.append(rows(spark, *range(first, first + 4)), create=True)
    monkeypatch.setattr(matching, "ROWS_AT_ONCE", 9)
    at_once, positions = [], matching.positions
    monkeypatch.setattr(matching, "positions", lambda rows: at_once.append(len(rows.inputFiles())) or positions(rows))
    t.delete("id % 3 = 0")
    assert len(at_once) > 2
    assert ids_of(t.read()) == [each for each in range(20) if each % 3]


def test_source_of_a_merge_when_it_was_computed_then_goes_by_its_size_not_by_that_of_what_it_is_made_of(
    spark: SparkSession,
) -> None:
    with session_with(spark, "spark.sql.autoBroadcastJoinThreshold", "4000"):
        sizes = {}
        for rest in (0, 1):
            kept = spark.range(10_000).where(f"id < 5 OR {rest} = 1").localCheckpoint()
            sizes[kept.count()] = is_kept_small(kept)
    assert sizes == {5: True, 10_000: False}


def test_read_when_rows_are_deleted_then_spark_makes_no_object_to_tell_where_a_row_stands(
    spark: SparkSession, tmp_path: Path
) -> None:
    log = InMemoryCommitLog(data_path=tmp_path / "lake")
    t = commitlog.spark.table(spark, TABLE, log=log)
    t.append(rows(spark, *range(9)), create=True)
    t.delete("id % 4 = 1")
    found = t.read()
    assert ids_of(found) == [0, 2, 3, 4, 6, 7, 8]
    plan = found._jdf.queryExecution().executedPlan().toString()
    assert "named_struct" not in plan


def test_stream_when_the_log_is_in_memory_then_each_batch_once_and_inlined_rows_are_read(
    spark: SparkSession, tmp_path: Path
) -> None:
    log = InMemoryCommitLog(data_path=tmp_path / "lake")
    (tmp_path / "feed").mkdir()
    feed = spark.readStream.schema("id bigint, name string, age int").parquet(str(tmp_path / "feed"))
    write = stream_into(TABLE, log=log, create=True)

    def write_planned(batch: DataFrame, batch_id: int) -> None:
        # By this a batch of two drivers has the same rows, though a run's epoch is opened no sooner.
        assert (tmp_path / "checkpoint" / "offsets" / str(batch_id)).exists()
        write(batch, batch_id)

    writer = feed.writeStream.foreachBatch(write_planned)
    start = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start
    for number in range(2):
        pq.write_table(rows(spark, number).toArrow(), tmp_path / "feed" / f"{number}.parquet")
        start().awaitTermination()
    assert ids_of(commitlog.spark.table(spark, TABLE, log=log).read()) == [0, 1]
    with log.transaction() as tx:
        tx.create_table("main.keyed", {"id": "int64", "data": "blob"}, primary_key=["id"])
    log.table("main.keyed").insert([{"id": 1, "data": b"a\x00\\"}])
    found = commitlog.spark.table(spark, "main.keyed", log=log).read().collect()
    assert [(row.id, bytes(row.data)) for row in found] == [(1, b"a\x00\\")]


def test_stream_when_its_batch_goes_to_several_tables_at_once_then_the_threads_are_to_be_the_querys(
    spark: SparkSession, tmp_path: Path
) -> None:
    log = InMemoryCommitLog(data_path=tmp_path / "lake")
    spark.range(2).write.parquet(str(tmp_path / "feed"))
    writes = [stream_into(name, log=log, create=True) for name in ("main.a", "main.b")]

    def drain(as_here: Callable[[Any], Any]) -> None:
        def write(batch: DataFrame, batch_id: int) -> None:
            with ThreadPoolExecutor(2) as pool:
                for writing in [pool.submit(as_here(each), batch, batch_id) for each in writes]:
                    writing.result()

        writer = spark.readStream.schema("id bigint").parquet(str(tmp_path / "feed")).writeStream.foreachBatch(write)
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()

    with pytest.raises(StreamingQueryException, match=r"ConfigurationError: .*inheritable_thread_target"):
        drain(lambda write: write)
    drain(lambda write: inheritable_thread_target(spark)(write))
    for name in ("main.a", "main.b"):
        assert ids_of(commitlog.spark.table(spark, name, log=log).read()) == [0, 1]
    with pytest.raises(ConfigurationError, match="rows of no stream are appended"):
        writes[0](spark.range(1), 0)


def test_stream_when_its_batches_are_merged_and_appended_under_their_keys_then_one_run_commits_all(
    spark: SparkSession, tmp_path: Path
) -> None:
    log = InMemoryCommitLog(data_path=tmp_path / "lake")
    t = commitlog.spark.table(spark, TABLE, log=log)
    t.append(rows(spark, 1), create=True)
    for number in range(1, 4):
        rows(spark, number).write.mode("append").parquet(str(tmp_path / "feed"))

    def write(batch: DataFrame, batch_id: int) -> None:
        key = Key.of_batch(batch, batch_id)
        if batch_id % 2:
            t.append(batch.selectExpr("id + 10 AS id", "name", "age"), key=key)
        else:
            t.merge(batch, on="id").when_matched_update().when_not_matched_insert().commit(key=key)

    feed = spark.readStream.schema("id bigint, name string, age int").option("maxFilesPerTrigger", 1)
    writer = feed.parquet(str(tmp_path / "feed")).writeStream.foreachBatch(write)
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
    appended = [each for each in ids_of(t.read()) if each > 10]
    assert len(appended) == 1
    last = log.outcomes[-1].proposal
    assert last is not None
    with pytest.raises(FencedError, match="a later one runs the same streaming query"):
        t.append(rows(spark, 99), key=Key(last.writer_id.partition("@")[0], 9, epoch=0))


def test_stream_when_a_batch_comes_in_more_files_than_a_proposal_names_then_is_written_as_fewer(
    spark: SparkSession, tmp_path: Path
) -> None:
    log = InMemoryCommitLog(data_path=tmp_path / "lake", proposal_bytes_max=20_000)
    t = commitlog.spark.table(spark, TABLE, log=log)
    t.append(rows(spark, 0), create=True)
    spark.range(200).selectExpr("id", "'n' AS name", "1 AS age").write.parquet(str(tmp_path / "feed"))
    feed = spark.readStream.schema("id bigint, name string, age int").parquet(str(tmp_path / "feed"))
    writer = feed.repartition(120).writeStream.foreachBatch(stream_into(TABLE, log=log))
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
    assert t.read().count() == 201


def test_merge_when_its_keys_are_days_that_python_has_not_then_goes_by_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    t = commitlog.spark.table(spark, "main.days", log=InMemoryCommitLog(data_path=tmp_path / "lake"))
    days = "SELECT DATE'-0044-03-15' AS day, {} AS x UNION ALL SELECT DATE'2026-03-01', {}"
    t.append(spark.sql(days.format(1, 2)), create=True)
    source = spark.sql(f"{days.format(7, 8)} UNION ALL SELECT DATE'+12000-01-01', 9")
    t.merge(source, on="day").when_matched_update().when_not_matched_insert().commit()
    assert sorted(tuple(each) for each in t.read().selectExpr("string(day)", "x").collect()) == [
        ("+12000-01-01", 9), ("-0044-03-15", 7), ("2026-03-01", 8),
    ]  # fmt: skip


def test_delete_when_its_day_is_of_an_early_year_then_finds_its_rows(spark: SparkSession, tmp_path: Path) -> None:
    t = commitlog.spark.table(spark, "main.days", log=InMemoryCommitLog(data_path=tmp_path / "lake"))
    t.append(spark.sql("SELECT DATE'0800-12-25' AS day UNION ALL SELECT DATE'2026-03-01'"), create=True)
    t.delete(("day", "in", [date(800, 12, 25), date(1, 1, 1)]))
    assert [each.day for each in t.read().collect()] == [date(2026, 3, 1)]


def test_rows_when_they_have_no_columns_then_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    t = commitlog.spark.table(spark, TABLE, log=InMemoryCommitLog(data_path=tmp_path / "lake"))
    none = spark.range(3).select()
    with pytest.raises(DataFileError, match="rows without columns make no table"):
        t.append(none, create=True)
    t.append(rows(spark, 1), create=True)
    for write in (t.append, t.overwrite):
        with pytest.raises(DataFileError, match=r"the rows do not fit table people: they have no columns"):
            write(none)
    assert ids_of(t.read()) == [1]


def test_changes_when_columns_have_their_names_or_types_that_spark_lacks_then_says_so(
    spark: SparkSession, tmp_path: Path
) -> None:
    log = InMemoryCommitLog(data_path=tmp_path / "lake")
    for name in ("rowid", "Change_Type"):
        t = commitlog.spark.table(spark, f"main.with_{name}", log=log)
        t.append(spark.sql(f"SELECT 1L AS id, 'x' AS {name}"), create=True)
        with pytest.raises(InvalidRequestError, match=f"has a column {name} of its own, and changes are told by"):
            t.changes(0)
    with log.transaction() as tx:
        tx.create_table("main.marked", {"id": "int64", "mark": "uuid", "size": "uint64"})
    log.append("main.marked", [{"id": 1, "mark": "00000000-0000-0000-0000-000000000001", "size": 2**64 - 1}])
    with pytest.warns(UserWarning, match=r"table main\.marked is read without mark \(uuid\)"):
        found = commitlog.spark.table(spark, "main.marked", log=log).changes(0)
    assert [(each.change_type, each.id, each.size) for each in found.collect()] == [("insert", 1, 2**64 - 1)]


def test_spark_job_when_its_tasks_would_need_the_log_then_says_what_runs_in_memory(
    spark: SparkSession, tmp_path: Path
) -> None:
    log = InMemoryCommitLog(data_path=tmp_path)
    for call in (outcomes, verify):
        with pytest.raises(InvalidRequestError, match=r"in memory is in this process alone.*commitlog up"):
            call(spark, log=log)


def test_read_when_no_row_is_deleted_then_its_scan_makes_nothing_but_the_columns(
    spark: SparkSession, tmp_path: Path
) -> None:
    t = commitlog.spark.table(spark, TABLE, log=InMemoryCommitLog(data_path=tmp_path / "lake"))
    t.append(rows(spark, 1, 2), create=True)

    def scanned() -> bool:
        return "row_index" in t.read()._jdf.queryExecution().executedPlan().toString()

    assert not scanned()
    t.delete("id = 1")
    assert scanned()
    assert ids_of(t.read()) == [2]


def test_connection_when_a_job_has_closed_it_then_the_next_one_has_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_logs", {})
    monkeypatch.setattr(CommitLog, "connect", lambda **_: InMemoryCommitLog())
    first = connection.connect({"log": "closed"})
    assert connection.connect({"log": "closed"}) is first
    first.close()
    with connection.connect({"log": "closed"}) as second:
        assert second.head_snapshot_id() == 0
