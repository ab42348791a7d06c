"""Two and three sites with everything of their own; links, brokers and sequencers are killed without warning, all the time."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import random
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil
import pytest
from log_running import wait_until

from commitlog.client import CommitLog
from commitlog.config import Settings
from commitlog.errors import CommitLogError
from commitlog.local.home import EmbeddedHome
from commitlog.local.processes import find_processes
from commitlog.ops.bench.replicate import write_profiles
from commitlog.ops.service.serve import prepare
from commitlog.ops.service.supervisor import COMMITLOG
from commitlog.sites.divergence import divergent_rows

SITES = ("paris", "tokyo", "osaka")
SERVICES = ("sequencer", "projector")
KEYS = 8
KILLS = 12
ROUNDS_MAX_S = 120.0
UNTIL_S = 180.0


class Running:
    """Sites in a ring, whose brokers and processes come again when they are gone."""

    def __init__(self, settings: Settings, sites: Sequence[str], folder: Path, stack: ExitStack) -> None:
        self.sites = sites
        self.homes: dict[str, EmbeddedHome] = {}
        self.settings: dict[str, Settings] = {}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.profiles = folder / "sites.toml"
        self._folder = folder
        self._stop = threading.Event()
        for name in sites:
            wanted = dataclasses.replace(
                settings,
                log=name,
                home=folder / name,
                data_path=str(folder / name / "lake"),
                checkpoint_dir=folder / name / "checkpoints",
                kafka_port=0,
                postgres_port=0,
            )
            home = self.homes[name] = EmbeddedHome(wanted, progress=lambda line: None)
            assert home.acquire()
            stack.callback(home.stop)
            self.settings[name] = home.start()
            prepare(self.settings[name])
        write_profiles(self.profiles, self.settings)
        reviving = threading.Thread(target=self._revive, daemon=True)
        reviving.start()
        stack.callback(self._end, reviving)

    def names(self) -> list[str]:
        """What runs: services of each site, and the links."""
        services = [f"{site} {service}" for site in self.sites for service in SERVICES]
        ring = zip(self.sites, (*self.sites[1:], self.sites[0]), strict=True)
        return [*services, *(f"{source} replicate {target}" for source, target in ring)]

    def kill(self, what: str) -> None:
        """End a process, or a site's broker, as a crash of it would."""
        site = what.split()[0]
        if what.endswith("broker"):
            home = str(self.settings[site].home)
            found = find_processes(lambda each: "java" in each.name() and home in " ".join(each.cmdline()))
        else:
            found = [psutil.Process(self.processes[what].pid)]
        for process in found:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()

    def _revive(self) -> None:
        while not self._stop.wait(0.2):
            for home in self.homes.values():
                home.revive()
            for what in self.names():
                running = self.processes.get(what)
                if running is None or running.poll() is not None:
                    self.processes[what] = self._begin(what)

    def _begin(self, what: str) -> subprocess.Popen[bytes]:
        site, command, *other = what.split()
        arguments = ("replicate", "--from", site, "--to", *other) if other else (command,)
        more = ("--config", str(self.profiles)) if other else ()
        with (self._folder / f"{what.replace(' ', '-')}.log").open("ab") as output:
            return subprocess.Popen(
                (*COMMITLOG, *arguments, *more),
                env=self.settings[site].environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    def _end(self, reviving: threading.Thread) -> None:
        self._stop.set()
        reviving.join()
        for process in self.processes.values():
            process.kill()
            process.wait()


@pytest.fixture(params=[2, 3])
def running(settings: Settings, request: pytest.FixtureRequest) -> Iterator[Running]:
    # Where PostgreSQL's own user may pass, too.
    with (
        tempfile.TemporaryDirectory(prefix="commitlog-sites-", ignore_cleanup_errors=True) as folder,
        ExitStack() as stack,
    ):
        yield Running(settings, SITES[: request.param], Path(folder), stack)


def edit(log: CommitLog, chance: random.Random, number: int) -> None:
    key = {"id": chance.randrange(KEYS)}
    row: dict[str, Any] = {**key, "v": f"{log.writer_id} {number}", "w": chance.choice([None, "x", "y"])}
    with contextlib.suppress(CommitLogError), log.transaction() as tx:
        match chance.randrange(4):
            case 0:
                tx.delete_row("main.k", key)
            case 1:
                tx.insert_row("main.k", row)
            case _:
                tx.update_row("main.k", key, row)


def append(log: CommitLog, number: int) -> None:
    with contextlib.suppress(CommitLogError):
        log.table("main.f").append([{"id": number, "v": log.writer_id}])


def rows(log: CommitLog, table: str = "main.k") -> list[dict[str, Any]]:
    log.wait_for_snapshot(timeout=60)
    return sorted(log.table(table).scan().to_arrow().to_pylist(), key=lambda each: (int(each["id"]), str(each["v"])))


def has_all(logs: dict[str, CommitLog], made: dict[str, int]) -> bool:
    try:
        digests = {name: log.access.digest() for name, log in logs.items()}
    except CommitLogError:
        return False
    return all(
        other in digests[name] and digests[name][other].tick > made[other]
        for name in logs
        for other in logs
        if other != name
    )


@pytest.mark.nightly
def test_sites_when_links_brokers_and_sequencers_are_killed_then_hold_the_same_rows_and_nothing_came_twice(
    running: Running,
) -> None:
    chance = random.Random(os.environ.get("COMMITLOG_TEST_SEED", "1"))
    with ExitStack() as stack:
        logs = {
            name: stack.enter_context(CommitLog.connect(settings=own, writer_id=name))
            for name, own in running.settings.items()
        }
        wait_until(
            lambda: all(name_node(log, name) for name, log in logs.items()), "all sequencers serve", deadline_s=UNTIL_S
        )
        with logs["paris"].transaction() as tx:
            tx.create_table(
                "main.k", {"id": "int64", "v": "varchar", "w": "varchar"}, primary_key=["id"], unique=[["w"]]
            )
            tx.create_table("main.f", {"id": "int64", "v": "varchar"})
        wait_until(
            lambda: all("main.f" in log.tables() for log in logs.values()),
            "the tables at all sites",
            deadline_s=UNTIL_S,
        )
        deadline = time.monotonic() + ROUNDS_MAX_S
        targets = [*running.names(), *(f"{site} broker" for site in running.sites)]
        for number in range(KILLS):
            for _ in range(5):
                for log in logs.values():
                    edit(log, chance, number)
            for log in logs.values():
                append(log, number)
            running.kill(chance.choice(targets))
            if time.monotonic() > deadline:
                break
        wait_until(lambda: all(end(log) for log in logs.values()), "each site ends", deadline_s=UNTIL_S)
        last = {name: last_made(log) for name, log in logs.items()}
        wait_until(lambda: has_all(logs, last), "each site has what the others made", deadline_s=UNTIL_S)
        first, *others = logs.values()
        appended = [(row["id"], row["v"]) for row in rows(first, "main.f")]
        assert len(set(appended)) == len(appended) > 0
        for log in others:
            assert rows(log) == rows(first)
            assert rows(log, "main.f") == rows(first, "main.f")
            assert held(log) == held(first)
        for log in logs.values():
            came: dict[str, list[int]] = {}
            for each in log.subscribe(follow=False):
                made = None if each.proposal is None else each.proposal.replicated
                if each.snapshot_id is not None and made is not None and made.node != log.access.node().name:
                    came.setdefault(made.node, []).append(made.tick)
            assert came == {name: sorted(set(ticks)) for name, ticks in came.items()}


def held(log: CommitLog) -> list[tuple[Any, Any]]:
    return [(each.key, each.row) for each in divergent_rows(log)]


def name_node(log: CommitLog, name: str) -> bool:
    with contextlib.suppress(CommitLogError):
        if log.access.node() is None:
            with log.transaction() as tx:
                tx.configure(node_name=name, node_priority=1 + SITES.index(name))
        return log.access.node() is not None
    return False


def end(log: CommitLog) -> bool:
    """The last that a site makes: a table of its own."""
    with contextlib.suppress(CommitLogError):
        with log.transaction() as tx:
            tx.create_table(f"main.last_of_{log.writer_id}", {"id": "int64"}, primary_key=["id"], if_not_exists=True)
        return True
    return False


def last_made(log: CommitLog) -> int:
    """The snapshot by which it made that."""
    log.wait_for_snapshot(timeout=60)
    [entry] = log.history(1, table=f"main.last_of_{log.writer_id}")
    assert entry.snapshot_id is not None
    return entry.snapshot_id
