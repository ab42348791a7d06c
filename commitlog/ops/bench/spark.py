"""commitlog bench spark: what tables cost Spark, as ratios to the same work on plain Parquet folders in the same run."""

from __future__ import annotations

import dataclasses
import os
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

from commitlog import compiled
from commitlog.client import CommitLog
from commitlog.config import Settings
from commitlog.domain.model import Verdict
from commitlog.ops.bench.servers import Say, own_servers, service_process
from commitlog.ops.bench.spark_changes import deletes, in_python, merges
from commitlog.ops.bench.spark_turns import EXPRESSIONS, Comparison, Turns, folders_of, timed
from commitlog.ops.local_spark import local_spark
from commitlog.spark import append, delete, read, stream_into
from commitlog.spark.connection import settings_of

DELETED = "id % 25 < 2"
"""8 % of the rows."""

FILES = 64
MANY_FILES = 4_000
MANY_APPENDS = 4
WRITERS = 8
APPENDS_EACH = 4
BATCHES = 25
BATCHES_WARM = 5
BATCH_ROWS = 1_000
SESSION = {
    "spark.driver.memory": "2g",
    # Without the limits that let a session for one command start soon.
    "spark.driver.extraJavaOptions": "-XX:+UseG1GC",
    # Plain writes too: Spark's default, INT96, costs more and has no bounds in the footer.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Over TCP each message to a Python worker waits 40 ms for the one before to be acknowledged.
    "spark.python.unix.domain.socket.enabled": "true",
}


@dataclass(frozen=True, slots=True)
class SparkBench:
    """What was measured. refused: appends of concurrent writers; load_before: of the minute before the run; core: its form."""

    comparisons: tuple[Comparison, ...]
    refused: int
    rows: int
    repetitions: int
    cpus: int
    load_before: float
    core: str = compiled.form

    def as_dict(self) -> dict[str, object]:
        """For `--json`."""
        comparisons = [
            {**dataclasses.asdict(each), "ratio": round(each.ratio, 3), "reached": each.is_reached}
            for each in self.comparisons
        ]
        return {**dataclasses.asdict(self), "comparisons": comparisons}


def run_spark_bench(
    settings: Settings,
    *,
    rows: int,
    repetitions: int,
    parts: Sequence[str] = (),
    say: Say = lambda line: None,
) -> SparkBench:
    """Measure in a home of its own, which is removed afterwards.

    Args:
        settings: Java and the jar cache are taken from it.
        parts: which of `PARTS`; none are all of them.
        rows: of the table that is written and read; concurrent writers share a fifth of it.
        repetitions: of each pair.
        say: is told what is being done.
    """
    load_before = round(os.getloadavg()[0], 2)
    with ExitStack() as stack:
        own = stack.enter_context(own_servers(settings, say))
        for service in ("sequencer", "projector"):
            stack.enter_context(service_process(own, service))
        log = stack.enter_context(CommitLog.connect(settings=own))
        spark = stack.enter_context(local_spark(own, own.home / "spark", "commitlog-bench", SESSION))
        turns = Turns(spark, log, own.home / "plain", rows=rows, repetitions=repetitions, say=say)
        comparisons = tuple(each for part in PARTS if part in (parts or PARTS) for each in PARTS[part](turns))
        refused = sum(outcome.verdict is Verdict.REJECTED for outcome in log.subscribe(follow=False))
        return SparkBench(comparisons, refused, rows, repetitions, os.cpu_count() or 1, load_before)


def _appends(turns: Turns) -> Iterator[Comparison]:
    """`append` and `df.write.parquet`."""
    df = turns.made(turns.rows)

    def through_log() -> float:
        table = turns.new_table()
        return timed(lambda: append(df, table, log=turns.log))

    yield turns.compared(
        "append", lambda: timed(lambda: df.write.parquet(turns.new_folder())), through_log, ratio_max=1.05
    )


