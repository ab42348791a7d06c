"""How soon the projector writes again."""

from __future__ import annotations

import pytest

from commitlog.catalog.pacing import BUSY_PER_S, IN_VAIN_MAX, LATELY_S, REST_S, TOGETHER_S, Pace


def written(pace: Pace, *, each: int, every_s: float, from_s: float = 0.0, until_s: float) -> list[float]:
    """The pauses that were made while outcomes came so many at a time and so often, whatever is written."""
    now_s, pauses_s = from_s, list[float]()
    while now_s < until_s:
        pauses_s.append(pace.pause_s(now_s))
        now_s += pauses_s[-1]
        pace.took(each, now_s)
        now_s += every_s
    return pauses_s


def test_pause_when_few_come_then_none() -> None:
    assert not any(written(Pace(), each=2, every_s=2.1 / BUSY_PER_S, until_s=10 * LATELY_S))


def test_pause_when_many_come_then_until_some_milliseconds_after_what_was_written_last() -> None:
    pace = Pace()
    pauses_s = written(pace, each=5, every_s=TOGETHER_S / 4, until_s=5 * LATELY_S)
    assert 0 < max(pauses_s) <= TOGETHER_S
    assert pace.pause_s(5 * LATELY_S + 2 * TOGETHER_S) == 0


def test_pause_when_a_backlog_takes_longer_to_write_then_none() -> None:
    assert not any(written(Pace(), each=10_000, every_s=0.2, until_s=4.0))


def test_pause_when_no_more_come_then_none_again() -> None:
    pace = Pace()
    written(pace, each=5, every_s=TOGETHER_S / 4, until_s=5 * LATELY_S)
    pace.took(1, 60.0)
    assert pace.pause_s(60.0) == 0


def test_pause_when_it_brings_no_second_one_then_none_for_a_while() -> None:
    pace = Pace()
    written(pace, each=5, every_s=TOGETHER_S / 4, until_s=5 * LATELY_S)
    began_s = 5 * LATELY_S
    pauses_s = written(pace, each=1, every_s=TOGETHER_S / 8, from_s=began_s, until_s=began_s + REST_S)
    assert sum(pause_s > 0 for pause_s in pauses_s) == IN_VAIN_MAX
    assert any(written(pace, each=1, every_s=TOGETHER_S / 8, from_s=began_s + REST_S, until_s=began_s + 3 * REST_S))


@pytest.mark.parametrize("each", [2, 8])
def test_pause_when_each_brings_more_than_one_then_they_go_on(each: int) -> None:
    pace = Pace()
    written(pace, each=5, every_s=TOGETHER_S / 4, until_s=5 * LATELY_S)
    pauses_s = written(pace, each=each, every_s=TOGETHER_S / 4, from_s=5 * LATELY_S, until_s=5 * LATELY_S + REST_S)
    assert sum(pause_s > 0 for pause_s in pauses_s) > 5 * IN_VAIN_MAX
