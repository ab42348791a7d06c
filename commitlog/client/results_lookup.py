"""One outcome out of the results topic, whole: found by its seq or by the snapshot it made, without reading the rest.

Offsets are not dense, but they rise with seq and with the head, so a few dozen seeks find any place in a log of any
length. What is found is the starting point of a verified reader, or shown to people; nothing is decided by it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from commitlog.config import Settings
from commitlog.domain.model import Genesis, Outcome, ProposalId, Verdict
from commitlog.errors import CommitLogError, LogIntegrityError, LogUnavailableError, MalformedRecordError
from commitlog.log.codec import OutcomeRecord, decode_record, hash_record
from commitlog.log.connection import end_offset, make_admin
from commitlog.log.reading import TopicReader
from commitlog.log.results import LogPosition
from commitlog.log.topics import topics_of

POLL_S = 0.5
SILENT_S_MAX = 10.0
READ_MAX = 256
LAST_STEP = 16
NEAR = 256


class FoundOutcome(NamedTuple):
    """An outcome and its place. ``outcome`` is None for the genesis."""

    outcome: Outcome | None
    position: LogPosition

    @property
    def seq(self) -> int:
        """Its place in the log."""
        return self.position.seq

    @property
    def head_snapshot_id(self) -> int:
        """The head after it."""
        return 0 if self.outcome is None else self.outcome.head_snapshot_id


class ResultsLookup:
    """Finds single outcomes. Thread-safe: callers take turns.

    Args:
        settings: which log, and where.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._topic = topics_of(settings.log).results
        self._lock = threading.Lock()
        self._reader: TopicReader | None = None

    def by_seq(self, seq: int) -> FoundOutcome | None:
        """The outcome with that seq; None when the log does not reach so far."""
        found = self._near_end(seq) or self._first(lambda at: at.seq, seq)
        return found if found is not None and found.seq == seq else None

    def by_proposal(self, proposal_id: ProposalId, *, after_offset: int) -> FoundOutcome | None:
        """The first outcome of a proposal id after an offset; None when there is none up to the end."""
        repeat: FoundOutcome | None = None
        with self._lock:
            for raw, at in self._records_from(after_offset + 1):
                found = _found(raw, at)
                if found.outcome is None or found.outcome.proposal_id != proposal_id:
                    continue
                if found.outcome.verdict is not Verdict.DUPLICATE:
                    return found
                repeat = repeat or found
        return repeat

    def by_snapshot(self, snapshot_id: int) -> FoundOutcome | None:
        """The outcome that made a snapshot, for 0 the genesis; None when the log does not reach so far."""
        return self._first(lambda at: at.head_snapshot_id, snapshot_id)

    def last(self) -> FoundOutcome | None:
        """The last record of the log as it is now; None when there is none."""
        end = end_offset(self._settings, make_admin(self._settings), self._topic, 0, committed=True)
        step = LAST_STEP
        with self._lock:
            # The last offsets are markers of transactions, and an aborted transaction is passed over as a whole.
            while (found := self._last_from(max(end - step, 0), end)) is None and step < end:
                step *= 4
        return found

    def close(self) -> None:
        """Let go of the connection."""
        with self._lock:
            self._drop()

    def _drop(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _near_end(self, seq: int) -> FoundOutcome | None:
        """An outcome that has just been decided, with one seek."""
        end = end_offset(self._settings, make_admin(self._settings), self._topic, 0, committed=True)
        with self._lock:
            for raw, at in self._records_from(max(seq, end - NEAR)):
                found = _found(raw, at)
                if found.seq >= seq:
                    return found if found.seq == seq else None
        return None

    def _first(self, key: Callable[[FoundOutcome], int], wanted: int) -> FoundOutcome | None:
        """The first record whose key is at least ``wanted``. A key never exceeds its record's offset."""
        with self._lock:
            low = max(wanted, 0)
            high = end_offset(self._settings, make_admin(self._settings), self._topic, 0, committed=True)
            best: FoundOutcome | None = None
            while low < high:
                middle = (low + high) // 2
                found = self._at_or_after(middle)
                if found is None or found.position.results_offset >= high:
                    high = middle
                elif key(found) >= wanted:
                    best, high = found, middle
                else:
                    low = found.position.results_offset + 1
            return best

    def _last_from(self, offset: int, end: int) -> FoundOutcome | None:
        """The last record from an offset to an end."""
        found: tuple[bytes, int] | None = None
        for raw, at in self._records_from(offset):
            if at >= end:
                break
            found = raw, at
        return None if found is None else _found(*found)

    def _at_or_after(self, offset: int) -> FoundOutcome | None:
        """The first record from an offset on; None at the end of the log."""
        return next((_found(raw, at) for raw, at in self._records_from(offset)), None)

    def _records_from(self, offset: int) -> Iterator[tuple[bytes, int]]:
        """Records and their offsets, up to the end of the log."""
        try:
            if self._reader is None:
                self._reader = TopicReader(self._settings, self._topic, fetch_wait_max_ms=10)
            reader = self._reader
            reader.start({0: offset})
            heard_at = time.monotonic()
            while not reader.is_at_end(0):
                for message in reader.read(READ_MAX, POLL_S):
                    heard_at, at = time.monotonic(), message.offset()
                    assert at is not None
                    yield message.value() or b"", at
                if time.monotonic() - heard_at > SILENT_S_MAX:
                    waited_ms, servers = int(SILENT_S_MAX * 1000), self._settings.bootstrap_servers
                    raise LogUnavailableError(servers, waited_ms=waited_ms, detail="no results came")
        except CommitLogError:
            # The next question begins with a new connection, whatever this one has run into.
            self._drop()
            raise


def _found(raw: bytes, offset: int) -> FoundOutcome:
    try:
        record = decode_record(raw)
    except MalformedRecordError as error:
        raise LogIntegrityError(f"results offset {offset} holds no record of a log: {error}") from None
    digest = hash_record(raw)
    if isinstance(record, Genesis):
        return FoundOutcome(None, LogPosition(record.log_id, 0, 0, digest, offset))
    assert isinstance(record, OutcomeRecord)
    outcome = record.outcome
    return FoundOutcome(outcome, LogPosition(record.log_id, outcome.seq, outcome.epoch, digest, offset))
