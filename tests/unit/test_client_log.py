"""What the client adds to a log, on the log in memory: unknown outcomes, turns of a writer, limits, words."""

from __future__ import annotations

import datetime as dt
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import commitlog
from commitlog.client import CommitLog, OutcomeState, ids
from commitlog.client.access.memory_contents import MemoryContents
from commitlog.client.access.unanswered import UnansweredProposals
from commitlog.client.ids import new_proposal_id
from commitlog.client.limits import check_limits
from commitlog.client.outcomes.describing import describe_changes, describe_read
from commitlog.client.outcomes.explaining import Explanation, explain, way_out
from commitlog.client.tables.filters import predicates
from commitlog.client.tables.values import row_of
from commitlog.domain import model as m
from commitlog.domain.model.ids import id_time_ms
from commitlog.domain.model.types import parse_type
from commitlog.errors import (
    CatalogUnavailableError,
    CommitLogError,
    ConfigurationError,
    HistoryUnavailableError,
    InvalidRequestError,
    LogIntegrityError,
    LogUnavailableError,
    OutcomeUnknownError,
    ProposalRejectedError,
    ProposalTooLargeError,
    WriterBusyError,
)
from commitlog.log import batches
from commitlog.log.row_handlers import ROW_HANDLERS_GROUP, load_row_handlers
from commitlog.testing import InMemoryCommitLog

FILE = m.DataFile("a.parquet", record_count=10, file_size_bytes=100)
DELETE_FILE = m.DeleteFile(0, "d.parquet", (1,), 100)


@pytest.fixture
def log() -> InMemoryCommitLog:
    """A log with a table t, in which file 0 has ten rows."""
    made = InMemoryCommitLog()
    with made.transaction() as tx:
        tx.create_table("t", {"id": "int64"})
        tx.append("t", [FILE])
    return made


def refused(log: CommitLog, tx: Any) -> m.Outcome:
    with pytest.raises(ProposalRejectedError):
        tx.commit()
    outcome = log.outcome(tx.proposal_id).outcome
    assert outcome is not None
    return outcome


# --- public names -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", commitlog.__all__)
def test_public_name_when_asked_for_then_there(name: str) -> None:
    assert getattr(commitlog, name).__name__ == name


def test_public_name_when_unknown_then_attribute_error() -> None:
    with pytest.raises(AttributeError, match="frobnicate"):
        _ = commitlog.frobnicate


