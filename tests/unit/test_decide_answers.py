"""One answer for each proposal: duplicates, epochs, deadlines, bases, and which reason comes first (DESIGN 2, 12.8-9, 22)."""

from __future__ import annotations

import pytest
from deciding import START_MS, DecidedLog, append, create_table, known_id, make_id

from commitlog.domain.json_form import parse_proposal
from commitlog.domain.model import MalformedProposal, Outcome, Position, Reason, Verdict
from commitlog.domain.partitioning import partition_for
from commitlog.domain.sequencing import decide, receipt_for, replay


@pytest.fixture
def log() -> DecidedLog:
    log = DecidedLog()
    log.commit(create_table())
    return log


def test_the_same_id_again_then_duplicate_with_the_first_answer_in_the_receipt(log: DecidedLog) -> None:
    first = log.propose(append(), id=make_id(50))
    again = log.propose(append(), append(), id=make_id(50))
    assert (again.verdict, again.snapshot_id, again.reason, again.original_seq) == ("DUPLICATE", None, None, first.seq)
    receipt = receipt_for(log.state, again)
    assert (receipt.answered_verdict, receipt.answered_snapshot_id) == ("COMMITTED", 2)
    assert log.head == 2


def test_a_refusal_again_then_duplicate_too(log: DecidedLog) -> None:
    first = log.refused("INVALID", append(table="none"), id=make_id(50))
    again = log.propose(append(), id=make_id(50))
    assert (again.verdict, again.original_seq) == (Verdict.DUPLICATE, first.seq)
    assert receipt_for(log.state, again).answered_reason == Reason.INVALID
    assert receipt_for(log.state, first).answered_reason is None


def test_a_writers_seq_again_then_duplicate_across_ids_and_epochs_but_a_refused_one_is_not_used_up(
    log: DecidedLog,
) -> None:
    log.refused("INVALID", append(table="none"), writer_seq=7)
    first = log.propose(append(), writer_seq=7)
    assert first.snapshot_id == 2
    again = log.propose(append(), writer_seq=7, id=make_id(60), writer_epoch=3)
    assert (again.verdict, again.original_seq) == (Verdict.DUPLICATE, first.seq)
    assert log.propose(append(), writer_seq=7, writer_id="w2").snapshot_id == 3
    assert log.propose(append(), writer_seq=8, id=make_id(60), writer_epoch=3).snapshot_id == 4
    log.check_replay()


def test_the_duplicate_window_then_an_id_leaves_when_enough_outcomes_and_time_have_passed() -> None:
    log = DecidedLog(duplicate_window_outcomes=2, duplicate_window_ms=10)
    log.commit(create_table(), id=make_id(1))
    for number in range(2, 5):
        log.commit(append(), id=make_id(number), now_ms=START_MS + 5)
    assert log.propose(append(), id=make_id(1), now_ms=START_MS + 5).verdict is Verdict.DUPLICATE
    log.commit(append(), id=make_id(20), now_ms=START_MS + 30)
    refused = log.refused("PROPOSAL_EXPIRED", append(), id=make_id(1), now_ms=START_MS + 31)
    assert "look its outcome up" in str(refused.detail)
    log.check_replay()


def test_an_id_from_the_future_then_does_not_shut_out_the_honest_ones_when_it_leaves_the_window() -> None:
    log = DecidedLog(duplicate_window_outcomes=1, duplicate_window_ms=0, clock_skew_ms_max=30)
    log.refused("INVALID", create_table(), id=make_id(1, START_MS + 10_000), now_ms=START_MS)
    for number in range(2, 8):
        log.propose(create_table(f"t{number}"), id=make_id(number, START_MS + number), now_ms=START_MS + number)
    assert log.head == 6
    assert log.state.duplicates[0].expired_time_ms < START_MS + 30


def test_epochs_then_the_lower_and_none_are_fenced_and_an_epoch_comes_from_the_log(log: DecidedLog) -> None:
    opened = log.propose(open_writer=True)
    assert (opened.assigned.writer_epoch, opened.snapshot_id) == (1, 2)
    log.refused("WRITER_FENCED", append())
    log.commit(append(), writer_epoch=1)
    assert log.propose(open_writer=True).assigned.writer_epoch == 2
    log.refused("WRITER_FENCED", append(), writer_epoch=1)
    log.refused("BASE_UNKNOWN", append(), writer_epoch=9, base=99)
    log.refused("WRITER_FENCED", append(), writer_epoch=2)
    assert log.propose(open_writer=True).assigned.writer_epoch == 10
    log.commit(append(), writer_id="other")
    log.refused("INVALID", append(), open_writer=True)
    log.refused("INVALID", open_writer=True, writer_seq=1)
    log.check_replay()


def test_a_deadline_then_too_late_only_after_it(log: DecidedLog) -> None:
    log.commit(append(), decide_before_ms=START_MS + 100, now_ms=START_MS + 100)
    log.refused("TOO_LATE", append(), decide_before_ms=START_MS + 100, now_ms=START_MS + 101)


