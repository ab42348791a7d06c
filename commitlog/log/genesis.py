"""The birth of a log: its topics, and the genesis with which its results begin.

``init_log`` appends a genesis and reads back whose has won: of two at the same moment the first in the topic counts, and
both see the same one.
"""

from __future__ import annotations

import time
import uuid

from commitlog.config import Settings
from commitlog.domain.model import Genesis, LogSettings
from commitlog.domain.model.ids import format_id
from commitlog.domain.model.settings import changed_settings
from commitlog.errors import (
    ConfigurationError,
    InvalidChangeError,
    LogIntegrityError,
    LogUnavailableError,
    ResultsTrimmedError,
)
from commitlog.log.codec import decode_record, encode_genesis
from commitlog.log.connection import ready_producer
from commitlog.log.results import ResultsReader
from commitlog.log.topic_settings import check_topics, create_topics, partition_counts
from commitlog.log.topics import topics_of
from commitlog.log.trims import last_trim

INIT_TIMEOUT_S = 30.0


def read_genesis(settings: Settings) -> Genesis | None:
    """What the log is; None when its results topic is empty.

    Raises:
        LogIntegrityError: the topic starts with something else.
        LogUnavailableError: no broker has answered.
    """
    try:
        with ResultsReader(settings) as reader:
            for records in reader.read_to_end(records_max=1):
                if records:
                    first = records[0].value
                    assert isinstance(first, Genesis)
                    return first
    except ResultsTrimmedError:
        trim = last_trim(settings)
        assert trim is not None
        genesis = decode_record(trim.genesis)
        assert isinstance(genesis, Genesis)
        return genesis
    return None


def init_log(settings: Settings, *, log_id: bytes | None = None, now_ms: int | None = None) -> Genesis:
    """Creates the log, or finds that it is there; afterwards a sequencer can start.

    Args:
        settings: the log's name, partitions, limits and first settings.
        log_id: 16 bytes; None makes one.
        now_ms: the time of creation; None is now.

    Raises:
        ConfigurationError: a topic or a first setting is wrong, or what is left of another log would be taken for this one's.
        LogUnavailableError: no broker has answered.
    """
    genesis = Genesis(
        log_id=log_id or uuid.uuid4().bytes,
        partitions=settings.partitions,
        created_at_ms=int(time.time() * 1000) if now_ms is None else now_ms,
        settings=first_settings(settings),
        data_path=settings.data_path,
    )
    existing = find_genesis(settings)
    if existing is not None:
        # Somebody may have deleted a topic in which nothing is the truth; of the others the service says what is gone.
        create_topics(settings, existing.partitions, existing.settings.proposal_bytes_max)
        return existing
    _check_never_trimmed(settings)
    # Another `init` may have asked for other partitions.
    try:
        create_topics(settings, genesis.partitions, genesis.settings.proposal_bytes_max, is_new=True)
    except ConfigurationError:
        if find_genesis(settings) is None:
            raise
    won = read_genesis(settings) or _append_genesis(settings, genesis)
    check_topics(settings, won.partitions, won.settings.proposal_bytes_max)
    return won


def _check_never_trimmed(settings: Settings) -> None:
    """What was trimmed of a log that is gone is nothing that a new one has: it would lose as much at its first trim."""
    noted = last_trim(settings)
    if noted is not None:
        raise ConfigurationError(
            f"{topics_of(settings.log).trims} tells of a log {settings.log} that is gone; its outcomes up to {noted.seq} are "
            f"archived at {noted.archive}. Delete that topic, then restore the log (docs/retention.md) or create another one"
        )


def find_genesis(settings: Settings) -> Genesis | None:
    """What the log is; None when there is no such log."""
    return read_genesis(settings) if topics_of(settings.log).results in partition_counts(settings) else None


def _append_genesis(settings: Settings, genesis: Genesis) -> Genesis:
    """Appends a genesis, and gives the one that counts."""
    topic = topics_of(settings.log).results
    producer = ready_producer(settings, topic, linger_ms=0, delivery_timeout_ms=int(INIT_TIMEOUT_S * 1000))
    failures: list[str] = []
    producer.produce(
        topic,
        value=encode_genesis(genesis),
        partition=0,
        on_delivery=lambda error, _: failures.append(error.str()) if error is not None else None,
    )
    left = producer.flush(INIT_TIMEOUT_S)
    won = read_genesis(settings)
    if won is None:
        detail = f"the genesis could not be written: {'; '.join(failures) or f'{left} records wait'}"
        raise LogUnavailableError(settings.bootstrap_servers, waited_ms=int(INIT_TIMEOUT_S * 1000), detail=detail)
    return won


def first_settings(settings: Settings) -> LogSettings:
    """The settings that a log begins with; ConfigurationError when one is wrong."""
    first = LogSettings(proposal_bytes_max=settings.proposal_bytes_max)
    if not settings.genesis:
        return first
    try:
        return changed_settings(first, settings.genesis)
    except InvalidChangeError as error:
        raise ConfigurationError(f"genesis: {error}") from None


def require_genesis(settings: Settings) -> Genesis:
    """What the log is.

    Raises:
        ConfigurationError: there is no such log.
        LogIntegrityError: there is one of its name, which is not the one that is meant.
        LogUnavailableError: no broker has answered.
    """
    genesis = find_genesis(settings)
    if genesis is None:
        raise ConfigurationError(
            f"there is no log {settings.log!r} at {settings.bootstrap_servers}: `commitlog init` (or these credentials may not "
            "see it: `commitlog acl`)"
        )
    found = format_id(genesis.log_id)
    if settings.log_id is not None and found != settings.log_id:
        raise LogIntegrityError(
            f"the log {settings.log} at {settings.bootstrap_servers} is {found}, not {settings.log_id}, which "
            f"{settings.sources['log_id']} means: another broker answers there; is yours running (`commitlog up`)?"
        )
    return genesis
