"""The duplicate window gives back what it was given, packed or not, saved or not."""

from __future__ import annotations

from random import Random

import pytest

from commitlog.domain.model import Reason, Verdict
from commitlog.domain.state.duplicates import Answer, DuplicateWindow, RememberedId

WRITERS = ("w", "", "größer", "\udc80 half a character", "x" * 200)


def _fields(each: RememberedId) -> tuple[object, ...]:
    return (
        each.proposal_id, each.writer_id, each.writer_seq, each.decided_at_ms, each.number, *_answered(each.answer),
        each.is_from_future,
    )  # fmt: skip


def _answered(answer: Answer | None) -> tuple[object, ...]:
    assert answer is not None
    return answer.seq, answer.verdict, answer.snapshot_id, answer.reason, answer.detail, answer.content_hash


def _random_answer(random: Random, seq: int) -> Answer:
    if random.random() < 0.5:
        return Answer(
            seq, Verdict.COMMITTED, random.choice((0, 1, 2**53)), None, None, random.choice((None, 0, -(2**63)))
        )
    return Answer(seq, Verdict.REJECTED, None, random.choice(list(Reason)), random.choice((None, "", "why")), 2**63 - 1)


@pytest.mark.parametrize("seed", range(20))
def test_a_window_when_ids_come_and_go_then_it_holds_what_it_was_given(seed: int) -> None:
    random, window = Random(seed), DuplicateWindow()
    given: list[RememberedId] = []
    for number in range(1, 300):
        window.outcomes += 1
        if random.random() < 0.9:
            answer = _random_answer(random, number)
            proposal_id, writer_id = random.randbytes(16), random.choice(WRITERS)
            writer_seq = random.choice((None, 0, 2**62))
            is_from_future = random.random() < 0.5
            given.append(RememberedId(proposal_id, writer_id, writer_seq, number // 3, number, answer, is_from_future))
            window.remember(proposal_id, writer_id, writer_seq, number // 3, answer, is_from_future)
        outcomes, before_ms = random.randint(0, 60), number // 3 - random.randint(-1, 20)
        while (gone := window.forget_oldest(outcomes, before_ms)) is not None:
            first = given.pop(0)
            assert _fields(gone) == _fields(first)
            assert number - first.number > outcomes
            assert first.decided_at_ms < before_ms
            assert window.answer(first.proposal_id) is None
        assert not given or number - given[0].number <= outcomes or given[0].decided_at_ms >= before_ms
        if random.random() < 0.1:
            saved = DuplicateWindow(window.outcomes, window.expired_time_ms, window.newest_id)
            saved.load(*window.dump())  # type: ignore[arg-type]
            window = saved
        assert [_fields(each) for each in window.remembered()] == [_fields(each) for each in given]
    assert given
    assert all(_answered(window.answer(each.proposal_id)) == _answered(each.answer) for each in given)
