"""Runs seeds, finds those that break a promise, and makes them short."""

from __future__ import annotations

import gc
import logging
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from commitlog.config import Settings
from commitlog.simulation.choices import Choices
from commitlog.simulation.world import World

STEPS = 100
SHRINKS_MAX = 200


@dataclass(frozen=True, slots=True)
class Broken:
    """A run that breaks something: the choices that lead to it, what broke, and what happened on the way."""

    seed: int | None
    choices: Sequence[int]
    error: BaseException
    trace: Sequence[str] = field(default=())

    def __str__(self) -> str:
        story = "\n".join(self.trace)
        return f"seed {self.seed} breaks; shortened to {len(self.choices)} choices:\n{story}\n{self.error!r}"


@contextmanager
def _silence() -> Iterator[None]:
    """What processes warn of is what is done to them."""
    logger = logging.getLogger("commitlog")
    before, logger.disabled = logger.level, True
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.disabled = False
        logger.setLevel(before)


def run(source: int | Sequence[int], steps: int = STEPS, trace: list[str] | None = None) -> Broken | None:
    """Runs one schedule: of a seed, or of choices."""
    choices, thresholds = Choices(source), gc.get_threshold()
    directory = Path(tempfile.mkdtemp(prefix="commitlog-simulation-"))
    try:
        settings = Settings.load(
            environment={}, home=str(directory), receipts_timeout_ms=2_000, batch_records_max=3, log="main"
        )
        with _silence():
            World(choices, settings, (lambda line: None) if trace is None else trace.append).run(steps)
    except Exception as error:
        return Broken(source if isinstance(source, int) else None, tuple(choices.made), error, tuple(trace or ()))
    finally:
        gc.set_threshold(*thresholds)
        shutil.rmtree(directory, ignore_errors=True)
    return None


def shortened(broken: Broken, steps: int = STEPS) -> Broken:
    """The same kind of break by fewer choices, with the story of it."""
    best, tries, size = broken, 0, len(broken.choices) // 2
    while size and tries < SHRINKS_MAX:
        at = 0
        while at < len(best.choices) and tries < SHRINKS_MAX:
            tries += 1
            found = run([*best.choices[:at], *best.choices[at + size :]], steps)
            if found is not None and _is_alike(found, best) and len(found.choices) < len(best.choices):
                best = found
            else:
                at += size
        size //= 2
    trace: list[str] = []
    again = run(best.choices, steps, trace)
    assert again is not None
    return Broken(broken.seed, again.choices, again.error, again.trace)


def _is_alike(one: Broken, other: Broken) -> bool:
    return type(one.error) is type(other.error) and str(one.error).split(":")[0] == str(other.error).split(":")[0]


def first_broken(first: int, count: int, steps: int = STEPS) -> Broken | None:
    """The first of some seeds whose schedule breaks something."""
    return next(filter(None, (run(seed, steps) for seed in range(first, first + count))), None)
