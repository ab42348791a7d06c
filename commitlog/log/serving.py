"""The protocol of the active sequencer, without Kafka and without a clock: what it may believe, and what it may tell.

Theory of operation. `TakeoverAttempt` begins an epoch: its record is appended and read back through `Chain`; only when
the chain itself has accepted it, this process is the active one. `Serving` is then its life until it is fenced or in
doubt:

- Batches of outcomes are appended without waiting, each decided on the state that the one before leaves (`sent`). Of
  every record a report comes, in any order (`reported`); they are judged in the order of sending (`judge`).
- A batch is *accepted* when all its reports name exactly the offsets that come next. All earlier own records were proved,
  so nobody has written in between, no takeover either, and every reader accepts what is there.
- Offsets above mean that somebody has written: `unread` then says what must be read (`read`) before anything more is
  judged. What is read goes through `Chain`: the batch counts iff the chain accepts exactly its records. A takeover by
  another: `FencedError`; whoever gets it stops at once and tells nothing more.
- A report with an error, without an offset, or with one below is *doubt* (`DoubtError`): the client library reports a
  success without an offset for what it only supposes. Nothing is undone or sent again. Whoever is in doubt drops state
  and producer and takes over from itself: what was in flight is then before that takeover in the topic, and counts, or
  after it, and is skipped, and nobody needs to know which before reading it.
- Only what is accepted is told: `judge` and `read` give out the accepted batches, whose receipts and dead letters are sent
  then. `Telling` keeps account of their acknowledgements: `told` is the seq up to which all are there, and every outcome
  carries it as it was when that was decided. Whoever takes over tells again what comes after the last accepted outcome's
  `told`; so an answer is repeated rather than lost. A receipt that fails is sent again and is no doubt about the log.
- A batch of which not everything was reported for longer than a producer may keep it is *doubt* too (`check_reported`): a
  producer can stop sending, and say nothing.
- `may_send` holds back what would make too much in flight, and `Telling.has_room` what would leave too much untold.
- `may_beat`: a heartbeat says "I can append"; none is sent while an append waits for too long.

Whatever time it is comes in as an argument.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from commitlog.errors import FencedError
from commitlog.log.chain import Accepted, Chain, ChainState
from commitlog.log.codec import OutcomeHead, Takeover, encode_takeover
from commitlog.log.reports import Report

IN_FLIGHT_MAX = 4
UNTOLD_MAX = 50_000
WAITS_LONG_S = 1.0
UNREPORTED_S_MAX = 15.0
"""Three times what a producer may take, after which it reports a failure."""


class DoubtError(Exception):
    """It is not known what the log holds. Never leaves the room: the answer is to load again."""


class Records(NamedTuple):
    """Records for one partition of a topic, and perhaps whom else they are for (`replies`)."""

    topic: str
    partition: int
    values: Sequence[bytes]
    reply_to: str | None = None


class TakeoverAttempt:
    """One attempt to become the active sequencer.

    Args:
        state: what the chain has accepted, up to the end of the log as it was just now.
        instance: 16 bytes that no other attempt has.
        now_ms: for people.
    """

    def __init__(self, state: ChainState, *, instance: bytes, now_ms: int) -> None:
        self.takeover = Takeover(state.log_id, state.epoch + 1, instance, now_ms)
        self.record = encode_takeover(self.takeover)

    def offset_of(self, report: Report) -> int:
        """Where the record is, so that it can be read back; DoubtError when that is not known."""
        if report.error is not None or report.offset is None:
            raise DoubtError(f"the takeover of epoch {self.takeover.epoch}: {report.error or 'no offset was reported'}")
        return report.offset

    def has_won(self, state: ChainState) -> bool:
        """Whether the chain, read up to and with the record, has accepted it, and no other since."""
        return (state.epoch, state.instance) == (self.takeover.epoch, self.takeover.instance)


@dataclass(slots=True, eq=False)
class SentBatch:
    """Outcomes that were appended together, and what is to be told once they are accepted.

    ``seq`` and ``hash`` are of the last one.
    """

    outcomes: Sequence[bytes]
    seq: int
    hash: bytes
    letters: Sequence[Records]
    sent_s: float
    reports: dict[int, Report] = field(default_factory=dict)


class Serving:
    """What the active sequencer knows of its log.

    Args:
        state: the chain's state as soon as the takeover was accepted.
        next_offset: of the record after the takeover.
        in_flight_max: most batches that wait for their reports.
    """

    def __init__(self, state: ChainState, next_offset: int, *, in_flight_max: int = IN_FLIGHT_MAX) -> None:
        assert state.instance is not None
        self.accepted = state
        self.next_offset = next_offset
        self.unread: tuple[int, int] | None = None
        """Offsets (the second one exclusive) that must be read before anything more is judged."""
        self._in_flight_max = in_flight_max
        self._sent: deque[SentBatch] = deque()

    @property
    def in_flight(self) -> int:
        """How many batches wait to be judged."""
        return len(self._sent)

    @property
    def may_send(self) -> bool:
        """Whether another batch may be appended now."""
        return self.unread is None and len(self._sent) < self._in_flight_max

    def may_beat(self, now_s: float) -> bool:
        """Whether a heartbeat would be true."""
        return self.unread is None and (not self._sent or now_s - self._sent[0].sent_s <= WAITS_LONG_S)

    def sent(
        self, outcomes: Sequence[bytes], *, seq: int, hash: bytes, letters: Sequence[Records], now_s: float
    ) -> SentBatch:
        """Notes a batch that is being appended; its reports are given to `reported`.

        Args:
            outcomes: the records, decided on the state that the batch before leaves.
            seq: of the last one.
            hash: of the last one's bytes.
            letters: receipts and dead letters to send when it is accepted.
            now_s: the time by a clock that never goes back.
        """
        before = self._sent[-1].seq if self._sent else self.accepted.seq
        assert self.may_send
        assert outcomes
        assert seq == before + len(outcomes), (seq, before, len(outcomes))
        batch = SentBatch(outcomes, seq, hash, letters, now_s)
        self._sent.append(batch)
        return batch

    def reported(self, batch: SentBatch, index: int, report: Report) -> None:
        """Notes what became of one record of a batch; of two reports on the same record the first is taken."""
        batch.reports.setdefault(index, report)

    def judge(self) -> list[SentBatch]:
        """The batches that are accepted by now, in the order of sending; each is given out once.

        Stops at the first that is not reported completely, and where something must be read before (`unread`).

        Raises:
            DoubtError: it is not known what the log holds.
        """
        accepted: list[SentBatch] = []
        while self._sent and self.unread is None and len(self._sent[0].reports) == len(self._sent[0].outcomes):
            batch = self._sent[0]
            if self._is_at_the_end(batch):
                self._accept(batch, self.next_offset + len(batch.outcomes))
                accepted.append(self._sent.popleft())
        return accepted

    def check_reported(self, now_s: float) -> None:
        """Raises DoubtError when a batch waits for so long that nothing will be reported of it any more."""
        if self._sent and now_s - self._sent[0].sent_s > UNREPORTED_S_MAX:
            batch = self._sent[0]
            raise DoubtError(f"nothing was reported of the batch up to outcome {batch.seq} in {UNREPORTED_S_MAX:.0f} s")

    def must_read_to(self, end: int) -> None:
        """Says that the log ends at an offset; when nothing is in flight, whatever is there is somebody else's."""
        if self.unread is None and not self._sent and end > self.next_offset:
            self.unread = (self.next_offset, end)

    def read(self, records: Iterable[tuple[int, bytes | None]]) -> list[SentBatch]:
        """Takes what the log holds at the `unread` offsets; gives the batch that this proves accepted, if one waits.

        Raises:
            FencedError: another one has taken over.
            DoubtError: the batch is not there as it was sent.
            LogIntegrityError: it would stop every reader.
        """
        assert self.unread is not None
        chain = Chain(self.accepted, self.next_offset)
        found: list[bytes] = []
        for offset, raw in records:
            step = chain.take(raw, offset)
            if not isinstance(step, Accepted):
                continue
            if isinstance(step.head, Takeover):
                raise FencedError(
                    f"another sequencer took over at results offset {offset} (epoch {step.head.epoch}); this one stops"
                )
            assert isinstance(step.head, OutcomeHead)
            assert raw is not None
            found.append(raw)
        if chain.next_offset != self.unread[1]:
            raise DoubtError(f"results could be read only up to offset {chain.next_offset}, not to {self.unread[1]}")
        self.unread = None
        if not self._sent:
            if found:
                raise DoubtError(f"results hold outcomes of epoch {self.accepted.epoch} that are not known here")
            self.next_offset = chain.next_offset
            return []
        batch = self._sent[0]
        if found != list(batch.outcomes):
            raise DoubtError(f"of the batch up to outcome {batch.seq} only {len(found)} records are where they count")
        self._accept(batch, chain.next_offset)
        return [self._sent.popleft()]

    def _is_at_the_end(self, batch: SentBatch) -> bool:
        """Whether the reports prove the batch; else it must be read, or is in doubt."""
        count = len(batch.outcomes)
        offsets: list[int] = []
        for report in [batch.reports[index] for index in range(count)]:
            if report.error is not None:
                raise DoubtError(f"the batch up to outcome {batch.seq} could not be appended: {report.error}")
            if report.offset is None:
                raise DoubtError(f"the batch up to outcome {batch.seq} was acknowledged without an offset")
            offsets.append(report.offset)
        if offsets == list(range(self.next_offset, self.next_offset + count)):
            return True
        if offsets != sorted(set(offsets)) or offsets[0] < self.next_offset:
            raise DoubtError(
                f"the batch up to outcome {batch.seq} was acknowledged at offsets {offsets[0]} to {offsets[-1]}, "
                f"expected from {self.next_offset} on"
            )
        self.unread = (self.next_offset, offsets[-1] + 1)
        return False

    def _accept(self, batch: SentBatch, next_offset: int) -> None:
        self.next_offset = next_offset
        self.accepted = self.accepted.replace(seq=batch.seq, hash=batch.hash)


