"""How a standby hears that the active sequencer lives.

A heartbeat says more than that a process runs: none is sent while an append waits. It is heeded only from the sequencer
that the chain has accepted last, and heard by this machine's clock alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from confluent_kafka import OFFSET_END, TopicPartition

from commitlog.config import Settings
from commitlog.errors import MalformedRecordError
from commitlog.log.chain import ChainState
from commitlog.log.codec import Heartbeat, decode_heartbeat
from commitlog.log.connection import assign, end_offset, make_consumer
from commitlog.log.topics import topics_of
from commitlog.log.triage import Consumed, consumed

READ_MAX = 1_000
DEAF_S = 1.0
"""Whoever has not listened for longer has heard nothing, which is no silence."""
HEARD_WITHIN_S = 1.5
"""A sequencer that is alive is heard sooner."""
POLL_S = 0.05


class _Beats(NamedTuple):
    """What was heard of one sequencer in one epoch."""

    first_s: float
    last_s: float
    last: Heartbeat


class Heard:
    """Which heartbeats came when, without Kafka: whose count is only known when the log has been read.

    Args:
        now_s: when the listening began, by a clock that never goes back.
    """

    def __init__(self, now_s: float) -> None:
        self._since_s = self._listened_s = now_s
        self._heard: dict[tuple[bytes, int, bytes], _Beats] = {}

    def listened(self, now_s: float) -> None:
        """Notes that what has come by now is heard; after a pause (of the process, or its machine) silence begins anew."""
        if now_s - self._listened_s > DEAF_S:
            self._since_s = now_s
        self._listened_s = now_s

    def hear(self, heartbeat: Heartbeat, now_s: float) -> None:
        """Notes a heartbeat."""
        # Of every epoch one instance at most is accepted, but one that was not may have believed it for a moment.
        key = heartbeat.log_id, heartbeat.epoch, heartbeat.instance
        before = self._heard.get(key)
        self._heard[key] = _Beats(now_s if before is None else before.first_s, now_s, heartbeat)
        if len(self._heard) > READ_MAX:
            del self._heard[next(iter(self._heard))]

    def newest(self, log_id: bytes) -> Heartbeat | None:
        """The last heartbeat of the highest epoch that was heard of a log and has not left; None when there was none."""
        heard = [each.last for each in self._heard.values() if each.last.log_id == log_id and not each.last.leaving]
        return max(heard, key=lambda beat: beat.epoch, default=None)

    def took_over(self, now_s: float) -> None:
        """Notes that a takeover was accepted just now: its sender lives."""
        self._since_s = now_s

    def silent_s(self, chain: ChainState, now_s: float) -> float:
        """How long the active sequencer has not been heard; infinite when it has said that it leaves."""
        heard_s = self._since_s
        for each in self._of_active(chain):
            if each.last.leaving:
                return float("inf")
            heard_s = max(heard_s, each.last_s)
        return now_s - heard_s

    def lived_s(self, chain: ChainState) -> float:
        """How long the active sequencer was heard, from its first heartbeat here to its last."""
        return max((each.last_s - each.first_s for each in self._of_active(chain)), default=0.0)

    def _of_active(self, chain: ChainState) -> Iterator[_Beats]:
        for (log_id, epoch, instance), each in self._heard.items():
            if (log_id, epoch) == (chain.log_id, chain.epoch) and chain.instance in (None, instance):
                yield each


class HeartbeatListener:
    """Listens from now on.

    Args:
        settings: which log, and where.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._topic = topics_of(settings.log).control
        self._consumer = make_consumer(settings)
        end = end_offset(settings, self._topic, 0)
        assign(settings, self._consumer, [TopicPartition(self._topic, 0, end)])
        self.heard = Heard(self._settings.machine.now_s())

    def took_over(self) -> None:
        """Notes that a takeover was accepted just now."""
        self.heard.took_over(self._settings.machine.now_s())

    def silent_s(self, chain: ChainState) -> float:
        """How long the sequencer that the chain has accepted last has not been heard."""
        self.listen()
        return self.heard.silent_s(chain, self._settings.machine.now_s())

    def listen(self) -> None:
        """Takes what has come; to be called often enough, for what came counts from then.

        Raises:
            LogRefusedError: Kafka does not let heartbeats be read.
        """
        self.heard.listened(self._settings.machine.now_s())
        for message in self._consumer.consume(READ_MAX, 0):
            kind = consumed(message.error(), self._settings.bootstrap_servers, self._topic)
            if kind is Consumed.GONE:
                # Whoever paused for longer than heartbeats are kept would hear nothing ever again.
                self._consumer.assign([TopicPartition(self._topic, 0, OFFSET_END)])
            value = message.value()
            if kind is Consumed.RECORD and value is not None:
                try:
                    self.heard.hear(decode_heartbeat(value), self._settings.machine.now_s())
                except MalformedRecordError:
                    continue

    def next_of(self, log_id: bytes) -> Heartbeat | None:
        """A heartbeat of a log's sequencer; None when none comes while one that is alive would be heard."""
        machine = self._settings.machine
        until_s = machine.now_s() + HEARD_WITHIN_S
        while True:
            self.listen()
            heartbeat = self.heard.newest(log_id)
            if heartbeat is not None or machine.now_s() >= until_s:
                return heartbeat
            machine.sleep(POLL_S)

    def rest(self) -> None:
        """Listens no more, at once: the active sequencer would hear itself, which costs a request each time."""
        self._consumer.unassign()

    def close(self) -> None:
        """Ends listening."""
        self._consumer.close()
