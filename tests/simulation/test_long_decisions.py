"""A proposal that takes longer to decide than a sequencer may be silent."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast
from uuid import UUID

import pytest

from commitlog.config import Settings
from commitlog.domain import model as m
from commitlog.log import sequencer
from commitlog.log.batches import Decider
from commitlog.log.codec import encode_proposal
from commitlog.log.sequencer import LIVED_S, TAKEOVER_AFTER_S
from commitlog.log.topics import topics_of
from commitlog.simulation.choices import Choices
from commitlog.simulation.scheduling import BEGUN_MS
from commitlog.simulation.world import LOG, Process, Role, World, run_sequencer


class ThreeSequencers(World):
    """Nobody else, and nothing befalls them."""

    def _roles(self) -> list[tuple[str, Role]]:
        return [(f"sequencer {name}", run_sequencer) for name in "ABC"]

    def begin(self) -> None:
        self.is_calm, self.broker.is_unusual = True, False
        wanted = ["SERVING", "STANDBY", "STANDBY"]
        self.scheduler.run(
            lambda: sorted(each.sequencer.status.phase for each in self.processes if each.sequencer) == wanted
        )

    def serving(self) -> Process:
        return next(each for each in self.processes if each.sequencer and each.sequencer.status.phase == "SERVING")

    def propose(self, number: int) -> None:
        proposal_id = UUID(int=(BEGUN_MS + number << 80) + (7 << 76) + (8 << 60) + number).bytes
        proposal = m.Proposal(proposal_id, "w", 0, (m.CreateSchema(f"s{number}"),), created_at_ms=BEGUN_MS)
        self.broker.append(topics_of(LOG).proposals, 0, b"w", encode_proposal(proposal), "writer")

    def decided_after_s(self, number: int, *, within_s: float) -> float:
        begun_s = self.scheduler.now_s
        self.scheduler.run(
            lambda: len(self.model.accepted) >= number or self.scheduler.now_s > begun_s + within_s,
        )
        assert len(self.model.accepted) >= number, f"not decided after {within_s} s"
        return self.scheduler.now_s - begun_s


@pytest.fixture
def world(tmp_path: Path) -> ThreeSequencers:
    return ThreeSequencers(Choices(1), Settings.load(environment={}, home=str(tmp_path), log=LOG))


@pytest.mark.parametrize("takes_s", [4 * TAKEOVER_AFTER_S, 40 * TAKEOVER_AFTER_S])
def test_standby_when_one_proposal_takes_longer_than_a_silence_may_then_it_is_decided_and_later_ones_as_before(
    world: ThreeSequencers, takes_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Slow:
        """The first proposal takes its time, whoever decides it."""

        def __init__(self, *state: Any, **asked: Any) -> None:
            self._decider = Decider(*state, **asked)

        def decide_all(self, messages: list[Any], *batch: Any, **asked: Any) -> None:
            if any(message.offset == 0 for message in messages):
                assert world.scheduler.current is not None
                world.scheduler.current.machine.sleep(takes_s)
            self._decider.decide_all(messages, *batch, **asked)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._decider, name)

    monkeypatch.setattr(sequencer, "Decider", cast(Any, Slow))
    try:
        world.begin()
        world.propose(0)
        assert world.decided_after_s(1, within_s=10 * takes_s) < 4 * takes_s
        world.serving().crash()
        world.propose(1)
        assert world.decided_after_s(2, within_s=60) < 2 * TAKEOVER_AFTER_S
    finally:
        world.scheduler.end()


def test_standby_when_sequencers_of_an_idle_log_end_and_a_proposal_comes_then_it_waits_no_longer_than_ever(
    world: ThreeSequencers,
) -> None:
    try:
        for _ in range(4):
            world.begin()
            idle_until_s = world.scheduler.now_s + 2 * LIVED_S
            world.scheduler.run(lambda until_s=idle_until_s: world.scheduler.now_s >= until_s)
            world.serving().crash()
        world.propose(0)
        assert world.decided_after_s(1, within_s=60) < 2 * TAKEOVER_AFTER_S
    finally:
        world.scheduler.end()
