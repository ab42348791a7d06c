"""Outcomes as rows of typed columns: any outcome that a log has must become one, or its archive and streams stand still."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from commitlog.client.ids import new_proposal_id
from commitlog.client.outcomes.outcome_rows import OUTCOMES, to_row
from commitlog.domain import model as m
from commitlog.testing import InMemoryCommitLog


@pytest.mark.parametrize("created_at_ms", [m.TIME_US_MIN // 1000 + 1, m.TIME_US_MAX // 1000, -(2**63), 2**63 - 1])
def test_to_row_when_a_writers_clock_is_beyond_what_a_column_holds_then_it_has_no_time(created_at_ms: int) -> None:
    log = InMemoryCommitLog()
    log.submit(m.Proposal(new_proposal_id(), "w", 0, (m.CreateSchema("s"),), created_at_ms=created_at_ms))
    [row] = pa.Table.from_pylist([to_row(log.outcomes[0], 1)], schema=OUTCOMES).to_pylist()
    assert (row["created_at"], row["change_kinds"]) == (None, ["CREATE_SCHEMA"])
    assert row["decided_at"] == datetime.fromtimestamp(log.outcomes[0].decided_at_ms / 1000, UTC)


@pytest.mark.parametrize(("count", "told"), [(2**62 - 1, 2**63 - 2), (2**62, None), (-(2**63), None)])
def test_to_row_when_files_of_a_refusal_come_to_more_than_a_column_holds_then_it_has_no_sum(
    count: int, told: int | None
) -> None:
    log = InMemoryCommitLog()
    files = tuple(m.DataFile(f"{name}.parquet", count, count) for name in "ab")
    assert log.submit(m.Proposal(new_proposal_id(), "w", 0, (m.Append("main", "t", files),))).reason is m.Reason.INVALID
    [row] = pa.Table.from_pylist([to_row(log.outcomes[0], 1)], schema=OUTCOMES).to_pylist()
    assert (row["files"], row["rows"], row["bytes"]) == (2, told, told)


def test_to_row_when_names_have_dots_or_quotes_then_they_stand_as_readers_of_tables_take_them() -> None:
    log = InMemoryCommitLog()
    name = '"s.1"."a ""quoted"" name"'
    with log.transaction() as tx:
        tx.create_schema("s.1")
        tx.create_table(name, {"id": "int64"})
        tx.create_table("plain", {"id": "int64"})
    assert to_row(log.outcomes[-1], 1)["tables"] == [name, "main.plain"]
    assert log.table(name).name == name
