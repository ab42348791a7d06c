"""Row changes where sites and handlers meet, FLUSH, and keys that move: each refusal, each way out (rules.md 5, 12.15-18)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from deciding import (
    START_MS,
    DecidedLog,
    append,
    change,
    create_table,
    data_file,
    delete_row,
    insert,
    keyed_table,
    make_id,
    update,
)

from commitlog.domain.deciding.decide import decide
from commitlog.domain.model.records.proposal_json import proposal_from_json
from commitlog.domain.state.replaying import replay

ORIGIN = {"node": "n", "tick": 1, "stamp_ms": 5, "priority": 1}


@pytest.fixture
def log() -> Iterator[DecidedLog]:
    """Table k (unique v) with rows 1 and 2, row ids 0 and 1, and table t; head 2."""
    log = made()
    yield log
    log.check_replay()


def made(policy: str | None = None, handler: Callable[..., Any] | None = None) -> DecidedLog:
    log = DecidedLog(handlers={} if handler is None else {"h": handler})
    log.commit(keyed_table(unique=[["v"]], on_conflict=policy), create_table())
    log.commit(insert(id=1, v="a"), insert(id=2, v="b"))
    return log


def moved(key: int, to: int, **row: Any) -> dict[str, Any]:
    origin = row.pop("origin", None)
    return change("UPDATE_ROW", "k", key={"id": key}, row={"id": to, **row}, origin=origin)


def images(log: DecidedLog) -> dict[str, Any]:
    rows = log.state.tables[1].rows
    assert rows is not None
    return {key: (version.image or {}).get("v") for key, version in rows.live.items()}


def beyond_the_window(log: DecidedLog) -> None:
    log.commit({"kind": "CONFIGURE", "settings": {"window_snapshots": 1}})
    log.commit(append())
    log.commit(append())


# --- keys -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        (update(None, v="x"), "key column id of table k cannot be NULL"),
        (delete_row("1"), "is text, not a number"),
        (change("DELETE_ROW", "k", key={"v": "a"}), "gives exactly its key columns: id"),
        (change("DELETE_ROW", "k", key={"id": 1, "ID": 1}), "gives exactly its key columns: id"),
        (moved(9, 10), "has no row 9"),
    ],
)
def test_a_key_that_is_none_then_invalid_and_the_text_says_why(log: DecidedLog, request_: dict, why: str) -> None:
    assert why in str(log.refused("INVALID", request_).detail)


@pytest.mark.parametrize("request_", [update(1234567890123456.78, v="x"), delete_row(1234567890123456.78)])
def test_a_key_that_is_a_number_of_more_digits_than_a_float_holds_then_invalid(request_: dict[str, Any]) -> None:
    log = DecidedLog()
    log.commit(keyed_table("k", "id decimal(18,2), v varchar"))
    log.commit(insert(id="1234567890123456.80", v="a"))
    assert "has more digits than a float holds: give it as text" in log.refused("INVALID", request_).detail
    read = {"kind": "ROWS", "schema": "main", "table": "k", "keys": [{"id": 1234567890123456.78}]}
    refused = log.refused("INVALID", insert(id="1", v="x"), isolation="SERIALIZABLE", reads=[read])
    assert "has more digits than a float holds" in refused.detail


@pytest.mark.parametrize(
    ("kind", "first", "same"),
    [
        ("blob", "a\\xff", "\\x61\\xFF"),
        ("timestamp", "2024-01-01 00:00:00.5", "2024-01-01T00:00:00.500000000"),
        ("timestamptz", "2024-01-01 00:00:00Z", "2024-01-01 01:00:00+01"),
        ("time", "01:00", "01:00:00.000"),
    ],
)
def test_a_key_unique_value_or_reference_written_in_two_ways_then_it_is_one(kind: str, first: str, same: str) -> None:
    log = DecidedLog()
    log.commit(keyed_table("k", f"id {kind}, u {kind}", unique=[["u"]]))
    refers = [{"columns": ["id"], "ref_schema": "main", "ref_table": "k", "ref_columns": ["id"]}]
    log.commit(keyed_table("c", f"id {kind}, v {kind}", foreign_keys=refers))
    log.commit(insert(id=first, u=first))
    assert "already has a row" in str(log.refused("INVALID", insert(id=same)).detail)
    other = {"blob": "z", "time": "02:00"}.get(kind, "2025-01-01 00:00:00Z" if kind == "timestamptz" else "2025-01-01")
    assert "UNIQUE" in str(log.refused("INVALID", insert(id=other, u=same)).detail)
    log.commit(insert("c", id=same))


@pytest.mark.parametrize(
    ("kind", "good", "bad", "digits"),
    [
        ("timestamp_s", "2024-01-01 00:00:01.000", "2024-01-01 00:00:00.4", 0),
        ("timestamp_ms", "2024-01-01 00:00:00.123000", "2024-01-01 00:00:00.1234", 3),
        ("timestamp", "2024-01-01 00:00:00.123456000", "2024-01-01 00:00:00.1234561", 6),
        ("timestamptz", "2024-01-01 00:00:00.123456Z", "2024-01-01 00:00:00.0000001Z", 6),
        ("time", "12:00:00.123456", "12:00:00.1234561", 6),
        ("timestamp_ns", "2024-01-01 00:00:00.123456789", None, 9),
    ],
)
def test_a_time_finer_than_its_column_then_invalid(kind: str, good: str, bad: str | None, digits: int) -> None:
    log = DecidedLog()
    log.commit(keyed_table("k", f"id {kind}, v varchar"))
    log.commit(insert(id=good))
    if bad is not None:
        told = str(log.refused("INVALID", insert(id=bad)).detail)
        assert f"more than the {digits} digits of a second that " in told


def test_a_replicated_update_of_a_key_that_is_not_there_yet_then_as_an_update_before_its_insert(
    log: DecidedLog,
) -> None:
    log.conflict("INSERT_UPDATE@2", on=moved(9, 10, origin=ORIGIN))
    keeping = made("KEEP_EXISTING")
    outcome = keeping.propose(moved(9, 10, origin=ORIGIN))
    assert [(r.kind, r.action) for r in outcome.resolutions] == [("INSERT_UPDATE", "SKIPPED")]
    keeping.check_replay()


@pytest.mark.parametrize(
    ("origin", "why"),
    [
        ({"node": ""}, "node name is empty"),
        ({"tick": -1}, "tick or priority is negative"),
        ({"priority": -1}, "tick or priority is negative"),
        ({"stamp_ms": 10**17}, "beyond PostgreSQL's times"),
        ({"node": "a\nb"}, "holds the character U+000A"),
    ],
)
def test_an_origin_that_is_none_then_invalid(log: DecidedLog, origin: dict, why: str) -> None:
    assert why in str(log.refused("INVALID", insert(id=5, origin={**ORIGIN, **origin})).detail)


# --- beyond the window ------------------------------------------------------------------------------------------------


def test_rows_unchanged_since_a_base_beyond_the_window_then_judged_as_unraced(log: DecidedLog) -> None:
    beyond_the_window(log)
    log.refused("INVALID", insert(id=1, v="x"), base=2)
    log.commit(update(1, v="x"), delete_row(2), insert(id=3, v="c"), base=2)
    assert images(log) == {"1": "x", "3": "c"}


def test_a_row_deleted_when_its_change_leaves_the_window_then_nothing_is_kept_of_it(log: DecidedLog) -> None:
    log.commit(delete_row(1))
    beyond_the_window(log)
    rows = log.state.tables[1].rows
    assert rows is not None
    assert (rows.history, list(rows.live)) == ({}, ["2"])
    assert rows.live["2"].image is None


# --- flush ------------------------------------------------------------------------------------------------------------


def flush(*row_ids: int, table: str = "k", **fields: Any) -> dict[str, Any]:
    return change("FLUSH", table, files=[{**data_file(len(row_ids), **fields), "row_ids": list(row_ids)}])


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        (flush(0, table="t"), "has no primary key: it takes no FLUSH"),
        (change("FLUSH", "k", files=[]), "nothing to commit"),
        (flush(0, record_count=2), "another number of row ids than it has rows"),
        (flush(), "holds no rows: nothing to flush"),
        (flush(-1), "row id -1 is negative"),
        (flush(0, 0), "is flushed twice"),
        (flush(7), "row id 7 of table k is no row outside of files"),
        (flush(0, partition_values=["a"]), "has 1 partition values, table k has 0 partition keys"),
    ],
)
def test_a_flush_that_cannot_be_then_invalid_and_the_text_says_why(log: DecidedLog, request_: dict, why: str) -> None:
    assert why in str(log.refused("INVALID", request_).detail)


def test_a_flush_from_beyond_the_window_then_a_conflict_if_any_row_changed(log: DecidedLog) -> None:
    log.commit(update(1, v="x"))
    beyond_the_window(log)
    log.conflict("TABLE_ROWS_CHANGED@3", on=flush(0), base=2)
    log.conflict("TABLE_ROWS_CHANGED@3", on=flush(99), base=2)
    log.commit(flush(0, 1), base=3)


# --- handlers ---------------------------------------------------------------------------------------------------------


def test_a_handler_that_answers_with_a_key_of_neither_side_then_conflict_with_that_text() -> None:
    log = made("handler:h", lambda kind, committed, proposed: {"id": 77, "v": "z"})
    log.commit(update(1, v="x"))
    outcome = log.conflict("UPDATE_UPDATE@3", on=update(1, v="y"), base=2)
    assert "the handler h answered with another key" in outcome.conflicts[0].detail
    log.check_replay()


def test_a_handler_of_a_raced_delete_then_the_row_goes_or_stays_as_it_says() -> None:
    log = made("handler:h", lambda kind, committed, proposed: committed if committed["v"] == "keep" else proposed)
    log.commit(update(1, v="keep"), update(2, v="drop"))
    outcome = log.propose(delete_row(1), delete_row(2), base=2)
    assert [(r.kind, r.action) for r in outcome.resolutions] == [("UPDATE_DELETE", "HANDLED")] * 2
    assert images(log) == {"1": "keep"}
    log.check_replay()


def test_a_handler_of_two_inserts_then_its_image_takes_the_place_of_the_committed_row() -> None:
    log = made("handler:h", lambda kind, committed, proposed: {**proposed, "v": committed["v"] + proposed["v"]})
    log.commit(insert(id=3, v="c"))
    log.commit(insert(id=3, v="d"), base=2)
    assert images(log)["3"] == "cd"
    log.check_replay()


def test_a_handler_of_an_insert_that_took_a_raced_unique_value_then_it_chooses_the_key() -> None:
    for key in (3, 4):
        log = made("handler:h", lambda kind, committed, proposed, key=key: {**proposed, "id": key})
        log.commit(insert(id=3, v="c"))
        log.commit(insert(id=4, v="c"), base=2)
        assert images(log) == {"1": "a", "2": "b", str(key): "c"}
        log.check_replay()


@pytest.mark.parametrize(
    ("later", "effect", "left"),
    [
        (update(3, v="d"), (2, 2), {"3": "d"}),
        (moved(3, 5, v="d"), (2, 3), {"5": "d"}),
        (delete_row(3), (2, None), {}),
    ],
)
def test_a_row_that_a_handler_kept_and_a_later_change_names_then_the_snapshot_changes_it_once(
    later: dict[str, Any], effect: tuple[int, int | None], left: dict[str, str]
) -> None:
    log = made("handler:h", lambda kind, committed, proposed: committed)
    log.commit(insert(id=3, v="c"))
    outcome = log.propose(update(1, v="z"), insert(id=4, v="c"), later, base=2)
    assert [(each.ended_row_id, each.row_id) for each in outcome.effects] == [(0, 0), (None, None), effect]
    assert images(log) == {"1": "z", "2": "b", **left}
    log.check_replay()


def test_a_handler_whose_answer_cannot_stand_beside_the_changesets_own_row_then_that_row_still_counts() -> None:
    log = made("handler:h", lambda kind, committed, proposed: proposed)
    log.commit(insert(id=3, v="c"), insert(id=4, v="d"))
    log.conflict("MULTIPLE_UNIQUE@3", "MULTIPLE_UNIQUE@3", on=insert(id=3, v="d"), base=2)
    log.refused("INVALID", insert(id=3, v="d"), moved(1, 4, v="d"), base=2)
    log.check_replay()


@pytest.mark.parametrize("leaves", [delete_row(1), update(1, v="c")])
@pytest.mark.parametrize(("later", "kind"), [(insert(id=3, v="a"), "INSERT_INSERT"), (update(2, v="a"), "UNIQUE")])
def test_a_row_that_a_handler_kept_with_a_unique_value_that_it_was_to_give_up_then_who_takes_that_is_a_conflict(
    leaves: dict[str, Any], later: dict[str, Any], kind: str
) -> None:
    log = made("handler:h", lambda kind, committed, proposed: committed)
    log.commit(change("ALTER_TABLE", "k", alterations=[{"op": "ADD_COLUMN", "column": {"name": "w", "type": "int64"}}]))
    base = log.head
    changed = log.commit(update(1, v="a", w=1))
    log.conflict(f"{kind}@{changed}", on=[leaves, later], base=base)
    log.refused("INVALID", later, update(1, v="a"), base=changed)
    log.check_replay()


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ({"v": "a\0"}, "a value of the answer holds the character U+0000"),
        ({"v": "\ud800"}, "a value of the answer holds the character U+D800"),
        ({"f": float("nan")}, "NaN is beyond a 64-bit float"),
        ({"j": [2**64]}, "is beyond a 64-bit integer"),
        ({"j": {1: 2}}, "expected text, not 1"),
        ({"j": (1, 2)}, "expected null, true, false, a number or text"),
    ],
)
def test_a_handler_whose_answer_no_proposal_could_hold_then_conflict_with_that_text(
    answer: dict[str, Any], why: str
) -> None:
    log = DecidedLog(handlers={"h": lambda kind, committed, proposed: {**proposed, **answer}})
    log.commit(keyed_table("k", "id int64, v varchar, f float64, j json", on_conflict="handler:h"))
    base = log.commit(insert(id=1))
    log.commit(update(1, v="x"))
    outcome = log.conflict(f"UPDATE_UPDATE@{base + 1}", on=update(1, v="y"), base=base)
    assert why in outcome.conflicts[0].detail
    log.check_replay()


def test_a_handler_that_fails_with_what_no_catalog_can_hold_then_conflict_with_its_text_escaped() -> None:
    def fail(*_: Any) -> Any:
        raise ValueError("\0\ud800" + "x" * 1000)

    log = made("handler:h", fail)
    log.commit(update(1, v="c"))
    [conflict] = log.conflict("UPDATE_UPDATE@3", on=update(1, v="d"), base=2).conflicts
    assert "the handler h failed: \\x00\\ud800xxx" in conflict.detail
    assert len(conflict.detail) < 600


def test_a_handler_that_ends_the_process_then_conflict_and_the_log_goes_on() -> None:
    log = made("handler:h", lambda kind, committed, proposed: sys.exit("enough"))
    log.commit(update(1, v="c"))
    outcome = log.refused("CONFLICT", update(1, v="d"), base=2)
    assert "the handler h failed: enough" in outcome.conflicts[0].detail


def test_a_handler_that_changes_what_it_is_given_then_neither_the_log_nor_what_is_told_changes() -> None:
    def careless(_: str, committed: dict[str, Any], proposed: dict[str, Any]) -> dict[str, Any]:
        committed["v"] += proposed.pop("v")
        return committed

    log = made("handler:h", careless)
    log.commit(update(1, v="c"))
    [told] = log.propose(update(1, v="d"), base=2).resolutions
    assert (told.committed_row, told.proposed_row) == ({"id": 1, "v": "c"}, {"id": 1, "v": "d"})
    assert images(log)["1"] == "cd"
    log.check_replay()


def test_a_handler_whose_answer_would_end_two_rows_then_conflict_with_that_text() -> None:
    log = made("handler:h", lambda kind, committed, proposed: proposed)
    log.commit(insert(id=3, v="c"))
    outcome = log.conflict("UPDATE_KEY@3", on=moved(1, 3, v="d"), base=2)
    assert "the handler's answer would end two rows" in outcome.conflicts[0].detail
    log.check_replay()


def test_an_outcome_that_ends_a_row_which_is_not_there_then_replay_stops(log: DecidedLog) -> None:
    proposal = {"proposal_id": make_id(9), "writer_id": "w1", "base_snapshot_id": 2, "changes": [delete_row(1)]}
    outcome = decide(log.state, proposal_from_json(proposal), now_ms=START_MS + 9)
    forged = outcome.replace(effects=(outcome.effects[0].replace(ended_row_id=99),))
    fresh = made()
    with pytest.raises(AssertionError, match="row 99 of table 1 is not where the outcome says"):
        replay(fresh.state, forged)


CONFIGURED = {"kind": "CONFIGURE", "settings": {"files_max": None}}


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (insert(id=1, v=5), "column v of table k: the value 5 is no text"),
        (insert(id=1, v=[True, None]), "column v of table k: the value [true, null] is no text"),
        (insert(id="1", v="x"), "column id of table k: the value '1' is text, not a number"),
        (insert(id=1, v="x" * 99, n={"a": 1}), """column n of table k: the value {"a": 1} is no number"""),
        (update(True, v="x"), "key column id of table k: the value true is no integer"),
        (CONFIGURED, "files_max is a whole number from 1 to 9007199254740992, not null"),
    ],
)  # fmt: skip
def test_a_value_of_another_type_then_the_text_shows_it_as_it_was_written_and_where(
    change: dict[str, Any], text: str
) -> None:
    log = DecidedLog()
    log.commit(keyed_table("k", "id int64, v varchar, n float64"))
    assert log.refused("INVALID", change).detail == text
