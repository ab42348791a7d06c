"""What a link brings from another site: what it supersedes, what stands beside it, and when it does not fit (rules.md 6)."""

from __future__ import annotations

import time
from typing import Any

import pytest
from deciding import (
    DecidedLog,
    alter,
    append,
    change,
    create_table,
    data_file,
    delete_row,
    insert,
    keyed_table,
    read_table,
    update,
)
from deciding_sites import KEYED, B, C, brought, log_of_node_a, node, row_of, settled, value_of

from commitlog.domain.model import Outcome, Row


@pytest.fixture
def log() -> DecidedLog:
    """Node a of priority 1, with keyed tables k (w is UNIQUE) and c, which refers to it; row 1 of k was made by snapshot 4."""
    return log_of_node_a()


def test_update_when_its_node_knew_the_row_then_supersedes_it_without_a_conflict(log: DecidedLog) -> None:
    assert settled(brought(log, update(1, v="b7", w="x"), tick=7, a=5)) == []
    assert value_of(log) == "b7"
    assert log.state.next_tick("b") == 8
    log.check_replay()


def test_update_when_its_node_did_not_know_the_row_then_the_smaller_priority_stands(log: DecidedLog) -> None:
    assert settled(brought(log, update(1, v="b7", w="x"), tick=7, a=4)) == ["UPDATE_UPDATE SKIPPED"]
    assert value_of(log) == "a4"
    stronger = {"node": "z", "priority": 0}
    assert settled(brought(log, update(1, v="z1", w="x"), by=stronger, tick=1)) == ["UPDATE_UPDATE APPLIED"]
    assert value_of(log) == "z1"
    [resolution] = log.outcomes[-1].resolutions
    assert resolution.committed_row == {"id": 1, "v": "a4", "w": "x"}
    assert resolution.proposed_row == {"id": 1, "v": "z1", "w": "x"}
    log.check_replay()


@pytest.mark.parametrize(
    ("stamp", "name", "stands"), [(5, "b", True), (3, "b", False), (4, "b", False), (4, "Z", True)]
)
def test_update_when_priorities_are_equal_then_the_later_stamp_then_the_smaller_name(
    log: DecidedLog, stamp: int, name: str, stands: bool
) -> None:
    brought(log, update(1, v="new", w="x"), by={"node": name, "priority": 1}, tick=1, stamp=stamp)
    assert (value_of(log) == "new") is stands
    log.check_replay()


@pytest.mark.parametrize(("by", "stands"), [({"node": "z", "priority": 0}, "theirs"), (B, "ours")])
def test_own_update_when_it_ties_with_one_that_a_link_brought_then_the_smaller_priority_of_the_two_nodes_stands(
    log: DecidedLog, by: dict[str, Any], stands: str
) -> None:
    log.commit(alter("SET_PROPERTY", "k", key="on_conflict", value="LAST_UPDATE_WINS"))
    base = log.head
    assert settled(brought(log, update(1, v="theirs", w="x", time=50), by=by, tick=1, a=base + 1)) == []
    action = "APPLIED" if stands == "ours" else "SKIPPED"
    assert settled(log.propose(update(1, v="ours", w="x", time=50), base=base)) == [f"UPDATE_UPDATE {action}"]
    assert value_of(log) == stands
    log.check_replay()


def test_loser_when_the_winner_is_superseded_by_one_who_did_not_know_it_then_stands_after_all(log: DecidedLog) -> None:
    assert settled(brought(log, update(1, v="b7", w="x"), tick=7)) == ["UPDATE_UPDATE SKIPPED"]
    # c has overwritten a's row and knows nothing of b's, which beats c's.
    outcome = brought(log, update(1, v="c2", w="x"), by=C, tick=2, a=5)
    assert settled(outcome) == ["UPDATE_UPDATE HANDLED"]
    assert value_of(log) == "b7"
    # An own write has seen them all.
    log.commit(update(1, v="a8", w="x"))
    assert settled(brought(log, update(1, v="b9", w="x"), tick=9, a=log.head + 1, c=3)) == []
    assert value_of(log) == "b9"
    log.check_replay()


