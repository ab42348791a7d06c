"""Rows of several sites that cannot stand beside each other: which is held back, and when it stands after all (rules.md 6)."""

from __future__ import annotations

from typing import Any

import pytest
from deciding import DecidedLog, change, delete_row, insert, keyed_table, update
from deciding_sites import C, brought, log_of_node_a, node, row_of, settled, value_of

from commitlog.domain.deciding.shortening import shortenings
from commitlog.domain.model import Row
from commitlog.log.codec import encode_outcome
from commitlog.log.topic_settings import outcome_bytes_max

Z = {"node": "z", "priority": 0}
"""A node whose versions come before those of node a."""


@pytest.fixture
def log() -> DecidedLog:
    """Node a of priority 1, with keyed tables k (w is UNIQUE) and c, which refers to it; row 1 of k (w: x) is there."""
    return log_of_node_a()


def held(log: DecidedLog, table: str = "k") -> dict[str, Row | None]:
    [found] = [each for each in log.state.tables.values() if each.name == table]
    assert found.rows is not None
    return {key: version.image for key, version in found.rows.held.items()}


def rows(log: DecidedLog, table: str = "k") -> dict[str, Row | None]:
    [found] = [each for each in log.state.tables.values() if each.name == table]
    assert found.rows is not None
    return {key: version.image for key, version in sorted(found.rows.live.items())}


def test_row_when_one_that_comes_first_holds_its_unique_value_then_held_back_and_the_rest_goes_on(
    log: DecidedLog,
) -> None:
    outcome = brought(log, insert(id=2, v="b", w="x"), insert(id=3, w="y"), tick=2)
    assert settled(outcome) == ["UNIQUE HELD"]
    [told] = outcome.resolutions
    assert (told.change, told.object.row_key, told.committed_snapshot_id) == (0, "2", 4)
    assert (told.proposed_row, told.committed_row) == ({"id": 2, "v": "b", "w": "x"}, {"id": 1, "v": "a4", "w": "x"})
    assert [each.row_id for each in outcome.effects] == [None, 1]
    assert held(log) == {"2": {"id": 2, "v": "b", "w": "x"}}
    assert rows(log).keys() == {"1", "3"}
    assert log.state.next_tick("b") == 3
    log.check_replay()


def test_row_when_it_comes_before_the_one_that_stands_then_takes_its_place(log: DecidedLog) -> None:
    outcome = brought(log, insert(id=2, v="z", w="x"), by=Z, tick=2)
    assert settled(outcome) == ["UNIQUE HELD"]
    [told] = outcome.resolutions
    assert (told.object.row_key, told.ended_row_id, told.row) == ("1", 0, {"id": 1, "v": "a4", "w": "x"})
    assert told.committed_row == {"id": 2, "v": "z", "w": "x"}
    assert (rows(log).keys(), held(log).keys()) == ({"2"}, {"1"})
    log.check_replay()


def test_held_row_when_the_one_it_met_gives_the_value_up_then_stands_after_all(log: DecidedLog) -> None:
    brought(log, insert(id=2, v="b", w="x"), tick=2)
    log.commit(update(1, v="a", w="other"))
    [told] = log.outcomes[-1].resolutions
    assert (str(told.action), told.row_id, told.row) == ("RELEASED", 1, {"id": 2, "v": "b", "w": "x"})
    assert (str(told.kind), told.committed_snapshot_id, told.policy) == ("UNIQUE", 4, "SITES")
    assert (value_of(log, 2), held(log)) == ("b", {})
    # What it was made of is known as before: its node's next version supersedes it.
    assert settled(brought(log, update(2, v="b3", w="x"), tick=3)) == []
    log.check_replay()


def test_held_row_when_its_own_row_is_told_in_one_snapshot_with_what_it_met_then_both_are_looked_at(
    log: DecidedLog,
) -> None:
    brought(log, insert(id=2, v="b", w="x"), tick=2)
    outcome = brought(log, delete_row(1), update(2, v="b3", w="x"), tick=3, a=5)
    assert settled(outcome) == ["UNIQUE RELEASED"]
    assert (value_of(log, 2), outcome.effects[1].row_id, outcome.resolutions[0].row_id) == ("b3", 1, None)
    log.check_replay()


