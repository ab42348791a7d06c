"""The history of a log: what was decided, what it changed, and what a filter leaves of it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from making import ROWS, append, create, rejected

from commitlog.catalog.history import HistoryFilter
from commitlog.client import CommitLog, Transaction
from commitlog.errors import InvalidRequestError


def test_history_when_committed_and_refused_then_who_what_which_tables_and_why(
    log: CommitLog, table: str, tmp_path: Path
) -> None:
    create(log, table)
    base = log.head_snapshot_id()
    append(log, table, tmp_path)
    with log.transaction(message="a better name", author="ann", writer_id="ann-1") as tx:
        tx.rename_table(table, f"{table}_new")
    late = log.transaction(base_snapshot_id=base, writer_id="late")
    late.drop_table(table)
    assert rejected(late).outcome.reason == "CONFLICT"
    refused, renamed, appended, created = log.history(4)
    assert (refused.verdict, refused.reason, refused.snapshot_id) == ("REJECTED", "CONFLICT", None)
    assert (refused.writer_id, refused.base_snapshot_id) == ("late", base)
    assert refused.detail is not None
    assert "renamed" in refused.detail
    assert refused.change_kinds == ("DROP_TABLE",)
    assert (renamed.verdict, renamed.snapshot_id, renamed.change_kinds) == ("COMMITTED", base + 2, ("RENAME_TABLE",))
    assert (renamed.message, renamed.author, renamed.writer_id) == ("a better name", "ann", "ann-1")
    assert [each.tables for each in (renamed, appended, created)] == [
        (("main", table), ("main", f"{table}_new")),
        (("main", table),),
        (("main", table),),
    ]
    assert refused.seq > renamed.seq > appended.seq > created.seq
    assert renamed.decided_at.tzinfo is not None
    assert log.history(table=table) == [renamed, appended, created]
    assert log.history(table=f"{table}_new") == [refused, renamed]


def test_history_when_a_dropped_table_is_asked_for_then_by_the_names_that_it_had(log: CommitLog, table: str) -> None:
    create(log, table)
    with log.transaction() as tx:
        tx.drop_table(table)
    with log.transaction() as tx:
        tx.create_table(f'main."{table}, x:1"', ROWS.schema)
        tx.create_view(f"{table}_v", "SELECT 1 AS one")
    named, dropped, created = log.history(3)
    assert named.tables == (("main", f"{table}, x:1"), ("main", f"{table}_v"))
    assert dropped.tables == created.tables == (("main", table),)
    assert log.history(table=table) == [dropped, created]
    assert log.history(table=f"{table}_v".upper()) == [named]
    assert log.history(table="main.nothing_of_that_name") == []


def test_history_when_filtered_then_only_what_all_conditions_let_through(log: CommitLog, table: str) -> None:
    create(log, table)
    base = log.head_snapshot_id()
    for number in range(3):
        with log.transaction(writer_id=f"w{number % 2}-{table}") as tx:
            tx.alter(table).set_comment(f"{number}")
    late = log.transaction(base_snapshot_id=base, writer_id=f"w1-{table}")
    late.rename_table(table, "other")
    rejected(late)
    refused, third, second, first, _ = everything = log.history(table=table)
    assert (len(everything), refused.tables) == (5, (("main", table),))
    assert log.history(writer=f"w0-{table}") == [third, first]
    assert log.history(writer=f"w1-{table}") == [refused, second]
    assert log.history(writer=f"w1-{table}", verdict="rejected") == [refused]
    assert log.history(table=table, limit=2, before=third.seq) == [second, first]
    assert log.history(snapshot=base + 2) == [second]
    assert log.history(table=table, since=refused.decided_at.isoformat())[0] == refused
    assert log.history(since=refused.decided_at + timedelta(days=1)) == []


def test_history_when_refused_without_a_conflict_then_found_by_the_tables_that_it_named(
    log: CommitLog, table: str
) -> None:
    create(log, table)
    invalid = log.transaction()
    invalid.alter(table).set_comment("a table that is there")
    invalid.drop_table(f"{table}_missing")
    assert rejected(invalid).outcome.reason == "INVALID"
    refused = log.history(1)[0]
    assert (refused.reason, refused.tables) == ("INVALID", (("main", table), ("main", f"{table}_missing")))
    assert log.history(table=table)[0] == refused
    assert log.history(table=f"{table}_missing".upper()) == [refused]
    table_id = log.table(table).at().definition.table_id
    by_id = HistoryFilter(table_id=table_id, limit=1)
    assert log.contents().history(by_id) == [refused]
    with log.transaction() as tx:
        tx.rename_table(table, f"{table}_missing")
    assert log.contents().history(by_id)[0].tables == (("main", table), ("main", f"{table}_missing"))
    assert refused in log.contents().history(HistoryFilter(table_id=table_id))


def test_history_when_a_commit_skipped_its_change_then_it_is_in_no_tables(log: CommitLog, table: str) -> None:
    create(log, table)
    with log.transaction() as tx:
        tx.create_table(table, ROWS.schema, if_not_exists=True)
    assert log.history(1)[0].tables == ()
    assert [each.change_kinds for each in log.history(table=table)] == [("CREATE_TABLE",)]
    assert [each.snapshot_id for each in log.table(table).history()] == [(tx.outcome.snapshot_id or 0) - 1]


def test_history_when_asked_for_what_cannot_be_then_says_what_can(log: CommitLog) -> None:
    with pytest.raises(InvalidRequestError, match="'committed', 'rejected' or 'duplicate'"):
        log.history(verdict="maybe")
    with pytest.raises(InvalidRequestError, match="since must be a datetime"):
        log.history(since="last week")


def test_namings_when_asked_then_what_changed_a_name_or_a_column_of_what_has_ever_had_it(
    log: CommitLog, table: str
) -> None:
    def altered(change: Callable[[Transaction], object]) -> int:
        with log.transaction() as tx:
            change(tx)
        assert tx.outcome.snapshot_id is not None
        return tx.outcome.snapshot_id

    other = f"{table}_other"
    made = [altered(lambda tx: tx.create_table(table, {"id": "int64", "v": "varchar"}))]
    apart = [altered(lambda tx: tx.create_table(f"{table}_apart", {"id": "int64"}))]
    made += [altered(lambda tx: tx.alter(table).rename_column("v", "w"))]
    apart += [altered(lambda tx: tx.insert_row(table, {"id": 1}))]
    made += [altered(lambda tx: tx.rename_table(table, other))]
    made += [altered(lambda tx: tx.alter(other).drop_column("w"))]
    before = list(made)
    made += [altered(lambda tx: tx.create_table(table.upper(), {"id": "int64"}))]
    made += [altered(lambda tx: tx.drop_table(table))]
    log.wait_for_snapshot()
    contents = log.contents()
    assert contents.namings("main", table) == contents.namings("MAIN", table.upper()) == made[::-1]
    assert contents.namings("main", other) == before[::-1]
    assert contents.namings("main", f"{table}_apart") == apart[:1]
    assert contents.namings("main", f"{table}_missing") == contents.namings("missing", table) == []
