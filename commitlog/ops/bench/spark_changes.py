"""What changes of a large table cost, as ratios to full scans of it; and the same table without Spark, beside plain Arrow."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyspark.sql import functions as sf

from commitlog.domain.model import PartitionSpec
from commitlog.ops.bench.spark_turns import Comparison, Turns, folders_of, take_all, timed
from commitlog.spark import delete, merge, read

PARTITIONS = 100
MERGED_FILES = 16
MERGED_EVERY = 100


def deletes(turns: Turns) -> Iterator[Comparison]:
    """One partition of a hundred goes, and a scan of all columns."""
    rows = turns.made(turns.rows).withColumn("k", sf.expr(f"CAST(id % {PARTITIONS} AS INT)"))
    table, files = turns.filled(rows, [PartitionSpec("k", "identity")])
    folders, partitions = folders_of(files), count()

    def one() -> float:
        where = ("k", "=", next(partitions))
        return timed(lambda: turns.seen(delete(turns.spark, table, where, log=turns.log)))

    yield turns.compared(
        f"delete of one partition of {PARTITIONS} / full scan",
        lambda: timed(lambda: take_all(turns.spark.read.parquet(*folders))),
        one,
        ratio_max=0.2,
    )


def in_python(turns: Turns) -> Iterator[Comparison]:
    """Arrow's own readers and writers, and those of a table."""
    table, files = _large(turns)
    paths = [each.removeprefix("file://") for each in files]
    yield turns.compared(
        "Python: scan().to_arrow() / pyarrow.dataset",
        lambda: timed(lambda: ds.dataset(paths, format="parquet").to_table()),
        lambda: timed(lambda: turns.log.table(table).scan().to_arrow()),
        ratio_max=1.2,
    )
    rows = ds.dataset(paths, format="parquet").head(turns.rows // 5)
    turns.plain.mkdir(parents=True, exist_ok=True)

    def appended() -> float:
        handle = turns.log.table(turns.new_table())
        return timed(lambda: handle.append(rows))

    yield turns.compared(
        "Python: append of a table / pq.write_table",
        lambda: timed(lambda: pq.write_table(rows, f"{turns.new_folder()}.parquet")),
        appended,
        ratio_max=1.2,
    )


def merges(turns: Turns) -> Iterator[Comparison]:
    """1 % of the rows, in all files, get other values."""
    table, files = _large(turns)
    total, folders = 2 * turns.rows, folders_of(files)
    source = turns.spark.range(0, total, MERGED_EVERY, 2).selectExpr("id", "CAST(rand() AS DOUBLE) AS amount")

    def merged() -> float:
        return timed(lambda: turns.seen(merge(source, table, "id", log=turns.log)))

    yield turns.compared(
        "merge of 1 % / full scan",
        lambda: timed(lambda: take_all(turns.spark.read.parquet(*folders))),
        merged,
        ratio_max=2.0,
    )
    assert read(turns.spark, table, log=turns.log).count() == total


def _large(turns: Turns) -> tuple[str, list[str]]:
    return turns.filled(turns.made(2 * turns.rows, files=MERGED_FILES))
