"""`commitlog up`, `down` and `status`: the embedded servers and the service on this machine, as one thing."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from commitlog.config import Settings, variable_of, without_password
from commitlog.domain.model.definitions import counted
from commitlog.domain.model.ids import format_id
from commitlog.errors import LocalRuntimeError
from commitlog.local.home import (
    EmbeddedHome,
    has_orphans,
    mark_of,
    read_run_file,
    runner_pid,
    stop_orphans,
    write_run_file,
)
from commitlog.local.processes import is_listening
from commitlog.log.genesis import find_genesis
from commitlog.ops.service.listening import running_at, running_place
from commitlog.ops.service.serve import prepare_machine, wanted_services
from commitlog.ops.service.supervisor import (
    COMMITLOG,
    GATEWAY,
    PAGE,
    POLL_S,
    Say,
    Service,
    Supervisor,
    rotate,
)

_UNTIL_KEY = "; press Ctrl-C to stop all"
"""Not said of what runs in the background."""
DETACHED_START_TIMEOUT_S = 600.0
LISTENING_TIMEOUT_S = 60.0
DOWN_TIMEOUT_S = 90.0
KILL_TIMEOUT_S = 10.0

# What `up` finds out by itself, by the environment variable that would say otherwise.
_NOT_USED = {"bootstrap_servers": "COMMITLOG_BOOTSTRAP_SERVERS", "database_url": "COMMITLOG_DATABASE_URL"}

ServiceFactory = Callable[[Settings], Sequence[Service]]


def prepared_services(settings: Settings) -> Sequence[Service]:
    """Those of `serve`, after the log, its catalog and the checkpoint of a trimmed one were made where they are missing.

    Raises:
        LocalRuntimeError: the lake is not where the log has it.
    """
    _check_not_moved(settings)
    prepare_machine(settings)
    return wanted_services(settings)


def no_services(_: Settings) -> Sequence[Service]:
    """None: a log is made or restored by somebody else."""
    return ()


@dataclass(frozen=True, slots=True)
class RuntimeStatus:
    """What is known of a home.

    Attributes:
        home: its directory.
        pid: the process that runs it; None when nobody does.
        log: the log that runs there, or ran before a crash.
        bootstrap_servers: where the broker is, or was before a crash; None when it was stopped in an orderly way.
        database_url: likewise PostgreSQL, with its password, which is shown nowhere.
        data_path: likewise the lake.
        kafka_answers: whether the broker listens at its address.
        postgres_answers: likewise at PostgreSQL's.
        page: where the web page is; None when it does not run.
        gateway: where DuckDB's clients that write connect; likewise.
        services: name, pid and number of starts of each service process; empty when nobody runs the home, or starts it.
    """

    home: Path
    pid: int | None
    log: str | None = None
    bootstrap_servers: str | None = None
    database_url: str | None = None
    data_path: str | None = None
    kafka_answers: bool = False
    postgres_answers: bool = False
    page: str | None = None
    gateway: str | None = None
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
        state = f"running (pid {self.pid})" if self.running else "`commitlog up` is not running here"
        yield f"home       {self.home}: {state}"
        if self.bootstrap_servers and self.database_url:
            yield f"Kafka      {self.bootstrap_servers}{'' if self.kafka_answers else ' (does not answer)'}"
            shown = without_password(self.database_url)
            yield f"PostgreSQL {shown}{'' if self.postgres_answers else ' (does not answer)'}"
            yield f"lake       {self.data_path}"
        yield from _places(self.page, self.gateway)
        for service in self.services:
            yield f"service    {service['name']}: pid {service['pid']}, started {counted(int(str(service['starts'])), 'time')}"
        if not self.running and (self.kafka_answers or self.postgres_answers):
            yield (
                "servers of a killed run are still running; `commitlog up` takes them over, `commitlog down` stops them"
            )


def up(
    settings: Settings,
    *,
    service_factory: ServiceFactory = prepared_services,
    detach: bool = False,
    detached_command: Sequence[str] = (),
    say: Say = print,
) -> RuntimeStatus:
    """Runs the embedded servers and the service until Ctrl-C or SIGTERM, and then stops them in an orderly way.

    A home that already runs this log is left as it is, which is said. In the main thread only (it handles signals).

    Args:
        settings: the home, the ports to prefer, and everything the services need.
        service_factory: makes the services, from the settings with the servers' addresses; by default those of `serve`.
        detach: return as soon as all is started, and leave it running.
        detached_command: what runs in the background; it must call `up` without `detach`.
        say: is told what is done, one line at a time.

    Raises:
        LocalRuntimeError: something could not be started, or the home runs another log; the message says what to do.
    """
    say = _heard_or_not(say)
    running = status(settings)
    if running.running and not _is_ready(settings.home, running.pid):
        say("another `up` or `down` is running here; waiting for it to finish")
        running = _settled(settings)
    if running.running:
        _check_log(settings, running)
        return _said(running, "already running; nothing was started", say)
    _say_what_is_not_used(settings, say)
    if detach:
        return _up_detached(settings, detached_command or (*COMMITLOG, "up"), say)
    home = EmbeddedHome(settings, progress=say)
    deadline = time.monotonic() + DETACHED_START_TIMEOUT_S
    while not home.acquire():
        # Nobody has it who only looks, or stops what was left.
        if runner_pid(settings.home) is not None:
            return _said(status(settings), "another `up` is running here; nothing was started", say)
        if time.monotonic() > deadline:
            raise LocalRuntimeError(
                f"another command holds the lock on {settings.home}: stop the `commitlog down` that hangs"
            )
        time.sleep(POLL_S)
    with _stopped_by_signal():
        try:
            _serve(home, settings, service_factory, say)
        except KeyboardInterrupt:
            say("stopping")
        finally:
            home.stop()
    say("stopped")
    return status(settings)


def _check_log(settings: Settings, running: RuntimeStatus) -> None:
    if running.log not in (None, settings.log):
        raise LocalRuntimeError(
            f"{settings.home} already runs the log {running.log}, and a home runs only one: give the log "
            f"{settings.log} a home of its own (--home)"
        )


def down(settings: Settings, *, say: Say = print) -> bool:
    """Stops what runs in the home, or what a killed run left there. True when there was something."""
    pid = runner_pid(settings.home)
    found = pid is not None
    if pid is not None:
        say(f"stopping (pid {pid})")
        _signal(pid, signal.SIGTERM)
        if not _has_ended(settings.home, pid, DOWN_TIMEOUT_S):
            say(f"it did not stop in {DOWN_TIMEOUT_S:.0f} s; killing it")
            _signal(pid, signal.SIGKILL)
            _has_ended(settings.home, pid, KILL_TIMEOUT_S)
    elif not settings.home.is_dir():
        say(f"nothing is running in {settings.home}: there is no such directory")
        return False
    found = stop_orphans(settings.home) or found
    say("stopped" if found else f"nothing is running in {settings.home}")
    return found


def _signal(pid: int, number: int) -> None:
    # It may have ended by itself.
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def _has_ended(home: Path, pid: int, timeout_s: float) -> bool:
    """Whether a process no longer runs the home, after so long at most."""
    deadline = time.monotonic() + timeout_s
    while runner_pid(home) == pid:
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_S)
    return True


def status(settings: Settings) -> RuntimeStatus:
    """What is known of the home, running or not."""
    told = read_run_file(settings.home)
    pid = runner_pid(settings.home)
    if not told:
        return RuntimeStatus(settings.home, pid)
    bootstrap_servers, database_url = str(told["bootstrap_servers"]), str(told["database_url"])
    services = told.get("services")
    are_there = pid is not None or has_orphans(settings.home)
    return RuntimeStatus(
        settings.home,
        pid,
        log=str(told["log"]),
        bootstrap_servers=bootstrap_servers,
        database_url=database_url,
        data_path=str(told["data_path"]),
        kafka_answers=are_there and is_listening(_port(bootstrap_servers)),
        postgres_answers=are_there and is_listening(_port(database_url.rpartition("/")[0])),
        page=running_at(settings, PAGE.name),
        gateway=running_place(settings, GATEWAY.name),
        # Those of a run that was killed are not of the one that is just starting.
        services=tuple(services) if pid is not None and pid == told.get("pid") and isinstance(services, list) else (),
    )


def _serve(home: EmbeddedHome, wanted: Settings, service_factory: ServiceFactory, say: Say) -> None:
    started_at = time.monotonic()
    say(f"starting Kafka and PostgreSQL in {wanted.home}")
    settings = home.start()
    services = service_factory(settings)
    genesis = find_genesis(settings)
    if genesis is not None:
        # Whatever is given here, the log's files are where they were when it was made.
        data_path = genesis.data_path or settings.data_path
        settings = dataclasses.replace(settings, log_id=format_id(genesis.log_id), data_path=data_path)
    changed = threading.Event()
    supervisor = Supervisor(
        services,
        {**settings.environment(), **mark_of(settings.home)},
        logs_dir=settings.home / "logs",
        other_logs=[home.postgres.log_file],
        say=say,
        on_change=changed.set,
    )

    def watch() -> None:
        time.sleep(POLL_S)
        home.check_kept()
        for line in home.revive():
            say(line)
        supervisor.check()

    try:
        supervisor.check()
        # Other programs may use the servers by now.
        write_run_file(settings, {})
        _await_listening(settings, supervisor, watch)
        _tell(settings, supervisor)
        running = status(settings)
        for line in running.lines():
            say(line)
        say(f"ready after {time.monotonic() - started_at:.1f} s{_UNTIL_KEY}")
        page, gateway = running.page, running.gateway
        while True:
            watch()
            if page is None:
                page = running_at(settings, PAGE.name)
                for line in _places(page, None):
                    say(line)
            if gateway is None:
                gateway = running_place(settings, GATEWAY.name)
                for line in _places(None, gateway):
                    say(line)
            # Its disk may be full, by which nobody is to end.
            with suppress(OSError):
                if changed.is_set():
                    _tell(settings, supervisor)
                    changed.clear()
    finally:
        home.leave()
        supervisor.stop()


def _places(page: str | None, gateway: str | None) -> Iterator[str]:
    """Where the page and DuckDB's gateway are, for people."""
    if page is not None:
        yield f"page       {page}"
    if gateway is not None:
        yield f"gateway    {gateway} (`commitlog duckdb`)"


