"""Deletes of more rows than a proposal can name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyroaring import FrozenBitMap64

from commitlog.client.reading.file_rows import FileReader
from commitlog.client.writing.proposal_room import beyond_room
from commitlog.domain.model import LogSettings
from commitlog.errors import InvalidRequestError
from commitlog.testing import InMemoryCommitLog


@pytest.fixture
def log(tmp_path: Path) -> Iterator[InMemoryCommitLog]:
    with InMemoryCommitLog(data_path=tmp_path, proposal_bytes_max=4096, inlined_positions_max=1) as log:
        yield log


def filled(log: InMemoryCommitLog) -> list[int]:
    """Ten files of 40 rows each, in five partitions."""
    for start in range(0, 400, 40):
        ids = list(range(start, start + 40))
        rows = pa.table({"id": ids, "part": [start // 80] * 40, "score": [each / 2 for each in ids]})
        log.append("t", rows, create=start == 0, partition_by=["part"] if start == 0 else [])
    return list(range(400))


def row_ids(log: InMemoryCommitLog) -> dict[int, int]:
    found = log.table("t").changes(0).to_arrow().select(["id", "rowid"]).to_pylist()
    return {each["id"]: each["rowid"] for each in found}


def test_delete_when_rows_are_in_more_places_than_a_proposal_names_then_are_brought_together_first(
    log: InMemoryCommitLog,
) -> None:
    everything, table, ids_then = filled(log), log.table("t"), row_ids(log)
    before = log.head_snapshot_id()
    with pytest.raises(InvalidRequestError, match="leave out base_snapshot_id"):
        table.delete(("score", "in", [each / 2 for each in range(0, 400, 3)]), base_snapshot_id=before)
    outcome = table.delete(("score", "in", [each / 2 for each in range(0, 400, 3)]), key="clean:1")
    assert outcome is not None
    assert outcome.snapshot_id > before + 1, "files were rewritten before"
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [each for each in everything if each % 3]
    assert table.scan(snapshot=outcome.snapshot_id - 1).count() == 400
    gone = table.changes(before).to_arrow().to_pylist()
    assert {(each["change_type"], each["id"]) for each in gone} == {("delete", each) for each in range(0, 400, 3)}
    assert {each["id"]: each["rowid"] for each in gone} == {each: ids_then[each] for each in range(0, 400, 3)}
    assert all(each.partition_values is not None for each in table.files())
    again = table.delete(("score", "in", [each / 2 for each in range(0, 400, 3)]), key="clean:1")
    assert again is not None
    assert again.snapshot_id == outcome.snapshot_id


def test_delete_when_rows_are_in_more_files_than_a_proposal_names_then_are_brought_together_first(
    tmp_path: Path,
) -> None:
    with InMemoryCommitLog(data_path=tmp_path, inlined_positions_max=1) as log:
        everything, table = filled(log), log.table("t")
        with log.transaction() as tx:
            tx.configure(files_max=5)
        before = log.head_snapshot_id()
        outcome = table.delete(("score", "in", [each / 2 for each in range(0, 400, 3)]))
        assert outcome is not None
        assert outcome.snapshot_id > before + 1, "files were rewritten before"
        assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [each for each in everything if each % 3]


def test_delete_when_rows_to_stay_are_what_no_append_takes_then_they_stay_as_they_are(
    log: InMemoryCommitLog, tmp_path: Path
) -> None:
    with log.transaction() as tx:
        tx.create_table("t", {"n": "int64", "v": "json"})
    source = str(tmp_path / "given.parquet")
    pq.write_table(pa.table({"n": [0, 1, 2] * 20_000, "v": ["no JSON"] * 60_000}), source)
    log.append("t", files=[source])
    before, table = log.head_snapshot_id(), log.table("t")
    outcome = table.delete(("n", "=", 0))
    assert outcome is not None
    assert outcome.snapshot_id > before + 1, "the file was rewritten before"
    assert table.scan().to_arrow()["v"].to_pylist() == ["no JSON"] * 40_000
    table.restore(before)
    assert table.scan().count() == 60_000


def test_delete_when_a_file_changes_while_rows_are_brought_together_then_looks_for_them_again(
    log: InMemoryCommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(log)
    table, placed, others = log.table("t"), FileReader.placed, []

    def beside(self: FileReader, rows: object) -> object:
        if not others:
            others.append(1)
            with log.transaction() as tx:
                tx.delete("t", {table.files()[0].data_file_id: [0]})
        return placed(self, rows)  # type: ignore[arg-type]

    monkeypatch.setattr(FileReader, "placed", beside)
    table.delete(("score", "in", [each / 2 for each in range(0, 400, 3)]))
    assert others
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [each for each in range(400) if each % 3]


def test_changes_of_keyed_rows_when_they_are_more_than_a_commit_takes_then_says_so_before_they_are_looked_up(
    tmp_path: Path,
) -> None:
    with InMemoryCommitLog(data_path=tmp_path, changes_max=2) as log:
        with log.transaction() as tx:
            tx.create_table("t", {"id": "int64"}, primary_key=["id"])
        table, three = log.table("t"), pa.table({"id": [1, 2, 3]})
        for change in (table.insert, table.upsert):
            with pytest.raises(
                InvalidRequestError, match="3 rows, each changed by its key, are more than the 2 changes"
            ):
                change(three)
        table.insert(three.slice(0, 2))
        table.insert(three.slice(2))
        with pytest.raises(InvalidRequestError, match="are more than the 2 changes"):
            table.delete(True)


def test_beyond_room_when_bitmaps_do_not_fit_then_names_those_that_take_most() -> None:
    scattered = FrozenBitMap64(range(0, 200_000, 7))
    positions = {1: FrozenBitMap64([5]), 2: scattered, 3: FrozenBitMap64(range(100_000))}
    assert beyond_room(positions, LogSettings(proposal_bytes_max=2_000_000)) == []
    assert beyond_room(positions, LogSettings(proposal_bytes_max=20_000)) == [2]
    assert set(beyond_room(positions, LogSettings(proposal_bytes_max=0))) == {1, 2, 3}
    assert beyond_room(positions, LogSettings(files_max=5)) == [2]
    assert beyond_room(positions, LogSettings(files_max=6)) == []
