"""What can be told wrong of a call before Spark computes anything is told then."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from people import rows
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

import commitlog.spark
from commitlog.errors import CommitLogError, ConfigurationError, DataFileError, InvalidRequestError
from commitlog.spark import SparkTable, expire, flush, transaction
from commitlog.spark.changing.merge_clauses import ARGUMENTS as OF_CLAUSES
from commitlog.spark.changing.merge_clauses import OF_MERGES
from commitlog.spark.table_handle import ARGUMENTS, OF_TABLES
from commitlog.testing import InMemoryCommitLog


@pytest.fixture
def people_table(spark: SparkSession, tmp_path: Path) -> SparkTable:
    t = commitlog.spark.table(spark, "main.people", log=InMemoryCommitLog(data_path=tmp_path / "lake"))
    t.append(rows(spark, 1, 2), create=True)
    return t


def test_change_when_it_is_said_wrongly_then_nothing_is_computed(spark: SparkSession, people_table: SparkTable) -> None:
    t = people_table
    never = rows(spark, 1).where(sf.raise_error(sf.lit("the source was computed")).isNull())
    unlike = never.withColumn("ref", sf.col("id"))
    nowhere = commitlog.spark.table(spark, "nope.t", log=t._log)
    with t._log.transaction() as tx:
        tx.create_table("main.keyed", {"id": "int64", "name": "varchar", "age": "int32"}, primary_key=["id"])
    keyed = commitlog.spark.table(spark, "main.keyed", log=t._log)
    merge = t.merge(never, on="id")
    by_sql, unlike_keys, by_column = (
        t.merge(source, on).when_matched_delete()
        for source, on in ((never, "target.id = source.id"), (unlike, "ref"), (never, sf.col("id")))
    )
    wrong: list[tuple[Callable[[], object], type[CommitLogError], str]] = [
        (merge.when_matched_update(set={"agee": 1}).commit, InvalidRequestError, "agee"),
        (merge.when_not_matched_insert(values={"agee": 1}).commit, InvalidRequestError, "agee"),
        (merge.when_matched_update(set={"age": 1, "AGE": 2}).commit, InvalidRequestError, "given two values: age, AGE"),
        (lambda: merge.when_matched_delete().commit(isolation="lax"), InvalidRequestError, "isolation is"),
        (t.merge(unlike, on="id").when_matched_update().commit, DataFileError, "column ref"),
        (by_sql.commit, InvalidRequestError, r"such as on='id' .*: the source has id, name, age"),
        (unlike_keys.commit, InvalidRequestError, "no column 'ref'"),
        (by_column.commit, InvalidRequestError, "on must be a list of names of columns, not one with Column"),
        (lambda: t.append(never, key=7), InvalidRequestError, "key must be a text that names the write"),
        (
            lambda: keyed.append(never),
            DataFileError,
            r"has a primary key, so its rows come one by one: log\.table\('main",
        ),
        (lambda: nowhere.append(never, create=True), InvalidRequestError, "no schema nope"),
        (lambda: t.delete("id = 1", key=7), InvalidRequestError, "key must be a text"),
        (
            lambda: t.delete(("id", "=", each) for each in (1,)),
            InvalidRequestError,
            "read more than once, and generator gives",
        ),
        (lambda: t.update("id = 1", "age = 1"), InvalidRequestError, "set must map columns to their values"),
        (lambda: t.update("id = 1", {"age": 1, "AGE": 2}), InvalidRequestError, "given two values: age, AGE"),
        (lambda: t.compact(sort_by="age"), InvalidRequestError, "sort_by must be a list of names"),
        (lambda: t.compact(target_bytes="1GB"), InvalidRequestError, "target_bytes is how many bytes"),
        (lambda: t.delete("id = 1", attempts="x"), InvalidRequestError, "attempts must be a whole number .* not 'x'"),
        (lambda: t.overwrite(never, attempts=0), InvalidRequestError, "attempts must be at least 1"),
        (
            lambda: merge.when_matched_delete().commit(attempts=None),
            InvalidRequestError,
            "attempts must be a whole number",
        ),
        (
            lambda: flush(spark, t.name, log=t._log, attempts="x"),
            InvalidRequestError,
            "attempts must be a whole number",
        ),
        (lambda: expire(t._log, keep="x"), InvalidRequestError, "keep must be a whole number .* not 'x'"),
        (lambda: expire(t._log, keep=0), InvalidRequestError, "keep must be at least 1"),
        (
            lambda: expire(t._log, older_than_snapshot=1.5),
            InvalidRequestError,
            "older_than_snapshot must be a whole number",
        ),
        (lambda: t.read(1.5), ConfigurationError, "at a snapshot such as 42, or at a timestamp .* not at 1.5"),
        (lambda: commitlog.spark.table(spark, "t", log="prod"), InvalidRequestError, "log is a CommitLog"),
    ]
    for change, kind, words in wrong:
        with pytest.raises(kind, match=words):
            change()
    with pytest.raises(Exception, match="the source was computed"):
        merge.when_matched_delete().commit()


def test_rows_when_they_are_of_another_library_or_a_stream_then_says_how_to_give_them(
    spark: SparkSession, people_table: SparkTable
) -> None:
    frame = pd.DataFrame({"id": [1]})
    for call in (people_table.append, people_table.overwrite, lambda df: people_table.merge(df, on="id")):
        with pytest.raises(InvalidRequestError, match=r"not pandas's DataFrame: give spark\.createDataFrame"):
            call(frame)
    with transaction(people_table._log) as tx:
        for change in (tx.append, tx.overwrite, lambda df, table: tx.merge(df, table, "id")):
            with pytest.raises(InvalidRequestError, match=r"not pandas's DataFrame"):
                change(frame, people_table.name)
    with pytest.raises(InvalidRequestError, match=r"rows of a stream come in batches: write it by .*stream_into"):
        people_table.append(spark.readStream.format("rate").load())


def test_merge_when_a_row_that_nothing_matches_is_to_be_of_the_source_then_is_refused_and_not_null(
    spark: SparkSession, people_table: SparkTable
) -> None:
    merge = people_table.merge(rows(spark, 1), on="id")
    for wrong in (
        merge.when_not_matched_by_source_update(set={"age": "source.age"}),
        merge.when_not_matched_by_source_update("source.age IS NULL", set={"age": 5}),
        merge.when_not_matched_by_source_delete("source.age IS NULL"),
    ):
        with pytest.raises(AnalysisException) as refused:
            wrong.commit()
        assert any("of the source matches target.x alone" in note for note in refused.value.__notes__)
    assert people_table.read().orderBy("id").select("age").collect() == [(1,), (2,)]


def test_name_when_it_is_that_of_another_library_then_says_what_does_it(
    spark: SparkSession, people_table: SparkTable
) -> None:
    merge = people_table.merge(rows(spark, 1), on="id").when_matched_delete()
    with pytest.raises(AttributeError, match=r"'Merge' object has no attribute 'execute': commit\(\) does that"):
        merge.execute()
    with pytest.raises(AttributeError, match=r"'toDF': read\(\) does that"):
        people_table.toDF()
    with pytest.raises(AttributeError, match=r"has no attribute 'raed'$"):
        people_table.raed()
    for given, known in ((merge, OF_MERGES), (people_table, OF_TABLES)):
        assert not {*known} & {*dir(given)}


def test_argument_when_it_is_called_as_elsewhere_then_says_what_it_is_called_here(
    spark: SparkSession, people_table: SparkTable
) -> None:
    t, merge = people_table, people_table.merge(rows(spark, 1), on="id")
    wrong: list[tuple[Callable[..., object], str, str]] = [
        (t.update, "condition", "SparkTable.update() has no argument 'condition': give where= instead"),
        (t.read, "versionAsOf", "give version= instead"),
        (t.merge, "condition", "give on= instead"),
        (merge.when_not_matched_insert, "set", "Merge.when_not_matched_insert() has no argument 'set': give values= "),
    ]
    for call, word, words in wrong:
        with pytest.raises(TypeError, match=re.escape(words)):
            call(**{word: "id = 1"})
    for kind, known in ((SparkTable, ARGUMENTS), (type(merge), OF_CLAUSES)):
        for method, taken in known.items():
            assert not taken.keys() & inspect.signature(getattr(kind, method)).parameters.keys()


def test_rows_when_they_are_in_no_file_of_a_table_without_a_key_then_says_how_to_copy_it(
    spark: SparkSession, people_table: SparkTable
) -> None:
    with people_table._log.transaction() as tx:
        tx.insert_row(people_table.name, {"id": 3, "name": "c", "age": 3})
    for change in (
        lambda: people_table.delete("id = 3"),
        lambda: people_table.overwrite(rows(spark, 1)),
        lambda: flush(spark, people_table.name, log=people_table._log),
    ):
        with pytest.raises(
            DataFileError, match=r"no key by which these could be changed: .* copy it, log\.table\('main\."
        ):
            change()


def test_append_when_answered_then_its_answer_shows_itself_in_a_line(
    spark: SparkSession, people_table: SparkTable
) -> None:
    outcome = people_table.append(rows(spark, 3))
    assert repr(outcome) == f"WrittenOutcome(COMMITTED, snapshot {outcome.snapshot_id}, seq {outcome.seq})"
