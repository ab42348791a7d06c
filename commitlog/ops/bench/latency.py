"""How long one waits for a receipt, and until the catalog shows what was committed: one at a time, and at a steady rate.

At a steady rate each proposal has its moment, whatever became of those before, and is timed from that moment on: a stall
counts for everyone who came into it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from commitlog.catalog.queries import Catalog
from commitlog.catalog.watching import CatalogWatch
from commitlog.config import Settings
from commitlog.log.answers import PendingProposal
from commitlog.log.publisher import Publisher
from commitlog.ops.bench.backlog import COLUMNS, make_proposal
from commitlog.ops.bench.teams import percentile

PER_SECOND = 1_000
ANSWER_TIMEOUT_S = 60.0
WATCH_S = 0.5


@dataclass(frozen=True, slots=True)
class Latency:
    """Milliseconds from publishing on.

    Attributes:
        per_second: proposals; 0 is one at a time.
        proposals: how many.
        receipt_p50_ms, receipt_p99_ms: until the receipt.
        visible_p50_ms, visible_p99_ms: until who waits for the catalog knows that it is there.
    """

    per_second: int
    proposals: int
    receipt_p50_ms: float
    receipt_p99_ms: float
    visible_p50_ms: float
    visible_p99_ms: float


class _Watcher:
    """Notes when which outcome became visible, as a client sees it that waits for the catalog."""

    def __init__(self, settings: Settings) -> None:
        self._watch = CatalogWatch(Catalog(settings.database_url))
        self._seen: list[tuple[int, float]] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look, name="watcher")

    @classmethod
    @contextmanager
    def open(cls, settings: Settings) -> Iterator[_Watcher]:
        watcher = cls(settings)
        watcher._thread.start()
        try:
            yield watcher
        finally:
            watcher._stop.set()
            watcher._thread.join()
            watcher._watch.close()

    def _look(self) -> None:
        last = -1
        while not self._stop.is_set():
            shown = self._watch.wait_until(lambda shown: shown.seq > last, WATCH_S)  # noqa: B023
            if shown is not None:
                self._seen.append((shown.seq, time.perf_counter()))
                last = shown.seq

    def wait_for(self, seq: int) -> None:
        """Return when an outcome is visible."""
        deadline = time.monotonic() + ANSWER_TIMEOUT_S
        while (not self._seen or self._seen[-1][0] < seq) and time.monotonic() < deadline:
            time.sleep(WATCH_S / 10)

    def moments(self, seqs: Sequence[int]) -> list[float]:
        """When each of these was first seen; they ascend."""
        return first_seen(seqs, self._seen)


def first_seen(seqs: Sequence[int], seen: Iterable[tuple[int, float]]) -> list[float]:
    """For outcomes that ascend, the moment of the first of those that were seen, and when, that is not before it."""
    looks = iter(seen)
    at_seq, at = next(looks)
    moments = []
    for seq in seqs:
        while at_seq < seq:
            at_seq, at = next(looks)
        moments.append(at)
    return moments


def _note(answered_s: dict[int, float], number: int, _: PendingProposal) -> None:
    answered_s[number] = time.perf_counter()


def measure_latency(settings: Settings, *, proposals: int, per_second: int) -> Latency:
    """Publish proposals, one after the other's answer (0 a second) or at a steady rate.

    Args:
        settings: of a log whose sequencer and projector run.
        proposals: how many.
        per_second: the rate.
    """
    made = [make_proposal(number, COLUMNS) for number in range(proposals)]
    began_s: list[float] = []
    answered_s: dict[int, float] = {}
    with Publisher(settings) as publisher, _Watcher.open(settings) as watcher:
        publisher.submit(make_proposal(0, COLUMNS))
        pending: list[PendingProposal] = []
        start = time.perf_counter()
        for number, proposal in enumerate(made):
            due = start + number / per_second if per_second else time.perf_counter()
            time.sleep(max(0.0, due - time.perf_counter()))
            began_s.append(due)
            sent = publisher.publish(proposal)
            sent.on_answer(partial(_note, answered_s, number))
            pending.append(sent)
            if not per_second:
                sent.wait(ANSWER_TIMEOUT_S)
        seqs = [each.wait(ANSWER_TIMEOUT_S).seq for each in pending]
        watcher.wait_for(max(seqs))
        order = sorted(range(proposals), key=lambda number: seqs[number])
        visible_s = dict(zip(order, watcher.moments([seqs[number] for number in order]), strict=True))
    receipt_ms = [(answered_s[number] - began) * 1000 for number, began in enumerate(began_s)]
    visible_ms = [(visible_s[number] - began) * 1000 for number, began in enumerate(began_s)]
    return Latency(
        per_second,
        proposals,
        percentile(receipt_ms, 50),
        percentile(receipt_ms, 99),
        percentile(visible_ms, 50),
        percentile(visible_ms, 99),
    )
