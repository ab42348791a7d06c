"""Where the log ends now: what whoever must see everything that was acknowledged before asks first."""

from __future__ import annotations

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from commitlog.config import Settings
from commitlog.log.connection import REQUEST_TIMEOUT_S, answered, know_topic, make_admin
from commitlog.log.topics import topics_of


class LogEnd:
    """Asks for the end of a log's results, one request each time. Thread-safe.

    Args:
        settings: which log, and where.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._topic = topics_of(settings.log).results
        self._admin: AdminClient | None = None

    def offset(self) -> int:
        """The offset after the last record: what was acknowledged before this call lies below it.

        Raises:
            LogUnavailableError: no broker has answered.
        """
        if self._admin is None:
            admin = make_admin(self._settings)
            know_topic(self._settings, admin, self._topic)
            self._admin = admin
        return answered(self._settings, self._ask)

    def _ask(self) -> int:
        assert self._admin is not None
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        asked = self._admin.list_offsets({TopicPartition(self._topic, 0): latest}, request_timeout=REQUEST_TIMEOUT_S)
        (answer,) = asked.values()
        return int(answer.result().offset)
