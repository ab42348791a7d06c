"""What the active sequencer may believe of reports that come late, out of order, or not at all."""

from __future__ import annotations

import pytest
from chains import LOG_ID, Written, takeover

from commitlog.errors import FencedError
from commitlog.log.chain import Chain, ChainState
from commitlog.log.codec import hash_record
from commitlog.log.reports import Report
from commitlog.log.serving import DoubtError, SentBatch, Serving, TakeoverAttempt, Telling


class Active:
    """An active sequencer of epoch 1 whose log ends with its takeover, at offset 1."""

    def __init__(self, *, in_flight_max: int = 3) -> None:
        self.log = Written()
        self.log.take_over()
        self.serving = Serving(
            ChainState(LOG_ID, 1, b"I" * 16, 0, self.log.hash), next_offset=2, in_flight_max=in_flight_max
        )

    def send(self, count: int, *, now_s: float = 0.0) -> SentBatch:
        made = self.log.next_outcomes(count)
        self.log.seq, self.log.hash = self.log.seq + count, hash_record(made[-1])
        return self.serving.sent(made, seq=self.log.seq, hash=self.log.hash, letters=(), now_s=now_s)

    def report(self, batch: SentBatch, *offsets: int) -> None:
        for index, offset in enumerate(offsets):
            self.serving.reported(batch, index, Report(offset))

    def accepted(self) -> list[int]:
        return [batch.seq for batch in self.serving.judge()]


def test_batches_when_reported_in_any_order_then_accepted_in_the_order_of_sending() -> None:
    active = Active()
    first, second, third = active.send(2), active.send(1), active.send(3)
    assert not active.serving.may_send
    active.report(second, 4)
    active.report(third, 5, 6, 7)
    assert active.accepted() == []
    active.report(first, 2, 3)
    assert active.accepted() == [2, 3, 6]
    assert (active.serving.next_offset, active.serving.accepted.seq) == (8, 6)
    assert active.accepted() == []


@pytest.mark.parametrize(
    "reports",
    [
        [Report(2), Report(None, "timed out")],
        [Report(None, "timed out"), Report(2)],
        [Report(2), Report(None)],
        [Report(None), Report(3)],
        [Report(1), Report(2)],
        [Report(3), Report(2)],
        [Report(2), Report(2)],
    ],
    ids=["error", "first failed", "no offset", "first without offset", "below", "out of order", "one offset twice"],
)
def test_batch_when_its_reports_prove_nothing_then_doubt(reports: list[Report]) -> None:
    active = Active()
    batch = active.send(2)
    for index, report in enumerate(reports):
        active.serving.reported(batch, index, report)
    with pytest.raises(DoubtError):
        active.serving.judge()


def test_batch_when_junk_lies_before_it_then_read_and_accepted() -> None:
    active = Active()
    batch, after = active.send(2), active.send(1)
    active.report(batch, 3, 5)
    active.report(after, 6)
    assert active.accepted() == []
    assert active.serving.unread == (2, 6)
    assert not active.serving.may_send
    assert not active.serving.may_beat(0.0)
    lines = list(zip(range(2, 6), (b"junk", batch.outcomes[0], takeover(5), batch.outcomes[1]), strict=True))
    assert active.serving.read(lines) == [batch]
    assert active.accepted() == [3]
    assert active.serving.next_offset == 7


def test_batch_when_another_has_taken_over_before_it_then_fenced() -> None:
    active = Active()
    batch = active.send(1)
    active.report(batch, 3)
    assert active.accepted() == []
    with pytest.raises(FencedError, match="epoch 2"):
        active.serving.read([(2, takeover(2, b"J")), (3, batch.outcomes[0])])


def test_batch_when_only_a_part_is_where_it_counts_then_doubt() -> None:
    active = Active()
    batch = active.send(2)
    active.report(batch, 3, 4)
    assert active.accepted() == []
    with pytest.raises(DoubtError, match="only 1 records"):
        active.serving.read([(2, b"junk"), (3, batch.outcomes[0]), (4, b"junk")])


def test_batch_when_what_lies_before_cannot_all_be_read_then_doubt() -> None:
    active = Active()
    active.report(active.send(1), 4)
    assert active.accepted() == []
    with pytest.raises(DoubtError, match="only up to offset 3"):
        active.serving.read([(2, b"junk")])


def test_end_of_the_log_when_nothing_is_in_flight_then_what_others_wrote_is_read() -> None:
    active = Active()
    active.serving.must_read_to(2)
    assert active.serving.unread is None
    active.serving.must_read_to(3)
    assert active.serving.unread == (2, 3)
    assert active.serving.read([(2, b"junk")]) == []
    assert active.serving.next_offset == 3
    active.serving.must_read_to(4)
    with pytest.raises(FencedError):
        active.serving.read([(3, takeover(2, b"J"))])
    batch = Active().send(1)
    other = Active()
    other.serving.must_read_to(3)
    with pytest.raises(DoubtError, match="not known here"):
        other.serving.read([(2, batch.outcomes[0])])


def test_end_of_the_log_when_a_batch_is_in_flight_then_its_reports_say_more() -> None:
    active = Active()
    active.send(1)
    active.serving.must_read_to(3)
    assert active.serving.unread is None


def test_heartbeat_when_an_append_waits_for_long_then_none() -> None:
    active = Active()
    assert active.serving.may_beat(100.0)
    first = active.send(1, now_s=100.0)
    active.send(1, now_s=101.0)
    assert active.serving.may_beat(101.0)
    assert not active.serving.may_beat(101.1)
    active.report(first, 2)
    assert active.accepted() == [1]
    assert active.serving.may_beat(101.1)


def test_takeover_when_read_back_then_won_only_by_the_first() -> None:
    log = Written()
    chain = Chain()
    chain.take(log.records[0], 0)
    assert chain.state is not None
    ours, theirs = (TakeoverAttempt(chain.state, instance=each * 16, now_ms=1) for each in (b"A", b"B"))
    assert ours.takeover.epoch == theirs.takeover.epoch == 1
    assert (ours.offset_of(Report(2)), theirs.offset_of(Report(1))) == (2, 1)
    chain.take(theirs.record, 1)
    chain.take(ours.record, 2)
    assert (ours.has_won(chain.state), theirs.has_won(chain.state)) == (False, True)
    for report in (Report(None), Report(None, "timed out"), Report(3, "odd")):
        with pytest.raises(DoubtError):
            ours.offset_of(report)


def test_told_when_acknowledged_out_of_order_then_moves_only_up_to_what_is_missing() -> None:
    telling = Telling(4, untold_max=3)
    first, second = telling.begin(6, 2), telling.begin(7, 1)
    assert not telling.has_room
    telling.acknowledged(second)
    telling.acknowledged(first)
    assert (telling.told, telling.is_done) == (4, False)
    telling.acknowledged(first)
    assert (telling.told, telling.is_done, telling.has_room) == (7, True, True)
    telling.begin(9, 0)
    assert telling.told == 9
