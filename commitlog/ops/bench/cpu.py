"""CPU time of processes and of their threads: on one machine it is what all rates share.

A process's total holds what its ended threads and children took, the threads are those that are there; what is told of
threads may so be less than the total.
"""

from __future__ import annotations

import re
import signal
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import psutil

DUMP_TIMEOUT_S = 10.0
DUMP_POLL_S = 0.05
_JVM_THREAD = re.compile(r'^"(?P<name>[^"]+)" .*\bnid=(?P<thread_id>0x[0-9a-f]+|\d+)', re.MULTILINE)
_DUMP_ENDS = "JNI global refs"
_OF_MANY = re.compile(r"([-_#:]\d.*|\d+)$")


@dataclass(frozen=True, slots=True)
class CpuTime:
    """Seconds of CPU: in all, and by group of threads, such as all request handlers of a broker."""

    total_s: float
    threads_s: Mapping[str, float] = field(default_factory=dict)

    def since(self, before: CpuTime) -> CpuTime:
        """What was spent after an earlier reading."""
        spent = {name: seconds - before.threads_s.get(name, 0.0) for name, seconds in self.threads_s.items()}
        return CpuTime(self.total_s - before.total_s, {name: each for name, each in spent.items() if each > 0})


def cpu_time(process: psutil.Process, names: Mapping[int, str] | None = None) -> CpuTime:
    """Of a process and its children, ended ones too.

    Args:
        process: which.
        names: of its threads by their ids in the system; those that are not named go by what the system calls them.
    """
    total_s = 0.0
    threads_s: Counter[str] = Counter()
    for each in [process, *process.children(recursive=True)]:
        try:
            times = each.cpu_times()
            threads = each.threads()
        except psutil.Error:
            continue
        total_s += times.user + times.system + times.children_user + times.children_system
        for thread in threads:
            name = (names or {}).get(thread.id) or _system_name(process, each, thread.id)
            threads_s[thread_group(name)] += thread.user_time + thread.system_time
    return CpuTime(total_s, dict(threads_s))


def thread_group(name: str) -> str:
    """What threads of one kind have in common: their name up to the first number."""
    name = name.removeprefix("data-plane-kafka-")
    return _OF_MANY.sub("", name) or name


def _system_name(process: psutil.Process, each: psutil.Process, thread_id: int) -> str:
    """What the system calls a thread of a process or, of a child that says what it is for, its title."""
    try:
        if thread_id == process.pid:
            return "main"
        if each.pid != process.pid:
            return process_role(" ".join(each.cmdline()))
        return Path(f"/proc/{process.pid}/task/{thread_id}/comm").read_text(encoding="utf-8").strip()
    except (OSError, psutil.Error):
        return "unnamed"


def process_role(title: str) -> str:
    """What a process of PostgreSQL is for, by its title: those that serve connections are of one kind."""
    return "connections" if "(" in title else title.removeprefix("postgres: ").strip()


def jvm_thread_names(process: psutil.Process, output: Path) -> dict[int, str]:
    """The names of a JVM's threads, which it writes when it is asked to: the system keeps 15 characters of each only.

    Args:
        process: the JVM.
        output: the file that its standard output goes to.
    """
    known_bytes = output.stat().st_size
    process.send_signal(signal.SIGQUIT)
    deadline = time.monotonic() + DUMP_TIMEOUT_S
    while _DUMP_ENDS not in (dump := _read_from(output, known_bytes)) and time.monotonic() < deadline:
        time.sleep(DUMP_POLL_S)
    return threads_in_dump(dump)


def threads_in_dump(dump: str) -> dict[int, str]:
    """The threads that a JVM's dump names, by their ids in the system."""
    return {int(found["thread_id"], 0): found["name"] for found in _JVM_THREAD.finditer(dump)}


def _read_from(output: Path, offset: int) -> str:
    with output.open("rb") as file:
        file.seek(offset)
        return file.read().decode("utf-8", "replace")
