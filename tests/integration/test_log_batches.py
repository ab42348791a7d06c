"""A batch without a broker: what does not fit one message goes into several."""

from __future__ import annotations

from commitlog.domain import model as m
from commitlog.log.batches import packed_receipts
from commitlog.log.codec import decode_receipts


def test_receipts_when_too_large_for_one_message_then_split_and_none_is_lost() -> None:
    receipts = [
        m.Receipt(m.Position(2, i), i, b"I" * 16, m.Verdict.COMMITTED, i, i, None, None, m.Assigned(), 5)
        for i in range(20)
    ]
    packed = packed_receipts(receipts, b"L" * 16, 2, bytes_max=300)
    assert len(packed) > 1
    assert max(map(len, packed)) <= 300
    assert [receipt for each in packed for receipt in decode_receipts(each).receipts] == receipts