@pytest.mark.parametrize(
    "alteration", [{"op": "RENAME_COLUMN", "name": "v", "new_name": "x"}, {"op": "DROP_COLUMN", "name": "v"}]
)
def test_row_when_a_column_was_renamed_or_dropped_before_the_log_was_a_node_then_may_lose_and_stand_again(
    alteration: dict[str, Any],
) -> None:
    log = DecidedLog()
    log.commit(keyed_table("k", KEYED, unique=[["w"]]))
    log.commit(insert(id=1, v="a2", w="p"), insert(id=2, v="a2", w="q"))
    log.commit(change("ALTER_TABLE", "k", alterations=[alteration]))
    log.commit(node("a", 2))
    kept = {"x": "a2"} if alteration["op"] == "RENAME_COLUMN" else {}
    before_all = {"node": "b", "priority": 1}
    assert settled(brought(log, update(1, w="p"), by=before_all, tick=7)) == ["UPDATE_UPDATE APPLIED"]
    # c, which comes after a, has overwritten b's row and knows nothing of a's.
    assert settled(brought(log, update(1, w="p"), by=C, tick=2, b=8)) == ["UPDATE_UPDATE HANDLED"]
    assert row_of(log) == {"id": 1, **kept, "w": "p"}
    assert settled(brought(log, insert(id=9, w="q"), by=before_all, tick=8)) == ["UNIQUE HELD"]
    assert settled(brought(log, delete_row(9), by=before_all, tick=9)) == ["UNIQUE RELEASED"]
    assert row_of(log, 2) == {"id": 2, **kept, "w": "q"}
    log.check_replay()


@pytest.mark.parametrize(
    "first", [append(data_file(10), table="t"), change("DROP_TABLE", "t"), create_table("new"), delete_row(9, "other")]
)
def test_rows_when_they_stand_again_by_a_changeset_that_begins_with_another_table_then_whoever_read_theirs_hears_of_it(
    log: DecidedLog, first: dict[str, Any]
) -> None:
    log.commit(create_table("t"), keyed_table("other", KEYED), insert("other", id=9))
    seen = log.head + 1
    log.commit(delete_row(1))
    assert settled(brought(log, insert("c", id=7, p=1), tick=1, a=seen)) == ["FOREIGN_KEY HELD"]
    base = log.head
    again = log.propose(first, insert(id=1, w="x"))
    assert [(each.object.table, str(each.action)) for each in again.resolutions] == [("c", "RELEASED")]
    read = {"isolation": "SERIALIZABLE", "reads": [read_table("c")]}
    log.conflict(f"TABLE_ROWS_CHANGED@{base + 1}", on=insert("k", id=8, w="y"), base=base, **read)
    log.commit(insert("c", id=8, p=None), base=base)
    log.check_replay()


def test_order_when_versions_come_in_any_then_the_same_row_stands() -> None:
    def after(*order: int) -> Any:
        log = DecidedLog()
        log.commit(keyed_table("k", KEYED))
        log.commit(node("a", 9))
        steps = [
            lambda: brought(log, insert(id=1, v="b1"), tick=1),
            lambda: brought(log, insert(id=1, v="c1"), by=C, tick=1),
            lambda: brought(log, insert(id=1, v="d1"), by={"node": "d", "priority": 1}, tick=1),
        ]
        for number in order:
            assert steps[number]().snapshot_id is not None
        brought(log, update(1, v="c2"), by=C, tick=2, d=2)
        log.check_replay()
        return value_of(log)

    assert {after(0, 1, 2), after(2, 1, 0), after(1, 2, 0), after(2, 0, 1)} == {"b1"}


def test_delete_when_made_at_the_same_time_as_an_update_then_it_stands(log: DecidedLog) -> None:
    log.commit(update(1, v="a5", w="x"))
    assert settled(brought(log, delete_row(1), by=C, tick=7, a=5)) == ["UPDATE_DELETE APPLIED"]
    assert row_of(log) is None
    assert settled(brought(log, update(1, v="b3", w="x"), tick=3, a=5)) == ["UPDATE_DELETE SKIPPED"]
    assert settled(brought(log, delete_row(1), tick=4, a=5)) == ["DELETE_DELETE APPLIED"]
    assert (
        settled(brought(log, insert(id=1, v="d1", w="x"), by={"node": "d", "priority": 0}, tick=1, a=7, b=5, c=8)) == []
    )
    assert value_of(log) == "d1"
    log.check_replay()


def test_own_delete_when_an_update_comes_that_did_not_know_it_then_the_row_stays_gone(log: DecidedLog) -> None:
    log.commit(delete_row(1))
    assert settled(brought(log, update(1, v="b3", w="x"), tick=3, a=5)) == ["UPDATE_DELETE SKIPPED"]
    assert settled(brought(log, insert(id=1, v="b4", w="x"), tick=4, a=6)) == []
    assert value_of(log) == "b4"
    log.check_replay()


