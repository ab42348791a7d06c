"""What is forgotten when the floor rises or the window moves on, and that nothing else is (rules.md 3, 12.1, 12.9, 12.11)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from deciding import (
    START_MS,
    DecidedLog,
    append,
    change,
    create_table,
    data_file,
    delete,
    insert,
    keyed_table,
    make_id,
    update,
)

from commitlog.domain.model import ChangeKind, Verdict
from commitlog.domain.state.rows import KeyedRows, RowTouch


@pytest.fixture
def log() -> Iterator[DecidedLog]:
    """Schema s with table t and view v; head 1."""
    log = DecidedLog()
    log.commit({"kind": "CREATE_SCHEMA", "schema": "s"}, within(create_table()), view("CREATE_VIEW"))
    yield log
    log.check_replay()


def within(request: dict[str, Any]) -> dict[str, Any]:
    return {**request, "schema": "s"}


def view(kind: str, name: str = "v") -> dict[str, Any]:
    return {"kind": kind, "schema": "s", "view": name, **({} if kind == "DROP_VIEW" else {"sql": "SELECT 1"})}


def drop_schema(**fields: Any) -> dict[str, Any]:
    return {"kind": "DROP_SCHEMA", "schema": "s", **fields}


def expire(log: DecidedLog, floor: int | None = None) -> None:
    log.commit({"kind": "EXPIRE_SNAPSHOTS", "older_than_snapshot_id": log.head if floor is None else floor})


def test_dropped_tables_and_views_then_known_back_to_the_floor_and_forgotten_below_it(log: DecidedLog) -> None:
    dropped = log.commit(within(change("DROP_TABLE")), view("DROP_VIEW"))
    expire(log, dropped - 1)
    log.conflict("TABLE_DROPPED@2", on=within(append()), base=dropped - 1)
    assert (len(log.state.tables), len(log.state.views)) == (1, 1)
    expire(log, dropped)
    assert (log.state.tables, log.state.views) == ({}, {})
    (schema,) = (schema for schema in log.state.schemas.values() if schema.name == "s")
    assert (schema.entries, schema.names) == ({}, set())
    log.refused("INVALID", within(append()), base=dropped)
    log.commit(within(create_table()), view("CREATE_VIEW"))


def test_a_name_with_a_long_past_then_only_what_a_base_can_still_see_is_kept(log: DecidedLog) -> None:
    log.commit(within(change("DROP_TABLE")))
    log.commit(within(create_table()))
    renamed = log.commit(within(change("RENAME_TABLE", new_table="u")))
    log.commit(within(create_table()))
    expire(log, renamed)
    assert [(e.snapshot_id, e.entry is None) for e in log.state.names[1, "t"]] == [(4, True), (5, False)]
    assert [(e.snapshot_id, e.entry is None) for e in log.state.names[1, "u"]] == [(4, False)]
    log.conflict("TABLE_CREATED@5", on=within(create_table()), base=renamed)
    log.refused("INVALID", within(append()), base=renamed)
    expire(log)
    assert [(e.snapshot_id, e.entry is None) for e in log.state.names[1, "t"]] == [(5, False)]


def test_a_schema_dropped_and_made_again_then_each_is_known_back_to_the_floor(log: DecidedLog) -> None:
    dropped = log.commit(drop_schema(cascade=True))
    log.conflict("SCHEMA_DROPPED@2", on=within(create_table("n")), base=1)
    log.commit({"kind": "CREATE_SCHEMA", "schema": "s"})
    expire(log, dropped)
    assert len(log.state.schema_names["s"]) == 2
    assert [schema.created_at for schema in log.state.schemas.values()] == [0, 3]
    log.conflict("SCHEMA_CREATED@3", on={"kind": "CREATE_SCHEMA", "schema": "s"}, base=dropped)
    expire(log)
    assert len(log.state.schema_names["s"]) == 1
    log.commit(drop_schema())
    expire(log)
    assert list(log.state.schema_names) == ["main"]
    assert list(log.state.schemas) == [0]
    assert log.state.names == {}


def test_a_schema_dropped_with_its_entries_and_all_forgotten_at_once(log: DecidedLog) -> None:
    log.commit(drop_schema(cascade=True))
    expire(log)
    assert (log.state.tables, log.state.views, log.state.names) == ({}, {}, {})
    assert (list(log.state.schemas), list(log.state.schema_names)) == ([0], ["main"])
    log.refused("INVALID", drop_schema())


def test_snapshots_older_than_a_time_then_the_floor_follows_the_clock() -> None:
    log = DecidedLog(expire_older_than_ms=10_000)
    log.commit(create_table(), now_ms=START_MS)
    log.commit(append(), now_ms=START_MS + 4_000)
    log.commit(append(), now_ms=START_MS + 9_000)
    assert log.state.floor_snapshot_id == 0
    log.commit(append(), now_ms=START_MS + 10_500)
    assert log.state.floor_snapshot_id == 1
    log.commit(append(), now_ms=START_MS + 30_000)
    assert log.state.floor_snapshot_id == 4
    log.refused("BASE_EXPIRED", append(), base=3, now_ms=START_MS + 30_001)
    log.commit(append(), base=4, now_ms=START_MS + 30_001)
    log.check_replay()


@pytest.mark.no_cover
def test_snapshots_over_years_then_their_times_take_little_room_and_the_floor_still_follows_the_clock() -> None:
    hour_ms = 3_600_000
    log = DecidedLog()
    log.commit(create_table(), now_ms=START_MS)
    for hour in range(1, 6_000):
        log.commit({"kind": "CREATE_SCHEMA", "schema": "main", "if_not_exists": True}, now_ms=START_MS + hour * hour_ms)
    assert len(log.state.snapshot_times) < 3_000
    log.commit({"kind": "CONFIGURE", "settings": {"expire_older_than_ms": 1_000 * hour_ms}})
    log.commit(append(), now_ms=START_MS + 6_000 * hour_ms)
    assert 4_990 < log.state.floor_snapshot_id <= 5_001
    log.check_replay()


def test_the_answer_to_a_writers_seq_when_it_leaves_the_window_then_still_a_duplicate_without_details() -> None:
    log = DecidedLog(duplicate_window_outcomes=1, duplicate_window_ms=10)
    log.commit(create_table())
    log.commit(append(), writer_seq=7, id=make_id(2))
    for number in range(3, 6):
        log.commit(append(), id=make_id(number), now_ms=START_MS + 20 * number)
    again = log.propose(append(), writer_seq=7, id=make_id(2), now_ms=START_MS + 200)
    assert (again.verdict, again.original_seq) == (Verdict.DUPLICATE, None)
    log.check_replay()


def test_a_window_made_wider_then_it_fills_again_and_nothing_comes_back() -> None:
    log = DecidedLog(window_snapshots=1)
    log.commit(create_table())
    log.commit(append(data_file(), data_file()))
    log.commit(delete({0: [1]}))
    log.commit(append())
    log.commit({"kind": "CONFIGURE", "settings": {"window_snapshots": 3}})
    assert log.state.index_floor == 3
    log.conflict("TABLE_DELETED_FROM@3", on=delete({1: [1]}), base=2)
    log.commit(append())
    log.commit(append())
    assert log.state.index_floor == 4
    assert sorted(log.state.commits) == [5, 6, 7]
    log.check_replay()


def test_touches_of_rows_when_many_leave_the_window_then_each_costs_the_same() -> None:
    def forgotten_in_s(count: int) -> float:
        rows = KeyedRows(0, 0)
        for row_id in range(count):
            rows.row_touches[row_id] = RowTouch(row_id, ChangeKind.INSERT_ROW)
        began = time.thread_time()
        for snapshot_id in range(count):
            rows.forget_touches(snapshot_id)
        assert not rows.row_touches
        return time.thread_time() - began

    few, many = (min(forgotten_in_s(count) for _ in range(3)) for count in (4_000, 64_000))
    assert many < 64 * few, f"{many:.3f} s for sixteen times as many as took {few:.3f} s"


def test_touches_of_rows_when_a_commit_leaves_the_window_then_they_go_with_it_and_later_ones_stay() -> None:
    log = DecidedLog(window_snapshots=2)
    log.commit(keyed_table())
    log.commit(insert(id=1), insert(id=2))
    log.commit(update(1, v="x"))
    rows = log.state.tables[1].rows
    assert rows is not None
    assert list(rows.row_touches) == [1, 0]
    log.commit(insert(id=3))
    assert list(rows.row_touches) == [0, 2]
    log.check_replay()


class Unread(list[Any]):
    """A list that nobody may go through from its beginning."""

    def __iter__(self) -> Iterator[Any]:
        raise AssertionError


def test_a_name_with_a_long_past_then_only_what_came_since_the_base_is_looked_at(log: DecidedLog) -> None:
    for _ in range(3):
        log.commit(within(change("DROP_TABLE")))
        log.commit(within(create_table()))
    dropped = log.commit(within(change("DROP_TABLE")))
    log.commit(within(create_table()), base=dropped)
    schema, events = log.state.schemas[1], log.state.names[1, "t"]
    log.state.names[1, "t"] = Unread(events)
    assert log.state.name_events_after(schema, "t", dropped - 1) == events[-2:]
    assert log.state.name_events_after(schema, "t", log.head) == []
    log.state.names[1, "t"] = events
