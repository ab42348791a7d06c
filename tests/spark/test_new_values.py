"""Values that an update or a merge gives columns: SQL, Columns and plain ones, everywhere alike."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from people import all_of, rows
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf
from sessions import session_with

import commitlog.spark
from commitlog.spark import SparkTable
from commitlog.spark.changing import source_keys
from commitlog.testing import InMemoryCommitLog


def test_update_when_values_are_texts_then_takes_them_as_sql(people_table: SparkTable) -> None:
    t = people_table
    t.update("id = 1", {"name": "upper(concat(name, '!'))", "age": "age + 1"})
    t.update("id = 2", {"name": sf.lit("upper(name)"), "age": 40})
    t.update("id = 3", {"name": "'three'", "age": None})
    assert all_of(t) == [(1, "N1!", 2), (2, "upper(name)", 40), (3, "three", None)]


def test_merge_when_values_are_texts_then_takes_them_as_sql_in_every_clause(
    spark: SparkSession, people_table: SparkTable
) -> None:
    t = people_table
    source = rows(spark, 2, 9).withColumn("name", sf.lit("new"))
    (
        t.merge(source, on="id")
        .when_matched_update(set={"name": "source.name", "age": "target.age + source.age"})
        .when_not_matched_insert(values={"id": "source.id", "name": "concat(source.name, '!')", "age": 7})
        .when_not_matched_by_source_update("target.id = 1", {"name": "upper(target.name)", "age": sf.lit(0)})
        .commit()
    )
    assert all_of(t) == [(1, "N1", 0), (2, "new", 4), (3, "n3", 3), (9, "new!", 7)]


def test_merge_when_case_tells_names_apart_in_spark_then_takes_its_columns_by_name_all_the_same(
    spark: SparkSession, people_table: SparkTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_keys, "ROWS_MIN", 1)
    source = spark.range(2, 5).selectExpr("id AS ID", "'new' AS Name")
    with session_with(spark, "spark.sql.caseSensitive", "true"):
        people_table.merge(source, on="Id").when_matched_update().when_not_matched_insert().commit()
    assert all_of(people_table) == [(1, "n1", 1), (2, "new", 2), (3, "new", 3), (4, "new", None)]


def test_merge_when_another_column_of_its_source_differs_by_case_alone_then_takes_the_one_that_is_named(
    spark: SparkSession, people_table: SparkTable
) -> None:
    with session_with(spark, "spark.sql.caseSensitive", "true"):
        source = spark.sql("SELECT 1L AS id, 'other' AS ID, 2L AS Id")
        for on, value in (("id", "by id"), ("Id", "by Id")):
            people_table.merge(source, on=on).when_matched_update(set={"name": sf.lit(value)}).commit()
    assert all_of(people_table) == [(1, "by id", 1), (2, "by Id", 2), (3, "n3", 3)]


@pytest.mark.parametrize("text", ["Boston", "New York", ""])
def test_update_or_merge_when_a_text_is_no_sql_then_says_how_to_write_text_and_changes_nothing(
    spark: SparkSession, people_table: SparkTable, text: str
) -> None:
    merge = people_table.merge(rows(spark, 2, 9), on="id")
    for change in (
        lambda: people_table.update("id = 1", {"name": text}),
        merge.when_matched_update(set={"name": text}).commit,
        merge.when_not_matched_insert(values={"name": text}).commit,
        merge.when_not_matched_by_source_update(set={"name": text}).commit,
    ):
        with pytest.raises(AnalysisException) as raised:
            change()
        assert "for the text itself write sf.lit('New York')" in raised.value.__notes__[0]
    assert all_of(people_table) == [(1, "n1", 1), (2, "n2", 2), (3, "n3", 3)]


def test_update_when_values_are_of_python_then_stores_them(spark: SparkSession, tmp_path: Path) -> None:
    t = commitlog.spark.table(spark, "main.days", log=InMemoryCommitLog(data_path=tmp_path / "lake"))
    t.append(spark.sql("SELECT 1 AS id, DATE '2026-01-01' AS day, true AS is_late"), create=True)
    t.update(True, {"day": date(2026, 3, 2), "is_late": False})
    assert all_of(t) == [(1, date(2026, 3, 2), False)]
