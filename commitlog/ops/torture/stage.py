"""Everything that a torture hurts, in a folder of its own: servers, the network before them, disks, machines, writers."""

from __future__ import annotations

import dataclasses
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from commitlog.client import CommitLog
from commitlog.client.ids import new_proposal_id
from commitlog.config import Settings
from commitlog.domain import model as m
from commitlog.errors import CommitLogError, LogRefusedError
from commitlog.local.home import EmbeddedHome
from commitlog.local.proxy import KafkaProxy, Proxy
from commitlog.log.deafness import DEAF
from commitlog.ops.service.serve import prepare
from commitlog.ops.torture.disks import SmallDisk, small_disk
from commitlog.ops.torture.ledger import all_written
from commitlog.ops.torture.machines import (
    WRITERS,
    Machine,
    Writers,
    carrying_machine,
    is_serving,
    tended,
    two_machines,
)
from commitlog.ops.torture.writing import WEATHER, create_tables

LAKE_MIB, CHECKPOINTS_MIB = 512, 64
PROBE_TIMEOUT_MS = 2_000
WELL_AGAIN_S = 240.0
SET_UP_S = 600.0
RETRY_PAUSE_S = 0.5
PARTITIONS = 4


@dataclasses.dataclass(frozen=True, slots=True)
class Network:
    """How some processes reach the servers."""

    kafka: KafkaProxy
    postgres: Proxy

    def settings(self, direct: Settings) -> Settings:
        """The settings of those who only know the proxies."""
        own, theirs = f":{self.postgres.port}/", f":{self.postgres.target}/"
        assert direct.database_url.count(theirs) == 1
        return dataclasses.replace(
            direct, bootstrap_servers=self.kafka.address, database_url=direct.database_url.replace(theirs, own)
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Stage:
    """What there is to be hurt.

    Attributes:
        settings: by the servers' own addresses.
        home: the servers.
        networks: of the services, and of the writers.
        lake, checkpoints: disks.
        machines: the two that serve.
        carrying: where the writers' carrier runs.
        writers: all of them.
        ledgers: the writers' folder.
        directory: where all of it is.
    """

    settings: Settings
    home: EmbeddedHome
    networks: Mapping[str, Network]
    lake: SmallDisk
    checkpoints: SmallDisk
    machines: list[Machine]
    carrying: Machine
    writers: Writers
    ledgers: Path
    directory: Path
    _kept: list[Path]

    def keep(self) -> None:
        """Do not remove the folder at the end."""
        self._kept.append(self.directory)

    def deaf(self) -> int:
        """How many consumers were replaced, for they gave out nothing any more; of all that runs, by its logs."""
        logs = [path for each in (*self.machines, self.carrying) for path in (each.settings.home / "logs").iterdir()]
        return sum(path.read_text(errors="replace").count(DEAF) for path in (self.writers.log_file, *logs))

    def active(self) -> Machine:
        """Whose sequencer serves; the first one's where none says so."""
        return next(filter(is_serving, self.machines), self.machines[0])

    def other(self, machine: Machine) -> Machine:
        """The one beside it."""
        return next(each for each in self.machines if each is not machine)

    def wait_until_all_write(self) -> None:
        """Until every writer has had an answer: what it needs is loaded, and it is in the middle of its work.

        Raises:
            CommitLogError: one had none in ten minutes.
        """
        deadline = time.monotonic() + SET_UP_S
        while silent := {name for each in WRITERS for name in each} - {
            each.writer for each in all_written(self.ledgers) if each.answers
        }:
            if time.monotonic() > deadline:
                raise CommitLogError(f"no answer in {SET_UP_S:.0f} s to {', '.join(sorted(silent))}")
            time.sleep(1.0)

    def wait_until_well(self, name: str) -> None:
        """Until a new proposal is answered, and readers see it; ``name`` makes it another one than before.

        Raises:
            CommitLogError: it did not come to that in four minutes.
        """
        deadline = time.monotonic() + WELL_AGAIN_S
        while True:
            try:
                with CommitLog.connect(settings=self.writers.settings) as log:
                    log.wait_for_snapshot(self._answered(log, name, deadline), timeout=_left_s(deadline))
                return
            except WEATHER as error:
                if time.monotonic() > deadline:
                    raise CommitLogError(f"not well again in {WELL_AGAIN_S:.0f} s after {name}: {error}") from error

    def _answered(self, log: CommitLog, name: str, deadline: float) -> int | None:
        proposal = m.Proposal(
            new_proposal_id(), "probe", 0, (m.CreateSchema(name),), created_at_ms=time.time_ns() // 1_000_000
        )
        while True:
            try:
                return log.submit(proposal, timeout_ms=PROBE_TIMEOUT_MS).snapshot_id
            except WEATHER:
                if time.monotonic() > deadline:
                    raise


@contextmanager
def stage(settings: Settings, seed: int) -> Iterator[Stage]:
    """Set it up, in a folder that is removed afterwards unless it is kept; all runs, and writers write.

    Args:
        settings: Java and the jar cache are taken from it.
        seed: of what the writers write.
    """
    with ExitStack() as stack:
        directory = Path(tempfile.mkdtemp(prefix="commitlog-torture-"))
        kept: list[Path] = []
        stack.callback(_remove_unless, directory, kept)
        lake = stack.enter_context(small_disk(directory / "lake", LAKE_MIB))
        checkpoints = stack.enter_context(small_disk(directory / "checkpoints", CHECKPOINTS_MIB))
        wanted = dataclasses.replace(
            settings.at_home(directory / "home"),
            log="torture",
            data_path=str(lake.path),
            partitions=PARTITIONS,
            kafka_port=0,
            postgres_port=0,
            metrics_port=0,
        )
        home = EmbeddedHome(wanted)
        assert home.acquire()
        direct = home.start()
        stack.callback(home.stop)
        _as_soon_as_possible(lambda: prepare(direct))
        networks = {
            name: Network(
                stack.enter_context(KafkaProxy(direct.bootstrap_servers)),
                stack.enter_context(Proxy(home.postgres.port)),
            )
            for name in ("services", "writers")
        }
        serving, writing = (networks[name].settings(direct) for name in ("services", "writers"))
        machines = two_machines(serving, directory, {name: checkpoints.path / name for name in ("a", "b")})
        for machine in machines:
            stack.callback(machine.stop)
        carrying = carrying_machine(writing)
        stack.callback(carrying.stop)
        ledgers = directory / "ledgers"
        writers = Writers(writing, ledgers, seed)
        stack.callback(writers.stop)
        with tended([*machines, carrying]):
            _as_soon_as_possible(lambda: create_tables(direct))
            with tended([writers]):
                yield Stage(
                    direct, home, networks, lake, checkpoints, machines, carrying, writers, ledgers, directory, kept
                )


def _as_soon_as_possible(act: Callable[[], None]) -> None:
    """Servers that have just been started may be slow to answer, and know little at first."""
    deadline = time.monotonic() + SET_UP_S
    while True:
        try:
            return act()
        except (*WEATHER, LogRefusedError):
            if time.monotonic() > deadline:
                raise
            time.sleep(RETRY_PAUSE_S)


def _remove_unless(directory: Path, kept: Sequence[Path]) -> None:
    if directory not in kept:
        shutil.rmtree(directory, ignore_errors=True)


def _left_s(deadline: float) -> float:
    return max(1.0, deadline - time.monotonic())
