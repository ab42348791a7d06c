"""Keyed tables: row conflicts by BDR's names, under each policy (rules.md 5, 12.15-18, 12.23)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from deciding import DecidedLog, alter, change, create_table, delete_row, insert, keyed_table, read_table, update

REFERS = [{"columns": ["parent"], "ref_schema": "main", "ref_table": "p", "ref_columns": ["id"]}]


def log_of(policy: str | None = None, **settings: Any) -> DecidedLog:
    """Tables p and k (unique v and w, parent refers to p), rows p1, p2 and k1, k2; head 2."""
    log = DecidedLog(**settings)
    columns = "id int64, v varchar, w varchar, parent int64"
    log.commit(
        keyed_table("p", "id int64", on_conflict=policy),
        keyed_table("k", columns, on_conflict=policy, unique=[["v"], ["w"]], foreign_keys=REFERS),
    )
    log.commit(
        insert("p", id=1), insert("p", id=2), insert(id=1, v="a", w="a", time=10), insert(id=2, v="b", w="b", time=10)
    )
    return log


@pytest.fixture(params=["ABORT", "LAST_UPDATE_WINS", "KEEP_EXISTING"])
def any_log(request: pytest.FixtureRequest) -> Iterator[DecidedLog]:
    log = log_of(request.param)
    yield log
    log.check_replay()


@pytest.fixture
def log() -> Iterator[DecidedLog]:
    log = log_of()
    yield log
    log.check_replay()


@pytest.fixture
def last_wins() -> Iterator[DecidedLog]:
    log = log_of("LAST_UPDATE_WINS")
    yield log
    log.check_replay()


@pytest.fixture
def keeping() -> Iterator[DecidedLog]:
    log = log_of("KEEP_EXISTING")
    yield log
    log.check_replay()


def row(log: DecidedLog, key: str, table_id: int = 2) -> dict[str, Any] | None:
    rows = log.state.tables[table_id].rows
    assert rows is not None
    return dict(rows.live[key].image or {}) if key in rows.live else None


def settled(log: DecidedLog, *changes: dict[str, Any], base: int) -> list[str]:
    outcome = log.propose(*changes, base=base)
    assert outcome.snapshot_id is not None, outcome.detail
    return [f"{r.kind} {r.action}" for r in outcome.resolutions]


@pytest.mark.parametrize(
    "request_",
    [
        insert(id=1, v="z"),
        insert(id=9, v="a"),
        insert(id=9, v="z", parent=7),
        insert(id=None),
        insert(id="one"),
        insert(id=9, colour="red"),
        update(9, v="z"),
        update(1, v="b"),
        update(1, v="a", parent=7),
        delete_row(9),
        change("DELETE_ROW", "k", key={"id": 1, "v": "a"}),
        change("DELETE_ROW", "k", key={"v": "a"}),
        change("UPDATE_ROW", "k", key={"id": 1}, row={"id": 2}),
        insert(id=9, ID=9),
        insert(id=9, v="\x01"),
        insert(id=9, time=-(2**62)),
    ],
)
def test_without_a_race_then_what_cannot_be_is_invalid(any_log: DecidedLog, request_: dict) -> None:
    any_log.refused("INVALID", request_)


def test_one_key_twice_in_a_changeset_then_invalid(any_log: DecidedLog) -> None:
    any_log.refused("INVALID", update(1, v="x"), delete_row(1))
    any_log.refused("INVALID", insert(id=7), insert(id=7))


def test_parent_and_child_then_inserted_together(any_log: DecidedLog) -> None:
    any_log.commit(insert("p", id=5), insert(id=5, parent=5))
    any_log.refused("INVALID", delete_row(5, "p"))
    any_log.commit(delete_row(5), delete_row(5, "p"))


def test_insert_insert_when_aborting_then_conflict(log: DecidedLog) -> None:
    log.commit(insert(id=3, v="c"))
    outcome = log.conflict("INSERT_INSERT@3", on=insert(id=3, v="d"), base=2)
    assert outcome.conflicts[0].object.row_key == "3"
    log.conflict("INSERT_INSERT@3", on=insert(id=4, v="c"), base=2)
    log.refused("INVALID", insert(id=3, v="d"))


def test_insert_insert_when_the_last_wins_then_it_becomes_an_update(last_wins: DecidedLog) -> None:
    log = last_wins
    log.commit(insert(id=3, v="c", time=50))
    assert settled(log, insert(id=3, v="old", time=40), base=2) == ["INSERT_INSERT SKIPPED"]
    assert row(log, "3") == {"id": 3, "v": "c", "w": None, "parent": None}
    before = log.state.tables[2].rows.live["3"].row_id
    assert settled(log, insert(id=3, v="new", time=60), base=2) == ["INSERT_INSERT APPLIED"]
    assert row(log, "3") == {"id": 3, "v": "new", "w": None, "parent": None}
    assert log.state.tables[2].rows.live["3"].row_id == before


def test_insert_insert_through_a_unique_value_then_the_losers_row_is_gone_whatever_its_key(
    last_wins: DecidedLog,
) -> None:
    log = last_wins
    log.commit(insert(id=3, v="c", time=50))
    assert settled(log, insert(id=4, v="c", time=60), base=2) == ["INSERT_INSERT APPLIED"]
    assert row(log, "3") is None
    assert row(log, "4") == {"id": 4, "v": "c", "w": None, "parent": None}
    log.commit(insert(id=3, v="free"))


def test_insert_that_hits_two_raced_rows_then_conflict_whatever_the_policy(any_log: DecidedLog) -> None:
    any_log.commit(insert(id=3, v="c", w="c"), insert(id=4, v="d", w="d"))
    any_log.conflict("MULTIPLE_UNIQUE@3", "MULTIPLE_UNIQUE@3", on=insert(id=5, v="c", w="d", time=99), base=2)
    any_log.refused("INVALID", insert(id=5, v="c", w="a"), base=2)


def test_insert_that_hits_one_raced_row_through_all_its_constraints_then_one_row(last_wins: DecidedLog) -> None:
    last_wins.commit(insert(id=3, v="c", w="c", time=50))
    assert settled(last_wins, insert(id=3, v="c", w="c", time=60), base=2) == ["INSERT_INSERT APPLIED"]


def test_insert_when_the_row_went_since_the_base_then_a_plain_insert(any_log: DecidedLog) -> None:
    any_log.commit(delete_row(1))
    outcome = any_log.propose(insert(id=1, v="new"), base=2)
    assert (outcome.snapshot_id, outcome.resolutions) == (4, ())


def test_update_update_then_by_policy(log: DecidedLog, last_wins: DecidedLog, keeping: DecidedLog) -> None:
    for each in (log, last_wins, keeping):
        each.commit(update(1, v="x", time=50))
    log.conflict("UPDATE_UPDATE@3", on=update(1, v="y", time=60), base=2)
    assert settled(last_wins, update(1, v="y", time=60), base=2) == ["UPDATE_UPDATE APPLIED"]
    assert settled(last_wins, update(1, v="z", time=55), base=2) == ["UPDATE_UPDATE SKIPPED"]
    assert settled(keeping, update(1, v="y", time=60), base=2) == ["UPDATE_UPDATE SKIPPED"]
    assert [row(each, "1")["v"] for each in (log, last_wins, keeping)] == ["x", "y", "x"]


def test_a_skipped_change_then_the_rest_of_the_changeset_applies_and_conflicts_with_nothing(
    keeping: DecidedLog,
) -> None:
    log = keeping
    log.commit(update(1, v="x"))
    assert settled(log, update(1, v="y"), update(2, v="y"), base=2) == ["UPDATE_UPDATE SKIPPED"]
    assert (row(log, "1")["v"], row(log, "2")["v"]) == ("x", "y")
    outcome = log.propose(update(1, v="late"), base=2)
    assert (outcome.snapshot_id, outcome.effects[0].skipped) == (5, True)
    log.commit(update(1, v="plain"), base=3)


def test_ties_of_last_update_wins_then_priority_node_and_order(last_wins: DecidedLog) -> None:
    def origin(node: str, priority: int) -> dict[str, Any]:
        return {"node": node, "tick": 1, "stamp_ms": 1, "priority": priority}

    log = last_wins
    log.commit(update(1, v="base", time=50, origin=origin("m", 5)))
    assert settled(log, update(1, v="lower priority", time=50, origin=origin("a", 6)), base=2) == [
        "UPDATE_UPDATE SKIPPED"
    ]
    assert settled(log, update(1, v="later node", time=50, origin=origin("n", 5)), base=2) == ["UPDATE_UPDATE SKIPPED"]
    assert settled(log, update(1, v="same node", time=50, origin=origin("m", 5)), base=2) == ["UPDATE_UPDATE APPLIED"]
    assert settled(log, update(1, v="earlier node", time=50, origin=origin("l", 5)), base=2) == [
        "UPDATE_UPDATE APPLIED"
    ]
    assert settled(log, update(1, v="higher priority", time=50, origin=origin("z", 4)), base=2) == [
        "UPDATE_UPDATE APPLIED"
    ]
    assert row(log, "1")["v"] == "higher priority"


def test_update_delete_then_the_update_is_discarded(
    log: DecidedLog, last_wins: DecidedLog, keeping: DecidedLog
) -> None:
    for each in (log, last_wins, keeping):
        each.commit(delete_row(1, time=20))
    log.conflict("UPDATE_DELETE@3", on=update(1, v="y", time=99), base=2)
    for each in (last_wins, keeping):
        assert settled(each, update(1, v="y", time=99), base=2) == ["UPDATE_DELETE SKIPPED"]
        assert row(each, "1") is None


def test_delete_of_an_updated_row_then_by_policy(log: DecidedLog, last_wins: DecidedLog, keeping: DecidedLog) -> None:
    for each in (log, last_wins, keeping):
        each.commit(update(1, v="x", time=99))
    log.conflict("UPDATE_DELETE@3", on=delete_row(1), base=2)
    assert settled(last_wins, delete_row(1, time=1), base=2) == ["UPDATE_DELETE APPLIED"]
    assert row(last_wins, "1") is None
    assert settled(keeping, delete_row(1), base=2) == ["UPDATE_DELETE SKIPPED"]
    assert row(keeping, "1")["v"] == "x"


def test_delete_delete_then_harmless_under_every_policy_and_recorded(any_log: DecidedLog) -> None:
    any_log.commit(delete_row(1))
    assert settled(any_log, delete_row(1), base=2) == ["DELETE_DELETE SKIPPED"]


def test_insert_update_only_of_replicated_changes(log: DecidedLog, last_wins: DecidedLog) -> None:
    origin = {"node": "b", "tick": 3, "stamp_ms": 1, "priority": 1}
    last_wins.refused("INVALID", update(9, v="z"))
    assert settled(last_wins, update(9, v="z", origin=origin), base=2) == ["INSERT_UPDATE SKIPPED"]
    log.refused("CONFLICT", update(9, v="z", origin=origin))


def test_update_of_the_key_then_a_delete_and_an_insert_with_a_new_row_id(any_log: DecidedLog) -> None:
    old = any_log.state.tables[2].rows.live["1"].row_id
    outcome = any_log.propose(change("UPDATE_ROW", "k", key={"id": 1}, row={"id": 7, "v": "a"}))
    assert (outcome.effects[0].ended_row_id, outcome.effects[0].row_id) == (old, 2)
    assert (row(any_log, "1"), row(any_log, "7")["v"]) == (None, "a")


def test_update_of_the_key_when_raced_then_divergent(any_log: DecidedLog) -> None:
    moved = change("UPDATE_ROW", "k", key={"id": 1}, row={"id": 7}, row_time_us=99)
    any_log.commit(update(1, v="x"))
    any_log.conflict("UPDATE_KEY@3", on=moved, base=2)
    any_log.commit(insert(id=7))
    outcome = any_log.conflict("UPDATE_KEY@3", "UPDATE_KEY@4", on=moved, base=2)
    assert [c.object.row_key for c in outcome.conflicts] == ["1", "7"]


def test_update_that_takes_a_raced_unique_value_then_divergent(any_log: DecidedLog) -> None:
    any_log.commit(insert(id=3, v="c"))
    outcome = any_log.conflict("UNIQUE@3", on=update(1, v="c", time=99), base=2)
    assert outcome.conflicts[0].object.row_key == "3"


def test_foreign_key_when_the_parent_went_or_a_child_came_then_conflict(any_log: DecidedLog) -> None:
    any_log.commit(delete_row(2, "p"))
    any_log.conflict("FOREIGN_KEY@3", on=insert(id=5, parent=2), base=2)
    any_log.refused("INVALID", insert(id=5, parent=2))
    any_log.commit(insert(id=6, parent=1))
    any_log.conflict("FOREIGN_KEY@4", on=delete_row(1, "p"), base=3)
    any_log.refused("INVALID", delete_row(1, "p"))
    any_log.commit(update(6, v="no parent"))
    any_log.commit(delete_row(1, "p"))


def test_foreign_key_when_the_parent_was_made_anew_then_fine(any_log: DecidedLog) -> None:
    any_log.commit(delete_row(1, "p"))
    any_log.commit(insert("p", id=1))
    any_log.commit(insert(id=5, parent=1), base=2)


def test_rows_when_the_table_was_altered_then_conflict(log: DecidedLog) -> None:
    log.commit(alter("ADD_COLUMN", "k", column={"name": "x", "type": "int64", "default": "4"}))
    log.conflict("TABLE_ALTERED@3", on=update(1, v="y"), base=2)
    log.commit(insert(id=3))
    assert row(log, "3")["x"] == 4


def test_rows_beyond_the_window_then_no_policy_applies() -> None:
    log = log_of("LAST_UPDATE_WINS", window_snapshots=1)
    log.commit(update(1, v="x", time=50))
    log.commit(insert("p", id=8))
    log.conflict("TABLE_ROWS_CHANGED@3", on=update(2, v="y", time=60), base=2)
    log.commit(update(2, v="y", time=60), base=3)
    log.check_replay()


def test_keys_then_one_canonical_form_by_type() -> None:
    log = DecidedLog()
    log.commit(keyed_table("k", "id decimal(9,2), v varchar"))
    log.commit(insert(id="1.50", v="x"))
    log.refused("INVALID", insert(id=1.5, v="y"))
    log.commit(delete_row("1.5"))


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("interval", "3 days 04:05:06", "a while"), ("timetz", "03:04:05+01", "03:04:05+16"), ("float32", 1.5, 1e39),
        ("timestamptz", "0001-01-02 00:00:00+05", "0001-01-01 00:00:00+05"), ("int8", 127, 128), ("uuid", None, "x"),
        ("decimal(38,0)", "9" * 38, "9" * 39), ("timestamp", "9999-12-31 23:59:59.999999", "10000-01-01 00:00:00"),
    ],
)  # fmt: skip
def test_values_then_only_those_that_the_catalog_can_hold(kind: str, good: Any, bad: Any) -> None:
    log = DecidedLog()
    log.commit(keyed_table("k", f"id int64, v {kind}"))
    log.commit(insert(id=1, v=good))
    log.refused("INVALID", insert(id=2, v=bad))


def test_long_decimals_then_keys_that_differ_in_the_last_digit_differ() -> None:
    log = DecidedLog()
    log.commit(keyed_table("k", "id decimal(38,0), v varchar"))
    log.commit(insert(id="1" * 38), insert(id="1" * 37 + "2"))


def test_a_table_whose_rows_postgresql_cannot_hold_then_row_changes_are_invalid() -> None:
    log = DecidedLog()
    log.commit(keyed_table("k", "id int64, ctid varchar"))
    assert "PostgreSQL" in str(log.refused("INVALID", insert(id=1)).detail)


def test_flush_then_rows_leave_the_inlined_ones_and_conflict_with_their_changes(log: DecidedLog) -> None:
    def flush(*row_ids: int) -> dict[str, Any]:
        file = {"path": "f", "record_count": len(row_ids), "file_size_bytes": 1, "row_ids": list(row_ids)}
        return change("FLUSH", "k", files=[file])

    log.commit(flush(0))
    log.refused("INVALID", flush(0))
    log.conflict("TABLE_FLUSHED@3", on=flush(0, 1), base=2)
    log.commit(update(2, v="y"), base=2)
    log.conflict("TABLE_ROWS_CHANGED@4", on=flush(1), base=3)
    log.commit(insert(id=8))
    log.commit(flush(1), base=4)
    log.commit(update(2, v="z"))


# --- handlers ---------------------------------------------------------------------------------------------------------


def handled(answer: Any) -> DecidedLog:
    asked: list[tuple[str, Any, Any]] = []

    def handler(kind: str, committed: Any, proposed: Any) -> Any:
        asked.append((kind, committed, proposed))
        return answer(committed, proposed)

    return log_of("handler:merge", handlers={"merge": handler})


def test_handler_then_its_image_stands_and_is_never_asked_again_on_replay() -> None:
    log = handled(lambda committed, proposed: {**proposed, "v": committed["v"] + "+" + proposed["v"]})
    log.commit(update(1, v="x"))
    assert settled(log, update(1, v="y"), base=2) == ["UPDATE_UPDATE HANDLED"]
    assert row(log, "1")["v"] == "x+y"
    log.handlers.clear()
    log.check_replay()


def test_handler_of_update_delete_then_it_may_insert_or_discard() -> None:
    log = handled(lambda committed, proposed: proposed if proposed["v"] == "keep" else None)
    log.commit(delete_row(1), delete_row(2))
    assert settled(log, update(1, v="keep"), update(2, v="drop"), base=2) == ["UPDATE_DELETE HANDLED"] * 2
    assert (row(log, "1")["v"], row(log, "2")) == ("keep", None)
    log.check_replay()


def test_handler_that_fails_then_conflict_with_its_text_and_one_that_is_not_installed_then_invalid() -> None:
    log = handled(lambda committed, proposed: 1 / 0)
    log.commit(update(1, v="x"))
    assert "division by zero" in log.refused("CONFLICT", update(1, v="y"), base=2).conflicts[0].detail
    to_default = alter("SET_PROPERTY", "k", key="on_conflict", value=None)
    configured = {"kind": "CONFIGURE", "settings": {"on_conflict": "handler:merge"}}
    log.commit(configured)
    log.handlers.clear()
    missing = "the row handler merge is not installed where the log is decided"
    assert log.refused("INVALID", update(1, v="y"), base=2).detail == missing
    assert log.refused("INVALID", keyed_table("m", on_conflict="handler:merge")).detail == missing
    asks = alter("SET_PROPERTY", "k", key="on_conflict", value="handler:merge")
    assert log.refused("INVALID", asks).detail == missing
    log.commit(keyed_table("k", on_conflict="handler:merge", if_not_exists=True))
    assert log.refused("INVALID", configured).detail == missing
    log.commit({"kind": "CONFIGURE", "settings": {"conflict_granularity": "ROW"}})
    log.commit(to_default)
    assert log.refused("INVALID", update(1, v="y"), base=2).detail == missing


def test_a_row_change_that_meets_its_own_race_a_unique_holder_and_a_parent_then_all_are_listed() -> None:
    log = log_of()
    log.commit(delete_row(1, "p"), update(1, v="c"), insert(id=3, v="d"), insert(id=4, w="d"))
    row = {"v": "d", "w": "d", "parent": 1}
    others = ["UNIQUE@3", "UNIQUE@3", "FOREIGN_KEY@3"]
    log.conflict("UPDATE_UPDATE@3", *others, on=update(1, **row), base=2)
    log.conflict("UPDATE_KEY@3", *others, on=change("UPDATE_ROW", "k", key={"id": 1}, row={"id": 7, **row}), base=2)
    log.conflict(*others, on=update(2, **row), base=2)
    log.commit(delete_row(1))
    log.conflict("UPDATE_DELETE@4", *others, on=update(1, **row), base=2)
    log.check_replay()


def test_unique_value_given_twice_in_one_changeset_then_invalid_also_when_its_holder_was_raced() -> None:
    log = log_of()
    log.commit(insert(id=3, v="c"), insert(id=4, w="d"))
    twice = (insert(id=5, v="c", w="d"), update(3, v="e"), insert(id=6, v="c"))
    log.refused("CONFLICT", *twice[:2], base=2)
    log.refused("INVALID", *twice, base=2)


def test_handler_that_fails_when_several_rows_are_met_then_conflict_names_them_all_as_under_abort() -> None:
    log = handled(lambda committed, proposed: 1 / 0)
    log.commit(update(1, v="x"), insert(id=3, v="y"))
    moved = {"kind": "UPDATE_ROW", "schema": "main", "table": "k", "key": {"id": 1}, "row": {"id": 3, "v": "z"}}
    outcome = log.refused("CONFLICT", moved, base=2)
    assert [(str(c.kind), c.object.row_key) for c in outcome.conflicts] == [("UPDATE_KEY", "1"), ("UPDATE_KEY", "3")]


def test_handler_of_a_key_update_then_it_cannot_end_a_row_that_it_was_not_shown() -> None:
    log = handled(lambda committed, proposed: proposed)
    log.commit(insert(id=3, v="theirs"))
    moved = {"kind": "UPDATE_ROW", "schema": "main", "table": "k", "key": {"id": 7}, "row": {"id": 3, "v": "mine"}}
    origin = {"node": "n", "tick": 1, "stamp_ms": 1, "priority": 0}
    late = log.refused("CONFLICT", {**moved, "origin": origin}, base=2)
    assert "would end a row that it was not shown" in late.conflicts[0].detail
    log.commit(delete_row(1))
    log.refused("CONFLICT", {**moved, "key": {"id": 1}}, base=2)
    assert row(log, "3")["v"] == "theirs"


def test_handler_that_wants_no_row_where_there_is_none_then_nothing_changed_for_readers() -> None:
    log = handled(lambda committed, proposed: None)
    log.commit(delete_row(1))
    assert settled(log, update(1, v="x"), base=2) == ["UPDATE_DELETE HANDLED"]
    log.commit(insert(id=7), base=3, isolation="SERIALIZABLE", reads=[read_table("k")])


def test_handler_of_a_raced_key_update_then_it_decides() -> None:
    log = handled(lambda committed, proposed: proposed)
    log.commit(update(1, v="x"))
    moved = change("UPDATE_ROW", "k", key={"id": 1}, row={"id": 7, "v": "moved"})
    assert settled(log, moved, base=2) == ["UPDATE_KEY HANDLED"]
    assert (row(log, "1"), row(log, "7")["v"]) == (None, "moved")
    log.check_replay()


def test_handler_of_a_raced_unique_value_then_it_decides_and_is_checked_again() -> None:
    log = handled(lambda committed, proposed: {**proposed, "v": proposed["v"] + "2"})
    log.commit(insert(id=3, v="c"))
    assert settled(log, update(1, v="c"), base=2) == ["UNIQUE HANDLED"]
    assert row(log, "1")["v"] == "c2"
    stubborn = handled(lambda committed, proposed: proposed)
    stubborn.commit(insert(id=3, v="c"))
    stubborn.conflict("UNIQUE@3", on=update(1, v="c"), base=2)
    log.check_replay()


# --- found by attack --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["1e1000000", "-1e999999999", "1e-999999999", "9" * 5000, "NaN", "Infinity"])
def test_numbers_of_any_exponent_then_invalid_and_never_a_stop(value: str) -> None:
    log = DecidedLog()
    log.commit(keyed_table("k", "id decimal(5,2), v varchar"))
    log.refused("INVALID", insert(id=value))
    log.refused("INVALID", delete_row(value))
    log.refused("INVALID", {**keyed_table("d"), "columns": [{"name": "id", "type": "decimal(5,2)", "default": value}]})


def flush(*row_ids: int) -> dict[str, Any]:
    file = {"path": "f", "record_count": len(row_ids), "file_size_bytes": 1, "row_ids": list(row_ids)}
    return change("FLUSH", "k", files=[file])


def test_flush_beyond_the_window_then_judged_all_the_same() -> None:
    log = DecidedLog(window_snapshots=1)
    log.commit(keyed_table())
    log.commit(insert(id=1), insert(id=2))
    base = log.commit(flush(1))
    for name in "abc":
        log.commit({"kind": "CREATE_SCHEMA", "schema": name})
    for row_id in (1, 99, -1):
        log.refused("INVALID", flush(row_id), base=base)
    log.commit(flush(0), base=base)
    log.check_replay()


def test_flush_of_a_row_that_was_changed_and_flushed_since_then_both_are_listed() -> None:
    log = DecidedLog()
    log.commit(keyed_table())
    base = log.commit(insert(id=1), insert(id=2))
    log.commit(update(1, v="x"))
    log.commit(flush(0))
    log.conflict("TABLE_FLUSHED@4", "TABLE_ROWS_CHANGED@3", on=flush(0), base=base)
    log.commit(update(1, v="y"))
    log.commit(insert(id=3), delete_row(1))
    log.conflict("TABLE_FLUSHED@4", "TABLE_ROWS_CHANGED@6", on=flush(0, 1), base=base)
    log.conflict("TABLE_ROWS_CHANGED@6", on=flush(0), base=4)
    log.check_replay()


def test_a_row_flushed_twice_in_one_changeset_then_invalid() -> None:
    log = DecidedLog()
    log.commit(keyed_table())
    log.commit(insert(id=1))
    log.refused("INVALID", flush(0), flush(0))


def test_a_refused_change_then_later_ones_are_not_blamed_for_its_absence() -> None:
    log = log_of()
    log.commit(alter("ADD_COLUMN", "p", column={"name": "z", "type": "int64"}))
    log.conflict("TABLE_ALTERED@3", on=[insert("p", id=7), insert(id=7, parent=7)], base=2)
    log.commit(insert(id=8, parent=2))
    base = log.head
    log.commit(update(8, v="x", parent=2))
    log.conflict("UPDATE_DELETE@5", on=[delete_row(8), delete_row(2, "p")], base=base)
    log.commit(insert(id=3, v="c"))
    log.conflict("UNIQUE@6", on=[update(1, v="c"), insert(id=9, v="a")], base=5)
    log.check_replay()


def test_a_raced_update_that_takes_an_unraced_unique_value_then_invalid(log: DecidedLog) -> None:
    log.commit(update(1, v="x"))
    log.refused("INVALID", update(1, v="b"), base=2)


def test_text_where_json_has_a_type_of_its_own_then_invalid(log: DecidedLog) -> None:
    log.refused("INVALID", insert(id="4"))
    log.refused("INVALID", delete_row("1"))


def test_rows_beyond_the_window_then_what_could_never_be_is_invalid_still() -> None:
    log = log_of(window_snapshots=1)
    base = log.head
    log.commit(update(1, v="c", w="a"))
    log.commit(insert(id=5))
    log.conflict("TABLE_ROWS_CHANGED@4", on=update(2, v="z"), base=base)
    for request_ in (insert(id=None), insert(id=9, colour="red"), update("one", v="z")):
        log.refused("INVALID", request_, base=base)
    log.refused("INVALID", update(2, v="z"), delete_row(2), base=base)
    log.check_replay()


def test_rows_beyond_the_window_then_columns_of_the_same_changeset_are_known() -> None:
    log = log_of(window_snapshots=1)
    base = log.head
    log.commit(update(1, v="c", w="a"))
    log.commit(insert(id=5))
    added = alter("ADD_COLUMN", "k", column={"name": "z", "type": "int64"})
    log.conflict("TABLE_ROWS_CHANGED@4", on=[added, insert(id=9, z=1)], base=base)
    log.refused("INVALID", alter("DROP_COLUMN", "k", name="w"), insert(id=9, w="a"), base=base)
    log.check_replay()


def test_rows_whose_keys_differ_by_where_a_comma_stands_then_each_is_told() -> None:
    log = DecidedLog()
    columns = "a varchar, b varchar, v varchar, w varchar"
    log.commit(create_table("k", columns, primary_key=["a", "b"], unique=[["v"], ["w"]]))
    base = log.head
    log.commit(insert(a="x, y", b="z", v="1"), insert(a="x", b="y, z", w="2"))
    outcome = log.refused("CONFLICT", insert(a="o", b="p", v="1", w="2"), base=base)
    assert [conflict.object.row_key for conflict in outcome.conflicts] == ['"x, y", z', 'x, "y, z"']


def test_a_parent_gone_by_a_skipped_change_then_its_child_is_a_conflict() -> None:
    log = log_of("KEEP_EXISTING")
    base = log.head
    log.commit(delete_row(2, "p"))
    log.conflict("FOREIGN_KEY@3", on=[update(2, "p"), insert(id=9, parent=2)], base=base)
    log.conflict("FOREIGN_KEY@3", on=[delete_row(2, "p"), insert(id=9, parent=2)], base=base)
    log.check_replay()


@pytest.mark.parametrize(
    ("committed", "proposed", "text"),
    [
        (delete_row(2), update(2, v="z"), "deleted row 2 of table main.k since"),
        (delete_row(2), update(2, id=7, v="z"), "deleted row 2 of table main.k since"),
        (
            change("UPDATE_ROW", "k", key={"id": 2}, row={"id": 7, "v": "b"}),
            update(2, v="z"),
            "deleted row 2 of table main.k or gave it another key since",
        ),
        (update(2, v="z"), delete_row(2), "changed row 2 of table main.k since"),
        (
            insert(id=3, v="c"),
            insert(id=4, v="c"),
            "inserted or changed row 3 of table main.k (the same UNIQUE v) since",
        ),
        (insert(id=3, v="c"), insert(id=3, v="c"), "inserted or changed row 3 of table main.k since"),
        (
            insert(id=3, v="c", w="d"),
            update(1, v="c", w="d"),
            "row 3 of table main.k (the same UNIQUE v; the same UNIQUE w)",
        ),
        (
            insert(id=3, v="c", w="d"),
            insert(id=4, v="c", w="d"),
            "row 3 of table main.k (the same UNIQUE v; the same UNIQUE w)",
        ),
        (delete_row(2, "p"), insert(id=9, parent=2), "deleted row 2 of table main.p (to which it refers) since"),
        (
            insert(id=9, parent=2),
            delete_row(2, "p"),
            "inserted or changed row 9 of table main.k (which refers to it) since",
        ),
    ],
)
def test_rows_that_meet_then_the_text_says_what_the_committed_side_did(
    log: DecidedLog, committed: dict[str, Any], proposed: dict[str, Any], text: str
) -> None:
    base = log.head
    log.commit(committed)
    assert text in str(log.refused("CONFLICT", proposed, base=base).detail)


def test_a_row_without_a_column_that_may_not_be_null_then_the_text_says_that_rows_are_given_whole(
    log: DecidedLog,
) -> None:
    refused = log.refused("INVALID", change("UPDATE_ROW", "k", key={"id": 1}, row={"v": "z"}))
    assert "column id of table k may not be NULL, and the row does not give it" in str(refused.detail)
    assert str(log.refused("INVALID", insert(id=None)).detail).endswith("may not be NULL")


def test_a_unique_value_of_several_columns_then_the_text_names_them() -> None:
    log = DecidedLog()
    log.commit(keyed_table("k", "id int64, v varchar, w varchar", unique=[["v", "w"]]))
    log.commit(insert(id=1, v="a", w="b"))
    refused = log.refused("INVALID", insert(id=2, v="a", w="b"))
    assert refused.detail == "row 1 of table k already has the same UNIQUE v, w"


def test_a_row_that_gets_another_key_and_was_changed_then_it_does_not_meet_itself_by_its_unique_value(
    log: DecidedLog,
) -> None:
    base = log.head
    log.commit(update(1, v="a", w="y"))
    proposed = change("UPDATE_ROW", "k", key={"id": 1}, row={"id": 9, "v": "a", "w": "a"})
    refused = log.refused("CONFLICT", proposed, base=base)
    assert "changed row 1 of table main.k since" in str(refused.detail)


def test_a_parent_whose_unique_value_was_changed_then_the_text_says_so() -> None:
    log = DecidedLog()
    refers = [{"columns": ["parent"], "ref_schema": "main", "ref_table": "p", "ref_columns": ["v"]}]
    log.commit(keyed_table("p", unique=[["v"]]), keyed_table("k", "id int64, parent varchar", foreign_keys=refers))
    base = log.commit(insert("p", id=1, v="a"))
    log.commit(update(1, "p", v="b"))
    outcome = log.conflict(f"FOREIGN_KEY@{log.head}", on=insert(id=5, parent="a"), base=base)
    assert "changed row 1 of table main.p (to which it refers) since" in str(outcome.detail)


def test_a_row_that_was_read_and_deleted_then_the_text_says_so(log: DecidedLog) -> None:
    base = log.head
    log.commit(update(1, v="z"))
    log.commit(delete_row(2))
    reads = [{"kind": "ROWS", "schema": "main", "table": "k", "keys": [{"id": 1}, {"id": 2}]}]
    outcome = log.refused("CONFLICT", insert("p", id=9), base=base, reads=reads, isolation="SERIALIZABLE")
    told = [conflict.detail for conflict in outcome.conflicts]
    assert "changed row 1 of table main.k since" in told[0]
    assert "deleted row 2 of table main.k since" in told[1]


@pytest.mark.parametrize("origin", [None, {"node": "n", "tick": 1, "stamp_ms": 5, "priority": 1}])
def test_an_update_of_a_row_that_is_gone_then_a_unique_value_held_since_before_is_invalid(
    log: DecidedLog, origin: dict[str, Any] | None
) -> None:
    base = log.head
    log.commit(delete_row(2))
    log.refused("INVALID", update(2, v="a", w="z", origin=origin), base=base)
    log.conflict("UPDATE_DELETE@3", on=update(2, v="z", w="z", origin=origin), base=base)
    if origin is not None:
        log.refused("INVALID", update(7, v="a", origin=origin), base=base)
        log.conflict("INSERT_UPDATE@2", on=update(7, v="z", origin=origin), base=base)
