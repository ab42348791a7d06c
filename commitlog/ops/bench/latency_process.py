"""A process of the latency bench: one that publishes, or one that watches the catalog as a client does.

It is told its job in JSON on stdin, says that it is ready, and does it when the next line comes. A publisher answers with what
became of its proposals. To the watcher that line is an outcome's number: once that one is visible, it answers with when it saw
which.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass
from typing import NamedTuple

from commitlog.catalog.queries import Catalog
from commitlog.catalog.watching import CatalogWatch
from commitlog.client import CommitLog
from commitlog.client.outcomes.submitted import SubmittedOutcome
from commitlog.config import Settings
from commitlog.domain.model import Proposal
from commitlog.ops.bench.backlog import COLUMNS, WRITERS, make_proposal

ANSWER_TIMEOUT_S = 60.0
WATCH_S = 0.5


@dataclass(frozen=True, slots=True)
class PublishJob:
    """What one of several publishers sends.

    Attributes:
        number, of: which of how many it is; every so many-th proposal is its own.
        proposals: of all together.
        per_second: of all together; 0 is one after the other's answer.
    """

    number: int
    of: int
    proposals: int
    per_second: int


@dataclass(frozen=True, slots=True)
class WatchJob:
    """To watch."""


class Sent(NamedTuple):
    """A proposal that was answered: its outcome's place, when it was due, when the answer was there."""

    seq: int
    due_s: float
    answered_s: float


def publish(settings: Settings, job: PublishJob) -> list[Sent]:
    """Publish when told to, in this one thread."""
    made = {number: make_proposal(number, COLUMNS) for number in range(job.number, job.proposals, job.of)}
    done: list[Sent] = []
    with CommitLog.connect(settings=settings) as log:
        # Of each writer: where its receipts begin is known from now on.
        for number in range(WRITERS):
            log.submit(make_proposal(number, COLUMNS))
        _say("ready")
        sys.stdin.readline()
        start = time.perf_counter()
        if job.per_second:
            due_s = [start + number / job.per_second for number in made]
            futures = [_sent_when_due(log, *each, done) for each in zip(made.values(), due_s, strict=True)]
            for future in futures:
                future.result()
        else:
            for proposal in made.values():
                due = time.perf_counter()
                done.append(Sent(log.submit(proposal).seq, due, time.perf_counter()))
    return done


def _sent_when_due(log: CommitLog, proposal: Proposal, due_s: float, done: list[Sent]) -> Future[SubmittedOutcome]:
    """Sent at a moment; notes when the answer is there."""
    time.sleep(max(0.0, due_s - time.perf_counter()))
    future = log.submit_async(proposal)
    future.add_done_callback(lambda told: done.append(Sent(told.result().seq, due_s, time.perf_counter())))
    return future


def watch(settings: Settings) -> list[tuple[int, float]]:
    """Note which outcome was visible when, until the one is whose number the next line says, or has not come for long."""
    watching = CatalogWatch(Catalog(settings.database_url))
    wanted: list[int] = []
    threading.Thread(target=lambda: wanted.append(int(sys.stdin.readline())), daemon=True).start()
    _say("ready")
    seen: list[tuple[int, float]] = []
    last, moved_at = -1, time.monotonic()
    while not wanted or (last < wanted[0] and time.monotonic() - moved_at < ANSWER_TIMEOUT_S):
        shown = watching.wait_until(lambda shown: shown.seq > last, WATCH_S)  # noqa: B023
        if shown is not None:
            seen.append((shown.seq, time.perf_counter()))
            last, moved_at = shown.seq, time.monotonic()
    watching.close()
    return seen


def _say(told: object) -> None:
    print(json.dumps(told), flush=True)


def main() -> None:
    """Do as told."""
    [(kind, told)] = json.loads(sys.stdin.readline()).items()
    settings = Settings.load()
    _say(watch(settings) if kind == WatchJob.__name__ else publish(settings, PublishJob(**told)))


if __name__ == "__main__":
    main()
