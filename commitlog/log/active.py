"""The work of the active sequencer, in rounds: decide what was proposed, append it, tell what is accepted.

What may be believed and told is in `serving`; here is who is asked when. A lone proposal is appended at once, that of one
among many writers waits a moment for theirs (`gathering`). While a batch is on its way the next one gathers: what comes is
decided, and appended together as soon as that one is accepted, or when it is full. So under load an append carries the commits
of many writers, and a backlog keeps several full ones on their way.
"""

from __future__ import annotations

import logging
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple

from commitlog.domain.model import Position, Receipt
from commitlog.errors import LogLossError
from commitlog.log.batches import Addressee, Batch, Decider, Incoming
from commitlog.log.codec import Heartbeat, encode_heartbeat
from commitlog.log.gathering import Gathering, by_no_carrier
from commitlog.log.ports import Ports
from commitlog.log.replica import Untold
from commitlog.log.serving import DoubtError, Records, SentBatch, Serving, Telling
from commitlog.log.topics import Topics

HEARTBEAT_INTERVAL_S = 0.3
LOOK_INTERVAL_S = 1.0
TELL_AGAIN_S = 0.2
SAID_EVERY_S = 60.0
"""How often it is logged that messages are sent again: a topic that takes none fails each of them five times a second."""
UNHEARD_S_MAX = 60.0
"""Twice what a producer may take for a message, after which it reports a failure."""
IDLE_WAIT_S = 0.15
BUSY_WAIT_S = 0.01
"""It ends with the first report, and nothing that comes meanwhile could be appended before."""
RECEIPTS_TOLD_AGAIN = 1_000
LOOK_BYTES = 256 * 1024
"""So many bytes of proposals are decided between two looks at the clock: thousands of small ones, or a few thousand changes."""

_logger = logging.getLogger("commitlog.sequencer")


class Limits(NamedTuple):
    """How much is appended together, and how long the first of it waits for the rest."""

    records_max: int
    bytes_max: int
    wait_s: float


class _Unsaid(NamedTuple):
    topic: str
    partition: int
    value: bytes
    on_done: Callable[[str | None], None]


