"""What lies between two snapshots: objects by counts, and the rows that are not the same."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from making import KEYED, append, create

from commitlog import PartitionSpec
from commitlog.catalog.snapshot_diff import ObjectDifference, TableDifference
from commitlog.client import CommitLog
from commitlog.errors import InvalidRequestError, SnapshotNotFoundError


def test_diff_when_objects_came_went_and_changed_then_each_with_its_counts(
    log: CommitLog, table: str, tmp_path: Path
) -> None:
    start = log.head_snapshot_id()
    create(log, table)
    first = append(log, table, tmp_path)
    middle = log.head_snapshot_id()
    append(log, table, tmp_path)
    with log.transaction() as tx:
        tx.delete(table, positions={first: [0]})
        tx.alter(table).add_column("more", "int64")
    with log.transaction() as tx:
        tx.create_schema(f"s_{table}")
        tx.create_view(f"s_{table}.v", "SELECT 1 AS one")
        tx.rename_table(table, f"{table}_new")
    assert log.diff(start, middle) == [
        TableDifference("table", None, ("main", table), files_added=1, rows_after=3)  # type: ignore[arg-type]
    ]
    schema, changed, view = log.diff(middle)
    assert schema == ObjectDifference("schema", None, ("", f"s_{table}"))  # type: ignore[arg-type]
    assert changed == TableDifference(
        "table", ("main", table), ("main", f"{table}_new"), ("column more int64 added",), 1, 0, 3, 5  # type: ignore[arg-type]
    )  # fmt: skip
    assert view == ObjectDifference("view", None, (f"s_{table}", "v"))  # type: ignore[arg-type]
    replaced = log.head_snapshot_id()
    with log.transaction() as tx:
        tx.replace_view(f"s_{table}.v", "SELECT 2 AS two")
        tx.drop_table(f"{table}_new")
    dropped, view = log.diff(replaced)
    assert (dropped.before, dropped.after) == (("main", f"{table}_new"), None)
    assert view.what == ("another query",)
    assert log.diff(replaced, replaced) == []
    with pytest.raises(SnapshotNotFoundError):
        log.diff(0, 10**6)


def test_diff_when_properties_of_a_table_changed_then_each_is_told_and_old_snapshots_have_the_earlier_ones(
    log: CommitLog, table: str
) -> None:
    create(log, table)
    start = log.head_snapshot_id()
    with log.transaction() as tx:
        tx.alter(table).set_property("conflict_granularity", "FILE").set_property("replicated", "false")
    coarse = log.head_snapshot_id()
    with log.transaction() as tx:
        tx.alter(table).set_property("conflict_granularity", "TABLE")
        tx.alter(table).set_property("conflict_granularity", None)
    [changed] = log.diff(start, coarse)
    assert changed.what == (
        'has the property conflict_granularity "FILE"',
        'has the property replicated "false"',
    )
    [changed] = log.diff(coarse)
    assert changed.what == ("has no property conflict_granularity any more",)
    with log.transaction() as tx:
        tx.drop_table(table)
    at = {snapshot: log.access.table_at("main", table.removeprefix("main."), snapshot) for snapshot in (start, coarse)}
    found = [each.definition.properties.get("conflict_granularity") for each in at.values() if each is not None]
    assert found == [None, "FILE"]


def test_diff_when_a_table_got_comments_defaults_and_partitions_then_each_is_told_and_when_it_lost_them_too(
    log: CommitLog, table: str
) -> None:
    create(log, table)
    start = log.head_snapshot_id()
    with log.transaction() as tx:
        tx.alter(table).set_comment("all\nof it").set_comment("which", column="id").set_default("day", "it's")
    described = log.head_snapshot_id()
    with log.transaction() as tx:
        tx.alter(table).set_partition_by(["day", PartitionSpec("id", "bucket(4)")])
    partitioned = log.head_snapshot_id()
    with log.transaction() as tx:
        tx.alter(table).set_comment(None).set_comment(None, column="id").set_default("day", None).set_partition_by([])

    def told(first: int, last: int) -> tuple[str, ...]:
        [found] = log.diff(first, last)
        return found.what

    assert told(start, described) == (
        'column id has the comment "which"',
        'column day has the default "it\'s"',
        r'has the comment "all\nof it"',
    )
    assert told(described, partitioned) == ("partitioned by day, bucket(4) of id",)
    assert told(partitioned, log.head_snapshot_id()) == (
        "column id has no comment any more",
        "column day has no default any more",
        "no longer partitioned",
        "has no comment any more",
    )
    assert log.diff(start) == []


def test_table_diff_when_rows_came_and_went_then_only_what_is_not_the_same_in_the_end(
    log: CommitLog, table: str, tmp_path: Path
) -> None:
    create(log, table)
    append(log, table, tmp_path)
    start = log.head_snapshot_id()
    fleeting = append(log, table, tmp_path, pa.table({"id": [4, 5], "day": ["d", "e"]}))
    log.table(table).delete("id = 1")
    with log.transaction() as tx:
        tx.delete(table, positions={fleeting: [0]})
    found = log.table(table).diff(start).to_pylist()
    assert [(each["change_type"], each["id"], each["day"]) for each in found] == [
        ("delete", 1, "a"),
        ("insert", 5, "e"),
    ]
    assert log.table(table).diff(start, start).num_rows == 0
    with pytest.raises(InvalidRequestError, match="from a snapshot to a later one"):
        log.table(table).diff(start + 1, start)


def test_table_diff_when_a_row_was_updated_then_as_it_was_and_as_it_is(log: CommitLog, table: str) -> None:
    with log.transaction() as tx:
        tx.create_table(table, KEYED, primary_key=["id"])
        tx.insert_row(table, {"id": 1, "v": "a"})
        tx.insert_row(table, {"id": 2, "v": "same"})
    start = log.head_snapshot_id()
    for value in ("b", "c"):
        log.table(table).update({"id": 1}, {"id": 1, "v": value})
    for value in ("other", "same"):
        log.table(table).update({"id": 2}, {"id": 2, "v": value})
    found = log.table(table).diff(start).to_pylist()
    assert [(each["change_type"], each["v"]) for each in found] == [("update_preimage", "a"), ("update_postimage", "c")]


def test_diff_when_a_row_was_updated_then_its_table_is_among_what_has_changed(log: CommitLog, table: str) -> None:
    with log.transaction() as tx:
        tx.create_table(table, KEYED, primary_key=["id"])
        tx.insert_row(table, {"id": 1, "v": "a"})
        tx.insert_row(table, {"id": 2, "v": "b"})
    start = log.head_snapshot_id()
    log.table(table).update({"id": 1}, {"id": 1, "v": "c"})
    updated = log.head_snapshot_id()
    named = ("main", table)
    assert log.diff(start, updated) == [
        TableDifference("table", named, named, ("other rows",), rows_before=2, rows_after=2)  # type: ignore[arg-type]
    ]
    with log.transaction() as tx:
        tx.alter(table).add_column("more", "int64")
    log.table(table).delete("id = 1")
    log.table(table).insert([{"id": 3, "v": "d", "more": 1}])
    (found,) = log.diff(updated)
    assert (found.what, log.diff(start, start)) == (("column more int64 added", "other rows"), [])


def test_show_when_a_snapshot_was_made_then_who_made_it_and_what_it_changed(
    log: CommitLog, table: str, tmp_path: Path
) -> None:
    create(log, table)
    with log.transaction(message="m", author="ann", writer_id="w") as tx:
        tx.rename_table(table, f"{table}_new")
    story = log.show(log.head_snapshot_id())
    assert (story.entry.message, story.entry.author, story.entry.writer_id) == ("m", "ann", "w")
    assert story.outcome.proposal_id == story.entry.proposal_id.bytes if story.entry.proposal_id else False
    assert story.differences is not None
    assert [(each.before, each.after) for each in story.differences] == [(("main", table), ("main", f"{table}_new"))]
    with pytest.raises(InvalidRequestError, match="no commit made it"):
        log.show(0)
    with pytest.raises(SnapshotNotFoundError):
        log.show(10**6)
