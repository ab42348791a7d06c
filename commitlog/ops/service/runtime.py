"""`commitlog up`, `down` and `status`, and the supervisor that keeps service processes running.

The supervisor is one loop without threads: it looks at every process a few times a second and starts again what has
ended. It knows nothing of what a service does, except that some exit codes ask for another command from then on (a
fenced sequencer comes back as a standby).
"""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from commitlog.config import Settings, without_password
from commitlog.domain.model.json_form import format_id
from commitlog.errors import LocalRuntimeError
from commitlog.local.home import (
    SERVICE_MARKER,
    SERVICE_STOP_TIMEOUT_S,
    EmbeddedHome,
    read_run_file,
    runner_pid,
    stop_orphans,
    write_run_file,
)
from commitlog.local.processes import is_listening, stop_processes
from commitlog.log.topics import find_genesis
from commitlog.ops.service.keeping import Restarts, because
from commitlog.ops.service.serve import SERVICES, prepare

POLL_INTERVAL_S = 0.1
DETACHED_START_TIMEOUT_S = 600.0
DOWN_TIMEOUT_S = 90.0
LOG_BYTES_MAX = 20 * 1024 * 1024

# What `up` finds out by itself, by the environment variable that would say otherwise.
_NOT_USED = {"bootstrap_servers": "COMMITLOG_BOOTSTRAP_SERVERS", "database_url": "COMMITLOG_DATABASE_URL"}

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Service:
    """A process that is kept running.

    Attributes:
        name: for people, and for its log file.
        command: program and arguments; it is given the settings by its environment.
        command_after: by exit code, the command that it goes on with.
    """

    name: str
    command: tuple[str, ...]
    command_after: Mapping[int, tuple[str, ...]] = field(default_factory=dict)


ServiceFactory = Callable[[Settings], Sequence[Service]]


