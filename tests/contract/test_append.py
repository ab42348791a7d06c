"""`log.append`: a commit that relies on nothing that was read, in memory and on a broker alike."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from commitlog.client import CommitLog
from commitlog.client.ids import new_proposal_id
from commitlog.domain.model import Reason, Verdict
from commitlog.errors import DataFileError, InvalidRequestError, ProposalRejectedError, TableNotFoundError

ROWS = pa.table({"id": [1, 2, 3]})
WIDER = pa.table({"id": [1, 2, 3], "v": ["a", "b", "c"]})
COLUMNS = {"id": "int64"}


def create(log: CommitLog, table: str) -> None:
    with log.transaction() as tx:
        tx.create_table(table, COLUMNS)


def new_file(log: CommitLog, table: str, rows: pa.Table = ROWS) -> str:
    path = log.new_file(table)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, path)
    return path


def messages_of(log: CommitLog, table: str) -> list[str]:
    """The messages of what was committed by the writers of a table."""
    return [
        outcome.proposal.message or ""
        for outcome in log.subscribe(follow=False)
        if outcome.verdict is Verdict.COMMITTED and outcome.proposal is not None and table in outcome.proposal.writer_id
    ]


def test_append_when_called_again_and_again_then_each_is_a_commit(log: CommitLog, table: str) -> None:
    create(log, table)
    outcomes = [
        log.append(table, [new_file(log, table)], message=f"load {n}", writer_id=f"{table}-w") for n in range(3)
    ]
    assert len({outcome.snapshot_id for outcome in outcomes}) == 3
    assert all(len(outcome.assigned.data_file_ids) == 1 for outcome in outcomes)
    assert messages_of(log, table) == ["load 0", "load 1", "load 2"]
    assert log.head_snapshot_id() >= max(outcome.snapshot_id or 0 for outcome in outcomes)


def test_append_when_another_program_has_altered_the_table_then_judged_by_what_it_is_now(
    log: CommitLog, other: CommitLog, table: str
) -> None:
    create(log, table)
    log.append(table, [new_file(log, table)])
    with other.transaction() as tx:
        tx.alter(table).add_column("v", "varchar")
    # What fits the old table and the new one, and what fits the new one alone.
    assert log.append(table, [new_file(log, table)]).committed
    with other.transaction() as tx:
        tx.alter(table).add_column("w", "varchar")
    assert log.append(table, [new_file(log, table, WIDER.append_column("w", [["x", "y", "z"]]))]).committed
    with other.transaction() as tx:
        tx.alter(table).drop_column("v")
    with pytest.raises(DataFileError, match="v"):
        log.append(table, [new_file(log, table, WIDER)])


def test_append_when_another_program_has_dropped_the_table_then_says_so(
    log: CommitLog, other: CommitLog, table: str
) -> None:
    create(log, table)
    path = new_file(log, table)
    log.append(table, [new_file(log, table)])
    with other.transaction() as tx:
        tx.drop_table(table)
    with pytest.raises(TableNotFoundError):
        log.append(table, [path])
    with pytest.raises(TableNotFoundError):
        log.append(f"{table}_never", [path])


def test_append_when_the_table_was_made_again_then_goes_to_the_new_one(
    log: CommitLog, other: CommitLog, table: str
) -> None:
    create(log, table)
    log.append(table, [new_file(log, table)])
    old = log.table(table).definition.table_id
    with other.transaction() as tx:
        tx.drop_table(table)
    create(other, table)
    assert log.append(table, [new_file(log, table)]).committed
    assert log.table(table).definition.table_id != old


def test_append_when_a_file_is_named_twice_then_refused_though_nothing_was_read(log: CommitLog, table: str) -> None:
    create(log, table)
    path = new_file(log, table)
    log.append(table, [path])
    log.head_snapshot_id()
    with pytest.raises(DataFileError, match=r"is in table .* already"):
        log.append(table, [path])
    with pytest.raises(DataFileError, match="named twice"):
        log.append(table, [new := new_file(log, table), new])


def test_append_when_given_an_id_then_sent_once_under_it(log: CommitLog, table: str) -> None:
    create(log, table)
    proposal_id, path = new_proposal_id(), new_file(log, table)
    first = log.append(table, [path], proposal_id=proposal_id)
    again = log.append(table, [path], proposal_id=proposal_id)
    assert (again.is_repeat, again.snapshot_id) == (True, first.snapshot_id)
    assert again.committed


def test_append_when_its_id_is_sent_again_by_a_process_without_a_name_then_is_the_same_commit(
    log: CommitLog, unnamed: Callable[[], CommitLog], table: str
) -> None:
    create(log, table)
    proposal_id, path = new_proposal_id(), new_file(log, table)
    first = unnamed().append(table, [path], proposal_id=proposal_id)
    # The names of processes are spread over all partitions, each of which remembers the ids of its own proposals.
    for again in (unnamed().append(table, [path], proposal_id=proposal_id) for _ in range(4)):
        assert (again.is_repeat, again.snapshot_id) == (True, first.snapshot_id)


def test_transaction_when_an_id_and_a_number_are_given_without_a_name_then_asks_for_one(
    log: CommitLog, unnamed: Callable[[], CommitLog]
) -> None:
    proposal_id, connected = new_proposal_id(), unnamed()
    for numbered in ({"writer_seq": 1}, {"writer_epoch": 1}):
        with pytest.raises(InvalidRequestError, match="give writer_id="):
            connected.transaction(proposal_id=proposal_id, **numbered)
        assert connected.transaction(proposal_id=proposal_id, writer_id="w", **numbered).proposal().writer_id == "w"
    with pytest.raises(InvalidRequestError, match="give writer_id="):
        connected.open_writer(proposal_id=proposal_id)
    assert log.transaction(proposal_id=proposal_id).proposal().writer_id == log.writer_id
    assert len({unnamed().transaction(proposal_id=proposal_id).proposal().writer_id for _ in range(2)}) == 1
    assert connected.transaction().proposal().writer_id == connected.writer_id


def test_append_when_a_writers_seq_is_repeated_then_is_the_same_commit(log: CommitLog, table: str) -> None:
    create(log, table)
    path, writer = new_file(log, table), f"{table}-{uuid.uuid4().hex[:6]}"
    first = log.append(table, [path], writer_id=writer, writer_seq=1)
    again = log.append(table, [path], writer_id=writer, writer_seq=1)
    assert (again.is_repeat, again.snapshot_id) == (True, first.snapshot_id)


def test_append_when_refused_for_what_checking_again_does_not_mend_then_once(log: CommitLog, table: str) -> None:
    create(log, table)
    log.append(table, [new_file(log, table)])
    with pytest.raises(ProposalRejectedError) as raised:
        log.append(table, [new_file(log, table)], decide_before_ms=1)
    assert raised.value.outcome.reason is Reason.TOO_LATE


def test_append_when_told_what_it_relies_on_then_says_to_use_a_transaction(log: CommitLog, table: str) -> None:
    create(log, table)
    with pytest.raises(InvalidRequestError, match="transaction"):
        log.append(table, [new_file(log, table)], base_snapshot_id=1)
    with pytest.raises(InvalidRequestError, match="transaction"):
        log.append(table, [new_file(log, table)], isolation="serializable")


def test_append_when_given_rows_as_files_or_no_attempt_then_says_what_to_do_before_anything_is_sent(
    log: CommitLog, table: str
) -> None:
    create(log, table)
    log.append(table, [new_file(log, table)])
    with pytest.raises(InvalidRequestError, match="write its rows to a file first"):
        log.append(table, files=ROWS)  # type: ignore[arg-type]
    with pytest.raises(InvalidRequestError, match="write its rows to a file first"):
        log.append(table, files=ROWS.to_pandas())
    path, seq = new_file(log, table), log.last_seq()
    with pytest.raises(InvalidRequestError, match="at least 1"):
        log.append(table, [path], attempts=0)
    assert log.last_seq() == seq
