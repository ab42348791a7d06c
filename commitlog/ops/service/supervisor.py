"""What keeps service processes running: each that ends is started again, later each time until it has run steadily.

One loop without threads, which its owner turns: `check` looks at every process. It knows nothing of what a service does,
except that some exit codes ask for other arguments from then on (a fenced sequencer comes back as a standby).

A service's standard input is a pipe into which nobody writes. The system closes its other end with this process, also where
that is killed, and the service then ends by itself (`keep_trying.stopped_by_signal`). One that lived on would be nobody's: what
is started next would find its ports taken, and its projector, perhaps of an older version, would write the catalog for ever.
"""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from commitlog.config import SUPERVISED
from commitlog.log.sequencer import EXIT_FENCED

POLL_S = 0.1
STOP_TIMEOUT_S = 5.0
LOG_BYTES_MAX = 20 * 1024 * 1024
ROTATE_EVERY_S = 60.0
EXIT_CANNOT_PROJECT = 70
EXIT_LINK_STOPPED = 71
STEADY_AFTER_S = 30.0
RESTART_DELAY_S_MIN = 0.2
RESTART_DELAY_S_MAX = 10.0
RESTART_DELAY_S_HOPELESS = 60.0

_MEMORY = {"MALLOC_ARENA_MAX": "1"}
"""One heap for all threads: what Kafka's threads allocate and ours let go is not used again otherwise. glibc's eight for each
processor let a process that follows the log grow by two or three kilobytes with each outcome that came alone."""

Say = Callable[[str], None]
COMMITLOG = (sys.executable, "-c", "from commitlog.ops.cli import main; main()")
"""The command line, by this interpreter."""

_logger = logging.getLogger("commitlog.supervisor")


@dataclass(frozen=True, slots=True)
class Service:
    """A process that is kept running.

    Attributes:
        name: for people, and for its log file.
        arguments: of the program; it is given the settings by its environment.
        arguments_after: by exit code, the arguments that it goes on with.
        program: what is run.
    """

    name: str
    arguments: tuple[str, ...]
    arguments_after: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    program: tuple[str, ...] = COMMITLOG

    def command(self, arguments: Sequence[str] | None = None) -> tuple[str, ...]:
        """Program and arguments, its own or others."""
        return (*self.program, *(self.arguments if arguments is None else arguments))


SEQUENCER = Service("sequencer", ("sequencer",), {EXIT_FENCED: ("sequencer", "--standby")})
STANDBY = Service("sequencer", ("sequencer", "--standby"), SEQUENCER.arguments_after)
PROJECTOR = Service("projector", ("projector",))
CHECKPOINTER = Service("checkpointer", ("checkpointer",))
SERVICES = (SEQUENCER, PROJECTOR, CHECKPOINTER)
LINK = "link-"
"""What the name of a link's process begins with, before the profile whose log it reads."""
PAGE = Service("page", ("ui", "--service"))
GATEWAY = Service("gateway", ("gateway", "--service"))
RELAY = Service("relay", ("relay",))
CARRIER = Service("carrier", ("carrier",))
_PAGE_NEEDS = ("jinja2", "starlette", "uvicorn")


def installed_services(*, standby: bool) -> tuple[Service, ...]:
    """What `serve` and `up` run: the gateway too, and the web page where its extra is installed.

    standby: the sequencer waits until the active one is not heard any more. A projector waits for its turn anyhow, and a
        checkpointer saves for the sequencer beside it.
    """
    services = (STANDBY, PROJECTOR, CHECKPOINTER) if standby else SERVICES
    return (*services, GATEWAY, PAGE) if all(map(find_spec, _PAGE_NEEDS)) else (*services, GATEWAY)


_HOPELESS = {
    EXIT_CANNOT_PROJECT: "an outcome cannot be written into the catalog (its log says which one)",
    EXIT_LINK_STOPPED: "a commit of another site cannot be brought here (its log says why)",
    EXIT_FENCED: "another one has taken over",
}
"""What does not pass by itself soon, by exit code."""


class Restarts:
    """When a process that has ended is started again: later each time, until it has run steadily."""

    def __init__(self) -> None:
        self._delay_s = RESTART_DELAY_S_MIN

    def delay_s(self, exit_code: int, ran_s: float) -> float:
        """How long to wait now."""
        if exit_code in _HOPELESS:
            return RESTART_DELAY_S_HOPELESS
        if ran_s > STEADY_AFTER_S:
            self._delay_s = RESTART_DELAY_S_MIN
        delay_s, self._delay_s = self._delay_s, min(self._delay_s * 2, RESTART_DELAY_S_MAX)
        return delay_s


def because(service: str, exit_code: int) -> str:
    """What an exit code says, for the line that tells of a service's end."""
    if exit_code in _HOPELESS:
        return f"{service} cannot go on: {_HOPELESS[exit_code]}"
    return f"{service} ended with exit code {exit_code}"


@dataclass(frozen=True, slots=True)
class Supervised:
    """A service as it is now.

    Attributes:
        name: the service's.
        pid: of its process; None between two runs.
        starts: how often it was started.
    """

    name: str
    pid: int | None
    starts: int


