"""Sequencers that are killed, frozen and woken, started twice, and a broker that is killed and frozen, while writers write.

Nothing may be lost, nothing decided twice, nobody told what does not hold, and whenever the parts are well again, answers
must come. The faults come at random moments of a log under load, so that they meet every step of serving.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from log_running import all_outcomes, seed_of
from writing_on import WELL_AGAIN_S, Writers, check

from commitlog.config import Settings
from commitlog.local.broker import EmbeddedBroker
from commitlog.log.genesis import init_log
from commitlog.log.sequencer import Phase
from commitlog.ops.bench.sequencer_fleet import Fleet

SEQUENCERS = 3
STARTED_S = 60.0


class Campaign:
    """A log under load, and what is done to it."""

    def __init__(self, fleet: Fleet, broker: EmbeddedBroker, writers: Writers, chance: random.Random) -> None:
        self._fleet = fleet
        self._broker = broker
        self._writers = writers
        self._chance = chance

    def start(self) -> None:
        """Two that want to be active at once, and a standby."""
        for number in range(SEQUENCERS):
            self._fleet.start(standby=number == SEQUENCERS - 1)
        self._wait_for_answers()

    def run(self, faults: Sequence[Callable[[Campaign], None]]) -> None:
        """One after the other, at random moments; after each all must be well again."""
        for fault in faults:
            time.sleep(self._chance.random() * 0.5)
            fault(self)
            for member in self._fleet.members:
                if member.is_frozen:
                    member.thaw()
            while len(self._fleet.members) > SEQUENCERS:
                member = self._chance.choice(self._fleet.members)
                member.kill()
                self._fleet.members.remove(member)
            self._wait_for_answers()

    def _wait_for_answers(self) -> None:
        """Whatever has ended meanwhile, be it while it still seemed to serve, is started again."""
        answered = partial(self._writers.are_answered, time.monotonic())
        self._fleet.wait_for("answers to every writer", answered, timeout_s=WELL_AGAIN_S, tends=True)

    # --- faults -------------------------------------------------------------------------------------------------------

    def kill_the_active(self) -> None:
        for member in self._fleet.in_phase(Phase.SERVING):
            member.kill()

    def freeze_the_active(self) -> None:
        """Until another one has taken over; then it wakes up as a zombie with appends on their way."""
        frozen = self._fleet.in_phase(Phase.SERVING)
        for member in frozen:
            member.freeze()
        self._fleet.wait_for("another serving sequencer", self._one_serves, timeout_s=WELL_AGAIN_S, tends=True)
        for member in frozen:
            member.thaw()

    def freeze_the_active_shortly(self) -> None:
        """About as long as a standby waits, so that both may believe to be active."""
        for member in self._fleet.in_phase(Phase.SERVING):
            member.freeze()
        time.sleep(1.0 + self._chance.random())

    def freeze_all(self) -> None:
        for member in self._fleet.members:
            member.freeze()
        time.sleep(2.0)

    def start_two_more_actives(self) -> None:
        more = [self._fleet.start(standby=False) for _ in range(2)]
        self._fleet.wait_for(
            "one of them serves",
            lambda: any(member.phase in (Phase.SERVING, Phase.STOPPED) for member in more),
            timeout_s=STARTED_S,
        )

    def end_the_active(self) -> None:
        for member in self._fleet.in_phase(Phase.SERVING):
            member.terminate()

    def freeze_the_broker(self) -> None:
        pid = self._broker.pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        time.sleep(1.0 + 3.0 * self._chance.random())
        os.kill(pid, signal.SIGCONT)

    def freeze_the_broker_until_its_controller_fences_it(self) -> None:
        pid = self._broker.pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        time.sleep(12.0)
        os.kill(pid, signal.SIGCONT)

    def kill_the_broker(self) -> None:
        pid = self._broker.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        self._broker.stop()
        time.sleep(self._chance.random())
        self._broker.start()

    def kill_the_broker_and_the_active(self) -> None:
        self.kill_the_active()
        self.kill_the_broker()

    def _one_serves(self) -> bool:
        return bool(self._fleet.in_phase(Phase.SERVING))


FAULTS: Sequence[Callable[[Campaign], None]] = (
    *[Campaign.kill_the_active] * 3,
    *[Campaign.freeze_the_active] * 6,
    *[Campaign.freeze_the_active_shortly] * 4,
    Campaign.freeze_all,
    *[Campaign.start_two_more_actives] * 2,
    Campaign.end_the_active,
    *[Campaign.freeze_the_broker] * 2,
    Campaign.kill_the_broker,
    Campaign.kill_the_broker_and_the_active,
)


@contextmanager
def log_under_load(directory: Path, seed: int) -> Iterator[tuple[Settings, Campaign, Writers]]:
    """A broker of its own, sequencers and writers; at its end what they have left is checked."""
    with EmbeddedBroker(directory / "kafka", is_open=True) as broker:
        settings = Settings.load(
            environment={},
            log="campaign",
            bootstrap_servers=broker.bootstrap_servers,
            home=directory / "home",
            data_path=directory / "data",
            partitions=2,
        )
        init_log(settings)
        writers = Writers(settings, seed)
        with Fleet(settings) as fleet:
            with writers:
                campaign = Campaign(fleet, broker, writers, random.Random(seed))
                campaign.start()
                yield settings, campaign, writers
            check(settings, writers)


def test_campaign_when_sequencers_and_the_broker_are_hurt_then_nothing_is_lost_and_answers_come(tmp_path: Path) -> None:
    faults = (
        Campaign.freeze_the_active,
        Campaign.start_two_more_actives,
        Campaign.kill_the_broker_and_the_active,
        Campaign.freeze_the_active_shortly,
    )
    with log_under_load(tmp_path, seed_of("campaign")) as (_, campaign, _):
        campaign.run(faults)


@pytest.mark.nightly
def test_campaign_of_200_takeovers_then_nothing_is_lost_and_answers_come(tmp_path: Path) -> None:
    seed = seed_of("campaign of 200")
    chance = random.Random(seed)
    with log_under_load(tmp_path, seed) as (settings, campaign, _):
        while all_outcomes(settings)[-1].epoch < int(os.environ.get("COMMITLOG_TEST_TAKEOVERS", "200")):
            campaign.run(chance.choices(FAULTS, k=10))
            campaign.run([Campaign.freeze_the_broker_until_its_controller_fences_it])
