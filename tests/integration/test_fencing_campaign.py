"""Sequencers that are killed, frozen and woken, started twice, and a broker that is killed and frozen, while writers write.

Nothing may be lost, nothing decided twice, nobody told what does not hold, and whenever the parts are well again, answers
must come. The faults come at random moments of a log under load, so that they meet every step of serving.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from log_running import Ids, all_outcomes, messages_of, proposal, seed_of, wait_until

from commitlog.config import Settings
from commitlog.domain import model as m
from commitlog.errors import LogUnavailableError, OutcomeUnknownError
from commitlog.local.broker import EmbeddedBroker
from commitlog.log.codec import decode_receipts
from commitlog.log.publisher import Publisher
from commitlog.log.sequencer import Phase
from commitlog.log.topics import init_log, topics_of
from commitlog.ops.sequencer_fleet import Fleet

WRITERS = 3
SEQUENCERS = 3
SUBMIT_TIMEOUT_S = 10.0
WELL_AGAIN_S = 120.0
STARTED_S = 60.0


class Writers:
    """Threads that send one proposal after the other; one that is not answered in time is sent again."""

    def __init__(self, settings: Settings, seed: int) -> None:
        self._settings = settings
        self._stop = threading.Event()
        self._sent_s = [0.0] * WRITERS
        self.receipts: list[m.Receipt] = []
        self.unknown = 0
        self.failures: list[BaseException] = []
        self._threads = [
            threading.Thread(target=self._write, args=(number, Ids(seed + number))) for number in range(WRITERS)
        ]

    def __enter__(self) -> Writers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def wait_until_answered(self) -> None:
        """Until every writer has an answer to a proposal that was sent after this call."""
        since_s = time.monotonic()
        wait_until(
            lambda: bool(self.failures) or min(self._sent_s) > since_s,
            "answers to every writer",
            deadline_s=WELL_AGAIN_S,
        )
        assert not self.failures

    def _write(self, number: int, ids: Ids) -> None:
        try:
            with Publisher(self._settings) as publisher:
                count = 0
                while not self._stop.is_set():
                    count += 1
                    each = proposal(ids, 0, m.CreateSchema(f"s{number}_{count}"), writer=f"w{number}")
                    sent_s = time.monotonic()
                    self.receipts.append(self._answer(publisher, each))
                    self._sent_s[number] = sent_s
        except BaseException as error:
            self.failures.append(error)

    def _answer(self, publisher: Publisher, each: m.Proposal) -> m.Receipt:
        deadline = time.monotonic() + 2 * WELL_AGAIN_S
        while True:
            try:
                return publisher.submit(each, timeout_s=SUBMIT_TIMEOUT_S)
            except (OutcomeUnknownError, LogUnavailableError):
                self.unknown += 1
                if time.monotonic() > deadline:
                    raise


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
        self._fleet.wait_for("a serving sequencer", self._one_serves, timeout_s=STARTED_S, tends=True)
        self._writers.wait_until_answered()

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
            self._fleet.wait_for("a serving sequencer", self._one_serves, timeout_s=WELL_AGAIN_S, tends=True)
            self._writers.wait_until_answered()

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
    with EmbeddedBroker(directory / "kafka") as broker:
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


def check(settings: Settings, writers: Writers) -> None:
    """Nothing is lost, nothing decided twice, nobody was told what does not hold."""
    assert not writers.failures
    outcomes = all_outcomes(settings)
    assert [each.seq for each in outcomes] == list(range(1, len(outcomes) + 1))
    sources = Counter(each.source for each in outcomes)
    assert max(sources.values()) == 1, "a proposal was decided twice"
    for partition in {each.partition for each in sources}:
        offsets = sorted(each.offset for each in sources if each.partition == partition)
        assert offsets == list(range(len(offsets))), "a proposal was left out"
    first = Counter(each.proposal_id for each in outcomes if each.verdict is not m.Verdict.DUPLICATE)
    assert set(first.values()) == {1}
    assert all(first[each.proposal_id] for each in writers.receipts), "an answered proposal is not in the log"
    told: set[int] = set()
    topic = topics_of(settings.log).receipts
    for partition in range(settings.partitions):
        for value in messages_of(settings, topic, partition):
            for receipt in decode_receipts(value).receipts:
                outcome = outcomes[receipt.seq - 1]
                assert (receipt.proposal_id, receipt.verdict, receipt.snapshot_id, receipt.source) == (
                    outcome.proposal_id,
                    outcome.verdict,
                    outcome.snapshot_id,
                    outcome.source,
                )
                told.add(receipt.seq)
    assert told >= {receipt.seq for receipt in writers.receipts}
    assert not any(each.verdict is m.Verdict.REJECTED for each in outcomes)


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