def test_delete_when_there_is_nothing_then_is_noted(log: DecidedLog) -> None:
    assert settled(brought(log, delete_row(5), tick=3)) == []
    assert settled(brought(log, insert(id=5, v="c"), by=C, tick=3)) == ["UPDATE_DELETE SKIPPED"]
    assert settled(brought(log, delete_row(1), tick=4, a=5)) == []
    assert row_of(log) is None
    log.check_replay()


def test_insert_when_both_sites_made_the_row_then_one_stands_and_keeps_its_id(log: DecidedLog) -> None:
    outcome = brought(log, insert(id=1, v="z1"), by={"node": "z", "priority": 0}, tick=1)
    assert settled(outcome) == ["INSERT_INSERT APPLIED"]
    assert outcome.effects[0].row_id == outcome.effects[0].ended_row_id == 0
    log.check_replay()


def test_ids_when_rows_come_beside_files_and_rows_without_a_key_then_are_told_in_the_order_of_the_changes(
    log: DecidedLog,
) -> None:
    log.commit(create_table("t"))
    log.commit(create_table("n", "id int64"))
    outcome = brought(
        log,
        insert(id=2, v="b", w="x"),
        insert(id=3, v="held back", w="x"),
        change("APPEND", "t", files=[{"path": "f", "record_count": 5, "file_size_bytes": 1}]),
        insert("n", id=1),
        update(1, v="b", w="y"),
        insert(id=4, v="b"),
        tick=7,
        a=5,
    )
    assert [each.row_id for each in outcome.effects] == [1, None, None, 0, 0, 2]
    assert outcome.assigned.row_id_starts == (1, 0, 0, 2)
    log.check_replay()


def test_row_when_it_was_made_before_a_column_then_has_what_older_rows_have(log: DecidedLog) -> None:
    column = {"name": "n", "type": "int64", "nullable": False, "default": "5"}
    log.commit(change("ALTER_TABLE", "k", alterations=[{"op": "ADD_COLUMN", "column": column}]))
    log.commit(change("ALTER_TABLE", "k", alterations=[{"op": "SET_DEFAULT", "name": "n", "default": "6"}]))
    brought(log, update(1, v="b7", w="x"), insert(id=2, v="b", w="y"), tick=7, a=5)
    assert row_of(log, 1) == {"id": 1, "v": "b7", "w": "x", "n": 5}
    log.commit(insert(id=3))
    assert [row_of(log, key) for key in (2, 3)] == [
        {"id": 2, "v": "b", "w": "y", "n": 5},
        {"id": 3, "v": None, "w": None, "n": 6},
    ]
    log.check_replay()


def test_changes_when_a_link_brings_them_then_may_be_more_than_own_ones() -> None:
    log = log_of_node_a(changes_max=1)
    assert brought(log, insert(id=2), insert(id=3), tick=1).snapshot_id is not None
    assert log.propose(insert(id=4), insert(id=5)).invalid_code == "TOO_MANY_CHANGES"
    log.check_replay()


def test_snapshot_when_it_comes_again_then_nothing_of_it_is_done(log: DecidedLog) -> None:
    brought(log, update(1, v="b7", w="x"), tick=7, a=5)
    log.commit(update(1, v="a7", w="x"))
    outcome = brought(log, update(1, v="b7", w="x"), create_table("more"), tick=7, a=5, b=0)
    assert outcome.snapshot_id is not None
    assert [each.skipped for each in outcome.effects] == [True, True]
    own = brought(log, update(1, v="old", w="x"), by={"node": "a", "priority": 1}, tick=4)
    assert own.effects[0].skipped
    assert value_of(log) == "a7"
    log.check_replay()


def test_snapshot_when_it_was_made_with_more_than_is_here_then_invalid(log: DecidedLog) -> None:
    for knew in ({"b": 1}, {"c": 1}, {"a": 6}):
        outcome = brought(log, update(1, v="b7", w="x"), tick=7, **knew)
        assert outcome.invalid_code == "DIGEST_AHEAD", outcome.detail
    assert "this log has what lies before 5" in str(outcome.detail)