def _await_listening(settings: Settings, supervisor: Supervisor, watch: Callable[[], None]) -> None:
    """Wait for the page and the gateway: whoever looked for one that only begins would be told that none runs. For a while at
    most, and not for one that has ended already."""
    deadline = time.monotonic() + LISTENING_TIMEOUT_S
    while time.monotonic() < deadline and any(
        each.name in (PAGE.name, GATEWAY.name)
        and each.pid is not None
        and each.starts == 1
        and running_at(settings, each.name) is None
        for each in supervisor.described()
    ):
        watch()


def _check_not_moved(settings: Settings) -> None:
    """See that the lake of a log that is there already was not left behind, as by a home that was moved: it would begin anew
    where it was, without its files."""
    genesis = find_genesis(settings)
    known = None if genesis is None else genesis.data_path
    if known is None or "://" in known or known == settings.data_path or Path(known).exists():
        return
    raise LocalRuntimeError(
        f"the files of log {settings.log} are below {known}, which does not exist, and the log names them by that "
        f"path: move the directory back, or make {known} a symbolic link to where it is now, such as "
        f"{settings.data_path}"
    )


def _tell(settings: Settings, supervisor: Supervisor) -> None:
    """Tell other programs what runs now."""
    services = [dataclasses.asdict(each) for each in supervisor.described()]
    write_run_file(settings, {"pid": os.getpid(), "services": services})