def test_held_row_when_its_node_ends_or_changes_it_then_held_no_longer(log: DecidedLog) -> None:
    brought(log, insert(id=2, v="b", w="x"), tick=2)
    assert settled(brought(log, update(2, v="b3", w="x"), tick=3)) == ["UNIQUE HELD"]
    assert held(log) == {"2": {"id": 2, "v": "b3", "w": "x"}}
    assert settled(brought(log, update(2, v="b4", w="free"), tick=4)) == ["UNIQUE RELEASED"]
    assert settled(brought(log, update(2, v="b5", w="x"), tick=5)) == ["UNIQUE HELD"]
    assert log.outcomes[-1].effects[0].ended_row_id == 1
    assert settled(brought(log, delete_row(2), tick=6)) == ["UNIQUE RELEASED"]
    assert held(log) == {}
    log.check_replay()


def test_held_row_when_a_rival_of_it_comes_then_they_conflict_as_any_two(log: DecidedLog) -> None:
    brought(log, insert(id=2, v="b", w="x"), tick=2)
    assert settled(brought(log, insert(id=2, v="c", w="y"), by=C, tick=1)) == ["INSERT_INSERT SKIPPED"]
    assert log.outcomes[-1].resolutions[0].committed_row == {"id": 2, "v": "b", "w": "x"}
    assert settled(brought(log, insert(id=2, v="z", w="y"), by=Z, tick=1)) == [
        "INSERT_INSERT APPLIED",
        "UNIQUE RELEASED",
    ]
    assert value_of(log, 2) == "z"
    log.check_replay()


def test_row_when_it_meets_several_others_then_held_back_until_all_of_them_have_gone() -> None:
    log = DecidedLog()
    log.commit(keyed_table("k", "id int64 not null, v varchar, w varchar", unique=[["v"], ["w"]]))
    log.commit(node("a", 1))
    log.commit(insert(id=1, v="1", w="1"), insert(id=2, v="2", w="2"))
    assert settled(brought(log, insert(id=3, v="1", w="2"), tick=1)) == ["MULTIPLE_UNIQUE HELD"]
    log.commit(delete_row(1))
    assert held(log).keys() == {"3"}
    log.commit(delete_row(2))
    assert [str(each.kind) for each in log.outcomes[-1].resolutions] == ["UNIQUE"]
    assert rows(log).keys() == {"3"}
    log.check_replay()


def test_chain_when_the_first_goes_then_the_second_stands_and_displaces_the_third() -> None:
    log = DecidedLog()
    log.commit(keyed_table("k", "id int64 not null, v varchar, w varchar", unique=[["v"], ["w"]]))
    log.commit(node("a", 1))
    log.commit(insert(id=1, v="1"))
    brought(log, insert(id=2, v="1", w="1"), tick=1)
    brought(log, insert(id=3, w="1"), by=C, tick=1)
    assert (rows(log).keys(), held(log).keys()) == ({"1", "3"}, {"2"})
    log.commit(delete_row(1))
    told = {each.object.row_key: str(each.action) for each in log.outcomes[-1].resolutions}
    assert told == {"2": "RELEASED", "3": "HELD"}
    assert (rows(log).keys(), held(log).keys()) == ({"2"}, {"3"})
    log.check_replay()


def test_row_when_what_it_would_displace_has_left_the_window_then_the_whole_is_refused() -> None:
    log = DecidedLog(window_snapshots=1)
    log.commit(node("a", 1))
    log.commit(keyed_table("k", "id int64 not null, w varchar", unique=[["w"]]))
    for key in (1, 2, 3):
        log.commit(insert(id=key, w=str(key)))
    outcome = brought(log, insert(id=9, w="1"), by=Z, tick=1)
    assert "whose values have left the window" in str(outcome.detail)
    [table_id] = log.state.tables
    assert settled(brought(log, insert(id=9, w="1"), by=Z, tick=1, displaced=[(table_id, {"id": 1, "w": "1"})])) == [
        "UNIQUE HELD"
    ]
    assert held(log) == {"1": {"id": 1, "w": "1"}}
    log.commit(delete_row(9))
    assert rows(log)["1"] == {"id": 1, "w": "1"}
    log.check_replay()


