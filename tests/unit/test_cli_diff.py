"""`commitlog diff` and `commitlog show`: what changed between snapshots, and in one."""

from __future__ import annotations

import time
from itertools import chain

import pytest
from cli_logs import CliLog

from commitlog.errors import InvalidRequestError
from commitlog.testing import InMemoryCommitLog


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch) -> CliLog:
    """A keyed table of a log of two hours: two rows come, one of them changes and the other goes; then the table goes."""
    clock = chain((now_ms() - 7_200_000,), iter(now_ms, None))
    log = InMemoryCommitLog(writer_id="w", clock_ms=lambda: next(clock))
    with log.transaction() as tx:
        tx.create_table("t", {"id": "int64", "v": "varchar"}, primary_key=["id"])
    log.table("t").insert([{"id": 1, "v": "a"}, {"id": 2, "v": "b"}])
    with log.transaction(message="night run", author="ann") as tx:
        tx.update_row("t", {"id": 1}, {"id": 1, "v": "c"})
        tx.delete_row("t", {"id": 2})
    with log.transaction() as tx:
        tx.drop_table("t")
    return CliLog(log, monkeypatch)


def test_diff_when_asked_for_rows_then_counts_first_and_each_row_with_a_sign(cli: CliLog) -> None:
    lines = cli.lines("diff", "2", "3", "--rows")
    assert lines[1].split() == ["table", "main.t", "+0", "-0", "2", "->", "1", "(-1)"]
    assert [line.split() for line in lines[3:]] == [
        ["main.t"], ["id", "v"], ["-", "1", "a"], ["+", "1", "c"], ["-", "2", "b"],
    ]  # fmt: skip
    assert cli.lines("diff", "2", "3") == lines[:2]
    (nothing,) = cli.lines("diff", "3", "3")
    assert nothing.startswith("nothing has changed")


def test_diff_when_a_row_was_updated_and_as_many_are_there_then_it_is_shown(cli: CliLog) -> None:
    with cli.log.transaction() as tx:
        tx.create_table("k", {"id": "int64", "v": "varchar"}, primary_key=["id"])
        tx.insert_row("k", {"id": 1, "v": "a"})
    before = cli.log.head_snapshot_id()
    cli.log.table("k").update({"id": 1}, {"id": 1, "v": "b"})
    lines = cli.lines("diff", str(before), "--rows")
    assert lines[1].split() == ["table", "main.k", "other", "rows", "+0", "-0", "1", "->", "1", "(+0)"]
    assert [line.split() for line in lines[-2:]] == [["-", "1", "a"], ["+", "1", "b"]]


def test_show_when_only_the_logs_settings_changed_then_says_that_they_are_not_compared(cli: CliLog) -> None:
    with cli.log.transaction() as tx:
        tx.configure(on_conflict="KEEP_EXISTING")
    assert "settings are not compared" in cli.lines("show", str(cli.log.head_snapshot_id()))[-1]


def test_diff_when_a_table_was_dropped_then_its_rows_went(cli: CliLog) -> None:
    counted, gone = cli.json("diff", "3", "--rows")
    assert (counted["before"], counted["after"], counted["rows_before"]) == ("main.t", None, 1)
    assert gone == {
        "kind": "row",
        "table": "main.t",
        "change_type": "delete",
        "rowid": None,
        "row": {"id": 1, "v": "c"},
    }


def test_diff_when_there_are_more_rows_than_asked_for_then_says_how_many(cli: CliLog) -> None:
    assert cli.lines("diff", "1", "2", "--rows", "--limit", "1")[-2:] == [
        "+  1   a", "and 1 more; --limit sets how many are shown",
    ]  # fmt: skip


def test_diff_when_rows_are_asked_for_backwards_then_says_how(cli: CliLog) -> None:
    with pytest.raises(InvalidRequestError, match="diff 2 3 --rows"):
        cli.run("diff", "3", "2", "--rows")
    (back,) = cli.json("diff", "3", "2")
    assert (back["rows_before"], back["rows_after"]) == (1, 2)


def test_show_when_a_snapshot_was_made_then_who_when_which_changes_and_what_they_came_to(cli: CliLog) -> None:
    lines = cli.lines("show", "3")
    assert lines[0] == "snapshot   3, outcome 3, on snapshot 2"
    assert lines[2:5] == ["writer     w", "author     ann", "message    night run"]
    assert lines[6:8] == ["change     update row (id=1) of main.t", "change     delete row (id=2) of main.t"]
    assert lines[-1].split()[:2] == ["table", "main.t"]
    (plain,) = cli.json("show", "3")
    assert (plain["snapshot_id"], plain["change_kinds"], plain["tables"]) == (
        3,
        ["UPDATE_ROW", "DELETE_ROW"],
        ["main.t"],
    )
    assert plain["differences"][0]["rows_after"] == 1
    assert plain["decided_at"].endswith("Z")


def test_diff_when_a_value_would_steer_the_terminal_then_it_is_written_out(cli: CliLog) -> None:
    with cli.log.transaction() as tx:
        tx.create_table("u", {"id": "int64", "v": "varchar"}, primary_key=["id"])
        tx.insert_row("u", {"id": 1, "v": "a\u202eb"})
    shown = cli.run("diff", "4", "--rows").stdout
    assert "a\\u202eb" in shown


def test_diff_when_snapshots_are_moments_then_those_that_were_the_newest(cli: CliLog) -> None:
    made = [each.time for each in reversed(cli.log.snapshots())]
    assert cli.lines("diff", made[2].isoformat(), made[3].isoformat()) == cli.lines("diff", "2", "3")
    assert cli.log.diff("1h", made[2]) == cli.log.diff(0, 2)
    assert (cli.log.snapshot_at("1h"), cli.log.snapshot_at(made[3])) == (0, 3)
    assert cli.log.table("t").changes(made[1], made[2]).to_arrow().num_rows == 2
    refused = cli.run("diff", "last week", code=2).stderr
    assert "'last week' is not a snapshot: give its id, or a time such as" in refused


def test_tables_when_listed_then_their_columns_and_files_at_the_snapshot(cli: CliLog) -> None:
    assert cli.lines("tables")[0].startswith("there are no tables")
    assert cli.lines("tables", "--at", "3")[1].split() == ["main.t", "0", "id", "int64,", "v", "varchar"]
    (told,) = cli.json("tables", "--at", "3")
    columns = [{"name": "id", "type": "int64"}, {"name": "v", "type": "varchar"}]
    assert told == {"table": "main.t", "columns": columns, "files": 0}


def test_diff_when_rows_hold_what_json_has_no_form_of_then_it_is_as_the_log_writes_it(cli: CliLog) -> None:
    with cli.log.transaction() as tx:
        tx.create_table("u", {"id": "int64", "f": "float64", "b": "blob"}, primary_key=["id"])
        tx.insert_row("u", {"id": 1, "f": float("-inf"), "b": b"\xffa"})
    _, came = cli.json("diff", "4", "--rows")
    assert came["row"] == {"id": 1, "f": "-inf", "b": "\\xFFa"}
    assert cli.lines("diff", "4", "--rows")[-1].split() == ["+", "1", "-inf", "\\xFFa"]
