"""A table's handle on both logs: what it is, and its rows as Arrow."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from contract.making import ANYWHERE, ROWS, append, create

from commitlog.client import CommitLog
from commitlog.errors import InvalidRequestError, SnapshotNotFoundError, TableNotFoundError


def test_table_when_nobody_made_it_then_says_so_when_asked(log: CommitLog, table: str) -> None:
    handle = log.table(table)
    assert (handle.name, repr(handle)) == (f"main.{table}", f"Table('main.{table}')")
    for ask in (lambda: handle.definition, lambda: handle.schema, handle.files, handle.history):
        with pytest.raises(TableNotFoundError, match=table):
            ask()
    create(log, table)
    assert [column.name for column in handle.definition.columns] == ["id", "day"]
    assert handle.schema == pa.schema([("id", pa.int64()), ("day", pa.string())])


def test_files_when_asked_as_of_a_snapshot_then_those_of_then(log: CommitLog, table: str, tmp_path: Path) -> None:
    create(log, table)
    handle = log.table(table)
    before = log.head_snapshot_id()
    first = append(log, table, tmp_path)
    append(log, table, tmp_path)
    assert [each.record_count for each in handle.files()] == [3, 3]
    assert handle.files(before) == []
    with log.transaction() as tx:
        tx.delete(table, whole_files=[first])
    assert len(handle.files()) == 1
    with pytest.raises(SnapshotNotFoundError, match="no snapshot 1000000"):
        handle.files(10**6)
    with pytest.raises(InvalidRequestError, match="snapshot must be a whole number"):
        handle.files("last")  # type: ignore[arg-type]


def test_history_when_a_table_changed_then_its_own_snapshots_newest_first(
    log: CommitLog, table: str, tmp_path: Path
) -> None:
    create(log, table)
    create(log, f"{table}_other")
    append(log, table, tmp_path)
    with log.transaction(message="a better name", author="ann") as tx:
        tx.rename_table(table, f"{table}_new")
    found = log.table(f"{table}_new").history()
    assert [each.changes for each in found] == [("RENAME_TABLE",), ("APPEND",), ("CREATE_TABLE",)]
    assert (found[0].message, found[0].author, found[0].writer_id) == ("a better name", "ann", "test")
    assert found[0].time >= found[1].time >= found[2].time
    assert log.table(f"{table}_new").history(limit=1) == found[:1]


def test_snapshots_when_listed_then_newest_first_and_as_many_as_asked_for(log: CommitLog, table: str) -> None:
    create(log, table)
    newest = log.head_snapshot_id()
    every = log.snapshots()
    assert [each.snapshot_id for each in every] == list(range(newest, -1, -1))
    assert log.snapshots(2) == every[:2]
    assert log.snapshots(1, before=newest) == every[1:2]


def test_tables_when_listed_then_named_with_their_schemas_as_of_a_snapshot(log: CommitLog, table: str) -> None:
    before = log.head_snapshot_id()
    with log.transaction() as tx:
        tx.create_schema(f"s_{table}")
        tx.create_table(f"s_{table}.odd name", ROWS.schema, properties=ANYWHERE)
    create(log, table)
    assert {f"main.{table}", f"s_{table}.odd name"} <= set(log.tables())
    assert f"s_{table}" in log.schemas()
    assert f"s_{table}" not in log.schemas(snapshot=before)
    assert f"main.{table}" not in log.tables(snapshot=before)
    with log.transaction() as tx:
        tx.drop_table(table)
    assert f"main.{table}" not in log.tables()
    with pytest.raises(SnapshotNotFoundError):
        log.tables(snapshot=10**6)
