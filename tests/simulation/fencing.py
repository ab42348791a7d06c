"""Runs schedules of `fencing_world`, finds the ones that break an invariant, and makes them short.

python tests/simulation/fencing.py FIRST COUNT    runs so many seeds and says how many held
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from fencing_instance import Instance
from fencing_world import World

from commitlog.errors import CommitLogError
from commitlog.simulation.choices import Choices

STEPS_MIN, STEPS_MAX = 30, 230
SHRINKS_MAX = 400
SAID_EVERY = 10_000


@dataclass(frozen=True, slots=True)
class Broken:
    """A schedule that breaks something: the choices that lead to it, what broke, and what happened on the way."""

    choices: Sequence[int]
    error: str
    kind: type[BaseException]
    trace: Sequence[str] = field(default=())


def run(source: int | Sequence[int], trace: list[str] | None = None) -> Broken | None:
    """Run one schedule."""
    choices = Choices(source)
    try:
        world = World(choices)
        if trace is not None:
            world.trace = trace.append
        steps = STEPS_MIN + choices.below(STEPS_MAX - STEPS_MIN)
        names = "ABCD"[: 2 + choices.below(3)]
        instances = [Instance(world, name, standby=bool(choices.below(3))) for name in names]
        world.run(instances, steps)
    except (AssertionError, CommitLogError, KeyError, IndexError) as error:
        return Broken(tuple(choices.made), str(error), type(error), tuple(trace or ()))
    return None


def shrunk(broken: Broken) -> Broken:
    """The same kind of break by fewer and smaller choices, with its trace."""
    best, tries, size = broken, 0, len(broken.choices) // 2
    while size and tries < SHRINKS_MAX:
        at = 0
        while at < len(best.choices) and tries < SHRINKS_MAX:
            tries += 1
            cut = [*best.choices[:at], *best.choices[at + size :]]
            found = run(cut)
            if found is not None and found.kind is best.kind and len(found.choices) < len(best.choices):
                best = found
            else:
                at += size
        size //= 2
    trace: list[str] = []
    again = run(best.choices, trace)
    assert again is not None
    return again


def first_broken(first: int, count: int) -> tuple[int, Broken] | None:
    """The first seed whose schedule breaks something."""
    for seed in range(first, first + count):
        broken = run(seed)
        if broken is not None:
            return seed, broken
    return None


def main() -> None:
    """Run a range of seeds."""
    first, count = int(sys.argv[1]), int(sys.argv[2])
    began = time.process_time()
    for done in range(0, count, SAID_EVERY):
        found = first_broken(first + done, min(SAID_EVERY, count - done))
        if found is not None:
            seed, broken = found
            short = shrunk(broken)
            print(f"seed {seed}: {broken.error}", *short.trace, f"{short.kind.__name__}: {short.error}", sep="\n")
            sys.exit(1)
        held = min(done + SAID_EVERY, count)
        print(f"{held:,} schedules from seed {first} hold ({time.process_time() - began:.0f} s of CPU)", flush=True)


if __name__ == "__main__":
    main()
