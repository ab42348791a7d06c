"""A merge looks up those rows of a table alone whose key may be one of the source's."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import commitlog.spark
from commitlog.spark.changing import source_keys
from commitlog.spark.changing.source_keys import candidates, key_bits
from commitlog.testing import InMemoryCommitLog

TABLE = "main.people"


def _left(rows: DataFrame, source: DataFrame) -> set[int | None]:
    """Keys that stay, of which the source's must be."""
    least, greatest = source.agg(sf.min("id"), sf.max("id")).collect()[0]
    return {row.id for row in candidates(rows, key_bits(source, {"id": (least, greatest)})).collect()}


@pytest.mark.parametrize("data_type", ["bigint", "int", "smallint"])
def test_candidates_when_keys_are_integers_then_no_row_that_matches_is_missing_and_few_others_are_there(
    spark: SparkSession, data_type: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = spark.range(-1000, 1000).selectExpr(f"CAST(nullif(id, 5) AS {data_type}) AS id")
    source = spark.sql(f"SELECT CAST(id AS {data_type}) AS id FROM VALUES (-700), (-1), (31), (640), (NULL) AS t(id)")
    assert _left(rows, source) == {-700, -1, 31, 640}
    # A bit for several keys where there are too many for one each.
    monkeypatch.setattr(source_keys, "_BITS", 8)
    left = _left(rows, source)
    assert left > {-700, -1, 31, 640}
    assert len(left) < 40


def test_candidates_when_their_bits_would_tell_little_then_are_all_rows(spark: SparkSession) -> None:
    rows = spark.range(100)
    assert key_bits(rows.where("id % 3 = 0"), {"id": (0, 99)}) is None
    assert key_bits(rows.where("id = 1"), {"id": (1, 2**62)}) is None
    assert key_bits(rows.where("id < 0"), {"id": (None, None)}) is None
    assert candidates(rows, None) is rows


def test_merge_when_its_table_is_large_then_does_what_it_does_to_a_small_one(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_keys, "ROWS_MIN", 1)
    asked = []
    monkeypatch.setattr(source_keys, "key_bits", lambda *given: asked.append(given) or key_bits(*given))
    chance = random.Random(14)
    log = InMemoryCommitLog(data_path=tmp_path / "lake")
    t = commitlog.spark.table(spark, TABLE, log=log)
    keys = chance.sample(range(-(2**40), 2**40), 200)
    t.append(spark.createDataFrame([(each, 0) for each in keys], "id long, age int"), create=True)
    expected = dict.fromkeys(keys, 0)
    for turn in range(1, 4):
        given = {*chance.sample(keys, 9), *chance.sample(range(-(2**40), 2**40), 3)}
        source = spark.createDataFrame([(each, turn) for each in given], "ID long, age int")
        t.merge(source, on="ID").when_matched_update().when_not_matched_insert().commit()
        expected.update(dict.fromkeys(given, turn))
        assert {row.id: row.age for row in t.read().collect()} == expected
    assert len(asked) == 3
    t.merge(source, on="id").when_not_matched_by_source_delete().commit()
    assert {row.id for row in t.read().collect()} == given
    assert len(asked) == 3


def test_merge_when_integers_are_keys_of_decimals_then_looks_all_rows_up(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_keys, "ROWS_MIN", 1)
    t = commitlog.spark.table(spark, TABLE, log=InMemoryCommitLog(data_path=tmp_path / "lake"))
    t.append(spark.sql("SELECT CAST(id * 1000000000 AS DECIMAL(20, 0)) AS id, 0 AS age FROM range(9)"), create=True)
    t.merge(spark.sql("SELECT id * 4000000000 AS id, 7 AS age FROM range(2)"), on="id").when_matched_update().commit()
    assert {row.id for row in t.read().where("age = 7").collect()} == {0, 4_000_000_000}
