"""One answer for each proposal: duplicates, epochs, deadlines, bases, which reason comes first (rules.md 2, 12.8-9, 12.22)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from deciding import (
    START_MS,
    DecidedLog,
    append,
    change,
    compact,
    create_table,
    data_file,
    delete,
    delete_file,
    delete_row,
    delete_whole,
    insert,
    keyed_table,
    known_id,
    make_id,
    update,
)

from commitlog.domain.deciding.answers import receipt_for
from commitlog.domain.deciding.decide import decide
from commitlog.domain.model import MalformedProposal, Outcome, Position, Reason, Verdict
from commitlog.domain.model.ids import partition_for
from commitlog.domain.model.json_lines import parse_proposal
from commitlog.domain.state.replaying import replay


def flush(*row_ids: int) -> dict[str, Any]:
    """FLUSH of these rows into one file."""
    return change("FLUSH", "k", files=[{**data_file(len(row_ids)), "row_ids": list(row_ids)}])


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
    assert log.propose(open_writer=True).assigned.writer_epoch == 1
    again = log.propose(append(), writer_seq=7, id=make_id(60), writer_epoch=1)
    assert (again.verdict, again.original_seq) == (Verdict.DUPLICATE, first.seq)
    assert log.propose(append(), writer_seq=7, writer_id="w2").snapshot_id == 4
    assert log.propose(append(), writer_seq=8, id=make_id(60), writer_epoch=1).snapshot_id == 5
    late = log.propose(open_writer=True, writer_seq=7, writer_epoch=9, decide_before_ms=START_MS, base=99)
    assert (late.verdict, late.original_seq) == (Verdict.DUPLICATE, first.seq)
    log.refused("INVALID", open_writer=True, writer_seq=9)
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


def test_a_new_id_by_a_clock_that_is_behind_then_the_refusal_says_by_how_much_and_a_number_is_not_refused() -> None:
    log = DecidedLog(duplicate_window_outcomes=1, duplicate_window_ms=0)
    for number in range(1, 4):
        log.commit(create_table(f"t{number}"), id=make_id(number, START_MS + number), now_ms=START_MS + number)
    forgotten_ms = log.state.duplicates[0].expired_time_ms
    behind_ms = START_MS - 3_600_000
    refused = log.refused("PROPOSAL_EXPIRED", create_table("t4"), id=make_id(4, behind_ms), now_ms=START_MS + 5)
    detail = str(refused.detail)
    assert f"made at {behind_ms} ms, and those up to {forgotten_ms} ms" in detail
    assert "the writer's clock is behind" in detail
    log.commit(create_table("t4"), id=make_id(4, behind_ms), writer_seq=1, now_ms=START_MS + 5)


def test_an_id_from_the_future_then_does_not_shut_out_the_honest_ones_when_it_leaves_the_window() -> None:
    log = DecidedLog(duplicate_window_outcomes=1, duplicate_window_ms=0, clock_skew_ms_max=30)
    log.refused("INVALID", create_table(), id=make_id(1, START_MS + 10_000), now_ms=START_MS)
    for number in range(2, 8):
        log.propose(create_table(f"t{number}"), id=make_id(number, START_MS + number), now_ms=START_MS + number)
    assert log.head == 6
    assert log.state.duplicates[0].expired_time_ms < START_MS + 30


def skew(ms: int) -> dict[str, Any]:
    return {"kind": "CONFIGURE", "settings": {"clock_skew_ms_max": ms}}


def test_an_id_when_less_skew_is_allowed_after_it_committed_then_still_cannot_commit_again() -> None:
    log = DecidedLog(duplicate_window_outcomes=1, duplicate_window_ms=0, clock_skew_ms_max=10_000)
    log.commit(create_table("ahead"), id=(ahead := make_id(1, START_MS + 9_000)), now_ms=START_MS)
    log.commit(skew(30), id=make_id(2, START_MS + 1), now_ms=START_MS + 1)
    for number in range(3, 8):
        log.commit(create_table(f"t{number}"), writer_seq=number, now_ms=START_MS + number)
    log.commit({"kind": "DROP_TABLE", "schema": "main", "table": "ahead"}, writer_seq=8, now_ms=START_MS + 8)
    log.refused("PROPOSAL_EXPIRED", create_table("ahead"), id=ahead, now_ms=START_MS + 9_000)
    log.check_replay()


def test_an_id_when_more_skew_is_allowed_after_it_was_refused_for_that_then_does_not_shut_out_the_honest_ones() -> None:
    log = DecidedLog(duplicate_window_outcomes=1, duplicate_window_ms=0, clock_skew_ms_max=30)
    log.refused("INVALID", create_table(), id=make_id(1, START_MS + 9_000), now_ms=START_MS)
    # Refused for its name, and from the future all the same.
    log.refused("INVALID", create_table(), id=make_id(2, START_MS + 9_000), writer_id="", now_ms=START_MS)
    log.commit(skew(10_000), now_ms=START_MS + 2)
    for number in range(4, 9):
        log.commit(create_table(f"t{number}"), now_ms=START_MS + number)
    log.check_replay()


def test_epochs_then_the_lower_and_none_are_fenced_and_an_epoch_comes_from_the_log(log: DecidedLog) -> None:
    opened = log.propose(open_writer=True)
    assert (opened.assigned.writer_epoch, opened.snapshot_id) == (1, 2)
    unnamed = log.refused("WRITER_FENCED", append())
    assert unnamed.detail == "no writer_epoch is given, and since writer w1 was opened only its newest may write"
    log.commit(append(), writer_epoch=1)
    assert log.propose(open_writer=True).assigned.writer_epoch == 2
    older = log.refused("WRITER_FENCED", append(), writer_epoch=1)
    assert older.detail == "writer epoch 1 is below 2: a newer writer has taken over"
    log.refused("BASE_UNKNOWN", append(), writer_epoch=9, base=99)
    log.commit(append(), writer_epoch=2)
    assert log.propose(open_writer=True).assigned.writer_epoch == 3
    log.commit(append(), writer_id="other")
    log.refused("INVALID", append(), open_writer=True)
    log.refused("INVALID", open_writer=True, writer_seq=1)
    log.check_replay()


@pytest.mark.parametrize("epoch", [0, 1, 2**63 - 1])
def test_an_epoch_that_the_log_never_gave_then_invalid_and_raises_nothing(log: DecidedLog, epoch: int) -> None:
    detail = log.refused("INVALID", append(), writer_epoch=epoch).detail
    assert detail == f"writer epoch {epoch} was never given to writer w1: ask for one with open_writer"
    log.refused("INVALID", open_writer=True, writer_epoch=epoch)
    assert log.propose(open_writer=True).assigned.writer_epoch == 1
    log.refused("INVALID", append(), writer_epoch=2**63 - 1)
    log.commit(append(), writer_epoch=1)
    log.check_replay()


def test_a_refusal_whose_text_would_be_long_then_it_is_cut_short(log: DecidedLog) -> None:
    refused = log.refused("INVALID", create_table("u", columns="id " + "x" * 10_000))
    assert len(str(refused.detail)) == 2_000


# --- the content of a repetition --------------------------------------------------------------------------------------


def test_a_duplicate_then_it_says_whether_the_first_asked_for_the_same(log: DecidedLog) -> None:
    first = log.propose(append(data_file(4, path="a"), data_file(6)), id=make_id(70), author="me")
    assert (first.same_content, first.content_hash is None) == (None, False)
    again = append(data_file(10, path="b", file_size_bytes=7, footer_size=3))
    assert log.propose(again, id=make_id(70), created_at_ms=5, base=0).same_content is True
    assert log.propose(append(data_file(11)), id=make_id(70)).same_content is False
    assert log.propose(append(data_file(10), table="T"), id=make_id(70)).same_content is True
    assert log.propose(append(data_file(10), table="u"), id=make_id(70)).same_content is False
    assert log.propose(again, again, id=make_id(70)).same_content is False
    log.refused("INVALID", change("DROP_TABLE", "none"), id=make_id(71))
    assert log.propose(change("DROP_TABLE", "none"), id=make_id(71)).same_content is True
    assert log.propose(change("DROP_TABLE", "other"), id=make_id(71)).same_content is False
    log.check_replay()


def test_a_writers_seq_that_comes_again_then_its_content_is_compared_until_it_is_forgotten() -> None:
    log = DecidedLog(duplicate_window_outcomes=3, duplicate_window_ms=0)
    log.commit(create_table())
    log.commit(append(), writer_seq=7)
    assert log.propose(append(), writer_seq=7).same_content is True
    assert log.propose(append(data_file(11)), writer_seq=7).same_content is False
    for _ in range(4):
        log.commit(append())
    assert log.propose(append(data_file(11)), writer_seq=7).same_content is None


def comment(text: str, **more: str) -> dict[str, Any]:
    return change("ALTER_TABLE", alterations=[{"op": "SET_COMMENT", "comment": text}], **more)


def pairs_of_content() -> Iterator[tuple[list[dict[str, Any]], list[dict[str, Any]], bool, bool]]:
    """Two changesets, and whether they are the same content from one base, and from two."""
    yield [delete({0: [1, 2]})], [delete({0: [1, 2]})], True, True
    yield [delete({0: [1, 2]})], [delete({0: [1, 3]})], False, True
    yield [delete({0: [1, 1]})], [delete({0: [1, -1]})], False, True
    yield [delete_file(0, [1])], [delete_file(0, [2])], False, True
    yield [delete_whole(0)], [delete_whole(1)], False, True
    yield [delete_whole(0)], [delete_whole(0, table="k")], False, False
    yield [delete_whole(0), append()], [delete_whole(0), append(data_file(11))], False, True
    yield [compact([0], 10)], [compact([0], 9)], False, True
    yield [flush(0)], [flush(1)], False, True
    yield [insert(id=1, v="a")], [insert(v="a", id=1)], True, True
    yield [insert(id=1, v="a", time=3)], [insert(id=1, v="a", time=4)], True, True
    yield [insert(id=1, v="a")], [insert(id=1, v="b")], False, False
    yield [update(1, v="a")], [update(2, v="a")], False, False
    yield [insert(id=1, v="1")], [insert(id=1, v=1)], False, False
    yield [insert(id=1, v={"a": 1, "b": [2, "c"]})], [insert(id=1, v={"b": [2, "c"], "a": 1})], True, True
    yield [insert(id=1, v=["a", "b"])], [insert(id=1, v=["a,1:b"])], False, False
    yield [delete_row(1)], [delete_row(2)], False, False
    yield [comment("a")], [comment("a")], True, True
    yield [comment("a")], [comment("b")], False, False
    yield [comment("a")], [comment("a", table="T")], True, True
    yield [comment("a")], [comment("a", table="k")], False, False


@pytest.mark.parametrize(("first", "second", "from_one_base", "from_two"), list(pairs_of_content()))
def test_contents_when_computed_from_a_base_then_only_repetitions_from_that_base_are_compared(
    first: list[dict[str, Any]], second: list[dict[str, Any]], from_one_base: bool, from_two: bool
) -> None:
    log = DecidedLog()
    log.commit(create_table(), keyed_table())
    log.propose(*first, base=1, id=make_id(70))
    assert log.propose(*second, base=1, id=make_id(70)).same_content is from_one_base
    assert log.propose(*second, base=0, id=make_id(70)).same_content is from_two


def test_a_deadline_then_too_late_only_after_it(log: DecidedLog) -> None:
    log.commit(append(), decide_before_ms=START_MS + 100, now_ms=START_MS + 100)
    log.refused("TOO_LATE", append(), decide_before_ms=START_MS + 100, now_ms=START_MS + 101)


def test_a_base_beyond_the_head_then_unknown(log: DecidedLog) -> None:
    log.refused("BASE_UNKNOWN", append(), base=2)
    log.refused("INVALID", append(), base=-1)


def test_reasons_then_the_first_that_applies(log: DecidedLog) -> None:
    for _ in range(5):
        log.propose(open_writer=True)
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