def test_client_when_loaded_then_arrow_and_what_writes_the_catalog_are_not_until_needed() -> None:
    # Most commands need neither, and loading either takes longer than all else that they do.
    code = (
        "import sys, commitlog.client.access.kafka_access; "
        "print(sys.modules.keys() & {'pyarrow', 'numpy', 'sqlalchemy', 'commitlog.domain.again.alternatives'})"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout == "set()\n"


# --- unknown outcomes -------------------------------------------------------------------------------------------------


def test_commit_when_the_answer_is_lost_then_sent_again_gives_the_one_verdict(log: InMemoryCommitLog) -> None:
    tx = log.transaction()
    tx.append("t", [FILE])
    log.lose_next_answer()
    with pytest.raises(OutcomeUnknownError, match=str(tx.proposal_id)):
        tx.commit()
    assert log.outcome(tx.proposal_id).state is OutcomeState.DECIDED
    again = tx.commit()
    assert again.is_repeat
    assert again.snapshot_id == log.outcomes[-2].snapshot_id
    assert [each.verdict for each in log.outcomes[-2:]] == [m.Verdict.COMMITTED, m.Verdict.DUPLICATE]


def test_publish_many_when_one_answer_is_lost_then_the_others_come_in_order(log: InMemoryCommitLog) -> None:
    made = []
    for _ in range(5):
        tx = log.transaction()
        tx.append("t", [FILE])
        made.append(tx.proposal())
    log.lose_next_answer()
    answers = list(log.publish_many(made, in_flight_max=2))
    assert isinstance(answers[0], OutcomeUnknownError)
    assert [each.proposal_id.bytes for each in answers if not isinstance(each, OutcomeUnknownError)] == [
        proposal.proposal_id for proposal in made[1:]
    ]


def test_submit_async_when_the_answer_is_lost_then_the_future_says_unknown_and_the_next_number_goes_on(
    log: InMemoryCommitLog,
) -> None:
    sent = []
    log.lose_next_answer()
    for seq in (1, 2):
        tx = log.transaction(writer_seq=seq)
        tx.append("t", [FILE])
        sent.append(log.submit_async(tx))
    assert isinstance(sent[0].exception(), OutcomeUnknownError)
    assert sent[1].result().committed


@pytest.mark.parametrize(
    "weather", [LogUnavailableError("k:1"), CatalogUnavailableError("p:1"), LogIntegrityError("x")]
)
def test_commit_when_what_it_met_cannot_be_looked_up_then_the_verdict_is_told(
    log: InMemoryCommitLog, weather: CommitLogError, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = log.transaction()
    late.rename_table("t", "u")
    with log.transaction() as tx:
        tx.drop_table("t")

    def raises(seq: int) -> None:
        raise weather

    monkeypatch.setattr(log._memory, "outcome_at", raises)
    with pytest.raises(ProposalRejectedError) as raised:
        late.commit()
    assert (raised.value.outcome.reason, raised.value.outcome.conflicts) == (m.Reason.CONFLICT, ())
    again = log.submit(late.proposal())
    assert (again.verdict, again.reason, again.is_repeat) == (m.Verdict.REJECTED, m.Reason.CONFLICT, True)


@pytest.mark.interpreted("compiled code calls functions directly: a broken one cannot be put in their place")
@pytest.mark.parametrize("broken", ["decide", "encode_outcome", "replay"])
def test_log_in_memory_when_something_unexpected_happens_then_it_answers_as_a_sequencer_does(
    log: InMemoryCommitLog, broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = log.head_snapshot_id()
    with monkeypatch.context() as broken_so_long:

        def fail(*given: Any, **_: Any) -> Any:
            outcome = next((each for each in given if isinstance(each, m.Outcome)), None)
            if outcome is not None and outcome.reason is m.Reason.INTERNAL:
                return real(*given, **_)
            raise OverflowError("nobody expected this")

        real = getattr(batches, broken)
        broken_so_long.setattr(batches, broken, fail)
        with pytest.raises(ProposalRejectedError) as refused, log.transaction() as tx:
            tx.append("t", [FILE.replace(path="b.parquet")])
    assert refused.value.outcome.reason is m.Reason.INTERNAL
    assert "OverflowError" in str(refused.value.outcome.detail)
    with log.transaction() as tx:
        tx.append("t", [FILE.replace(path="b.parquet")])
    assert (tx.outcome.snapshot_id, log.outcomes[-1].seq) == (head + 1, len(log.outcomes))


# --- turns ------------------------------------------------------------------------------------------------------------


def with_seq(seq: int | None, writer_id: str = "w") -> m.Proposal:
    return m.Proposal(new_proposal_id(), writer_id, 0, (), writer_seq=seq)


def unanswered(proposal: m.Proposal, *, settled: bool) -> UnansweredProposals:
    turns = UnansweredProposals(lambda _: settled)
    with pytest.raises(OutcomeUnknownError), turns.turn(proposal, timeout_s=1):
        raise OutcomeUnknownError(uuid.UUID(bytes=proposal.proposal_id))
    return turns


def test_turn_when_the_one_before_is_unanswered_then_another_is_not_sent() -> None:
    first = with_seq(1)
    turns = unanswered(first, settled=False)
    with (
        pytest.raises(WriterBusyError, match="nothing of this one was sent") as raised,
        turns.turn(with_seq(2), timeout_s=1),
    ):
        pytest.fail("it was let through")
    assert raised.value.unanswered_id.bytes == first.proposal_id


def test_turn_when_the_one_before_was_interrupted_then_it_is_unanswered() -> None:
    first = with_seq(1)
    turns = UnansweredProposals(lambda _: False)
    with pytest.raises(KeyboardInterrupt), turns.turn(first, timeout_s=1):
        raise KeyboardInterrupt
    with pytest.raises(WriterBusyError) as raised, turns.turn(with_seq(2), timeout_s=1):
        pytest.fail("it was sent")
    assert raised.value.unanswered_id.bytes == first.proposal_id


def test_turn_when_the_unanswered_one_comes_again_then_it_is_sent() -> None:
    first = with_seq(1)
    passed = []
    with unanswered(first, settled=False).turn(first, timeout_s=1):
        passed.append(1)
    assert passed


def test_turn_when_the_unanswered_number_comes_again_under_another_id_then_it_is_sent() -> None:
    # It commits once at most; and the first may never have left.
    passed = []
    with unanswered(with_seq(1), settled=False).turn(with_seq(1), timeout_s=1):
        passed.append(1)
    assert passed


def test_turn_when_the_unanswered_one_is_settled_by_now_then_the_next_is_sent() -> None:
    passed = []
    with unanswered(with_seq(1), settled=True).turn(with_seq(2), timeout_s=1):
        passed.append(1)
    assert passed


@pytest.mark.parametrize("other", [with_seq(None), with_seq(2, "v")])
def test_turn_when_without_seq_or_of_another_writer_then_it_does_not_wait(other: m.Proposal) -> None:
    passed = []
    with unanswered(with_seq(1), settled=False).turn(other, timeout_s=1):
        passed.append(1)
    assert passed


def test_turn_when_two_threads_have_one_writer_then_one_after_the_other() -> None:
    turns = UnansweredProposals(lambda _: True)
    inside, entered = threading.Event(), []

    def second() -> None:
        inside.wait()
        with turns.turn(with_seq(2), timeout_s=60):
            entered.append(2)

    thread = threading.Thread(target=second)
    thread.start()
    with turns.turn(with_seq(1), timeout_s=1):
        inside.set()
        thread.join(timeout=0.05)
        entered.append(1)
    thread.join()
    assert entered == [1, 2]


def test_turn_when_each_commit_has_a_writer_of_its_own_then_none_is_remembered() -> None:
    turns = UnansweredProposals(lambda _: True)
    for number in range(3):
        with turns.turn(with_seq(0, f"key:{number}"), timeout_s=1):
            assert len(turns._turns) == 1
    assert len(turns._turns) == 0


def test_log_when_forked_while_a_thread_waits_for_an_answer_then_the_child_commits_by_another_name(
    log: InMemoryCommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    unnamed, numbered = CommitLog(log._memory), {"writer_id": "w", "base_snapshot_id": 1}
    sending, answered, parent, send = threading.Event(), threading.Event(), os.getpid(), log._memory.send

    def slow(*given: Any, **options: Any) -> Any:
        if os.getpid() == parent:
            sending.set()
            answered.wait()
        return send(*given, **options)

    monkeypatch.setattr(log._memory, "send", slow)

    def commit(number: int) -> bool:
        with unnamed.transaction(**numbered, writer_seq=number, timeout_ms=500) as tx:
            tx.append("t", [FILE.replace(path=f"{number}.parquet")])
        return tx.outcome.committed

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(commit, 1)
        sending.wait()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                assert commit(2)
                assert str(os.getpid()) in unnamed.writer_id
                assert log.writer_id == "test"
                status = 0
            finally:
                os._exit(status)
        status = os.waitpid(child, 0)[1]
        answered.set()
        assert first.result()
    assert status == 0


def test_log_when_given_to_a_process_that_is_not_forked_then_says_what_to_do(log: InMemoryCommitLog) -> None:
    for held in (log, log.table("t")):
        process = multiprocessing.get_context("spawn").Process(target=print, args=(held,))
        with pytest.raises(InvalidRequestError, match=r"to another process: connect there, CommitLog.connect\(\)"):
            process.start()


def test_new_proposal_id_when_forked_while_a_thread_makes_one_then_the_child_makes_others() -> None:
    with ids._lock:
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(60)
            ids.new_proposal_id()
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize(("back_ms", "is_followed"), [(9_000, False), (3_600_000, True)])
def test_new_proposal_id_when_the_clock_is_set_back_then_it_is_followed_where_it_was_wrong(
    back_ms: int, is_followed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_ms = time.time_ns() // 1_000_000
    first = ids.new_proposal_id()
    monkeypatch.setattr(time, "time_ns", lambda: (now_ms - back_ms) * 1_000_000)
    monkeypatch.setattr(ids, "_last", ids._last)
    second, third = ids.new_proposal_id(), ids.new_proposal_id()
    assert (id_time_ms(second) == now_ms - back_ms) is is_followed
    assert (second > first) is not is_followed
    assert third > second


# --- limits -----------------------------------------------------------------------------------------------------------

SETTINGS = m.LogSettings(
    changes_max=2, files_max=2, reads_max=1, read_keys_max=1, inlined_positions_max=2, changeset_positions_max=3
)


@pytest.mark.parametrize(
    ("changes", "reads", "what"),
    [
        ([m.CreateSchema("s")] * 3, [], "3 changes"),
        ([m.Append("main", "t", (FILE, FILE)), m.Append("main", "t", (FILE,))], [], "3 files"),
        (
            [m.Append("main", "t", (FILE,)), m.Delete("main", "t", delete_files=(DELETE_FILE, DELETE_FILE))],
            [],
            "3 files",
        ),
        ([], [m.NameRead("main")] * 2, "2 reads"),
        ([], [m.RowsRead("main", "t", ({}, {}))], "2 keys"),
        ([m.Delete("main", "t", (m.PositionDelete(0, (1, 2, 3)),))], [], "3 row positions of one file"),
        (
            [m.Delete("main", "t", (m.PositionDelete(0, (1, 2)), m.PositionDelete(1, (1, 2))))],
            [],
            r"4 row positions \(use delete files\)",
        ),
        ([m.CreateTable("main", "n" * 256, ())], [], "256 characters"),
        ([m.RenameTable("main", "t", "n" * 256)], [], "256 characters"),
    ],
)
def test_check_limits_when_over_then_says_which_and_how_many(
    changes: list[m.Change], reads: list[m.Read], what: str
) -> None:
    proposal = m.Proposal(new_proposal_id(), "w", 0, tuple(changes), reads=tuple(reads))
    with pytest.raises(ValueError, match=what):
        check_limits(proposal, SETTINGS, 100)


def test_check_limits_when_at_the_limit_then_passes() -> None:
    changes = (m.Append("main", "n" * 255, (FILE, FILE)), m.Delete("main", "t", (m.PositionDelete(0, (1, 2)),)))
    proposal = m.Proposal(new_proposal_id(), "w", 0, changes, reads=(m.RowsRead("main", "t", ({},)),))
    check_limits(proposal, SETTINGS, SETTINGS.proposal_bytes_max)
    with pytest.raises(ProposalTooLargeError):
        check_limits(proposal, SETTINGS, SETTINGS.proposal_bytes_max + 1)


def test_check_limits_when_what_has_a_longer_name_may_be_there_already_then_passes() -> None:
    columns = (m.ColumnSpec("id", "int64"),)
    for change in (
        m.CreateSchema("n" * 256, if_not_exists=True),
        m.CreateTable("main", "n" * 256, columns, if_not_exists=True),
        m.CreateView("main", "n" * 256, "SELECT 1", if_not_exists=True),
    ):
        check_limits(m.Proposal(new_proposal_id(), "w", 0, (change,)), SETTINGS, 100)


# --- values -----------------------------------------------------------------------------------------------------------


def test_row_of_when_given_python_values_then_as_the_log_has_them() -> None:
    given = {
        "a": 1, "b": True, "c": None, "d": dt.date(2024, 1, 2), "e": dt.datetime(2024, 1, 2, 3, 4, 5), "f": Decimal("1.50"),
        "g": uuid.UUID(int=1), "h": [1, (2,)], "i": {"x": dt.time(1, 2)}, "j": 2**70, "k": float("nan"), "l": b"a\x00",
    }  # fmt: skip
    assert row_of(given) == {
        "a": 1, "b": True, "c": None, "d": "2024-01-02", "e": "2024-01-02 03:04:05", "f": "1.50",
        "g": "00000000-0000-0000-0000-000000000001", "h": [1, [2]], "i": {"x": "01:02:00"}, "j": str(2**70), "k": "nan",
        "l": "\\x61\\x00",
    }  # fmt: skip


def test_row_of_when_a_value_is_of_no_type_of_a_column_then_says_so() -> None:
    with pytest.raises(TypeError, match="object"):
        row_of({"a": object()})


def test_predicates_when_given_as_tuples_then_typed() -> None:
    found = predicates([("d", ">=", dt.date(2024, 1, 1)), ("x", "in", {1}), ("y", "between", [1, 2]), ("z", "is_null")])
    assert found == (
        m.Predicate("d", m.FilterOp.GE, "2024-01-01"),
        m.Predicate("x", m.FilterOp.IN, (1,)),
        m.Predicate("y", m.FilterOp.BETWEEN, (1, 2)),
        m.Predicate("z", m.FilterOp.IS_NULL),
    )


@pytest.mark.parametrize(
    "wrong", [("x",), ("x", "~", 1), ("x", "in", 1), ("x", "between", [1]), ("x", "is_null", 1), ("x", "=", 1, 2)]
)
def test_predicates_when_wrong_then_says_how(wrong: tuple[Any, ...]) -> None:
    with pytest.raises(ValueError, match=r"takes|filter"):
        predicates([wrong])


# --- words ------------------------------------------------------------------------------------------------------------

EVERY_CHANGE: list[tuple[m.Change, str]] = [
    (m.CreateSchema("s"), "create schema s"),
    (m.DropSchema("s", cascade=True), "drop schema s with all in it"),
    (m.CreateTable("main", "t", (m.ColumnSpec("a", "int64"),)), "create table main.t (1 column)"),
    (m.DropTable("main", "a.b"), 'drop table main."a.b"'),
    (m.RenameTable("main", "t", "u"), "rename table main.t to u"),
    (
        m.AlterTable("main", "t", (m.Alteration(m.AlterOp.DROP_COLUMN, name="x"),)),
        "alter table main.t: drop column x",
    ),
    (m.CreateView("main", "v", "SELECT 1"), "create view main.v"),
    (m.ReplaceView("main", "v", "SELECT 1"), "replace view main.v"),
    (m.DropView("main", "v"), "drop view main.v"),
    (m.Append("main", "t", (FILE, FILE)), "append 20 rows in 2 files to main.t"),
    (m.Delete("main", "t", (m.PositionDelete(0, (1, 2)),), (), (7,)), "delete 2 rows and 1 whole file from main.t"),
    (m.Compact("main", "t", (0, 1), (FILE,)), "compact 2 files of main.t into 1"),
    (m.InsertRow("main", "k", {"id": 1}), "insert a row into main.k"),
    (m.UpdateRow("main", "k", {"id": 1}, {"id": 1}), "update row (id=1) of main.k"),
    (m.DeleteRow("main", "k", {"id": "x"}), "delete row (id='x') of main.k"),
    (m.Flush("main", "k", (FILE,)), "flush rows of main.k into 1 file"),
    (m.ExpireSnapshots(9), "expire snapshots before 9"),
    (m.Configure({"files_max": 9}), "configure files_max = 9"),
]


@pytest.mark.parametrize(("change", "words"), EVERY_CHANGE, ids=lambda value: getattr(value, "kind", ""))
def test_describe_changes_when_one_then_in_words(change: m.Change, words: str) -> None:
    assert describe_changes([change]) == words


def test_describe_changes_when_walked_over_all_kinds_then_none_is_missing() -> None:
    assert {change.kind for change, _ in EVERY_CHANGE} == set(m.ChangeKind)


def test_describe_changes_when_there_are_none_then_the_writer_is_opened() -> None:
    assert describe_changes(()) == "open writer"


def test_describe_changes_when_many_then_counts_the_rest() -> None:
    assert describe_changes([m.CreateSchema("s")] * 5, shown_max=1) == "create schema s, and 4 more"


@pytest.mark.parametrize(
    ("read", "words"),
    [
        (m.TableRead("main", "t"), "table main.t, all of it"),
        (m.TableRead("main", "t", (m.Predicate("a", m.FilterOp.IN, (1, 2)),)), "table main.t where a in (1, 2)"),
        (
            m.TableRead("main", "t", (m.Predicate("a", m.FilterOp.IN, tuple(range(5_010))),)),
            "table main.t where a in (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, and 5,000 more)",
        ),
        (m.TableRead("main", "t", (m.Predicate("a", m.FilterOp.IS_NULL),)), "table main.t where a is null"),
        (m.NameRead("main"), "the name main"),
        (m.NameRead("main", "t"), "the name main.t"),
        (m.RowsRead("main", "k", ({"id": 1},)), "1 row of table main.k"),
    ],
)
def test_describe_read_when_given_then_in_words(read: m.Read, words: str) -> None:
    assert describe_read(read) == words


def test_explain_when_a_delete_meets_one_of_the_same_file_then_row_granularity_is_the_way_out(
    log: InMemoryCommitLog,
) -> None:
    first, second = log.transaction(writer_id="ann"), log.transaction(writer_id="bob")
    first.delete("t", {0: [1]})
    second.delete("t", {0: [2]})
    first.commit()
    outcome = refused(log, second)
    assert "conflict_granularity to ROW" in str(way_out(outcome))
    assert f"read again at snapshot {outcome.head_snapshot_id}" in str(way_out(outcome))
    story = log.explain(second.proposal_id)
    assert "by writer bob" in story
    assert f"computed from snapshot {second.base_snapshot_id} under SNAPSHOT isolation" in story
    assert "snapshot 2 by writer ann deleted from file 0 since base" in story


def test_explain_when_a_read_meets_an_append_then_a_narrower_filter_is_the_way_out(log: InMemoryCommitLog) -> None:
    tx = log.transaction(isolation="SERIALIZABLE")
    tx.read("t")
    tx.create_schema("s")
    with log.transaction() as other:
        other.append("t", [FILE])
    assert "narrower filter" in str(way_out(refused(log, tx)))


def test_explain_when_rows_meet_then_a_policy_is_the_way_out(log: InMemoryCommitLog) -> None:
    with log.transaction() as tx:
        tx.create_table("k", {"id": "int64"}, primary_key=["id"])
    first, second = log.transaction(), log.transaction()
    for tx in (first, second):
        tx.insert_row("k", {"id": 1})
    first.commit()
    assert "LAST_UPDATE_WINS" in str(way_out(refused(log, second)))


@pytest.mark.parametrize("reason", [reason for reason in m.Reason if reason is not m.Reason.CONFLICT])
def test_way_out_when_refused_for_any_reason_then_there_is_advice(reason: m.Reason) -> None:
    outcome = m.Outcome(1, 0, m.Position(0, 0), 0, m.Verdict.REJECTED, 0, None, None, reason=reason)
    assert way_out(outcome)


def test_explain_when_too_late_then_says_until_when_it_was_asked_for() -> None:
    late = InMemoryCommitLog(clock_ms=lambda: 1_800_000_000_000)
    proposal = m.Proposal(new_proposal_id(), "w", 0, (m.CreateSchema("s"),), decide_before_ms=1_700_000_000_000)
    assert late.submit(proposal).reason is m.Reason.TOO_LATE
    story = late.explain(proposal.proposal_id)
    assert "Decided 2027-01-15 08:00:00 UTC as outcome 1: REJECTED, TOO_LATE" in story
    assert "it was to be decided before 2023-11-14 22:13:20 UTC (decide_before_ms)" in story


def test_explain_when_it_was_to_be_decided_before_any_year_of_pythons_then_says_so_in_milliseconds(
    log: InMemoryCommitLog,
) -> None:
    before_ms = m.TIME_US_MIN // 1000 + 1
    proposal = m.Proposal(new_proposal_id(), "w", 0, (m.CreateSchema("s"),), decide_before_ms=before_ms)
    assert log.submit(proposal).reason is m.Reason.TOO_LATE
    assert f"after decide_before_ms {before_ms}" in log.explain(proposal.proposal_id)


def test_explain_when_texts_would_steer_a_terminal_or_look_like_other_lines_then_they_are_written_out(
    log: InMemoryCommitLog,
) -> None:
    steering = "w\x1b[2J\nDecided 2026-01-01 as outcome 1: COMMITTED\u202e"
    settings = {steering: steering}
    for writer_id, message in ((steering, "x"), ("w", steering)):
        proposal = m.Proposal(new_proposal_id(), writer_id, 0, (m.Configure(settings),), message=message)
        assert log.submit(proposal).reason is m.Reason.INVALID
        lines = log.explain(proposal.proposal_id).split("\n")
        assert [line for line in lines if not line.isprintable()] == []
        assert [line for line in lines if line.startswith("Decided")] == [
            f"Decided {lines[4].removeprefix('Decided ')}"
        ]


def test_files_when_compacted_beside_an_alteration_then_their_statistics_go_by_the_names_of_the_base() -> None:
    log = InMemoryCommitLog()

    def commit(base: int, change: m.Change) -> None:
        receipt = log.submit(m.Proposal(new_proposal_id(), "w", base, (change,)))
        assert receipt.verdict is m.Verdict.COMMITTED, receipt.detail

    def file(path: str) -> m.DataFile:
        told = (m.ColumnStatistics("a", 1, 1, 0, 1), m.ColumnStatistics("b", 2, 2, 0, 1))
        return m.DataFile(path, 1, 100, statistics=told)

    commit(0, m.CreateTable("main", "t", (m.ColumnSpec("a", "int64"), m.ColumnSpec("b", "int64"))))
    commit(1, m.Append("main", "t", (file("first.parquet"),)))
    renamed = [("a", "x"), ("b", "a"), ("x", "b")]
    steps = tuple(m.Alteration(m.AlterOp.RENAME_COLUMN, name=old, new_name=new) for old, new in renamed)
    commit(2, m.AlterTable("main", "t", steps))
    commit(2, m.Compact("main", "t", (0,), (file("second.parquet"),)))
    contents = log._access.contents()
    table = contents.table_at("main", "t", 4)
    assert table is not None
    asked = m.Predicate("a", m.FilterOp.EQ, 2)
    assert [each.path.rpartition("/")[2] for each in contents.files_at(table, 4, where=[asked])] == ["second.parquet"]


def test_submit_when_invalid_then_answer_repeat_and_story_have_the_code(log: InMemoryCommitLog) -> None:
    proposal = m.Proposal(new_proposal_id(), "w", 0, (m.DropTable("main", "gone"),))
    first, again = log.submit(proposal), log.submit(proposal)
    assert (first.invalid_code, again.invalid_code, again.is_repeat) == ("TABLE_MISSING", "TABLE_MISSING", True)
    assert "REJECTED, INVALID (TABLE_MISSING), at head " in log.explain(proposal.proposal_id)
    assert ProposalRejectedError(first).invalid_code == "TABLE_MISSING"


def test_explain_when_fenced_without_an_epoch_then_says_what_is_missing(log: InMemoryCommitLog) -> None:
    assert log.open_writer("ann") == 1
    proposal = m.Proposal(new_proposal_id(), "ann", 0, (m.CreateSchema("s"),))
    assert log.submit(proposal).reason is m.Reason.WRITER_FENCED
    story = log.explain(proposal.proposal_id)
    assert "it names no writer epoch" in story
    assert "open the writer again" in story


def test_explain_when_committed_then_no_way_out_is_needed(log: InMemoryCommitLog) -> None:
    outcome = log.outcomes[0]
    assert outcome.proposal_id is not None
    story = log.explain(outcome.proposal_id)
    assert "COMMITTED as snapshot 1" in story
    assert "Way out" not in story


def test_explain_when_still_queued_then_says_so() -> None:
    status = commitlog.ProposalStatus(new_proposal_id(), OutcomeState.UNDECIDED)
    assert "not decided yet" in str(Explanation(status))


def test_explain_when_the_history_is_gone_then_the_advice_is_general(log: InMemoryCommitLog) -> None:
    first, second = log.transaction(writer_id="ann"), log.transaction(writer_id="bob")
    first.delete("t", {0: [1]})
    second.delete("t", {0: [2]})
    first.commit()
    refused(log, second)

    class Forgetful:
        def find(self, proposal_id: bytes) -> commitlog.ProposalStatus:
            return log.outcome(proposal_id)

        def state_before(self, seq: int) -> Any:
            raise HistoryUnavailableError(f"{seq} outcomes are too many")

    story = str(explain(Forgetful(), second.proposal_id.bytes))  # type: ignore[arg-type]
    assert "for fewer such conflicts, set the table's conflict_granularity to ROW" in story
    assert "could not be decided again to see what else would have helped: 3 outcomes are too many" in story


def test_explain_when_a_handler_would_decide_then_says_that_it_is_not_known() -> None:
    handled = InMemoryCommitLog(handlers={"f": lambda _, __, proposed: proposed})
    with handled.transaction() as tx:
        tx.create_table("k", {"id": "int64"}, primary_key=["id"], properties={"on_conflict": "handler:f"})
        tx.create_table("t", {"id": "int64"})
        tx.append("t", [FILE])
    first, second = handled.transaction(), handled.transaction()
    for tx in (first, second):
        tx.insert_row("k", {"id": 1})
        tx.delete("t", {0: [1 if tx is first else 2]})
    first.commit()
    refused(handled, second)
    story = handled.explain(second.proposal_id)
    assert (
        "conflict_granularity ROW for main.t may have passed: row handler f decides, and was not asked again" in story
    )


@pytest.mark.parametrize(
    ("statistics", "told"),
    [
        ({"min": 5, "max": 5}, "where id < 5 would have passed: the files appended since hold id 5"),
        ({"min": 5}, "where id < 5 would have passed: the files appended since hold id from 5 on"),
        ({"value_count": 0, "null_count": 10}, "the files appended since hold only NULL in id"),
        ({"max": 5}, "where id > 5 would have passed: the files appended since hold id up to 5"),
        (
            {},
            "a narrower filter would not have passed: the statistics of the appended files tell them apart in no column",
        ),
    ],
)
def test_explain_when_a_read_met_files_then_says_what_they_hold(
    log: InMemoryCommitLog, statistics: dict[str, Any], told: str
) -> None:
    with log.transaction() as tx:
        tx.create_table("u", {"id": "int64"})
    reading = log.transaction(isolation="SERIALIZABLE")
    reading.read("u")
    reading.create_schema("s")
    with log.transaction() as tx:
        tx.append("u", [m.DataFile("b", 10, 9, statistics=(m.ColumnStatistics("id", **statistics),))])
    refused(log, reading)
    assert told in log.explain(reading.proposal_id)


# --- row handlers -----------------------------------------------------------------------------------------------------


def test_dry_run_when_a_row_handler_is_installed_then_it_is_asked_as_the_sequencer_asks_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "their_handlers.py").write_text("def longest(kind, committed, proposed):\n    return proposed\n")
    metadata = tmp_path / "their_handlers-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: their-handlers\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[{ROW_HANDLERS_GROUP}]\nlongest = their_handlers:longest\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert "longest" in load_row_handlers()
    handled = InMemoryCommitLog(on_conflict="handler:longest")
    with handled.transaction() as tx:
        tx.create_table("k", {"id": "int64", "v": "varchar"}, primary_key=["id"])
    first, second = handled.transaction(), handled.transaction()
    first.insert_row("k", {"id": 1, "v": "a"})
    second.insert_row("k", {"id": 1, "v": "b"})
    first.commit()
    would_be = handled.dry_run(second)
    assert [each.action for each in would_be.resolutions] == [m.ResolutionAction.HANDLED]
    assert second.commit().committed
    assert handled.outcomes[-1].resolutions == would_be.resolutions


# --- misuse -----------------------------------------------------------------------------------------------------------


def test_append_when_given_one_path_then_says_that_it_takes_a_list(log: InMemoryCommitLog) -> None:
    with pytest.raises(TypeError, match=r"files=\['a.parquet'\]"):
        log.transaction().append("t", "a.parquet")


def test_transaction_when_isolation_is_unknown_then_says_which_there_are(log: InMemoryCommitLog) -> None:
    with pytest.raises(ValueError, match="serializable"):
        log.transaction(isolation="read committed")


def test_create_table_when_a_type_is_unknown_then_at_that_line(log: InMemoryCommitLog) -> None:
    with pytest.raises(ValueError, match=r"unknown type 'bigint'; the types are boolean, .* and struct"):
        log.transaction().create_table("x", {"a": "bigint"})


def test_create_table_when_a_type_is_written_in_several_lines_then_it_is_that_type(log: InMemoryCommitLog) -> None:
    lines = 'struct(\n    a int64,\n\t"b c" decimal(9, 2)[],\n    s struct("d""e" map(varchar, json))\n)\n'
    with log.transaction() as tx:
        tx.create_table("x", {"a": lines})
    with log.transaction() as tx:
        tx.alter("x").add_column("b", lines)
    assert {each.type for each in log.table("x").definition.columns} == {parse_type(lines)}
    with pytest.raises(ProposalRejectedError, match=r"U\+000A"), log.transaction() as tx:
        tx.create_table("y", {"a": 'struct("b\nc" int64)'})


def test_run_when_without_attempts_then_says_so(log: InMemoryCommitLog) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        log.run(lambda tx: None, attempts=0)


def test_run_when_every_attempt_conflicts_then_the_last_refusal(log: InMemoryCommitLog) -> None:
    calls: list[int] = []

    def always_late(tx: commitlog.Transaction) -> None:
        calls.append(1)
        with log.transaction() as other:
            other.alter("t").add_column(f"c{len(calls)}", "int64")
        tx.append("t", [FILE])

    with pytest.raises(ProposalRejectedError, match="CONFLICT"):
        log.run(always_late, attempts=3)
    assert len(calls) == 3


def test_run_when_its_base_is_given_then_a_conflict_is_met_once(log: InMemoryCommitLog) -> None:
    base, before = log.head_snapshot_id(), len(log.outcomes)
    with log.transaction() as other:
        other.alter("t").add_column("c", "int64")
    with pytest.raises(ProposalRejectedError, match="CONFLICT"):
        log.run(lambda tx: tx.append("t", [FILE]), base_snapshot_id=base)
    assert len(log.outcomes) == before + 2


def test_in_memory_log_when_the_process_goes_elsewhere_then_its_files_are_where_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    log = InMemoryCommitLog()
    log.append("t", [{"id": 1}], create=True)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    log.append("t", [{"id": 2}])
    assert log.table("t").scan().to_arrow()["id"].to_pylist() == [1, 2]
    assert not list(Path.cwd().iterdir())


def test_in_memory_log_when_given_an_unknown_setting_then_names_it() -> None:
    with pytest.raises(ConfigurationError, match="granularity"):
        InMemoryCommitLog(granularity="ROW")


def test_in_memory_log_when_given_settings_then_decides_by_them() -> None:
    log = InMemoryCommitLog(conflict_granularity=m.Granularity.ROW, clock_ms=lambda: 4_000_000_000_000)
    with log.transaction() as tx:
        tx.create_table("t", {"id": "int64"})
        tx.append("t", [FILE])
    first, second = log.transaction(), log.transaction()
    first.delete("t", {0: [1]})
    second.delete("t", {0: [2]})
    assert first.commit().committed
    assert second.commit().committed
    assert log.outcomes[-1].decided_at_ms == 4_000_000_000_000


@pytest.mark.parametrize("ask", [lambda log: log.schemas(), lambda log: log.live_files(1, ["a.parquet"])])
def test_in_memory_log_when_it_changes_in_another_thread_then_who_asks_waits(
    ask: Callable[[InMemoryCommitLog], object],
) -> None:
    log = InMemoryCommitLog()
    with ThreadPoolExecutor(1) as pool:
        # As long as the log is held, a commit may be on its way.
        with log.contents().at_once():
            asked = pool.submit(ask, log)
            with pytest.raises(TimeoutError):
                asked.result(0.2)
        assert asked.result(30) is not None


def test_in_memory_log_when_its_clock_is_years_behind_the_machines_then_commits_at_its_own_time() -> None:
    log = InMemoryCommitLog(clock_ms=lambda: 1_000_000_000_000)
    assert log.submit(m.Proposal(new_proposal_id(), "w", 0, (m.CreateSchema("s"),))).committed
    assert log.outcomes[-1].decided_at_ms == 1_000_000_000_000
    strict = InMemoryCommitLog(clock_ms=lambda: 1_000_000_000_000, clock_skew_ms_max=60_000)
    assert strict.submit(m.Proposal(new_proposal_id(), "w", 0, (m.CreateSchema("s"),))).reason is m.Reason.INVALID


def test_in_memory_log_when_its_clock_is_another_than_the_machines_then_ages_are_told_by_it() -> None:
    now_ms = 1_000_000_000_000
    log = InMemoryCommitLog(clock_ms=lambda: now_ms)
    with log.transaction() as tx:
        tx.create_table("t", {"id": "int64"}, primary_key=["id"])
    now_ms += 8 * 86_400_000
    with log.transaction() as tx:
        tx.insert_row("t", {"id": 1})
    assert (log.snapshot_at("7d"), log.snapshot_at("yesterday"), log.snapshot_at("0s")) == (1, 1, 2)
    assert log.table("t").scan(snapshot="7d").to_arrow().num_rows == 0
    assert ([each.seq for each in log.history(since="7d")], log.seq_before("7d")) == ([2], 1)
    with pytest.raises(InvalidRequestError, match=r"comes after now, 2001-09-17"):
        log.snapshot_at("2001-10-01")


def test_in_memory_log_when_its_clock_gives_no_whole_milliseconds_then_says_so() -> None:
    with pytest.raises(InvalidRequestError, match=r"what clock_ms returns must be a whole number from 0 on, not 1\.5"):
        InMemoryCommitLog(clock_ms=lambda: 1.5)


class _LookedAt(list[Any]):
    """Counts how often all of it is looked at."""

    times = 0

    def __iter__(self) -> Iterator[Any]:
        self.times += 1
        return super().__iter__()


def test_in_memory_log_when_a_row_changes_again_and_again_then_its_old_versions_are_not_looked_at() -> None:
    log = InMemoryCommitLog()
    with log.transaction() as tx:
        tx.create_table("t", {"id": "int64", "v": "int64"}, primary_key=["id"])
        tx.insert_row("t", {"id": 1, "v": 0})
    contents = log.contents()
    assert isinstance(contents, MemoryContents)
    [(table_id, rows)] = contents._rows.items()
    contents._rows[table_id] = looked_at = _LookedAt(rows)
    for version in range(1, 4):
        with log.transaction() as tx:
            tx.update_row("t", {"id": 1}, {"id": 1, "v": version})
    assert (len(looked_at), looked_at.times) == (4, 0)
    assert log.table("t").scan().to_arrow().to_pylist() == [{"id": 1, "v": 3}]
    with log.transaction() as tx:
        tx.delete_row("t", {"id": 1})
    assert log.table("t").scan().to_arrow().num_rows == 0
    assert log.table("t").scan(snapshot=2).to_arrow().to_pylist() == [{"id": 1, "v": 1}]


def test_log_when_a_setting_is_given_as_text_then_is_checked_and_taken() -> None:
    coarse = InMemoryCommitLog(conflict_granularity="TABLE")
    with coarse.transaction() as tx:
        tx.create_table("t", {"id": "int64"})
        tx.append("t", [FILE, FILE.replace(path="b.parquet")])
    first, second = coarse.transaction(), coarse.transaction()
    first.delete("t", {0: [1]})
    second.delete("t", {1: [2]})
    first.commit()
    assert refused(coarse, second).reason is m.Reason.CONFLICT
    with pytest.raises(ConfigurationError, match="TABLE, FILE or ROW"):
        InMemoryCommitLog(conflict_granularity="CELL")


def test_rows_when_no_more_are_changed_than_was_allowed_last_then_nobody_is_asked_for_the_limit(
    log: InMemoryCommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    with log.transaction() as tx:
        tx.create_table("keyed", {"id": "int64"}, primary_key=["id"])
    asked: list[m.LogSettings] = []
    newest = log.settings

    def ask() -> m.LogSettings:
        asked.append(newest)
        return newest

    monkeypatch.setattr(log.access, "newest_settings", ask)
    log.table("keyed").insert({"id": 1})
    log.table("keyed").upsert([{"id": 1}, {"id": 2}])
    assert not asked
    with pytest.raises(InvalidRequestError, match="changes_max"):
        log.table("keyed").insert([{"id": id_} for id_ in range(newest.changes_max + 1)])
    assert asked
