"""How soon the projector writes again."""

from __future__ import annotations

import pytest

from commitlog.catalog.pacing import AWAITED_S, BUSY_PER_S, LATELY_S, TOGETHER_S, Pace


def written(
    pace: Pace, *, each: int, every_s: float, from_s: float = 0.0, until_s: float, is_awaited: bool = False
) -> list[float]:
    """The pauses that were made while so many were written and others came after so long."""
    now_s, pauses_s = from_s, list[float]()
    while now_s < until_s:
        pauses_s.append(pace.pause_s(now_s))
        now_s += pauses_s[-1]
        pace.wrote(each, now_s, is_awaited=is_awaited)
        now_s += every_s
    return pauses_s


def busy() -> Pace:
    """After half a second in which many came and nobody waited."""
    pace = Pace()
    written(pace, each=20, every_s=TOGETHER_S / 4, until_s=5 * LATELY_S)
    return pace


def test_pause_when_few_come_then_none() -> None:
    assert not any(written(Pace(), each=2, every_s=2.1 / BUSY_PER_S, until_s=10 * LATELY_S))


def test_pause_when_many_come_then_until_some_milliseconds_after_those_before_were_taken() -> None:
    pace = busy()
    pauses_s = written(pace, each=20, every_s=TOGETHER_S / 4, from_s=6 * LATELY_S, until_s=10 * LATELY_S)
    assert sum(pause_s > 0 for pause_s in pauses_s) > len(pauses_s) - 2
    assert max(pauses_s) <= TOGETHER_S


@pytest.mark.parametrize(("in_a_pause", "is_paused"), [(2.2, True), (1.8, False)])
def test_pause_when_two_would_come_in_it_then_there_is_one(in_a_pause: float, is_paused: bool) -> None:
    pace, took_s = Pace(), 0.0
    while took_s < 5 * LATELY_S:
        took_s += TOGETHER_S / in_a_pause
        pace.wrote(1, took_s, is_awaited=False)
    assert (pace.pause_s(took_s) > 0) is is_paused


def test_pause_when_a_backlog_takes_longer_to_write_then_none() -> None:
    assert not any(written(busy(), each=10_000, every_s=0.2, from_s=6 * LATELY_S, until_s=4.0))


def test_pause_when_no_more_come_then_none_again() -> None:
    pace = busy()
    pace.wrote(1, 60.0, is_awaited=False)
    assert pace.pause_s(60.0) == 0


def test_pause_when_somebody_waits_then_none_until_nobody_has_for_a_while() -> None:
    pace = busy()
    now_s = 5 * LATELY_S
    pace.wrote(20, now_s, is_awaited=True)
    assert not any(written(pace, each=20, every_s=TOGETHER_S / 4, from_s=now_s, until_s=now_s + 0.99 * AWAITED_S))
    assert any(written(pace, each=20, every_s=TOGETHER_S / 4, from_s=now_s + AWAITED_S, until_s=now_s + 2 * AWAITED_S))
