"""Foreign keys of keyed tables: parents and children, raced or not, also beyond the window (rules.md 12.16, 12.18, 12.23)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from deciding import DecidedLog, append, change, create_table, delete_row, insert, keyed_table, update


def refers(parent: str = "p", *, to: str = "id") -> list[dict[str, Any]]:
    return [{"columns": ["ref"], "ref_schema": "main", "ref_table": parent, "ref_columns": [to]}]


@pytest.fixture
def log() -> Iterator[DecidedLog]:
    """p (unique code), c refers to p.id, d to p.code; parents 1 and 2 of codes 10 and 20; head 2."""
    log = DecidedLog()
    log.commit(
        keyed_table("p", "id int64, code int64, v varchar", unique=[["code"]]),
        keyed_table("c", "id int64, ref int64", foreign_keys=refers()),
        keyed_table("d", "id int64, ref int64", foreign_keys=refers(to="code")),
        create_table("other"),
    )
    log.commit(insert("p", id=1, code=10), insert("p", id=2, code=20))
    yield log
    log.check_replay()


def beyond_the_window(log: DecidedLog) -> None:
    log.commit({"kind": "CONFIGURE", "settings": {"window_snapshots": 1}})
    log.commit(append(table="other"))
    log.commit(append(table="other"))


def test_a_reference_to_a_unique_value_then_judged_by_it(log: DecidedLog) -> None:
    log.refused("INVALID", insert("d", id=1, ref=30))
    log.commit(insert("d", id=1, ref=10), insert("d", id=2, ref=None))
    log.refused("INVALID", delete_row(1, "p"))
    log.refused("INVALID", update(1, "p", code=11))
    log.commit(update(1, "p", code=10, v="x"))
    log.commit(update(2, "p", code=21))
    log.conflict("FOREIGN_KEY@5", on=insert("d", id=3, ref=20), base=2)
    log.commit(delete_row(2, "p"))


def test_an_update_that_is_refused_then_what_refers_to_the_row_it_was_to_end_is_met_too(log: DecidedLog) -> None:
    base = log.head
    changed, child = log.commit(update(1, "p", code=10, v="x")), log.commit(insert("d", id=1, ref=10))
    log.conflict(f"FOREIGN_KEY@{child}", f"UPDATE_UPDATE@{changed}", on=update(1, "p", code=11), base=base)
    log.conflict(f"UPDATE_UPDATE@{changed}", on=update(1, "p", code=10, v="y"), base=base)
    log.refused("INVALID", update(1, "p", code=11), base=child)
    other = log.commit(insert("d", id=2, ref=20))
    taken = log.commit(insert("p", id=3, code=30))
    log.conflict(f"FOREIGN_KEY@{other}", f"UNIQUE@{taken}", on=update(2, "p", code=30), base=child)
    moved = {"kind": "UPDATE_ROW", "schema": "main", "table": "p", "key": {"id": 1}, "row": {"id": 9, "code": 9}}
    log.conflict(f"FOREIGN_KEY@{child}", f"UPDATE_KEY@{changed}", on=moved, base=base)


@pytest.mark.parametrize(
    "step",
    [
        {"op": "DROP_COLUMN", "name": "v"},
        {"op": "RENAME_COLUMN", "name": "v", "new_name": "w"},
        {"op": "ADD_COLUMN", "column": {"name": "w", "type": "int64", "nullable": False}},
        {"op": "SET_NULLABLE", "name": "code", "nullable": False},
    ],
)
def test_a_parent_whose_table_was_altered_since_then_its_child_is_not_blamed_for_its_absence(
    log: DecidedLog, step: dict[str, Any]
) -> None:
    base = log.head
    altered = log.commit(change("ALTER_TABLE", "p", alterations=[step]))
    row = {"id": 7, "v": "x", "code": None if step["op"] == "SET_NULLABLE" else 70}
    log.conflict(f"TABLE_ALTERED@{altered}", on=[insert("p", **row), insert("c", id=1, ref=7)], base=base)


def test_a_child_whose_table_was_altered_since_then_the_parent_that_it_leaves_may_go(log: DecidedLog) -> None:
    log.commit(
        change("ALTER_TABLE", "c", alterations=[{"op": "ADD_COLUMN", "column": {"name": "v", "type": "varchar"}}])
    )
    base = log.commit(insert("c", id=1, ref=1, v="x"))
    altered = log.commit(change("ALTER_TABLE", "c", alterations=[{"op": "DROP_COLUMN", "name": "v"}]))
    leaves = [update(1, "c", ref=None, v="y"), delete_row(1, "p")]
    log.conflict(f"TABLE_ALTERED@{altered}", on=leaves, base=base)


def kept(*args: Any) -> Any:
    return args[1]


@pytest.mark.parametrize("policy", ["KEEP_EXISTING", "handler:kept"])
@pytest.mark.parametrize("leaves", [delete_row(1, "k"), update(1, "k", ref=2)])
def test_a_child_that_was_to_leave_its_parent_and_stays_as_it_is_then_the_end_of_the_parent_is_a_conflict(
    policy: str, leaves: dict[str, Any]
) -> None:
    log = DecidedLog(handlers={"kept": kept})
    log.commit(
        keyed_table("p"), keyed_table("k", "id int64, ref int64, v varchar", foreign_keys=refers(), on_conflict=policy)
    )
    base = log.commit(insert("p", id=1), insert("p", id=2), insert("k", id=1, ref=1))
    changed = log.commit(update(1, "k", ref=1, v="x"))
    log.conflict(f"FOREIGN_KEY@{changed}", on=[leaves, delete_row(1, "p")], base=base)
    log.refused("INVALID", delete_row(1, "p"), base=base)
    log.check_replay()


@pytest.mark.parametrize("policy", ["KEEP_EXISTING", "handler:kept"])
def test_a_parent_that_was_to_come_and_does_not_then_its_child_is_a_conflict(policy: str) -> None:
    log = DecidedLog(handlers={"kept": kept})
    base = log.commit(
        keyed_table("p", "id int64, code int64", unique=[["code"]], on_conflict=policy),
        keyed_table("c", "id int64, ref int64", foreign_keys=refers()),
        keyed_table("d", "id int64, ref int64", foreign_keys=refers(to="code")),
    )
    came = log.commit(insert("p", id=1, code=10))
    log.conflict(f"FOREIGN_KEY@{came}", on=[insert("p", id=2, code=10), insert("c", id=1, ref=2)], base=base)
    log.conflict(f"FOREIGN_KEY@{came}", on=[insert("p", id=1, code=11), insert("d", id=1, ref=11)], base=base)
    log.commit(insert("p", id=2, code=10), insert("d", id=1, ref=10), base=base)
    log.check_replay()


def test_a_row_that_would_give_way_and_is_still_referred_to_then_the_insert_that_came_later_is_a_conflict() -> None:
    log = DecidedLog()
    log.commit(
        keyed_table("p", "id int64, code int64", unique=[["code"]], on_conflict="LAST_UPDATE_WINS"),
        keyed_table("c", "id int64, ref int64", foreign_keys=refers()),
    )
    base = log.commit(insert("p", id=1, code=10), insert("c", id=1, ref=1))
    changed = log.commit(update(1, "p", code=11))
    [conflict] = log.conflict(f"INSERT_INSERT@{changed}", on=insert("p", id=2, code=11), base=base).conflicts
    assert "LAST_UPDATE_WINS cannot settle it: row 1 of table c still refers to row 1 of table p" in conflict.detail
    log.check_replay()


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (None, "row 1 of table c still refers to row 1 of table p"),
        ({"id": 1, "code": 20}, "row 2 of table p already has the same UNIQUE code"),
        ({"id": 1, "code": 11, "ref": 9}, "no row 9 in table p"),
    ],
)
def test_a_handler_whose_answer_others_do_not_let_stand_then_conflict_with_that_text(
    answer: dict[str, Any] | None, why: str
) -> None:
    log = DecidedLog(handlers={"h": lambda kind, committed, proposed: answer})
    log.commit(
        keyed_table(
            "p", "id int64, code int64, ref int64", unique=[["code"]], foreign_keys=refers(), on_conflict="handler:h"
        ),
        keyed_table("c", "id int64, ref int64", foreign_keys=refers()),
    )
    base = log.commit(insert("p", id=1, code=10), insert("p", id=2, code=20), insert("c", id=1, ref=1))
    changed = log.commit(update(1, "p", code=11))
    [conflict] = log.conflict(f"UPDATE_UPDATE@{changed}", on=update(1, "p", code=12), base=base).conflicts
    assert f"handler:h cannot settle it: {why}" in conflict.detail
    log.refused("INVALID", update(1, "p", code=20), base=base)
    log.check_replay()


def test_a_parent_whose_unique_value_is_null_then_nobody_can_refer_to_it(log: DecidedLog) -> None:
    log.commit(insert("p", id=3, code=None))
    log.commit(delete_row(3, "p"))


def test_two_children_of_one_parent_then_each_counts(log: DecidedLog) -> None:
    log.commit(insert("c", id=1, ref=1), insert("c", id=2, ref=1))
    log.commit(delete_row(1, "c"))
    log.refused("INVALID", delete_row(1, "p"))
    log.commit(delete_row(2, "c"), delete_row(1, "p"))


def test_a_child_made_here_then_its_parent_cannot_go_here_and_the_other_way_round(log: DecidedLog) -> None:
    refused = log.refused("INVALID", insert("c", id=1, ref=1), delete_row(1, "p"))
    assert "row 1 of table c still refers to row 1 of table p" in str(refused.detail)
    refused = log.refused("INVALID", delete_row(1, "p"), insert("c", id=1, ref=1))
    assert "no row 1 in table p, which a foreign key refers to" in str(refused.detail)


def test_a_parent_changed_and_then_deleted_here_then_its_new_child_is_invalid_not_raced(log: DecidedLog) -> None:
    log.commit(update(1, "p", code=10, v="x"))
    log.refused("INVALID", delete_row(1, "p"), insert("c", id=1, ref=1))


def test_a_table_made_here_that_refers_to_an_older_one_then_its_rows_hold_the_parents(log: DecidedLog) -> None:
    made = keyed_table("n", "id int64, ref int64", foreign_keys=refers())
    log.refused("INVALID", made, insert("n", id=1, ref=1), delete_row(1, "p"))
    log.refused("INVALID", made, insert("n", id=1, ref=9))
    log.commit(insert("d", id=1, ref=10))
    log.commit(made, insert("n", id=1, ref=1), delete_row(2, "p"), delete_row(1, "d"))
    log.refused("INVALID", delete_row(1, "p"))


def test_parent_and_child_tables_made_together_then_their_rows_too(log: DecidedLog) -> None:
    tables = [keyed_table("q", "id int64"), keyed_table("n", "id int64, ref int64", foreign_keys=refers("q"))]
    log.refused("INVALID", *tables, insert("n", id=1, ref=1))
    log.commit(*tables, insert("q", id=1), insert("n", id=1, ref=1))


def test_a_child_table_dropped_here_then_its_rows_hold_no_parent(log: DecidedLog) -> None:
    log.commit(insert("c", id=1, ref=1))
    log.commit(change("DROP_TABLE", "c"), delete_row(1, "p"))


def test_rows_that_refer_to_their_own_table_then_to_themselves_too(log: DecidedLog) -> None:
    log.commit(keyed_table("s", "id int64, ref int64", foreign_keys=refers("s")))
    log.refused("INVALID", insert("s", id=2, ref=1))
    log.commit(insert("s", id=1, ref=1))
    log.commit(insert("s", id=2, ref=1))
    log.refused("INVALID", delete_row(1, "s"))
    log.commit(delete_row(2, "s"), delete_row(1, "s"))


def test_a_parent_missing_beyond_the_window_then_a_conflict_only_if_the_parents_rows_changed(log: DecidedLog) -> None:
    base = log.head
    beyond_the_window(log)
    log.refused("INVALID", insert("c", id=1, ref=9), base=base)
    deleted = log.commit(delete_row(1, "p"))
    log.commit(append(table="other"))
    log.conflict(f"TABLE_ROWS_CHANGED@{deleted}", on=insert("c", id=1, ref=1), base=base)
    log.commit(insert("c", id=1, ref=2), base=base)


def test_a_parent_deleted_beyond_the_window_then_a_later_child_is_a_race_an_older_one_is_not(log: DecidedLog) -> None:
    log.commit(insert("c", id=1, ref=1))
    base = log.head
    child = log.commit(insert("c", id=2, ref=2))
    beyond_the_window(log)
    log.refused("INVALID", delete_row(1, "p"), base=base)
    log.conflict(f"FOREIGN_KEY@{child}", on=delete_row(2, "p"), base=base)


class NeverCopied(set[str]):
    """Keys of rows, as many as there may be: who looks at all of them fails."""

    def __iter__(self) -> Iterator[str]:
        raise AssertionError("looked through")

    __or__ = __sub__ = copy = __iter__  # type: ignore[assignment]


def test_a_row_whose_parent_has_very_many_children_then_none_of_the_others_is_looked_at(log: DecidedLog) -> None:
    log.commit(*[insert("c", id=n, ref=1) for n in range(9)])
    rows = log.state.tables[2].rows
    assert rows is not None
    rows.referring[0]["1"] = NeverCopied(rows.referring[0]["1"])
    log.commit(insert("c", id=9, ref=1), insert("c", id=10, ref=1))
    log.commit(delete_row(0, "c"), update(1, "c", ref=2), update(2, "c", ref=1), insert("c", id=11, ref=1))
    left = {str(n) for n in range(2, 12)}
    assert rows.referring[0]["1"] == left
    rows.referring[0]["1"] = left
    log.refused("INVALID", *[delete_row(n, "c") for n in range(2, 11)], delete_row(1, "p"))
    log.commit(*[delete_row(n, "c") for n in range(2, 12)], delete_row(1, "p"))


class Counted(dict[str, Any]):
    """The keys that changed within the window; how often they were looked through."""

    times = 0

    def __iter__(self) -> Iterator[str]:
        self.times += 1
        return super().__iter__()


@pytest.mark.interpreted("compiled code goes through a dict without asking it")
def test_many_rows_whose_parents_are_gone_then_what_changed_since_is_looked_through_once(log: DecidedLog) -> None:
    base = log.commit(insert("p", id=9), *[insert("p", id=n, code=10 * n) for n in range(3, 9)])
    log.commit(*[delete_row(n, "p") for n in range(3, 9)])
    rows = log.state.tables[1].rows
    assert rows is not None
    rows.history = counted = Counted(rows.history)
    children = [insert("d", id=n, ref=10 * n) for n in range(3, 9)]
    log.conflict(*[f"FOREIGN_KEY@{log.head}"] * 6, on=children, base=base)
    assert counted.times == 1
