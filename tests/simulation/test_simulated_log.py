"""A whole log in memory: the real processes on simulated machines, whatever befalls them, keep every promise of the log.

A seed that fails prints a shortened story: `commitlog simulate --seed N` shows it again.
"""

from __future__ import annotations

import pytest

from commitlog import compiled
from commitlog.simulation import running

IS_COMPILED = compiled.described().startswith("compiled")
SEEDS = 2_000 if IS_COMPILED else 200
PARTS = 4
STEPS = 300
SEEDS_NIGHTLY, STEPS_NIGHTLY = 1_000, 1_000


def hold(first: int, count: int, steps: int) -> None:
    broken = running.first_broken(first, count, steps)
    if broken is not None:
        pytest.fail(str(running.shortened(broken, steps)))


@pytest.mark.parametrize("part", range(PARTS))
def test_simulation_whatever_happens_then_every_promise_is_kept(part: int) -> None:
    hold(part * SEEDS // PARTS, SEEDS // PARTS, STEPS)


@pytest.mark.nightly
def test_simulation_whatever_happens_then_every_promise_is_kept_for_long() -> None:
    hold(SEEDS, SEEDS_NIGHTLY, STEPS_NIGHTLY)


def test_simulation_when_a_seed_is_run_again_then_the_same_happens() -> None:
    stories: list[list[str]] = [[], []]
    for story in stories:
        assert running.run(7, 3 * STEPS, story) is None
    assert stories[0] == stories[1]
    assert len(stories[0]) > 50
