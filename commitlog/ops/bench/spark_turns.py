"""Pairs of the same work, plainly and through a log, done by turns so that whatever else the machine does falls on both.

What is compared is the medians. The first turn of each pair warms the JVM up and is not counted.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from commitlog.client import CommitLog
from commitlog.client.tables.partitions import DIRECTORY
from commitlog.domain.model import PartitionSpec
from commitlog.ops.bench.servers import Say
from commitlog.spark import append, read

COLUMNS = {"id": "int64", "k": "int32", "at": "timestamp", "amount": "float64", "name": "varchar"}
EXPRESSIONS = (
    "id",
    "CAST(id % 1000 AS INT) AS k",
    "CAST(timestamp_seconds(1700000000 + id % 86400) AS TIMESTAMP_NTZ) AS at",
    "CAST(id * 0.25 AS DOUBLE) AS amount",
    "concat('name-', id % 5000) AS name",
)
CHECKED = ("count(*)", "sum(id)", "sum(k)", "max(at)", "sum(amount)", "max(name)")


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


class Turns:
    """What every pair needs: a session, a log, and rows for new tables and folders.

    Args:
        spark: the session.
        log: the log.
        plain: the folder for what is done plainly.
        rows: of the table that is written and read.
        repetitions: of each pair.
        say: is told what is being done.
    """

    def __init__(
        self, spark: SparkSession, log: CommitLog, plain: Path, *, rows: int, repetitions: int, say: Say
    ) -> None:
        self.spark = spark
        self.log = log
        self.plain = plain
        self.rows = rows
        self.repetitions = repetitions
        self.say = say
        self._numbers = count()

    def compared(
        self, name: str, plain: Callable[[], float], through_log: Callable[[], float], *, ratio_max: float
    ) -> Comparison:
        """The medians of both, each of which does the work once and says how many seconds it took."""
        plain_s: list[float] = []
        commitlog_s: list[float] = []
        for turn in range(self.repetitions + 1):
            for spent, work in ((plain_s, plain), (commitlog_s, through_log))[:: -1 if turn % 2 else 1]:
                spent.append(work())
        found = Comparison(name, statistics.median(plain_s[1:]), statistics.median(commitlog_s[1:]), ratio_max)
        self.say(f"{name}: {found.plain_s:.3f} s plain, {found.commitlog_s:.3f} s here, ratio {found.ratio:.2f}")
        return found

    def reads(self, name: str, table: str, folders: Sequence[str], *, ratio_max: float) -> Iterator[Comparison]:
        """`read` and `spark.read.parquet` of the same files, of all columns and of sums."""
        for how, take in (("all columns", take_all), ("sums", self.facts)):
            yield self.compared(
                f"{name}: {how}",
                lambda take=take: timed(lambda: take(self.spark.read.parquet(*folders))),  # type: ignore[misc]
                lambda take=take: timed(lambda: take(read(self.spark, table, log=self.log))),  # type: ignore[misc]
                ratio_max=ratio_max,
            )

    def facts(self, df: DataFrame) -> object:
        """What is looked up of rows, and has to be the same by either way."""
        return df.selectExpr(*CHECKED).collect()

    def made(self, rows: int, *, files: int = 2, first: int = 0) -> DataFrame:
        """Rows that become so many files."""
        return self.spark.range(first, first + rows, 1, files).selectExpr(*EXPRESSIONS)

    def filled(self, rows: DataFrame, partition_by: Sequence[PartitionSpec] = ()) -> tuple[str, list[str]]:
        """A table with the rows, and its files."""
        table = self.new_table(partition_by)
        self.add(rows, table)
        return table, [*read(self.spark, table, log=self.log).inputFiles()]

    def add(self, rows: DataFrame, table: str) -> None:
        """Append the rows, and wait for readers to see them."""
        self.seen(append(rows, table, log=self.log))

    def new_table(self, partition_by: Sequence[PartitionSpec] = ()) -> str:
        """An empty table."""
        table = f"main.t{next(self._numbers)}"
        with self.log.transaction() as tx:
            tx.create_table(table, COLUMNS, partition_by=partition_by)
        self.seen(tx.outcome)
        return table

    def new_folder(self) -> str:
        """A folder that is not there yet."""
        return str(self.plain / f"p{next(self._numbers)}")

    def seen(self, outcome: object) -> None:
        """Wait for readers to see a commit."""
        snapshot_id = getattr(outcome, "snapshot_id", None)
        assert isinstance(snapshot_id, int)
        self.log.wait_for_snapshot(snapshot_id)


def folders_of(files: Iterable[str]) -> list[str]:
    """The folders that files were written to, each with its partitions below."""
    return sorted({each.rpartition("/")[0].partition(f"/{DIRECTORY}")[0] for each in files})


def timed(work: Callable[[], object]) -> float:
    """How many seconds it takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def take_all(df: DataFrame) -> None:
    """Read all rows and columns."""
    df.write.format("noop").mode("overwrite").save()
