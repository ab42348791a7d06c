"""What becomes of a transaction and its files, on the log in memory: they stay while a commit may name them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from commitlog.client import CommitLog, OutcomeState, Transaction
from commitlog.client.files import outside, removing
from commitlog.client.files.new_files import NewFiles
from commitlog.domain import model as m
from commitlog.errors import (
    CatalogUnavailableError,
    CommitLogError,
    DataFileError,
    InvalidRequestError,
    LogUnavailableError,
    OutcomeUnknownError,
    ProposalRejectedError,
    ProposalTooLargeError,
    ResultsTrimmedError,
)
from commitlog.testing import InMemoryCommitLog

ROWS = [{"id": 1}, {"id": 2}]


@pytest.fixture
def log(tmp_path: Path) -> InMemoryCommitLog:
    """A log with an empty table t."""
    made = InMemoryCommitLog(data_path=tmp_path / "lake")
    with made.transaction() as tx:
        tx.create_table("t", {"id": "int64"})
    return made


@pytest.fixture
def files(tmp_path: Path) -> Callable[[], list[Path]]:
    """The files of the lake by now."""
    return lambda: sorted((tmp_path / "lake").rglob("*.parquet"))


def appending(log: InMemoryCommitLog, **options: Any) -> Transaction:
    tx = log.transaction(**options)
    tx.append("t", ROWS)
    return tx


def rows(log: InMemoryCommitLog) -> list[Any]:
    found: list[Any] = log.table("t").scan().to_arrow().to_pylist()
    return found


@pytest.fixture
def away(log: InMemoryCommitLog, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The broker does not answer, until this is undone."""

    def fails(*_: Any, **__: Any) -> None:
        raise LogUnavailableError("k:1")

    monkeypatch.setattr(log._memory, "send", fails)
    return monkeypatch


# --- what may be, or may become, committed ----------------------------------------------------------------------------


def test_block_when_a_forked_process_leaves_it_by_an_exception_then_the_parent_commits_its_files(
    log: InMemoryCommitLog,
) -> None:
    with log.transaction() as tx:
        tx.append("t", ROWS)
        child = os.fork()
        if child == 0:
            try:
                tx.__exit__(SystemExit, SystemExit(), None)
            finally:
                os._exit(0)
        os.waitpid(child, 0)
    assert rows(log) == ROWS


def test_commit_when_nothing_was_sent_then_done_again_it_commits_what_was_written(
    log: InMemoryCommitLog, away: pytest.MonkeyPatch
) -> None:
    tx = appending(log)
    with pytest.raises(LogUnavailableError):
        tx.commit()
    away.undo()
    assert tx.commit().committed
    assert rows(log) == ROWS


def test_commit_when_it_is_unknown_and_then_nothing_can_be_sent_then_the_files_stay(
    log: InMemoryCommitLog, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    tx = appending(log)
    log.lose_next_answer()
    with pytest.raises(OutcomeUnknownError):
        tx.commit()
    request.getfixturevalue("away")
    with pytest.raises(LogUnavailableError):
        tx.commit()
    tx.discard()
    assert rows(log) == ROWS
    monkeypatch.undo()
    assert tx.commit().is_repeat
    assert rows(log) == ROWS


def test_append_when_the_table_is_made_by_a_name_in_another_case_then_its_files_are_where_it_is(tmp_path: Path) -> None:
    log = InMemoryCommitLog(data_path=tmp_path)
    with log.transaction() as tx:
        tx.create_table("main.T", {"id": "int64"})
        tx.append("Main.t", ROWS)
    assert rows(log) == ROWS


def test_commit_when_it_is_unknown_and_its_id_has_expired_then_the_first_answer_and_the_files_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1_800_000_000_000]
    log = InMemoryCommitLog(
        data_path=tmp_path, clock_ms=lambda: now[0], duplicate_window_outcomes=1, duplicate_window_ms=60_000
    )
    log.append("t", [{"id": 0}], create=True)
    tx = appending(log)
    log.lose_next_answer()
    with pytest.raises(OutcomeUnknownError):
        tx.commit()
    for _ in range(3):
        now[0] += 10_000_000
        log.append("t", [{"id": 3}])
    with monkeypatch.context() as patched:
        patched.setattr(log.access, "find", _catalog_is_away)
        with pytest.raises(OutcomeUnknownError):
            tx.commit()
    assert tx.commit().is_repeat
    assert len(rows(log)) == 6


def _catalog_is_away(_: bytes) -> NoReturn:
    raise CatalogUnavailableError("postgresql://here")


def test_commit_when_it_is_unknown_and_was_refused_then_the_files_are_gone(
    log: InMemoryCommitLog, files: Callable[[], list[Path]]
) -> None:
    tx = appending(log, decide_before_ms=1)
    log.lose_next_answer()
    with pytest.raises(OutcomeUnknownError):
        tx.commit()
    assert files()
    with pytest.raises(ProposalRejectedError, match="TOO_LATE"):
        tx.commit()
    assert not files()


