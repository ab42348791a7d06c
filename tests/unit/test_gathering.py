"""How many proposals a batch waits for."""

from __future__ import annotations

import pytest

from commitlog.log.batches import Incoming
from commitlog.log.gathering import LATELY_S, WORTH_WAITING, Gathering

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
