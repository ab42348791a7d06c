"""A projector that stands by, and whether it takes the turn from another one; by a clock of its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from commitlog.catalog import projector as projectors
from commitlog.catalog.projector import TURN_SILENT_S, Projector
from commitlog.catalog.written import WrittenCatalog
from commitlog.config import Settings
from commitlog.log.codec import decode_statistics
from commitlog.machine import Machine
from commitlog.ops.service.measures import Measures
from commitlog.ops.service.watched import WatchedProjector

END = 1_000
RUNS_S = 20 * TURN_SILENT_S


class Clock(Machine):
    now = 0.0

    def now_s(self) -> float:
        return self.now


class Until:
    """A stop event: waiting takes the clock's time, and for so long it is not set."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def is_set(self) -> bool:
        return self._clock.now > RUNS_S

    def wait(self, seconds: float) -> bool:
        self._clock.now += seconds
        return self.is_set()


class TurnOfAnother:
    """A catalog that another projector writes, which has heeded so much at each look."""

    def __init__(self, heeded: Iterable[int | None]) -> None:
        self._heeded: Iterator[int | None] = iter(heeded)
        self.ended = 0

    def name(self, name: str) -> None: ...

    def take_turn(self) -> bool:
        return False

    def heeded(self) -> int | None:
        return next(self._heeded)

    def end_turn(self, silent_s: float) -> None:
        assert silent_s == TURN_SILENT_S
        self.ended += 1


def one_every(seconds: float) -> Iterator[int]:
    """So slow is the other one."""
    looks = int(seconds / projectors.TURN_POLL_S)
    return (look // looks for look in range(int(2 * RUNS_S / projectors.TURN_POLL_S)))


def always(heeded: int | None) -> Iterator[int | None]:
    while True:
        yield heeded


@pytest.mark.parametrize(
    ("heeded", "is_ended"),
    [
        (one_every(0.9 * TURN_SILENT_S), False),
        (one_every(2.0 * TURN_SILENT_S), True),
        (always(END - 1), True),
        (always(END), False),
        (always(None), False),
    ],
    ids=["slow and moving", "too slow", "stuck", "nothing to do", "no catalog yet"],
)
def test_standby_when_the_other_one_moves_or_has_nothing_to_do_then_it_keeps_its_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, heeded: Iterator[int | None], is_ended: bool
) -> None:
    monkeypatch.setattr(projectors, "results_end", lambda settings: END)
    clock, catalog = Clock(), TurnOfAnother(heeded)
    settings = replace(Settings.load(environment={}, home=str(tmp_path)), machine=clock)
    standby = Projector(settings, decode_statistics=decode_statistics)
    standby._stand_by(cast(WrittenCatalog, catalog), cast(Any, Until(clock)))
    assert (catalog.ended > 0) == is_ended


def test_standby_when_it_had_a_turn_before_then_says_nothing_of_how_far_that_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By what it knew then it would be ever further behind, though readers are not."""
    monkeypatch.setattr(projectors, "results_end", lambda settings: END)
    clock = Clock()
    settings = replace(Settings.load(environment={}, home=str(tmp_path)), machine=clock)
    standby = Projector(settings, decode_statistics=decode_statistics)
    standby.status.applied_seq, standby.status.next_offset, standby.status.head_snapshot_id = END - 2, END - 1, END - 2
    standby._stand_by(cast(WrittenCatalog, TurnOfAnother(always(END))), cast(Any, Until(clock)))
    watched = WatchedProjector(settings, standby)
    monkeypatch.setattr(watched.lag, "_ends", lambda done: {0: 2 * END})
    watched.lag.look()
    told = {metric.name for metric in watched.measures(Measures("main"))}
    assert "commitlog_projector_standby" in told
    assert not told & {"commitlog_projector_lag_records", "commitlog_applied_seq", "commitlog_applied_snapshot_id"}