def test_commit_when_the_first_answer_cannot_be_looked_up_then_unknown_and_the_files_stay(
    log: InMemoryCommitLog, monkeypatch: pytest.MonkeyPatch, files: Callable[[], list[Path]]
) -> None:
    log.append("t", [{"id": 0}], writer_id="w", writer_seq=1)

    def fails(seq: int) -> None:
        raise CatalogUnavailableError("p:1")

    monkeypatch.setattr(log._memory, "outcome_at", fails)
    tx = appending(log, writer_id="w", writer_seq=1)
    with pytest.raises(OutcomeUnknownError):
        tx.commit()
    assert len(files()) == 2


def test_commit_when_the_results_of_the_first_answer_are_trimmed_then_it_is_told_by_what_the_catalog_knows(
    log: InMemoryCommitLog, monkeypatch: pytest.MonkeyPatch, files: Callable[[], list[Path]]
) -> None:
    first = log.append("t", [{"id": 0}], writer_id="w", writer_seq=1)
    assert first is not None

    def fails(seq: int) -> None:
        raise ResultsTrimmedError("log", seq=10, archive="a", asked_seq=seq)

    monkeypatch.setattr(log._memory, "outcome_at", fails)
    known = log._memory.outcomes[first.seq - 1].replace(proposal=None)
    monkeypatch.setattr(log._memory, "committed_as", lambda writer_id, writer_seq: known)
    again = appending(log, writer_id="w", writer_seq=1).commit()
    assert (again.is_repeat, again.snapshot_id) == (True, first.snapshot_id)
    assert len(files()) == 2


def test_commit_when_it_is_refused_and_its_files_cannot_be_removed_then_the_refusal_is_told(
    log: InMemoryCommitLog, files: Callable[[], list[Path]], caplog: pytest.LogCaptureFixture
) -> None:
    tx = appending(log, decide_before_ms=1)
    [file] = files()
    file.unlink()
    file.mkdir()
    with pytest.raises(ProposalRejectedError, match="TOO_LATE"):
        tx.commit()
    assert f"{file} is needed by nobody any more, and cannot be removed" in caplog.text


# --- what is given up -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "use",
    [
        Transaction.commit,
        Transaction.hand_over,
        Transaction.__enter__,
        lambda tx: tx.append("t", ROWS),
        lambda tx: tx.read("t"),
    ],
)
def test_transaction_when_its_block_has_failed_then_it_says_that_it_was_given_up(
    log: InMemoryCommitLog, files: Callable[[], list[Path]], use: Callable[[Transaction], object]
) -> None:
    tx = log.transaction()

    def fails() -> None:
        with tx:
            tx.append("t", ROWS)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert not files()
    with pytest.raises(
        InvalidRequestError, match="given up, and what was written for it is removed: begin another one"
    ):
        use(tx)


@pytest.mark.parametrize("send", [lambda log, tx: log.submit_async(tx), lambda log, tx: list(log.publish_many([tx]))])
def test_transaction_when_nothing_of_it_was_sent_then_it_can_be_sent_yet_or_given_up(
    log: InMemoryCommitLog, files: Callable[[], list[Path]], send: Callable[[CommitLog, Transaction], object]
) -> None:
    with log.transaction() as tx:
        tx.configure(changes_max=1)
    late, lost = log.transaction(), log.transaction()
    for tx in (late, lost):
        tx.append("t", ROWS)
        tx.append("t", ROWS)
        with pytest.raises(InvalidRequestError, match="more than the log's limit"):
            send(log, tx)
    lost.discard()
    assert len(files()) == 2
    with log.transaction() as tx:
        tx.configure(changes_max=2)
    send(log, late)
    assert log.outcome(late.proposal_id).state is OutcomeState.DECIDED
    assert len(files()) == 2


def test_transaction_when_it_is_given_up_within_its_block_then_that_ends_well(
    log: InMemoryCommitLog, files: Callable[[], list[Path]]
) -> None:
    with log.transaction() as tx:
        tx.append("t", ROWS)
        tx.discard()
    assert not files()
    assert log.outcome(tx.proposal_id).state is OutcomeState.NEVER_SEEN


def test_transaction_when_nothing_was_sent_at_the_end_of_its_block_then_its_files_are_gone(
    log: InMemoryCommitLog, away: pytest.MonkeyPatch, files: Callable[[], list[Path]]
) -> None:
    tx = log.transaction()
    with pytest.raises(LogUnavailableError), tx:
        tx.append("t", ROWS)
    assert not files()
    away.undo()
    with pytest.raises(InvalidRequestError, match="given up"):
        tx.commit()


def test_transaction_when_its_block_ends_unknown_then_it_can_be_sent_again(log: InMemoryCommitLog) -> None:
    tx = log.transaction()
    log.lose_next_answer()
    with pytest.raises(OutcomeUnknownError), tx:
        tx.append("t", ROWS)
    assert tx.commit().is_repeat
    assert rows(log) == ROWS