def test_own_change_when_it_would_hold_back_a_row_beyond_the_window_then_refused() -> None:
    log = DecidedLog(window_snapshots=1)
    log.commit(keyed_table("k", "id int64 not null, v varchar, w varchar", unique=[["v"], ["w"]]))
    log.commit(node("a", 1))
    log.commit(insert(id=1, v="1"))
    brought(log, insert(id=2, v="1", w="1"), tick=1)
    brought(log, insert(id=3, w="1"), by=C, tick=1)
    log.commit(insert(id=4))
    log.commit(insert(id=5))
    refused = log.refused("CONFLICT", delete_row(1))
    assert "row 3 of table main.k (whose values have left the window" in str(refused.detail)
    assert "update it to what it is first, then do this again" in str(refused.detail)
    log.commit({"kind": "UPDATE_ROW", "schema": "main", "table": "k", "key": {"id": 3}, "row": {"id": 3, "w": "1"}})
    log.commit(delete_row(1))
    assert rows(log).keys() == {"3", "4", "5"}


# --- foreign keys -----------------------------------------------------------------------------------------------------


def test_row_when_what_it_refers_to_is_gone_then_held_back_until_it_is_there_again(log: DecidedLog) -> None:
    outcome = brought(log, insert("c", id=1, p=7), insert("c", id=2, p=1), insert("c", id=3, p=None), tick=2)
    assert settled(outcome) == ["FOREIGN_KEY HELD"]
    assert (rows(log, "c").keys(), held(log, "c").keys()) == ({"2", "3"}, {"1"})
    log.commit(insert(id=7))
    assert [str(each.action) for each in log.outcomes[-1].resolutions] == ["RELEASED"]
    assert rows(log, "c").keys() == {"1", "2", "3"}
    log.check_replay()


def test_row_when_what_it_refers_to_is_ended_by_another_site_then_held_back(log: DecidedLog) -> None:
    log.commit(insert("c", id=1, p=1))
    assert settled(brought(log, update(1, v="b", w="y"), tick=3, a=5)) == []
    outcome = brought(log, delete_row(1), tick=4, a=5)
    [told] = outcome.resolutions
    assert (str(told.kind), str(told.action), told.object.table, told.row) == (
        "FOREIGN_KEY",
        "HELD",
        "c",
        {"id": 1, "p": 1},
    )
    assert (rows(log, "c"), held(log, "c").keys()) == ({}, {"1"})
    assert settled(brought(log, insert(id=1), tick=5)) == ["FOREIGN_KEY RELEASED"]
    log.check_replay()


def test_row_when_its_parent_is_held_back_then_held_back_too_and_stands_again_with_it() -> None:
    log = DecidedLog()
    key = {"columns": ["p"], "ref_schema": "main", "ref_table": "s", "ref_columns": ["id"]}
    log.commit(keyed_table("s", "id int64 not null, p int64, w varchar", foreign_keys=[key], unique=[["w"]]))
    log.commit(node("a", 1))
    log.commit(insert("s", id=1, w="x"))
    outcome = brought(log, insert("s", id=2, w="x"), insert("s", id=3, p=2), insert("s", id=4, p=3), tick=1)
    assert settled(outcome) == ["UNIQUE HELD", "FOREIGN_KEY HELD", "FOREIGN_KEY HELD"]
    assert rows(log, "s").keys() == {"1"}
    log.commit(delete_row(1, "s"))
    assert rows(log, "s").keys() == {"2", "3", "4"}
    assert settled(brought(log, insert("s", id=9, w="x"), by=Z, tick=1)) == [
        "UNIQUE HELD",
        "FOREIGN_KEY HELD",
        "FOREIGN_KEY HELD",
    ]
    log.check_replay()


def test_row_when_it_refers_to_itself_or_in_a_circle_then_stands() -> None:
    log = DecidedLog()
    key = {"columns": ["p"], "ref_schema": "main", "ref_table": "s", "ref_columns": ["id"]}
    log.commit(keyed_table("s", "id int64 not null, p int64", foreign_keys=[key]))
    log.commit(node("a", 1))
    assert settled(brought(log, insert("s", id=1, p=1), tick=2)) == []
    assert settled(brought(log, insert("s", id=2, p=3), tick=3)) == ["FOREIGN_KEY HELD"]
    assert settled(brought(log, insert("s", id=3, p=2), tick=4)) == ["FOREIGN_KEY RELEASED"]
    assert rows(log, "s").keys() == {"1", "2", "3"}
    log.check_replay()


