"""The thread that calls back."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from commitlog.log.calling_back import CallingBack
from commitlog.machine import THIS_MACHINE

DEADLINE_S = 60.0


class Called:
    """Counts the calls; each waits until the test lets it go on."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.may_go_on = threading.Semaphore(0)

    def __call__(self) -> None:
        self.begun.release()
        assert self.may_go_on.acquire(timeout=DEADLINE_S)

    def wait(self) -> None:
        assert self.begun.acquire(timeout=DEADLINE_S)


@pytest.fixture
def calling_back() -> CallingBack:
    return CallingBack(THIS_MACHINE)


@pytest.fixture
def called() -> Iterator[Called]:
    called = Called()
    yield called
    called.may_go_on.release(1_000)


def ended(calling_back: CallingBack) -> threading.Thread:
    ending = threading.Thread(target=calling_back.end, daemon=True)
    ending.start()
    return ending


def test_thread_when_nobody_wakes_it_then_looks_all_the_same(calling_back: CallingBack, called: Called) -> None:
    calling_back.begin(called, "t")
    for _ in range(2):
        called.wait()
        called.may_go_on.release()
    called.may_go_on.release(1_000)
    calling_back.end()


def test_thread_when_it_ends_during_a_call_then_called_once_more(calling_back: CallingBack, called: Called) -> None:
    calling_back.begin(called, "t")
    calling_back.wake()
    called.wait()
    ending = ended(calling_back)
    while not calling_back._is_ending:
        pass
    called.may_go_on.release()
    called.wait()
    called.may_go_on.release()
    ending.join(DEADLINE_S)
    assert not ending.is_alive()


def test_thread_when_a_signal_has_left_one_too_many_then_both_end(calling_back: CallingBack) -> None:
    done = [threading.Event(), threading.Event()]
    for each in done:
        calling_back.begin(each.set, "t")
    for each in done:
        assert each.wait(DEADLINE_S)
    ending = ended(calling_back)
    ending.join(DEADLINE_S)
    assert not ending.is_alive()


def test_thread_when_what_it_calls_fails_then_it_goes_on(calling_back: CallingBack) -> None:
    calls = threading.Semaphore(0)

    def fail() -> None:
        calls.release()
        raise RuntimeError("planted")

    calling_back.begin(fail, "t")
    for _ in range(3):
        assert calls.acquire(timeout=DEADLINE_S)
    calling_back.end()


def test_end_when_it_never_began_then_nothing(calling_back: CallingBack) -> None:
    calling_back.end()
