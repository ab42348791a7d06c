"""Results that were deleted by our own doing: what was, and where they begin now.

`commitlog archive --trim` writes down what it will delete before it does, in a topic of its own, so that every reader can tell
a trim from a loss: results that begin at or before the outcome of the last note lack nothing that is not in the archive.
The note holds the genesis, too, which says what the log is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from confluent_kafka import TopicPartition

from commitlog.config import Settings
from commitlog.errors import (
    LogIntegrityError,
    LogLossError,
    LogUnavailableError,
    MalformedRecordError,
    ResultsTrimmedError,
)
from commitlog.log.chain import LogPosition
from commitlog.log.codec import Trim, UnknownSchemaError, decode_trim, encode_trim
from commitlog.log.connection import (
    REQUEST_TIMEOUT_S,
    all_answered,
    end_offsets,
    first_offsets,
    make_admin,
    make_producer,
)
from commitlog.log.reading import read_through
from commitlog.log.reports import WITHOUT_OFFSET, Delivery, Report
from commitlog.log.topic_settings import create_trims_topic, partition_counts
from commitlog.log.topics import topics_of

WRITE_TIMEOUT_S = 30.0


def last_trim(settings: Settings) -> Trim | None:
    """The furthest trim; None where nothing ever was trimmed. A note that came late, behind a further one, says nothing new.

    Raises:
        UnknownSchemaError: another version has noted one.
        LogUnavailableError: no broker has answered.
    """
    topic = topics_of(settings.log).trims
    if topic not in partition_counts(settings):
        return None
    firsts, ends = first_offsets(settings, topic, [0]), end_offsets(settings, topic, [0])
    notes = (value for _, value in read_through(settings, topic, firsts, ends))
    return max(_trims_in(notes), key=lambda trim: trim.seq, default=None)


def _trims_in(notes: Iterable[bytes | None]) -> Iterator[Trim]:
    for value in notes:
        try:
            yield decode_trim(value or b"")
        except UnknownSchemaError:
            raise
        except MalformedRecordError:
            # Somebody else's, which tells of no trim.
            continue


def position_of(trim: Trim) -> LogPosition:
    """The first outcome that is still in the results."""
    return LogPosition(trim.log_id, trim.seq, trim.epoch, trim.hash, trim.results_offset)


def trim_at(position: LogPosition, *, genesis: bytes, head_snapshot_id: int, archive: str, trimmed_at_ms: int) -> Trim:
    """A trim up to an outcome, the first one that stays."""
    return Trim(
        genesis,
        position.log_id,
        position.seq,
        position.epoch,
        position.hash,
        position.results_offset,
        head_snapshot_id,
        archive,
        trimmed_at_ms,
    )


def check_beginning(settings: Settings, first: int, after: LogPosition | None) -> None:
    """Checks that a reader who begins after a position (None: at the genesis) finds it in results that begin at an offset.

    Raises:
        ResultsTrimmedError: it was trimmed.
        LogLossError: what is gone was not trimmed.
        LogIntegrityError: the position is in another log, which had the name before.
    """
    topic, trim = topics_of(settings.log).results, last_trim(settings)
    if trim is None or first > trim.results_offset:
        by = (
            "" if trim is None else f", not only those up to {trim.results_offset - 1}, which were archived and trimmed"
        )
        raise LogLossError(
            f"{topic} starts at offset {first}: the results before it are gone (retention, or deleted records){by}, and with "
            "them the log's history; docs/retention.md says what to do"
        )
    if after is not None and after.log_id != trim.log_id:
        raise LogIntegrityError(f"outcome {after.seq} is of another log than {settings.log} is now")
    if after is None or after.results_offset < first:
        raise ResultsTrimmedError(
            settings.log, seq=trim.seq, archive=trim.archive, asked_seq=None if after is None else after.seq
        )


def begins_at(settings: Settings, after: LogPosition | None, offset: int) -> LogPosition | None:
    """Where reading has to begin to get to an offset of the results.

    That is ``after``, a known place before the offset (None: the genesis), unless it was trimmed: then it is the first outcome
    that is left. Where the offset itself was trimmed nothing helps, and ``after`` is returned as it is."""
    first = first_offsets(settings, topics_of(settings.log).results, [0])[0]
    if first == 0 or (after is not None and after.results_offset >= first):
        return after
    trim = last_trim(settings)
    return after if trim is None or offset <= trim.results_offset else position_of(trim)


def write_trim(settings: Settings, trim: Trim) -> None:
    """Writes down what will be deleted, then deletes it: the results before the first outcome that stays.

    Raises:
        LogUnavailableError: no broker has answered, or none knows where the note is; it may be there, and nothing is deleted.
    """
    topics = topics_of(settings.log)
    create_trims_topic(settings)
    producer, reports = make_producer(settings, linger_ms=0), list[Report]()
    producer.produce(
        topics.trims,
        value=encode_trim(trim),
        partition=0,
        on_delivery=Delivery(lambda _, report: reports.append(report), 0),
    )
    producer.flush(WRITE_TIMEOUT_S)
    report = reports[0] if reports else Report(None, "no answer")
    if report.offset is None:
        raise LogUnavailableError(
            settings.bootstrap_servers,
            met="has not noted the trim",
            detail=report.error or WITHOUT_OFFSET,
            advice="Nothing was deleted; trim again",
        )
    delete_before(settings, trim)


def delete_before(settings: Settings, trim: Trim) -> None:
    """Deletes the results before the first outcome that stays; those that are gone already stay gone."""
    admin, topic = make_admin(settings), topics_of(settings.log).results
    if first_offsets(settings, topic, [0])[0] < trim.results_offset:
        below = [TopicPartition(topic, 0, trim.results_offset)]
        all_answered(settings, lambda: admin.delete_records(below, request_timeout=REQUEST_TIMEOUT_S))
