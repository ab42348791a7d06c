"""What can be told wrong of a call before Spark computes anything is told then."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from people import rows
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

import commitlog.spark
from commitlog.errors import CommitLogError, DataFileError, InvalidRequestError
from commitlog.spark import SparkTable
from commitlog.spark.changing.merge_clauses import OF_MERGES
from commitlog.spark.table_handle import OF_TABLES
from commitlog.testing import InMemoryCommitLog


@pytest.fixture
def people_table(spark: SparkSession, tmp_path: Path) -> SparkTable:
    t = commitlog.spark.table(spark, "main.people", log=InMemoryCommitLog(data_path=tmp_path / "lake"))
    t.append(rows(spark, 1, 2), create=True)
    return t


def test_change_when_it_is_said_wrongly_then_nothing_is_computed(spark: SparkSession, people_table: SparkTable) -> None:
    t = people_table
    never = rows(spark, 1).where(sf.raise_error(sf.lit("the source was computed")).isNull())
    merge = t.merge(never, on="id")
    wrong: list[tuple[Callable[[], object], type[CommitLogError], str]] = [
        (merge.when_matched_update(set={"agee": 1}).commit, InvalidRequestError, "agee"),
        (merge.when_not_matched_insert(values={"agee": 1}).commit, InvalidRequestError, "agee"),
        (lambda: merge.when_matched_delete().commit(isolation="lax"), InvalidRequestError, "isolation is"),
        (t.merge(never.withColumn("op", sf.lit(1)), on="id").when_matched_update().commit, DataFileError, "column op"),
        (
            t.merge(never, on="target.id = source.id").when_matched_delete().commit,
            InvalidRequestError,
            "such as on='id' or",
        ),
        (t.merge(never, on="agee").when_matched_delete().commit, InvalidRequestError, "the source has id, name, age"),
        (lambda: t.append(never, key=7), InvalidRequestError, "key must be a text that names the write"),  # type: ignore[arg-type]
        (lambda: t.delete("id = 1", key=7), InvalidRequestError, "key must be a text"),  # type: ignore[arg-type]
        (lambda: t.update("id = 1", "age = 1"), InvalidRequestError, "set must map columns to their values"),  # type: ignore[arg-type]
    ]
    for change, kind, words in wrong:
        with pytest.raises(kind, match=words):
            change()
    with pytest.raises(Exception, match="the source was computed"):
        merge.when_matched_delete().commit()


def test_rows_when_they_are_of_another_library_then_says_how_to_give_them(people_table: SparkTable) -> None:
    frame = pd.DataFrame({"id": [1]})
    for call in (people_table.append, people_table.overwrite, lambda df: people_table.merge(df, on="id")):
        with pytest.raises(InvalidRequestError, match=r"not pandas's DataFrame: give spark\.createDataFrame"):
            call(frame)


def test_name_when_it_is_that_of_another_library_then_says_what_does_it(
    spark: SparkSession, people_table: SparkTable
) -> None:
    merge = people_table.merge(rows(spark, 1), on="id").when_matched_delete()
    with pytest.raises(AttributeError, match=r"'Merge' object has no attribute 'execute': commit\(\) does that"):
        merge.execute()  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=r"'toDF': read\(\) does that"):
        people_table.toDF()  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=r"has no attribute 'raed'$"):
        people_table.raed()  # type: ignore[attr-defined]
    for given, known in ((merge, OF_MERGES), (people_table, OF_TABLES)):
        assert not {*known} & {*dir(given)}


def test_append_when_answered_then_its_answer_shows_itself_in_a_line(
    spark: SparkSession, people_table: SparkTable
) -> None:
    outcome = people_table.append(rows(spark, 3))
    assert repr(outcome) == f"WrittenOutcome(COMMITTED, snapshot {outcome.snapshot_id}, seq {outcome.seq})"
