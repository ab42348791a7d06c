"""Tables written by format("commitlog") and by streams, in batches that come again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from people import TABLE, duck_ids, files_below, ids, rows, source_options
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from sessions import session_with

from commitlog.client import CommitLog
from commitlog.config import Settings
from commitlog.domain.model import Verdict
from commitlog.errors import ProposalRejectedError
from commitlog.spark import (
    append,
    stream_into,
)
from commitlog.spark.source.batch_writer import BatchWriter
from commitlog.spark.source.options import SourceOptions


def feed(spark: SparkSession, directory: Path) -> DataFrame:
    schema = "id bigint, name string, age int"
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(directory))


def write_feed(spark: SparkSession, directory: Path, *batches: list[int]) -> None:
    for batch in batches:
        rows(spark, *batch).write.mode("append").parquet(str(directory))


def forget_last_commit(checkpoint: Path) -> None:
    """As if Spark had been killed after the sink's commit and before it was noted in the checkpoint."""
    newest = max(
        (path for path in (checkpoint / "commits").iterdir() if path.name.isdigit()), key=lambda p: int(p.name)
    )
    newest.unlink()
    newest.with_name(f".{newest.name}.crc").unlink(missing_ok=True)


@pytest.mark.usefixtures("people")
def test_format_when_written_in_batch_twice_under_one_key_then_commits_once_and_says_what_does_not_fit(
    spark: SparkSession, log: CommitLog, settings: Settings
) -> None:
    for these in ((1, 2), (3,)):
        writer = rows(spark, *these).write.format("commitlog").options(**source_options(settings))
        writer.option("key", "load:1").mode("append").save()
    assert ids(spark, log, log.wait_for_snapshot()) == [1, 2]
    assert len(files_below(settings)) == 1
    wrong = spark.sql("SELECT 'x' AS id").write.format("commitlog").options(**source_options(settings))
    with pytest.raises(PySparkException, match=r"column id: expected bigint \(int64\), found string"):
        wrong.mode("append").save()


@pytest.mark.usefixtures("people")
def test_format_when_written_in_mode_overwrite_then_replaces_all_rows_unless_some_came_in_meanwhile(
    spark: SparkSession, log: CommitLog, settings: Settings
) -> None:
    def overwritten(df: DataFrame) -> None:
        df.write.format("commitlog").options(**source_options(settings)).mode("overwrite").save()

    overwritten(rows(spark, 1, 2))
    overwritten(rows(spark, 3))
    assert ids(spark, log, log.wait_for_snapshot()) == duck_ids(settings, log.wait_for_snapshot()) == [3]
    options = SourceOptions(source_options(settings))
    late = BatchWriter(options, TABLE, rows(spark, 4).schema, overwrite=True)
    files = late.write(iter(rows(spark, 4).toArrow().to_batches()))
    append(rows(spark, 5), TABLE, log=log)
    with pytest.raises(ProposalRejectedError, match=r"appended to main\.people since base"):
        late.commit([files])
    assert not [path for path in files.paths if Path(path).exists()]
    assert ids(spark, log, log.wait_for_snapshot()) == [3, 5]
    with (
        session_with(spark, "spark.sql.sources.partitionOverwriteMode", "DYNAMIC"),
        pytest.raises(PySparkException, match=r"replaces all rows.*overwrite\(df, partitions='dynamic'\)"),
    ):
        overwritten(rows(spark, 6))
    assert ids(spark, log, log.wait_for_snapshot()) == [3, 5]
    overwritten(rows(spark, 6).where("false"))
    assert ids(spark, log, log.wait_for_snapshot()) == []
    at_the_end = log.wait_for_snapshot()
    overwritten(rows(spark, 6).where("false"))
    assert log.wait_for_snapshot() == at_the_end


def drain_source(spark: SparkSession, log: CommitLog, settings: Settings, directory: Path, checkpoint: Path) -> None:
    options = {**source_options(settings), "checkpointLocation": str(checkpoint)}
    writer = feed(spark, directory).writeStream.format("commitlog").options(**options)
    writer.trigger(availableNow=True).start().awaitTermination()


def drain_foreach_batch(
    spark: SparkSession, log: CommitLog, settings: Settings, directory: Path, checkpoint: Path
) -> None:
    writer = feed(spark, directory).writeStream.foreachBatch(stream_into(TABLE, log=log))
    writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start().awaitTermination()


@pytest.mark.usefixtures("people")
@pytest.mark.parametrize("drain", [drain_source, drain_foreach_batch])
def test_stream_when_restarted_on_its_checkpoint_after_a_crash_then_gives_no_second_rows(
    spark: SparkSession,
    log: CommitLog,
    settings: Settings,
    tmp_path: Path,
    drain: Callable[[SparkSession, CommitLog, Settings, Path, Path], None],
) -> None:
    write_feed(spark, tmp_path / "feed", [1, 2], [3, 4])
    drain(spark, log, settings, tmp_path / "feed", tmp_path / "checkpoint")
    assert ids(spark, log, log.wait_for_snapshot()) == [1, 2, 3, 4]
    forget_last_commit(tmp_path / "checkpoint")
    drain(spark, log, settings, tmp_path / "feed", tmp_path / "checkpoint")
    verdicts = [outcome.verdict for outcome in log.subscribe(follow=False)]
    assert verdicts.count(Verdict.DUPLICATE) == 1
    write_feed(spark, tmp_path / "feed", [5])
    drain(spark, log, settings, tmp_path / "feed", tmp_path / "checkpoint")
    assert ids(spark, log, log.wait_for_snapshot()) == [1, 2, 3, 4, 5]
    assert len(files_below(settings)) == 3
    # The batch comes again with other rows, as of a source that cannot give the same ones twice.
    forget_last_commit(tmp_path / "checkpoint")
    latest = max((tmp_path / "feed").glob("*.parquet"), key=lambda path: path.stat().st_mtime_ns)
    latest.with_name(f".{latest.name}.crc").unlink()
    pq.write_table(pa.table({"id": [6], "name": ["n6"], "age": pa.array([6], pa.int32())}), latest)
    with pytest.raises(StreamingQueryException, match="was already used for another write"):
        drain(spark, log, settings, tmp_path / "feed", tmp_path / "checkpoint")
    assert ids(spark, log, log.wait_for_snapshot()) == [1, 2, 3, 4, 5]
    assert len(files_below(settings)) == 3