class Supervisor:
    """Starts services, starts them again when they end, and stops them.

    Args:
        services: what to run, in the order of starting.
        environment: of every one.
        logs_dir: where each has a log file; None: they write to where this process does.
        other_logs: log files of others, which are kept short beside those.
        say: is told of each ending, and when it is started again.
        on_change: is called after the set of processes has changed.
    """

    def __init__(
        self,
        services: Sequence[Service],
        environment: Mapping[str, str],
        *,
        logs_dir: Path | None = None,
        other_logs: Sequence[Path] = (),
        say: Say = print,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self._runs = [_Run(service, service.arguments) for service in services]
        self._environment = {**_MEMORY, **environment, SUPERVISED: "1"}
        self._lifeline: tuple[int, int] | None = None
        self._logs_dir = logs_dir
        self._other_logs = other_logs
        self._rotate_at = 0.0
        self._say = say
        self._on_change = on_change

    def check(self) -> None:
        """Starts each service that does not run and whose delay has passed; now and then keeps log files short."""
        now = time.monotonic()
        if now >= self._rotate_at:
            self._rotate_at = now + ROTATE_EVERY_S
            for log_file in (*self._other_logs, *(self._logs_dir.glob("*.log") if self._logs_dir else ())):
                rotate(log_file)
        for run in self._runs:
            if run.process is not None and run.process.poll() is not None:
                self._say(run.ended(run.process.returncode, now))
                run.process = None
                self._on_change()
            if run.process is None and now >= run.start_at:
                try:
                    self._start(run)
                except OSError as error:
                    # The machine may have no process left to give, or no memory, for a while.
                    self._say(run.not_started(error, now))
                else:
                    self._on_change()

    def stop(self) -> None:
        """Asks every service to end, and kills those that do not."""
        processes = [run.process for run in self._runs if run.process is not None]
        for process in processes:
            process.terminate()
        deadline = time.monotonic() + STOP_TIMEOUT_S
        for process in processes:
            try:
                process.wait(max(deadline - time.monotonic(), 0))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for run in self._runs:
            run.process = None
        for end in self._lifeline or ():
            os.close(end)
        self._lifeline = None

    def described(self) -> list[Supervised]:
        """Each service; any thread may ask."""
        processes = [(run, run.process) for run in self._runs]
        return [
            Supervised(run.service.name, process.pid if process else None, run.starts) for run, process in processes
        ]

    def _start(self, run: _Run) -> None:
        command = run.service.command(run.arguments)
        if self._lifeline is None:
            self._lifeline = os.pipe()
        with self._log_of(run.service.name) as output:
            run.process = _started(command, self._environment, self._lifeline[0], output)
        run.starts += 1
        run.started_at = time.monotonic()
        _logger.info("%s started (pid %d)", run.service.name, run.process.pid)

    @contextmanager
    def _log_of(self, name: str) -> Iterator[int | None]:
        """The file that a service writes to; None is where this process does, as where the file cannot be had."""
        if self._logs_dir is None:
            yield None
            return
        log_file = self._logs_dir / f"{name}.log"
        try:
            log_file.parent.mkdir(parents=True, exist_ok=True)
            opened = log_file.open("ab")
        except OSError as error:
            self._say(f"{name} has no log file: {error}")
            yield None
            return
        with opened as output:
            yield output.fileno()


def rotate(log_file: Path) -> None:
    """Copies a log file that has become long to the place of the one before, and empties it: whoever has it open appends."""
    try:
        if log_file.stat().st_size > LOG_BYTES_MAX:
            shutil.copyfile(log_file, log_file.with_suffix(".log.1"))
            os.truncate(log_file, 0)
    except FileNotFoundError:
        pass
    except OSError as error:
        _logger.warning("cannot rotate %s: %s", log_file, error)


def _started(
    command: Sequence[str], environment: Mapping[str, str], lifeline: int, output: int | None
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command,
        stdin=lifeline,
        stdout=output,
        stderr=None if output is None else subprocess.STDOUT,
        env=environment,
        # Ctrl-C is for the supervisor, which stops its services in an orderly way.
        start_new_session=True,
    )


@dataclass(slots=True)
class _Run:
    service: Service
    arguments: tuple[str, ...]
    process: subprocess.Popen[bytes] | None = None
    starts: int = 0
    started_at: float = 0.0
    start_at: float = 0.0
    restarts: Restarts = field(default_factory=Restarts)

    def ended(self, exit_code: int, now: float) -> str:
        """Plans the next start and says so."""
        name = self.service.name
        if exit_code in self.service.arguments_after:
            self.arguments = self.service.arguments_after[exit_code]
            self.start_at = now
            return f"{name} ended with exit code {exit_code} and is restarted as: {' '.join(self.arguments)}"
        delay_s = self.restarts.delay_s(exit_code, now - self.started_at)
        self.start_at = now + delay_s
        return f"{because(name, exit_code)}; restarting it in {delay_s:.1f} s"

    def not_started(self, error: OSError, now: float) -> str:
        """Plans the next attempt and says so."""
        delay_s = self.restarts.delay_s(0, 0.0)
        self.start_at = now + delay_s
        return f"{self.service.name} cannot be started ({error}); trying again in {delay_s:.1f} s"
