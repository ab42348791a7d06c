"""`format("commitlog")` as a stream: where it begins, how much a batch takes, and what makes one."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pyarrow as pa
import pytest
from people import TABLE, ids_of, rows, seen
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from commitlog.client import CommitLog, Transaction
from commitlog.config import Settings
from commitlog.errors import ConfigurationError, LogLossError, SnapshotNotFoundError, TableNotFoundError
from commitlog.spark import append, compact, delete, overwrite, update
from commitlog.spark.source import table_stream
from commitlog.spark.source.options import SourceOptions
from commitlog.spark.source.schemas import source_schema
from commitlog.spark.source.table_stream import TableStream


def put(log: CommitLog, *ids: int, table: str = TABLE) -> int:
    """Append rows without Spark."""
    data = pa.table({"id": pa.array(ids, pa.int64())})
    return seen(log, log.table(table).append(data))


def reader(options: dict[str, str], **more: str) -> TableStream:
    chosen = SourceOptions({**options, **more})
    return TableStream(chosen, TABLE, source_schema(chosen, TABLE))


def ids_between(stream: TableStream, start: Any, end: Any) -> list[int]:
    batches = [batch for part in stream.partitions(start, end) for batch in stream.read(part)]
    return sorted(value for batch in batches for value in batch.column("id").to_pylist())


def step(stream: TableStream, start: Any) -> tuple[Any, list[int]]:
    """The end of a batch that begins there, and its ids."""
    end = stream.latestOffset(start, stream.getDefaultReadLimit())
    return end, ids_between(stream, start, end)


def follow(spark: SparkSession, options: dict[str, str], target: Path, **more: str) -> None:
    """Write all that the stream has not given yet below ``target``, a batch after another."""
    stream = spark.readStream.format("commitlog").options(**options, **more).load()
    writer = stream.writeStream.format("parquet").option("checkpointLocation", str(target / "checkpoint"))
    writer.trigger(availableNow=True).start(str(target / "rows")).awaitTermination()


def followed(spark: SparkSession, target: Path) -> DataFrame:
    return spark.read.parquet(str(target / "rows"))


def test_offset_when_others_commit_then_stays_and_the_next_rows_come_all_the_same(
    log: CommitLog, options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_stream, "HEAD_KEPT_S", -1.0)
    with log.transaction() as tx:
        tx.create_table("main.other", {"id": "int64"})
    first = put(log, 1)
    mine, _ = step(reader(options), reader(options).initialOffset())
    assert mine["snapshot"] == first
    running = reader(options)
    for number in range(3):
        put(log, number, table="main.other")
        assert [step(each, mine) for each in (reader(options), running)] == [(mine, []), (mine, [])]
    second = put(log, 2)
    assert ids_between(running, {"snapshot": 0}, mine) == [1], "it may be asked again for what came before"
    for each in (reader(options), running):
        came, found = step(each, mine)
        assert (came["snapshot"], found) == (second, [2])
    with log.transaction() as tx:
        tx.drop_table(TABLE)
    seen(log, tx.outcome)
    stopped = reader({**options, "snapshot": str(second)})
    with pytest.raises(TableNotFoundError, match=r"no table main\.people at snapshot"):
        step(stopped, {"snapshot": second})


def test_stream_when_its_table_was_made_anew_then_says_so_and_a_new_stream_begins_with_that(
    log: CommitLog, options: dict[str, str]
) -> None:
    mine = {"snapshot": put(log, 1)}
    put(log, 2)
    with log.transaction() as tx:
        tx.drop_table(TABLE)
    with log.transaction() as tx:
        tx.create_table(TABLE, {"id": "int64"})
    seen(log, tx.outcome)
    message = f"another table than at snapshot {mine['snapshot']}.*startingSnapshot=full"
    running = reader(options)
    with pytest.raises(ConfigurationError, match=message):
        step(running, mine)
    last = put(log, 3)
    for stream in (running, reader(options)):
        with pytest.raises(ConfigurationError, match=message):
            step(stream, mine)
    for start in ({"from": "full"}, {"snapshot": 0}):
        end, found = step(reader(options), start)
        assert (end["snapshot"], found) == (last, [3])


def test_batch_when_it_was_planned_before_an_alteration_then_a_later_query_is_given_it_by_the_columns_of_now(
    log: CommitLog, options: dict[str, str]
) -> None:
    mine = {"snapshot": put(log, 1)}
    with log.transaction() as tx:
        tx.insert_row(TABLE, {"id": 2, "name": "b", "age": 7})
    end = {"snapshot": seen(log, tx.outcome)}
    with log.transaction() as tx:
        alter = tx.alter(TABLE)
        alter.rename_column("name", "label")
        alter.set_type("age", "int64")
        alter.add_column("region", "varchar", default="eu")
    seen(log, tx.outcome)
    put(log, 3)

    def given(start: Any) -> list[dict[str, Any]]:
        stream = reader(options)
        batches = [batch for part in stream.partitions(start, end) for batch in stream.read(part)]
        return sorted((row for batch in batches for row in batch.to_pylist()), key=lambda row: row["id"])

    second = {"id": 2, "label": "b", "age": 7, "region": "eu"}
    assert given(mine) == [second]
    assert given({"from": "full"}) == [{"id": 1, "label": None, "age": None, "region": "eu"}, second]


def test_offset_when_its_snapshot_is_expired_then_a_running_stream_goes_on_and_a_new_one_says_so(
    log: CommitLog, options: dict[str, str]
) -> None:
    with log.transaction() as tx:
        tx.create_table("main.other", {"id": "int64"})
    mine = {"snapshot": put(log, 1)}
    put(log, 1, table="main.other")
    running = reader(options)
    assert step(running, mine) == (mine, [])
    with log.transaction() as tx:
        tx.expire_snapshots(put(log, 2, table="main.other"))
    head = seen(log, tx.outcome)
    running._head = None
    moved, rows_given = step(running, mine)
    assert (moved["snapshot"], rows_given) == (head, [])
    assert step(reader(options), moved) == (moved, [])
    put(log, 2)
    with pytest.raises(SnapshotNotFoundError):
        step(reader(options), mine)


def test_offset_when_rows_came_and_all_is_expired_since_then_a_new_stream_says_so(
    log: CommitLog, options: dict[str, str]
) -> None:
    with log.transaction() as tx:
        tx.create_table("main.other", {"id": "int64"})
    mine = {"snapshot": put(log, 1)}
    running = reader(options)
    assert step(running, mine) == (mine, [])
    put(log, 2)
    with log.transaction() as tx:
        tx.expire_snapshots(put(log, 1, table="main.other"))
    seen(log, tx.outcome)
    running._head = None
    for stream in (running, reader(options)):
        with pytest.raises(SnapshotNotFoundError) as refused:
            stream.latestOffset(mine, stream.getDefaultReadLimit())
        assert "startingSnapshot=full" in refused.value.__notes__[0]


def test_batch_when_the_catalog_lacks_its_end_then_waits_for_it_and_says_what_the_log_has_not(
    log: CommitLog, settings: Settings, options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, stream = {"snapshot": put(log, 1)}, reader(options)
    wait_for_snapshot = CommitLog.wait_for_snapshot
    with psycopg.connect(settings.database_url) as blocking, monkeypatch.context() as patched:
        # The projector cannot go on, as where a catalog is made anew.
        blocking.execute("LOCK TABLE ducklake_snapshot IN EXCLUSIVE MODE")
        end = {"snapshot": log.table(TABLE).append(pa.table({"id": [2]})).snapshot_id}

        def unblocked(self: CommitLog, *given: Any) -> int:
            blocking.rollback()
            return wait_for_snapshot(self, *given)

        patched.setattr(CommitLog, "wait_for_snapshot", unblocked)
        assert ids_between(stream, mine, end) == [2]
    lost = {"snapshot": end["snapshot"] + 1}
    with pytest.raises(LogLossError, match=r"has gone on to snapshot .*startingSnapshot=full"):
        ids_between(reader(options), mine, lost)
    with pytest.raises(LogLossError, match="has gone on to snapshot"):
        step(reader(options), lost)


def test_offset_when_the_log_has_another_snapshot_under_its_number_then_says_so(
    log: CommitLog, options: dict[str, str]
) -> None:
    put(log, 1)
    start = reader(options).initialOffset()
    mine, _ = step(reader(options), start)
    put(log, 2)
    # As of a log that was restored from a backup, and has made as many snapshots since as it had lost.
    others = {**mine, "proposal": str(uuid4())}
    says = rf"snapshot {mine['snapshot']}, which is another one in the log now: .*restored.*startingSnapshot=full"
    running = reader(options)
    assert step(running, mine)[1] == [2]
    for stream in (running, reader(options)):
        with pytest.raises(LogLossError, match=says):
            step(stream, others)
        with pytest.raises(LogLossError, match=says):
            stream.partitions(start, others)


def test_batch_when_rows_with_nested_columns_are_in_no_file_then_has_them_as_they_came_and_as_they_are(
    log: CommitLog, options: dict[str, str]
) -> None:
    name = "main.nested"
    columns = {"id": "int64", "s": "struct(a int16, m map(varchar, decimal(9,2)), z timestamptz)", "l": "list(blob)"}
    with log.transaction() as tx:
        tx.create_table(name, columns, primary_key=["id"])
    created = seen(log, tx.outcome)
    inner = {"a": 2, "m": {"k, ]": Decimal("1.50")}, "z": datetime(2024, 1, 31, 12, 30, 0, 5, UTC)}
    given = [{"id": 1, "s": inner, "l": [b"\x00\xff", None]}, {"id": 2, "s": None, "l": None}]
    end = {"snapshot": seen(log, log.table(name).insert(given))}
    chosen = SourceOptions({**options, "table": name})
    stream = TableStream(chosen, name, source_schema(chosen, name))
    for start in ({"snapshot": created}, {"from": "full"}):
        batches = [batch for part in stream.partitions(start, end) for batch in stream.read(part)]
        assert pa.Table.from_batches(batches).to_pylist(maps_as_pydicts="strict") == given


def test_batch_when_rows_in_no_file_are_older_than_a_column_then_have_what_it_was_added_with(
    log: CommitLog, options: dict[str, str]
) -> None:
    name = "main.keyed"
    with log.transaction() as tx:
        tx.create_table(name, {"id": "int64"}, primary_key=["id"])
    created = seen(log, tx.outcome)
    log.table(name).insert([{"id": 1}])
    with log.transaction() as tx:
        tx.alter(name).add_column("b", "blob", default="a\\x00\\xFF")
    end = {"snapshot": seen(log, tx.outcome)}
    chosen = SourceOptions({**options, "table": name})
    stream = TableStream(chosen, name, source_schema(chosen, name))
    for start in ({"snapshot": created}, {"from": "full"}):
        batches = [batch for part in stream.partitions(start, end) for batch in stream.read(part)]
        assert pa.Table.from_batches(batches).to_pylist() == [{"id": 1, "b": b"a\x00\xff"}]


@pytest.mark.parametrize(
    ("limit", "batches"),
    [
        ({}, [[1, 2, 3, 4, 5, 6]]),
        ({"snapshotsPerTrigger": "2"}, [[1, 2, 3, 4], [5, 6]]),
        ({"maxFilesPerTrigger": "2"}, [[1, 2, 3, 4], [5, 6]]),
        ({"maxRowsPerTrigger": "1"}, [[1], [2, 3, 4], [5], [6]]),
        ({"maxRowsPerTrigger": "4"}, [[1, 2, 3, 4], [5, 6]]),
        ({"maxRowsPerTrigger": "4", "maxFilesPerTrigger": "1"}, [[1], [2, 3, 4], [5], [6]]),
    ],
)
def test_batches_when_limited_then_are_whole_snapshots_of_this_table(
    log: CommitLog, options: dict[str, str], limit: dict[str, str], batches: list[list[int]]
) -> None:
    with log.transaction() as tx:
        tx.create_table("main.other", {"id": "int64"})
    for some in ([1], [2, 3, 4], [5], [6]):
        put(log, *some)
        put(log, 0, table="main.other")
    stream = reader(options, **limit)
    offset, given = stream.initialOffset(), []
    while (found := step(stream, offset))[0] != offset:
        offset, rows_given = found
        given.append(rows_given)
    assert given == batches


def test_start_when_named_then_rows_from_there(log: CommitLog, options: dict[str, str]) -> None:
    put(log, 1)
    put(log, 2)

    def run(*then: int, **more: str) -> list[list[int]]:
        end, first = step(reader(options, **more), reader(options, **more).initialOffset())
        put(log, *then)
        # What Spark does when it comes back before the first batch is done: the same end, and the beginning asked for again.
        again = reader(options, **more)
        assert ids_between(again, again.initialOffset(), end) == first
        return [first, step(again, end)[1]]

    assert run(3, startingSnapshot="latest") == [[], [3]]
    assert run(4, startingSnapshot="full") == [[1, 2, 3], [4]]
    assert run(5, startingSnapshot="EARLIEST") == [[1, 2, 3, 4], [5]]
    with pytest.raises(ConfigurationError, match="such as 42, latest, earliest or full, not 'now'"):
        reader(options, startingSnapshot="now")
    with pytest.raises(ConfigurationError, match="maxFilesPerTrigger is 1 or more"):
        reader(options, maxFilesPerTrigger="0")


def test_stream_when_full_then_the_table_as_it_is_and_then_what_changes(
    spark: SparkSession, log: CommitLog, options: dict[str, str], tmp_path: Path
) -> None:
    put(log, 1, 2, 3)
    seen(log, delete(spark, TABLE, "id = 2", log=log))
    more = {"startingSnapshot": "full", "changes": "true", "maxFilesPerTrigger": "1"}
    follow(spark, options, tmp_path, **more)
    put(log, 4)
    seen(log, delete(spark, TABLE, "id = 1", log=log))
    follow(spark, options, tmp_path, **more)
    follow(spark, options, tmp_path, **more)
    found = followed(spark, tmp_path).orderBy("_snapshot_id", "id").collect()
    assert [(row._change, row.id) for row in found] == [("insert", 1), ("insert", 3), ("insert", 4), ("delete", 1)]
    batches = [each.name for each in (tmp_path / "checkpoint" / "offsets").iterdir() if each.name.isdigit()]
    assert sorted(batches) == ["0", "1", "2"]


def test_stream_when_restarted_then_each_new_row_once_and_maintenance_gives_none(
    spark: SparkSession, log: CommitLog, options: dict[str, str], tmp_path: Path
) -> None:
    for number in range(3):
        seen(log, append(rows(spark, number * 2, number * 2 + 1), TABLE, log=log))
    follow(spark, options, tmp_path, snapshotsPerTrigger="1")
    assert ids_of(followed(spark, tmp_path)) == [0, 1, 2, 3, 4, 5]
    seen(log, delete(spark, TABLE, "id = 1", log=log))
    for outcome in compact(spark, TABLE, log=log):
        seen(log, outcome)
    follow(spark, options, tmp_path)
    seen(log, append(rows(spark, 6), TABLE, log=log))
    follow(spark, options, tmp_path)
    assert ids_of(followed(spark, tmp_path)) == [0, 1, 2, 3, 4, 5, 6]


def test_stream_of_changes_then_applying_them_in_order_gives_the_table(
    spark: SparkSession, log: CommitLog, options: dict[str, str], tmp_path: Path
) -> None:
    seen(log, append(rows(spark, *range(10)), TABLE, log=log))
    seen(log, delete(spark, TABLE, [("id", "<", 2)], log=log))
    seen(log, update(spark, TABLE, {"age": 99}, [("id", "=", 5)], log=log))
    start = seen(log, append(rows(spark, 20, 21), TABLE, log=log))
    seen(log, delete(spark, TABLE, "id IN (20, 3)", log=log))
    seen(log, overwrite(rows(spark, 40), TABLE, log=log))
    follow(spark, options, tmp_path / "all", changes="true")
    table: dict[int, int] = {}
    for row in followed(spark, tmp_path / "all").orderBy("_snapshot_id", "_change").collect():
        if row._change == "delete":
            assert table.pop(row.id) == row.age
        else:
            table[row.id] = row.age
    assert table == {40: 40}
    follow(spark, options, tmp_path / "late", changes="true", startingSnapshot=str(start))
    late = followed(spark, tmp_path / "late").where("_change = 'delete'")
    assert ids_of(late) == [2, 3, 4, 5, 6, 7, 8, 9, 20, 21]


def test_stream_of_a_keyed_table_then_rows_that_are_in_no_file_come_too(
    spark: SparkSession, log: CommitLog, options: dict[str, str], tmp_path: Path
) -> None:
    with log.transaction() as tx:
        tx.create_table("main.keyed", {"id": "int64", "v": "varchar"}, primary_key=["id"])
    actions: list[Callable[[Transaction], None]] = [
        lambda tx: tx.insert_row("main.keyed", {"id": 1, "v": "a"}),
        lambda tx: tx.insert_row("main.keyed", {"id": 2, "v": "b"}),
        lambda tx: tx.update_row("main.keyed", {"id": 1}, {"id": 1, "v": "c"}),
        lambda tx: tx.delete_row("main.keyed", {"id": 2}),
    ]
    for action in actions:
        with log.transaction() as tx:
            action(tx)
        seen(log, tx.outcome)
    keyed = {**options, "table": "main.keyed"}
    follow(spark, keyed, tmp_path, changes="true")
    found = followed(spark, tmp_path).orderBy("_snapshot_id", "_change").collect()
    assert [(row._change, row.id, row.v) for row in found] == [
        ("insert", 1, "a"), ("insert", 2, "b"), ("delete", 1, "a"), ("insert", 1, "c"), ("delete", 2, "b"),
    ]  # fmt: skip


def test_stream_when_it_cannot_start_then_says_what_to_do(
    spark: SparkSession, log: CommitLog, options: dict[str, str], tmp_path: Path
) -> None:
    seen(log, append(rows(spark, 1), TABLE, log=log))
    head = seen(log, append(rows(spark, 2), TABLE, log=log))
    with log.transaction() as tx:
        tx.expire_snapshots(head)
    seen(log, tx.outcome)
    with pytest.raises(PySparkException, match="set the option startingSnapshot to full") as expired:
        follow(spark, options, tmp_path / "expired")
    with pytest.raises(PySparkException, match="startingSnapshot is a snapshot's id") as unmade:
        follow(spark, options, tmp_path / "word", startingSnapshot="now")
    for told in (expired, unmade):
        assert not re.search("Traceback|local variable", str(told.value))
    follow(spark, options, tmp_path / "from", startingSnapshot=str(head))
    seen(log, append(rows(spark, 3), TABLE, log=log))
    follow(spark, options, tmp_path / "from", startingSnapshot=str(head))
    assert ids_of(followed(spark, tmp_path / "from")) == [3]
