"""The active sequencer's rounds over a log in memory: what is appended, told, told again, and held back."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, cast
from uuid import UUID

import pytest
from chains import Written
from deciding import START_MS, make_id

from commitlog.domain import model as m
from commitlog.domain.state.index import new_state
from commitlog.errors import FencedError
from commitlog.log.active import (
    HEARTBEAT_INTERVAL_S,
    LOOK_INTERVAL_S,
    RECEIPTS_TOLD_AGAIN,
    SAID_EVERY_S,
    TELL_AGAIN_S,
    UNHEARD_S_MAX,
    Active,
    Limits,
)
from commitlog.log.batches import Batch, Decider, Incoming
from commitlog.log.chain import Accepted, Chain, ChainState
from commitlog.log.codec import (
    OutcomeHead,
    decode_dead_letter,
    decode_heartbeat,
    decode_receipts,
    encode_proposal,
)
from commitlog.log.gathering import IN_VAIN_MAX, LATELY_S
from commitlog.log.ports import Ports
from commitlog.log.replica import Untold
from commitlog.log.reports import Report
from commitlog.log.sequencer import TAKEOVER_AFTER_S
from commitlog.log.serving import UNREPORTED_S_MAX, DoubtError, Serving, Telling
from commitlog.log.topics import topics_of

TOPICS = topics_of("main")
WAIT_S = 0.005


class World:
    """Topics in memory; reports and answers come when they are let."""

    def __init__(self) -> None:
        self.log = Written()
        self.log.take_over()
        self.reports: deque[Callable[[], None]] = deque()
        self.answers: deque[Callable[[], None]] = deque()
        self.said: list[tuple[str, int, bytes]] = []
        self.said_later: list[bytes] = []
        self.here: set[str] = set()
        self.replies: list[tuple[str, bytes]] = []
        self.waiting: deque[Incoming] = deque()
        self.coming: deque[Incoming] = deque()
        self.waited_for: list[tuple[int, float]] = []
        self.fails = 0
        self.now_s = 0.0
        self.sent = 0

    def propose(self, value: bytes | None = None, *, writer: str = "w1", reply_to: str | None = None) -> None:
        self.waiting.append(self._proposal(value, writer, reply_to))

    def propose_soon(self, *, writer: str, reply_to: str | None = None) -> None:
        """A proposal that only who waits for more gets now."""
        self.coming.append(self._proposal(None, writer, reply_to))

    def _proposal(self, value: bytes | None, writer: str, reply_to: str | None = None) -> Incoming:
        self.sent += 1
        change = m.CreateSchema(f"s{self.sent}")
        made = encode_proposal(m.Proposal(UUID(make_id(self.sent)).bytes, writer, 0, (change,), created_at_ms=START_MS))
        return Incoming(0, self.sent, writer.encode(), made if value is None else value, reply_to)

    def told(self) -> list[int]:
        return [
            receipt.seq
            for topic, _, value in self.said
            if topic == TOPICS.receipts
            for receipt in decode_receipts(value).receipts
        ]

    # --- the ports ----------------------------------------------------------------------------------------------------

    def append(self, values: Sequence[bytes], on_report: Callable[[int, Report], None]) -> None:
        for index, value in enumerate(values):
            self.log.records.append(value)
            offset = len(self.log.records) - 1
            self.reports.append(lambda index=index, offset=offset: on_report(index, Report(offset)))  # type: ignore[misc]

    def end_seen(self) -> int:
        return len(self.log.records)

    def read(self, start: int, end: int) -> Iterable[tuple[int, bytes]]:
        return [(offset, self.log.records[offset]) for offset in range(start, end)]

    def reply(self, reply_to: str, value: bytes) -> bool:
        if reply_to in self.here:
            self.replies.append((reply_to, value))
        return reply_to in self.here

    def send(
        self,
        topic: str,
        partition: int,
        value: bytes,
        on_done: Callable[[str | None], None],
        *,
        may_wait: bool = False,
    ) -> None:
        if may_wait:
            self.said_later.append(value)
        if self.fails and topic != TOPICS.control:
            self.fails -= 1
            self.answers.append(lambda: on_done("planted"))
        else:
            self.said.append((topic, partition, value))
            self.answers.append(lambda: on_done(None))

    def poll(self, timeout_s: float) -> None:
        """Of results and of voice alike."""

    def take(self, records_max: int) -> list[Incoming]:
        return [self.waiting.popleft() for _ in range(min(records_max, len(self.waiting)))]

    def close(self) -> None: ...


class Source:
    def __init__(self, world: World) -> None:
        self._world = world

    def poll(self, records_max: int, timeout_s: float, *, wanted: int = 1) -> list[Incoming]:
        if wanted > 1:
            self._world.waited_for.append((wanted, timeout_s))
            self._world.waiting += self._world.coming
            self._world.coming.clear()
        return self._world.take(records_max)

    def close(self) -> None: ...


class Sequencing:
    """An active sequencer of epoch 1 in a world."""

    def __init__(self, *, told: int = 0, untold_max: int = 1_000, records_max: int = 100) -> None:
        self.world = world = World()
        genesis_state = new_state(m.Genesis(b"L" * 16))
        self.decider = Decider(
            genesis_state,
            prev_hash=world.log.hash,
            epoch=1,
            topics=TOPICS,
            handlers={},
            undecidable={},
        )
        self.telling = Telling(told, untold_max=untold_max)
        self.heard: list[tuple[str, int, int]] = []
        self.active = Active(
            self.decider,
            Serving(ChainState(b"L" * 16, 1, b"I" * 16, 0, world.log.hash), 2),
            self.telling,
            Ports(world, world, Source(world), lambda: START_MS, lambda: world.now_s),
            TOPICS,
            limits=Limits(records_max, 1_000_000, WAIT_S),
            on_accepted=lambda: self._hear("accepted"),
            on_replied=lambda sent, batch: self._hear(f"{len(batch)} up to {sent.seq}"),
        )

    def _hear(self, what: str) -> None:
        self.heard.append((what, len(self.world.replies), len(self.world.told())))

    def step(self, *, reports: bool = True, answers: bool = True) -> None:
        self.active.step()
        while reports and self.world.reports:
            self.world.reports.popleft()()
        while answers and self.world.answers:
            self.world.answers.popleft()()

    def accepted(self) -> list[int]:
        chain, seqs = Chain(), []
        for offset, raw in enumerate(self.world.log.records):
            step = chain.take(raw, offset)
            if isinstance(step, Accepted) and isinstance(step.head, OutcomeHead):
                seqs.append(step.head.seq)
        return seqs


def test_proposals_when_decided_then_told_only_after_their_reports() -> None:
    running = Sequencing()
    for _ in range(3):
        running.world.propose()
    running.step(reports=False)
    running.step(reports=False)
    assert (running.accepted(), running.world.told()) == ([1, 2, 3], [])
    running.step()
    running.step()
    assert (running.world.told(), running.telling.told, running.active.is_quiet) == ([1, 2, 3], 3, True)


def test_receipts_when_whom_they_are_for_is_here_then_replied_and_kafka_brings_those_alone_later() -> None:
    running = Sequencing()
    running.world.here = {"here"}
    for reply_to in ("here", None, "away", "here"):
        running.world.propose(reply_to=reply_to)
    running.step(reports=False)
    running.step(reports=False)
    assert running.world.replies == []
    running.step()
    running.step()
    [(reply_to, value)] = running.world.replies
    assert reply_to == "here"
    assert [receipt.seq for receipt in decode_receipts(value).receipts] == [1, 4]
    assert running.world.said_later == [value]
    assert (running.world.told(), running.active.is_quiet) == ([1, 4, 2, 3], True)


def test_batch_when_it_is_accepted_then_its_owner_hears_so_before_anybody_and_what_was_in_it_before_kafka() -> None:
    running = Sequencing()
    running.world.here = {"here"}
    for reply_to in ("here", None):
        running.world.propose(reply_to=reply_to)
    for _ in range(3):
        running.step()
    assert running.heard == [("accepted", 0, 0), ("2 up to 2", 1, 0)]
    assert (len(running.world.replies), running.world.told()) == (1, [1, 2])


def test_receipt_when_it_was_replied_and_kafka_takes_it_not_then_sent_again_at_once_and_no_second_reply() -> None:
    running = Sequencing()
    running.world.here = {"here"}
    running.world.fails = 1
    running.world.propose(reply_to="here")
    for _ in range(4):
        running.world.now_s += TELL_AGAIN_S
        running.step()
    assert (len(running.world.replies), len(running.world.said_later), running.world.told()) == (1, 1, [1])


def test_batch_when_some_of_a_partition_are_replied_to_then_next_after_the_last_of_all() -> None:
    running, batch = Sequencing(), Batch()
    for reply_to in ("here", None, "here"):
        running.world.propose(reply_to=reply_to)
    running.decider.decide_all(running.world.take(3), batch, now_ms=START_MS, told=0)
    assert batch.next_offsets == {0: 4}
    assert Batch().next_offsets == {}


def test_proposals_when_a_batch_is_on_its_way_then_gathered_until_it_is_accepted() -> None:
    running = Sequencing()
    running.world.propose()
    running.step(reports=False)
    for _ in range(3):
        running.world.propose()
        running.step(reports=False)
    assert running.accepted() == [1]
    running.world.reports.popleft()()
    running.step(reports=False)
    assert (running.accepted(), len(running.world.reports)) == ([1, 2, 3, 4], 3)


def busy(writers: int) -> Sequencing:
    """A sequencer to which so many writers have proposed together, 1,000 times a second in all, for longer than a span."""
    running = Sequencing()
    while running.world.now_s < 2 * LATELY_S:
        running.world.now_s += 0.001 * writers
        for number in range(writers):
            running.world.propose(writer=f"w{number}")
        running.step()
    while running.world.waiting or not running.active.is_quiet:
        running.step()
    running.world.waited_for.clear()
    return running


def test_proposal_when_several_writers_are_busy_then_it_waits_for_theirs_and_goes_with_them() -> None:
    running = busy(3)
    decided = len(running.accepted())
    running.world.propose(writer="w0")
    for writer in ("w1", "w2"):
        running.world.propose_soon(writer=writer)
    running.step(reports=False)
    assert (running.world.waited_for, len(running.accepted())) == ([(2, WAIT_S)], decided + 3)


def test_proposal_when_nobody_else_comes_in_time_then_it_goes_alone() -> None:
    running = busy(3)
    decided = len(running.accepted())
    running.world.propose(writer="w0")
    running.step(reports=False)
    assert len(running.accepted()) == decided + 1


def test_proposals_when_a_carrier_brings_them_beside_busy_writers_then_those_are_waited_for() -> None:
    running = busy(3)
    for writer in ("w8", "w9"):
        running.world.propose(writer=writer, reply_to="away")
    running.step(reports=False)
    assert running.world.waited_for == [(2, WAIT_S)]


def test_proposals_when_waits_were_in_vain_then_they_go_at_once() -> None:
    running = busy(3)
    for _ in range(IN_VAIN_MAX + 1):
        running.world.propose(writer="w0")
        while running.world.waiting or not running.active.is_quiet:
            running.step()
    assert running.world.waited_for == [(2, WAIT_S)] * IN_VAIN_MAX


def test_proposals_when_waits_brought_only_what_a_carrier_brings_then_they_were_in_vain() -> None:
    running = busy(3)
    for _ in range(IN_VAIN_MAX + 1):
        running.world.propose(writer="w0")
        running.world.propose_soon(writer="w9", reply_to="away")
        while running.world.waiting or not running.active.is_quiet:
            running.step()
    assert running.world.waited_for == [(2, WAIT_S)] * IN_VAIN_MAX


def test_proposal_when_a_batch_holds_fewer_than_there_are_writers_then_no_more_are_waited_for_than_fit() -> None:
    running = busy(5)
    running.active._limits = Limits(3, 1_000_000, WAIT_S)
    running.world.propose(writer="w0")
    running.step(reports=False)
    assert running.world.waited_for == [(2, WAIT_S)]


def test_proposals_when_they_fill_batches_then_several_are_on_their_way() -> None:
    running = Sequencing(records_max=2)
    for _ in range(5):
        running.world.propose()
        running.step(reports=False)
    assert running.accepted() == [1, 2, 3, 4, 5]
    running.world.propose()
    running.step(reports=False)
    assert (running.accepted(), running.world.told()) == ([1, 2, 3, 4, 5], [])


def test_outcomes_then_each_carries_what_was_told_when_it_was_decided() -> None:
    running = Sequencing()
    for _ in range(3):
        running.world.propose()
        running.step()
        running.step()
    chain = Chain()
    steps = [chain.take(raw, offset) for offset, raw in enumerate(running.world.log.records)]
    told = [each.head.told for each in steps if isinstance(each, Accepted) and isinstance(each.head, OutcomeHead)]
    assert told == [0, 1, 2]


def test_receipts_when_they_fail_then_sent_again_without_doubt_until_they_are_there() -> None:
    running = Sequencing()
    running.world.fails = 2
    running.world.propose()
    running.step()
    running.step()
    assert (running.world.told(), running.telling.told) == ([], 0)
    running.step()
    running.world.now_s += TELL_AGAIN_S
    running.step()
    running.world.now_s += TELL_AGAIN_S
    running.step()
    assert (running.world.told(), running.telling.told, running.accepted()) == ([1], 1, [1])


def test_receipts_when_they_fail_for_long_then_that_is_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    running = Sequencing()
    running.world.fails = 10**6
    running.world.propose()
    for _ in range(int(1.5 * SAID_EVERY_S / TELL_AGAIN_S)):
        running.step()
        running.world.now_s += TELL_AGAIN_S
    assert [message.partition(",")[0] for message in caplog.messages] == ["messages are sent again"] * 2


def test_deciding_when_too_much_is_untold_then_waits() -> None:
    running = Sequencing(untold_max=2, records_max=2)
    for _ in range(6):
        running.world.propose()
    for _ in range(5):
        running.step(answers=False)
    assert len(running.world.waiting) == 4
    for _ in range(10):
        running.step()
    assert (running.world.told(), running.accepted()) == ([1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6])


def test_predecessors_answers_when_untold_then_told_again_with_the_refused_bytes() -> None:
    running = Sequencing(told=4)
    receipts = [
        m.Receipt(
            m.Position(0, seq),
            seq,
            UUID(make_id(seq)).bytes,
            m.Verdict.REJECTED,
            None,
            0,
            m.Reason.MALFORMED,
            "no",
            m.Assigned(),
            5,
        )
        for seq in (5, 6)
    ]
    refused = m.Outcome(6, 1, m.Position(0, 6), 5, m.Verdict.REJECTED, 0, None, None, reason=m.Reason.MALFORMED)
    asked: list[m.Position] = []

    def read(positions: Sequence[m.Position]) -> list[Incoming]:
        asked.extend(positions)
        return [Incoming(0, 6, b"k", b"junk")]

    running.active.tell_again([Untold(receipts[0], None), Untold(receipts[1], refused)], read)
    assert (asked, running.telling.told) == ([m.Position(0, 6)], 4)
    running.step()
    assert (running.world.told(), running.telling.told) == ([5, 6], 6)
    [letter] = [value for topic, _, value in running.world.said if topic == TOPICS.dead_letters]
    assert decode_dead_letter(letter).value == b"junk"


def test_predecessors_answers_when_they_are_many_then_it_is_heard_while_it_tells_them() -> None:
    running = Sequencing(told=4)
    receipts = [
        m.Receipt(m.Position(0, seq), seq, None, m.Verdict.REJECTED, None, 0, m.Reason.MALFORMED, "no", m.Assigned(), 5)
        for seq in range(5, 5 + RECEIPTS_TOLD_AGAIN + 100)
    ]
    refused = m.Outcome(6, 1, m.Position(0, 6), 5, m.Verdict.REJECTED, 0, None, None, reason=m.Reason.MALFORMED)

    def read(positions: Sequence[m.Position]) -> Iterator[Incoming]:
        for each in reversed(positions):
            running.world.now_s += HEARTBEAT_INTERVAL_S / 10
            yield Incoming(*each, None, b"%d" % each.offset)

    running.active.tell_again([Untold(each, refused) for each in receipts], read)
    assert [topic for topic, _, _ in running.world.said].count(TOPICS.control) > len(receipts) / 12
    letters = [decode_dead_letter(value) for topic, _, value in running.world.said if topic == TOPICS.dead_letters]
    assert [letter.value for letter in letters] == [b"%d" % each.source.offset for each in receipts]


def test_idle_when_another_has_taken_over_then_fenced() -> None:
    running = Sequencing()
    running.step()
    running.world.log.take_over(b"J")
    running.world.now_s += LOOK_INTERVAL_S
    running.step()
    with pytest.raises(FencedError):
        running.step()


def test_batch_when_a_report_fails_then_doubt_and_nothing_is_told() -> None:
    running = Sequencing()
    running.world.propose()
    running.step(reports=False)
    [report] = running.world.reports
    sent = next(iter(running.active._sent))
    running.active._serving.reported(sent, 0, Report(None, "timed out"))
    report()
    with pytest.raises(DoubtError, match="timed out"):
        running.step()
    assert running.world.told() == []


def test_heartbeats_then_in_time_with_what_is_accepted_and_the_last_one_says_so() -> None:
    running = Sequencing()
    running.step()
    running.step()
    running.world.propose()
    running.step()
    running.world.now_s += HEARTBEAT_INTERVAL_S
    running.step()
    running.active.leave()
    beats = [decode_heartbeat(value) for topic, _, value in running.world.said if topic == TOPICS.control]
    assert [(beat.epoch, beat.instance, beat.seq, beat.leaving) for beat in beats] == [
        (1, b"I" * 16, 0, False), (1, b"I" * 16, 1, False), (1, b"I" * 16, 1, True),
    ]  # fmt: skip
    running.world.propose()
    running.step(reports=False)
    running.world.now_s += 2.0
    said = len(running.world.said)
    running.step(reports=False)
    assert len(running.world.said) == said


def test_heartbeats_when_much_that_is_large_has_come_then_sent_while_it_is_decided() -> None:
    running, number = Sequencing(), 60
    world, decider, beaten_s = running.world, running.decider, 0.0

    class Slow:
        """A second for each MiB."""

        def decide_all(self, messages: Sequence[Incoming], *batch: Any, **asked: Any) -> None:
            world.now_s += sum(len(message.value or b"") for message in messages) / 2**20
            decider.decide_all(messages, *batch, **asked)

        def __getattr__(self, name: str) -> Any:
            return getattr(decider, name)

    running.active._decider = cast(Decider, Slow())
    for each in range(number):
        changes = (m.CreateSchema(f"s{each}"), m.CreateView(f"s{each}", "v", f"SELECT '{'x' * 100_000}'"))
        proposal = m.Proposal(UUID(make_id(each)).bytes, "w1", 0, changes, created_at_ms=START_MS)
        world.propose(encode_proposal(proposal))
    # It comes in the middle between two heartbeats.
    running.active._beaten_s, world.now_s = 0.0, 0.2
    silences_s = []
    while len(running.accepted()) < number:
        said, before_s = len(world.said), world.now_s
        running.step()
        # A step speaks before it decides.
        beaten_s = before_s if any(topic == TOPICS.control for topic, _, _ in world.said[said:]) else beaten_s
        silences_s.append(world.now_s - beaten_s)
    assert world.now_s > 5
    assert max(silences_s) < 2 * HEARTBEAT_INTERVAL_S < TAKEOVER_AFTER_S


def test_batch_when_its_producer_says_nothing_for_too_long_then_doubt() -> None:
    running = Sequencing()
    running.world.propose()
    running.step(reports=False)
    running.world.now_s += UNREPORTED_S_MAX
    running.step(reports=False)
    running.world.now_s += 0.1
    with pytest.raises(DoubtError, match="nothing was reported of the batch up to outcome 1"):
        running.step(reports=False)


def test_receipt_when_its_producer_says_nothing_for_too_long_then_doubt() -> None:
    running = Sequencing()
    running.world.propose()
    running.step(answers=False)
    running.step(answers=False)
    assert running.world.told() == [1]
    running.world.now_s += UNHEARD_S_MAX
    running.step(answers=False)
    running.world.now_s += 0.1
    with pytest.raises(DoubtError, match="reported nothing about a message"):
        running.step(answers=False)


def test_receipt_when_it_fails_again_and_again_then_each_time_it_was_heard_of() -> None:
    running = Sequencing()
    running.world.fails = 5
    running.world.propose()
    for _ in range(8):
        running.step()
        running.world.now_s += UNHEARD_S_MAX / 2
    assert (running.world.told(), running.telling.told) == ([1], 1)