def _up_detached(settings: Settings, command: Sequence[str], say: Say) -> RuntimeStatus:
    log_file = settings.home / "logs" / "up.log"
    log_file.parent.mkdir(parents=True, exist_ok=True)
    rotate(log_file)
    environment = settings.environment()
    for left_out in _NOT_USED.values():
        environment.pop(left_out, None)
    if settings.config_file.is_file():
        # There are the profiles of the links that it runs.
        environment[variable_of("config")] = str(settings.config_file)
    with log_file.open("ab") as output, log_file.open("r", encoding="utf-8", errors="replace") as said:
        said.seek(0, os.SEEK_END)
        child = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )
        deadline = time.monotonic() + DETACHED_START_TIMEOUT_S
        try:
            while not _is_ready(settings.home, child.pid):
                has_ended = child.poll() is not None
                _relay(said.read(), say)
                if has_ended:
                    return _faster(settings, child, log_file)
                if time.monotonic() > deadline:
                    raise LocalRuntimeError(
                        "`commitlog up` is not ready yet; wait, or stop it with `commitlog down`", log_file=log_file
                    )
                time.sleep(POLL_S)
        except KeyboardInterrupt:
            if child.poll() is None:
                child.returncode = 0
                going_on = f"it continues to start in the background (pid {child.pid})"
                say(f"{going_on}; `commitlog down` stops it; its log is {log_file}")
            raise
        _relay(said.read(), say)
    # It is meant to outlive this process; without an exit code Popen would warn of that.
    child.returncode = 0
    running = status(settings)
    say(f"running in the background (pid {child.pid}); `commitlog down` stops it; its log is {log_file}")
    return running


