"""How far a service is behind, by looking from beside it."""

from __future__ import annotations

import pytest

from commitlog.errors import LogUnavailableError
from commitlog.observing.lag import LAG_S_MAX, Lag, Offsets


class World:
    """A topic that somebody reads, and a clock."""

    def __init__(self) -> None:
        self.done: Offsets = {0: 0, 1: 0}
        self.ends: Offsets = {0: 0, 1: 0}
        self.now_s = 100.0
        self.is_away = False
        self.only_marks = False
        self.lag = Lag(
            lambda: self.done, self._ends, has_any=lambda done, ends: not self.only_marks, clock_s=lambda: self.now_s
        )

    def _ends(self, done: Offsets) -> Offsets:
        if self.is_away:
            raise LogUnavailableError("broker:9092", waited_ms=5)
        return self.ends

    def look(self, after_s: float = 0) -> tuple[int | None, float | None]:
        self.now_s += after_s
        self.lag.look()
        return self.lag.records, self.lag.seconds


def test_lag_when_all_is_done_then_there_is_none() -> None:
    world = World()
    assert world.look() == (0, 0)
    world.done = world.ends = {0: 7, 1: 3}
    assert world.look(60) == (0, 0)
    assert world.lag.problem is None


def test_lag_when_the_reader_stands_still_then_grows_in_seconds() -> None:
    world = World()
    world.ends = {0: 2, 1: 1}
    assert world.look() == (3, 0)
    assert world.look(5) == (3, 5)
    world.done = {0: 2, 1: 0}
    assert world.look(5) == (1, 10)


def test_lag_when_the_reader_keeps_up_with_what_comes_then_is_short() -> None:
    world = World()
    for count in range(1, 30):
        world.ends = {0: count * 10, 1: 0}
        world.done = {0: count * 10 - 10, 1: 0}
        assert world.look(1) == (10, 0)


def test_lag_when_the_reader_has_done_what_was_seen_first_then_counts_from_what_came_later() -> None:
    world = World()
    world.ends = {0: 5, 1: 0}
    world.look()
    world.ends = {0: 9, 1: 0}
    world.look(4)
    world.done = {0: 5, 1: 0}
    assert world.look(2) == (4, 2)


def test_lag_when_only_marks_of_transactions_are_left_then_there_is_none() -> None:
    world = World()
    world.only_marks, world.ends = True, {0: 1, 1: 0}
    world.look()
    assert world.look(LAG_S_MAX + 1) == (0, 0)
    assert world.look(60) == (0, 0)
    world.ends = {0: 2, 1: 0}
    assert world.look() == (1, 0)


@pytest.mark.parametrize("what", ["away", "loading"])
def test_lag_when_it_cannot_be_told_then_says_why(what: str) -> None:
    world = World()
    world.look()
    if what == "away":
        world.is_away = True
    else:
        world.done = {}
    assert world.look() == (None, None)
    assert ("broker:9092" if what == "away" else "its starting position") in str(world.lag.problem)
