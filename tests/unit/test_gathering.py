"""How many proposals a batch waits for."""

from __future__ import annotations

import pytest

from commitlog.log.batches import Incoming
from commitlog.log.gathering import IN_VAIN_MAX, LATELY_S, SHORT_FOR_S_MAX, SHORT_S, WORTH_WAITING, Gathering

WAIT_S = 0.01


def after_a_span(*, writers: int, proposals: int, wait_s: float = WAIT_S) -> Gathering:
    gathering = Gathering(wait_s)
    gathering.came([], 0.0)
    for number in range(proposals):
        gathering.came([Incoming(0, number, b"w%d" % (number % writers), b"")], number * LATELY_S / proposals)
    return gathering


ENOUGH = round(WORTH_WAITING * LATELY_S / WAIT_S) + 1


@pytest.mark.parametrize(
    ("writers", "proposals", "wait_s", "expected"),
    [
        pytest.param(8, ENOUGH, WAIT_S, 8, id="many_at_once_then_one_of_each_writer"),
        pytest.param(1, 50 * ENOUGH, WAIT_S, 1, id="a_lone_writer_then_none_but_its_own"),
        pytest.param(8, ENOUGH - 2, WAIT_S, 1, id="few_in_the_time_then_nobody_waits"),
        pytest.param(8, 50 * ENOUGH, 0.0, 1, id="no_time_to_wait_then_nobody_waits"),
    ],
)
def test_expected_when(writers: int, proposals: int, wait_s: float, expected: int) -> None:
    gathering = after_a_span(writers=writers, proposals=proposals, wait_s=wait_s)
    assert gathering.expected(LATELY_S) == expected


def test_expected_before_a_span_is_over_then_what_the_last_one_said() -> None:
    gathering = after_a_span(writers=8, proposals=ENOUGH)
    assert gathering.expected(0.99 * LATELY_S) == 1
    gathering.expected(LATELY_S)
    assert gathering.expected(1.99 * LATELY_S) == 8


def test_expected_after_silence_then_nobody_waits() -> None:
    gathering = after_a_span(writers=8, proposals=ENOUGH)
    gathering.expected(LATELY_S)
    assert gathering.expected(100.0) == 1


def patience_s(gathering: Gathering, now_s: float) -> float:
    """How long all eight writers of a busy span that has just ended are waited for; 0 is not at all."""
    gathering.expected(now_s - 1.01 * LATELY_S)
    for number in range(2 * ENOUGH):
        gathering.came([Incoming(0, number, b"w%d" % (number % 8), b"")], now_s - LATELY_S / 2)
    return gathering.patience_s(now_s) if gathering.expected(now_s) == 8 else 0


def test_waited_when_in_vain_then_shorter_or_not_at_all_and_for_longer_each_time() -> None:
    gathering = after_a_span(writers=8, proposals=ENOUGH)
    now_s, short_for_s = 1.0, list[float]()
    for _ in range(IN_VAIN_MAX + 8):
        assert patience_s(gathering, now_s) == WAIT_S
        gathering.waited(missing=7, came=3, now_s=now_s)
        began_s = now_s
        while patience_s(gathering, now_s) < WAIT_S:
            now_s += 0.125 * LATELY_S
        short_for_s.append(round(now_s - began_s, 6))
    assert short_for_s[: IN_VAIN_MAX - 1] == [0] * (IN_VAIN_MAX - 1)
    lengthening = short_for_s[IN_VAIN_MAX - 1 :]
    assert lengthening == sorted(lengthening)
    assert lengthening[0] == pytest.approx(LATELY_S, rel=0.2)
    assert lengthening[-1] == pytest.approx(SHORT_FOR_S_MAX, rel=0.2)


@pytest.mark.parametrize(
    ("per_s", "short_s"),
    [
        pytest.param(2 / SHORT_S, SHORT_S, id="some_come_in_the_short_time_then_for_so_long"),
        pytest.param(2 * WORTH_WAITING / WAIT_S, 0, id="few_come_in_it_then_not_at_all"),
    ],
)
def test_waited_when_in_vain_then_the_short_wait_is_for_those_who_come_in_it(per_s: float, short_s: float) -> None:
    gathering = after_a_span(writers=8, proposals=round(per_s * LATELY_S))
    assert (gathering.expected(LATELY_S), gathering.patience_s(LATELY_S)) == (8, WAIT_S)
    for _ in range(IN_VAIN_MAX):
        gathering.waited(missing=7, came=0, now_s=LATELY_S)
    patient = gathering.expected(1.01 * LATELY_S) == 8
    assert (gathering.patience_s(1.01 * LATELY_S) if patient else 0) == short_s


def test_waited_when_short_then_it_says_nothing_of_what_a_longer_wait_brings() -> None:
    gathering = after_a_span(writers=8, proposals=ENOUGH)
    for _ in range(20):
        gathering.waited(missing=7, came=0, now_s=1.0)
    assert patience_s(gathering, 1.0 + 1.2 * LATELY_S) == WAIT_S


def test_waited_when_half_came_then_what_was_in_vain_before_is_forgotten() -> None:
    gathering = after_a_span(writers=8, proposals=ENOUGH)
    for _ in range(3):
        for _ in range(IN_VAIN_MAX - 1):
            gathering.waited(missing=7, came=0, now_s=1.0)
        gathering.waited(missing=7, came=4, now_s=1.0)
    assert patience_s(gathering, 1.0) == WAIT_S
