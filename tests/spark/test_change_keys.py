"""Changes of rows that have a key: done again, they change nothing."""

from __future__ import annotations

from people import rows
from pyspark.sql import SparkSession

import commitlog.spark
from commitlog.spark import SparkTable


def ages(table: SparkTable) -> dict[int, int]:
    return {row.id: row.age for row in table.read().collect()}


def test_changes_when_their_keys_were_committed_then_answer_as_the_first_and_change_nothing(
    spark: SparkSession, people_table: SparkTable
) -> None:
    t = people_table
    merge = t.merge(rows(spark, 2, 9), on="id").when_matched_update(set={"age": "target.age + 10"})
    changes = [
        (lambda: t.update("id = 1", {"age": "age + 1"}, key="raise:1"), {1: 2, 2: 2, 3: 3}),
        (lambda: merge.when_not_matched_insert().commit(key="merge:1"), {1: 2, 2: 12, 3: 3, 9: 9}),
        (lambda: t.delete("id = 3", key="leave:1"), {1: 2, 2: 12, 9: 9}),
        (lambda: t.overwrite(rows(spark, 5, 6), "id > 2", key="replace:1", check=False), {1: 2, 2: 12, 5: 5, 6: 6}),
    ]
    for change, expected in changes:
        first = change()
        assert first is not None
        assert not first.is_repeat
        assert ages(t) == expected
        again = change()
        assert again is not None
        assert (again.is_repeat, again.snapshot_id) == (True, first.snapshot_id)
        assert ages(t) == expected
    assert t.history().count() == 1 + len(changes)


def test_change_when_its_key_is_of_another_table_then_is_made(spark: SparkSession, people_table: SparkTable) -> None:
    other = commitlog.spark.table(spark, "main.others", log=people_table._log)
    other.append(rows(spark, 1), create=True)
    for t in (people_table, other):
        outcome = t.delete("id = 1", key="leave:1")
        assert outcome is not None
        assert not outcome.is_repeat
