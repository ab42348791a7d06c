"""`commitlog bench replicate`: two sites here, each with its own broker, PostgreSQL and service, and a link between them.

What is told comes from both logs, once all is brought: when each snapshot was decided at the one site and at the other, by the
one clock of this machine. The link is a process, as `commitlog replicate` runs it, and is killed without warning.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import psutil

from commitlog import compiled
from commitlog.client import CommitLog
from commitlog.client.ids import new_proposal_id
from commitlog.config import Settings
from commitlog.domain import model as m
from commitlog.errors import CommitLogError
from commitlog.local.home import mark_of
from commitlog.ops.bench.goals import Goal
from commitlog.ops.bench.metering import Meter, Part
from commitlog.ops.bench.servers import Say, own_servers, server_process, service_process
from commitlog.ops.bench.teams import percentile
from commitlog.ops.service.supervisor import COMMITLOG

SITES = ("paris", "tokyo")
TABLE = "k"
SERVICES = ("sequencer", "projector", "checkpointer")
STEADY_PER_SECOND = 1_000
AHEAD = 500
TAKEN_KEYS = 10_000_000
"""Beyond those that a run writes."""
LONGEST_S = 180.0

PER_SECOND_MIN = 5_000
LAG_P99_MS_MAX = 1_000
RESUME_S_MAX = 5.0


@dataclass(frozen=True, slots=True)
class ReplicateBench:
    """What was measured.

    Attributes:
        rows: row changes of a snapshot.
        per_second: row changes that the link brought of a backlog, until the last was decided.
        visible_per_second: likewise, until readers of the other site saw the last.
        cpu_us: CPU time of a row change of the backlog by part of the system.
        lag_p50_ms, lag_p99_ms: from the decision at one site to that at the other, at 1,000 row changes a second.
        resume_s: from each kill of the link to the first snapshot that the next one brought, at the same rate.
        twice: snapshots that came more than once, or not, or in another order.
        brought: snapshots, in all.
    """

    rows: int
    per_second: float
    visible_per_second: float
    cpu_us: Mapping[str, float]
    lag_p50_ms: float
    lag_p99_ms: float
    resume_s: tuple[float, ...]
    twice: int
    brought: int
    cpus: int
    load_before: float
    core: str = compiled.form

    def goals(self) -> list[Goal]:
        """The figures of it that have bounds to meet."""
        return [
            Goal.at_least("row changes brought a second", self.per_second, PER_SECOND_MIN),
            Goal.at_most(f"lag p99 at {STEADY_PER_SECOND:,} row changes a second, ms", self.lag_p99_ms, LAG_P99_MS_MAX),
            Goal.at_most("resume after a kill of the link, s", max(self.resume_s), RESUME_S_MAX),
            Goal.at_most("snapshots that came twice, or not", self.twice, 0),
        ]

    def as_dict(self) -> dict[str, object]:
        """For `--json`."""
        return {**asdict(self), "goals": [goal.as_dict() for goal in self.goals()]}


def run_replicate_bench(
    settings: Settings,
    *,
    row_changes: int,
    rows: int,
    seconds: float,
    kills: int,
    say: Say = lambda line: None,
) -> ReplicateBench:
    """Measure in homes of its own, which are removed afterwards.

    Args:
        settings: Java and the jar cache are taken from it.
        row_changes: of the backlog.
        rows: row changes of a snapshot.
        seconds: how long 1,000 row changes a second are written before the first kill, and after each.
        kills: of the link.
        say: is told what is being done.
    """
    load_before = round(os.getloadavg()[0], 2)
    with ExitStack() as running:
        sites = _Sites(running, settings, say)
        say(f"{row_changes:,} row changes at {SITES[0]}, in snapshots of {rows}")
        sites.write(_proposals(range(0, row_changes, rows), rows))
        before_seq = sites.logs[SITES[1]].last_seq()
        with sites.link() as link:
            meter = sites.meter(link)
            before = meter.read()
            say("the link brings them")
            sites.wait_until_brought(before_seq)
            sites.logs[SITES[1]].wait_for_snapshot()
            visible_ms = _now_ms()
            spent = meter.read().since(before)
        backlog = sites.brought()
        steady_from_ms, killed_ms = sites.write_steadily(rows, row_changes, seconds, kills)
        brought = sites.brought()
        made = sites.made()
    first_ms, last_ms = backlog[0].decided_at_ms, backlog[-1].decided_at_ms
    steady = [
        each.decided_at_ms - made[each.tick]
        for each in brought
        if steady_from_ms <= made[each.tick] < (killed_ms[0] if killed_ms else _now_ms())
    ]
    return ReplicateBench(
        rows,
        per_second=round(row_changes / (last_ms - first_ms) * 1000),
        visible_per_second=round(row_changes / (visible_ms - first_ms) * 1000),
        cpu_us={name: round(each.total_s / row_changes * 1e6, 1) for name, each in spent.cpu.items()},
        lag_p50_ms=percentile(steady, 50),
        lag_p99_ms=percentile(steady, 99),
        resume_s=tuple(_resumed_s(brought, killed) for killed in killed_ms),
        twice=_differences([each.tick for each in brought], sorted(made)),
        brought=len(brought),
        cpus=os.cpu_count() or 1,
        load_before=load_before,
    )


class Brought(NamedTuple):
    """A snapshot as the other site has it: its tick, the link's epoch, when it was decided there."""

    tick: int
    epoch: int
    decided_at_ms: int


