"""`commitlog bench takeover`: how long writers wait when the active sequencer ends, and a standby is ready.

One writer sends a proposal after the other all the time. What counts is from the end of the active sequencer to the answer to
a proposal that was sent after it.
"""

from __future__ import annotations

import dataclasses
import os
import statistics
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from commitlog import compiled
from commitlog.client.ids import new_proposal_id
from commitlog.config import Settings
from commitlog.domain import model as m
from commitlog.errors import CommitLogError
from commitlog.log.publisher import Publisher
from commitlog.log.sequencer import Phase
from commitlog.ops.bench.sequencer_fleet import Fleet, Member
from commitlog.ops.bench.servers import Say, own_servers

READY_TIMEOUT_S = 60.0
ANSWER_TIMEOUT_S = 60.0

WAYS: Mapping[str, Callable[[Member], None]] = {
    "kill": Member.kill,
    "terminate": Member.terminate,
    "freeze": Member.freeze,
}


@dataclass(frozen=True, slots=True)
class TakeoverBench:
    """What was measured: ms from the end of the active sequencer to the next answer, and what writers saw go wrong."""

    way: str
    waits_ms: tuple[float, ...]
    errors: tuple[str, ...]
    answers: int
    cpus: int
    load_before: float
    core: str = compiled.form

    @property
    def p50_ms(self) -> float:
        return round(statistics.median(self.waits_ms), 1)

    @property
    def p99_ms(self) -> float:
        """The longest of fewer than a hundred."""
        return round(sorted(self.waits_ms)[max(0, -(-len(self.waits_ms) * 99 // 100) - 1)], 1)

    def as_dict(self) -> dict[str, object]:
        """For `--json`."""
        return {**dataclasses.asdict(self), "p50_ms": self.p50_ms, "p99_ms": self.p99_ms}


def run_takeover_bench(settings: Settings, *, times: int, way: str, say: Say) -> TakeoverBench:
    """Measure in a home of its own, which is removed afterwards.

    Args:
        settings: Java and the jar cache are taken from it.
        times: how many takeovers.
        way: how the active sequencer ends; one of `WAYS`.
        say: is told what is being done.
    """
    load_before = round(os.getloadavg()[0], 2)
    waits_ms: list[float] = []
    with own_servers(settings, say) as own, Fleet(own) as fleet, Writer(own) as writer:
        active = fleet.start(standby=False)
        for number in range(times):
            standby = fleet.start(standby=True)
            fleet.wait_for("a ready standby", lambda: standby.phase is Phase.STANDBY, timeout_s=READY_TIMEOUT_S)  # noqa: B023
            writer.wait_for_answer(time.monotonic())
            ended_s = time.monotonic()
            WAYS[way](active)
            waits_ms.append((writer.wait_for_answer(ended_s) - ended_s) * 1000)
            say(f"takeover {number + 1} of {times}: {waits_ms[-1]:.0f} ms")
            active.kill()
            fleet.members.remove(active)
            active = standby
    errors = tuple(writer.errors)
    return TakeoverBench(way, tuple(waits_ms), errors, writer.answers, os.cpu_count() or 1, load_before)


class Writer:
    """Sends one proposal after the other, in a thread; notes when each was sent and answered."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._last: tuple[float, float] | None = None
        self._changed = threading.Condition()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write, name="writer")
        self.answers = 0
        self.errors: list[str] = []

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def wait_for_answer(self, sent_after_s: float) -> float:
        """When the answer came to a proposal that was sent after this time."""
        with self._changed:
            came = self._changed.wait_for(
                lambda: self._last is not None and self._last[0] > sent_after_s, READY_TIMEOUT_S + ANSWER_TIMEOUT_S
            )
            if not came or self._last is None:
                raise CommitLogError(f"no answer came any more; errors of the writer: {self.errors}")
            return self._last[1]

    def _write(self) -> None:
        with Publisher(self._settings) as publisher:
            while not self._stop.is_set():
                sent_s = time.monotonic()
                change = m.CreateSchema(f"s{self.answers}")
                proposal = m.Proposal(new_proposal_id(), "takeovers", 0, (change,), created_at_ms=_now_ms())
                try:
                    publisher.submit(proposal, timeout_s=ANSWER_TIMEOUT_S)
                except CommitLogError as error:
                    self.errors.append(str(error))
                    continue
                with self._changed:
                    self.answers += 1
                    self._last = sent_s, time.monotonic()
                    self._changed.notify_all()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
