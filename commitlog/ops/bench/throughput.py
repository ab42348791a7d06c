"""How many proposals a second this machine decides and shows, and how long one waits for its receipt.

Everything is real and on this machine: an embedded broker and PostgreSQL in a home of their own, sequencer and
projector as the processes that `serve` runs. A backlog is published at once and its end is waited for, first in the
results topic, then in the catalog; so the rates hold as long as there is something to do.
"""

from __future__ import annotations

import dataclasses
import os
import statistics
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import psutil

from commitlog import compiled
from commitlog.catalog.queries import Catalog
from commitlog.client import CommitLog
from commitlog.client.access.results_lookup import ResultsLookup
from commitlog.client.ids import new_proposal_id
from commitlog.config import Settings
from commitlog.domain import model as m
from commitlog.domain.model.ids import partition_for
from commitlog.errors import LogUnavailableError
from commitlog.log.codec import encode_proposal
from commitlog.log.connection import make_producer
from commitlog.log.genesis import require_genesis
from commitlog.log.publisher import PendingProposal, Publisher
from commitlog.log.topics import topics_of
from commitlog.ops.bench.servers import Say, own_servers, service_process

TABLES = 8
WRITERS = 16
COLUMNS = 5
POLL_S = 0.1
SILENT_S_MAX = 60.0


@dataclass(frozen=True, slots=True)
class Rates:
    """What one kind of proposal reached, per second.

    Attributes:
        kind: what the proposals were.
        proposals: how many of them.
        proposal_bytes: the size of one.
        decided_alone: decisions with the projector stopped.
        visible_alone: commits that became visible while nothing was decided.
        decided: decisions with everything running.
        visible: commits visible with everything running, from the first proposal to the last.
        sequencer_cpu_us: CPU time of the sequencer alone for one proposal, whatever else the machine does.
        projector_cpu_us: likewise the projector's, without PostgreSQL's own.
    """

    kind: str
    proposals: int
    proposal_bytes: int
    decided_alone: float
    visible_alone: float
    decided: float
    visible: float
    sequencer_cpu_us: float
    projector_cpu_us: float


@dataclass(frozen=True, slots=True)
class Latency:
    """From publish to receipt, in ms, with everything running."""

    in_flight: int
    proposals: int
    p50_ms: float
    p99_ms: float
    per_second: float


@dataclass(frozen=True, slots=True)
class BenchResult:
    """What this machine reached; ``load_before`` is how busy others kept it for the minute before, ``core`` which form ran."""

    rates: tuple[Rates, ...]
    latencies: tuple[Latency, ...]
    cpus: int
    load_before: float
    core: str = compiled.form

    def as_dict(self) -> dict[str, object]:
        """For `--json`."""
        return dataclasses.asdict(self)


def run_bench(settings: Settings, *, proposals: int, say: Say = lambda line: None) -> BenchResult:
    """Measure in a home of its own, which is removed afterwards.

    Args:
        settings: Java and the jar cache are taken from it.
        proposals: how many for each measurement.
        say: is told what is being done.
    """
    load_before = round(os.getloadavg()[0], 2)
    with own_servers(settings, say) as own:
        rates, latencies = _measure(own, proposals, say)
        return BenchResult(rates, latencies, os.cpu_count() or 1, load_before)


def _measure(settings: Settings, proposals: int, say: Say) -> tuple[tuple[Rates, ...], tuple[Latency, ...]]:
    with ExitStack() as stack:
        watch = stack.enter_context(_Watch.open(settings))
        with service_process(settings, "sequencer"), service_process(settings, "projector"):
            _create_tables(settings)
        rates = [_rates(settings, watch, kind, proposals, say) for kind in ("no statistics", f"{COLUMNS} columns")]
        with service_process(settings, "sequencer"), service_process(settings, "projector"):
            say("measuring publish to receipt")
            with Publisher(settings) as publisher:
                _latency(publisher, 1, 50)
                latencies = (_latency(publisher, 1, 500), _latency(publisher, 64, 10_000))
    return tuple(rates), latencies


def _create_tables(settings: Settings) -> None:
    with CommitLog.connect(settings=settings) as log:
        with log.transaction() as tx:
            for number in range(TABLES):
                tx.create_table(f"t{number}", {f"c{column}": "int64" for column in range(COLUMNS)})
        assert tx.outcome.snapshot_id is not None
        log.wait_for_snapshot(tx.outcome.snapshot_id)


# --- rates ------------------------------------------------------------------------------------------------------------


def _rates(settings: Settings, watch: _Watch, kind: str, proposals: int, say: Say) -> Rates:
    columns = COLUMNS if kind != "no statistics" else 0
    say(f"{kind}: {proposals:,} proposals for the sequencer alone")
    with service_process(settings, "sequencer") as sequencer:
        watch.warm(settings)
        start = watch.decided_seq()
        backlog = _made(settings, proposals, columns)
        cpu_before = _cpu_s(sequencer)
        _publish_all(settings, backlog)
        decided_alone = proposals / _seconds_until(watch.decided_seq, start, proposals)
        sequencer_cpu_us = (_cpu_s(sequencer) - cpu_before) / proposals * 1e6
    say(f"{kind}: the projector alone")
    start = watch.applied_seq()
    with service_process(settings, "projector") as projector:
        visible_alone = proposals / _seconds_until(watch.applied_seq, start, watch.decided_seq() - start)
        projector_cpu_us = _cpu_s(projector) / proposals * 1e6
    say(f"{kind}: both together")
    with service_process(settings, "sequencer"), service_process(settings, "projector"):
        watch.warm(settings)
        start = watch.decided_seq()
        backlog = _made(settings, proposals, columns)
        began = time.monotonic()
        _publish_all(settings, backlog)
        _wait(watch.decided_seq, start + proposals)
        decided = proposals / (time.monotonic() - began)
        _wait(watch.applied_seq, start + proposals)
        visible = proposals / (time.monotonic() - began)
    return Rates(
        kind,
        proposals,
        proposal_bytes=len(backlog[0].value),
        decided_alone=round(decided_alone, 1),
        visible_alone=round(visible_alone, 1),
        decided=round(decided, 1),
        visible=round(visible, 1),
        sequencer_cpu_us=round(sequencer_cpu_us, 1),
        projector_cpu_us=round(projector_cpu_us, 1),
    )


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _seconds_until(read: Callable[[], int], start: int, count: int) -> float:
    """How long the work takes, without the process's start: from the first sign of it to the end."""
    _wait(read, start + 1)
    first, began = read(), time.monotonic()
    _wait(read, start + count)
    elapsed = time.monotonic() - began
    return elapsed * count / max(1, start + count - first)


