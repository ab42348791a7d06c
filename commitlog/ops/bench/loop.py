"""`commitlog bench loop`: what a writer feels that waits for each answer before it goes on.

Writers are processes, or threads of a few, and loop: append some rows, which become one small Parquet file, by one call or by a
transaction that begins at the newest snapshot. In each repetition DuckLake's own client inserts the same rows on the same
PostgreSQL, so that ratios are of the same minutes. CPU time is given by part and thread, since on one machine it is what the
rates share.
"""

from __future__ import annotations

import dataclasses
import os
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

from commitlog import compiled
from commitlog.client import CommitLog
from commitlog.client.reading.duckdb_client import connection_text
from commitlog.config import Settings
from commitlog.ops.bench.cpu import jvm_thread_names
from commitlog.ops.bench.goals import Goal
from commitlog.ops.bench.metering import Meter, Part
from commitlog.ops.bench.servers import Say, own_servers, server_process, service_process
from commitlog.ops.bench.teams import BROKER, WARM_UP_S, LoopRates, Team, median_rates, run_team, table_names
from commitlog.ops.bench.turns import COLUMNS, GATEWAY, STOCK, StockLake
from commitlog.ops.service.gateway import awaited_gateway, through_gateway
from commitlog.ops.service.supervisor import CARRIER

WARM_UP = Team("append", "own", writers=8, processes=8)
IDLE_S = 10.0
SETTLE_S = 2.0
TABLES = ("own", "one")
KINDS = ("append", "transaction")
SERVICES = ("sequencer", "projector", CARRIER.name)


class Bounds(NamedTuple):
    """What so many writers must reach: commits, as many times the stock client's better case; of a turn; CPU of a commit."""

    times_stock: Mapping[int, float]
    p50_ms_max: Mapping[int, float]
    p99_ms_max: Mapping[int, float]
    cpu_ms_max: Mapping[int, float]


OURS = Bounds({1: 3, 4: 8, 8: 10}, {1: 2.5, 4: 5, 8: 8}, {}, {8: 1.6})
THROUGH_GATEWAY = Bounds({8: 2}, {1: 12}, {8: 150}, {})

THREADS = ((64, 4), (256, 4), (32, 32))
"""Writers, and the processes that they are threads of."""

THREADS_PER_SECOND_MIN = 2_500


