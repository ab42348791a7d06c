"""Locks and ports: what tells a home that runs from one whose process was killed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from commitlog.errors import LocalRuntimeError
from commitlog.local.postgres import stop_orphaned_postgres
from commitlog.local.processes import HOST, DirectoryLock, find_processes, free_port, is_listening, stop_processes

HOLD = """\
import sys, time, pathlib
from commitlog.local.processes import DirectoryLock
lock = DirectoryLock(pathlib.Path(sys.argv[1]))
print(lock.acquire(), flush=True)
time.sleep(60)
"""


def test_lock_when_another_object_holds_it_then_is_refused_until_released(tmp_path: Path) -> None:
    first, second = DirectoryLock(tmp_path), DirectoryLock(tmp_path)
    assert first.acquire()
    assert not second.acquire()
    assert second.holder_pid() == os.getpid()
    first.release()
    first.release()
    assert second.holder_pid() is None
    assert second.acquire()
    second.release()


def test_lock_when_its_holder_is_killed_then_is_free(tmp_path: Path) -> None:
    lock = DirectoryLock(tmp_path)
    with subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "True\n"
        assert lock.holder_pid() == holder.pid
        assert not lock.acquire()
        holder.kill()
    assert lock.holder_pid() is None
    assert lock.acquire()
    lock.release()


def test_lock_when_its_disk_takes_nothing_then_names_the_file(tmp_path: Path) -> None:
    (tmp_path / ".lock").symlink_to("/dev/full")
    with pytest.raises(OSError, match=r".") as caught:
        DirectoryLock(tmp_path).acquire()
    assert caught.value.filename == str(tmp_path / ".lock")


def test_lock_when_nobody_ever_held_it_then_has_no_holder(tmp_path: Path) -> None:
    assert DirectoryLock(tmp_path / "never").holder_pid() is None


def test_free_port_when_the_preferred_one_is_taken_then_gives_another() -> None:
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen(1)
        port = taken.getsockname()[1]
        assert is_listening(port)
        assert free_port(port) != port
    assert free_port(0, port) == port
    assert not is_listening(port)


def test_free_port_when_any_will_do_then_none_that_an_outgoing_connection_could_take() -> None:
    assert all(1_024 < free_port() < 32_768 for _ in range(100)), "Linux gives those from 32,768 on, others higher ones"


def test_stop_processes_when_one_ignores_the_signal_then_kills_it() -> None:
    stubborn = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", stubborn], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        found = find_processes(lambda each: each.pid == process.pid)
        stop_processes(found, 15, timeout_s=0.3)
        assert not found[0].is_running()


class Ending(psutil.Process):
    """A session of a killed server, which ends while it is looked at."""

    def __init__(self, directory: Path) -> None:
        super().__init__(1)
        self.asked: list[int] = []
        self._directory = directory

    def status(self) -> psutil.ProcessStatus:
        return psutil.STATUS_SLEEPING

    def name(self) -> str:
        return "postgres"

    def cwd(self) -> str:
        return str(self._directory)

    def cmdline(self) -> list[str]:
        raise psutil.ZombieProcess(self.pid)

    def send_signal(self, sig: int) -> None:
        self.asked.append(sig)
        raise psutil.NoSuchProcess(self.pid)


@pytest.mark.parametrize("links", [{}, {"link": "home"}, {"link": "home", "home/data": "big"}], ids=len)
def test_stop_orphaned_postgres_when_a_session_ends_meanwhile_then_it_is_none_that_is_left_by_whatever_links(
    links: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "home").mkdir()
    for link, target in links.items():
        (tmp_path / link).symlink_to(tmp_path / target)
    session = Ending(tmp_path / links.get("home/data", "home/data"))

    def all_processes() -> Iterator[psutil.Process]:
        yield session

    monkeypatch.setattr(psutil, "process_iter", all_processes)
    assert stop_orphaned_postgres(tmp_path / ("link" if links else "home"))
    assert session.asked == [signal.SIGQUIT]


def test_runtime_error_when_java_has_written_where_it_raised_then_tells_what_it_said(tmp_path: Path) -> None:
    log_file = tmp_path / "broker.log"
    frames = "".join(f"\tat java.nio.channels.SocketChannel.open(SocketChannel.java:{line})\n" for line in range(9))
    log_file.write_text(f"ERROR Exiting\njava.net.SocketException: Too many open files\n{frames}\t... 3 more\n")
    assert str(LocalRuntimeError("Kafka ended:", log_file=log_file)) == (
        f"Kafka ended:\n  ERROR Exiting\n  java.net.SocketException: Too many open files\n(all of it: {log_file})"
    )
