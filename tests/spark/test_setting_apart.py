"""Changes of more rows than a proposal can name, and the ids that rows keep when they change."""

from __future__ import annotations

from typing import Any

import pytest
from people import TABLE, committed, duck_ids, files_now, ids, rows
from pyspark.sql import SparkSession

from commitlog.client import CommitLog
from commitlog.client.reading.duckdb_client import open_lake
from commitlog.config import Settings
from commitlog.errors import InvalidRequestError
from commitlog.spark import append, delete, merge, transaction, update
from commitlog.spark.changing import matching

NARROW = {"proposal_bytes_max": 2048, "inlined_positions_max": 1}
"""So that a proposal holds some files, and the delete files of fewer."""


@pytest.mark.usefixtures("people")
@pytest.mark.parametrize("settings", [NARROW], indirect=True)
def test_changes_when_rows_are_in_more_places_than_a_proposal_names_then_are_brought_together_first(
    spark: SparkSession, log: CommitLog, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    for start in (0, 100):
        append(rows(spark, *range(start, start + 40)).repartition(30, "id"), TABLE, log=log)
    everything = [*range(40), *range(100, 140)]
    before, row_ids, file_count = log.head_snapshot_id(), _row_ids(log, settings), len(files_now(log))
    assert 6 < file_count <= 10, "as many files as a proposal holds, of each append"
    with transaction(log) as tx, pytest.raises(InvalidRequestError, match="change them by a call of its own"):
        tx.delete(spark, TABLE, "id % 3 = 0")

    searches, found_in = [], matching.found_in
    monkeypatch.setattr(matching, "found_in", lambda *given: searches.append(1) or found_in(*given))
    snapshot = committed(delete(spark, TABLE, "id % 3 = 0", log=log))
    left = [each for each in everything if each % 3]
    assert ids(spark, log, snapshot) == duck_ids(settings, snapshot) == left
    assert ids(spark, log, snapshot - 1) == everything
    assert len(searches) == 1, "rows that are brought together are not looked for again"
    assert _row_ids(log, settings) == {each: row_ids[each] for each in left}
    gone = log.table(TABLE).changes(before).to_arrow().to_pylist()
    assert {(each["change_type"], each["id"]) for each in gone} == {
        ("delete", each) for each in everything if each % 3 == 0
    }

    middle = log.head_snapshot_id()
    committed(update(spark, TABLE, {"name": "'new'"}, "rand(3) < 0.5 AND id % 2 = 1", log=log))
    assert _row_ids(log, settings) == {each: row_ids[each] for each in left}
    changed = log.table(TABLE).changes(middle).to_arrow().to_pylist()
    assert {each["change_type"] for each in changed} == {"update_preimage", "update_postimage"}
    merge(rows(spark, *range(2, 140)), TABLE, "id", matched="delete", not_matched="ignore", log=log)
    assert ids(spark, log) == [1]


@pytest.mark.usefixtures("people")
@pytest.mark.parametrize("settings", [{"files_max": 8, "inlined_positions_max": 1}], indirect=True)
def test_changes_when_rows_are_in_more_files_than_a_proposal_names_then_are_brought_together_first(
    spark: SparkSession, log: CommitLog, settings: Settings
) -> None:
    for start in (0, 20, 40, 60):
        append(rows(spark, *range(start, start + 20)).repartition(6, "id"), TABLE, log=log)
    before = log.head_snapshot_id()
    assert len(files_now(log)) == 8
    committed(update(spark, TABLE, {"name": "'new'"}, "id % 3 = 0", log=log))
    assert log.head_snapshot_id() > before + 1, "files were rewritten before"
    snapshot = committed(delete(spark, TABLE, "id % 4 = 0", log=log))
    left = [each for each in range(80) if each % 4]
    assert ids(spark, log, snapshot) == duck_ids(settings, snapshot) == left


@pytest.mark.usefixtures("people")
def test_changed_rows_when_they_are_updated_or_merged_then_keep_their_ids(
    spark: SparkSession, log: CommitLog, settings: Settings
) -> None:
    append(rows(spark, *range(10)), TABLE, log=log)
    row_ids, before = _row_ids(log, settings), log.head_snapshot_id()
    update(spark, TABLE, {"name": "'new'"}, "id < 2", log=log)
    merge(rows(spark, 1, 5, 20), TABLE, "id", log=log)
    update(spark, TABLE, {"age": 7}, "id IN (1, 20)", log=log)
    found = _row_ids(log, settings)
    new = found.pop(20)
    assert found == row_ids
    assert new not in row_ids.values()
    with open_lake(settings.database_url) as connection:
        query = f"FROM ducklake_table_changes('lake', 'main', 'people', {before + 1}, {log.head_snapshot_id()})"
        theirs = connection.execute(f"SELECT snapshot_id, rowid, change_type, id, name {query}").fetchall()
    changes = log.table(TABLE).changes(before).to_arrow()
    ours = changes.select(["snapshot_id", "rowid", "change_type", "id", "name"]).to_pylist()
    assert sorted(tuple(each.values()) for each in ours) == sorted(theirs)
    assert len(ours) == 2 * 2 + 2 * 2 + 1 + 2 * 2


def _row_ids(log: CommitLog, settings: Settings) -> dict[int, Any]:
    log.wait_for_snapshot()
    with open_lake(settings.database_url) as connection:
        return dict(connection.execute(f"SELECT id, rowid FROM {TABLE}").fetchall())
