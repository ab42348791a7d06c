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