def test_child_when_it_refers_to_a_unique_value_then_any_row_that_holds_it_is_its_parent(log: DecidedLog) -> None:
    key = {"columns": ["w"], "ref_schema": "main", "ref_table": "k", "ref_columns": ["w"]}
    log.commit(keyed_table("d", "id int64 not null, w varchar, u varchar", foreign_keys=[key], unique=[["u"]]))
    log.commit(insert("d", id=1, w="x", u="u"))
    # Row 2 takes the value over from row 1: the child stays.
    assert settled(brought(log, delete_row(1), insert(id=2, w="x"), tick=1, a=6)) == []
    assert rows(log, "d").keys() == {"1"}
    # A child that is held back for its own UNIQUE value does not stand when its parent comes.
    assert settled(brought(log, insert("d", id=5, w="n", u="u"), tick=2)) == ["UNIQUE HELD"]
    assert settled(brought(log, insert(id=3, w="n"), insert(id=4), tick=3)) == []
    log.check_replay()


def test_child_when_it_waits_for_two_parents_then_stands_when_both_are_there(log: DecidedLog) -> None:
    keys = [{"columns": [name], "ref_schema": "main", "ref_table": "k", "ref_columns": ["id"]} for name in ("p", "q")]
    log.commit(keyed_table("d", "id int64 not null, p int64, q int64", foreign_keys=keys))
    assert (
        settled(brought(log, insert("d", id=1, p=7, q=8), insert("d", id=2, p=7, q=9), tick=1))
        == ["FOREIGN_KEY HELD"] * 2
    )
    assert settled(brought(log, insert(id=7), insert(id=8), tick=2)) == ["FOREIGN_KEY RELEASED"]
    assert (rows(log, "d").keys(), held(log, "d").keys()) == ({"1"}, {"2"})
    log.check_replay()


# --- what this site writes itself -------------------------------------------------------------------------------------


def test_own_insert_or_delete_when_its_row_is_held_back_then_supersedes_it(log: DecidedLog) -> None:
    brought(log, insert(id=2, v="b", w="x"), insert(id=3, v="b", w="x"), tick=2)
    log.commit(insert(id=2, v="a", w="free"))
    assert [(str(r.action), r.object.row_key, r.row_id) for r in log.outcomes[-1].resolutions] == [
        ("RELEASED", "2", None)
    ]
    log.commit(delete_row(3))
    assert [(str(r.action), r.object.row_key) for r in log.outcomes[-1].resolutions] == [("RELEASED", "3")]
    assert log.outcomes[-1].effects[0].ended_row_id is None
    assert held(log) == {}
    assert settled(brought(log, update(3, v="b", w="y"), tick=4, a=5)) == ["UPDATE_DELETE SKIPPED"]
    assert log.propose(delete_row(3)).invalid_code == "ROW_MISSING"
    log.check_replay()


def test_own_row_when_one_that_is_held_back_comes_before_it_then_refused_and_named(log: DecidedLog) -> None:
    log.commit(insert("c", id=1, p=1))
    log.commit(keyed_table("d", "id int64 not null, p int64, w varchar", unique=[["w"]], foreign_keys=[
        {"columns": ["p"], "ref_schema": "main", "ref_table": "k", "ref_columns": ["id"]}]))  # fmt: skip
    assert settled(brought(log, insert("d", id=1, p=7, w="w"), by=Z, tick=1)) == ["FOREIGN_KEY HELD"]
    outcome = log.propose(insert("d", id=2, w="w"))
    assert [(str(c.kind), c.object.row_key) for c in outcome.conflicts] == [("UNIQUE", "1")]
    assert "which is held back, and comes first" in str(outcome.detail)
    log.commit(insert("d", id=2, w="other"))
    log.check_replay()


def test_own_row_when_it_comes_before_one_that_is_held_back_then_stands(log: DecidedLog) -> None:
    assert settled(brought(log, insert("c", id=1, p=7), tick=1)) == ["FOREIGN_KEY HELD"]
    log.commit(insert("c", id=2, p=1))
    log.commit(update(1, v="again", w="x"))
    assert log.outcomes[-1].resolutions == ()
    log.check_replay()


def test_own_row_when_its_parent_would_give_way_to_one_that_was_held_back_then_refused() -> None:
    log = DecidedLog()
    key = {"columns": ["p"], "ref_schema": "main", "ref_table": "s", "ref_columns": ["id"]}
    columns = "id int64 not null, p int64, v varchar, w varchar"
    log.commit(keyed_table("s", columns, foreign_keys=[key], unique=[["v"], ["w"]]))
    log.commit(node("a", 1))
    log.commit(insert("s", id=1, v="1"))
    brought(log, insert("s", id=2, v="1", w="1"), tick=1)
    brought(log, insert("s", id=3, w="1"), by=C, tick=1)
    outcome = log.propose(delete_row(1, "s"), insert("s", id=4, p=3))
    assert [(str(c.kind), c.object.row_key) for c in outcome.conflicts] == [("FOREIGN_KEY", "4")]
    log.commit(delete_row(1, "s"))
    assert rows(log, "s").keys() == {"2"}
    log.check_replay()


