"""Where a service listens, and how others on this machine find it: by a note in the home, as long as it runs.

Several may run, such as two gateways of one log: each has its own note.
"""

from __future__ import annotations

import ipaddress
import json
import os
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from commitlog.config import Settings
from commitlog.errors import ConfigurationError
from commitlog.ops.service.notes import folder_of, leave_word, take_back

ANSWER_TIMEOUT_S = 2.0


def is_local(host: str) -> bool:
    """Whether only this machine reaches an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def address_of(host: str, port: int) -> str:
    """The address to open."""
    return f"http://[{host.strip('[]')}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def listening(host: str, port: int, *, is_chosen: bool = True, last: int = 0) -> socket.socket:
    """A socket that listens; where nobody has chosen the port, at the last one before it, or else at a free one.

    last: the port that the service had before, which those who know it go on asking; 0 when it had none.

    Raises:
        ConfigurationError: the address is taken, or is none of this machine's.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    why: str | None = None
    for each in (port,) if is_chosen else (last or port, port, 0):
        try:
            return socket.create_server((host.strip("[]"), each), family=family)
        except OSError as error:
            why = error.strerror
    raise ConfigurationError(f"the service cannot listen on {host}, port {port}: {why}")


def last_port(settings: Settings, service: str) -> int:
    """The port that a service of this home had when it began last; 0 when none did."""
    with suppress(OSError, ValueError):
        return int(_last_of(settings, service).read_text(encoding="utf-8"))
    return 0


@contextmanager
def noted(settings: Settings, service: str, host: str, taken: socket.socket) -> Iterator[str]:
    """The address of a socket, which others on this machine are told as long as the block runs."""
    port = taken.getsockname()[1]
    path = folder_of(settings) / f"{service}.{port}.port"
    leave_word(path, {"host": host, "port": port, "pid": os.getpid()})
    leave_word(_last_of(settings, service), port)
    try:
        yield address_of(host, port)
    finally:
        take_back(path)


class Running(NamedTuple):
    """A service of this machine: where it listens, and which process it is."""

    address: str
    pid: int


def running_at(settings: Settings, service: str) -> str | None:
    """The address of a service that listens on this machine, the youngest of several; None when none does."""
    found = running(settings, service)
    return None if found is None else found.address


def running(settings: Settings, service: str) -> Running | None:
    """A service that listens on this machine, the youngest of several; None when none does.

    One that was killed leaves its note, and its port to others, such as the same service of another home.
    """
    from psutil import pid_exists

    from commitlog.local.processes import is_listening

    for path in sorted(folder_of(settings).glob(f"{service}.*.port"), key=_written_at, reverse=True):
        try:
            note = json.loads(path.read_text(encoding="utf-8"))
            host, port, pid = note["host"], note["port"], int(note["pid"])
        except (OSError, ValueError, TypeError, KeyError):
            continue
        if not (isinstance(host, str) and isinstance(port, int) and pid_exists(pid)):
            continue
        if is_listening(port, host := _from_here(host)):
            return Running(address_of(host, port), pid)
    return None


def unready(service: Running) -> str | None:
    """Why a service that tells its measures is not ready, by its own words where it has any; None when it is."""
    from commitlog.local.processes import is_stopped

    if is_stopped(service.pid):
        return f"a signal has stopped its process: `kill -CONT {service.pid}` lets it go on"
    where = urlsplit(service.address)
    with closing(HTTPConnection(str(where.hostname), where.port, timeout=ANSWER_TIMEOUT_S)) as asked:
        try:
            asked.request("GET", "/readyz")
            answer = asked.getresponse()
            said = answer.read().decode(errors="replace").strip()
        except (OSError, HTTPException):
            stuck = f"if it is stuck, end its process (`kill -9 {service.pid}`), which what runs it starts again"
            return f"no answer within {ANSWER_TIMEOUT_S:.0f} s; {stuck}"
    return None if answer.status == HTTPStatus.OK else said


def _from_here(host: str) -> str:
    """The address by which this machine reaches a service that listens at all of them, or at one."""
    bare = host.strip("[]")
    return {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(bare, bare)


def running_place(settings: Settings, service: str) -> str | None:
    """The same of a service that does not speak HTTP, as host:port."""
    address = running_at(settings, service)
    return None if address is None else urlsplit(address).netloc


def measures_note(service: str) -> str:
    """By which name a service notes where it tells its measures."""
    return f"{service}-measures"


def _last_of(settings: Settings, service: str) -> Path:
    return folder_of(settings) / f"{service}.last-port"


def _written_at(note: Path) -> float:
    try:
        return note.stat().st_mtime
    except FileNotFoundError:
        return 0  # Its service has just ended.
