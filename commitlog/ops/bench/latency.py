"""How long one waits for a receipt, and until the catalog shows what was committed: one at a time, and at a steady rate.

At a steady rate each proposal has its moment, whatever became of those before, and is timed from that moment on: a stall
counts for everyone who came into it. Who publishes and who watches the catalog are processes of their own (`latency_process`),
so that none of them waits for another's interpreter; they share one clock.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from commitlog.config import Settings
from commitlog.errors import LogUnavailableError
from commitlog.ops.bench.latency_process import PublishJob, Sent, WatchJob
from commitlog.ops.bench.teams import percentile

PROCESS_MODULE = "commitlog.ops.bench.latency_process"
PER_SECOND = 1_000
PUBLISHERS = 2


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


def measure_latency(settings: Settings, *, proposals: int, per_second: int) -> Latency:
    """Publish proposals, one after the other's answer (0 a second) or at a steady rate.

    Args:
        settings: of a log whose sequencer and projector run.
        proposals: how many.
        per_second: the rate, of all publishers together.
    """
    publishers = PUBLISHERS if per_second else 1
    with ExitStack() as processes:
        watcher = processes.enter_context(_process(settings, WatchJob()))
        jobs = [PublishJob(number, publishers, proposals, per_second) for number in range(publishers)]
        publishing = [processes.enter_context(_process(settings, job)) for job in jobs]
        for process in publishing:
            process.tell("go")
        sent = sorted(Sent(*each) for process in publishing for each in process.heard())
        watcher.tell(str(sent[-1].seq))
        visible_s = first_seen([each.seq for each in sent], [(int(seq), at) for seq, at in watcher.heard()])
    receipt_ms = [(each.answered_s - each.due_s) * 1000 for each in sent]
    visible_ms = [(at - each.due_s) * 1000 for at, each in zip(visible_s, sent, strict=True)]
    return Latency(
        per_second,
        proposals,
        percentile(receipt_ms, 50),
        percentile(receipt_ms, 99),
        percentile(visible_ms, 50),
        percentile(visible_ms, 99),
    )


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


class _Process:
    """One that was told its job, and is ready."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def tell(self, line: str) -> None:
        assert self._process.stdin is not None
        print(line, file=self._process.stdin, flush=True)

    def heard(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise LogUnavailableError("the bench's own servers", detail="a process of the bench ended before its time")
        return json.loads(line)


@contextmanager
def _process(settings: Settings, job: WatchJob | PublishJob) -> Iterator[_Process]:
    command = [sys.executable, "-m", PROCESS_MODULE]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=settings.environment(), text=True, stdin=pipe, stdout=pipe) as running:
        process = _Process(running)
        process.tell(json.dumps({type(job).__name__: asdict(job)}))
        process.heard()
        yield process
