"""A driver of its own process for test_killed_drivers: one feed streamed into two tables, by either face of the product.

Both queries run up to one step of one batch, and when both are there, the process and its JVM get a SIGKILL. The step is
reached by wrapping the product's functions here, in the driver and in Python workers; the product knows nothing of it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from commitlog.client import CommitLog
from commitlog.config import Settings
from commitlog.log.codec import encode_proposal
from commitlog.spark import stream_into
from commitlog.spark.source import data_source, stream_writer
from commitlog.spark.writing import append as appending

STEPS = ("before write", "after write", "after publish", "after the verdict", "before the checkpoint")
NO_STEP = "none"
"""Of the last driver, which nobody kills."""
FUNCTION_TABLE, FORMAT_TABLE = "main.by_function", "main.by_format"
FEED_SCHEMA = "id bigint, name string"
WAIT_S = 300


@dataclass(frozen=True)
class Orders:
    """What one driver is to do. step: where it dies; batch_id: in which batch; fails_first: tasks fail once."""

    work: str
    settings: dict[str, str]
    step: str
    batch_id: int
    driver_pid: int = 0
    fails_first: bool = False


class Death:
    """The end of the driver at one step, once both queries are there."""

    def __init__(self, orders: Orders, query: str) -> None:
        self.orders = orders
        self.query = query
        self.batch_id = -1

    def at(self, step: str) -> None:
        """Die here, if this is the step and the batch."""
        if (step, self.batch_id) != (self.orders.step, self.orders.batch_id):
            return
        marks = Path(self.orders.work) / "marks" / f"{step}-{self.batch_id}"
        marks.mkdir(parents=True, exist_ok=True)
        (marks / self.query).touch()
        end = time.monotonic() + WAIT_S
        while len(list(marks.iterdir())) < 2 and time.monotonic() < end:
            time.sleep(0.05)
        os.killpg(self.orders.driver_pid, signal.SIGKILL)
        time.sleep(WAIT_S)


def die_in_commits(death: Death) -> None:
    """Wrap the client of this process: it dies when its proposal is in the topic, or when the verdict is there."""
    submit = CommitLog.submit

    def dying(log: CommitLog, proposal: Any, *, timeout_ms: int | None = None) -> Any:
        if proposal.open_writer or not proposal.writer_id.startswith("spark:"):
            return submit(log, proposal, timeout_ms=timeout_ms)
        if (death.orders.step, death.orders.batch_id) == ("after publish", death.batch_id):
            log._access.send(proposal, encode_proposal(proposal))
            log._access._connections.publisher().flush(WAIT_S)  # type: ignore[attr-defined]
            death.at("after publish")
        outcome = submit(log, proposal, timeout_ms=timeout_ms)
        death.at("after the verdict")
        return outcome

    CommitLog.submit = dying  # type: ignore[method-assign]


def dying_write(write: Callable[..., Any], death: Death) -> Callable[..., Any]:
    """A function that writes files, and dies before or after it."""

    def dying(*args: Any) -> Any:
        death.at("before write")
        paths = write(*args)
        death.at("after write")
        return paths

    return dying


class DyingWriter(stream_writer.StreamWriter):
    """The product's writer, whose tasks and commits die."""

    orders: Orders

    def write(self, iterator: Iterator[Any]) -> Any:
        context = TaskContext.get()
        assert context is not None
        death = Death(self.orders, "format")
        death.batch_id = int(context.getLocalProperty("streaming.sql.batchId") or -1)
        death.at("before write")
        written = super().write(iterator)
        if self.orders.fails_first and context.attemptNumber() == 0:
            raise RuntimeError("this task fails once, when its file is written")
        return written

    def commit(self, messages: Any, batchId: int) -> None:  # noqa: N803
        death = Death(self.orders, "format")
        death.batch_id = batchId
        death.at("after write")
        die_in_commits(death)
        super().commit(messages, batchId)
        death.at("before the checkpoint")


class DyingSource(data_source.CommitLogDataSource):
    """`format("dying")`."""

    @classmethod
    def name(cls) -> str:
        return "dying"

    def __init__(self, options: dict[str, str]) -> None:
        self._orders = Orders(**json.loads(options["orders"]))
        super().__init__({name: value for name, value in options.items() if name != "orders"})

    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:  # noqa: N802
        writer = DyingWriter(self._chosen, FORMAT_TABLE, schema)
        writer.orders = self._orders
        return writer


def main() -> None:
    orders = Orders(**{**json.loads(sys.argv[1]), "driver_pid": os.getpid()})
    work = Path(orders.work)
    spark = (
        SparkSession.builder.master("local[1,2]" if orders.fails_first else "local[1]")
        .config("spark.driver.memory", "600m")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Duser.timezone=UTC")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(work / "warehouse"))
        .getOrCreate()
    )
    spark.dataSource.register(DyingSource)
    log = CommitLog.connect(settings=Settings.load(environment={}, **orders.settings))
    death = Death(orders, "function")
    die_in_commits(death)
    # The first batch of a run is written by tasks, and small ones after it by the driver.
    for name in ("write_few", "write_batches"):
        setattr(appending, name, dying_write(getattr(appending, name), death))
    into_table = stream_into(FUNCTION_TABLE, log=log)

    def append_batch(df: DataFrame, batch_id: int) -> None:
        death.batch_id = batch_id
        into_table(failing_once(df) if orders.fails_first else df, batch_id)
        death.at("before the checkpoint")

    feed = spark.readStream.schema(FEED_SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(work / "feed"))
    by_function = feed.writeStream.foreachBatch(append_batch).option("checkpointLocation", str(work / "by_function"))
    options = {**orders.settings, "table": FORMAT_TABLE, "checkpointLocation": str(work / "by_format")}
    by_format = feed.writeStream.format("commitlog").options(**options)
    if orders.step != NO_STEP:
        by_format = by_format.format("dying").option("orders", json.dumps(vars(orders)))
    queries = [each.trigger(availableNow=True).start() for each in (by_function, by_format)]
    for query in queries:
        query.awaitTermination()


def failing_once(df: DataFrame) -> DataFrame:
    """The rows, whose task fails after its last row, but not when it is tried again."""

    @F.udf("bigint")  # type: ignore[untyped-decorator]
    def one(value: int) -> int:
        context = TaskContext.get()
        if context is not None and context.attemptNumber() == 0 and value % 10 == 9:
            raise RuntimeError("this task fails once")
        return value

    return df.withColumn("id", one("id"))


if __name__ == "__main__":
    main()
