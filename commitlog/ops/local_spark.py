"""A Spark session for the commands that need one: on this machine, and quiet."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from os import environ
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from commitlog.config import Settings
from commitlog.errors import LocalRuntimeError
from commitlog.local.java import find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def local_spark(
    settings: Settings, directory: Path, name: str = "commitlog", more: Mapping[str, str] = MappingProxyType({})
) -> Iterator[SparkSession]:
    """A session on two of this machine's cores, whose own words go to `spark.log` in ``directory``.

    What ``more`` configures comes over what is configured here.

    Raises:
        LocalRuntimeError: there is no Java that is new enough, or Spark does not start with it; Spark itself would not say why.
    """
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    from pyspark_commitlog import DefaultSource

    find_java(settings.java_home)
    directory.mkdir(parents=True, exist_ok=True)
    # Spark takes its Java, and the Python of its workers, from nowhere else. They are written for its processes and never read
    # here.
    if settings.java_home is not None:
        environ["JAVA_HOME"] = str(settings.java_home)
    environ["PYSPARK_PYTHON"] = environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    options: dict[str, bool | float | int | str | None] = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.log.level": "ERROR",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **more,
    }
    log_file = directory / "spark.log"
    try:
        with stderr_to(log_file):
            session = SparkSession.builder.master("local[2]").appName(name).config(map=options).getOrCreate()
    except PySparkRuntimeError as error:
        raise LocalRuntimeError("Spark did not start:", log_file=log_file) from error
    try:
        # Where the path of its Python has a space, Spark does not look for sources itself.
        session.dataSource.register(DefaultSource)
        yield session
    finally:
        session.stop()


@contextmanager
def stderr_to(path: Path) -> Iterator[None]:
    """For a program started inside, which keeps writing there: Java and Spark have much to say that is no news here."""
    kept = os.dup(2)
    with path.open("wb") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
