"""What may be committed between the snapshot that a change of rows is computed from and its own commit."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from people import TABLE, Meanwhile, duck_ids, ids, rows
from pyspark.sql import SparkSession

import commitlog.spark
from commitlog.client import CommitLog
from commitlog.config import Settings
from commitlog.errors import InvalidRequestError, ProposalRejectedError
from commitlog.spark import SparkTable, append, delete, merge


@pytest.mark.usefixtures("people")
def test_changes_when_blind_appends_come_in_between_then_are_computed_once_and_committed_behind_them(
    spark: SparkSession, log: CommitLog, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    append(rows(spark, 1, 2, 3, 4), TABLE, log=log)
    calm = {"isolation": "write_serializable", "attempts": 1}
    with Meanwhile.connect(settings=settings) as late:
        t = commitlog.spark.table(spark, TABLE, log=late)

        def beside(id: int, change: Callable[[], object]) -> None:
            late.other = lambda: append(rows(spark, id), TABLE, log=log)
            change()

        beside(10, lambda: t.delete("id IN (1, 10)", **calm))
        assert ids(spark, log) == [2, 3, 4, 10]
        beside(11, lambda: t.update("id IN (2, 11)", {"id": 22}, **calm))
        assert ids(spark, log) == [3, 4, 10, 11, 22]
        source = rows(spark, 3, 12, 13)
        beside(12, lambda: t.merge(source, on="id").when_not_matched_insert().commit(**calm))
        assert ids(spark, log) == [3, 4, 10, 11, 12, 12, 13, 22]
        beside(14, lambda: t.overwrite(rows(spark, 30), **calm))
        assert ids(spark, log) == [14, 30]

        def together() -> None:
            with commitlog.spark.transaction(late, isolation="write_serializable", key="nightly:1") as tx:
                tx.delete(spark, TABLE, "id IN (15, 30)")
                tx.append(rows(spark, 31), TABLE)

        beside(15, together)
        # Its key has committed: it is answered before anything is computed that somebody could come in between.
        beside(16, together)
        head = log.wait_for_snapshot()
        assert ids(spark, log, head) == duck_ids(settings, head) == [14, 15, 31]
    assert "is computed again" not in caplog.text


@pytest.mark.usefixtures("people")
def test_changes_when_others_rely_on_what_they_read_then_only_snapshot_lets_them_pass(
    spark: SparkSession, log: CommitLog, settings: Settings
) -> None:
    append(rows(spark, 1, 2), TABLE, log=log)
    append(rows(spark, 3), TABLE, log=log)

    def copies() -> None:
        merge(rows(spark, 5), TABLE, "id", log=log)

    def appends_and_deletes() -> None:
        append(rows(spark, 6), TABLE, log=log)
        delete(spark, TABLE, "id = 3", log=log)

    with Meanwhile.connect(settings=settings) as late:
        t: SparkTable = commitlog.spark.table(spark, TABLE, log=late)
        for level, other in (
            ("serializable", lambda: append(rows(spark, 4), TABLE, log=log)),
            ("write_serializable", copies),
            ("write_serializable", appends_and_deletes),
        ):
            late.other = other
            with pytest.raises(ProposalRejectedError, match="CONFLICT") as refused:
                t.delete("id % 10 = 1", isolation=level, attempts=1)
            advice = [each for each in refused.value.__notes__ if "isolation='write_serializable' lets" in each]
            assert len(advice) == (level == "serializable")
        late.other = lambda: merge(rows(spark, 7), TABLE, "id", log=log)
        t.delete("id IN (1, 7)", isolation="Snapshot", attempts=1)
        assert ids(spark, log) == [2, 4, 5, 6, 7]
        late.other = lambda: delete(spark, TABLE, "id = 2", log=log)
        with pytest.raises(ProposalRejectedError, match="CONFLICT"):
            t.update("id = 2", {"age": 1}, isolation="snapshot", attempts=1)
    for wrong in ("lax", None):
        with pytest.raises(
            InvalidRequestError, match="isolation is 'serializable', 'write_serializable' or 'snapshot'"
        ):
            t.delete("id = 1", isolation=wrong)
