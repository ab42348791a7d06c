"""What every log tells of its proposals and to whoever follows it, in memory and on a broker alike."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pytest
from making import ANYWHERE, ROWS, append, parquet, rejected

from commitlog.client import CommitLog, OutcomeState
from commitlog.client.ids import new_proposal_id
from commitlog.domain.model import Outcome, Proposal, Verdict
from commitlog.errors import (
    InvalidRequestError,
    OutcomeNotFoundError,
    SnapshotNotFoundError,
)


def test_outcome_when_never_sent_then_never_seen_up_to_a_position(log: CommitLog) -> None:
    status = log.outcome(new_proposal_id())
    assert status.state is OutcomeState.NEVER_SEEN
    assert status.positions


def test_outcome_when_decided_then_whole(log: CommitLog, table: str) -> None:
    with log.transaction(message="made here") as tx:
        tx.create_table(table, ROWS.schema, properties=ANYWHERE)
    status = log.outcome(str(tx.proposal_id))
    assert status.state is OutcomeState.DECIDED
    assert status.outcome is not None
    assert status.outcome.snapshot_id == tx.outcome.snapshot_id
    assert status.outcome.proposal is not None
    assert status.outcome.proposal.message == "made here"


def test_explain_when_refused_then_says_who_what_since_when_and_a_way_out(log: CommitLog, table: str) -> None:
    early = log.transaction(writer_id="bob")
    with log.transaction(writer_id="ann") as tx:
        tx.create_table(table, ROWS.schema, properties=ANYWHERE)
    early.create_table(table, ROWS.schema, properties=ANYWHERE)
    rejected(early)
    story = log.explain(early.proposal_id)
    assert f"create table main.{table} (2 columns)" in story
    assert "REJECTED, CONFLICT" in story
    assert "writer ann" in story
    assert f"snapshot {tx.outcome.snapshot_id}" in story
    assert "Way out: rebase" in story


def test_explain_when_refused_for_a_conflict_then_names_what_would_have_passed(
    log: CommitLog, table: str, tmp_path: Path
) -> None:
    with log.transaction() as tx:
        tx.create_table(table, ROWS.schema, properties={**ANYWHERE, "conflict_granularity": "FILE"})
    file = append(log, table, tmp_path)
    early, late = log.transaction(writer_id="ann"), log.transaction(writer_id="bob", isolation="SERIALIZABLE")
    late.read(table, filter=[("id", "<=", 12)])
    late.delete(table, {file: [2]})
    early.append(table, [parquet(tmp_path, pa.table({"id": [10, 11, 20], "day": ["x", "y", "z"]}))])
    early.delete(table, {file: [1]})
    early.commit()
    rejected(late)
    story = log.explain(late.proposal_id)
    assert log.explain(late.proposal_id) == story
    told = story[story.index("Way out") :].splitlines()
    assert told[0].startswith("Way out: rebase: read again at snapshot")
    assert told[0].endswith("from there even the same changes would have passed")
    assert told[2:6] == [
        "  - all of these together would have passed:",
        f"    - a read of main.{table} where id <= 12 and id < 10: the files appended since hold id from 10 to 20",
        f"    - a read of main.{table} that lists the files it opened: rows were deleted from file {file} only, so this "
        "helps if it was not opened",
        f"    - conflict_granularity ROW for main.{table}: then only changes to the same row get in each other's way",
    ]
    assert all("would not have passed" in line for line in told[6:])


def test_subscribe_when_after_a_seq_then_every_outcome_after_it_once_and_in_order(log: CommitLog, table: str) -> None:
    with log.transaction() as tx:
        tx.create_schema(table)
    assert tx.outcome.snapshot_id is not None
    invalid = log.transaction()
    invalid.drop_table(table)
    rejected(invalid)
    with log.transaction() as last:
        last.create_schema(f"{table}_2")
    seen = list(log.subscribe(after_seq=tx.outcome.seq, follow=False))
    assert [each.proposal_id for each in seen] == [invalid.proposal_id.bytes, last.proposal_id.bytes]
    refusal, _ = seen
    assert [each.proposal_id for each in log.subscribe(after_seq=refusal.seq, follow=False)] == [last.proposal_id.bytes]
    assert list(log.subscribe(after_seq=log.last_seq(), follow=False)) == []


def test_subscribe_when_the_position_is_none_then_says_so(log: CommitLog) -> None:
    for wrong in (None, -1, "7", 1.5, True):
        with pytest.raises(InvalidRequestError, match="after_seq must be a whole number from 0 on"):
            log.subscribe(wrong)  # type: ignore[arg-type]
    beyond = log.last_seq() + 1
    with pytest.raises(OutcomeNotFoundError, match=f"no outcome {beyond} yet"):
        next(log.subscribe(beyond, follow=False))


def test_subscribe_when_it_follows_then_outcomes_come_as_they_are_decided(log: CommitLog, table: str) -> None:
    with log.transaction() as first:
        first.create_schema(table)
    assert first.outcome.snapshot_id is not None
    follower = log.subscribe(first.outcome.seq)
    with ThreadPoolExecutor(1) as pool:
        seen = pool.submit(taken, follower, 2)
        for number in range(2):
            with log.transaction() as tx:
                tx.create_schema(f"{table}_{number}")
        assert [each.verdict for each in seen.result(timeout=60)] == [Verdict.COMMITTED] * 2


def taken(outcomes: Iterator[Outcome], count: int) -> list[Outcome]:
    return list(islice(outcomes, count))


def test_wait_for_snapshot_when_it_does_not_come_then_says_so(log: CommitLog) -> None:
    with pytest.raises(SnapshotNotFoundError):
        log.wait_for_snapshot(log.head_snapshot_id() + 1_000_000, timeout=0.05)


def test_open_writer_when_the_proposal_is_made_by_hand_then_the_epoch_is_assigned(log: CommitLog, table: str) -> None:
    proposal = Proposal(
        new_proposal_id(), writer_id=table, base_snapshot_id=log.head_snapshot_id(), changes=(), open_writer=True
    )
    assert log.submit(proposal).assigned.writer_epoch == 1
