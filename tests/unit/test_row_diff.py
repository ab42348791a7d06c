from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from commitlog.client.reading.row_diff import net_rows
from commitlog.errors import InvalidRequestError
from commitlog.testing import InMemoryCommitLog


def net(*changes: tuple[int, int, str, object]) -> list[tuple[int, str, object]]:
    """The net effect of (snapshot, row id, change, value)."""
    columns = [list(each) for each in zip(*changes, strict=True)]
    found = net_rows(pa.table(columns, ["snapshot_id", "rowid", "change_type", "value"]))
    return [tuple(each.values()) for each in found.to_pylist()]


@pytest.mark.parametrize("value", ["a", 1.5, float("nan"), None, [1, 2]])
def test_net_rows_when_a_row_went_and_an_equal_one_came_then_neither_is_told(value: object) -> None:
    assert net((1, 7, "delete", value), (1, 9, "insert", value)) == []


def test_diff_when_days_inside_of_others_are_of_years_that_python_does_not_know_then_they_are_compared(
    tmp_path: Path,
) -> None:
    far, near = (pa.array([each], pa.int32()).cast(pa.date32())[0] for each in (10**7, 0))
    days = pa.array([[far], [far, near], None], pa.list_(pa.date32()))
    with InMemoryCommitLog(data_path=tmp_path) as log:
        table = log.table("main.t")
        table.append(pa.table({"days": days}), create=True)
        then = log.head_snapshot_id()
        table.overwrite(pa.table({"days": days.slice(1)}), True)
        found = table.diff(then)
        assert found["change_type"].to_pylist() == ["delete"]
        assert found["days"].combine_chunks().equals(days.slice(0, 1))


def test_net_rows_when_fewer_equal_rows_came_than_went_then_the_rest_is_told() -> None:
    went = [(1, row_id, "delete", "a") for row_id in (3, 4, 5)]
    assert net(*went, (1, 6, "delete", "b"), (2, 8, "insert", "a"), (2, 9, "insert", "c")) == [
        (4, "delete", "a"),
        (5, "delete", "a"),
        (6, "delete", "b"),
        (9, "insert", "c"),
    ]


def test_net_rows_when_one_became_another_then_it_is_told_as_it_was_and_as_it_is() -> None:
    assert net(
        (1, 1, "update_preimage", "a"),
        (1, 1, "update_postimage", "b"),
        (1, 2, "update_preimage", "x"),
        (1, 2, "update_postimage", "y"),
        (2, 1, "update_preimage", "b"),
        (2, 1, "update_postimage", "c"),
        (2, 2, "update_preimage", "y"),
        (2, 2, "update_postimage", "x"),
        (3, 3, "insert", "a"),
        (4, 3, "delete", "a"),
    ) == [(1, "update_preimage", "a"), (1, "update_postimage", "c")]


def test_diff_when_a_table_was_restored_then_only_rows_that_differ_are_told(tmp_path: Path) -> None:
    with InMemoryCommitLog(data_path=tmp_path) as log:
        table = log.table("main.t")
        table.append([{"id": each, "at": [each]} for each in range(10)], create=True)
        then = log.head_snapshot_id()
        table.delete("id < 3")
        now = log.head_snapshot_id()
        table.restore(then)
        assert table.diff(then).num_rows == 0
        assert table.diff(now).drop_columns(["rowid"]).to_pylist() == [
            {"change_type": "insert", "id": each, "at": [each]} for each in range(3)
        ]


def test_restore_when_rows_have_keys_then_as_many_are_put_back_as_a_commit_changes(tmp_path: Path) -> None:
    with InMemoryCommitLog(data_path=tmp_path, changes_max=3) as log:
        with log.transaction() as tx:
            tx.create_table("main.t", {"id": "int64", "v": "int64"}, primary_key=["id"])
        table = log.table("main.t")
        table.insert([{"id": each, "v": 0} for each in range(3)])
        then = log.head_snapshot_id()
        table.upsert([{"id": each, "v": 1} for each in range(3)])
        table.restore(then)
        assert table.scan().to_arrow()["v"].to_pylist() == [0, 0, 0]
        table.insert([{"id": 3}])
        table.upsert([{"id": each, "v": 2} for each in range(3)])
        with pytest.raises(InvalidRequestError, match="4 rows"):
            table.restore(then)