def _wait(read: Callable[[], int], target: int) -> None:
    seen, seen_at = -1, time.monotonic()
    while (now := read()) < target:
        if now > seen:
            seen, seen_at = now, time.monotonic()
        if time.monotonic() - seen_at > SILENT_S_MAX:
            raise LogUnavailableError("the bench's own broker", detail=f"nothing moves at {now} of {target}")
        time.sleep(POLL_S)


class _Record(NamedTuple):
    key: bytes
    value: bytes
    partition: int


def _made(settings: Settings, proposals: int, columns: int) -> list[_Record]:
    """Proposals ready to send, so that making them takes no time from the services."""
    partitions = require_genesis(settings).partitions
    made = [make_proposal(number, columns) for number in range(proposals)]
    return [
        _Record(each.writer_id.encode(), encode_proposal(each), partition_for(each.writer_id, partitions))
        for each in made
    ]


def _publish_all(settings: Settings, backlog: Sequence[_Record]) -> None:
    """Publish a backlog as fast as Kafka takes it."""
    producer = make_producer(settings, linger_ms=2)
    topic = topics_of(settings.log).proposals
    for record in backlog:
        producer.produce(topic, record.value, key=record.key, partition=record.partition)
    producer.flush()


def make_proposal(number: int, columns: int) -> m.Proposal:
    """An append of one file to one of the tables, with statistics of so many columns."""
    known = tuple(
        m.ColumnStatistics(f"c{column}", min=number, max=number + 999, null_count=0, value_count=1000, size_bytes=4096)
        for column in range(columns)
    )
    file = m.DataFile(
        f"part-{number:08d}.parquet", record_count=1000, file_size_bytes=65_536, footer_size=900, statistics=known
    )
    return m.Proposal(
        proposal_id=new_proposal_id(),
        writer_id=f"writer-{number % WRITERS}",
        base_snapshot_id=1,
        changes=(m.Append("main", f"t{number % TABLES}", (file,)),),
        created_at_ms=time.time_ns() // 1_000_000,
    )


# --- latency ----------------------------------------------------------------------------------------------------------


def _latency(publisher: Publisher, in_flight: int, proposals: int) -> Latency:
    waiting: deque[PendingProposal] = deque()
    times_ms: list[float] = []
    began = time.monotonic()
    for number in range(proposals):
        if len(waiting) >= in_flight:
            waiting.popleft().wait()
        proposal = make_proposal(number, COLUMNS)
        sent_at = time.monotonic()
        pending = publisher.publish(proposal)
        pending.on_answer(lambda _, sent_at=sent_at: times_ms.append((time.monotonic() - sent_at) * 1000))  # type: ignore[misc]
        waiting.append(pending)
    for pending in waiting:
        pending.wait()
    elapsed = time.monotonic() - began
    cuts = statistics.quantiles(times_ms, n=100)
    return Latency(in_flight, proposals, round(cuts[49], 2), round(cuts[98], 2), round(proposals / elapsed, 1))


# --- what runs, and how far it is -------------------------------------------------------------------------------------


class _Watch:
    """How far the results and the catalog are."""

    def __init__(self, settings: Settings) -> None:
        self._catalog = Catalog(settings.database_url)
        self._lookup = ResultsLookup(settings, self._catalog)

    @classmethod
    @contextmanager
    def open(cls, settings: Settings) -> Iterator[_Watch]:
        watch = cls(settings)
        try:
            yield watch
        finally:
            watch._lookup.close()
            watch._catalog.close()

    def decided_seq(self) -> int:
        """The last outcome in the results topic."""
        last = self._lookup.last()
        return 0 if last is None else last.seq

    def applied_seq(self) -> int:
        """The last outcome in the catalog."""
        applied = self._catalog.applied()
        return 0 if applied is None else applied.seq

    def warm(self, settings: Settings) -> None:
        """Wait until the sequencer serves: a first answer comes."""
        with Publisher(settings) as publisher:
            publisher.submit(make_proposal(0, 0), timeout_s=SILENT_S_MAX)


def goals(rates: Sequence[Rates]) -> dict[str, bool]:
    """Whether the slowest kind reaches what the design asks for, with everything running."""
    decided, visible = min(each.decided for each in rates), min(each.visible for each in rates)
    return {
        "10,000 decisions/s": decided >= 10_000,
        "2,000 visible commits/s": visible >= 2_000,
        "40,000 decisions/s (goal)": decided >= 40_000,
        "15,000 visible commits/s (goal)": visible >= 15_000,
    }