def test_change_of_a_definition_when_a_link_brings_it_then_is_made_once(log: DecidedLog) -> None:
    outcome = brought(log, keyed_table("n", KEYED), insert("n", id=1, v="b"), tick=2)
    assert outcome.snapshot_id is not None
    assert row_of(log, table="n") == {"id": 1, "v": "b", "w": None}
    plain = brought(log, create_table("p"), insert("p", id=1), tick=3)
    assert plain.effects[1].row_id == 0
    log.check_replay()


@pytest.mark.parametrize(
    "step",
    [
        {"op": "SET_PARTITION_BY", "partition_by": [{"column": "v", "transform": "identity"}]},
        {"op": "SET_NULLABLE", "name": "v", "nullable": False},
        {"op": "ADD_COLUMN", "column": {"name": "n", "type": "int64", "nullable": False}},
    ],
)
def test_alteration_when_rows_were_written_here_since_its_base_then_is_made_all_the_same(
    log: DecidedLog, step: dict[str, Any]
) -> None:
    base = log.head
    log.commit(insert(id=2, v="a5"))
    altering = alter(step["op"], "k", **{name: value for name, value in step.items() if name != "op"})
    log.refused("CONFLICT", altering, base=base)
    came = {"node": "b", "tick": 7, "digest": [{"node": "b", "tick": 0, "priority": 2}], "displaced": []}
    outcome = log.propose(altering, base=base, replicated=came)
    assert outcome.snapshot_id is not None, outcome.detail


def test_column_when_two_sites_widen_it_then_the_widest_stands_and_what_is_no_widening_is_refused() -> None:
    log = DecidedLog()
    log.commit(node("a", 1))
    log.commit(keyed_table("k", "id int64, n int8, d decimal(4,1)"))
    log.commit(alter("SET_TYPE", "k", name="n", type="int32"))

    def came(tick: int, name: str, type: str) -> Outcome:
        return brought(log, alter("SET_TYPE", "k", name=name, type=type), tick=tick)

    assert [came(tick, "n", type).verdict for tick, type in enumerate(("int32", "int16", "int64"), 1)] == [
        "COMMITTED"
    ] * 3
    assert [str(column.type) for column in log.state.tables[1].definition.columns][:2] == ["int64", "int64"]
    assert came(4, "d", "decimal(3,2)").invalid_code == "TYPE_NOT_WIDENED"
    log.refused("INVALID", alter("SET_TYPE", "k", name="n", type="int64"))
    log.check_replay()


def test_number_for_a_decimal_when_the_column_was_widened_here_since_then_the_row_comes_and_stays() -> None:
    """Of the wider column it stands for several values, of the one that it was written for it stood for one."""
    log = DecidedLog()
    log.commit(node("a", 1))
    log.commit(keyed_table("k", "id int64, d decimal(18,2)"))
    log.commit(insert(id=1, d=12345678901234.56))
    log.commit(alter("SET_TYPE", "k", name="d", type="decimal(38,10)"))
    assert "has more digits than a float holds" in log.refused("INVALID", insert(id=3, d=12345678901234.56)).detail
    came = brought(log, insert(id=2, d=12345678901234.56), update(1, d="1"), tick=2)
    assert came.snapshot_id is not None, came.detail
    log.check_replay()


def test_table_when_it_is_left_out_here_and_another_site_says_otherwise_then_stays_left_out(log: DecidedLog) -> None:
    log.commit(alter("SET_PROPERTY", "k", key="replicated", value="false"))
    assert brought(log, alter("SET_PROPERTY", "k", key="replicated", value="true"), tick=2).snapshot_id is not None
    assert log.state.tables[1].definition.properties["replicated"] == "false"
    log.check_replay()


def test_row_when_what_it_would_displace_has_left_the_window_then_refused() -> None:
    log = DecidedLog(window_snapshots=1)
    log.commit(node("a", 1))
    log.commit(keyed_table("k", KEYED))
    log.commit(insert(id=1, v="a3"))
    log.commit(insert(id=2))
    log.commit(insert(id=3))
    outcome = brought(log, update(1, v="z"), by={"node": "z", "priority": 0}, tick=1)
    assert "whose values have left the window" in str(outcome.detail)
    assert brought(log, update(1, v="b"), tick=1).effects[0].skipped
    log.check_replay()