@pytest.mark.parametrize(
    "write",
    [
        lambda log, _: log.run(lambda tx: tx.append("t", ROWS)),
        lambda log, _: log.append("t", ROWS),
        lambda log, outside: log.append("t", files=[outside]),
        lambda log, _: log.table("t").overwrite(ROWS, where=True),
    ],
)
@pytest.mark.parametrize("error", [LogUnavailableError("k:1"), ProposalTooLargeError(2, 1)])
def test_write_when_nothing_was_sent_then_its_files_are_gone(
    log: InMemoryCommitLog,
    monkeypatch: pytest.MonkeyPatch,
    files: Callable[[], list[Path]],
    tmp_path: Path,
    write: Callable[[InMemoryCommitLog, Path], object],
    error: CommitLogError,
) -> None:
    outside = tmp_path / "outside.parquet"
    pq.write_table(pa.Table.from_pylist(ROWS), outside)

    def fails(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(log._memory, "send", fails)
    with pytest.raises(type(error)):
        write(log, outside)
    assert not files()


@pytest.mark.parametrize("error", [OSError("the connection was lost"), KeyboardInterrupt()])
def test_file_from_outside_when_a_store_has_taken_a_part_of_it_then_that_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    place, folder = tmp_path / "outside.parquet", tmp_path / "t"
    place.write_bytes(b"content")
    folder.mkdir()

    def breaks_off(_: str, to: str, **__: Any) -> None:
        Path(to).write_bytes(b"con")
        raise error

    for module in (outside, removing):
        monkeypatch.setattr(module, "filesystem_of", lambda at: (fs.LocalFileSystem(), at.removeprefix("store://")))
    monkeypatch.setattr(fs, "copy_files", breaks_off)
    with pytest.raises(DataFileError if isinstance(error, OSError) else KeyboardInterrupt):
        outside.bring(str(place), "t", f"store://{folder}/", NewFiles())
    assert list(folder.iterdir()) == []


def test_file_from_outside_when_nobody_will_write_over_it_then_it_need_not_be_copied(tmp_path: Path) -> None:
    place = tmp_path / "outside.parquet"
    place.write_bytes(b"content")
    brought = [
        outside.bring(str(place), "t", f"{tmp_path}/t/", NewFiles(), is_final=is_final) for is_final in (False, True)
    ]
    assert [Path(each).samefile(place) for each in brought] == [False, True]
    assert [Path(each).read_bytes() for each in brought] == [b"content"] * 2


def test_log_in_memory_when_it_is_closed_then_commits_nothing_as_a_real_one(log: InMemoryCommitLog) -> None:
    tx = appending(log)
    log.close()
    with pytest.raises(InvalidRequestError, match="the log was closed"):
        tx.commit()
    assert len(log.outcomes) == 1


def test_scan_of_a_log_in_memory_when_that_was_closed_then_reads_nothing_as_of_a_real_one(tmp_path: Path) -> None:
    log = InMemoryCommitLog(data_path=tmp_path)
    log.append("t", [{"id": 1}], create=True)
    scan = log.table("t").scan()
    log.close()
    for read in (scan.to_arrow, scan.count, scan.files):
        with pytest.raises(InvalidRequestError, match="the log was closed"):
            read()


def test_rows_beside_alterations_of_their_table_then_each_has_the_columns_that_it_was_written_with(
    tmp_path: Path,
) -> None:
    log = InMemoryCommitLog(data_path=tmp_path)
    with log.transaction() as tx:
        tx.create_table("k", {"id": "int64", "v": "varchar"}, primary_key=["id"])
    with log.transaction() as tx:
        tx.insert_row("k", {"id": 1, "v": "a"})
        tx.alter("k").rename_column("v", "w")
        tx.insert_row("k", {"id": 2, "w": "b"})
        tx.alter("k").drop_column("w")
        tx.alter("k").add_column("v", "int64", default="5")
        tx.insert_row("k", {"id": 3, "v": 6})
    assert log.table("k").scan().to_arrow().to_pylist() == [{"id": 1, "v": 5}, {"id": 2, "v": 5}, {"id": 3, "v": 6}]


def test_transaction_when_views_or_comments_have_their_options_then_the_log_is_told_them(
    log: InMemoryCommitLog,
) -> None:
    with log.transaction() as tx:
        tx.create_view("v", "SELECT 1 AS a", dialect="trino", if_not_exists=True)
    with log.transaction() as tx:
        tx.replace_view("v", "SELECT 2 AS a", dialect="spark")
    with log.transaction() as tx:
        tx.create_view("v", "SELECT 3 AS a", if_not_exists=True)
        tx.drop_view("w", if_exists=True)
    assert [each.skipped for each in log.outcomes[-1].effects] == [True, True]
    sent = [change for each in log.outcomes[-3:-1] if each.proposal is not None for change in each.proposal.changes]
    assert sent == [
        m.CreateView("main", "v", "SELECT 1 AS a", "trino", True),
        m.ReplaceView("main", "v", "SELECT 2 AS a", "spark"),
    ]
    with log.transaction() as tx:
        tx.alter("t").set_comment("of the table").set_comment("of the column", column="id")
    found = log.table("t").at().definition
    assert (found.comment, found.column("id").comment) == ("of the table", "of the column")
    with log.transaction() as tx:
        tx.alter("t").set_comment(None, column="ID")
    found = log.table("t").at().definition
    assert (found.comment, found.column("id").comment) == ("of the table", None)
