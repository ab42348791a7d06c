"""A batch without a broker: what does not fit its topic is made to fit, and nothing that decides is lost by it."""

from __future__ import annotations

import pytest

from commitlog.domain import model as m
from commitlog.log import batches
from commitlog.log.batches import packed_receipts, shortened
from commitlog.log.codec import decode_receipts

REFUSED = m.Outcome(1, 1, m.Position(0, 0), 5, m.Verdict.REJECTED, 0, b"I" * 16, "w", reason=m.Reason.CONFLICT)
CONFLICT = m.Conflict(m.ConflictKind.ROW_CHANGED, 0, None, m.ConflictObject("main", "t"), 4)
RESOLUTION = m.Resolution(
    0,
    m.ConflictKind.UPDATE_UPDATE,
    m.ResolutionAction.HANDLED,
    "handler:x",
    m.ConflictObject("main", "t"),
    4,
    committed_row={"a": 1},
    proposed_row={"a": 2},
    row={"a": 3},
)


def test_outcome_when_too_large_then_images_go_first_and_the_row_that_stands_stays() -> None:
    given = REFUSED.replace(resolutions=(RESOLUTION,), conflicts=(CONFLICT,) * 4, conflict_count=9)
    first = shortened(given)
    assert first.resolutions == (RESOLUTION.replace(committed_row=None, proposed_row=None),)
    assert first.conflicts == given.conflicts
    second = shortened(first)
    assert (len(second.conflicts), second.conflict_count) == (2, 9)


def test_outcome_when_nothing_can_go_then_it_is_a_bug() -> None:
    with pytest.raises(AssertionError, match="does not fit"):
        shortened(REFUSED)


def test_receipts_when_too_large_for_one_message_then_split_and_none_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "RECEIPTS_BYTES_MAX", 300)
    receipts = [
        m.Receipt(m.Position(2, i), i, b"I" * 16, m.Verdict.COMMITTED, i, i, None, None, m.Assigned(), 5)
        for i in range(20)
    ]
    packed = packed_receipts(receipts, log_id=b"L" * 16, partition=2)
    assert len(packed) > 1
    assert max(map(len, packed)) <= 300
    assert [receipt for each in packed for receipt in decode_receipts(each).receipts] == receipts