def test_row_when_the_link_says_what_it_was_then_is_kept_and_stands_again() -> None:
    log = DecidedLog(window_snapshots=1)
    log.commit(node("a", 1))
    log.commit(keyed_table("k", KEYED))
    log.commit(insert(id=1, v="a3"))
    log.commit(insert(id=2))
    log.commit(insert(id=3))
    [table_id] = log.state.tables
    read: list[tuple[int, Row]] = [
        (table_id + 1, {"other": 1}),
        (table_id, {"id": 2}),
        (table_id, {"id": 1, "v": "a3"}),
    ]
    z = {"node": "z", "priority": 0}
    outcome = brought(log, update(1, v="z"), by=z, tick=1, displaced=read)
    [told] = outcome.resolutions
    assert told.committed_row == {"id": 1, "v": "a3", "w": None}
    assert value_of(log) == "z"
    # Whoever knew z's, and not ours, has ours stand beside its own.
    assert settled(brought(log, update(1, v="b"), tick=1, z=2)) == ["UPDATE_UPDATE HANDLED"]
    assert value_of(log) == "a3"
    log.check_replay()


def test_row_when_the_link_says_what_it_was_before_it_changed_then_refused_until_that_is_said_anew() -> None:
    log = DecidedLog(window_snapshots=1)
    log.commit(node("a", 1))
    log.commit(keyed_table("k", KEYED))
    base = log.commit(insert(id=1, v="a3"))
    log.commit(update(1, v="a4"))
    log.commit(insert(id=2))
    log.commit(insert(id=3))
    [table_id] = log.state.tables
    z = {"node": "z", "priority": 0}
    late = brought(log, update(1, v="z"), by=z, tick=1, base=base, displaced=[(table_id, {"id": 1, "v": "a3"})])
    assert [each.committed_snapshot_id for each in late.conflicts] == [base + 1]
    [told] = brought(log, update(1, v="z"), by=z, tick=1, displaced=[(table_id, {"id": 1, "v": "a4"})]).resolutions
    assert told.committed_row == {"id": 1, "v": "a4", "w": None}
    log.check_replay()


def test_update_when_it_gives_another_key_then_invalid(log: DecidedLog) -> None:
    moved = {**update(1, v="b", w="x"), "row": {"id": 2, "v": "b", "w": "x"}}
    assert brought(log, moved, tick=2).invalid_code == "VALUE_INVALID"


@pytest.mark.parametrize(
    ("replicated", "code"),
    [
        ({"node": "b", "tick": 1, "digest": []}, "DIGEST_INVALID"),
        ({"node": "b", "tick": 1, "digest": [{"node": "b", "tick": 0, "priority": 0}] * 2}, "DIGEST_INVALID"),
        ({"node": "b", "tick": -1, "digest": [{"node": "b", "tick": 0, "priority": 0}]}, "DIGEST_INVALID"),
        ({"node": "b", "tick": 2**63 - 1, "digest": [{"node": "b", "tick": 0, "priority": 0}]}, "DIGEST_INVALID"),
        ({"node": "b", "tick": 1, "digest": [{"node": "b", "tick": -1, "priority": 0}]}, "DIGEST_INVALID"),
        ({"node": "b", "tick": 1, "digest": [{"node": "b", "tick": 0, "priority": -1}]}, "DIGEST_INVALID"),
        ({"node": "b", "tick": 1, "digest": [{"node": "b", "tick": 0, "priority": 0}]}, "ORIGIN_INVALID"),
        ({"node": "a", "tick": 5, "digest": [{"node": "a", "tick": 5, "priority": 1}]}, "DIGEST_AHEAD"),
        ({"node": "b\0", "tick": 1, "digest": [{"node": "b\0", "tick": 0, "priority": 0}]}, "TEXT_UNSTORABLE"),
        ({"node": "", "tick": 1, "digest": [{"node": "", "tick": 0, "priority": 0}]}, "NAME_EMPTY"),
        ({"node": "b" * 256, "tick": 1, "digest": [{"node": "b" * 256, "tick": 0, "priority": 0}]}, "NAME_TOO_LONG"),
    ],
)
def test_replicated_when_it_cannot_be_then_a_code_says_so(
    log: DecidedLog, replicated: dict[str, Any], code: str
) -> None:
    assert log.propose(update(1, v="b", w="x"), replicated=replicated).invalid_code == code


def test_stamp_when_its_microseconds_have_more_than_64_bits_then_invalid(log: DecidedLog) -> None:
    last_ms = (2**63 - 1) // 1000
    assert brought(log, update(1, v="b", w="x"), tick=2, stamp=last_ms + 1).invalid_code == "TIME_OUT_OF_RANGE"
    settled(brought(log, update(1, v="b", w="x"), tick=2, stamp=last_ms))


