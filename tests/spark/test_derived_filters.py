"""What Spark makes of a filter, as far as the catalog can prove it of whole files."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

import commitlog.spark
from commitlog.domain.model import ColumnSpec, FilterOp, Predicate
from commitlog.domain.model.defining import build_column
from commitlog.spark.filters import Where
from commitlog.spark.reading.derived_filters import derived
from commitlog.testing import InMemoryCommitLog

COLUMNS = tuple(
    build_column(ColumnSpec(name, data_type), at)
    for at, (name, data_type) in enumerate(
        {
            "id": "int64",
            "small": "uint64",
            "name": "varchar",
            "day": "date",
            "price": "decimal(9,2)",
            "at": "timestamptz",
            "part": "float64",
            "flag": "boolean",
        }.items(),
        start=1,
    )
)


def said(spark: SparkSession, where: Where) -> tuple[set[tuple[str, str, str]], bool]:
    """The predicates but for those that only say that a value is there, and whether they are all."""
    predicates, is_all = derived(spark, where, COLUMNS)
    named = {
        (each.column, each.op.value, str(each.value)) for each in predicates if each.op is not FilterOp.IS_NOT_NULL
    }
    return named, is_all


def test_derived_when_conditions_are_of_one_column_and_plain_values_then_they_are_all(spark: SparkSession) -> None:
    assert said(spark, "ID >= 2 + 3 AND 7 > id") == ({("id", ">=", "5"), ("id", "<", "7")}, True)
    assert said(spark, "small < 5.5") == ({("small", "<", "6")}, True)
    assert said(spark, "name IN ('a', 'b\\'c') AND day >= '2024-1-5'") == (
        {("name", "in", "('a', \"b'c\")"), ("day", ">=", "2024-01-05")},
        True,
    )
    assert said(spark, [("price", "between", (1, 2)), ("flag", "=", True)]) == (
        {("price", ">=", "1.00"), ("price", "<=", "2.00"), ("flag", "=", "True")},
        True,
    )
    assert said(spark, "at >= '2024-01-01' AND at < TIMESTAMP '2024-01-02 00:00:00.5+02:00'") == (
        {("at", ">=", "2024-01-01T00:00:00Z"), ("at", "<", "2024-01-01T22:00:00.500Z")},
        True,
    )
    assert derived(spark, "name IS NULL", COLUMNS) == ((Predicate("name", FilterOp.IS_NULL),), True)


@pytest.mark.parametrize(
    ("where", "known"),
    [
        ("id > 5 AND id % 2 = 0", {("id", ">", "5")}),
        ("id > 5 AND rand() < 0.5", {("id", ">", "5")}),
        ("id > 5 AND name LIKE 'a%b'", {("id", ">", "5")}),
        ("id = 5 OR name = 'a'", set()),
        ("name = 5", set()),
        ([("name", "=", 5)], set()),
        ("small * 2 < 5", set()),
        ("at < '1900-01-01'", set()),
        ("part > 0.5", set()),
        ("day < '1500-01-01'", set()),
        ("true", set()),
        ("false", set()),
        ("NOT (id = 5)", set()),
    ],
)
def test_derived_when_there_is_more_to_it_then_says_so(
    spark: SparkSession, where: Where, known: set[tuple[str, str, str]]
) -> None:
    assert said(spark, where) == (known, False)


def test_derived_when_a_subquery_keeps_rows_out_then_says_so(spark: SparkSession) -> None:
    _, is_all = derived(spark, "id > 5 AND id IN (SELECT id FROM range(9))", COLUMNS)
    assert not is_all
    assert derived(spark, None, COLUMNS) == ((), False)


@pytest.fixture
def new_york(spark: SparkSession) -> Iterator[None]:
    """The zone of the session and of the JVM, whose offset before 1883 was of seconds."""
    zone = spark._jvm.java.util.TimeZone
    before = zone.getDefault(), spark.conf.get("spark.sql.session.timeZone")
    zone.setDefault(zone.getTimeZone("America/New_York"))
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    yield
    zone.setDefault(before[0])
    spark.conf.set("spark.sql.session.timeZone", before[1])


@pytest.mark.usefixtures("new_york")
def test_rows_when_moments_are_of_a_zones_local_mean_time_then_only_those_that_match_are_read_and_deleted(
    spark: SparkSession, tmp_path: Path
) -> None:
    t = commitlog.spark.table(spark, "main.moments", log=InMemoryCommitLog(data_path=tmp_path / "lake"))
    t.append(spark.sql("SELECT TIMESTAMP '1850-07-01 00:00:00' AS at"), create=True)
    assert t.read(where="at = '1850-07-01 00:00:00'").count() == 1
    t.delete("at < '1850-06-30 23:57:00'")
    assert t.read().count() == 1


@pytest.mark.usefixtures("new_york")
def test_rows_when_a_datetime_without_a_zone_is_no_moment_then_is_the_same_in_all_zones(
    spark: SparkSession, tmp_path: Path
) -> None:
    t = commitlog.spark.table(spark, "main.visits", log=InMemoryCommitLog(data_path=tmp_path / "lake"))
    for hour in (10, 14):
        t.append(spark.sql(f"SELECT {hour} AS hour, TIMESTAMP_NTZ '2026-01-05 {hour}:00:00' AS at"), create=True)
    ten, noon = datetime(2026, 1, 5, 10), datetime(2026, 1, 5, 12)
    wheres: list[Where] = [("at", "==", ten), ("AT", "IN", [ten]), ("at", "between", (ten, noon)), ("at", "<", noon)]
    for where in wheres:
        assert [row.hour for row in t.read(where=where).collect()] == [10], where
    t.delete(("at", "<", noon))
    assert [row.hour for row in t.read().collect()] == [14]


def test_read_when_moments_are_asked_for_then_only_files_that_may_have_them_are_read(
    spark: SparkSession, tmp_path: Path
) -> None:
    t = commitlog.spark.table(spark, "main.moments", log=InMemoryCommitLog(data_path=tmp_path / "lake"))
    for day in (1, 2, 3):
        t.append(spark.sql(f"SELECT {day} AS day, TIMESTAMP '2026-01-0{day} 10:00:00Z' AS at"), create=True)
    second = datetime(2026, 1, 2, 10, tzinfo=UTC)
    wheres: list[Where] = [
        "at > '2026-01-01T22:00:00Z' AND at < TIMESTAMP '2026-01-02 13:00:00+02:00'",
        "at IN (TIMESTAMP '2026-01-02 11:00:00+01:00')",
        sf.col("at") == sf.lit(second),
        ("at", "=", second),
        [("at", ">", "2026-01-01T12:00:00Z"), ("at", "<", "2026-01-03T09:00:00Z")],
    ]
    for where in wheres:
        found = t.read(where=where)
        assert (len(found.inputFiles()), [row.day for row in found.collect()]) == (1, [2]), where
    outcome = t.delete("at < TIMESTAMP '2026-01-02 00:00:00Z'")
    assert outcome is not None
    assert [row.day for row in t.read().orderBy("day").collect()] == [2, 3]
