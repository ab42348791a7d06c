"""One outcome out of the results topic, whole: found by its seq, its proposal, or the snapshot it made.

Only records that `Chain` has accepted are outcomes, and no record in the middle of the topic tells by itself whether it was. So
a look-up begins at a place that is known, a milepost of the catalog or the end of an earlier look-up, and reads on from there
like every other reader. Below what the catalog has applied these are a thousand outcomes at most, none of them large.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

from commitlog.catalog.queries import AppliedPosition, Catalog, Milepost
from commitlog.config import Settings
from commitlog.domain.model import Outcome, ProposalId, Verdict
from commitlog.errors import (
    CatalogUnavailableError,
    CommitLogError,
    LogIntegrityError,
    LogUnavailableError,
    ResultsTrimmedError,
)
from commitlog.log.chain import Chain
from commitlog.log.codec import Trim
from commitlog.log.results import LogPosition, ResultRecord, ResultsReader, read_messages
from commitlog.log.trims import last_trim, position_of

SILENT_S_MAX = 10.0
FAR = 1_000
"""Of so many outcomes the last is found without the others: more than lie after a place that the catalog knows."""


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
        catalog: knows places to begin at; without one, or while it is away, a look-up reads from the genesis.
    """

    def __init__(self, settings: Settings, catalog: Catalog | None = None) -> None:
        self._settings = settings
        self._catalog = catalog
        self._lock = threading.Lock()
        self._unanswered_at_s = float("-inf")
        self._reader: ResultsReader | None = None
        self._last: FoundOutcome | None = None

    def by_seq(self, seq: int) -> FoundOutcome | None:
        """The outcome with that seq, 0 for the genesis; None when the log does not reach so far."""
        with self._turn():
            at, before = self._at(), self._milepost(before_seq=seq)
            # An open reader is read on, unless a place to begin at lies between.
            if at is None or at.seq >= seq or (before is not None and before.seq > at.seq):
                self._begin_at(before, lies_behind=lambda trim: trim.seq < seq)
            return self._first(lambda found: found.seq >= seq)

    def by_proposal(self, proposal_id: ProposalId, *, after: LogPosition | None) -> FoundOutcome | None:
        """The first outcome of a proposal id after a place; None when there is none up to the end."""
        repeat: FoundOutcome | None = None
        with self._turn():
            self._begin_at(after)
            for found in self._to_end():
                if found.outcome is None or found.outcome.proposal_id != proposal_id:
                    continue
                if found.outcome.verdict is not Verdict.DUPLICATE:
                    return found
                repeat = repeat or found
        return repeat

    def by_snapshot(self, snapshot_id: int) -> FoundOutcome | None:
        """The outcome that made a snapshot, for 0 the genesis; None when the log does not reach so far."""
        with self._turn():
            before = self._milepost(before_snapshot=snapshot_id)
            self._begin_at(before, lies_behind=lambda trim: trim.head_snapshot_id < snapshot_id)
            return self._first(lambda found: found.head_snapshot_id >= snapshot_id)

    def last(self) -> FoundOutcome | None:
        """The last outcome of the log as it is now, or the genesis; None when there is none."""
        with self._turn():
            if self._last is None:
                self._begin_at(self._milepost(), lies_behind=lambda trim: True)
            elif self._lag():
                newest = self._milepost()
                # Not at the newest place, after which nothing may come, but at the one before it.
                self._skip_to(None if newest is None else self._milepost(before_seq=newest.seq))
            self._skip_what_is_far_behind()
            deque(self._to_end(), maxlen=0)
            at = self._at()
            if self._last is None and at is not None:
                # The log ends where reading began.
                self._begin_at(self._milepost(before_seq=at.seq), lies_behind=lambda trim: True)
                deque(self._to_end(), maxlen=0)
            return self._last

    def close(self) -> None:
        """Let go of the connection."""
        with self._lock:
            self._begin_anew()

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Ask, once those who came before have; who waited while one of them was not answered is told that, and asks no more.

        Raises:
            LogUnavailableError: one of them was not.
        """
        called_at_s = time.monotonic()
        with self._lock:
            if self._unanswered_at_s >= called_at_s:
                waited_ms = int((time.monotonic() - called_at_s) * 1000)
                detail = "others have asked before, and had no answer"
                raise LogUnavailableError(self._settings.bootstrap_servers, waited_ms=waited_ms, detail=detail)
            try:
                yield
                self._unanswered_at_s = float("-inf")
            except LogUnavailableError:
                self._unanswered_at_s = time.monotonic()
                raise

    def _first(self, is_it: Callable[[FoundOutcome], bool]) -> FoundOutcome | None:
        return next((found for found in self._to_end() if is_it(found)), None)

    def _lag(self) -> int:
        """How much lies between the reader and the log's end."""
        try:
            return 0 if self._reader is None else self._reader.lag()
        except CommitLogError:
            self._begin_anew()
            raise

    def _skip_to(self, place: LogPosition | None) -> None:
        """Go on at a place, where the reader has not come so far."""
        at = self._at()
        if place is not None and (at is None or place.seq > at.seq):
            self._begin_at(place, lies_behind=lambda trim: True)

    def _skip_what_is_far_behind(self) -> None:
        """Go on before the last outcome, where many lie between, as while no projector runs: the chain of their hashes is
        followed, and none is decoded."""
        lag, at, before = self._lag(), self._at(), None
        if self._reader is None or lag < FAR:
            return
        chain = Chain() if at is None else Chain.after(at)
        # What does not fit is met again, and told by the reader.
        with suppress(LogIntegrityError):
            for message in read_messages(self._settings, chain.next_offset, self._reader.next_offset + lag):
                offset, last = message.offset(), chain.position
                assert offset is not None
                chain.take(message.value(), offset)
                if chain.position is not last:
                    before = last
            self._skip_to(before)

    def _to_end(self) -> Iterator[FoundOutcome]:
        """What comes after the place where the reader is, up to the end of the log as it is now."""
        if self._reader is None:
            self._begin_at(None)
        try:
            reader = self._reader
            assert reader is not None
            end = reader.end()
            silent_since_s = time.monotonic()
            while reader.next_offset < end:
                # One by one: what has been read and is not given out could not be found by the next look-up.
                for record in reader.read(records_max=1):
                    self._last = _found(record, reader)
                    yield self._last
                    silent_since_s = time.monotonic()
                if time.monotonic() - silent_since_s > SILENT_S_MAX:
                    servers, waited_ms = self._settings.bootstrap_servers, int(SILENT_S_MAX * 1000)
                    raise LogUnavailableError(servers, waited_ms=waited_ms, detail="no results came")
        except GeneratorExit:
            raise
        except BaseException:
            # The next question begins with a new connection, whatever this one has run into: what was read as a signal ended
            # it may have come to nobody.
            self._begin_anew()
            raise

    def _at(self) -> LogPosition | None:
        return None if self._reader is None else self._reader.position

    def _begin_at(self, after: LogPosition | None, *, lies_behind: Callable[[Trim], bool] = lambda trim: False) -> None:
        """Begin after a place that is known; where that was trimmed, at what is left, if what is looked for lies behind it."""
        self._begin_anew()
        try:
            self._reader = ResultsReader(self._settings, after=after)
        except ResultsTrimmedError as error:
            trim = last_trim(self._settings)
            if trim is None or not lies_behind(trim):
                raise error
            self._reader = ResultsReader(self._settings, after=position_of(trim))

    def _begin_anew(self) -> None:
        if self._reader is not None:
            self._reader.close()
        self._reader = self._last = None

    def _milepost(self, *, before_seq: int | None = None, before_snapshot: int | None = None) -> LogPosition | None:
        if self._catalog is None:
            return None
        with suppress(CatalogUnavailableError):
            if self._catalog.exists():
                found = self._catalog.milepost(before_seq=before_seq, before_snapshot=before_snapshot)
                return None if found is None else position_known(found)
        return None


def position_known(kept: AppliedPosition | Milepost) -> LogPosition:
    """A position that the catalog keeps, as readers of the results begin at it."""
    return LogPosition(kept.log_id, kept.seq, kept.epoch, bytes(kept.hash), kept.results_offset)


def _found(record: ResultRecord, reader: ResultsReader) -> FoundOutcome:
    assert reader.chain is not None
    outcome = record.value if isinstance(record.value, Outcome) else None
    return FoundOutcome(outcome, record.position_in(reader.chain.log_id))
