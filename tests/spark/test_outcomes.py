"""The results topic as typed rows: at once, and as a stream that is restarted."""

from __future__ import annotations

from pathlib import Path

import pytest
from people import settings_given
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable

from commitlog.client import CommitLog
from commitlog.config import Settings
from commitlog.errors import ConfigurationError, LogLossError, ProposalRejectedError
from commitlog.log.results import LogPosition
from commitlog.spark import outcomes
from commitlog.spark.source.options import SourceOptions
from commitlog.spark.source.outcomes import ranges_after
from commitlog.spark.source.outcomes_stream import OutcomesStream


def some_history(log: CommitLog) -> None:
    """Snapshot 1 makes a table, 2 drops it, and a proposal computed from 1 is refused."""
    with log.transaction(message="make it") as tx:
        tx.create_table("main.t", {"id": "int64"})
    late = log.transaction()
    with log.transaction() as tx:
        tx.drop_table("main.t")
    late.rename_table("main.t", "u")
    with pytest.raises(ProposalRejectedError):
        late.commit()


def test_outcomes_then_every_verdict_with_its_conflicts(spark: SparkSession, log: CommitLog) -> None:
    some_history(log)
    found = outcomes(spark, log=log).orderBy("seq").collect()
    assert [(row.seq, row.verdict, row.snapshot_id, row.change_kinds) for row in found] == [
        (1, "COMMITTED", 1, ["CREATE_TABLE"]), (2, "COMMITTED", 2, ["DROP_TABLE"]), (3, "REJECTED", None, ["RENAME_TABLE"]),
    ]  # fmt: skip
    assert (found[0].message, found[0].tables) == ("make it", ["main.t"])
    [conflict] = found[2].conflicts
    assert (found[2].reason, conflict.kind, conflict.committed_snapshot_id) == ("CONFLICT", "TABLE_DROPPED", 2)
    assert conflict.committed_writer_id == found[1].writer_id
    assert found[1].decided_at >= found[0].decided_at


def test_stream_of_the_results_when_restarted_then_each_outcome_once(
    spark: SparkSession, log: CommitLog, settings: Settings, tmp_path: Path
) -> None:
    options = {"topic": "results", **settings_given(settings)}

    def follow(**more: str) -> None:
        stream = spark.readStream.format("commitlog").options(**options, **more).load()
        writer = stream.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start(str(tmp_path / "rows")).awaitTermination()

    some_history(log)
    follow(recordsPerTrigger="2")
    with log.transaction() as tx:
        tx.create_schema("s")
    follow()
    seqs = sorted(row.seq for row in spark.read.parquet(str(tmp_path / "rows")).collect())
    assert seqs == [1, 2, 3, 4]
    with pytest.raises(PySparkException, match="the option topic is results"):
        spark.read.format("commitlog").options(**{**options, "topic": "receipts"}).load()


def test_stream_of_the_results_when_they_end_before_its_offset_or_it_may_take_none_then_says_so(
    log: CommitLog, settings: Settings
) -> None:
    options = {"topic": "results", **settings_given(settings)}
    stream = OutcomesStream(SourceOptions(options))
    end = stream.latestOffset(stream.initialOffset(), ReadAllAvailable())
    assert stream.latestOffset(end, ReadAllAvailable()) == end
    beyond = {"offset": 1000}
    says = rf"has gone on to offset 1000 of the results, and they end at offset {end['offset']}"
    with pytest.raises(LogLossError, match=says):
        stream.latestOffset(beyond, ReadAllAvailable())
    with pytest.raises(LogLossError, match=says):
        stream.partitions(end, beyond)
    with pytest.raises(ConfigurationError, match="recordsPerTrigger is 1 or more"):
        OutcomesStream(SourceOptions({**options, "recordsPerTrigger": "0"}))


def test_ranges_then_they_meet_without_a_gap_and_begin_only_where_a_reader_may() -> None:
    genesis, first, second = (
        LogPosition(b"L" * 16, seq, 1, b"H" * 32, offset) for seq, offset in ((0, 0), (9, 10), (19, 22))
    )
    ranges = ranges_after(None, [first, second], 30)
    assert [(each.after, each.start, each.end) for each in ranges] == [(None, 0, 11), (first, 11, 23), (second, 23, 30)]
    ranges = ranges_after(genesis, [second], 30, start=7)
    assert [(each.after, each.start, each.end) for each in ranges] == [(genesis, 7, 23), (second, 23, 30)]
    assert ranges_after(genesis, [], 5, start=5) == []
