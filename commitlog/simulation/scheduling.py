"""Whose turn it is, and what time it is: the threads of all simulated machines take turns in one real one.

A task runs until it waits. Then one of those that could go on is chosen, and when nobody can, the time moves on to the first
who will. So time passes only in waiting, and the same choices give the same run.
"""

from __future__ import annotations

import errno
import heapq
import os
from collections.abc import Callable
from itertools import chain
from typing import Any

from greenlet import getcurrent, greenlet

from commitlog.machine import Lock, Machine, Thread
from commitlog.simulation.choices import Choices

BEGUN_MS = 1_780_000_000_000
BUSY_CALLS_MAX = 100
BUSY_S = 0.001
"""What so many calls without waiting take."""


class Crashed(BaseException):
    """The machine has stopped in the middle of what it did; no code of ours sees it pass."""


class Task:
    """A thread of a simulated machine."""

    def __init__(self, machine: SimulatedMachine, run: Callable[[], None], name: str) -> None:
        self.machine = machine
        self.name = name
        self.wakes_s = machine.scheduler.now_s
        self.is_ready: Callable[[], bool] | None = None
        self.is_done = False
        self.error: BaseException | None = None
        self._run = run
        self._greenlet = greenlet(self._work, parent=machine.scheduler.hub)

    def may_run(self, now_s: float) -> bool:
        """Whether it could go on now."""
        if self.machine.frozen_s > now_s:
            return False
        return self.wakes_s <= now_s or (self.is_ready is not None and self.is_ready())

    def go_on(self) -> None:
        """Runs until it waits, or ends."""
        self._greenlet.switch()

    def crash(self) -> None:
        """Ends where it waits."""
        if self._greenlet:
            self._greenlet.throw(Crashed)
        self.is_done = True

    def join(self) -> None:
        self.machine.wait(None, lambda: self.is_done)

    def _work(self) -> None:
        try:
            self._run()
        except BaseException as error:
            self.error = error
        self.is_done = True


class Scheduler:
    """Runs tasks and timers by one clock.

    Args:
        choices: say who goes on.
        on_end: told of a task that has ended.
    """

    def __init__(self, choices: Choices, on_end: Callable[[Task], None]) -> None:
        self.choices = choices
        self.now_s = 0.0
        self.steps = 0
        self.hub = getcurrent()
        self.current: Task | None = None
        self._on_end = on_end
        self._tasks: list[Task] = []
        self._timers: list[tuple[float, int, Callable[[], object]]] = []
        self._numbers = 0

    def add(self, task: Task) -> None:
        """Has a task take part."""
        self._tasks.append(task)

    def after(self, seconds: float, do: Callable[[], object]) -> None:
        """Has something happen later; of two at the same time the first that was asked for."""
        self._numbers += 1
        heapq.heappush(self._timers, (self.now_s + seconds, self._numbers, do))

    def unique(self) -> bytes:
        """16 bytes that nobody else has."""
        self._numbers += 1
        return self._numbers.to_bytes(16, "big")

    def run(self, until: Callable[[], bool]) -> None:
        """Runs until something holds, or nobody will ever go on."""
        while not until():
            if self._timers and self._timers[0][0] <= self.now_s:
                heapq.heappop(self._timers)[2]()
                continue
            task = self._next_task()
            if task is not None:
                self._step(task)
            elif not self._move_on():
                return

    def crash(self, machine: SimulatedMachine) -> None:
        """Ends all that runs on a machine."""
        machine.is_dead = True
        for task in [each for each in self._tasks if each.machine is machine]:
            self._tasks.remove(task)
            self._give_turn(task, task.crash)

    def end(self) -> None:
        """Ends everything."""
        for task in list(self._tasks):
            task.machine.is_dead = True
            self._give_turn(task, task.crash)
        self._tasks.clear()

    def _next_task(self) -> Task | None:
        """The first that may run, looked for from anywhere on."""
        tasks, now_s = self._tasks, self.now_s
        start = self.choices.below(len(tasks)) if tasks else 0
        return next((task for task in chain(tasks[start:], tasks[:start]) if task.may_run(now_s)), None)

    def _step(self, task: Task) -> None:
        self.steps += 1
        self._give_turn(task, task.go_on)
        if task.is_done and task in self._tasks:
            self._tasks.remove(task)
            self._on_end(task)

    def _give_turn(self, task: Task, do: Callable[[], None]) -> None:
        self.current = task
        try:
            do()
        finally:
            self.current = None

    def _move_on(self) -> bool:
        first = self._timers[0][0] if self._timers else float("inf")
        for task in self._tasks:
            frozen_s = task.machine.frozen_s
            # Whoever was frozen may find that it need not wait any longer.
            first = min(first, frozen_s if frozen_s > self.now_s else task.wakes_s)
        if first == float("inf"):
            return False
        self.now_s = max(self.now_s, first)
        return True


