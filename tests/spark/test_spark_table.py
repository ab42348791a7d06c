"""A table's handle: all that is done with one table, by one object."""

from __future__ import annotations

from pathlib import Path

import pytest
from people import TABLE, all_of, committed, duck_ids, files_below, files_now, rows
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

import commitlog.spark
from commitlog.client import CommitLog
from commitlog.config import Settings
from commitlog.errors import DataFileError, InvalidRequestError, TableNotFoundError
from commitlog.spark import SparkTable
from commitlog.testing import InMemoryCommitLog


@pytest.fixture
def people_table(spark: SparkSession, log: CommitLog, people: None) -> SparkTable:
    return commitlog.spark.table(spark, "people", log=log)


def ids_of(table: SparkTable, version: int | None = None) -> list[int]:
    return sorted(row.id for row in table.read(version).collect())


def test_table_when_it_is_written_read_and_changed_then_each_snapshot_is_as_it_was(
    spark: SparkSession, log: CommitLog, settings: Settings, people_table: SparkTable
) -> None:
    t = people_table
    assert (t.name, repr(t), t.schema.simpleString()) == (
        TABLE, "SparkTable('main.people')", "struct<id:bigint,name:string,age:int>",
    )  # fmt: skip
    first = committed(t.append(rows(spark, 1, 2, 3, 4), key="nightly:2026-03-02"))
    again = t.append(rows(spark, 1, 2, 3, 4), key="nightly:2026-03-02")
    assert again is not None
    assert again.is_repeat
    t.delete(("id", "=", 1))
    t.delete(sf.col("id") == 2)
    t.delete("id = 3")
    t.append(rows(spark, 5))
    changed = committed(t.update(sf.col("id") == 5, {"age": "age + 1", "name": sf.lit("five")}))
    assert all_of(t) == [(4, "n4", 4), (5, "five", 6)]
    assert t.update(("id", "=", 99), {"age": 0}) is None
    assert ids_of(t, first) == [1, 2, 3, 4]
    assert duck_ids(settings, changed) == [4, 5]
    [outcome] = t.compact()
    assert len(files_now(log)) == 1
    told = t.history(2).collect()
    assert [each.snapshot_id for each in told] == [committed(outcome), changed]
    assert told[0].changes == ["COMPACT"]
    assert t.read(timestamp=told[1].time.astimezone()).count() == 2
    with pytest.raises(InvalidRequestError, match="give the columns' values"):
        t.update("id = 5", {})
    with pytest.raises(TableNotFoundError, match=r"no table main\.nothing"):
        commitlog.spark.table(spark, "nothing", log=log).read()


def test_overwrite_when_new_rows_do_not_match_the_filter_then_is_refused_unless_unchecked(
    spark: SparkSession, settings: Settings, people_table: SparkTable
) -> None:
    t = people_table
    t.append(rows(spark, 1, 2, 3))
    there = files_below(settings)
    for where in ("id < 3", ("id", "<", 3), sf.col("id") < 3):
        with pytest.raises(
            DataFileError,
            match="new rows do not match the filter of those that they replace, 1 of them: leave them out",
        ):
            t.overwrite(rows(spark, 2, 3), where=where)
    with pytest.raises(DataFileError, match="new rows do not match"):
        t.overwrite(spark.sql("SELECT CAST(NULL AS BIGINT) AS id"), where="id < 3")
    assert files_below(settings) == there
    assert ids_of(t) == [1, 2, 3]
    t.overwrite(rows(spark, 1).where("false"), where="id = 1")
    assert ids_of(t) == [2, 3]
    t.append(rows(spark, 1))
    t.overwrite(rows(spark, 0, 2), where=("id", "<", 3))
    assert ids_of(t) == [0, 2, 3]
    t.overwrite(rows(spark, 7), where="id < 3", check=False)
    assert ids_of(t) == [3, 7]
    t.overwrite(rows(spark, 8))
    assert ids_of(t) == [8]


