"""Servers of a bench's own: a broker and a PostgreSQL in a home that is removed afterwards, and the processes of a log."""

from __future__ import annotations

import dataclasses
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from commitlog.config import Settings
from commitlog.errors import LocalRuntimeError
from commitlog.local.home import EmbeddedHome, mark_of
from commitlog.local.processes import find_processes
from commitlog.ops.service.ending import ended_with_us
from commitlog.ops.service.serve import prepare
from commitlog.ops.service.supervisor import CARRIER, GATEWAY, SERVICES

STOP_TIMEOUT_S = 20.0
POLL_S = 0.02

Say = Callable[[str], None]


@contextmanager
def own_servers(settings: Settings, say: Say) -> Iterator[Settings]:
    """A broker, a PostgreSQL and an empty log in a home of their own, which is removed afterwards.

    Args:
        settings: Java and the jar cache are taken from it.
        say: is told what is being done.
    """
    directory = Path(tempfile.mkdtemp(prefix="commitlog-bench-"))
    try:
        wanted = dataclasses.replace(settings.at_home(directory), log="bench", kafka_port=0, postgres_port=0)
        with ended_with_us(directory, is_removed=True), _servers(wanted, say) as own:
            yield own
    finally:
        shutil.rmtree(directory)


@contextmanager
def _servers(wanted: Settings, say: Say) -> Iterator[Settings]:
    home = EmbeddedHome(wanted, progress=say)
    say("starting Kafka and PostgreSQL")
    assert home.acquire()
    settings = home.start()
    try:
        prepare(settings)
        yield settings
    finally:
        home.stop()


def server_process(settings: Settings, program: str) -> psutil.Process:
    """One of the servers of the bench's own home, by the name of its program."""
    home = str(settings.home)
    found = find_processes(lambda process: program in process.name() and home in " ".join(process.cmdline()))
    return min(found, key=lambda process: float(process.create_time()))


@contextmanager
def service_process(settings: Settings, name: str) -> Iterator[psutil.Process]:
    """One of the processes that `serve` runs; a carrier is there for all who begin from now on."""
    service = next(each for each in (*SERVICES, GATEWAY, CARRIER) if each.name == name)
    log_file = settings.home / f"{name}.log"
    with log_file.open("ab") as output:
        environment = {**settings.environment(), **mark_of(settings.home)}
        process = subprocess.Popen(service.command(), env=environment, stdout=output, stderr=output)
    try:
        if service is CARRIER:
            _wait_for_carrier(settings, process, log_file)
        yield psutil.Process(process.pid)
    finally:
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_for_carrier(settings: Settings, process: subprocess.Popen[bytes], log_file: Path) -> None:
    """Whoever looks for it before it is there looks again seconds later."""
    assert settings.carrier_socket is not None
    while not settings.carrier_socket.exists():
        if process.poll() is not None:
            raise LocalRuntimeError("the carrier has ended:", log_file=log_file)
        time.sleep(POLL_S)
