"""What order compaction gives the rows, and that rows keep their ids."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from people import TABLE, Meanwhile, files_now, ids, rows
from pyspark.sql import SparkSession

from commitlog.client import CommitLog
from commitlog.client.reading.duckdb_client import open_lake
from commitlog.config import Settings
from commitlog.errors import DataFileError, InvalidRequestError, ProposalRejectedError
from commitlog.spark import append, compact, delete, read, table
from commitlog.spark.maintaining.z_order import RANK_BITS, quantiles

POINTS = "main.points"
SIDE = 64


@pytest.fixture
def points(spark: SparkSession, log: CommitLog) -> None:
    """The points of a square, out of order, in eight files."""
    with log.transaction() as tx:
        tx.create_table(POINTS, {"x": "int32", "y": "varchar", "at": "timestamp", "w": "float64"})
    grid = spark.range(SIDE * SIDE).selectExpr(
        f"CAST(id % {SIDE} AS INT) AS x",
        f"CASE WHEN id % {SIDE} = 0 THEN NULL ELSE lpad(CAST(id DIV {SIDE} AS STRING), 3, '0') END AS y",
        "timestampadd(HOUR, CAST(id AS INT), TIMESTAMP_NTZ '2024-01-01 00:00:00') AS at",
        "IF(id % 100 = 0, double('NaN'), id / 3) AS w",
    )
    append(grid.orderBy("w").repartition(8), POINTS, log=log)


def row_ids(log: CommitLog, settings: Settings) -> dict[tuple[object, ...], int]:
    log.wait_for_snapshot()
    with open_lake(settings.database_url) as connection:
        rows = connection.execute(f'SELECT "at", rowid FROM {POINTS}').fetchall()
    return {row[:-1]: row[-1] for row in rows}


def live_files(log: CommitLog, settings: Settings) -> list[Path]:
    log.wait_for_snapshot()
    with open_lake(settings.database_url) as connection:
        rows = connection.execute("SELECT data_file FROM ducklake_list_files('lake', 'points')")
        return [Path(path) for (path,) in rows.fetchall()]


@pytest.mark.usefixtures("points")
def test_compact_when_rows_are_deleted_then_those_left_keep_their_ids_and_can_be_compacted_again(
    spark: SparkSession, log: CommitLog, settings: Settings
) -> None:
    before = row_ids(log, settings)
    delete(spark, POINTS, "x < 3", log=log)
    assert len(compact(spark, POINTS, sort_by=["x", "y"], log=log)) == 1
    [path] = live_files(log, settings)
    xs = pq.read_table(path).column("x").to_pylist()
    assert xs == sorted(xs)
    delete(spark, POINTS, "x = 3", log=log)
    compact(spark, POINTS, log=log)
    after = row_ids(log, settings)
    assert len(after) == SIDE * (SIDE - 4)
    assert after == {key: before[key] for key in after}
    assert read(spark, POINTS, log=log).count() == SIDE * (SIDE - 4)


@pytest.mark.usefixtures("points")
def test_compact_when_along_a_curve_then_each_file_has_a_part_of_every_column(
    spark: SparkSession, log: CommitLog, settings: Settings
) -> None:
    before = read(spark, POINTS, log=log).fillna(-1.0).orderBy("at").toArrow()
    size = sum(path.stat().st_size for path in live_files(log, settings))
    compact(spark, POINTS, z_order_by=["x", "y"], target_bytes=size // 4, log=log)
    files = [pq.read_table(path).to_pydict() for path in live_files(log, settings)]
    assert len(files) > 2
    # Sorted by one column, the files would share all of the other's values.
    for column in ("x", "y"):
        spreads = [_spread(file[column]) for file in files]
        assert sum(spreads) / len(spreads) < 0.8 * SIDE, (column, spreads)
    assert read(spark, POINTS, log=log).fillna(-1.0).orderBy("at").toArrow() == before
    compact(spark, POINTS, z_order_by=["at", "w", "y"], log=log)


def _spread(values: list[int | str | None]) -> int:
    known = [int(value) for value in values if value is not None]
    return max(known) - min(known) + 1


@pytest.mark.usefixtures("points")
def test_compact_when_it_cannot_order_the_rows_then_says_why(spark: SparkSession, log: CommitLog) -> None:
    with pytest.raises(DataFileError, match=r"no column z to order its rows by \(it has x, y, at, w\)"):
        compact(spark, POINTS, sort_by=["z"], log=log)
    with pytest.raises(ValueError, match="2 to 8 columns, not 1; use sort_by"):
        compact(spark, POINTS, z_order_by=["x"], log=log)
    with pytest.raises(ValueError, match="not both"):
        compact(spark, POINTS, sort_by=["x"], z_order_by=["x", "y"], log=log)


def test_quantiles_when_values_repeat_then_each_stands_once_in_order() -> None:
    assert quantiles([]) == []
    assert quantiles([3, 1, 3, 3]) == [1, 3]
    many = quantiles(range(10_000))
    assert many == sorted(set(many))
    assert len(many) == 2**RANK_BITS - 2


@pytest.mark.usefixtures("people")
def test_compact_when_files_are_chosen_then_others_stay_and_a_refused_group_ends_no_other(
    spark: SparkSession, log: CommitLog, settings: Settings
) -> None:
    for start in (0, 10, 20, 30, 40, 50):
        append(rows(spark, *range(start, start + 10)), TABLE, log=log)
    before = {each.data_file_id for each in files_now(log)}
    pair = int(2.5 * files_now(log)[0].file_size_bytes)
    t = table(spark, TABLE, log=log)
    assert len(t.compact(where="id >= 40 AND id % 2 = 1")) == 1
    assert len(before & {each.data_file_id for each in files_now(log)}) == 4
    with pytest.raises(InvalidRequestError, match="files are chosen by what the catalog knows"):
        t.compact(where="id % 2 = 1")
    with pytest.raises(InvalidRequestError, match="from 1 on, not 0"):
        t.compact(parallelism=0)
    with Meanwhile.connect(settings=settings) as late:
        late.other = lambda: delete(spark, TABLE, "id = 5", log=log)
        with pytest.raises(ProposalRejectedError, match="CONFLICT") as refused:
            table(spark, TABLE, log=late).compact(where=("id", "<", 40), target_bytes=pair, parallelism=1)
    assert refused.value.__notes__ == ["1 of 2 groups of files are compacted: compact again for the rest."]
    assert len(files_now(log)) == 4
    assert len(t.compact(where=("id", "<", 20), target_bytes=pair)) == 1
    assert t.compact(target_bytes=1) == []
    assert len(t.compact(target_bytes=1, rewrite_all=True, parallelism=3)) == 3
    assert len(t.compact(target_bytes=1 << 30, rewrite_all=True, sort_by=["name"])) == 1
    [path] = [Path(each.path) for each in files_now(log)]
    names = pq.read_table(path).column("name").to_pylist()
    assert names == sorted(names)
    assert ids(spark, log) == [each for each in range(60) if each != 5]