def test_merge_when_clauses_have_conditions_then_the_first_that_holds_counts_for_each_row(
    spark: SparkSession, people_table: SparkTable
) -> None:
    t = people_table
    t.append(rows(spark, 1, 2, 3, 4, 5, 60))
    source = spark.sql(
        "SELECT * FROM VALUES (1L, 'D', 0), (2L, 'U', 10), (3L, 'K', 0), (7L, 'U', 70), (8L, 'D', 0), (NULL, 'U', 9) "
        "AS s(id, op, age)"
    )
    outcome = (
        t.merge(source, on="id")
        .when_matched_delete("source.op = 'D'")
        .when_matched_update("source.op = 'U' AND target.age < 5")
        .when_matched_update(sf.col("target.age") > 50, set={"name": "'never'"})
        .when_not_matched_insert("source.op = 'U' AND source.id IS NOT NULL")
        .when_not_matched_insert("source.op = 'U'", values={"name": "concat(source.op, '!')"})
        .when_not_matched_by_source_update("target.age > 50", {"age": sf.col("target.age") - 50, "name": sf.lit("old")})
        .when_not_matched_by_source_delete(sf.col("target.id") == 4)
        .commit(message="merged")
    )
    assert all_of(t) == [
        (None, "U!", None),
        (2, "n2", 10),
        (3, "n3", 3),
        (5, "n5", 5),
        (7, None, 70),
        (60, "old", 10),
    ]
    assert t.history(1).first().message == "merged"
    assert outcome is not None
    assert t.merge(source, on=["id"]).when_matched_delete("source.op = 'nothing'").commit() is None


def test_merge_when_it_only_deletes_or_only_inserts_then_other_rows_stay(
    spark: SparkSession, people_table: SparkTable
) -> None:
    t = people_table
    t.append(rows(spark, 1, 2, 3))
    t.merge(rows(spark, 2, 9), on="id").when_matched_delete().commit()
    assert ids_of(t) == [1, 3]
    t.merge(t.read().withColumn("name", sf.lit("own")), on="id").when_not_matched_by_source_delete().commit()
    t.merge(rows(spark, 1, 4), on="id").when_not_matched_insert().commit()
    assert all_of(t) == [(1, "n1", 1), (3, "n3", 3), (4, "n4", 4)]
    t.merge(rows(spark, 3), on="id").when_not_matched_by_source_delete().commit()
    assert ids_of(t) == [3]


@pytest.mark.parametrize(
    ("on", "source"),
    [
        pytest.param(
            "k", "SELECT k COLLATE UTF8_LCASE AS k, v FROM VALUES ('a', 10), ('B', 20) AS t(k, v)", id="collated"
        ),
        pytest.param("count", "SELECT `count`, v FROM VALUES ('a', 10), ('B', 20) AS t(`count`, v)", id="named count"),
        pytest.param("k", "SELECT k, v FROM VALUES ('a', 10), ('B', 20), (NULL, 30), (NULL, 40) AS t(k, v)", id="NULL"),
    ],
)
def test_merge_when_its_key_is_unusual_then_what_is_equal_matches_and_null_nothing(
    spark: SparkSession, tmp_path: Path, on: str, source: str
) -> None:
    t = commitlog.spark.table(spark, TABLE, log=InMemoryCommitLog(data_path=tmp_path / "lake"))
    t.append(spark.createDataFrame([("a", 1), ("B", 2), (None, 3)], f"`{on}` string, v int"), create=True)
    t.merge(spark.sql(source), on=on).when_matched_update().when_not_matched_insert().commit()
    others = [(None, 3), (None, 30), (None, 40)] if "NULL" in source else [(None, 3)]
    assert [tuple(row) for row in t.read().orderBy("v").collect() if row[0] is None] == others
    assert [tuple(row) for row in t.read().orderBy("v").collect() if row[0] is not None] == [("a", 10), ("B", 20)]


@pytest.mark.parametrize(
    ("own", "first", "second"),
    [
        pytest.param("1L", "'1'", "'01'", id="texts of a number"),
        pytest.param("DATE'2024-01-01'", "'2024-1-1'", "'2024-01-01'", id="texts of a day"),
        pytest.param(
            "9007199254740992D", "9007199254740992L", "9007199254740993L", id="integers too fine for a double"
        ),
    ],
)
def test_merge_when_keys_that_differ_are_equal_to_the_same_one_of_the_table_then_is_refused(
    spark: SparkSession, tmp_path: Path, own: str, first: str, second: str
) -> None:
    log = InMemoryCommitLog(data_path=tmp_path / "lake")
    t = commitlog.spark.table(spark, TABLE, log=log)
    t.append(spark.sql(f"SELECT {own} AS k, 0 AS v UNION ALL SELECT NULL, 1"), create=True)
    merge = t.merge(spark.sql(f"SELECT {first} AS k, 10 AS v UNION ALL SELECT {second}, 20"), on="k")
    before = log.head_snapshot_id()
    for each in (
        merge.when_matched_update(set={"v": "source.v"}),
        merge.when_matched_update("source.v = 10", {"v": "source.v"}).when_matched_delete(),
        merge.when_matched_delete().when_not_matched_insert(values={"v": "source.v"}),
        merge.when_matched_delete().when_not_matched_by_source_delete(),
    ):
        with pytest.raises(DataFileError, match="two rows of the source match the same row by k"):
            each.commit()
    assert log.head_snapshot_id() == before
    # A clause chooses between the two.
    merge.when_matched_update("source.v = 20", {"v": "source.v"}).commit()
    assert sorted(row.v for row in t.read().collect()) == [1, 20]


