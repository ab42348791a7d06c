"""A driver with executors of their own processes, one of which is killed while its tasks write.

Told as JSON what to connect to; tells as JSON on its last line in which write an executor was killed, and how many rows it
then reads of a file with deleted ones.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

import psutil
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from commitlog.client import CommitLog
from commitlog.config import Settings
from commitlog.spark import append, delete, read

FUNCTION_TABLE, FORMAT_TABLE = "main.by_function", "main.by_format"
ROWS, TASKS = 400, 4
WAIT_S = 300


def main() -> None:
    told = json.loads(sys.argv[1])
    work = Path(told["work"])
    spark = (
        SparkSession.builder.master("local-cluster[2,1,600]")
        .config("spark.executor.memory", "600m")
        .config("spark.executor.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .config("spark.driver.memory", "600m")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(work / "warehouse"))
        .getOrCreate()
    )
    log = CommitLog.connect(settings=Settings.load(environment={}, **told["settings"]))
    killed = {}

    by_function = rows(spark, work / "by_function")
    with_killer = Killer(work / "by_function")
    append(by_function, FUNCTION_TABLE, log=log)
    killed["by_function"] = with_killer.end()

    by_format = rows(spark, work / "by_format").write.format("commitlog")
    with_killer = Killer(work / "by_format")
    by_format.options(**told["settings"], table=FORMAT_TABLE).mode("append").save()
    killed["by_format"] = with_killer.end()
    delete(spark, FUNCTION_TABLE, "id = 0", log=log)
    print(json.dumps({**killed, "left": read(spark, FUNCTION_TABLE, log=log).count()}))
    spark.stop()


def rows(spark: SparkSession, marks: Path) -> DataFrame:
    """Rows whose last task names its executor, and waits until that was killed."""
    marks.mkdir()

    @sf.udf("bigint")  # type: ignore[untyped-decorator]
    def waiting(value):  # type: ignore[no-untyped-def]
        if value == ROWS - 1:
            executor = next(each for each in psutil.Process().parents() if each.name() == "java")
            (marks / "named").write_text(str(executor.pid))
            (marks / "named").rename(marks / "waits")
            end = time.monotonic() + WAIT_S
            while not (marks / "killed").exists() and time.monotonic() < end:
                time.sleep(0.05)
        return value

    return spark.range(0, ROWS, 1, TASKS).select(waiting("id").alias("id"), sf.concat(sf.lit("n"), "id").alias("name"))


class Killer:
    """A thread that kills the executor whose task waits: another then runs its tasks again."""

    def __init__(self, marks: Path) -> None:
        self._marks = marks
        self._thread = threading.Thread(target=self._kill)
        self._thread.start()

    def _kill(self) -> None:
        end = time.monotonic() + WAIT_S
        while not (self._marks / "waits").exists() and time.monotonic() < end:
            time.sleep(0.05)
        os.kill(int((self._marks / "waits").read_text()), signal.SIGKILL)
        (self._marks / "killed").touch()

    def end(self) -> bool:
        """Whether it was killed."""
        self._thread.join()
        return (self._marks / "killed").exists()


if __name__ == "__main__":
    main()
