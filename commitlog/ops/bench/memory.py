"""`commitlog bench memory`: what a sequencer's state weighs, by how many proposals a second it has to remember for a minute.

Each state is made in a process of its own, as in `restart`: files of long ago are put into it. What window and duplicate window
hold is decided, as in a real log.
"""

from __future__ import annotations

import dataclasses
import multiprocessing
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import psutil

from commitlog import compiled
from commitlog.domain import model as m
from commitlog.ops.bench.decide import TABLES, History
from commitlog.ops.bench.goals import Goal
from commitlog.ops.bench.restart import put_old_files
from commitlog.ops.bench.servers import Say

REMEMBERED_MS = 60_000
MEMORY_MIB_MAX: Mapping[int, float] = {10_000: 551.0, 40_000: 700.0}
"""By proposals a second, at ten million files."""
FILES_WEIGHED = 10_000_000


@dataclass(frozen=True, slots=True)
class Weight:
    """What a process grew by, MiB, with a state of so many files, window and duplicate window full at a rate."""

    per_second: int
    files: int
    memory_mib: float
    core: str = compiled.form

    def goals(self) -> list[Goal]:
        """The figures of it that have bounds to meet."""
        if self.per_second not in MEMORY_MIB_MAX or self.files < FILES_WEIGHED:
            return []
        what = f"state of {self.files:,} files, {self.per_second:,} proposals/s remembered for a minute: MiB"
        return [Goal.at_most(what, self.memory_mib, MEMORY_MIB_MAX[self.per_second])]

    def as_dict(self) -> dict[str, object]:
        """For `--json`."""
        return {**dataclasses.asdict(self), "goals": [goal.as_dict() for goal in self.goals()]}


def run_memory_bench(files: int, rates: Sequence[int], *, say: Say) -> list[Weight]:
    """Weigh a state of so many files at each rate, in proposals a second."""
    weights = []
    for rate in rates:
        say(f"a state of {files:,} files at {rate:,} proposals/s")
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
            weights.append(process.submit(weigh, files, rate).result())
    return weights


def weigh(files: int, per_second: int) -> Weight:
    """Make such a state in this process, and tell what it grew by."""
    process = psutil.Process()
    before = process.memory_info().rss
    history = History(m.Genesis(bytes(16)), per_ms=per_second // 1000)
    recent = history.per_ms * REMEMBERED_MS
    put_old_files(history, max(0, files - recent))
    history.grow(files + TABLES, lambda line: None)
    grown = process.memory_info().rss - before
    return Weight(per_second, history.state.next_file_id, grown / 2**20)
