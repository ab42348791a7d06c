"""What happens in the log while the page runs: a beat each second, of which the last minutes are kept.

One thread follows the log and counts; another closes each second, asks how far readers are, and tells whoever listens.
A beat is all that is told, however many outcomes came in its second.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from commitlog.catalog.history import HistoryFilter
from commitlog.client import CommitLog
from commitlog.domain import model as m
from commitlog.errors import CommitLogError, ResultsTrimmedError
from commitlog.observing.lag import Lag

BEAT_S = 1.0
BEATS_KEPT = 120
OUTCOMES_KEPT = 1_000
UNSEEN_APART_MAX = 10_000
RETRY_S = 2.0

_FOLLOWING = "the log cannot be followed"
_logger = logging.getLogger("commitlog.ui")


@dataclass(frozen=True, slots=True)
class Beat:
    """One second of the log.

    Attributes:
        decided: outcomes in it.
        committed: commits among them.
        visible: how many commits readers came to see in it.
        latency_p50_ms, latency_p99_ms: from sending, by the writers' clocks, to the decision; None without any.
        lag: snapshots that are decided and that readers do not see yet.
        lag_s: how long ago the first of them was decided, in seconds.
        undecided: proposals that wait for their decision.
        undecided_s: for how long the first of them has waited, as far as was looked, in seconds.
        head: the newest snapshot that readers see; None as long as nobody answers.
    """

    decided: int = 0
    committed: int = 0
    visible: int = 0
    latency_p50_ms: float | None = None
    latency_p99_ms: float | None = None
    lag: int = 0
    lag_s: float = 0.0
    undecided: int = 0
    undecided_s: float = 0.0
    head: int | None = None


@dataclass(slots=True)
class _Unseen:
    """Snapshots that readers do not see yet, and when the first of them was decided."""

    first: int
    last: int
    decided_s: float


@dataclass(slots=True)
class _Second:
    decided: int = 0
    committed: int = 0
    latencies_ms: list[int] = field(default_factory=list)
    unseen: _Unseen | None = None


class Pulse:
    """Counts what a log decides. Thread-safe.

    Args:
        log: is followed.
        clock_s: what time it is, in seconds since 1970.
    """

    def __init__(self, log: CommitLog, *, clock_s: Callable[[], float] = time.time) -> None:
        self._log = log
        self._clock_s = clock_s
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._second = _Second()
        self._beats: deque[Beat] = deque(maxlen=BEATS_KEPT)
        self._kept: deque[tuple[str, tuple[str, ...]]] = deque(maxlen=OUTCOMES_KEPT)
        self._unseen: deque[_Unseen] = deque()
        self._decided: dict[int, int] = {}
        self._waiting = Lag(self._decided_so_far, self._sent_so_far, has_any=log.access.has_undecided, clock_s=clock_s)
        self._sent = 0
        self._seq = 0
        self._head: int | None = None
        self._problems: dict[str, str] = {}
        self.on_beat: Callable[[Beat], None] = lambda beat: None

    # --- running ------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Follow the log and beat, in the background, until `stop`."""
        for run in (self._follow, self._beat_on):
            threading.Thread(target=run, name=f"pulse{run.__name__}", daemon=True).start()

    def stop(self) -> None:
        """Beat no more."""
        self._stop.set()

    def _follow(self) -> None:
        after: int | None = None
        while not self._stop.is_set():
            with self._said(_FOLLOWING):
                self._log.last_seq()
            # From here on it may wait for long, and all is well meanwhile.
            with self._said(_FOLLOWING):
                after = self.begin() if after is None else after
                try:
                    for outcome in self._log.subscribe(after):
                        after = outcome.seq
                        self.take(outcome)
                        if self._stop.is_set():
                            return
                except ResultsTrimmedError:
                    # As after a laptop's sleep of days: where it was, the log cannot be followed any more.
                    after = None
                    raise
            self._stop.wait(RETRY_S)

    def _beat_on(self) -> None:
        while not self._stop.wait(BEAT_S):
            head = None
            with self._said("readers cannot be asked"):
                head = self._log.contents().snapshots(limit=1)[0].snapshot_id
            with self._said("the log cannot be asked"):
                self.look()
            beat = self.beat(head)
            with self._said("a beat cannot be told"):
                self.on_beat(beat)

    @contextmanager
    def _said(self, what: str) -> Iterator[None]:
        """What goes wrong in the block is told on the page until it goes well; neither thread ends by it."""
        try:
            yield
            self._problems.pop(what, None)
        except Exception as error:
            if self._problems.get(what) != str(error):
                _logger.warning("%s: %s", what, error, exc_info=not isinstance(error, CommitLogError))
            self._problems[what] = str(error)

    # --- counting -----------------------------------------------------------------------------------------------------

    def begin(self) -> int:
        """Take what was decided before from the catalog, and what readers do not see of it; the seq after which to follow."""
        last = self._log.last_seq()
        decided = self._log.access.decided_offsets()
        known = self._log.contents().history(HistoryFilter(before_seq=last + 1, limit=OUTCOMES_KEPT))
        unseen = self._unseen_between(known[0].seq if known else 0, last)
        with self._lock:
            self._second.unseen = None
            self._unseen = deque(unseen)
            self._kept.clear()
            self._kept.extend((each.verdict, each.conflict_kinds) for each in reversed(known))
            self._decided, self._seq = dict(decided), last
        return last

    def _unseen_between(self, seen: int, last: int) -> list[_Unseen]:
        """The snapshots of the outcomes after the one that readers see, up to the last one."""
        try:
            ends = [self._log.outcome_at(seen + 1), self._log.outcome_at(last)] if seen < last else []
        except ResultsTrimmedError:
            return []  # The catalog is made anew from an archive.
        if not ends or ends[0] is None or ends[1] is None:
            return []
        first, newest = ends[0].snapshot_id or ends[0].head_snapshot_id + 1, ends[1].head_snapshot_id
        return [_Unseen(first, newest, ends[0].decided_at_ms / 1000)] if first <= newest else []

    def take(self, outcome: m.Outcome) -> None:
        """Count an outcome."""
        self._problems.pop(_FOLLOWING, None)
        created_at_ms = 0 if outcome.proposal is None else outcome.proposal.created_at_ms
        with self._lock:
            second = self._second
            second.decided += 1
            self._decided[outcome.source.partition], self._seq = outcome.source.offset + 1, outcome.seq
            self._kept.append((outcome.verdict.value, tuple({each.kind.value for each in outcome.conflicts})))
            if created_at_ms:
                second.latencies_ms.append(max(0, outcome.decided_at_ms - created_at_ms))
            if outcome.snapshot_id is not None:
                second.committed += 1
                self._note_unseen(second, outcome.snapshot_id, outcome.decided_at_ms / 1000)

    def _note_unseen(self, second: _Second, snapshot_id: int, decided_s: float) -> None:
        # Readers may be away for days: when so many wait, those of a second are noted together.
        if second.unseen is None or len(self._unseen) < UNSEEN_APART_MAX:
            second.unseen = _Unseen(snapshot_id, snapshot_id, decided_s)
            self._unseen.append(second.unseen)
        second.unseen.last = snapshot_id

    def look(self) -> None:
        """See how many proposals wait; raises what asking raises."""
        self._waiting.compare()

    def _decided_so_far(self) -> Mapping[int, int]:
        with self._lock:
            return dict(self._decided)

    def _sent_so_far(self, _: Mapping[int, int]) -> Mapping[int, int]:
        found = self._log.access.sent_offsets()
        self._sent = sum(found.values())
        return found

    def _undecided(self) -> int:
        # Of a partition without an outcome since this began, readers may have known less then than was decided: no more wait
        # than have no outcome, and outcomes are counted by their seq.
        return min(self._waiting.records or 0, max(0, self._sent - self._seq))

    def beat(self, head: int | None) -> Beat:
        """Close the second.

        Args:
            head: the newest snapshot that readers see; None when nobody answers.
        """
        with self._lock:
            now_s, undecided = self._clock_s(), self._undecided()
            second, self._second = self._second, _Second()
            visible = 0 if head is None or self._head is None else max(0, head - self._head)
            self._head = self._head if head is None else head
            while self._unseen and self._unseen[0].last <= (self._head or 0):
                self._unseen.popleft()
            found = Beat(
                decided=second.decided,
                committed=second.committed,
                visible=visible,
                latency_p50_ms=_share(second.latencies_ms, 0.5),
                latency_p99_ms=_share(second.latencies_ms, 0.99),
                lag=self._unseen[-1].last - max(self._unseen[0].first - 1, self._head or 0) if self._unseen else 0,
                lag_s=max(0.0, now_s - self._unseen[0].decided_s) if self._unseen else 0.0,
                undecided=undecided,
                undecided_s=max(0.0, self._waiting.seconds or 0.0) if undecided else 0.0,
                head=self._head,
            )
            self._beats.append(found)
            return found

    # --- asking -------------------------------------------------------------------------------------------------------

    def beats(self) -> Sequence[Beat]:
        """The last minutes, the oldest first."""
        with self._lock:
            return tuple(self._beats)

    @property
    def problem(self) -> str | None:
        """What is wrong with measuring, if anything is."""
        return "; ".join(f"{what}: {error}" for what, error in list(self._problems.items())) or None

    def verdicts(self) -> Counter[str]:
        """Of the last outcomes, how many of each verdict."""
        with self._lock:
            return Counter(verdict for verdict, _ in self._kept)

    def conflicts(self) -> Counter[str]:
        """Of the last outcomes, how many were refused for conflicts of each kind."""
        with self._lock:
            return Counter(kind for _, kinds in self._kept for kind in kinds)


def _share(values: Sequence[int], share: float) -> float | None:
    """The value that this share of them does not exceed."""
    return float(sorted(values)[min(len(values) - 1, int(len(values) * share))]) if values else None
