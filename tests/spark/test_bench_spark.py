"""The bench of Spark against plain Parquet, on a few rows: what it prints here says nothing of speed."""

import pytest

from commitlog.config import Settings
from commitlog.ops.bench.spark import PARTS, run_spark_bench
from commitlog.ops.cli.bench import SPARK_PARTS


@pytest.mark.nightly
def test_bench_spark_when_run_then_compares_every_pair_and_nothing_is_refused(settings: Settings) -> None:
    result = run_spark_bench(settings, rows=20_000, repetitions=1)
    names = [each.name.partition(":")[0] for each in result.comparisons]
    reads = ("read 64 files", "read, 8 % deleted", "read 4,000 files")
    assert names == [
        "append",
        *[each for name in reads for each in (name, name)],
        "delete of one partition of 100 / full scan",
        *["Python"] * 2,
        "merge of 1 % / full scan",
        *["micro-batch"] * 2,
        "8 writers",
    ]
    assert result.refused == 0
    assert all(each.plain_s > 0 and each.commitlog_s > 0 for each in result.comparisons)


def test_bench_spark_when_parts_are_named_then_they_are_those_that_there_are() -> None:
    assert tuple(PARTS) == SPARK_PARTS


@pytest.mark.nightly
def test_bench_spark_when_a_part_is_named_then_measures_it_alone(settings: Settings) -> None:
    result = run_spark_bench(settings, rows=2_000, repetitions=1, parts=["merge"])
    assert [each.name for each in result.comparisons] == ["merge of 1 % / full scan"]
