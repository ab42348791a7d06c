"""Looking for outcomes by what is known of them: the log in memory and a real one find the same."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from pathlib import Path

import pytest
from making import append, create, rejected

from commitlog.catalog.history import HistoryEntry, HistoryFilter
from commitlog.client import CommitLog


@dataclass(frozen=True)
class Asked:
    """A table with a commit by a writer and a refusal of another, both of this test's own."""

    log: CommitLog
    table_id: int
    committer: str
    refused: str
    committed_snapshot_id: int

    def found(self, **search: object) -> list[HistoryEntry]:
        self.log.head_snapshot_id()
        return self.log.contents().history(HistoryFilter(**search))  # type: ignore[arg-type]


@pytest.fixture
def asked(log: CommitLog, table: str, tmp_path: Path) -> Asked:
    create(log, table)
    file_id = append(log, table, tmp_path)
    committer, refused = (f"{name}-{uuid.uuid4().hex[:8]}" for name in ("committer", "refused"))
    late = log.transaction(writer_id=refused)
    late.delete(table, positions={file_id: [0]})
    with log.transaction(writer_id=committer, message="one row less", author="Ann") as tx:
        tx.delete(table, positions={file_id: [1]})
    rejected(late)
    snapshot_id = tx.outcome.snapshot_id
    assert snapshot_id is not None
    return Asked(log, log.table(table).definition.table_id, committer, refused, snapshot_id)


def test_history_when_asked_by_table_then_its_commits_and_refusals_the_newest_first(asked: Asked) -> None:
    found = asked.found(table_id=asked.table_id)
    assert [each.verdict for each in found] == ["REJECTED", "COMMITTED", "COMMITTED", "COMMITTED"]
    assert [each.change_kinds for each in found] == [("DELETE",), ("DELETE",), ("APPEND",), ("CREATE_TABLE",)]
    assert found[0].reason == "CONFLICT"
    assert found[0].conflict_kinds == ("TABLE_DELETED_FROM",)
    assert (found[1].author, found[1].message) == ("Ann", "one row less")
    assert asked.found(table_id=asked.table_id, limit=2) == found[:2]
    assert asked.found(table_id=asked.table_id, before_seq=found[1].seq) == found[2:]
    assert asked.found(table_id=asked.table_id, verdict="REJECTED") == found[:1]


def test_history_when_asked_by_one_thing_then_that_outcome(asked: Asked) -> None:
    (by_snapshot,) = asked.found(snapshot_id=asked.committed_snapshot_id)
    assert by_snapshot.writer_id == asked.committer
    (by_writer,) = asked.found(writer_id=asked.refused)
    assert (by_writer.snapshot_id, by_writer.base_snapshot_id) == (None, asked.committed_snapshot_id - 1)
    assert asked.found(proposal_id=by_writer.proposal_id) == [by_writer]
    assert asked.found(proposal_id=uuid.uuid4()) == []


def test_writers_when_listed_then_what_each_has_proposed(asked: Asked) -> None:
    asked.log.head_snapshot_id()
    totals = {each.writer_id: each for each in asked.log.contents().writers(1_000)}
    assert (totals[asked.committer].committed, totals[asked.committer].rejected) == (1, 0)
    assert totals[asked.committer].last_snapshot_id == asked.committed_snapshot_id
    assert (totals[asked.refused].committed, totals[asked.refused].rejected) == (0, 1)
    assert totals[asked.refused].last_snapshot_id is None
