"""Partitions that a write asks for, of a table that is there."""

from __future__ import annotations

import pytest
from pyspark.sql import types as st

from commitlog.errors import InvalidRequestError
from commitlog.spark.writing.target import Making, target
from commitlog.testing import InMemoryCommitLog


def test_partitions_when_the_table_is_there_then_are_those_that_it_has_or_refused() -> None:
    log = InMemoryCommitLog()
    with log.transaction() as tx:
        tx.create_table("t", {"Id": "int64", "day": "date"}, partition_by="bucket(4, Id)")
        tx.create_table("plain", {"id": "int64"})
    rows_of = st.StructType([st.StructField("id", st.LongType())])
    for same in ("bucket(4, id)", ["bucket(4, ID)"], ()):
        assert target(log, "t", Making(rows_of, True, same)).definition.partition_by
    for table, other, words in (
        ("t", "id", r"partitioned by bucket\(4\) of Id: leave out partition_by"),
        ("t", ["bucket(4, id)", "day"], r"partitioned by bucket\(4\) of Id"),
        ("plain", "id", "partitioned by nothing"),
    ):
        with pytest.raises(InvalidRequestError, match=words):
            target(log, table, Making(rows_of, True, other))