def test_read_when_a_tuple_names_a_column_with_a_backtick_then_finds_it(spark: SparkSession, tmp_path: Path) -> None:
    t = commitlog.spark.table(spark, TABLE, log=InMemoryCommitLog(data_path=tmp_path / "lake"))
    t.append(spark.range(2).withColumnRenamed("id", "a`b"), create=True)
    assert t.read(where=("a`b", "=", 1)).count() == 1


def test_merge_when_it_is_said_wrongly_then_says_what_to_do(spark: SparkSession, people_table: SparkTable) -> None:
    t, source = people_table, rows(spark, 1).withColumn("op", sf.lit("x"))
    merge = t.merge(source, on="id")
    with pytest.raises(InvalidRequestError, match="a merge without a clause"):
        merge.commit()
    with pytest.raises(InvalidRequestError, match="put the one without a condition last"):
        merge.when_matched_update().when_matched_delete()
    with pytest.raises(InvalidRequestError, match="values are given by name"):
        merge.when_matched_update({"age": 5})  # type: ignore[arg-type]
    with pytest.raises(InvalidRequestError, match="gets values by set="):
        merge.when_not_matched_by_source_update("target.id = 1")
    with pytest.raises(InvalidRequestError, match="on names the columns"):
        t.merge(source, on=[]).when_matched_delete().commit()
    with pytest.raises(DataFileError, match="column op is not in the table"):
        merge.when_matched_update().commit()
    with pytest.raises(DataFileError, match="two rows of the source have the same id"):
        t.merge(rows(spark, 1, 1), on="id").when_matched_delete().commit()


def test_changes_when_rows_came_went_and_were_rewritten_then_are_those_that_python_gives(
    spark: SparkSession, log: CommitLog, people_table: SparkTable
) -> None:
    t = people_table
    start = log.head_snapshot_id()
    t.append(rows(spark, 1, 2, 3).repartition(2))
    t.append(rows(spark, 4))
    middle = committed(t.delete("id IN (2, 4)"))
    t.compact()
    t.update("id = 3", {"name": "'three'"})
    with log.transaction() as tx:
        tx.create_table("keyed", {"id": "int64", "name": "varchar"}, primary_key=["id"])
    keyed = log.table("keyed")
    keyed.insert([{"id": 1, "name": "one"}, {"id": 2, "name": "two"}])
    keyed.upsert([{"id": 1, "name": "eins"}, {"id": 3, "name": "drei"}])
    updated = commitlog.spark.table(spark, "keyed", log=log).changes(start).where("name = 'eins'").first()
    assert updated.change_type == "update_postimage"
    for after, upto in ((start, None), (start, middle), (middle, None), (log.head_snapshot_id(), None)):
        found = t.changes(after, upto).orderBy("snapshot_id", "rowid", sf.desc("change_type")).collect()
        expected = log.table(TABLE).changes(after, upto).to_arrow().to_pylist()
        assert [row.asDict() for row in found] == expected
    assert t.changes(middle).where("change_type = 'update_postimage'").select("name").collect() == [("three",)]


def test_create_views_when_sql_reads_them_then_all_tables_are_of_one_snapshot(
    spark: SparkSession, log: CommitLog, people_table: SparkTable, caplog: pytest.LogCaptureFixture
) -> None:
    with log.transaction() as tx:
        tx.create_schema("sales")
    with log.transaction() as tx:
        tx.create_table("sales.orders", {"person": "int64"})
        tx.create_table("odd", {"moment": "time"})
    people_table.append(rows(spark, 1, 2))
    before = committed(commitlog.spark.append(spark.sql("SELECT 2L AS person"), "sales.orders", log=log))
    assert commitlog.spark.create_views(spark, log=log) == {"main.people": "people", "sales.orders": "sales_orders"}
    assert "table main.odd has no view: Spark has no type for any column" in caplog.text
    query = "SELECT name FROM people JOIN sales_orders ON id = person"
    people_table.delete("id = 2")
    assert spark.sql(query).collect() == [("n2",)]
    commitlog.spark.create_views(spark, log=log)
    assert spark.sql(query).collect() == []
    commitlog.spark.create_views(spark, before, log=log)
    assert spark.sql(query).collect() == [("n2",)]
    with log.transaction() as tx:
        tx.create_table("Sales_Orders", {"id": "int64"})
    with pytest.raises(InvalidRequestError, match="would both be the view"):
        commitlog.spark.create_views(spark, log=log)
