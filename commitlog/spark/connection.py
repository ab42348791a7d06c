"""The log that Spark's driver and tasks write to and read: one connection for each in a process, and its catalog."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from threading import Lock
from typing import Any, cast
from uuid import UUID

from commitlog.catalog.queries import Catalog
from commitlog.client import CommitLog, SubmittedOutcome
from commitlog.client.access.kafka_access import KafkaAccess
from commitlog.config import Settings
from commitlog.errors import InvalidRequestError

_KAFKA = "kafka."
_NO_CATALOG = "postgresql://of-the-driver-alone"
_lock = Lock()
_logs: dict[tuple[tuple[str, ...], tuple[tuple[str, str], ...]], CommitLog] = {}


def connect(settings: Mapping[str, str] | None = None) -> CommitLog:
    """The log that settings name; one connection for each, kept for the life of the process.

    What begins with ``kafka.`` is passed through to Kafka's client.
    """
    given = (settings or {}).items()
    own = sorted((name, value) for name, value in given if not name.startswith(_KAFKA))
    kafka = sorted((name.removeprefix(_KAFKA), value) for name, value in given if name.startswith(_KAFKA))
    return connect_by(_loaded(tuple(own), tuple(kafka)))


@lru_cache(maxsize=16)
def _loaded(given: tuple[tuple[str, Any], ...], kafka: tuple[tuple[str, str], ...]) -> Settings:
    return Settings.load(**dict(given), kafka=dict(kafka))


def for_tasks(settings: Settings, *, catalog: bool) -> Settings:
    """The settings that tasks are sent: without secrets that they have no use for; without the catalog unless they ask it."""
    kept = settings.database_url if catalog else _NO_CATALOG
    return replace(settings, database_url=kept, reader_url=None, writer_url=None, ui_token=None)


def connect_by(settings: Settings) -> CommitLog:
    """The log of settings that were read on another machine: the machine that a task runs on need not have any."""
    place = (settings.log, settings.bootstrap_servers, settings.database_url, settings.data_path)
    options = tuple(sorted(settings.kafka.items()))
    with _lock:
        known = _logs.get((place, options))
        if known is None or known.is_closed:
            known = _logs[place, options] = CommitLog.connect(settings=settings)
        return known


def catalog_of(log: CommitLog) -> Catalog:
    """The catalog of a log's tables, for the list of their files; a testing log's has the same methods."""
    if isinstance(log.access, KafkaAccess):
        return log.access.catalog()
    return cast("Catalog", log.access.contents())


def wait_for_seq(log: CommitLog, seq: int, timeout_s: float) -> bool:
    """Wait until the catalog holds an outcome; False when it was not in time."""
    return _served(log).wait_for_seq(seq, timeout_s)


def committed_as(log: CommitLog, writer_id: str, writer_seq: int) -> SubmittedOutcome | None:
    """The answer of a commit that was made before under a key, by whichever process."""
    return log._committed_as(writer_id, writer_seq)


def proposal_of(log: CommitLog, snapshot_id: int) -> UUID | None:
    """Which proposal made a snapshot, as far as readers see it."""
    return log._proposal_of(snapshot_id)


def settings_of(log: CommitLog) -> Settings:
    """The settings that a log was connected by, for tasks that read its topics.

    Raises:
        InvalidRequestError: it is a log in memory.
    """
    return _served(log).connected_by


def _served(log: CommitLog) -> KafkaAccess:
    if not isinstance(log.access, KafkaAccess):
        raise InvalidRequestError(
            "a log in memory is in this process alone, and here Spark's tasks would have to read its topics: start a real one "
            "with `commitlog up`. In memory run the table handle, append, read, stream_into and the other functions"
        )
    return log.access