def test_own_change_when_it_is_refused_anyway_then_nothing_else_is_told(log: DecidedLog) -> None:
    brought(log, insert(id=2, v="b", w="x"), tick=2)
    base = log.head
    log.commit(update(1, v="a", w="x"))
    log.conflict(f"UPDATE_UPDATE@{base + 1}", on=update(1, v="late", w="y"), base=base)


def test_held_row_when_the_table_is_altered_then_stands_in_its_new_form(log: DecidedLog) -> None:
    brought(log, insert(id=2, v="b", w="x"), tick=2)
    log.commit(
        change(
            "ALTER_TABLE",
            "k",
            alterations=[
                {"op": "DROP_COLUMN", "name": "v"},
                {"op": "ADD_COLUMN", "column": {"name": "n", "type": "int64", "default": "5"}},
            ],
        )
    )
    log.commit(change("ALTER_TABLE", "k", alterations=[{"op": "SET_DEFAULT", "name": "n", "default": "6"}]))
    log.commit(delete_row(1))
    assert row_of(log, 2) == {"id": 2, "w": "x", "n": 5}
    log.check_replay()


def test_table_when_dropped_with_rows_that_are_held_back_then_they_go_with_it(log: DecidedLog) -> None:
    brought(log, insert("c", id=1, p=7), tick=2)
    log.commit({"kind": "DROP_TABLE", "schema": "main", "table": "c"})
    log.commit(insert(id=7))
    log.check_replay()


def test_order_when_rows_come_in_any_then_the_same_stand_and_the_same_are_held_back() -> None:
    def after(*order: int) -> Any:
        log = DecidedLog()
        log.commit(keyed_table("k", "id int64 not null, v varchar, w varchar", unique=[["v"], ["w"]]))
        log.commit(node("a", 9))
        nodes = [{"node": name, "priority": priority} for name, priority in (("b", 2), ("c", 3), ("d", 1))]
        images: list[dict[str, Any]] = [
            {"id": 1, "v": "1", "w": "1"},
            {"id": 2, "v": "1", "w": "2"},
            {"id": 3, "w": "2"},
        ]
        for number in order:
            brought(log, insert(**images[number]), by=nodes[number], tick=1)
        brought(log, delete_row(1), by=nodes[0], tick=2)
        log.check_replay()
        return rows(log), held(log)

    expected = after(0, 1, 2)
    assert expected[0].keys() == {"3"}
    assert [after(2, 1, 0), after(1, 2, 0), after(2, 0, 1)] == [expected] * 3


def test_column_when_it_is_renamed_while_rows_are_held_back_or_have_rivals_then_no_value_is_lost(
    log: DecidedLog,
) -> None:
    log.commit(insert(id=7, v="here", w="y"))
    brought(log, insert(id=2, v="held", w="x"), insert(id=7, v="rival"), tick=2)
    brought(log, insert(id=7, v="first"), by=Z, tick=1)
    log.commit(insert(id=9, v="ends"))
    log.commit(delete_row(9))
    assert settled(brought(log, delete_row(9), tick=3)) == ["DELETE_DELETE SKIPPED"]
    renaming = {"op": "RENAME_COLUMN", "name": "V", "new_name": "u"}
    comment = {"op": "SET_COMMENT", "comment": "renamed"}
    log.commit(change("ALTER_TABLE", "k", alterations=[renaming, comment]))
    log.check_replay()
    brought(log, insert(id=8, u="displaces", w="x"), by=Z, tick=2)
    log.commit(delete_row(8))
    assert rows(log)["1"] == {"id": 1, "u": "a4", "w": "x"}
    log.commit(delete_row(1))
    assert rows(log)["2"] == {"id": 2, "u": "held", "w": "x"}
    outcome = brought(log, delete_row(7), by=C, tick=5, z=2)
    assert outcome.snapshot_id is not None, outcome.detail
    log.check_replay()
    found = [table.rows for table in log.state.tables.values() if table.name == "k" and table.rows is not None]
    images = [each.image for each in found[0].sites["7"].rivals]
    assert all(image is None or "u" in image for image in images)
    assert {"id": 7, "u": "rival", "w": None} in images


