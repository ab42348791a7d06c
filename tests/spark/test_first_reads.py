"""The first reads of a session, when several begin at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
from pyspark.sql import SparkSession

from commitlog.spark.reading import exact_files
from commitlog.testing import InMemoryCommitLog

READERS = 8


def test_first_reads_when_they_begin_at_once_then_one_class_is_compiled(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from commitlog.spark import table

    class Compiled:
        """Stands for the cache of a session that has read nothing yet."""

        def __init__(self) -> None:
            self.inside = 0
            self.most = 0

        def __call__(self, jvm: object) -> object:
            self.inside += 1
            self.most = max(self.most, self.inside)
            found = compiled(jvm)
            spark.range(1).count()
            self.inside -= 1
            return found

    compiled, first = exact_files._compiled, Compiled()
    monkeypatch.setattr(exact_files, "_compiled", first)
    with InMemoryCommitLog(data_path=tmp_path) as log, ThreadPoolExecutor(READERS) as pool:
        table(spark, "main.t", log=log).append(spark.range(3), create=True)
        together = Barrier(READERS)

        def read() -> int:
            together.wait()
            return table(spark, "main.t", log=log).read().count()

        assert [each.result() for each in [pool.submit(read) for _ in range(READERS)]] == [3] * READERS
    assert first.most == 1
