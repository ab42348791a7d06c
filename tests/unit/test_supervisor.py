"""The supervisor, on processes that end, stay and do not want to end."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from commitlog.ops.service import supervisor as supervisor_module
from commitlog.ops.service.supervisor import Service, Supervisor

PYTHON = (sys.executable, "-S", "-c")
STAYS = ("import time; print('stays', flush=True); time.sleep(3600)",)
STUBBORN = ("import signal, time; signal.signal(15, signal.SIG_IGN); print('stays', flush=True); time.sleep(3600)",)

SUPERVISOR = """
import os, sys, time
from commitlog.ops.service.supervisor import Service, Supervisor

supervisor = Supervisor([Service("service", (sys.argv[1],), program=(sys.executable, "-c"))], os.environ)
while True:
    supervisor.check()
    time.sleep(0.01)
"""
ENDS = """
import os
from commitlog.ops.service.keep_trying import stopped_by_signal

with stopped_by_signal() as stop:
    print(os.getpid(), flush=True)
    stop.wait()
"""
HEARS_NOTHING = """
import os, signal, time
from commitlog.ops.service.keep_trying import stopped_by_signal

with stopped_by_signal():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    print(os.getpid(), flush=True)
    time.sleep(3600)
"""


@contextmanager
def supervised(services: list[Service], logs_dir: Path | None, said: list[str]) -> Iterator[Supervisor]:
    supervisor = Supervisor(services, os.environ, logs_dir=logs_dir, say=said.append)
    try:
        yield supervisor
    finally:
        supervisor.stop()


def turn(supervisor: Supervisor, until: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    supervisor.check()
    while not until():
        assert time.monotonic() < deadline, "timed out"
        time.sleep(0.01)
        supervisor.check()


def test_supervisor_when_a_service_ends_with_a_code_of_its_own_then_goes_on_with_other_arguments(
    tmp_path: Path,
) -> None:
    said: list[str] = []
    log_file = tmp_path / "logs" / "fenced.log"
    fenced = Service("fenced", ("raise SystemExit(75)",), {75: STAYS}, program=PYTHON)
    with supervised([fenced], log_file.parent, said) as supervisor:
        turn(supervisor, lambda: "stays" in log_file.read_text())
        [described] = supervisor.described()
    assert said == [f"fenced ended with exit code 75 and is restarted as: {STAYS[0]}"]
    assert (described.name, described.starts) == ("fenced", 2)


def test_supervisor_when_a_service_ends_again_and_again_then_starts_it_later_each_time(
    capfd: pytest.CaptureFixture[str],
) -> None:
    said: list[str] = []
    with supervised([Service("broken", ("print('begins')",), program=PYTHON)], None, said) as supervisor:
        turn(supervisor, lambda: len(said) == 2)
    assert said == [f"broken ended with exit code 0; restarting it in {delay} s" for delay in ("0.2", "0.4")]
    assert capfd.readouterr().out == "begins\n" * 2


def test_supervisor_when_the_machine_has_no_process_left_then_tries_again_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To end would end the servers, too, and all that is well."""

    def none_left(*_: object, **__: object) -> None:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    said: list[str] = []
    with supervised([Service("steady", STAYS, program=PYTHON)], tmp_path, said) as supervisor:
        with monkeypatch.context() as patched:
            patched.setattr(subprocess, "Popen", none_left)
            turn(supervisor, lambda: len(said) == 2)
        turn(supervisor, lambda: "stays" in (tmp_path / "steady.log").read_text())
        [described] = supervisor.described()
    assert described.starts == 1
    assert said == [
        f"steady cannot be started ([Errno 11] Resource temporarily unavailable); trying again in {delay} s"
        for delay in ("0.2", "0.4")
    ]


def test_supervisor_when_no_log_file_can_be_had_then_the_service_writes_to_where_it_does(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    said: list[str] = []
    no_folder = tmp_path / "logs"
    no_folder.touch()
    with supervised([Service("service", ("print('begins')",), program=PYTHON)], no_folder, said) as supervisor:
        turn(supervisor, lambda: len(said) == 2)
    assert said[0].startswith("service has no log file: ")
    assert said[1].startswith("service ended with exit code 0")
    assert capfd.readouterr().out == "begins\n"


def test_supervisor_when_a_service_does_not_end_then_kills_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor_module, "STOP_TIMEOUT_S", 0.2)
    with supervised([Service("stubborn", STUBBORN, program=PYTHON)], tmp_path, []) as supervisor:
        turn(supervisor, lambda: "stays" in (tmp_path / "stubborn.log").read_text())
        [described] = supervisor.described()
        assert described.pid is not None
    with pytest.raises(ProcessLookupError):
        os.kill(described.pid, 0)


def test_supervisor_when_a_log_becomes_long_while_its_service_runs_then_it_is_put_aside_and_begins_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor_module, "LOG_BYTES_MAX", 10_000)
    monkeypatch.setattr(supervisor_module, "ROTATE_EVERY_S", 0.0)
    talks = "import time\nfor n in range(1, 10**9): print(n, 'x' * 100, flush=True); time.sleep(0.0005)"
    log_file, others = tmp_path / "logs" / "talker.log", tmp_path / "server.log"
    others.write_text("y" * 10_001)
    supervisor = Supervisor(
        [Service("talker", (talks,), program=PYTHON)],
        os.environ,
        logs_dir=log_file.parent,
        other_logs=[others],
        say=lambda line: None,
    )
    try:
        turn(supervisor, lambda: log_file.with_suffix(".log.1").exists())
        turn(supervisor, lambda: log_file.stat().st_size > 0)
        assert not log_file.read_text().startswith(("1 ", "\0"))
        [described] = supervisor.described()
    finally:
        supervisor.stop()
    assert described.starts == 1
    assert (others.stat().st_size, others.with_suffix(".log.1").stat().st_size) == (0, 10_001)


@pytest.mark.parametrize(("own", "told"), [({}, "1"), ({"MALLOC_ARENA_MAX": "7"}, "7")])
def test_supervisor_when_it_starts_a_service_then_its_threads_share_memory_unless_somebody_says_otherwise(
    tmp_path: Path, own: dict[str, str], told: str
) -> None:
    program = ("import os, time; print(os.environ['MALLOC_ARENA_MAX'], flush=True); time.sleep(3600)",)
    log_file = tmp_path / "logs" / "says.log"
    supervisor = Supervisor(
        [Service("says", program, program=PYTHON)],
        {key: value for key, value in os.environ.items() if key != "MALLOC_ARENA_MAX"} | own,
        logs_dir=log_file.parent,
        say=lambda line: None,
    )
    try:
        turn(supervisor, lambda: log_file.exists() and log_file.read_text().endswith("\n"))
    finally:
        supervisor.stop()
    assert log_file.read_text() == f"{told}\n"


@pytest.mark.parametrize("service", [ENDS, HEARS_NOTHING], ids=["that-hears", "that-hears-nothing"])
def test_supervisor_when_it_is_killed_then_its_services_end_too(service: str) -> None:
    command = [sys.executable, "-c", SUPERVISOR, service]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as supervisor:
        assert supervisor.stdout is not None
        left = psutil.Process(int(supervisor.stdout.readline()))
        supervisor.kill()
    left.wait(60)
