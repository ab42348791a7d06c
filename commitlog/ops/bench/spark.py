"""commitlog bench spark: what tables cost Spark, as ratios to the same work on plain Parquet folders in the same run.

Each pair is done by turns, so that whatever else the machine does falls on both; what is compared is the medians. The
first turn of each pair warms the JVM up and is not counted.
"""

from __future__ import annotations

import dataclasses
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from commitlog import compiled
from commitlog.client import CommitLog
from commitlog.config import Settings
from commitlog.domain.model import Verdict
from commitlog.ops.bench.servers import Say, own_servers, service_process
from commitlog.ops.local_spark import local_spark
from commitlog.spark import append, delete, read, stream_into

COLUMNS = {"id": "int64", "k": "int32", "at": "timestamp", "amount": "float64", "name": "varchar"}
EXPRESSIONS = (
    "id",
    "CAST(id % 1000 AS INT) AS k",
    "CAST(timestamp_seconds(1700000000 + id % 86400) AS TIMESTAMP_NTZ) AS at",
    "CAST(id * 0.25 AS DOUBLE) AS amount",
    "concat('name-', id % 5000) AS name",
)
CHECKED = ("count(*)", "sum(id)", "sum(k)", "max(at)", "sum(amount)", "max(name)")
DELETED = "id % 25 < 2"
"""8 % of the rows."""

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
class Comparison:
    """The same work done plainly and through the log, in seconds."""

    name: str
    plain_s: float
    commitlog_s: float
    ratio_max: float

    @property
    def ratio(self) -> float:
        return self.commitlog_s / self.plain_s

    @property
    def is_reached(self) -> bool:
        """Whether it is within what the design asks for."""
        return self.ratio <= self.ratio_max


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


