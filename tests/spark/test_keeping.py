"""What keeps a lake small: rows of keyed tables flushed into files, and old snapshots let go of."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from commitlog.catalog.queries import Catalog
from commitlog.client import CommitLog
from commitlog.client.reading.duckdb_client import open_lake
from commitlog.config import Settings
from commitlog.domain.model import Flush, Reason
from commitlog.errors import DataFileError, SnapshotNotFoundError
from commitlog.spark import expire, flush, read
from commitlog.testing import InMemoryCommitLog

STOCK = "main.stock"


@pytest.fixture
def stock(log: CommitLog) -> None:
    """A keyed table of three rows."""
    with log.transaction() as tx:
        tx.create_table(STOCK, {"sku": "varchar", "count": "int32", "at": "timestamp"}, primary_key=["sku"])
    with log.transaction() as tx:
        for sku, count in (("a", 1), ("b", 2), ("c", 3)):
            tx.insert_row(STOCK, {"sku": sku, "count": count, "at": "2024-01-31 12:30:00"})


def change(log: CommitLog, sku: str, count: int | None) -> None:
    with log.transaction() as tx:
        if count is None:
            tx.delete_row(STOCK, {"sku": sku})
        else:
            tx.update_row(STOCK, {"sku": sku}, {"sku": sku, "count": count, "at": None})


def counts(spark: SparkSession, log: CommitLog, snapshot: int | None = None) -> dict[str, int]:
    return {row.sku: row["count"] for row in read(spark, STOCK, snapshot, log=log).collect()}


def duck_counts(settings: Settings, snapshot: int) -> dict[str, int]:
    with open_lake(settings.database_url) as connection:
        rows = connection.execute(f"SELECT sku, count FROM {STOCK} AT (VERSION => {snapshot})").fetchall()
    return dict(rows)


@pytest.mark.usefixtures("stock")
def test_flush_when_rows_are_cold_then_they_are_in_a_file_by_row_id_and_change_by_key_as_before(
    spark: SparkSession, log: CommitLog, settings: Settings
) -> None:
    before = log.transaction().base_snapshot_id
    change(log, "b", 20)
    outcome = flush(spark, STOCK, older_than_snapshot=before + 1, log=log)
    assert outcome is not None
    [path] = Path(settings.data_path).rglob("*.parquet")
    assert pq.read_table(path).column("sku").to_pylist() == ["a", "c"]
    assert counts(spark, log) == duck_counts(settings, before + 2) == {"a": 1, "b": 20, "c": 3}
    assert counts(spark, log, before) == duck_counts(settings, before) == {"a": 1, "b": 2, "c": 3}
    change(log, "a", 10)
    change(log, "c", None)
    head = before + 4
    log.wait_for_snapshot(head)
    assert counts(spark, log) == duck_counts(settings, head) == {"a": 10, "b": 20}
    assert counts(spark, log, before + 2) == duck_counts(settings, before + 2) == {"a": 1, "b": 20, "c": 3}
    with open_lake(settings.database_url) as connection:
        ids = connection.execute(f"SELECT rowid FROM {STOCK} ORDER BY rowid").fetchall()
    assert [i for (i,) in ids] == [0, 1]


class _Late(CommitLog):
    """Changes a row between the making of the first proposal and its sending."""

    by: Settings
    changes = 1

    def commit(self, proposal, *, timeout_ms=None):  # type: ignore[no-untyped-def]
        if self.changes and isinstance(proposal.changes[0], Flush):
            self.changes -= 1
            with CommitLog.connect(settings=self.by) as other:
                change(other, "b", 20)
        return super().commit(proposal, timeout_ms=timeout_ms)


@pytest.fixture(params=["broker", "memory"])
def any_log(request: pytest.FixtureRequest, tmp_path: Path) -> CommitLog:
    if request.param == "memory":
        return InMemoryCommitLog(data_path=tmp_path / "in_memory")
    log: CommitLog = request.getfixturevalue("log")
    return log


def test_flush_when_columns_are_nested_then_spark_reads_the_same_rows_before_and_after(
    spark: SparkSession, any_log: CommitLog
) -> None:
    columns = {
        "id": "int64",
        "l": "list(int32)",
        "s": "struct(a int16, b varchar, x blob)",
        "m": "map(varchar, struct(t timestamp, z timestamptz, d decimal(9,2)))",
    }
    at = datetime(2024, 1, 31, 12, 30, 0, 5)
    inner = {"t": at, "z": at.replace(tzinfo=UTC), "d": Decimal("1.50")}
    with any_log.transaction() as tx:
        tx.create_table("main.nested", columns, primary_key=["id"])
    nested = any_log.table("main.nested")
    full = {"id": 1, "l": [1, None], "s": {"a": 2, "b": "c, ]", "x": b"\x00\xff"}, "m": {"k": inner}}
    nested.insert([full, {"id": 2, "l": [], "m": {}}])
    nested.insert({"id": 3})
    expected, sparks = nested.scan().to_arrow().to_pylist(), read(spark, "nested", log=any_log).orderBy("id").collect()
    assert [(row.id, row.l, row.s and row.s.asDict()) for row in sparks] == [
        (1, [1, None], full["s"]),
        (2, [], None),
        (3, None, None),
    ]
    assert sparks[0].m["k"].d == Decimal("1.50")
    assert flush(spark, "nested", older_than_snapshot=3, log=any_log) is not None
    assert [file.record_count for file in nested.files()] == [2]
    assert flush(spark, "nested", log=any_log) is not None
    assert flush(spark, "nested", log=any_log) is None
    assert nested.scan().to_arrow().sort_by("id").to_pylist() == expected
    assert read(spark, "nested", log=any_log).orderBy("id").collect() == sparks


def test_flush_when_rows_are_json_or_older_than_a_blob_then_spark_reads_the_same_rows_before_and_after(
    spark: SparkSession, any_log: CommitLog
) -> None:
    with any_log.transaction() as tx:
        tx.create_table("main.old", {"id": "int64", "j": "json"}, primary_key=["id"])
    old = any_log.table("main.old")
    old.insert([{"id": 1, "j": {"a": [1, None]}}, {"id": 2, "j": None}])
    with any_log.transaction() as tx:
        tx.alter("main.old").add_column("b", "blob", default="a\\x00\\xFF").add_column("w", "boolean", default=True)
    any_log.wait_for_snapshot()
    added = {"b": b"a\x00\xff", "w": True}
    expected = [{"id": 1, "j": '{"a": [1, null]}', **added}, {"id": 2, "j": None, **added}]
    assert old.scan().to_arrow().sort_by("id").to_pylist() == expected
    assert [row.asDict() for row in read(spark, "old", log=any_log).orderBy("id").collect()] == expected
    assert flush(spark, "old", log=any_log) is not None
    assert old.scan().to_arrow().sort_by("id").to_pylist() == expected
    assert [row.asDict() for row in read(spark, "old", log=any_log).orderBy("id").collect()] == expected


@pytest.mark.usefixtures("stock")
def test_flush_when_a_row_changes_meanwhile_then_is_tried_again_on_the_new_head(
    spark: SparkSession, log: CommitLog, settings: Settings
) -> None:
    with _Late.connect(settings=settings) as late:
        late.by = settings
        assert flush(spark, STOCK, log=late) is not None
        assert flush(spark, STOCK, log=late) is None
    refused = [outcome.reason for outcome in log.subscribe(follow=False) if outcome.reason]
    assert refused == [Reason.CONFLICT]
    assert len(list(Path(settings.data_path).rglob("*.parquet"))) == 1
    head = log.wait_for_snapshot()
    assert counts(spark, log, head) == duck_counts(settings, head) == {"a": 1, "b": 20, "c": 3}


@pytest.mark.usefixtures("stock")
def test_flush_when_there_are_more_rows_than_a_proposal_names_then_by_several_commits(
    spark: SparkSession, log: CommitLog, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, rows_by_id_at = [], Catalog.rows_by_id_at

    def counted(*args, **options):  # type: ignore[no-untyped-def]
        found = rows_by_id_at(*args, **options)
        asked.append(len(found))
        return found

    monkeypatch.setattr(Catalog, "rows_by_id_at", counted)
    for start in range(0, 120, 20):
        with log.transaction() as tx:
            for number in range(start, start + 20):
                tx.insert_row(STOCK, {"sku": f"s{number}", "count": number})
    with log.transaction() as tx:
        tx.configure(proposal_bytes_max=1_024)
    with CommitLog.connect(settings=settings) as later:
        outcome = flush(spark, STOCK, log=later)
    assert outcome is not None
    flushes = [
        each.snapshot_id
        for each in log.subscribe(follow=False)
        if each.proposal is not None and isinstance(each.proposal.changes[0], Flush)
    ]
    assert flushes == [outcome.snapshot_id - 2, outcome.snapshot_id - 1, outcome.snapshot_id]
    # As many as a proposal names, and one that tells that there are more.
    assert asked == [52, 52, 21]
    log.wait_for_snapshot()
    assert log.table(STOCK).scan().stored_count() == 0
    assert counts(spark, log) == {"a": 1, "b": 2, "c": 3, **{f"s{number}": number for number in range(120)}}


def test_flush_when_the_table_has_no_primary_key_then_says_what_to_do(spark: SparkSession, log: CommitLog) -> None:
    with log.transaction() as tx:
        tx.create_table("main.t", {"id": "int64"})
    with pytest.raises(DataFileError, match=r"main\.t has no primary key.*compact it"):
        flush(spark, "main.t", log=log)


@pytest.mark.usefixtures("stock")
def test_expire_when_some_are_kept_then_older_snapshots_are_gone(spark: SparkSession, log: CommitLog) -> None:
    change(log, "a", 10)
    head = log.transaction().base_snapshot_id
    assert expire(log, keep=2) is not None
    log.wait_for_snapshot()
    assert counts(spark, log, head - 1) == {"a": 1, "b": 2, "c": 3}
    with pytest.raises(SnapshotNotFoundError):
        counts(spark, log, head - 2)
    assert expire(log, older_than_snapshot=head - 1) is None
    with pytest.raises(ValueError, match="keep=100"):
        expire(log, keep=1, older_than_snapshot=1)


def test_flush_when_two_columns_had_one_name_then_rows_keep_the_values_of_each(
    spark: SparkSession, any_log: CommitLog
) -> None:
    with any_log.transaction() as tx:
        tx.create_table("main.t", {"id": "int64", "v": "int32", "w": "int32"}, primary_key=["id"])
    t = any_log.table("main.t")
    t.insert({"id": 1, "v": 5, "w": 6})
    with any_log.transaction() as tx:
        tx.alter("main.t").drop_column("v")
    with any_log.transaction() as tx:
        tx.alter("main.t").rename_column("w", "v").add_column("w", "varchar", default="x")
    t.insert({"id": 2, "v": 7, "w": "y"})
    any_log.wait_for_snapshot()
    expected = [{"id": 1, "v": 6, "w": "x"}, {"id": 2, "v": 7, "w": "y"}]
    assert [row.asDict() for row in read(spark, "t", log=any_log).orderBy("id").collect()] == expected
    assert flush(spark, "main.t", log=any_log) is not None
    assert [row.asDict() for row in read(spark, "t", log=any_log).orderBy("id").collect()] == expected
    assert t.scan().to_arrow().sort_by("id").to_pylist() == expected
