"""How a standby hears that the active sequencer lives.

The active one writes its heartbeats in its transactions, so that a heartbeat says more than that a process runs: it can
commit. They are heard by this machine's clock alone.
"""

from __future__ import annotations

import time

from confluent_kafka import TopicPartition

from commitlog.config import Settings
from commitlog.errors import MalformedRecordError
from commitlog.log.codec import Heartbeat, decode_heartbeat
from commitlog.log.connection import assign, end_offset, make_admin, make_consumer
from commitlog.log.topics import topics_of


class HeartbeatListener:
    """Listens from now on.

    Args:
        settings: which log, and where.
        log_id: whose heartbeats count.
    """

    def __init__(self, settings: Settings, log_id: bytes) -> None:
        self._log_id = log_id
        self._consumer = make_consumer(settings)
        topic = topics_of(settings.log).control
        end = end_offset(settings, make_admin(settings), topic, 0, committed=True)
        assign(settings, self._consumer, [TopicPartition(topic, 0, end)])
        self._heard_at = time.monotonic()
        self.last: Heartbeat | None = None

    def silent_s(self) -> float:
        """How long nothing has been heard."""
        for message in self._consumer.consume(100, 0):
            value = message.value()
            if message.error() is None and value is not None:
                self._hear(value)
        return time.monotonic() - self._heard_at

    def close(self) -> None:
        """Ends listening."""
        self._consumer.close()

    def _hear(self, value: bytes) -> None:
        try:
            heartbeat = decode_heartbeat(value)
        except MalformedRecordError:
            return
        if heartbeat.log_id == self._log_id:
            self.last, self._heard_at = heartbeat, time.monotonic()