def _reads(turns: Turns) -> Iterator[Comparison]:
    """A few files, with and without deleted rows."""
    table, files = turns.filled(turns.made(turns.rows, files=FILES))
    folders = folders_of(files)
    yield from turns.reads(f"read {FILES} files", table, folders, ratio_max=0.95)
    assert turns.facts(read(turns.spark, table, log=turns.log)) == turns.facts(turns.spark.read.parquet(*folders))
    turns.say(f"deleting 8 % of {turns.rows:,} rows")
    turns.seen(delete(turns.spark, table, DELETED, log=turns.log))
    yield from turns.reads("read, 8 % deleted", table, folders, ratio_max=1.4)


def _many_files(turns: Turns) -> Iterator[Comparison]:
    """As many small files as a stream leaves."""
    many = turns.new_table()
    turns.say(f"writing {MANY_FILES:,} files")
    each = turns.rows // 5 // MANY_APPENDS
    for number in range(MANY_APPENDS):
        turns.add(turns.made(each, files=MANY_FILES // MANY_APPENDS, first=number * each), many)
    folders = folders_of(read(turns.spark, many, log=turns.log).inputFiles())
    yield from turns.reads(f"read {MANY_FILES:,} files", many, folders, ratio_max=1.3)


def _streams(turns: Turns) -> Iterator[Comparison]:
    """A batch of 1,000 rows into Spark's file sink, and into a table by either face."""
    feed = turns.plain / "feed"
    feed.mkdir(parents=True)
    for number in range(BATCHES):
        ids = range(number * BATCH_ROWS, (number + 1) * BATCH_ROWS)
        pq.write_table(pa.table({"id": pa.array(ids, pa.int64())}), feed / f"{number}.parquet")

    def batch_s(into: Callable[[DataFrame], DataStreamWriter]) -> float:
        stream = turns.spark.readStream.schema("id bigint").option("maxFilesPerTrigger", 1).parquet(str(feed))
        writer = into(stream.selectExpr(*EXPRESSIONS)).option("checkpointLocation", turns.new_folder())
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        spent = [each["durationMs"]["triggerExecution"] for each in query.recentProgress if each["numInputRows"]]
        assert len(spent) == BATCHES
        return float(statistics.median(spent[BATCHES_WARM:])) / 1000

    def plain() -> float:
        return batch_s(lambda rows: rows.writeStream.format("parquet").option("path", turns.new_folder()))

    def by_function() -> float:
        into = stream_into(turns.new_table(), log=turns.log)
        return batch_s(lambda rows: rows.writeStream.foreachBatch(into))

    def by_format() -> float:
        own = settings_of(turns.log)
        names = ("log", "bootstrap_servers", "database_url", "data_path")
        options = {"table": turns.new_table(), **{name: str(getattr(own, name)) for name in names}}
        options |= {f"kafka.{name}": str(value) for name, value in own.kafka.items()}
        return batch_s(lambda rows: rows.writeStream.format("commitlog").options(**options))

    yield turns.compared("micro-batch: stream_into", plain, by_function, ratio_max=0.9)
    yield turns.compared('micro-batch: format("commitlog")', plain, by_format, ratio_max=0.9)


def _writers(turns: Turns) -> Iterator[Comparison]:
    """8 threads into one table, and into a folder each."""
    df = turns.made(turns.rows // 5 // (WRITERS * APPENDS_EACH))

    def all_write(write: Callable[[int], object]) -> float:
        with ThreadPoolExecutor(WRITERS) as threads:
            return timed(lambda: [*threads.map(lambda i: [write(i) for _ in range(APPENDS_EACH)], range(WRITERS))])

    def plain() -> float:
        folders = [turns.new_folder() for _ in range(WRITERS)]
        return all_write(lambda number: df.write.mode("append").parquet(folders[number]))

    def through_log() -> float:
        table = turns.new_table()
        return all_write(lambda number: append(df, table, log=turns.log))

    yield turns.compared(f"{WRITERS} writers", plain, through_log, ratio_max=1.1)


PARTS: Mapping[str, Callable[[Turns], Iterator[Comparison]]] = {
    "append": _appends,
    "read": _reads,
    "many-files": _many_files,
    "delete": deletes,
    "python": in_python,
    "merge": merges,
    "streams": _streams,
    "writers": _writers,
}
"""What can be measured, in its order."""