class Supervisor:
    """Starts services, starts them again when they end, and stops them.

    Args:
        services: what to run, in the order of starting.
        settings: given to each service by its environment.
        say: is told about each ending and new start.
        on_change: is called after the set of processes has changed.
    """

    def __init__(
        self,
        services: Sequence[Service],
        settings: Settings,
        *,
        say: Say = print,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self._runs = [_Run(service, service.command) for service in services]
        self._environment = {**settings.environment(), SERVICE_MARKER: str(settings.home)}
        self._logs_dir = settings.home / "logs"
        self._say = say
        self._on_change = on_change

    def start(self) -> None:
        """Starts every service."""
        self._logs_dir.mkdir(parents=True, exist_ok=True)
        for run in self._runs:
            self._start(run)
        self._on_change()

    def check(self) -> None:
        """Starts again each service that has ended and whose delay has passed."""
        now = time.monotonic()
        for run in self._runs:
            if run.process is not None and run.process.poll() is not None:
                self._say(run.ended(run.process.returncode, now))
                run.process = None
                self._on_change()
            if run.process is None and now >= run.start_at:
                self._start(run)
                self._on_change()

    def stop(self) -> None:
        """Asks every service to end, and kills those that do not."""
        processes = [run.process for run in self._runs if run.process is not None and run.process.poll() is None]
        stop_processes(
            [psutil.Process(process.pid) for process in processes], signal.SIGTERM, timeout_s=SERVICE_STOP_TIMEOUT_S
        )
        for process in processes:
            process.wait()
        for run in self._runs:
            run.process = None

    def described(self) -> list[dict[str, object]]:
        """Name, pid (None between two runs), and number of starts of each service."""
        return [
            {"name": run.service.name, "pid": run.process.pid if run.process else None, "starts": run.starts}
            for run in self._runs
        ]

    def _start(self, run: _Run) -> None:
        log_file = self._logs_dir / f"{run.service.name}.log"
        _rotate(log_file)
        with log_file.open("ab") as output:
            run.process = subprocess.Popen(
                run.command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self._environment,
                # Ctrl-C is for the supervisor, which stops its services in an orderly way.
                start_new_session=True,
            )
        run.starts += 1
        run.started_at = time.monotonic()


@dataclass(slots=True)
class _Run:
    service: Service
    command: tuple[str, ...]
    process: subprocess.Popen[bytes] | None = None
    starts: int = 0
    started_at: float = 0.0
    start_at: float = 0.0
    restarts: Restarts = field(default_factory=Restarts)

    def ended(self, exit_code: int, now: float) -> str:
        """Plans the next start and says so."""
        name = self.service.name
        if exit_code in self.service.command_after:
            self.command = self.service.command_after[exit_code]
            self.start_at = now
            return f"{name} ended with exit code {exit_code}; going on as: {' '.join(self.command[1:])}"
        delay_s = self.restarts.delay_s(exit_code, now - self.started_at)
        self.start_at = now + delay_s
        return f"{because(name, exit_code)}; starting it again in {delay_s:.1f} s"


@dataclass(frozen=True, slots=True)
class RuntimeStatus:
    """What is known of a home.

    Attributes:
        home: its directory.
        pid: the process that runs it; None when nobody does.
        bootstrap_servers: where the broker is, or was before a crash; None when it was stopped in an orderly way.
        database_url: likewise PostgreSQL, with its password, which is shown nowhere.
        data_path: likewise the lake.
        kafka_answers: whether something listens at the broker's address.
        postgres_answers: likewise at PostgreSQL's.
        services: name, pid and number of starts of each service process; empty when nobody runs the home.
    """

    home: Path
    pid: int | None
    bootstrap_servers: str | None = None
    database_url: str | None = None
    data_path: str | None = None
    kafka_answers: bool = False
    postgres_answers: bool = False
    services: tuple[Mapping[str, object], ...] = ()

    @property
    def running(self) -> bool:
        """Whether a process runs the home; servers that outlived a killed one do not count."""
        return self.pid is not None

    def as_dict(self) -> dict[str, object]:
        """For `--json`; the password is masked (it is in `run.json`)."""
        shown = None if self.database_url is None else without_password(self.database_url)
        return {**dataclasses.asdict(self), "home": str(self.home), "database_url": shown, "running": self.running}

    def lines(self) -> Iterator[str]:
        """For people; the password is masked (it is in `run.json`)."""
        state = f"running (pid {self.pid})" if self.running else "not running"
        yield f"home       {self.home}: {state}"
        if self.bootstrap_servers and self.database_url:
            yield f"Kafka      {self.bootstrap_servers}{'' if self.kafka_answers else ' (no answer)'}"
            shown = without_password(self.database_url)
            yield f"PostgreSQL {shown}{'' if self.postgres_answers else ' (no answer)'}"
            yield f"lake       {self.data_path}"
        for service in self.services:
            yield f"service    {service['name']}: pid {service['pid']}, started {service['starts']} time(s)"
        if not self.running and (self.kafka_answers or self.postgres_answers):
            yield "servers of a killed run are left; `commitlog up` goes on from there, `commitlog down` stops them"


def up(
    settings: Settings,
    *,
    service_factory: ServiceFactory,
    detach: bool = False,
    detached_command: Sequence[str] = (),
    say: Say = print,
) -> RuntimeStatus:
    """Runs the embedded servers and the service until Ctrl-C or SIGTERM, and then stops them in an orderly way.

    A home that already runs is left as it is, which is said. In the main thread only (it handles signals).

    Args:
        settings: the home, the ports to prefer, and everything the services need.
        service_factory: makes the services, from the settings with the servers' addresses.
        detach: return as soon as all is started, and leave it running.
        detached_command: what runs in the background; it must call `up` without `detach`.
        say: is told what is done, one line at a time.

    Raises:
        LocalRuntimeError: something could not be started; the message says what to do.
    """
    running = status(settings)
    if running.running:
        return _said(running, "already running; nothing was started", say)
    _say_what_is_not_used(settings, say)
    if detach:
        return _up_detached(settings, detached_command or _command_line("up"), say)
    home = EmbeddedHome(settings, progress=say)
    if not home.acquire():
        return _said(status(settings), "another `up` is just starting here; nothing was started", say)
    with _stopped_by_signal():
        try:
            _serve(home, settings, service_factory, say)
        except KeyboardInterrupt:
            say("stopping")
        finally:
            home.stop()
    say("stopped")
    return status(settings)


def down(settings: Settings, *, say: Say = print) -> bool:
    """Stops what runs in the home, or what a killed run left there. True when there was something."""
    pid = runner_pid(settings.home)
    found = pid is not None
    if pid is not None:
        say(f"stopping (pid {pid})")
        os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + DOWN_TIMEOUT_S
        while runner_pid(settings.home) == pid:
            if time.monotonic() > deadline:
                say(f"it did not stop in {DOWN_TIMEOUT_S:.0f} s; killing it")
                os.kill(pid, signal.SIGKILL)
                break
            time.sleep(POLL_INTERVAL_S)
    elif not settings.home.is_dir():
        say(f"nothing runs in {settings.home}: there is no such directory")
        return False
    found = stop_orphans(settings.home) or found
    say("stopped" if found else f"nothing runs in {settings.home}")
    return found


def status(settings: Settings) -> RuntimeStatus:
    """What is known of the home, running or not."""
    told = read_run_file(settings.home)
    pid = runner_pid(settings.home)
    if not told:
        return RuntimeStatus(settings.home, pid)
    bootstrap_servers, database_url = str(told["bootstrap_servers"]), str(told["database_url"])
    services = told.get("services")
    return RuntimeStatus(
        settings.home,
        pid,
        bootstrap_servers=bootstrap_servers,
        database_url=database_url,
        data_path=str(told["data_path"]),
        kafka_answers=is_listening(_port(bootstrap_servers)),
        postgres_answers=is_listening(_port(database_url.rpartition("/")[0])),
        services=tuple(services) if pid is not None and isinstance(services, list) else (),
    )


def _serve(home: EmbeddedHome, wanted: Settings, service_factory: ServiceFactory, say: Say) -> None:
    started_at = time.monotonic()
    say(f"starting Kafka and PostgreSQL in {wanted.home}")
    settings = home.start()
    services = service_factory(settings)
    genesis = find_genesis(settings)
    if genesis is not None:
        settings = dataclasses.replace(settings, log_id=format_id(genesis.log_id))
    supervisor = Supervisor(
        services,
        settings,
        say=say,
        on_change=lambda: write_run_file(settings, {"pid": os.getpid(), "services": supervisor.described()}),
    )
    try:
        supervisor.start()
        for line in status(settings).lines():
            say(line)
        say(f"ready after {time.monotonic() - started_at:.1f} s; Ctrl-C stops it all")
        while True:
            time.sleep(POLL_INTERVAL_S)
            for line in home.revive():
                say(line)
            supervisor.check()
    finally:
        supervisor.stop()


def _up_detached(settings: Settings, command: Sequence[str], say: Say) -> RuntimeStatus:
    log_file = settings.home / "logs" / "up.log"
    log_file.parent.mkdir(parents=True, exist_ok=True)
    _rotate(log_file)
    # A port that nobody chose is not to look chosen to the child, which begins with those of the last `up`.
    ports = {f"COMMITLOG_{name.upper()}": name for name in ("kafka_port", "postgres_port")}
    left_out = {*_NOT_USED.values(), *(each for each in ports if settings.sources[ports[each]].startswith("default"))}
    with log_file.open("ab") as output, log_file.open("r", encoding="utf-8", errors="replace") as said:
        said.seek(0, os.SEEK_END)
        child = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={name: value for name, value in settings.environment().items() if name not in left_out},
            start_new_session=True,
        )
        deadline = time.monotonic() + DETACHED_START_TIMEOUT_S
        while read_run_file(settings.home).get("pid") != child.pid:
            _relay(said.read(), say)
            if child.poll() is not None:
                raise LocalRuntimeError("it could not be started in the background:", log_file=log_file)
            if time.monotonic() > deadline:
                raise LocalRuntimeError(
                    "it is not ready yet; wait, or stop it with `commitlog down`", log_file=log_file
                )
            time.sleep(POLL_INTERVAL_S)
        _relay(said.read(), say)
    # It is meant to outlive this process; without an exit code Popen would warn of that.
    child.returncode = 0
    running = status(settings)
    say(f"running in the background (pid {child.pid}); `commitlog down` stops it; its log is {log_file}")
    return running


