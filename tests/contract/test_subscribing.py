"""Outcomes for a program that goes on where it stopped."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

import pytest
from making import create, rejected

from commitlog.client import CommitLog
from commitlog.client.access import history_entries
from commitlog.client.access.history_entries import tables_of
from commitlog.domain import model as m
from commitlog.errors import InvalidRequestError, SnapshotNotFoundError, TableNotFoundError


@pytest.fixture
def group() -> str:
    return f"group-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def start(log: CommitLog, table: str) -> int:
    """The seq before three commits to a table: its creation, and two comments."""
    before = log.last_seq()
    create(log, table)
    comment(log, table, "one", "two")
    return before


def comment(log: CommitLog, table: str, *texts: str) -> None:
    for text in texts:
        with log.transaction() as tx:
            tx.alter(table).set_comment(text)


def seqs(outcomes: Iterator[object]) -> list[int]:
    return [each.seq for each in outcomes]  # type: ignore[attr-defined]


def test_subscribe_when_a_group_handled_some_then_the_next_goes_on_behind_them(
    log: CommitLog, table: str, start: int, group: str
) -> None:
    with log.subscribe(start, follow=False, group=group) as outcomes:
        first, second = next(outcomes).seq, next(outcomes).seq
    assert (first, second) == (start + 1, start + 2)
    with log.subscribe(start, follow=False, group=group) as outcomes:
        assert seqs(outcomes) == [start + 3]
    comment(log, table, "three")
    assert seqs(log.subscribe(follow=False, group=group)) == [start + 4]
    assert seqs(log.subscribe(follow=False, group=group)) == []
    assert seqs(log.subscribe(start, follow=False, group=f"{group}-other")) == list(range(start + 1, start + 5))


def test_subscribe_when_handling_fails_then_the_outcome_comes_again(log: CommitLog, start: int, group: str) -> None:
    with suppress(ZeroDivisionError), log.subscribe(start, follow=False, group=group) as outcomes:
        for at, _ in enumerate(outcomes):
            assert 1 / (1 - at)
    again = log.subscribe(start, follow=False, group=group)
    assert next(again).seq == start + 2
    again.close()
    assert list(again) == []
    assert seqs(log.subscribe(start, follow=False, group=group)) == [start + 2, start + 3]


def test_subscribe_when_asking_is_interrupted_then_the_next_one_goes_on_there(
    log: CommitLog, table: str, start: int, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    signals = [KeyboardInterrupt()]

    def interrupted(outcome: m.Outcome) -> frozenset[tuple[str, str]]:
        if outcome.seq == start + 2 and signals:
            raise signals.pop()
        return tables_of(outcome)

    monkeypatch.setattr(history_entries, "tables_of", interrupted)
    with log.subscribe(start, follow=False, tables=[table], group=group) as outcomes:
        assert next(outcomes).seq == start + 1
        with pytest.raises(KeyboardInterrupt):
            next(outcomes)
    assert seqs(log.subscribe(start, follow=False, group=group)) == [start + 2, start + 3]


def test_subscribe_when_waiting_is_interrupted_then_the_next_one_goes_on_there(
    log: CommitLog, table: str, start: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    subscribe, signals = log.access.subscribe, [KeyboardInterrupt()]

    def interrupted(after_seq: int, *, follow: bool) -> Iterator[Sequence[m.Outcome]]:
        for outcomes in subscribe(after_seq, follow=follow):
            yield outcomes[:1]
            if signals:
                raise signals.pop()
            yield outcomes[1:]

    monkeypatch.setattr(log.access, "subscribe", interrupted)
    outcomes = log.subscribe(start)
    assert next(outcomes).seq == start + 1
    with pytest.raises(KeyboardInterrupt):
        next(outcomes)
    assert [next(outcomes).seq, next(outcomes).seq] == [start + 2, start + 3]
    comment(log, table, "three")
    assert next(outcomes).seq == start + 4
    outcomes.close()


def test_subscribe_when_closed_by_another_thread_then_what_comes_next_is_not_given_out(
    log: CommitLog, table: str, start: int
) -> None:
    outcomes = log.subscribe(start)
    assert [next(outcomes).seq for _ in range(3)] == [start + 1, start + 2, start + 3]
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(next, outcomes, None)
        # So that it does wait.
        time.sleep(0.5)
        outcomes.close()
        comment(log, table, "three")
        assert waiting.result(60) is None


def test_subscribe_when_closed_by_another_thread_and_nothing_comes_then_the_waiting_ends(
    log: CommitLog, start: int
) -> None:
    outcomes = log.subscribe(start)
    assert [next(outcomes).seq for _ in range(3)] == [start + 1, start + 2, start + 3]
    waiting: Future[object] = Future()
    threading.Thread(target=lambda: waiting.set_result(next(outcomes, None)), daemon=True).start()
    time.sleep(0.5)
    outcomes.close()
    assert waiting.result(20) is None


def test_subscribe_when_asked_for_tables_then_what_changed_them_or_was_refused_for_them(
    log: CommitLog, table: str, start: int, group: str
) -> None:
    base = log.head_snapshot_id()
    create(log, f"{table}_b")
    comment(log, table, "three")
    late = log.transaction(base_snapshot_id=base)
    late.rename_table(table, f"{table}_c")
    rejected(late)
    comment(log, f"{table}_b", "four")
    assert seqs(log.subscribe(start + 3, follow=False, tables=[table.upper()])) == [start + 5, start + 6]
    assert seqs(log.subscribe(start + 3, follow=False, tables=[f"{table}_b", table])) == list(
        range(start + 4, start + 8)
    )
    assert seqs(log.subscribe(start, follow=False, tables=["nothing"], group=group, missing_ok=True)) == []
    assert seqs(log.subscribe(start, follow=False, group=group)) == []


def test_subscribe_when_a_tables_schema_is_dropped_with_it_then_that_is_told_as_its_history_has_it(
    log: CommitLog, table: str
) -> None:
    schema = f"s_{table}"
    with log.transaction() as tx:
        tx.create_schema(schema)
        tx.create_table(f"{schema}.t", {"id": "int64"})
        tx.create_view(f"{schema}.v", "SELECT 1 AS one")
    before = log.last_seq()
    with log.transaction() as tx:
        tx.drop_schema(schema.upper(), cascade=True)
    for name in ("t", "v"):
        assert seqs(log.subscribe(before, follow=False, tables=[f"{schema}.{name}"])) == [before + 1]
        dropped, _ = log.history(table=f"{schema}.{name}")
        assert (dropped.seq, dropped.tables) == (before + 1, ((schema, "t"), (schema, "v")))
    assert seqs(log.subscribe(before, follow=False, tables=["main.t"], missing_ok=True)) == []


def test_subscribe_when_a_table_never_was_then_says_so_and_how_to_wait_for_it(
    log: CommitLog, table: str, start: int
) -> None:
    with pytest.raises(TableNotFoundError, match=f"main.{table}_ - did you mean main.{table}.; with missing_ok=True"):
        log.subscribe(tables=[table, f"{table}_"])
    with log.transaction() as tx:
        tx.drop_table(table)
        tx.create_view(f"{table}_view", "SELECT 1 AS one")
    assert seqs(log.subscribe(start + 3, follow=False, tables=[table, f"{table}_view"])) == [start + 4]


def test_subscribe_when_a_snapshot_is_known_then_what_came_after_it(log: CommitLog, table: str, start: int) -> None:
    head = log.head_snapshot_id()
    assert seqs(log.subscribe(follow=False, from_snapshot=head)) == []
    assert seqs(log.subscribe(follow=False, from_snapshot=head - 2)) == [start + 2, start + 3]
    assert seqs(log.subscribe(follow=False, from_snapshot=0))[0] == 1
    with pytest.raises(SnapshotNotFoundError):
        log.subscribe(from_snapshot=head + 1)
    with pytest.raises(InvalidRequestError, match="not both"):
        log.subscribe(1, from_snapshot=head)
    for wrong in ({"tables": "main.t"}, {"tables": [1]}, {"group": 3}, {"group": ""}, {"tables": [""]}):
        with pytest.raises(InvalidRequestError):
            log.subscribe(**wrong)  # type: ignore[arg-type]
