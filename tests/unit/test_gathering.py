"""How many proposals a batch waits for."""

from __future__ import annotations

import pytest

from commitlog.log.batches import Incoming
from commitlog.log.gathering import IN_VAIN_MAX, LATELY_S, REST_S_MAX, WORTH_WAITING, Gathering

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


def test_expected_when_a_carrier_brings_most_then_nobody_waits_for_those() -> None:
    gathering = Gathering(WAIT_S)
    gathering.came([], 0.0)
    for number in range(50 * ENOUGH):
        writer = number % 8
        gathering.came([Incoming(0, number, b"w%d" % writer, b"", "carrier" if writer > 2 else None)], 0.0)
    assert gathering.expected(LATELY_S) == 3


def test_expected_before_a_span_is_over_then_what_the_last_one_said() -> None:
    gathering = after_a_span(writers=8, proposals=ENOUGH)
    assert gathering.expected(0.99 * LATELY_S) == 1
    gathering.expected(LATELY_S)
    assert gathering.expected(1.99 * LATELY_S) == 8


def test_expected_after_silence_then_nobody_waits() -> None:
    gathering = after_a_span(writers=8, proposals=ENOUGH)
    gathering.expected(LATELY_S)
    assert gathering.expected(100.0) == 1


def busy_at(gathering: Gathering, now_s: float) -> int:
    """What is expected when a busy span of eight writers has just ended."""
    gathering.expected(now_s - 1.01 * LATELY_S)
    for number in range(2 * ENOUGH):
        gathering.came([Incoming(0, number, b"w%d" % (number % 8), b"")], now_s - LATELY_S / 2)
    return gathering.expected(now_s)


def test_waited_when_in_vain_then_nobody_waits_and_for_longer_each_time() -> None:
    gathering = after_a_span(writers=8, proposals=ENOUGH)
    now_s, rests_s = 1.0, list[float]()
    for _ in range(IN_VAIN_MAX + 8):
        assert busy_at(gathering, now_s) == 8
        gathering.waited(0, now_s)
        began_s = now_s
        while busy_at(gathering, now_s) == 1:
            now_s += 0.125 * LATELY_S
        rests_s.append(round(now_s - began_s, 6))
    assert rests_s[: IN_VAIN_MAX - 1] == [0] * (IN_VAIN_MAX - 1)
    lengthening_s = rests_s[IN_VAIN_MAX - 1 :]
    assert lengthening_s == sorted(lengthening_s)
    assert lengthening_s[0] == pytest.approx(LATELY_S, rel=0.2)
    assert lengthening_s[-1] == pytest.approx(REST_S_MAX, rel=0.2)


def test_waited_when_one_came_then_what_was_in_vain_before_is_forgotten() -> None:
    gathering = after_a_span(writers=8, proposals=ENOUGH)
    for _ in range(3):
        for _ in range(IN_VAIN_MAX - 1):
            gathering.waited(0, 1.0)
        gathering.waited(1, 1.0)
    assert busy_at(gathering, 1.0) == 8


def test_waited_when_in_vain_for_hours_then_the_rest_is_as_long_as_ever() -> None:
    gathering = after_a_span(writers=8, proposals=ENOUGH)
    for _ in range(5_000):
        gathering.waited(0, 1.0)
    assert busy_at(gathering, 1.0 + 0.9 * REST_S_MAX) == 1
    assert busy_at(gathering, 1.0 + 1.1 * REST_S_MAX) == 8
