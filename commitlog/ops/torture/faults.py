"""What is done to a service: each fault hurts something, and gives what heals it."""

from __future__ import annotations

import random
import signal
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psutil

from commitlog.local.proxy import Proxy
from commitlog.local.server import EmbeddedServer
from commitlog.log.checkpoint import SUFFIX
from commitlog.ops.torture.machines import CHECKPOINTER_NAME, PROJECTOR_NAME, SEQUENCER_NAME, Machine, send
from commitlog.ops.torture.stage import Stage

LATE_S_MAX = 0.5
DOWN_S_MAX = 3.0
FULL_S_MAX = 10.0


@dataclass(frozen=True, slots=True)
class Harm:
    """What was done.

    Attributes:
        target: to whom.
        seconds: how long it lasts before it is healed; 0: nothing is left to be healed.
        heal: ends it.
    """

    target: str
    seconds: float = 0.0
    heal: Callable[[], None] = lambda: None


@dataclass(frozen=True, slots=True)
class Chances:
    """What a campaign leaves to chance, and how long a pause may be at most, in seconds."""

    random: random.Random
    pause_s_max: float

    def pause_s(self) -> float:
        """Mostly short: one in five is longer than three seconds, one in twenty than ten."""
        low, high = self.random.choices(((0.2, 3.0), (3.0, 10.0), (10.0, 30.0)), weights=(80, 15, 5))[0]
        return min(self.random.uniform(low, high), self.pause_s_max)

    def down_s(self) -> float:
        """How long a server is away."""
        return self.random.uniform(0.0, DOWN_S_MAX)


Hurt = Callable[[Stage, Chances], Harm]


@dataclass(frozen=True, slots=True)
class Fault:
    """A kind of fault: how often it is chosen beside others, and what it does. Of each ``group`` every campaign has one."""

    name: str
    group: str
    weight: int
    hurt: Hurt


# --- processes --------------------------------------------------------------------------------------------------------


def _process(service: str, *, standby: bool = False) -> Callable[[Stage, Chances], tuple[str, list[int]]]:
    """A service's process: the active machine's, or the one's that stands by."""

    def find(stage: Stage, chances: Chances) -> tuple[str, list[int]]:
        machine = stage.other(stage.active()) if standby else stage.active()
        if service not in machine.pids():
            machine = stage.other(machine)
        return f"{service} of machine {machine.name}", [pid for name, pid in machine.pids().items() if name == service]

    return find


def _any_writers(stage: Stage, chances: Chances) -> tuple[str, list[int]]:
    pids = stage.writers.pids()
    return "a process of writers", [chances.random.choice(pids)] if pids else []


def _carrier(stage: Stage, chances: Chances) -> tuple[str, list[int]]:
    return "the writers' carrier", list(stage.carrying.pids().values())


def _server(name: str) -> Callable[[Stage, Chances], tuple[str, list[int]]]:
    def find(stage: Stage, chances: Chances) -> tuple[str, list[int]]:
        pid = _servers(stage)[name].pid
        return name, [] if pid is None else [pid]

    return find


def _servers(stage: Stage) -> Mapping[str, EmbeddedServer]:
    return {"broker": stage.home.broker, "postgres": stage.home.postgres}


def _kill(find: Callable[[Stage, Chances], tuple[str, list[int]]]) -> Hurt:
    def hurt(stage: Stage, chances: Chances) -> Harm:
        target, pids = find(stage, chances)
        _send_all(pids, signal.SIGKILL)
        return Harm(target)

    return hurt


def _pause(find: Callable[[Stage, Chances], tuple[str, list[int]]]) -> Hurt:
    def hurt(stage: Stage, chances: Chances) -> Harm:
        target, pids = find(stage, chances)
        _send_all(pids, signal.SIGSTOP)
        return Harm(target, chances.pause_s(), partial(_send_all, pids, signal.SIGCONT))

    return hurt


def _send_all(pids: Sequence[int], number: signal.Signals) -> None:
    for pid in pids:
        send(pid, number)


def _switch_off(stage: Stage, chances: Chances) -> Harm:
    machine = chances.random.choice(stage.machines)
    machine.switch_off()
    return Harm(f"machine {machine.name}", chances.pause_s(), machine.switch_on)


# --- servers ----------------------------------------------------------------------------------------------------------


def _end_server(name: str, number: signal.Signals) -> Hurt:
    def hurt(stage: Stage, chances: Chances) -> Harm:
        server = _servers(stage)[name]
        if server.pid is not None:
            if number == signal.SIGKILL:
                # What a killed PostgreSQL leaves ends by itself, or is ended by the start.
                psutil.Process(server.pid).kill()
            server.stop()
        return Harm(name, chances.down_s(), partial(_start, stage, server))

    return hurt


def _start(stage: Stage, server: EmbeddedServer) -> None:
    if server.pid is None:
        server.start()
    for network in stage.networks.values():
        network.kafka.target, network.postgres.target = stage.home.broker.port, stage.home.postgres.port


# --- the network ------------------------------------------------------------------------------------------------------


def _weather(begin: Callable[[Proxy, Chances], None]) -> Hurt:
    """Something happens to the connections of services or writers, to one server or both."""

    def hurt(stage: Stage, chances: Chances) -> Harm:
        whose = chances.random.choice(sorted(stage.networks))
        server = chances.random.choice(("broker", "postgres"))
        network = stage.networks[whose]
        proxy = network.kafka if server == "broker" else network.postgres
        begin(proxy, chances)
        return Harm(f"{whose} and {server}", chances.pause_s(), proxy.heal)

    return hurt