def _resumed_s(brought: Sequence[Brought], killed_ms: int) -> float:
    """From a kill to the first snapshot of the next link."""
    epoch = max(each.epoch for each in brought if each.decided_at_ms <= killed_ms)
    first_ms = min(each.decided_at_ms for each in brought if each.epoch > epoch)
    return (first_ms - killed_ms) / 1000


def _differences(came: Sequence[int], made: Sequence[int]) -> int:
    """How many snapshots came twice, not at all, or before one that was made earlier."""
    early = sum(later <= tick for tick, later in pairwise(came))
    return early + len(set(made) - set(came))


class _Sites:
    """Both sites with what runs at each, and the link from the first to the second."""

    def __init__(self, running: ExitStack, settings: Settings, say: Say) -> None:
        self._running, self._say = running, say
        self.settings: dict[str, Settings] = {}
        self.logs: dict[str, CommitLog] = {}
        self._parts: dict[str, Part] = {}
        for priority, name in enumerate(SITES, start=1):
            own = self.settings[name] = running.enter_context(own_servers(settings, say))
            self._parts |= {
                f"{name}: broker": Part(server_process(own, "java")),
                f"{name}: PostgreSQL": Part(server_process(own, "postgres")),
            }
            for service in SERVICES:
                self._parts[f"{name}: {service}"] = Part(running.enter_context(service_process(own, service)))
            log = self.logs[name] = running.enter_context(CommitLog.connect(settings=own))
            with log.transaction() as tx:
                tx.configure(node_name=name, node_priority=priority)
        self._profiles = self.settings[SITES[0]].home / "sites.toml"
        write_profiles(self._profiles, self.settings)
        with self.logs[SITES[0]].transaction() as tx:
            tx.create_table(f"main.{TABLE}", {"id": "int64", "v": "varchar", "n": "int64"}, primary_key=["id"])

    def write(self, proposals: Iterable[m.Proposal]) -> None:
        """Have the first site commit these, and its readers see them."""
        log = self.logs[SITES[0]]
        for answer in log.publish_many(proposals, in_flight_max=AHEAD):
            if isinstance(answer, CommitLogError):
                raise answer
            assert answer.committed, answer
        log.wait_for_snapshot()

    @contextmanager
    def link(self) -> Iterator[subprocess.Popen[bytes]]:
        """The link as a process; it is killed in the end, if it was not before."""
        source, target = SITES
        own = self.settings[source]
        marked = ("env", *(f"{name}={value}" for name, value in mark_of(own.home).items()))
        command = (*marked, *COMMITLOG, "replicate", "--from", source, "--to", target, "--config", str(self._profiles))
        with (own.home / "link.log").open("ab") as output:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    def meter(self, link: subprocess.Popen[bytes]) -> Meter:
        """Of all parts of both sites, and the link."""
        return Meter({"link": Part(psutil.Process(link.pid)), **self._parts})

    def wait_until_brought(self, after_seq: int) -> None:
        """Until the last snapshot that the first site has is taken over by the second, after an outcome there.

        Raises:
            CommitLogError: not in time.
        """
        source, target = (self.logs[name] for name in SITES)
        last = source.wait_for_snapshot()
        deadline = time.monotonic() + LONGEST_S
        for outcomes in target.access.subscribe(after_seq, follow=True):
            if any(_tick_of(each) == last for each in outcomes):
                return
            if time.monotonic() > deadline:
                lines = (self.settings[SITES[0]].home / "link.log").read_text(encoding="utf-8").splitlines()
                raise CommitLogError(f"the link has not brought everything in {LONGEST_S:.0f} s: {lines[-1:]}")

    def write_steadily(self, rows: int, first: int, seconds: float, kills: int) -> tuple[int, list[int]]:
        """Write at a steady rate, and kill the link now and then; when that began, and the moments of the kills, in ms."""
        self._say(f"{STEADY_PER_SECOND:,} row changes a second, {seconds:.0f} s, then {kills} kills of the link")
        last = first + int(STEADY_PER_SECOND * seconds * (kills + 1))
        proposals = _steadily(_proposals(range(first, last, rows), rows), rows)
        killed_ms: list[int] = []
        before_seq = self.logs[SITES[1]].last_seq()
        with ExitStack() as links, ThreadPoolExecutor() as threads:
            link = links.enter_context(self.link())
            # A link that has just begun reads what was there before: one row more shows that it follows.
            self.write(_proposals([first + TAKEN_KEYS], 1))
            self.wait_until_brought(before_seq)
            begun_s, begun_ms = time.monotonic(), _now_ms()
            writing = threads.submit(self.write, proposals)
            for number in range(1, kills + 1):
                time.sleep(max(0.0, begun_s + seconds * number - time.monotonic()))
                link.kill()
                link.wait()
                killed_ms.append(_now_ms())
                link = links.enter_context(self.link())
            writing.result()
            self._say("what is left is brought")
            self.wait_until_brought(before_seq)
        return begun_ms, killed_ms

    def brought(self) -> list[Brought]:
        """What the second site has of the first, in its order."""
        return [
            Brought(tick, outcome.proposal.writer_epoch or 0, outcome.decided_at_ms)
            for outcome in self.logs[SITES[1]].subscribe(follow=False)
            if outcome.proposal is not None
            and outcome.snapshot_id is not None
            and (tick := _tick_of(outcome)) is not None
            and _has_rows(outcome.proposal)
        ]

    def made(self) -> dict[int, int]:
        """When each snapshot of the first site was decided there, in ms."""
        return {
            outcome.snapshot_id: outcome.decided_at_ms
            for outcome in self.logs[SITES[0]].subscribe(follow=False)
            if outcome.snapshot_id is not None and outcome.proposal is not None and _has_rows(outcome.proposal)
        }


