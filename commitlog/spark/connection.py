"""The log that Spark's driver and tasks write to and read: one connection for each in a process, and its catalog."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from threading import Lock
from typing import Any

from commitlog.catalog.queries import Catalog
from commitlog.client import CommitLog
from commitlog.client.access.kafka_access import KafkaAccess
from commitlog.config import Settings

_SETTINGS = frozenset(Settings.__slots__)
_lock = Lock()
_logs: dict[tuple[tuple[str, ...], tuple[tuple[str, str], ...]], CommitLog] = {}


def connect(options: Mapping[str, str] | None = None) -> CommitLog:
    """The log that the settings among ``options`` name; one connection for each, kept for the life of the process."""
    return connect_by(
        _loaded(tuple(sorted((name, value) for name, value in (options or {}).items() if name in _SETTINGS)))
    )


@lru_cache(maxsize=16)
def _loaded(given: tuple[tuple[str, Any], ...]) -> Settings:
    return Settings.load(**dict(given))


def connect_by(settings: Settings) -> CommitLog:
    """The log that settings name which were found elsewhere: a task's machine need not have any of its own."""
    place = (settings.log, settings.bootstrap_servers, settings.database_url, settings.data_path)
    options = tuple(sorted(settings.kafka.items()))
    with _lock:
        if (place, options) not in _logs:
            _logs[place, options] = CommitLog.connect(settings=settings)
        return _logs[place, options]


def catalog_of(log: CommitLog) -> Catalog:
    """The catalog of a log's tables, for the list of their files."""
    return _kafka(log).catalog()


def wait_for_seq(log: CommitLog, seq: int, timeout_s: float) -> bool:
    """Wait until the catalog holds an outcome; False when it was not in time."""
    return _kafka(log).wait_for_seq(seq, timeout_s)


def settings_of(log: CommitLog) -> Settings:
    """The settings that a log was connected by, for tasks that read its topics."""
    return _kafka(log).connected_by


def _kafka(log: CommitLog) -> KafkaAccess:
    access = log._access
    assert isinstance(access, KafkaAccess), "an in-memory log has no topics and no catalog for Spark"
    return access
