"""What servers and services took while writers wrote: CPU by part, and the records that the broker was given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import psutil

from commitlog.config import Settings
from commitlog.log.connection import end_offsets
from commitlog.log.genesis import require_genesis
from commitlog.log.topics import topics_of
from commitlog.ops.bench.cpu import CpuTime, cpu_time


@dataclass(frozen=True, slots=True)
class Part:
    """A process and its children, and the names of its threads where the system does not know them."""

    process: psutil.Process
    thread_names: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Spent:
    """CPU by part of the system, and records in the log's topics."""

    cpu: Mapping[str, CpuTime]
    records: int = 0

    def since(self, before: Spent) -> Spent:
        """What was spent after an earlier reading."""
        cpu = {name: now.since(before.cpu[name]) for name, now in self.cpu.items()}
        return Spent(cpu, self.records - before.records)


class Meter:
    """Reads what has been spent so far.

    Args:
        parts: of the system.
        settings: of the log whose records are counted; None counts none.
    """

    def __init__(self, parts: Mapping[str, Part], settings: Settings | None = None) -> None:
        self._parts = parts
        self._settings = settings

    def read(self) -> Spent:
        """So far."""
        cpu = {name: cpu_time(part.process, part.thread_names) for name, part in self._parts.items()}
        return Spent(cpu, 0 if self._settings is None else _records(self._settings))


def _records(settings: Settings) -> int:
    """What the log's topics hold, as far as a commit makes it."""
    topics = topics_of(settings.log)
    every = range(require_genesis(settings).partitions)
    partitions = {topics.proposals: every, topics.results: range(1), topics.receipts: every, topics.control: range(1)}
    return sum(sum(end_offsets(settings, topic, each).values()) for topic, each in partitions.items())