@dataclass(slots=True, eq=False)
class _Untold:
    seq: int
    left: int


class Telling:
    """Which answers have reached their topics.

    Args:
        told: all up to this seq have, as the last accepted outcome says.
        untold_max: most outcomes whose answers may be on their way.
    """

    def __init__(self, told: int, *, untold_max: int = UNTOLD_MAX) -> None:
        self.told = told
        self._untold_max = untold_max
        self._untold: deque[_Untold] = deque()

    @property
    def has_room(self) -> bool:
        """Whether more may be decided."""
        return not self._untold or self._untold[-1].seq - self.told < self._untold_max

    @property
    def is_done(self) -> bool:
        """Whether everything was acknowledged."""
        return not self._untold

    def begin(self, seq: int, messages: int) -> _Untold:
        """Notes messages that are being sent with the answers to the outcomes after the last call's, up to ``seq``."""
        assert not self._untold or self._untold[-1].seq <= seq
        untold = _Untold(seq, messages)
        self._untold.append(untold)
        self._move()
        return untold

    def acknowledged(self, untold: _Untold) -> None:
        """Notes that one of its messages is there for good."""
        assert untold.left > 0
        untold.left -= 1
        self._move()

    def _move(self) -> None:
        while self._untold and self._untold[0].left == 0:
            self.told = max(self.told, self._untold.popleft().seq)