def test_replicated_when_new_names_must_be_shorter_than_the_nodes_then_comes_as_before(log: DecidedLog) -> None:
    log.commit({"kind": "CONFIGURE", "settings": {"name_length_max": 1}})
    came = {"node": "bbb", "tick": 1, "digest": [{"node": "bbb", "tick": 0, "priority": 0}]}
    outcome = log.propose(create_table("t", "a int64"), replicated=came)
    assert outcome.snapshot_id is not None, outcome.detail


def test_replicated_when_the_log_is_no_node_then_invalid() -> None:
    log = DecidedLog()
    log.commit(keyed_table("k", KEYED))
    assert brought(log, insert(id=1), tick=1).invalid_code == "NODE_UNNAMED"


def test_node_when_it_is_set_then_for_ever(log: DecidedLog) -> None:
    log.commit(node("a", 1))
    for name, priority in (("b", 1), ("a", 2)):
        assert log.propose(node(name, priority)).invalid_code == "NODE_FIXED"
    assert log.state.node == ("a", 1)
    log.check_replay()


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ({"node_name": 1}, "SETTING_VALUE_INVALID"),
        ({"node_name": ""}, "NAME_EMPTY"),
        ({"node_priority": 1}, "SETTING_VALUE_INVALID"),
        ({"node_name": "a", "node_priority": -1}, "SETTING_VALUE_INVALID"),
        ({"node_name": "a", "node_priority": True}, "SETTING_VALUE_INVALID"),
        ({"node_name": "a", "files_max": -1}, "SETTING_VALUE_INVALID"),
    ],
)
def test_node_when_it_cannot_be_then_a_code_says_so(settings: dict[str, Any], code: str) -> None:
    log = DecidedLog()
    assert log.propose({"kind": "CONFIGURE", "settings": settings}).invalid_code == code


def test_node_when_set_beside_other_settings_then_both() -> None:
    log = DecidedLog()
    log.commit({"kind": "CONFIGURE", "settings": {"node_name": "a", "files_max": 7}})
    assert (log.state.node, log.state.settings.files_max) == (("a", 0), 7)
    log.check_replay()


def test_several_settings_of_a_log_then_the_later_see_the_earlier() -> None:
    log = DecidedLog()
    assert log.refused("INVALID", node("a", 1), node("b", 1)).invalid_code == "NODE_FIXED"
    short = {"kind": "CONFIGURE", "settings": {"name_length_max": 1}}
    assert log.refused("INVALID", short, node("long", 1)).invalid_code == "NAME_TOO_LONG"
    log.commit(node("long", 1), node("long", 1), short)
    log.check_replay()


def test_identity_when_no_text_here_may_hold_it_then_invalid(log: DecidedLog) -> None:
    row = insert(id=7, v="b", w="y")
    assert brought(log, {**row, "identity": "7\x1fb\x1f1"}, tick=1).snapshot_id is not None
    log.check_replay()
    row = insert(id=8, v="b", w="z")
    assert brought(log, {**row, "identity": "8\x00"}, tick=2).invalid_code == "TEXT_UNSTORABLE"
    for unstorable in ("8\x00", "\ud800"):
        assert log.refused("INVALID", {**row, "identity": unstorable}).invalid_code == "TEXT_UNSTORABLE"


def test_rows_when_many_that_have_left_the_window_are_displaced_at_once_then_each_is_looked_up_once() -> None:
    def cost_s(count: int) -> float:
        log = DecidedLog(window_snapshots=1)
        log.commit(node("a", 1))
        log.commit(keyed_table("k", KEYED))
        log.commit(*[insert(id=each, v="a") for each in range(count)])
        log.commit(create_table("one"))
        log.commit(create_table("two"))
        [table_id] = [table.table_id for table in log.state.tables.values() if table.name == "k"]
        read = [(table_id, {"id": each, "v": "a", "w": None}) for each in range(count)]
        changes = [update(each, v="z") for each in range(count)]
        begun_s = time.process_time()
        assert len(settled(brought(log, *changes, by={"node": "z", "priority": 0}, tick=1, displaced=read))) == count
        return time.process_time() - begun_s

    assert min(cost_s(800) for _ in range(3)) < 25 * min(cost_s(100) for _ in range(3))