def _tick_of(outcome: m.Outcome) -> int | None:
    """Of the first site's snapshot that an outcome of the second takes over."""
    replicated = None if outcome.proposal is None else outcome.proposal.replicated
    return None if replicated is None else replicated.tick


def _has_rows(proposal: m.Proposal) -> bool:
    return any(isinstance(change, (m.InsertRow, m.UpdateRow)) for change in proposal.changes)


def _proposals(firsts: Iterable[int], rows: int) -> Iterator[m.Proposal]:
    """Inserts of so many rows each, from each of these keys on."""
    for first in firsts:
        changes = tuple(
            m.InsertRow("main", TABLE, {"id": key, "v": f"value {key}", "n": key * 7})
            for key in range(first, first + rows)
        )
        yield m.Proposal(new_proposal_id(), "bench", 2, changes, created_at_ms=_now_ms())


def _steadily(proposals: Iterable[m.Proposal], rows: int) -> Iterator[m.Proposal]:
    """Each at its moment."""
    begun_s = time.monotonic()
    for number, proposal in enumerate(proposals):
        time.sleep(max(0.0, begun_s + number * rows / STEADY_PER_SECOND - time.monotonic()))
        yield proposal


def write_profiles(path: Path, sites: Mapping[str, Settings]) -> None:
    """A file with a profile for each site."""
    lines: list[str] = []
    for name, settings in sites.items():
        values = {
            "log": settings.log,
            "bootstrap_servers": settings.bootstrap_servers,
            "database_url": settings.database_url,
            "data_path": settings.data_path,
            "home": str(settings.home),
            "checkpoint_dir": str(settings.checkpoint_dir),
        }
        for header, section in ((f"profile.{name}", values), (f"profile.{name}.kafka", settings.kafka)):
            lines += [f"[{header}]", *(f"{json.dumps(key)} = {json.dumps(value)}" for key, value in section.items())]
    path.touch(mode=0o600)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