def run_spark_bench(settings: Settings, *, rows: int, repetitions: int, say: Say = lambda line: None) -> SparkBench:
    """Measure in a home of its own, which is removed afterwards.

    Args:
        settings: Java and the jar cache are taken from it.
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
        bench = _Bench(spark, log, own, own.home / "plain", rows, repetitions, say)
        comparisons = (bench.appends(), *bench.reads(), *bench.micro_batches(), bench.writers())
        return SparkBench(comparisons, bench.refused(), rows, repetitions, os.cpu_count() or 1, load_before)


class _Bench:
    """The pairs, in one session on one log."""

    def __init__(
        self, spark: SparkSession, log: CommitLog, own: Settings, plain: Path, rows: int, repetitions: int, say: Say
    ) -> None:
        self._spark = spark
        self._log = log
        self._own = own
        self._plain = plain
        self._rows = rows
        self._repetitions = repetitions
        self._say = say
        self._numbers = count()

    # --- batches ------------------------------------------------------------------------------------------------------

    def appends(self) -> Comparison:
        """`append` and `df.write.parquet`."""
        df = self._made(self._rows)

        def through_log() -> float:
            table = self._new_table()
            return _timed(lambda: append(df, table, log=self._log))

        return self._compared(
            "append", lambda: _timed(lambda: df.write.parquet(self._new_folder())), through_log, ratio_max=1.08
        )

    def reads(self) -> tuple[Comparison, ...]:
        """`read` and `spark.read.parquet` of the same files, of all columns and of sums; then with deleted rows."""
        table = self._new_table()
        self._seen(append(self._made(self._rows), table, log=self._log))
        files = read(self._spark, table, log=self._log).inputFiles()
        found = [*self._pair("read", table, files, ratio_max=1.05)]
        assert self._facts(read(self._spark, table, log=self._log)) == self._facts(self._spark.read.parquet(*files))
        self._say(f"deleting 8 % of {self._rows:,} rows")
        self._seen(delete(self._spark, table, DELETED, log=self._log))
        found += self._pair("read, 8 % deleted", table, files, ratio_max=2.0)
        return tuple(found)

    def _pair(self, name: str, table: str, files: Sequence[str], ratio_max: float) -> Iterator[Comparison]:
        for how, take in (("all columns", _take_all), ("sums", self._facts)):
            yield self._compared(
                f"{name}: {how}",
                lambda take=take: _timed(lambda: take(self._spark.read.parquet(*files))),  # type: ignore[misc]
                lambda take=take: _timed(lambda: take(read(self._spark, table, log=self._log))),  # type: ignore[misc]
                ratio_max=ratio_max,
            )

    def _facts(self, df: DataFrame) -> object:
        return df.selectExpr(*CHECKED).collect()

    # --- micro-batches ------------------------------------------------------------------------------------------------

    def micro_batches(self) -> tuple[Comparison, ...]:
        """One batch of 1,000 rows into Spark's file sink, and into a table by either face."""
        feed = self._plain / "feed"
        feed.mkdir(parents=True)
        for number in range(BATCHES):
            ids = range(number * BATCH_ROWS, (number + 1) * BATCH_ROWS)
            pq.write_table(pa.table({"id": pa.array(ids, pa.int64())}), feed / f"{number}.parquet")

        def plain() -> float:
            return self._batch_s(
                feed, lambda rows: rows.writeStream.format("parquet").option("path", self._new_folder())
            )

        def by_function() -> float:
            into = stream_into(self._new_table(), log=self._log)
            return self._batch_s(feed, lambda rows: rows.writeStream.foreachBatch(into))

        def by_format() -> float:
            names = ("log", "bootstrap_servers", "database_url", "data_path")
            options = {"table": self._new_table(), **{name: str(getattr(self._own, name)) for name in names}}
            return self._batch_s(feed, lambda rows: rows.writeStream.format("commitlog").options(**options))

        return (
            self._compared("micro-batch: stream_into", plain, by_function, ratio_max=1.0),
            self._compared('micro-batch: format("commitlog")', plain, by_format, ratio_max=1.0),
        )

    def _batch_s(self, feed: Path, into: Callable[[DataFrame], DataStreamWriter]) -> float:
        stream = self._spark.readStream.schema("id bigint").option("maxFilesPerTrigger", 1).parquet(str(feed))
        writer = into(stream.selectExpr(*EXPRESSIONS)).option("checkpointLocation", self._new_folder())
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        spent = [each["durationMs"]["triggerExecution"] for each in query.recentProgress if each["numInputRows"]]
        assert len(spent) == BATCHES
        return float(statistics.median(spent[BATCHES_WARM:])) / 1000

    # --- concurrent writers -------------------------------------------------------------------------------------------

    def writers(self) -> Comparison:
        """8 threads into one table, and into a folder each."""
        df = self._made(self._rows // 5 // (WRITERS * APPENDS_EACH))

        def all_write(write: Callable[[int], object]) -> float:
            with ThreadPoolExecutor(WRITERS) as threads:
                return _timed(lambda: [*threads.map(lambda i: [write(i) for _ in range(APPENDS_EACH)], range(WRITERS))])

        def plain() -> float:
            folders = [self._new_folder() for _ in range(WRITERS)]
            return all_write(lambda number: df.write.mode("append").parquet(folders[number]))

        def through_log() -> float:
            table = self._new_table()
            return all_write(lambda number: append(df, table, log=self._log))

        return self._compared(f"{WRITERS} writers", plain, through_log, ratio_max=1.1)

    def refused(self) -> int:
        """How many proposals of the whole run were refused."""
        return sum(outcome.verdict is Verdict.REJECTED for outcome in self._log.subscribe(follow=False))

    # --- what all of them need ----------------------------------------------------------------------------------------

    def _compared(
        self, name: str, plain: Callable[[], float], through_log: Callable[[], float], *, ratio_max: float
    ) -> Comparison:
        plain_s: list[float] = []
        commitlog_s: list[float] = []
        for turn in range(self._repetitions + 1):
            for spent, work in ((plain_s, plain), (commitlog_s, through_log))[:: -1 if turn % 2 else 1]:
                spent.append(work())
        found = Comparison(name, statistics.median(plain_s[1:]), statistics.median(commitlog_s[1:]), ratio_max)
        self._say(f"{name}: {found.plain_s:.3f} s plain, {found.commitlog_s:.3f} s here, ratio {found.ratio:.2f}")
        return found

    def _made(self, rows: int) -> DataFrame:
        return self._spark.range(0, rows, 1, 2).selectExpr(*EXPRESSIONS)

    def _new_table(self) -> str:
        table = f"main.t{next(self._numbers)}"
        with self._log.transaction() as tx:
            tx.create_table(table, COLUMNS)
        self._seen(tx.outcome)
        return table

    def _new_folder(self) -> str:
        return str(self._plain / f"p{next(self._numbers)}")

    def _seen(self, outcome: object) -> None:
        snapshot_id = getattr(outcome, "snapshot_id", None)
        assert isinstance(snapshot_id, int)
        self._log.wait_for_snapshot(snapshot_id)


def _timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _take_all(df: DataFrame) -> None:
    df.write.format("noop").mode("overwrite").save()