def test_a_base_beyond_the_head_then_unknown(log: DecidedLog) -> None:
    log.refused("BASE_UNKNOWN", append(), base=2)
    log.refused("INVALID", append(), base=-1)


def test_reasons_then_the_first_that_applies(log: DecidedLog) -> None:
    log.commit(append(), writer_epoch=5, id=make_id(70))
    broken = {"table": "none"}
    assert log.propose(append(**broken), id=make_id(70), base=99).verdict is Verdict.DUPLICATE
    log.refused("WRITER_FENCED", append(**broken), base=99, decide_before_ms=0)
    log.refused("TOO_LATE", append(**broken), base=99, decide_before_ms=0, writer_epoch=5)
    log.refused("BASE_UNKNOWN", append(**broken), base=99, writer_epoch=5)
    log.refused("INVALID", create_table("x"), append(**broken), base=0, writer_epoch=5)


def test_an_id_from_the_future_or_in_another_partition_then_invalid(log: DecidedLog) -> None:
    log.refused("INVALID", append(), id=make_id(1, START_MS + 60_011), now_ms=START_MS + 10)
    log.commit(append(), id=make_id(1, START_MS + 60_010), now_ms=START_MS + 10)
    proposal = parse_proposal(
        f'{{"proposal_id": "{make_id(99)}", "writer_id": "w", "base_snapshot_id": 0, "changes": []}}'
    )
    assert not isinstance(proposal, MalformedProposal)
    outcome = decide(log.state, proposal, now_ms=START_MS, source=Position(1, 0))
    assert "belongs to partition 0" in str(outcome.detail)


def test_times_then_decided_never_falls_and_snapshots_strictly_rise(log: DecidedLog) -> None:
    late = log.propose(append(), now_ms=START_MS + 1000)
    early = log.propose(append(), now_ms=START_MS)
    assert early.decided_at_ms == late.decided_at_ms == START_MS + 1000
    assert early.snapshot_time_us == late.snapshot_time_us + 1


def test_texts_that_no_catalog_holds_then_invalid(log: DecidedLog) -> None:
    for field in ("author", "message", "extra", "writer_id"):
        log.refused("INVALID", append(), **{field: "a\0b"})
    log.refused("INVALID", append(), message="\ud800")
    log.refused("INVALID", append(), writer_id="")
    log.commit(append(), message="two\nlines\tand a tab")


GOOD = f'{{"proposal_id": "{make_id(1)}", "writer_id": "w1", "base_snapshot_id": 0, "changes": []}}'


@pytest.mark.parametrize(
    "line",
    [
        "",
        "no json",
        "[]",
        "1",
        GOOD[:-1],
        GOOD.replace('"w1"', "1"),
        GOOD.replace('"base_snapshot_id": 0', '"base_snapshot_id": 0.0'),
        GOOD.replace('"base_snapshot_id": 0', '"base_snapshot_id": true'),
        GOOD.replace('"base_snapshot_id": 0', '"base_snapshot_id": 9223372036854775808'),
        GOOD.replace('"base_snapshot_id": 0', '"base_snapshot_id": NaN'),
        GOOD.replace('"base_snapshot_id": 0, ', ""),
        GOOD.replace('"changes": []', '"changes": [], "colour": "red"'),
        GOOD.replace('"changes": []', '"changes": [{"kind": "EXPLODE"}]'),
        GOOD.replace('"changes": []', '"changes": [{"kind": "DROP_TABLE", "schema": "main"}]'),
        GOOD.replace('"changes": []', '"changes": [], "isolation": "CHAOS"'),
        GOOD.replace("-7000-", "-4000-"),
        GOOD.replace("-7000-", "_7000-"),
        b"\xff\xfe",
        b"[" * 100_000,
    ],
)
def test_a_line_that_is_no_proposal_then_malformed(line: str | bytes) -> None:
    parsed = parse_proposal(line)
    assert isinstance(parsed, MalformedProposal), parsed
    log = DecidedLog()
    outcome = decide(log.state, parsed, now_ms=0)
    replay(log.state, outcome)
    assert outcome.reason is Reason.MALFORMED
    assert outcome.detail


def test_a_malformed_line_decides_nothing_then_its_id_may_come_again() -> None:
    log = DecidedLog()
    bad = parse_proposal(GOOD.replace('"w1"', "1"))
    outcome: Outcome = decide(log.state, bad, now_ms=0)
    replay(log.state, outcome)
    assert outcome.proposal_id == known_id(make_id(1))
    assert log.propose(create_table(), id=make_id(1), base=0).snapshot_id == 1


def test_an_id_of_another_version_then_only_with_a_writer_seq(log: DecidedLog) -> None:
    text = make_id(1).replace("-7000-", "-4000-")
    assert log.propose(append(), id=text, writer_seq=1).snapshot_id == 2


@pytest.mark.parametrize(
    ("writer_id", "hashed"), [("21", -973932308), ("foobar", -790332482), ("a-little-bit-long-string", -985981536)]
)
def test_partition_then_as_javas_murmur2(writer_id: str, hashed: int) -> None:
    assert partition_for(writer_id, 1000) == (hashed & 0x7FFFFFFF) % 1000
