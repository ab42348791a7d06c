"""`commitlog bench`: how many proposals a second this machine decides and shows, and how long one waits for its receipt.

Everything is real and on this machine: an embedded broker and PostgreSQL in a home of their own, sequencer and projector as the
processes that `serve` runs. Who is measured alone is stopped (SIGSTOP) until its backlog lies there, so that neither its start
nor the publishing of the backlog is in its figures. Beside each rate stands what it is compared with, from the same minutes: a
loop that only consumes and produces the same bytes, and inserts by DuckLake's own client on the same PostgreSQL.
"""

from __future__ import annotations

import dataclasses
import json
import os
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import psutil

from commitlog import compiled
from commitlog.catalog.queries import Catalog
from commitlog.client import CommitLog
from commitlog.client.submitting import Answer
from commitlog.config import Settings
from commitlog.domain.model import Receipt
from commitlog.errors import LogIntegrityError, LogUnavailableError
from commitlog.log.connection import end_offset, end_offsets
from commitlog.log.genesis import require_genesis
from commitlog.log.publisher import Publisher
from commitlog.log.topics import topics_of
from commitlog.ops.bench.backlog import COLUMNS, TABLES, BacklogPublisher, Record, make_backlog, make_proposal
from commitlog.ops.bench.copy_loop import CopyJob, copy_in_process
from commitlog.ops.bench.cpu import cpu_time
from commitlog.ops.bench.goals import Goal
from commitlog.ops.bench.latency import PER_SECOND, Latency, measure_latency
from commitlog.ops.bench.metering import Meter
from commitlog.ops.bench.servers import Say, own_servers, service_process
from commitlog.ops.bench.teams import WARM_UP_S, Team, run_team, table_name, table_names
from commitlog.ops.bench.turns import COLUMNS as WRITERS_COLUMNS
from commitlog.ops.bench.turns import STOCK, StockLake
from commitlog.ops.service.supervisor import CARRIER, COMMITLOG

POLL_S = 0.02
SILENT_S_MAX = 60.0
WARM_UP = Team("append", "one", writers=8, processes=8)
WARM_UP_PROPOSALS = 20_000
WARM_UP_CALL = 100
ONE_AT_A_TIME = 500
STEADY_S = 10
STOCK_S = 5.0

SEQUENCER_CPU_US_MAX = 22
DECIDED_MIN = 40_000
OF_COPY_MIN = 0.6
TIMES_STOCK_MIN = 150
REBUILT_MIN = 35_000
PUBLISHED_MANY_MIN = 20_000
VISIBLE_ALONE_MIN: Mapping[int, int] = {0: 60_000, COLUMNS: 30_000}
VISIBLE_MIN: Mapping[int, int] = {0: 20_000, COLUMNS: 12_000}
"""Commits a second, by columns that have statistics."""

RECEIPT_MS_MAX: Mapping[int, tuple[int, int]] = {0: (2, 8), PER_SECOND: (4, 20)}
"""p50 and p99, by proposals a second; 0 is one at a time."""

VISIBLE_MS_MAX = (15, 50)


@dataclass(frozen=True, slots=True)
class Rates:
    """What one kind of proposal reached, per second; of several repetitions the medians.

    Attributes:
        columns: that have statistics.
        proposal_bytes: the size of one.
        decided_alone: decisions of a backlog with the projector stopped.
        copied: what a loop does that only consumes the proposals and produces the outcomes.
        visible_alone: commits that became visible while nothing was decided.
        visible: commits visible with everything running, from the first proposal that is sent to the last.
        inserted: by DuckLake's own client, one at a time.
        sequencer_cpu_us: CPU time of the sequencer, all of its threads, for one proposal of a backlog.
        copy_cpu_us: likewise the copying loop's.
        projector_cpu_us: likewise the projector's for one outcome, without PostgreSQL's own.
        decided_of_copy, visible_times_stock: what they are compared with is of the same repetition.
    """

    columns: int
    proposal_bytes: float
    decided_alone: float
    copied: float
    visible_alone: float
    visible: float
    inserted: float
    sequencer_cpu_us: float
    copy_cpu_us: float
    projector_cpu_us: float
    decided_of_copy: float
    visible_times_stock: float

    @property
    def kind(self) -> str:
        """For people."""
        return f"{self.columns} columns" if self.columns else "no statistics"