class Active:
    """One epoch of the active sequencer, from its accepted takeover until it is fenced, in doubt, or leaves.

    Args:
        decider: on the state that the takeover has found.
        serving: as of the takeover.
        telling: as the last accepted outcome says.
        ports: the world.
        topics: of the log.
        limits: of a batch.
        decides_as_made: give each proposal the time it was made at instead of the clock's.
        on_accepted: called when a batch is accepted, before anybody is told.
        on_replied: told of every batch, with what was decided in it, once whoever can be replied to was, and before
            Kafka is told.
    """

    def __init__(
        self,
        decider: Decider,
        serving: Serving,
        telling: Telling,
        ports: Ports,
        topics: Topics,
        *,
        limits: Limits,
        decides_as_made: bool = False,
        on_accepted: Callable[[], None] = lambda: None,
        on_replied: Callable[[SentBatch, Batch], None] = lambda sent, batch: None,
    ) -> None:
        self._decider = decider
        self._serving = serving
        self._telling = telling
        self._ports = ports
        self._topics = topics
        self._limits = limits
        self._decides_as_made = decides_as_made
        self._on_accepted = on_accepted
        self._on_replied = on_replied
        self._batch = Batch()
        self._waiting: deque[Incoming] = deque()
        self._gathering = Gathering(limits.wait_s)
        self._sent: dict[SentBatch, Batch] = {}
        self._unsaid: list[_Unsaid] = []
        self._handed_over = 0
        self._unheard: dict[int, float] = {}
        self._beaten_s = self._looked_s = float("-inf")
        self._said_again_s = self._logged_s = float("-inf")

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is on its way."""
        return not self._serving.in_flight and self._serving.unread is None and self._telling.is_done

    def tell_again(self, untold: Iterable[Untold], read: Callable[[Sequence[Position]], Iterable[Incoming]]) -> None:
        """Tells what a predecessor has perhaps not told; ``read`` gets the refused messages, in any order."""
        waiting, begun_s = list(untold), self._ports.clock_s()
        for start in range(0, len(waiting), RECEIPTS_TOLD_AGAIN):
            some = waiting[start : start + RECEIPTS_TOLD_AGAIN]
            receipts: defaultdict[Addressee, list[Receipt]] = defaultdict(list)
            for each in some:
                receipts[each.receipt.source.partition, None].append(each.receipt)
            refused = {each.receipt.source: each.refused for each in some if each.refused is not None}
            messages: dict[Position, Incoming] = {}
            for message in read([*refused]) if refused else ():
                messages[Position(message.partition, message.offset)] = message
                # Many take a while, and one that is not heard meanwhile is succeeded.
                if (now_s := self._ports.clock_s()) - begun_s >= HEARTBEAT_INTERVAL_S:
                    self._beat(now_s)
                    self._ports.voice.poll(0)
            dead_letters = [self._decider.dead_letter(messages[at], outcome) for at, outcome in refused.items()]
            self._tell(some[-1].receipt.seq, self._decider.letters(receipts, dead_letters))

    def step(self) -> None:
        """One round; waits a moment when there is nothing to do.

        Raises:
            FencedError: another sequencer has taken over.
            DoubtError: it is not known what the log holds.
        """
        ports = self._ports
        ports.results.poll(0)
        ports.voice.poll(0)
        self._judge()
        now_s = ports.clock_s()
        self._beat(now_s)
        self._say_again(now_s)
        self._look(now_s)
        took_all = self._decide()
        if self._has_gathered():
            self._send()
        if took_all and self._serving.in_flight:
            ports.results.poll(BUSY_WAIT_S)

    def settle(self) -> None:
        """One round in which nothing new is decided; waits for what is on its way."""
        self._ports.results.poll(BUSY_WAIT_S)
        self._ports.voice.poll(BUSY_WAIT_S)
        self._judge()
        self._say_again(self._ports.clock_s())

    def leave(self) -> None:
        """Says that this was the last heartbeat."""
        self._say_heartbeat(leaving=True)
        self._ports.voice.poll(0)

    def _judge(self) -> None:
        serving = self._serving
        accepted = serving.judge()
        if serving.unread is not None:
            accepted += self._read_between(*serving.unread)
        for sent in accepted:
            self._on_accepted()
            self._tell(sent.seq, sent.letters, partial(self._on_replied, sent, self._sent.pop(sent)))
        now_s = self._ports.clock_s()
        serving.check_reported(now_s)
        if self._unheard and now_s - next(iter(self._unheard.values())) > UNHEARD_S_MAX:
            raise DoubtError(
                f"Kafka's client reported nothing about a message for {UNHEARD_S_MAX:.0f} s: its reports have stopped"
            )

    def _read_between(self, start: int, end: int) -> list[SentBatch]:
        """What others have written into the results while nothing was heard of our own."""
        try:
            return self._serving.read(self._ports.results.read(start, end))
        except LogLossError as error:
            # Others may have archived it meanwhile; if it was lost, whoever loads again says so.
            raise DoubtError(f"what came before its own outcomes is gone: {error}") from None

    def _is_full(self) -> bool:
        return len(self._batch) >= self._limits.records_max or self._batch.size_bytes >= self._limits.bytes_max

    def _has_gathered(self) -> bool:
        """Whether the batch is to be appended now."""
        return len(self._batch) > 0 and self._serving.may_send and (not self._serving.in_flight or self._is_full())

    def _decide(self) -> bool:
        """Decides what has been proposed, as much as fits, and stops when a heartbeat is due; whether all is done for now."""
        if self._is_full() or not self._telling.has_room:
            return True
        is_all = False
        if not self._waiting:
            room = self._limits.records_max - len(self._batch)
            self._waiting.extend(self._proposed(room))
            is_all = len(self._waiting) < room
        now_ms = None if self._decides_as_made else self._ports.clock_ms()
        while self._waiting and not self._is_full():
            self._decider.decide_all(self._some(), self._batch, now_ms=now_ms, told=self._telling.told)
            if self._ports.clock_s() - self._beaten_s >= HEARTBEAT_INTERVAL_S:
                break
        return is_all and not self._waiting

    def _some(self) -> list[Incoming]:
        """The first of what waits."""
        some: list[Incoming] = []
        size_bytes = 0
        while self._waiting and size_bytes < LOOK_BYTES:
            message = self._waiting.popleft()
            size_bytes += len(message.value or b"")
            some.append(message)
        return some

    def _proposed(self, room: int) -> list[Incoming]:
        """What has come; when there is nothing else to do, the first that comes and those worth waiting for."""
        is_idle = not len(self._batch) and not self._serving.in_flight and not self._unsaid
        messages = self._ports.proposals.poll(room, IDLE_WAIT_S if is_idle else 0)
        if messages and len(messages) < room:
            now_s = self._ports.clock_s()
            missing = min(self._gathering.expected(now_s), room) - max(len(by_no_carrier(messages)), 1)
            if is_idle and missing > 0:
                more = self._ports.proposals.poll(room - len(messages), self._gathering.wait_s, wanted=missing)
                self._gathering.waited(len(by_no_carrier(more)), now_s)
                messages += more
            self._gathering.came(messages, now_s)
        return messages

    def _send(self) -> None:
        batch, self._batch = self._batch, Batch()
        sent = self._serving.sent(
            batch.outcomes,
            seq=self._decider.state.next_seq - 1,
            hash=self._decider.prev_hash,
            letters=self._decider.letters(batch.receipts, batch.dead_letters),
            now_s=self._ports.clock_s(),
        )
        self._sent[sent] = batch
        self._ports.results.append(batch.outcomes, partial(self._serving.reported, sent))

    def _look(self, now_s: float) -> None:
        """Looks where the results end now and then: one that has nothing to append would not notice that it was fenced."""
        if self._serving.in_flight or now_s - self._looked_s < LOOK_INTERVAL_S:
            return
        end = self._ports.results.end_seen()
        if end is not None:
            self._looked_s = now_s
            self._serving.must_read_to(end)

    # --- telling ------------------------------------------------------------------------------------------------------

    def _tell(self, seq: int, letters: Iterable[Records], on_replied: Callable[[], None] = lambda: None) -> None:
        messages = [(each, value) for each in letters for value in each.values]
        replied = [
            letter.reply_to is not None and self._ports.voice.reply(letter.reply_to, value)
            for letter, value in messages
        ]
        on_replied()
        untold = self._telling.begin(seq, len(messages))
        for (letter, value), is_known in zip(messages, replied, strict=True):
            self._say(
                letter.topic, letter.partition, value, lambda: self._telling.acknowledged(untold), may_wait=is_known
            )

    def _say(self, topic: str, partition: int, value: bytes, on_said: Callable[[], None], *, may_wait: bool) -> None:
        def done(error: str | None) -> None:
            if error is None:
                on_said()
            else:
                self._log_failed(topic, partition, error)
                self._unsaid.append(_Unsaid(topic, partition, value, done))

        self._hand_over(topic, partition, value, done, may_wait=may_wait)

    def _log_failed(self, topic: str, partition: int, error: str) -> None:
        now_s = self._ports.clock_s()
        if now_s - self._logged_s >= SAID_EVERY_S:
            self._logged_s = now_s
            _logger.warning("messages are sent again, such as one to %s partition %d: %s", topic, partition, error)

    def _hand_over(
        self,
        topic: str,
        partition: int,
        value: bytes,
        on_done: Callable[[str | None], None],
        *,
        may_wait: bool = False,
    ) -> None:
        """Sends a message, and remembers since when nothing was heard of it."""
        self._handed_over += 1
        number = self._handed_over
        self._unheard[number] = self._ports.clock_s()

        def done(error: str | None) -> None:
            del self._unheard[number]
            on_done(error)

        self._ports.voice.send(topic, partition, value, done, may_wait=may_wait)

    def _say_again(self, now_s: float) -> None:
        if self._unsaid and now_s - self._said_again_s >= TELL_AGAIN_S:
            self._said_again_s = now_s
            unsaid, self._unsaid = self._unsaid, []
            for each in unsaid:
                self._hand_over(*each)

    # --- signs of life ------------------------------------------------------------------------------------------------

    def _beat(self, now_s: float) -> None:
        if now_s - self._beaten_s >= HEARTBEAT_INTERVAL_S and self._serving.may_beat(now_s):
            self._beaten_s = now_s
            self._say_heartbeat(leaving=False)

    def _say_heartbeat(self, *, leaving: bool) -> None:
        accepted = self._serving.accepted
        assert accepted.instance is not None
        heartbeat = Heartbeat(
            accepted.log_id, accepted.epoch, accepted.instance, accepted.seq, self._ports.clock_ms(), leaving
        )
        # One that is lost is not sent again: it would be late.
        self._hand_over(self._topics.control, 0, encode_heartbeat(heartbeat), lambda error: None)