@dataclass(frozen=True, slots=True)
class LoopBench:
    """What was measured.

    Attributes:
        rounds: each repetition, the same writers in the same order.
        idle_percent: of one core, by part, while nobody writes.
        seconds: that each team of writers had.
        cpus: that all of it shared.
        load_before: of the minute before.
        core: its form.
    """

    rounds: tuple[tuple[LoopRates, ...], ...]
    idle_percent: Mapping[str, float]
    seconds: float
    cpus: int
    load_before: float
    core: str = compiled.form

    @property
    def rates(self) -> list[LoopRates]:
        """Medians of the repetitions."""
        return [median_rates(same) for same in zip(*self.rounds, strict=True)]

    def goals(self) -> list[Goal]:
        """The figures of it that have bounds to meet."""
        ours = [rates for rates in self.rates if rates.team.kind != STOCK]
        goals = [goal for rates in ours for goal in self._goals_of(rates)]
        return [*goals, Goal.at_most("failed commits", sum(rates.failed for rates in ours), 0)]

    def _goals_of(self, rates: LoopRates) -> Iterator[Goal]:
        team = rates.team
        if team.kind != GATEWAY and team.processes < team.writers:
            yield from self._goals_of_threads(rates)
            return
        bounds = THROUGH_GATEWAY if team.kind == GATEWAY else OURS
        ratio = self.times_stock(team)
        if ratio is not None and team.writers in bounds.times_stock:
            yield Goal.at_least(f"{team}: x stock's better case", ratio, bounds.times_stock[team.writers])
        if team.writers in bounds.p50_ms_max:
            yield Goal.at_most(f"{team}: p50 ms", rates.turn_p50_ms, bounds.p50_ms_max[team.writers])
        if team.writers in bounds.p99_ms_max:
            yield Goal.at_most(f"{team}: p99 ms", rates.turn_p99_ms, bounds.p99_ms_max[team.writers])
        if team.writers in bounds.cpu_ms_max:
            yield Goal.at_most(f"{team}: CPU ms a commit", rates.cpu_sum_ms, bounds.cpu_ms_max[team.writers])

    def _goals_of_threads(self, rates: LoopRates) -> Iterator[Goal]:
        fewer = min(self._with_threads(rates.team), key=lambda each: each.team.writers)
        if fewer.team == rates.team:
            yield Goal.at_least(f"{rates.team}: commits/s", rates.commits_per_second, THREADS_PER_SECOND_MIN)
        else:
            ratio = rates.commits_per_second / fewer.commits_per_second
            yield Goal.at_least(f"{rates.team}: x that of {fewer.team.writers}", round(ratio, 2), 1)

    def _with_threads(self, team: Team) -> list[LoopRates]:
        alike = [each for each in self.rates if (each.team.kind, each.team.tables) == (team.kind, team.tables)]
        return [each for each in alike if each.team.processes < each.team.writers]

    def times_stock(self, team: Team) -> float | None:
        """How many times as much a team commits as the stock client with as many writers, where that one is better.

        Which is with one table or with own ones. The median of the repetitions; None when it was not measured.
        """
        ratios = [_times_stock(team, beside) for beside in self.rounds]
        known = [ratio for ratio in ratios if ratio is not None]
        return statistics.median(known) if known else None

    def as_dict(self) -> dict[str, object]:
        """For `--json`."""
        return {
            "rates": [{**rates.as_dict(), "times_stock": self.times_stock(rates.team)} for rates in self.rates],
            "goals": [goal.as_dict() for goal in self.goals()],
            "rounds": [[rates.as_dict() for rates in each] for each in self.rounds],
            "idle_percent": self.idle_percent,
            "seconds": self.seconds,
            "cpus": self.cpus,
            "load_before": self.load_before,
            "core": self.core,
        }


def _times_stock(team: Team, beside: Sequence[LoopRates]) -> float | None:
    stock = [each for each in beside if each.team.kind == STOCK and each.team.writers == team.writers]
    best = max((each.commits_per_second for each in stock), default=0.0)
    ours = next(each.commits_per_second for each in beside if each.team == team)
    return ours / best if best else None


def run_loop_bench(
    settings: Settings,
    *,
    writers: Sequence[int],
    seconds: float,
    tables: Sequence[str] = TABLES,
    kinds: Sequence[str] = KINDS,
    threads: bool = False,
    stock: bool = True,
    repetitions: int = 1,
    warm_up_s: float = WARM_UP_S,
    say: Say = lambda line: None,
) -> LoopBench:
    """Measure in a home of its own, which is removed afterwards.

    Args:
        settings: Java and the jar cache are taken from it.
        writers: how many writer processes, one measurement each.
        seconds: how long each measurement takes.
        tables: "own": each writer appends to its own table; "one": all to one.
        kinds: how they commit: "append", "transaction", or "gateway", DuckLake's own client through it.
        threads: measure many writers in few processes too, and many processes.
        stock: measure DuckLake's own client too.
        repetitions: of everything, by turns.
        warm_up_s: how long the writers run before anything is measured: a young JVM compiles.
        say: is told what is being done.
    """
    load_before = round(os.getloadavg()[0], 2)
    shapes = [(number, number) for number in writers]
    teams = [Team(kind, where, *shape) for kind, where, shape in product(kinds, tables, shapes)]
    if threads:
        teams += [Team("append", where, *shape) for where, shape in product(tables, THREADS)]
    beside = [Team(STOCK, where, *shape) for where, shape in product(tables, shapes)] if stock else []
    rounds = []
    with own_servers(settings, say) as own:
        most = max(team.writers for team in teams)
        servers = LoopServers(own, most, say)
        idle_percent = servers.warm_up(warm_up_s)
        lake = StockLake.create(own, table_names(most)) if stock else None
        for number in range(repetitions):
            say(f"repetition {number + 1} of {repetitions}")
            stock_rates = servers.run_others(beside, seconds, lake.place()) if lake else []
            rounds.append((*servers.run_ours(teams, seconds), *stock_rates))
    return LoopBench(tuple(rounds), idle_percent, seconds, os.cpu_count() or 1, load_before)


