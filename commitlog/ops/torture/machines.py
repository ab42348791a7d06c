"""The processes of a torture: two machines that serve a log, writers and their carrier; all are started again when they end."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import psutil

from commitlog.config import Settings
from commitlog.errors import CommitLogError
from commitlog.log.sequencer import Phase
from commitlog.ops.service.supervisor import CARRIER, POLL_S, PROJECTOR, SEQUENCER, STANDBY, Service, Supervisor
from commitlog.ops.torture.ledger import END_FILE, STACKS_SIGNAL, stacks_file

SEQUENCER_NAME, PROJECTOR_NAME, CHECKPOINTER_NAME = "sequencer", "projector", "checkpointer"
_CHECKPOINTER = Service(CHECKPOINTER_NAME, (), program=(sys.executable, "-m", "commitlog.ops.torture.checkpointing"))
_MOVE = re.compile(rb'"message": "\w+ -> (\w+)"')
_LOG_END_BYTES = 20_000
STUCK_S = 60.0
WRITERS: Sequence[Mapping[str, str]] = (
    {"append-1": "append", "append-2": "append", "pair-1": "pair", "overwrite-1": "overwrite"},
    {"append-3": "append", "upsert-1": "upsert", "define-1": "define", "overwrite-2": "overwrite"},
    {"batch-1": "batch", "append-4": "append", "upsert-2": "upsert", "pair-2": "pair"},
    {"batch-2": "batch", "define-2": "define", "upsert-3": "upsert", "overwrite-3": "overwrite"},
)
"""By process its writers, and what each of them does."""


class Machine:
    """Some processes that live and die together.

    Args:
        name: for people.
        settings: what all of them get.
        services: what runs.
    """

    def __init__(self, name: str, settings: Settings, services: Sequence[Service]) -> None:
        self.name = name
        self.settings = settings
        self._logs_dir = settings.home / "logs"
        self._lock = threading.Lock()
        self._is_off = False
        self._supervisor = Supervisor(services, settings.environment(), logs_dir=self._logs_dir, say=lambda line: None)

    def tend(self) -> None:
        """Start what does not run."""
        with self._lock:
            if not self._is_off:
                self._supervisor.check()

    def pids(self) -> dict[str, int]:
        """Of what runs, by name."""
        with self._lock:
            return {each.name: each.pid for each in self._supervisor.described() if each.pid is not None}

    def phase(self) -> str | None:
        """Where its sequencer is, as far as it has said."""
        log_file = self._logs_dir / f"{SEQUENCER_NAME}.log"
        if not log_file.exists():
            return None
        with log_file.open("rb") as file:
            file.seek(max(0, log_file.stat().st_size - _LOG_END_BYTES))
            moves = _MOVE.findall(file.read())
        return moves[-1].decode() if moves else None

    def switch_off(self) -> None:
        """All of it ends at once, and nothing is started again."""
        with self._lock:
            self._is_off = True
            for each in self._supervisor.described():
                if each.pid is not None:
                    send(each.pid, signal.SIGKILL)

    def switch_on(self) -> None:
        """What ran is started again."""
        with self._lock:
            self._is_off = False

    def stop(self) -> None:
        """In an orderly way, for good."""
        with self._lock:
            self._is_off = True
            self._supervisor.stop()


class Writers:
    """The writers' processes.

    Args:
        settings: of all of them.
        ledgers: the folder for what they begin and are told.
        seed: of what they write.

    Attributes:
        settings: of all of them.
        log_file: what they have to say.
    """

    def __init__(self, settings: Settings, ledgers: Path, seed: int) -> None:
        ledgers.mkdir()
        self.settings = settings
        self._end = ledgers / END_FILE
        self.log_file = settings.home / "writers.log"
        self._commands = [
            (sys.executable, "-m", "commitlog.ops.torture.writing", str(ledgers), str(seed), json.dumps(each))
            for each in WRITERS
        ]
        self._processes: list[subprocess.Popen[bytes] | None] = [None] * len(WRITERS)
        self._lock = threading.Lock()

    def tend(self) -> None:
        """Start those that do not run."""
        with self._lock:
            for number, process in enumerate(self._processes):
                if process is None or process.poll() not in (None, 0):
                    self._start(number)

    def pids(self) -> list[int]:
        """Of what runs."""
        with self._lock:
            return [each.pid for each in self._processes if each is not None and each.poll() is None]

    def finish(self, timeout_s: float) -> bool:
        """Have them learn the answers that they wait for, and end; whether all have done so in time.

        Those that take long say where each of their threads is, once a minute and at the end of that time.
        """
        self._end.touch()
        began_s = asked_s = time.monotonic()
        while not self._have_ended():
            now_s = time.monotonic()
            is_over = now_s > began_s + timeout_s
            if is_over or now_s > asked_s + STUCK_S:
                asked_s = now_s
                self._ask_for_stacks()
            if is_over:
                return False
            time.sleep(POLL_S)
        return True

    def _ask_for_stacks(self) -> None:
        for pid in self.pids():
            # It would end one that has just been started.
            if stacks_file(self._end.parent, pid).exists():
                send(pid, STACKS_SIGNAL)

    def _have_ended(self) -> bool:
        with self._lock:
            return all(each is not None and each.poll() == 0 for each in self._processes)

    def stop(self) -> None:
        """At once, for good."""
        for pid in self.pids():
            send(pid, signal.SIGKILL)
        with self._lock:
            for each in self._processes:
                if each is not None:
                    each.wait()

    def _start(self, number: int) -> None:
        with self.log_file.open("ab") as output:
            self._processes[number] = subprocess.Popen(
                self._commands[number], env=self.settings.environment(), stdout=output, stderr=output
            )


def two_machines(settings: Settings, homes: Path, checkpoints: Mapping[str, Path]) -> list[Machine]:
    """One that serves all, and one that stands by.

    Args:
        settings: of both, but for what is a machine's own.
        homes: where each has its own.
        checkpoints: by machine where its checkpoints are.
    """
    made = []
    for name, sequencer in (("a", SEQUENCER), ("b", STANDBY)):
        home = homes / name
        home.mkdir()
        own = replace(settings, home=home, checkpoint_dir=checkpoints[name])
        made.append(Machine(name, own, (sequencer, PROJECTOR, _CHECKPOINTER)))
    return made


def carrying_machine(settings: Settings) -> Machine:
    """What runs beside the writers, whose settings these are: the carrier that they propose by."""
    return Machine("of the writers", settings, (CARRIER,))


def send(pid: int, number: signal.Signals) -> None:
    """Signal a process and what it has started; one that has ended is left alone."""
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        for each in [*process.children(recursive=True), process]:
            with suppress(psutil.Error):
                each.send_signal(number)


@contextmanager
def tended(things: Sequence[Machine | Writers]) -> Iterator[None]:
    """Look after them as long as the block runs, from a thread beside it."""
    stop = threading.Event()
    raised: list[BaseException] = []

    def look() -> None:
        try:
            while not stop.wait(POLL_S):
                for each in things:
                    each.tend()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=look, name="tending")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    if raised:
        raise CommitLogError(f"the processes were not looked after any more: {raised[0]!r}") from raised[0]


def is_serving(machine: Machine) -> bool:
    """Whether its sequencer has said so last."""
    return machine.phase() == Phase.SERVING