def _be_late(proxy: Proxy, chances: Chances) -> None:
    proxy.be_late(chances.random.uniform(0.02, LATE_S_MAX))


# --- disks ------------------------------------------------------------------------------------------------------------


def _fill_lake(stage: Stage, chances: Chances) -> Harm:
    stage.lake.fill()
    return Harm("the lake", chances.random.uniform(1.0, FULL_S_MAX), stage.lake.empty)


def _fill_checkpoints(stage: Stage, chances: Chances) -> Harm:
    stage.checkpoints.fill()
    return Harm("checkpoints", chances.random.uniform(3.0, FULL_S_MAX), stage.checkpoints.empty)


def _tear(stage: Stage, chances: Chances) -> Harm:
    """The newest checkpoint of a machine is cut off or has another byte; then its sequencer and checkpointer must load."""
    machine = stage.active()
    files = sorted(_checkpoints(machine), key=lambda path: path.stat().st_mtime)
    if files:
        _damage(files[-1], chances.random)
    pids = machine.pids()
    _send_all([pids[name] for name in (SEQUENCER_NAME, CHECKPOINTER_NAME) if name in pids], signal.SIGKILL)
    return Harm(f"{'the newest' if files else 'no'} checkpoint of machine {machine.name}")


def _checkpoints(machine: Machine) -> list[Path]:
    return list((machine.settings.checkpoint_dir / machine.settings.log).glob(f"*{SUFFIX}"))


def _damage(path: Path, chance: random.Random) -> None:
    size = path.stat().st_size
    with path.open("r+b") as file:
        if chance.random() < 0.5:
            file.truncate(chance.randrange(size))
            return
        file.seek(place := chance.randrange(size))
        [byte] = file.read(1)
        file.seek(place)
        file.write(bytes([byte ^ 1 << chance.randrange(8)]))


KILL, PAUSE, SERVER, NETWORK, FULL, TORN = "kill", "pause", "server", "network", "full disk", "torn checkpoint"
FAULTS: Sequence[Fault] = (
    Fault("kill the active sequencer", KILL, 4, _kill(_process(SEQUENCER_NAME))),
    Fault("kill the standby", KILL, 1, _kill(_process(SEQUENCER_NAME, standby=True))),
    Fault("kill a projector", KILL, 3, _kill(_process(PROJECTOR_NAME))),
    Fault("kill a checkpointer", KILL, 1, _kill(_process(CHECKPOINTER_NAME))),
    Fault("kill writers", KILL, 4, _kill(_any_writers)),
    Fault("kill the carrier", KILL, 3, _kill(_carrier)),
    Fault("switch a machine off", KILL, 2, _switch_off),
    Fault("pause the active sequencer", PAUSE, 5, _pause(_process(SEQUENCER_NAME))),
    Fault("pause a projector", PAUSE, 2, _pause(_process(PROJECTOR_NAME))),
    Fault("pause a checkpointer", PAUSE, 1, _pause(_process(CHECKPOINTER_NAME))),
    Fault("pause writers", PAUSE, 2, _pause(_any_writers)),
    Fault("pause the carrier", PAUSE, 3, _pause(_carrier)),
    Fault("pause the broker", PAUSE, 2, _pause(_server("broker"))),
    Fault("pause PostgreSQL", PAUSE, 2, _pause(_server("postgres"))),
    Fault("kill the broker", SERVER, 2, _end_server("broker", signal.SIGKILL)),
    Fault("restart the broker", SERVER, 1, _end_server("broker", signal.SIGTERM)),
    Fault("kill PostgreSQL", SERVER, 2, _end_server("postgres", signal.SIGKILL)),
    Fault("restart PostgreSQL", SERVER, 2, _end_server("postgres", signal.SIGTERM)),
    Fault("connections break", NETWORK, 5, _weather(lambda proxy, _: proxy.refuse())),
    Fault("connections are silent", NETWORK, 4, _weather(lambda proxy, _: proxy.be_silent())),
    Fault("connections are slow", NETWORK, 2, _weather(_be_late)),
    Fault("the lake's disk is full", FULL, 1, _fill_lake),
    Fault("the checkpoints' disk is full", FULL, 2, _fill_checkpoints),
    Fault("torn checkpoint", TORN, 3, _tear),
)


def possible(stage: Stage) -> list[Fault]:
    """Those that can be had here: a disk is filled only where it is a small one of our own."""
    is_small = stage.lake.is_mounted and stage.checkpoints.is_mounted
    return [fault for fault in FAULTS if fault.group != FULL or is_small]


def planned(faults: Sequence[Fault], count: int, chance: random.Random, mostly: Collection[str] = ()) -> list[Fault]:
    """So many of them: one of each group at first, in any order, then as their weights have it; every other one is one of
    those that are to come mostly, by their names.
    """
    groups = list(dict.fromkeys(fault.group for fault in faults))
    first = [_chosen([fault for fault in faults if fault.group == group], chance) for group in groups]
    chance.shuffle(first)
    return [*first, *(_chosen(faults, chance, mostly) for _ in range(count - len(first)))][:count]


def _chosen(faults: Sequence[Fault], chance: random.Random, mostly: Collection[str] = ()) -> Fault:
    favoured = [fault for fault in faults if fault.name in mostly]
    if favoured and chance.random() < 0.5:
        faults = favoured
    return chance.choices(faults, weights=[fault.weight for fault in faults])[0]