class SimulatedMachine(Machine):
    """A machine with one process.

    Args:
        scheduler: gives it its turns.
        name: of the process.
        on_fuse: called when as many calls were made as `fuse` says: the moment for something to go wrong, in the middle of all.

    Attributes:
        fuse: how many calls more it makes before something befalls it; never, if negative.
        is_dead: it has crashed.
        frozen_s: until then it does nothing.
        cut_s: until then it reaches neither Kafka nor the catalog.
        full_s: until then its disk is full.
        clock_off_ms: what its clock is wrong by.
        clients: what its process sends and reads by.
        library: its Kafka.
    """

    def __init__(self, scheduler: Scheduler, name: str, on_fuse: Callable[[SimulatedMachine], None]) -> None:
        self.scheduler = scheduler
        self.name = name
        self.fuse = -1
        self.is_dead = False
        self.frozen_s = self.cut_s = self.full_s = 0.0
        self.clock_off_ms = 0
        self.clients: list[Any] = []
        self.library: Any = None
        self._on_fuse = on_fuse
        self._calls = 0
        self._numbers = 0

    # --- what its process asks of it ----------------------------------------------------------------------------------

    @property
    def kafka(self) -> Any:
        return self.library

    def now_s(self) -> float:
        return self.scheduler.now_s

    def now_ms(self) -> int:
        return BEGUN_MS + int(self.scheduler.now_s * 1000) + self.clock_off_ms

    def unique(self) -> bytes:
        return self.scheduler.unique()

    def sleep(self, seconds: float) -> None:
        self.wait(seconds)

    def sync(self, descriptor: int) -> None:
        self.called()
        if self.full_s > self.scheduler.now_s:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def lock(self) -> Lock:
        return _Lock(self)

    def event(self) -> Any:
        return Event(self)

    def thread(self, run: Callable[[], None], name: str) -> Thread:
        task = Task(self, run, f"{self.name}, {name}")
        self.scheduler.add(task)
        return task

    # --- how it waits -------------------------------------------------------------------------------------------------

    def called(self) -> None:
        """Something outside the process is asked, or done: the moment for a crash, a pause, another's turn."""
        if self.is_dead:
            raise Crashed
        if self.fuse >= 0:
            self.fuse -= 1
            if self.fuse < 0:
                self._on_fuse(self)
                if self.is_dead:
                    raise Crashed
        self._calls += 1
        if self._calls > BUSY_CALLS_MAX or self.frozen_s > self.scheduler.now_s:
            self._pause(BUSY_S, None)

    def wait(self, seconds: float | None, is_ready: Callable[[], bool] | None = None) -> None:
        """Waits until it is ready, but not for longer than so many seconds."""
        self.called()
        self._pause(seconds, is_ready)

    def _pause(self, seconds: float | None, is_ready: Callable[[], bool] | None) -> None:
        task, self._calls = self.scheduler.current, 0
        assert task is not None
        assert task.machine is self
        task.wakes_s = float("inf") if seconds is None else self.scheduler.now_s + max(seconds, 0.0)
        task.is_ready = is_ready
        self.scheduler.hub.switch()
        task.is_ready = None
        if self.is_dead:
            raise Crashed


class Event:
    """As `threading.Event`."""

    def __init__(self, machine: SimulatedMachine) -> None:
        self._machine = machine
        self._is_set = False

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True

    def clear(self) -> None:
        self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        if not self._is_set:
            self._machine.wait(timeout, self.is_set)
        return self._is_set


class _Lock:
    """As `threading.Lock`: nobody's turn ends but where it waits, so taking it needs no more."""

    def __init__(self, machine: SimulatedMachine) -> None:
        self._machine = machine
        self._is_held = False

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        if self._is_held and blocking:
            self._machine.wait(None if timeout < 0 else timeout, lambda: not self._is_held)
        if self._is_held:
            return False
        self._is_held = True
        return True

    def release(self) -> None:
        self._is_held = False

    def locked(self) -> bool:
        return self._is_held
