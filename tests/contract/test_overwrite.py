"""Rows of a table that are replaced by others, by a table's handle."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from uuid import UUID

import pyarrow as pa
import pytest
from making import KEYED

from commitlog.client import CommitLog
from commitlog.errors import DataFileError, InvalidRequestError, ProposalRejectedError

FIRST, SECOND = date(2026, 3, 1), date(2026, 3, 2)


@pytest.fixture
def days(log: CommitLog, table: str) -> str:
    """A table of two days, with two rows of each."""
    rows = {"day": [FIRST, FIRST, SECOND, SECOND], "v": [1, 2, 3, 4]}
    log.append(table, rows, create=True, partition_by=["day"])
    return table


def rows(log: CommitLog, table: str) -> list[tuple[date, int]]:
    log.wait_for_snapshot()
    found = log.table(table).scan().to_arrow().to_pylist()
    return sorted((row["day"], row["v"]) for row in found)


def parquet_files(log: CommitLog, table: str) -> set[Path]:
    return set(Path(log.table(table).at().path or "").rglob("*.parquet"))


def test_overwrite_when_done_then_what_matched_is_replaced_by_one_commit(log: CommitLog, days: str) -> None:
    before = log.head_snapshot_id()
    outcome = log.table(days).overwrite({"v": [7], "day": [SECOND]}, where="day = '2026-03-02'")
    assert outcome is not None
    assert outcome.snapshot_id == before + 1
    assert rows(log, days) == [(FIRST, 1), (FIRST, 2), (SECOND, 7)]
    log.table(days).overwrite({"day": [SECOND], "v": [7]}, where="day = '2026-03-02'")
    assert rows(log, days) == [(FIRST, 1), (FIRST, 2), (SECOND, 7)]
    log.table(days).overwrite({"day": [FIRST], "v": [0]}, where=True)
    assert rows(log, days) == [(FIRST, 0)]
    log.table(days).overwrite([], where=[("v", "<", 1)])
    assert rows(log, days) == []
    assert log.table(days).overwrite([], where=True) is None


def test_overwrite_when_a_new_row_does_not_match_then_nothing_is_committed_or_left(log: CommitLog, days: str) -> None:
    kept, files = rows(log, days), parquet_files(log, days)
    with pytest.raises(DataFileError, match=f"1 of the new rows of table {days} do not match the filter"):
        log.table(days).overwrite({"day": [SECOND, FIRST], "v": [5, 6]}, where="day = '2026-03-02'")
    with pytest.raises(DataFileError, match="2 of the new rows"):
        log.table(days).overwrite({"day": [SECOND, SECOND], "v": [None, 6]}, where="day = '2026-03-02' and v < 5")
    assert (rows(log, days), parquet_files(log, days)) == (kept, files)


def test_overwrite_when_the_filter_is_on_ids_then_they_are_compared_as_they_are_read(
    log: CommitLog, table: str
) -> None:
    few, many = UUID(int=5), UUID(int=2**128 - 1)
    log.append(table, pa.table({"id": pa.array([few.bytes, many.bytes], pa.uuid()), "v": [1, 2]}), create=True)
    for where, there in ((f"id = '{many}'", many), ([("id", "<", many)], few)):
        log.table(table).overwrite({"id": [there], "v": [7]}, where=where)
    with pytest.raises(DataFileError, match="1 of the new rows"):
        log.table(table).overwrite({"id": [few], "v": [8]}, where=[("id", "is not null"), ("id", "=", many)])
    log.wait_for_snapshot()
    found = log.table(table).scan().to_arrow().to_pylist()
    assert sorted((row["id"], row["v"]) for row in found) == [(str(few), 7), (str(many), 7)]


def test_overwrite_when_rows_come_meanwhile_then_they_go_too_or_it_is_refused(log: CommitLog, days: str) -> None:
    answers = iter([{"day": [SECOND], "v": [8]}, None])
    real = log.transaction

    def beside(**options: object) -> object:
        made = real(**options)  # type: ignore[arg-type]
        if (coming := next(answers, None)) is not None:
            assert log.append(days, coming) is not None
        return made

    log.transaction = beside  # type: ignore[method-assign, assignment]
    log.table(days).overwrite({"day": [SECOND], "v": [9]}, where="day = '2026-03-02'")
    assert rows(log, days) == [(FIRST, 1), (FIRST, 2), (SECOND, 9)]
    answers = iter([{"day": [SECOND], "v": [10]}])
    files = parquet_files(log, days)
    with pytest.raises(ProposalRejectedError):
        log.table(days).overwrite({"day": [SECOND], "v": [11]}, where="day = '2026-03-02'", attempts=1)
    assert len(parquet_files(log, days) - files) == 1
    assert rows(log, days) == [(FIRST, 1), (FIRST, 2), (SECOND, 9), (SECOND, 10)]


def test_overwrite_when_its_key_was_committed_then_nothing_is_written(log: CommitLog, days: str) -> None:
    first = log.table(days).overwrite({"day": [FIRST], "v": [5]}, where=True, key="nightly:1")
    again = log.table(days).overwrite({"day": [SECOND], "v": [6]}, where=True, key="nightly:1")
    assert first is not None
    assert again is not None
    assert (again.snapshot_id, again.is_repeat) == (first.snapshot_id, True)
    assert rows(log, days) == [(FIRST, 5)]


def test_overwrite_when_it_cannot_be_then_says_why(log: CommitLog, days: str) -> None:
    with pytest.raises(InvalidRequestError, match="say which rows go"):
        log.table(days).overwrite({"day": [FIRST], "v": [5]}, where=None)
    with pytest.raises(InvalidRequestError, match="rows are"):
        log.table(days).overwrite("rows.parquet", where=True)
    with log.transaction() as tx:
        tx.create_table(f"{days}_keyed", KEYED, primary_key=["id"])
    with pytest.raises(DataFileError, match="has a primary key"):
        log.table(f"{days}_keyed").overwrite({"id": [1], "v": ["a"]}, where=True)