@dataclass(frozen=True, slots=True)
class PublishedMany:
    """What one process reaches with one call of `CommitLog.publish_many`, no projector running; of several the medians.

    Attributes:
        per_second: answers.
        client_cpu_us: CPU time of the process for one of them, all of its threads, without making the proposals.
    """

    per_second: float
    client_cpu_us: float


@dataclass(frozen=True, slots=True)
class BenchResult:
    """What this machine reached.

    Attributes:
        rates: of each kind of proposal.
        latencies: one at a time, and at a steady rate.
        published_many: by one process in one call.
        rebuilt: outcomes a second of `catalog rebuild`, of all that the run has decided.
        rebuilt_outcomes: how many those were.
        proposals: of each backlog.
        repetitions: whose medians all are.
        cpus: that everything shared.
        load_before: how busy others kept them for the minute before.
        core: which form ran.
    """

    rates: tuple[Rates, ...]
    latencies: tuple[Latency, ...]
    published_many: PublishedMany
    rebuilt: float
    rebuilt_outcomes: int
    proposals: int
    repetitions: int
    cpus: int
    load_before: float
    core: str = compiled.form

    def goals(self) -> list[Goal]:
        """The figures of it that have bounds to meet."""
        return [
            *(goal for rates in self.rates for goal in _goals_of_rates(rates)),
            *(goal for latency in self.latencies for goal in _goals_of_latency(latency)),
            Goal.at_least("one process, publish_many: answers/s", self.published_many.per_second, PUBLISHED_MANY_MIN),
            Goal.at_least(f"catalog rebuild of {self.rebuilt_outcomes:,}, outcomes/s", self.rebuilt, REBUILT_MIN),
        ]

    def as_dict(self) -> dict[str, object]:
        """For `--json`."""
        return {**dataclasses.asdict(self), "goals": [goal.as_dict() for goal in self.goals()]}


def _goals_of_rates(rates: Rates) -> Iterator[Goal]:
    kind = rates.kind
    yield Goal.at_most(f"{kind}: sequencer's CPU us a proposal", rates.sequencer_cpu_us, SEQUENCER_CPU_US_MAX)
    yield Goal.at_least(f"{kind}: decided/s, projector stopped", rates.decided_alone, DECIDED_MIN)
    yield Goal.at_least(f"{kind}: decided, x a loop that copies", rates.decided_of_copy, OF_COPY_MIN)
    yield Goal.at_least(f"{kind}: projector alone, commits/s", rates.visible_alone, VISIBLE_ALONE_MIN[rates.columns])
    yield Goal.at_least(f"{kind}: visible/s, all running", rates.visible, VISIBLE_MIN[rates.columns])
    yield Goal.at_least(f"{kind}: visible, x DuckLake's own client", rates.visible_times_stock, TIMES_STOCK_MIN)


def _goals_of_latency(latency: Latency) -> Iterator[Goal]:
    how = f"at {latency.per_second:,} a second" if latency.per_second else "one at a time"
    p50_max, p99_max = RECEIPT_MS_MAX[latency.per_second]
    yield Goal.at_most(f"publish to receipt {how}: p50 ms", latency.receipt_p50_ms, p50_max)
    yield Goal.at_most(f"publish to receipt {how}: p99 ms", latency.receipt_p99_ms, p99_max)
    if latency.per_second:
        p50_max, p99_max = VISIBLE_MS_MAX
        yield Goal.at_most(f"publish to visible {how}: p50 ms", latency.visible_p50_ms, p50_max)
        yield Goal.at_most(f"publish to visible {how}: p99 ms", latency.visible_p99_ms, p99_max)


def run_bench(
    settings: Settings,
    *,
    proposals: int,
    repetitions: int = 1,
    warm_up_s: float = WARM_UP_S,
    say: Say = lambda line: None,
) -> BenchResult:
    """Measure in a home of its own, which is removed afterwards.

    Args:
        settings: Java and the jar cache are taken from it.
        proposals: how many in each backlog.
        repetitions: of everything but the rebuild, by turns.
        warm_up_s: how long writers loop before anything counts.
        say: is told what is being done.
    """
    load_before = round(os.getloadavg()[0], 2)
    with own_servers(settings, say) as own, closing(Catalog(own.database_url)) as catalog:
        bench = _Bench(own, say, catalog)
        bench.warm_up(warm_up_s)
        rounds = []
        for number in range(repetitions):
            say(f"repetition {number + 1} of {repetitions}")
            inserted = bench.inserted()
            rates = [bench.rates(columns, proposals, inserted) for columns in (0, COLUMNS)]
            rounds.append((rates, bench.latencies(), bench.published_many(proposals)))
        rebuilt, outcomes = bench.rebuilt()
    return BenchResult(
        tuple(median_of(same) for same in zip(*(rates for rates, _, _ in rounds), strict=True)),
        tuple(median_of(same) for same in zip(*(latencies for _, latencies, _ in rounds), strict=True)),
        median_of([published for _, _, published in rounds]),
        rebuilt,
        outcomes,
        proposals,
        repetitions,
        os.cpu_count() or 1,
        load_before,
    )


