"""Which producer a proposal goes by, and when what lingers is sent."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from commitlog.errors import LogUnavailableError
from commitlog.log.senders import AT_ONCE_MAX, CROWD_OF_THREADS, LATELY_S, TOGETHER_MS, Crowding, Senders
from commitlog.machine import Machine

CROWD_MIN, SHORT_S, CROWDED_MS = CROWD_OF_THREADS.size_min, CROWD_OF_THREADS.short_s, CROWD_OF_THREADS.linger_ms


class World:
    """A machine whose clock the test sets and whose threads run when it says so, and the senders made on it."""

    def __init__(self, *crowdings: Crowding) -> None:
        self.now_s = 100.0
        self.to_run: list[Callable[[], None]] = []
        self.hurried: list[int] = []
        self.timeouts: list[float] = []
        self.is_away = False
        machine = SimpleNamespace(now_s=lambda: self.now_s, thread=self.thread)
        self.senders = Senders(
            self.make,
            cast(Machine, machine),
            timeout_s=30,
            later_timeout_s=2,
            crowdings=crowdings or (CROWD_OF_THREADS,),
        )

    def thread(self, run: Callable[[], None], name: str) -> Any:
        self.to_run.append(run)
        return SimpleNamespace(join=self.run)

    def run(self) -> None:
        while self.to_run:
            self.to_run.pop()()

    def make(self, *, linger_ms: int, timeout_s: float) -> Any:
        if self.is_away:
            raise LogUnavailableError("k:1")
        self.timeouts.append(timeout_s)
        return SimpleNamespace(linger_ms=linger_ms, hurry=lambda: self.hurried.append(linger_ms))

    def lingers_ms(self, unanswered: int = 0, going_on_s: float = SHORT_S) -> int:
        """As the next proposal will, once who sends it is made."""
        self.senders.wanted(unanswered, going_on_s)
        self.run()
        return self.senders.wanted(unanswered, going_on_s).linger_ms

    def wait(self, threads: int) -> None:
        for waiting in range(1, threads + 1):
            self.senders.waits(waiting)


@pytest.fixture
def world() -> World:
    return World()


def test_proposal_when_few_are_unanswered_then_sent_at_once(world: World) -> None:
    assert world.lingers_ms(AT_ONCE_MAX) == 0
    assert world.timeouts == [30]


def test_proposal_when_many_are_unanswered_then_at_once_until_there_is_who_sends_them_together(world: World) -> None:
    assert world.senders.wanted(AT_ONCE_MAX + 1, 0).linger_ms == 0
    assert world.senders.wanted(AT_ONCE_MAX + 1, 0).linger_ms == 0
    assert len(world.to_run) == 1
    assert world.lingers_ms(AT_ONCE_MAX + 1) == TOGETHER_MS
    assert world.lingers_ms(10_000) == TOGETHER_MS
    assert world.timeouts == [30, 2]
    assert [each.linger_ms for each in world.senders.all] == [0, TOGETHER_MS]


@pytest.mark.parametrize(("threads", "lingers_ms"), [(1, 0), (CROWD_MIN - 1, 0), (CROWD_MIN, CROWDED_MS)])
def test_proposal_when_a_crowd_has_waited_lately_then_the_first_of_it_waits_for_the_rest(
    world: World, threads: int, lingers_ms: int
) -> None:
    world.wait(threads)
    assert world.lingers_ms() == lingers_ms
    world.now_s += 1.5 * LATELY_S
    assert world.lingers_ms() == lingers_ms
    world.now_s += 1.5 * LATELY_S
    assert world.lingers_ms() == 0


def test_proposal_when_there_is_time_then_no_crowd_makes_it_wait(world: World) -> None:
    world.wait(CROWD_MIN)
    assert world.lingers_ms(going_on_s=SHORT_S / 2) == 0
    assert world.lingers_ms(AT_ONCE_MAX + 1, SHORT_S / 2) == TOGETHER_MS


def test_proposal_when_the_crowd_was_long_ago_then_alone(world: World) -> None:
    world.wait(CROWD_MIN)
    world.now_s += 10
    assert world.lingers_ms() == 0


def test_crowd_when_all_of_it_wait_then_what_lingers_is_sent(world: World) -> None:
    world.wait(CROWD_MIN + 2)
    world.lingers_ms()
    world.hurried.clear()
    world.wait(CROWD_MIN + 1)
    assert world.hurried == []
    world.senders.waits(CROWD_MIN + 2)
    assert world.hurried == [CROWDED_MS]


def test_crowd_when_it_is_none_then_nobody_is_hurried(world: World) -> None:
    world.lingers_ms(AT_ONCE_MAX + 1)
    world.wait(CROWD_MIN - 1)
    assert world.hurried == []


def test_senders_when_no_broker_answers_then_at_once_and_tried_again(world: World) -> None:
    world.is_away = True
    assert world.lingers_ms(AT_ONCE_MAX + 1) == 0
    world.is_away = False
    world.run()
    assert world.lingers_ms(AT_ONCE_MAX + 1) == TOGETHER_MS


def test_senders_when_no_more_are_to_be_made_then_who_is_being_made_is_waited_for_and_no_other_is_made(
    world: World,
) -> None:
    world.senders.wanted(AT_ONCE_MAX + 1, 0)
    world.senders.stop_making()
    assert [each.linger_ms for each in world.senders.all] == [0, TOGETHER_MS]
    world.wait(CROWD_MIN)
    assert world.lingers_ms() == 0


def test_crowd_when_it_is_of_programs_then_as_large_as_they_say_and_whether_or_not_there_is_time() -> None:
    world = World(Crowding(size_min=2, short_s=0.0, linger_ms=7))
    world.wait(1)
    assert world.lingers_ms(going_on_s=0) == 0
    world.wait(2)
    assert world.lingers_ms(going_on_s=0) == 7
    assert world.hurried == []
    world.senders.waits(2)
    assert world.hurried == [7]


def test_crowds_when_there_are_several_kinds_then_what_is_proposed_waits_as_long_as_in_the_first_that_fits() -> None:
    world = World(Crowding(size_min=5, short_s=0.0, linger_ms=9), Crowding(size_min=2, short_s=0.0, linger_ms=7))
    for waiting, lingers_ms in ((1, 0), (2, 7), (4, 7), (5, 9), (6, 9)):
        world.wait(waiting)
        assert world.lingers_ms(going_on_s=0) == lingers_ms, waiting
    world.hurried.clear()
    world.senders.waits(6)
    assert sorted(world.hurried) == [7, 9]
    world.now_s += 2 * LATELY_S
    world.hurried.clear()
    world.wait(2)
    assert sorted(world.hurried) == [7, 9]
