"""Spark's Python workers, and what is done there and nowhere else."""

import gc
import os
import re
import subprocess
import sys
from importlib import import_module
from types import ModuleType

import pyspark
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from commitlog.errors import ConfigurationError, DataFileError
from commitlog.spark.source import batch_writer, stream_writer, workers
from commitlog.spark.source.batch_writer import BatchWriter
from commitlog.spark.source.stream_writer import StreamWriter
from commitlog.spark.source.workers import needs_spark, plainly

SOURCE = "commitlog.spark.source.table_reader"


def test_keep_imports_when_the_source_is_imported_then_holds_for_workers_and_not_for_the_driver(
    spark: SparkSession,
) -> None:
    @sf.udf("long")  # type: ignore[untyped-decorator]
    def kept(_):  # type: ignore[no-untyped-def]
        import_module(SOURCE)
        return gc.get_freeze_count()

    [row] = spark.range(1).select(kept("id").alias("kept")).collect()
    assert row.kept > 10_000
    driver = f"import gc, {SOURCE}; print(gc.get_freeze_count())"
    assert subprocess.run([sys.executable, "-c", driver], check=True, capture_output=True, text=True).stdout == "0\n"


def test_plainly_when_an_error_of_ours_ends_a_worker_then_its_words_are_all_that_spark_shows(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    @sf.udf("long")  # type: ignore[untyped-decorator]
    def failing(value):  # type: ignore[no-untyped-def]
        with plainly():
            raise DataFileError("column id is wrong") if value == 0 else ValueError("a mistake of ours")

    def told(value: int) -> str:
        with pytest.raises(PySparkException) as raised:
            spark.range(value, value + 1).select(failing("id")).collect()
        return str(raised.value)

    assert re.search(r"worker:\s+commitlog\.errors\.DataFileError: column id is wrong", told(0))
    assert "Traceback" in told(1)
    monkeypatch.delenv("SPARK_HIDE_TRACEBACK", raising=False)
    with pytest.raises(DataFileError), plainly():
        raise DataFileError("the driver's own")
    assert "SPARK_HIDE_TRACEBACK" not in os.environ


@pytest.mark.parametrize("module", [batch_writer, stream_writer])
def test_writer_when_its_task_fails_by_an_error_of_ours_then_spark_is_to_show_the_words_alone(
    monkeypatch: pytest.MonkeyPatch, module: ModuleType
) -> None:
    def failing(*_: object) -> None:
        raise DataFileError("column id is wrong")

    monkeypatch.setattr(workers, "_is_worker", lambda: True)
    monkeypatch.setattr(module, "written", failing)
    monkeypatch.setenv("SPARK_HIDE_TRACEBACK", "")
    kind = BatchWriter if module is batch_writer else StreamWriter
    writer = kind.__new__(kind)
    vars(writer).update(_overwrite=False, _is_done=False, _target=None)
    with pytest.raises(DataFileError):
        writer.write(iter(()))
    assert os.environ["SPARK_HIDE_TRACEBACK"] == "true"


def test_streams_when_spark_is_older_than_they_need_then_say_what_there_is_instead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pyspark, "__version__", "4.0.1")
    for version in ("4.0", "3.10"):
        needs_spark(version, "this", "that")
    for version in ("4.1", "4.10", "5.0"):
        with pytest.raises(ConfigurationError, match=rf"^this needs Spark {version}, and this is 4\.0\.1: that$"):
            needs_spark(version, "this", "that")