T = TypeVar("T", Rates, Latency, PublishedMany)


def _drain(answers: Iterator[Answer]) -> None:
    for answer in answers:
        if isinstance(answer, Exception):
            raise answer


def median_of(same: Sequence[T]) -> T:
    """Of each figure by itself."""
    figures = [dataclasses.asdict(each) for each in same]
    return type(same[0])(**{name: statistics.median(each[name] for each in figures) for name in figures[0]})


class _Took(NamedTuple):
    elapsed_s: float
    cpu_s: float


class _Bench:
    """One log with its servers, and what is measured on it by turns."""

    def __init__(self, own: Settings, say: Say, catalog: Catalog) -> None:
        self._own, self._say, self._catalog = own, say, catalog
        self._partitions = range(require_genesis(own).partitions)
        self._topics = topics_of(own.log)
        self._stock = StockLake.create(own, table_names(1))
        self._backlogs = BacklogPublisher(own)
        self._copies = 0

    def warm_up(self, seconds: float) -> None:
        """Make the tables, and let the broker compile what it will run."""
        self._say(
            f"the tables; {WARM_UP} writers warm the broker up, {seconds:.0f} s, and {WARM_UP_PROPOSALS:,} proposals"
        )
        with self._service("sequencer"), self._service("projector"):
            with CommitLog.connect(settings=self._own) as log, log.transaction() as tx:
                for number in range(TABLES):
                    tx.create_table(f"t{number}", {f"c{column}": "int64" for column in range(COLUMNS)})
                tx.create_table(table_name(WARM_UP.tables, 0), dict.fromkeys(WRITERS_COLUMNS, "int64"))
            run_team(self._own, WARM_UP, seconds, Meter({}))
            last = self._answered()
            self._backlogs.publish(make_backlog(self._own, WARM_UP_PROPOSALS, COLUMNS))
            self._wait_visible(last, WARM_UP_PROPOSALS)

    # --- rates --------------------------------------------------------------------------------------------------------

    def inserted(self) -> float:
        """Inserts a second by one client of DuckLake's own."""
        self._say("DuckLake's own client")
        team = Team(STOCK, "own", writers=1, processes=1)
        return run_team(self._own, team, STOCK_S, Meter({}), self._stock.place()).commits_per_second

    def rates(self, columns: int, proposals: int, inserted: float) -> Rates:
        """Of proposals with statistics of so many columns."""
        backlog = make_backlog(self._own, proposals, columns)
        with self._service("projector") as projector:
            with self._service("sequencer") as sequencer:
                last = self._answered()
                self._wait_visible(last, 0)
                self._say(f"{columns} columns: {proposals:,} proposals for the sequencer alone")
                projector.suspend()
                starts, first = self._ends(self._topics.proposals), self._results_end()
                decided = self._timed(sequencer, backlog, lambda: self._wait(self._results_end, first + proposals))
            self._say(f"{columns} columns: a loop that only consumes and produces the same")
            self._copies += 1
            job = CopyJob(starts, first, first + proposals, f"{self._own.log}.copy-{self._copies}")
            copied = copy_in_process(self._own, job)
            self._say(f"{columns} columns: the projector alone")
            projected = self._timed(projector, (), lambda: self._wait_visible(last, proposals))
        self._say(f"{columns} columns: both together")
        visible_s = self._visible_s(make_backlog(self._own, proposals, columns))
        decided_alone, visible = proposals / decided.elapsed_s, proposals / visible_s
        return Rates(
            columns,
            proposal_bytes=len(backlog[0].value),
            decided_alone=decided_alone,
            copied=copied.records / copied.elapsed_s,
            visible_alone=proposals / projected.elapsed_s,
            visible=visible,
            inserted=inserted,
            sequencer_cpu_us=decided.cpu_s / proposals * 1e6,
            copy_cpu_us=copied.cpu_s / proposals * 1e6,
            projector_cpu_us=projected.cpu_s / proposals * 1e6,
            decided_of_copy=decided_alone * copied.elapsed_s / copied.records,
            visible_times_stock=visible / inserted,
        )

    def _visible_s(self, backlog: Sequence[Record]) -> float:
        with self._service("sequencer"), self._service("projector"):
            last = self._answered()
            self._wait_visible(last, 0)
            began = time.perf_counter()
            self._backlogs.publish(backlog)
            self._wait_visible(last, len(backlog))
            return time.perf_counter() - began

    def _timed(self, service: psutil.Process, backlog: Sequence[Record], wait: Callable[[], None]) -> _Took:
        """What a service takes for a backlog, which is there when it goes on."""
        service.suspend()
        self._backlogs.publish(backlog)
        before, began = cpu_time(service), time.perf_counter()
        service.resume()
        wait()
        return _Took(time.perf_counter() - began, cpu_time(service).since(before).total_s)

    # --- the others ---------------------------------------------------------------------------------------------------

    def latencies(self) -> tuple[Latency, Latency]:
        """One at a time, and at a steady rate."""
        self._say("publish to receipt, and until it is visible")
        with self._service("sequencer"), self._service("projector"), self._service(CARRIER.name):
            self._wait_visible(self._answered(), 0)
            return (
                measure_latency(self._own, proposals=ONE_AT_A_TIME, per_second=0),
                measure_latency(self._own, proposals=STEADY_S * PER_SECOND, per_second=PER_SECOND),
            )

    def published_many(self, proposals: int) -> PublishedMany:
        """By this process in one call, which waits for every answer."""
        self._say(f"{proposals:,} proposals by one call of publish_many")
        made = [make_proposal(number, 0) for number in range(proposals)]
        with self._service("sequencer"), CommitLog.connect(settings=self._own) as log:
            self._answered()
            warm, timed = made[:WARM_UP_CALL], made[WARM_UP_CALL:]
            _drain(log.publish_many(warm))
            began, cpu_s = time.perf_counter(), time.process_time()
            _drain(log.publish_many(timed))
            elapsed_s, cpu_s = time.perf_counter() - began, time.process_time() - cpu_s
        return PublishedMany(len(timed) / elapsed_s, cpu_s / len(timed) * 1e6)

    def rebuilt(self) -> tuple[float, int]:
        """Outcomes a second of `catalog rebuild`, of all that the log holds, and how many those are."""
        self._say("the catalog is rebuilt")
        command = [*COMMITLOG, "catalog", "rebuild", "--json"]
        done = subprocess.run(command, env=self._own.environment(), capture_output=True, check=True)
        told = json.loads(done.stdout)
        return told["outcomes"] / told["elapsed_s"], told["outcomes"]

    # --- how far they are ---------------------------------------------------------------------------------------------

    def _service(self, name: str) -> AbstractContextManager[psutil.Process]:
        return service_process(self._own, name)

    def _answered(self) -> Receipt:
        """The answer to a proposal: the sequencer serves."""
        with Publisher(self._own) as publisher:
            return publisher.submit(make_proposal(0, 0), timeout_s=SILENT_S_MAX)

    def _ends(self, topic: str) -> dict[int, int]:
        return end_offsets(self._own, topic, self._partitions)

    def _results_end(self) -> int:
        return end_offset(self._own, self._topics.results, 0)

    def _wait_visible(self, last: Receipt, proposals: int) -> None:
        """Return when all proposals after an answer are in the catalog, where each has made a snapshot."""
        assert last.seq is not None
        self._wait(self._applied_seq, last.seq + proposals)
        shown = self._catalog.shown()
        assert shown is not None
        wanted = (last.seq + proposals, last.head_snapshot_id + proposals)
        if (shown.seq, shown.snapshot_id) != wanted:
            raise LogIntegrityError(f"outcome and snapshot are {shown.seq} and {shown.snapshot_id}, not {wanted}")

    def _applied_seq(self) -> int:
        shown = self._catalog.shown()
        return -1 if shown is None else shown.seq

    def _wait(self, read: Callable[[], int], target: int) -> None:
        seen, seen_at = -1, time.monotonic()
        while (now := read()) < target:
            if now > seen:
                seen, seen_at = now, time.monotonic()
            if time.monotonic() - seen_at > SILENT_S_MAX:
                raise LogUnavailableError("the bench's own broker", detail=f"nothing moves at {now} of {target}")
            time.sleep(POLL_S)