class LoopServers:
    """The servers of one run, with a table for each of so many writers and one for all; on them teams run by turns."""

    def __init__(self, own: Settings, writers: int, say: Say) -> None:
        self._own, self._say = own, say
        self._tables = table_names(max(writers, WARM_UP.writers))
        self._broker = Part(server_process(own, "java"))
        self._postgres = Part(server_process(own, "postgres"))

    def warm_up(self, seconds: float) -> Mapping[str, float]:
        """Make the tables, have writers loop, and look what all servers take while nobody writes, in percent of a core."""
        with ExitStack() as services:
            meter = self._serving(services, with_gateway=False)
            with CommitLog.connect(settings=self._own) as log, log.transaction() as tx:
                for table in self._tables:
                    tx.create_table(table, dict.fromkeys(COLUMNS, "int64"))
            self._say(f"{WARM_UP} writers warm the broker up, {seconds:.0f} s")
            # Each by itself: by the carrier they would ask the broker a fifth as often, and it would stay as young.
            run_team(dataclasses.replace(self._own, carrier_socket=None), WARM_UP, seconds, meter)
            names = jvm_thread_names(self._broker.process, self._own.home / "kafka" / "broker.out")
            self._broker = Part(self._broker.process, names)
            self._say(f"nobody writes, {IDLE_S:.0f} s")
            time.sleep(SETTLE_S)
            before = meter.read()
            time.sleep(IDLE_S)
            spent = meter.read().since(before)
            return {name: round(each.total_s / IDLE_S * 100, 2) for name, each in spent.cpu.items()}

    def run_ours(self, teams: Sequence[Team], seconds: float) -> list[LoopRates]:
        """Have each team commit through the log."""
        rates = []
        for with_gateway in (False, True):
            which = [team for team in teams if (team.kind == GATEWAY) is with_gateway]
            if which:
                with ExitStack() as services:
                    meter = self._serving(services, with_gateway=with_gateway)
                    place = self._gateways_place() if with_gateway else None
                    rates += [self._run(team, seconds, meter, place) for team in which]
        return rates

    def run_others(self, teams: Sequence[Team], seconds: float, place: Mapping[str, str]) -> list[LoopRates]:
        """Have each team commit by another client, while no sequencer and no projector run.

        Args:
            teams: all of one kind.
            seconds: how long each.
            place: where its lake is, with a table for each writer and one for all.
        """
        meter = Meter({"PostgreSQL": self._postgres})
        return [self._run(team, seconds, meter, place) for team in teams]

    def _run(self, team: Team, seconds: float, meter: Meter, place: Mapping[str, str] | None = None) -> LoopRates:
        self._say(f"{team}, {seconds:.0f} s")
        return run_team(self._own, team, seconds, meter, place)

    def _gateways_place(self) -> dict[str, str]:
        """Where the log's lake is, once the gateway listens."""
        gateway = awaited_gateway(self._own, self._own.home / "gateway.log")
        return StockLake(connection_text(through_gateway(self._own, gateway)), self._own.data_path).place()

    def _serving(self, services: ExitStack, *, with_gateway: bool) -> Meter:
        """Start the services, and give what measures them and the servers."""
        names = (*SERVICES, GATEWAY) if with_gateway else SERVICES
        started = {name: Part(services.enter_context(service_process(self._own, name))) for name in names}
        return Meter({BROKER: self._broker, **started, "PostgreSQL": self._postgres}, self._own)