def _relay(text: str, say: Say) -> None:
    for line in text.splitlines():
        say(line)


def _said(running: RuntimeStatus, why: str, say: Say) -> RuntimeStatus:
    say(why)
    for line in running.lines():
        say(line)
    return running


def _say_what_is_not_used(settings: Settings, say: Say) -> None:
    for name in _NOT_USED:
        source = settings.sources[name]
        if source.startswith(("argument", "environment")):
            say(f"{name} ({source}) is not used: `up` runs its own; `commitlog serve` uses yours")


@contextmanager
def _stopped_by_signal() -> Iterator[None]:
    """Turns the first signal that asks for an end into KeyboardInterrupt; the orderly stop is then left alone."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    # A signal that is ignored already (nohup) stays so.
    numbers = [number for number, handler in before.items() if handler is not signal.SIG_IGN]

    def interrupt(*_: object) -> None:
        for number in numbers:
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    for number in numbers:
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _rotate(log_file: Path) -> None:
    if log_file.exists() and log_file.stat().st_size > LOG_BYTES_MAX:
        log_file.replace(log_file.with_suffix(".log.1"))


def _command_line(*arguments: str) -> list[str]:
    return [sys.executable, "-c", "from commitlog.ops.cli import main; main()", *arguments]


def _port(address: str) -> int:
    return int(address.rpartition(":")[2])


def services(settings: Settings) -> Sequence[Service]:
    """The service's processes, after the log and its catalog were made where they are missing."""
    prepare(settings)
    return [
        Service(
            each.name,
            each.line(each.arguments),
            {code: each.line(arguments) for code, arguments in each.arguments_after.items()},
        )
        for each in SERVICES
    ]
