"""Many proposals at once, and futures: what they promise in memory and on a broker alike."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from itertools import pairwise
from typing import Any

import pytest
from making import KEYED, create

from commitlog.client import CommitLog, SubmittedOutcome
from commitlog.domain.model import BIGINT_MAX, DataFile, Proposal, Verdict
from commitlog.errors import InvalidRequestError, KeyReusedError, ProposalTooLargeError

PATIENCE_S = 60.0
pytestmark = pytest.mark.parametrize("log", ["memory", "broker", "carrier"], indirect=True, scope="module")


def a_file(number: int) -> DataFile:
    return DataFile(f"/elsewhere/{number}.parquet", record_count=1, file_size_bytes=100, path_is_relative=False)


def proposals(log: CommitLog, table: str, count: int, *, writers: int = 1, numbered: bool = False) -> list[Proposal]:
    made = []
    for number in range(count):
        tx = log.transaction(
            writer_id=f"{table}-{number % writers}", writer_seq=number if numbered else None, message=str(number)
        )
        tx.append(table, [a_file(number)])
        made.append(tx.proposal())
    return made


def in_log(log: CommitLog, table: str) -> list[tuple[str, int | None]]:
    """Writers and their numbers, in the order in which the log has committed them."""
    return [
        (each.proposal.writer_id, each.proposal.writer_seq)
        for each in log.subscribe(follow=False)
        if each.verdict is Verdict.COMMITTED and each.proposal is not None and each.proposal.writer_id.startswith(table)
    ]


def test_publish_many_when_there_are_more_than_fit_at_once_then_answered_in_order(log: CommitLog, table: str) -> None:
    create(log, table)
    made = proposals(log, table, 200, writers=5)
    answers = list(log.publish_many(made, in_flight_max=30))
    assert all(isinstance(each, SubmittedOutcome) and each.committed for each in answers)
    assert [each.proposal_id.bytes for each in answers] == [each.proposal_id for each in made]


def test_publish_many_when_numbered_then_each_writers_are_decided_in_their_order(log: CommitLog, table: str) -> None:
    create(log, table)
    answers = list(log.publish_many(proposals(log, table, 30, writers=3, numbered=True)))
    assert all(isinstance(each, SubmittedOutcome) and each.committed for each in answers)
    decided = in_log(log, table)
    assert len(decided) == 30
    for writer in range(3):
        seqs = [seq for name, seq in decided if name == f"{table}-{writer}" and seq is not None]
        assert all(before < after for before, after in pairwise(seqs))


@pytest.mark.parametrize("wrong", ["too large", "no proposal", "sent already", "raises"])
def test_publish_many_when_one_cannot_be_sent_then_those_before_are_answered_first(
    log: CommitLog, table: str, wrong: str
) -> None:
    create(log, table)
    first = log.transaction(writer_id=f"{table}-0")
    first.append(table, [a_file(0)])
    [second, third] = proposals(log, table, 2)

    def source() -> Iterator[Any]:
        yield first
        yield second
        if wrong == "raises":
            raise ZeroDivisionError
        if wrong == "too large":
            yield third.replace(extra="x" * log.settings.proposal_bytes_max)
        yield "a proposal" if wrong == "no proposal" else first
        pytest.fail("it went on")

    answers: list[Any] = []
    with pytest.raises((ProposalTooLargeError, InvalidRequestError, ZeroDivisionError)):
        answers.extend(log.publish_many(source()))
    assert [each.committed for each in answers] == [True, True]
    assert len(in_log(log, table)) == 2


def test_transaction_when_handed_over_then_commits_nothing_itself(log: CommitLog, table: str) -> None:
    create(log, table)
    with log.transaction(writer_id=f"{table}-a") as first:
        first.append(table, [a_file(1)])
        (answer,) = log.publish_many([first])
    with log.transaction(writer_id=f"{table}-b") as second:
        second.append(table, [a_file(2)])
        future = log.submit_async(second)
    assert isinstance(answer, SubmittedOutcome)
    assert (answer.committed, future.result(PATIENCE_S).committed) == (True, True)
    assert [name for name, _ in in_log(log, table)] == [f"{table}-a", f"{table}-b"]
    for sent in (first, second):
        with pytest.raises(InvalidRequestError, match="begin another one"):
            log.submit_async(sent)
        with pytest.raises(InvalidRequestError, match="begin another one"):
            sent.commit()


def test_submit_async_when_nobody_waits_then_done_all_the_same(log: CommitLog, table: str) -> None:
    create(log, table)
    answered: list[bool] = []
    all_done = threading.Event()

    def note(future: Future[SubmittedOutcome]) -> None:
        answered.append(future.result(0).committed)
        if len(answered) == 50:
            all_done.set()

    for each in proposals(log, table, 50, writers=4):
        log.submit_async(each).add_done_callback(note)
    assert all_done.wait(PATIENCE_S)
    assert answered == [True] * 50


def test_submit_async_when_asked_to_cancel_then_does_not(log: CommitLog, table: str) -> None:
    create(log, table)
    (proposal,) = proposals(log, table, 1)
    future = log.submit_async(proposal)
    assert not future.cancel()
    assert future.result(PATIENCE_S).committed


def test_submit_async_when_what_is_called_then_commits_itself_then_it_can(log: CommitLog, table: str) -> None:
    create(log, table)
    first, second = proposals(log, table, 2, writers=2)
    committed: Future[bool] = Future()
    log.submit_async(first).add_done_callback(lambda _: committed.set_result(log.submit(second).committed))
    assert committed.result(PATIENCE_S)


def test_submit_async_when_others_wait_meanwhile_then_all_are_answered(log: CommitLog, table: str) -> None:
    create(log, table)
    made = proposals(log, table, 80, writers=4)
    found: list[bool] = []

    def loop() -> None:
        found.extend(log.submit(each).committed for each in made[40:])

    waiting = threading.Thread(target=loop)
    waiting.start()
    futures = [log.submit_async(each) for each in made[:40]]
    assert not wait(futures, PATIENCE_S).not_done
    waiting.join(PATIENCE_S)
    assert found == [True] * 40


def test_submit_when_threads_wait_as_long_as_can_be_said_then_all_are_answered(log: CommitLog, table: str) -> None:
    create(log, table)
    made = proposals(log, table, 80, writers=4)
    with ThreadPoolExecutor(8) as threads:
        answers = threads.map(lambda each: log.submit(each, timeout_ms=BIGINT_MAX), made)
        assert [each.committed for each in answers] == [True] * 80


def test_submit_async_when_numbered_then_decided_in_their_order(log: CommitLog, table: str) -> None:
    create(log, table)
    futures = [log.submit_async(each) for each in proposals(log, table, 20, numbered=True)]
    assert all(each.result(PATIENCE_S).committed for each in futures)
    assert in_log(log, table) == [(f"{table}-0", number) for number in range(20)]


def test_submit_async_when_refused_then_the_outcome_says_what_it_met(log: CommitLog, table: str) -> None:
    create(log, table)
    late = log.transaction()
    late.rename_table(table, f"{table}_new")
    with log.transaction(writer_id="ann") as tx:
        tx.drop_table(table)
    answer = log.submit_async(late).result(PATIENCE_S)
    assert answer.verdict is Verdict.REJECTED
    assert answer.conflicts[0].committed_writer_id == "ann"


def test_submit_async_when_a_number_is_used_again_then_the_future_has_the_error(log: CommitLog, table: str) -> None:
    with log.transaction() as tx:
        tx.create_table(table, KEYED, primary_key=["id"])
    sent = []
    for key in (1, 2):
        tx = log.transaction(writer_id=table, writer_seq=1)
        tx.insert_row(table, {"id": key, "v": "x"})
        sent.append(log.submit_async(tx))
    assert sent[0].result(PATIENCE_S).committed
    assert isinstance(sent[1].exception(PATIENCE_S), KeyReusedError)


def test_submit_async_when_it_is_too_large_or_nothing_then_says_so_at_once(log: CommitLog, table: str) -> None:
    tx = log.transaction(extra="x" * (log.settings.proposal_bytes_max + 1))
    tx.create_schema(f"s_{table}")
    with pytest.raises(ProposalTooLargeError):
        log.submit_async(tx)
    with pytest.raises(InvalidRequestError, match="must be a Proposal"):
        log.submit_async("a proposal")  # type: ignore[arg-type]
