"""`commitlog bench peers`: the same closed loop by the clients that one would use instead, on the same disk and PostgreSQL.

1 to 32 writer processes, each through its client as it comes, append one small file a commit, to one table or each to its own.
What a client tries again by itself counts as one commit; what fails in the end counts as failed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from commitlog import compiled
from commitlog.config import Settings
from commitlog.ops.bench.loop import TABLES, LoopServers
from commitlog.ops.bench.peer_turns import DeltaLake, IcebergLake
from commitlog.ops.bench.peers_picture import Curve, Point
from commitlog.ops.bench.servers import Say, own_servers
from commitlog.ops.bench.teams import WARM_UP_S, LoopRates, Team, median_rates, table_names
from commitlog.ops.bench.turns import DELTA, ICEBERG, STOCK, StockLake

OURS = "append"
NAMES: Mapping[str, str] = {OURS: "commitlog", STOCK: "DuckLake", DELTA: "Delta", ICEBERG: "Iceberg"}


@dataclass(frozen=True, slots=True)
class PeersBench:
    """What was measured: medians of the repetitions by team, seconds of each, and on what."""

    rates: tuple[LoopRates, ...]
    seconds: float
    repetitions: int
    cpus: int
    load_before: float
    core: str = compiled.form

    def as_dict(self) -> dict[str, object]:
        """For `--json`."""
        return {
            "seconds": self.seconds,
            "repetitions": self.repetitions,
            "cpus": self.cpus,
            "load_before": self.load_before,
            "core": self.core,
            "rates": [
                {
                    "client": NAMES[each.team.kind],
                    "tables": each.team.tables,
                    "writers": each.team.writers,
                    "commits_per_second": each.commits_per_second,
                    "failed": each.failed,
                    "p50_ms": each.turn_p50_ms,
                    "p99_ms": each.turn_p99_ms,
                    "failures": {**each.connect_failures, **each.failures},
                }
                for each in self.rates
            ],
        }

    def curves(self) -> list[Curve]:
        """For the picture; a team that committed nothing has no point there."""
        points: dict[tuple[str, str], list[Point]] = {}
        for each in self.rates:
            found = points.setdefault((NAMES[each.team.kind], each.team.tables), [])
            if each.commits_per_second > 0:
                found.append(Point(each.team.writers, each.commits_per_second, each.failed))
        return [Curve(client, tables, found) for (client, tables), found in points.items() if found]


def run_peers_bench(
    settings: Settings,
    *,
    writers: Sequence[int],
    seconds: float,
    repetitions: int = 1,
    warm_up_s: float = WARM_UP_S,
    say: Say = lambda line: None,
) -> PeersBench:
    """Measure in a home of its own, which is removed afterwards.

    Args:
        settings: Java and the jar cache are taken from it.
        writers: how many processes, a measurement each.
        seconds: how long each measurement takes.
        repetitions: of everything, by turns.
        warm_up_s: how long writers run before anything is measured: a young JVM compiles.
        say: is told what is being done.
    """
    load_before = round(os.getloadavg()[0], 2)
    shapes = [(where, number) for where, number in product(TABLES, writers)]
    names = table_names(max(writers))
    with own_servers(settings, say) as own:
        servers = LoopServers(own, max(writers), say)
        servers.warm_up(warm_up_s)
        places = {
            STOCK: StockLake.create(own, names).place(),
            DELTA: DeltaLake.create(own, names).place(),
            ICEBERG: IcebergLake.create(own, names).place(),
        }
        rounds = []
        for number in range(repetitions):
            say(f"repetition {number + 1} of {repetitions}")
            rates = servers.run_ours([Team(OURS, where, each, each) for where, each in shapes], seconds)
            for kind, place in places.items():
                rates += servers.run_others([Team(kind, where, each, each) for where, each in shapes], seconds, place)
            rounds.append(rates)
    medians = tuple(median_rates(same) for same in zip(*rounds, strict=True))
    return PeersBench(medians, seconds, repetitions, os.cpu_count() or 1, load_before)