def test_parent_when_it_ends_with_more_children_than_an_outcome_tells_then_a_conflict_says_what_to_do() -> None:
    log = log_of_node_a(proposal_bytes_max=4096)
    for key in range(100, 140):
        log.commit(insert("c", id=key, p=1))
    ended = brought(log, delete_row(1), tick=3)
    assert (ended.reason, ended.conflicts[0].kind) == ("CONFLICT", "FOREIGN_KEY")
    assert "in smaller parts first" in ended.conflicts[0].detail
    for key in range(100, 130):
        log.commit(delete_row(key, "c"))
    again = brought(log, delete_row(1), tick=3)
    assert again.snapshot_id is not None
    assert settled(again) == ["UPDATE_DELETE APPLIED", *["FOREIGN_KEY HELD"] * 10]
    encoded = encode_outcome(next(shortenings(log.state, again)), log_id=bytes(16), prev_hash=bytes(32), told=0)
    assert len(encoded) < outcome_bytes_max(4096)
    log.check_replay()


def test_column_when_another_takes_its_name_while_a_row_is_held_back_then_the_row_has_no_value_of_the_old_one(
    log: DecidedLog,
) -> None:
    brought(log, insert(id=2, v="old", w="x"), tick=2)
    anew = {"op": "ADD_COLUMN", "column": {"name": "v", "type": "varchar", "nullable": True, "default": None}}
    log.commit(change("ALTER_TABLE", "k", alterations=[{"op": "DROP_COLUMN", "name": "v"}, anew]))
    log.commit(delete_row(1))
    assert rows(log) == {"2": {"id": 2, "w": "x", "v": None}}
    log.check_replay()


@pytest.mark.parametrize("kept", ["held back", "lost"])
def test_column_when_a_row_that_does_not_stand_has_null_there_then_it_may_not_forbid_null(
    log: DecidedLog, kept: str
) -> None:
    not_null = change("ALTER_TABLE", "k", alterations=[{"op": "SET_NULLABLE", "name": "v", "nullable": False}])
    brought(log, insert(id=2, w="x") if kept == "held back" else insert(id=1, w="y"), tick=2)
    key = 2 if kept == "held back" else 1
    refused = log.refused("INVALID", not_null)
    assert refused.invalid_code == "NULL_NOT_ALLOWED"
    assert f"row {key} that another site's does not let stand now has NULL there: write that row anew" in str(
        refused.detail
    )
    log.commit(insert(id=2, v="anew") if kept == "held back" else update(1, v="anew", w="x"))
    log.commit(not_null)
    log.check_replay()


def test_column_when_it_is_added_or_loses_its_default_then_rows_that_do_not_stand_count_too(log: DecidedLog) -> None:
    def added(name: str, default: str | None) -> dict[str, Any]:
        column = {"name": name, "type": "varchar", "nullable": False, "default": default}
        return change("ALTER_TABLE", "k", alterations=[{"op": "ADD_COLUMN", "column": column}])

    rename = {"op": "RENAME_COLUMN", "name": "v", "new_name": "u"}
    drop = {"op": "DROP_COLUMN", "name": "n"}
    brought(log, insert(id=2, v="b", w="x"), tick=2)
    log.commit(insert(id=9))
    log.commit(delete_row(9))
    brought(log, delete_row(9), tick=3)
    log.refused("INVALID", added("n", None))
    log.commit(added("n", "5"))
    log.commit(change("ALTER_TABLE", "k", alterations=[rename, {"op": "SET_NULLABLE", "name": "u", "nullable": False}]))
    log.refused(
        "INVALID", change("ALTER_TABLE", "k", alterations=[{"op": "SET_DEFAULT", "name": "n", "default": None}])
    )
    log.commit(change("ALTER_TABLE", "k", alterations=[drop, *added("o", "6")["alterations"]]))
    log.commit(delete_row(1))
    assert rows(log) == {"2": {"id": 2, "u": "b", "w": "x", "o": "6"}}
    log.check_replay()


def test_row_when_it_has_null_where_none_may_be_any_longer_and_is_displaced_then_held_back_as_it_is(
    log: DecidedLog,
) -> None:
    log.commit(update(1, w="x"))
    log.commit(change("ALTER_TABLE", "k", alterations=[{"op": "SET_NULLABLE", "name": "v", "nullable": False}]))
    brought(log, insert(id=2, v="z", w="x"), by=Z, tick=2)
    assert held(log) == {"1": {"id": 1, "v": None, "w": "x"}}
    log.check_replay()
