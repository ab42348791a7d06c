"""A log made again in an empty broker from a backup: the same records at the same offsets.

What lay between the records that count is made up for by empty messages, which nobody heeds; so is what was decided of the
proposals, of which only the offsets matter: the next one to be decided is where the outcomes say. So checkpoints, positions
of subscribers and copies of the catalog that were made before the backup fit again. Checkpoints that are beyond it, which
nobody could start from, are removed.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from confluent_kafka import KafkaError, Message, Producer

from commitlog.client.outcomes.archive import archived_results
from commitlog.client.outcomes.archive_files import ArchiveFiles
from commitlog.config import Settings
from commitlog.domain.state.index import SequencerState
from commitlog.errors import ConfigurationError, LogUnavailableError
from commitlog.log.checkpoint import forget_checkpoints
from commitlog.log.connection import MESSAGE_BYTES_MAX, batch_bytes, end_offsets, make_producer
from commitlog.log.replica import state_with
from commitlog.log.reports import offset_of
from commitlog.log.results import ResultRecord
from commitlog.log.topic_settings import create_topics, partition_counts, topic_message_bytes_max
from commitlog.log.topics import topics_of

FLUSH_TIMEOUT_S = 120.0
TOLD_EVERY = 10_000
WAITING_MAX = 100_000


@dataclass(frozen=True, slots=True)
class Restored:
    """What a backup held: the last outcome, and the head after it."""

    seq: int
    head_snapshot_id: int


def restore(
    settings: Settings, source: str, *, on_progress: Callable[[str, int, int], None] = lambda doing, done, total: None
) -> Restored:
    """Write a backup's records into the topics of a log that is not there. Nothing of the service may run meanwhile.

    Args:
        settings: the broker, and the name that the log had.
        source: what `commitlog backup` has written.
        on_progress: told what is written, how much of it, and how much there is.

    Raises:
        ConfigurationError: there is something of this log in the broker, or nothing in the backup.
        LogIntegrityError: the backup is not what was written. Nothing was restored.
        LogUnavailableError: the broker does not answer, or has not taken all; delete the log's topics and begin again.
    """
    _check_empty(settings)
    state, end = _replayed(source, partial(on_progress, "checking the backup"))
    settings = replace(settings, partitions=state.partitions)
    create_topics(settings, state.partitions, state.settings.proposal_bytes_max)
    topics = topics_of(settings.log)
    with _Writing(settings, topics.results, 0) as writing:
        for record in archived_results(source, with_end=True):
            writing.fill_to(record.offset - len(record.takeovers))
            for each in (*record.takeovers, record.raw):
                writing.write(each)
            if record.seq % TOLD_EVERY == 0:
                on_progress("writing the results", writing.offset, end)
    # Last: a sequencer that is started before all is there lacks proposals that were decided, and takes nothing for the log.
    for partition, offset in state.next_offsets.items():
        with _Writing(settings, topics.proposals, partition) as writing:
            for upto in (*range(TOLD_EVERY, offset, TOLD_EVERY), offset):
                writing.fill_to(upto)
                on_progress(f"filling partition {partition} of the proposals", upto, offset)
    forget_checkpoints(settings, state.log_id, after_seq=state.next_seq - 1)
    return Restored(state.next_seq - 1, state.head_snapshot_id)


def _check_empty(settings: Settings) -> None:
    """Raise ConfigurationError when there are records of the log."""
    counts, topics = partition_counts(settings), topics_of(settings.log)
    # What was told, too: of what the backup lacks it would speak as of a loss.
    for topic in (topics.results, topics.proposals, topics.receipts, topics.control, topics.trims):
        if topic in counts and any(end_offsets(settings, topic, range(counts[topic])).values()):
            raise ConfigurationError(
                f"there are records in {topic} at {settings.bootstrap_servers}: a log is restored where nothing of it is. "
                f"Delete its topics ({', '.join(topics)}) if they are not needed, or restore into another broker"
            )


def _replayed(source: str, on_progress: Callable[[int, int], None]) -> tuple[SequencerState, int]:
    """The state at the end of a backup, and where its results end; the chain of the whole is checked on the way."""
    state: SequencerState | None = None
    last: ResultRecord | None = None
    end = max((each.results_offset + 1 for each in ArchiveFiles(source).last_positions()), default=0)
    for last in archived_results(source, with_end=True):
        state = state_with(state, last)
        if last.seq % TOLD_EVERY == 0:
            on_progress(last.offset + 1, end)
    if state is None or last is None:
        raise ConfigurationError(f"there is no backup at {source}: `commitlog backup` writes one")
    return state, last.offset + 1


class _Writing:
    """Writes into one partition that nobody else writes into, each message at its offset."""

    def __init__(self, settings: Settings, topic: str, partition: int) -> None:
        self._settings = settings
        self._topic = topic
        self._partition = partition
        self._producer: Producer = make_producer(
            settings,
            linger_ms=20,
            batch_size=batch_bytes(topic_message_bytes_max(settings, topic)),
            queue_buffering_max_messages=WAITING_MAX,
            # Room for the largest record.
            queue_buffering_max_kbytes=MESSAGE_BYTES_MAX // 1024,
        )
        self._failure = ""
        self.offset = 0

    def __enter__(self) -> _Writing:
        return self

    def __exit__(self, error_type: object, *_: object) -> None:
        left = 0 if self._failure else self._producer.flush(FLUSH_TIMEOUT_S)
        if error_type is not None:
            return
        if left:
            self._fail(f"{left} messages wait")
        self._check()
        # An acknowledgement without an offset is no proof, and behind the last message nothing else would show its absence.
        end = end_offsets(self._settings, self._topic, [self._partition])[self._partition]
        if end != self.offset:
            self._fail(f"it ends at {end} instead of {self.offset}")
        self._check()

    def _fail(self, why: str) -> None:
        self._failure = self._failure or why

    def _check(self) -> None:
        if self._failure:
            raise LogUnavailableError(
                self._settings.bootstrap_servers,
                met=f"has not taken all of {self._topic}",
                detail=self._failure,
                advice="Delete the log's topics, and restore it again",
            )

    def fill_to(self, offset: int) -> None:
        """Write empty messages up to an offset."""
        while self.offset < offset:
            self.write(b"")

    def write(self, value: bytes) -> None:
        """Write a message at the next offset; LogUnavailableError when one before it could not be written."""
        note = partial(self._note, self.offset)
        self.offset += 1
        while True:
            self._producer.poll(0)
            self._check()
            with suppress(BufferError):
                self._producer.produce(self._topic, value=value, partition=self._partition, on_delivery=note)
                return
            self._producer.poll(0.1)

    def _note(self, expected: int, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._fail(error.str())
        elif (offset := offset_of(message)) not in (expected, None):
            self._fail(f"somebody else writes: offset {offset} instead of {expected}")