def _faster(settings: Settings, ended: subprocess.Popen[bytes], log_file: Path) -> RuntimeStatus:
    """What runs when a process that was to run in the background has ended: another `up` was faster, which it has said.

    Raises:
        LocalRuntimeError: nothing runs, or another log does.
    """
    running = status(settings)
    if ended.returncode == 0 and running.running:
        running = _settled(settings)
        _check_log(settings, running)
        if running.running:
            return running
    raise LocalRuntimeError(f"could not start in the background; its output is in {log_file}")


def _is_ready(home: Path, pid: int | None) -> bool:
    """Whether the process that runs the home has started all, and does not stop it."""
    return read_run_file(home).get("pid") == pid


def _settled(settings: Settings) -> RuntimeStatus:
    """What runs, once the `up` or `down` that is at work in the home has started all, or ended.

    Raises:
        LocalRuntimeError: it takes too long.
    """
    deadline = time.monotonic() + DETACHED_START_TIMEOUT_S
    while (pid := runner_pid(settings.home)) is not None and not _is_ready(settings.home, pid):
        if time.monotonic() > deadline:
            raise LocalRuntimeError("another `up` is not ready yet; wait, or stop it with `commitlog down`")
        time.sleep(POLL_S)
    return status(settings)


def _relay(text: str, say: Say) -> None:
    for line in text.splitlines():
        say(line.removesuffix(_UNTIL_KEY))


def _heard_or_not(say: Say) -> Say:
    """The same, for one who goes on where nothing can be said: the disk may be full that takes it."""

    def said(line: str) -> None:
        with suppress(OSError):
            say(line)

    return said


def _said(running: RuntimeStatus, why: str, say: Say) -> RuntimeStatus:
    say(why)
    for line in running.lines():
        say(line)
    return running


def _say_what_is_not_used(settings: Settings, say: Say) -> None:
    for name in _NOT_USED:
        source = settings.sources[name]
        if source.startswith(("argument", "environment")):
            say(f"{name} ({source}) is ignored: `up` runs its own servers; use `commitlog serve` to run on yours")


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


def _port(address: str) -> int:
    return int(address.rpartition(":")[2])
