"""The active sequencer ends between accepting results and telling them, again and again: its successor tells, in time."""

from __future__ import annotations

import os
import random
import re
import signal
import sys
from collections import Counter

import pytest
from log_running import all_outcomes, seed_of
from writing_on import WELL_AGAIN_S, Writers, check

from commitlog.config import Settings
from commitlog.domain import model as m
from commitlog.log.genesis import init_log
from commitlog.log.sequencer import Phase
from commitlog.ops.bench.sequencer_fleet import Fleet, Member

TIMEOUT_S = 20.0
"""Of the writers. A successor serves after two seconds, on a busy machine some more, and may end before it tells, too."""

# It ends at the first, second, ... call after it was asked to, before anything of that call is done.
ENDS_BEFORE_IT_TELLS = """
import logging, os, signal, sys
from commitlog.config import Settings
from commitlog.log import active, producing, sequencer
from commitlog.log.codec import decode_receipts
from commitlog.log.topics import topics_of
from commitlog.ops.service.json_logs import log_as_json

settings, (where, left, *arguments) = Settings.load(), sys.argv[1:]
left, is_asked = [int(left)], []

def ends_before(owner, name, told_by):
    real = getattr(owner, name)
    def ending(*arguments, **how):
        seq = told_by(*arguments) if is_asked else None
        if seq is not None:
            left[0] -= 1
            if left[0] == 0:
                logging.getLogger("commitlog").warning("ends before outcome %d is told", seq)
                os.kill(os.getpid(), signal.SIGKILL)
        return real(*arguments, **how)
    setattr(owner, name, ending)

def of_a_message(voice, topic, partition, value, on_done):
    return decode_receipts(value).receipts[-1].seq if topic == topics_of(settings.log).receipts else None

if where == "batch":
    ends_before(active.Active, "_tell", lambda active, seq, *rest: seq)
else:
    ends_before(producing.KafkaVoice, "send", of_a_message)
signal.signal(signal.SIGUSR1, lambda number, frame: is_asked.append(True))
log_as_json("sequencer")
sys.exit(sequencer.run_sequencer(settings, standby="standby" in arguments))
"""


class Doomed:
    """Sequencers that end on request, when something is accepted and not told.

    `untold` is by each that has ended the last outcome that it was about to tell.
    """

    def __init__(self, fleet: Fleet, chance: random.Random) -> None:
        self._fleet = fleet
        self._chance = chance
        self.untold: list[int] = []

    def start(self, *arguments: str) -> Member:
        where, calls = self._chance.choice(("batch", "message")), self._chance.randint(1, 3)
        return self._fleet.add([sys.executable, "-c", ENDS_BEFORE_IT_TELLS, where, str(calls), *arguments])

    def start_successor(self) -> Member:
        """A standby that ends in its first attempt to tell, which is what its predecessor has left."""
        return self._fleet.add([sys.executable, "-c", ENDS_BEFORE_IT_TELLS, "batch", "1", "standby"])

    def wait_for(self, member: Member, phase: Phase) -> Member:
        self._fleet.wait_for(f"one that is {phase}", lambda: member.phase is phase, timeout_s=WELL_AGAIN_S)
        return member

    def ask_to_end(self, member: Member) -> None:
        os.kill(member.pid, signal.SIGUSR1)

    def ended(self, member: Member) -> None:
        self.wait_for(member, Phase.STOPPED)
        assert member.exit_code == -signal.SIGKILL
        said = re.search(r"ends before outcome (\d+) is told", member.log_file.read_text())
        assert said is not None
        self.untold.append(int(said[1]))
        self._fleet.members.remove(member)

    def ended_or_was_too_late(self, member: Member) -> None:
        """Of two standbys either may have been the first."""
        ends = (Phase.STANDBY, Phase.STOPPED)
        self._fleet.wait_for("one that has tried", lambda: member.phase in ends, timeout_s=WELL_AGAIN_S)
        if member.phase is Phase.STANDBY:
            member.kill()
            self._fleet.members.remove(member)
        else:
            self.ended(member)


def end_one_after_the_other(doomed: Doomed, writers: Writers, times: int) -> None:
    active, number = doomed.wait_for(doomed.start(), Phase.SERVING), 0
    while len(doomed.untold) < times:
        number += 1
        successor = doomed.start_successor() if number % 4 == 0 else None
        standby = doomed.start("standby")
        for each in filter(None, (successor, standby)):
            doomed.wait_for(each, Phase.STANDBY)
        writers.wait_until_answered()
        if successor is not None:
            doomed.ask_to_end(successor)
        doomed.ask_to_end(active)
        doomed.ended(active)
        doomed.wait_for(standby, Phase.SERVING)
        if successor is not None:
            doomed.ended_or_was_too_late(successor)
        active = standby
    writers.wait_until_answered()


def every_writer_is_answered_in_time(settings: Settings, times: int, seed: int) -> None:
    init_log(settings)
    with Fleet(settings) as fleet:
        doomed = Doomed(fleet, random.Random(seed))
        writers = Writers(settings, seed, timeout_s=TIMEOUT_S, pause_s=0.01)
        with writers:
            end_one_after_the_other(doomed, writers, times)
        check(settings, writers)
    assert writers.unknown == 0
    outcomes = all_outcomes(settings)
    assert Counter(each.verdict for each in outcomes) == {m.Verdict.COMMITTED: len(writers.receipts)}
    assert Counter(each.proposal_id for each in outcomes) == Counter(each.proposal_id for each in writers.receipts)
    waited_s = sorted(writers.waited_s[seq] for seq in doomed.untold)
    print(
        f"{len(doomed.untold)} ends; answers that were told again came after {waited_s[0]:.2f} to {waited_s[-1]:.2f} s"
    )
    assert waited_s[-1] < TIMEOUT_S


def test_answers_when_each_sequencer_ends_before_it_tells_then_each_comes_once_and_in_time(settings: Settings) -> None:
    every_writer_is_answered_in_time(settings, 10, seed_of("told again"))


@pytest.mark.nightly
def test_answers_when_a_hundred_sequencers_end_before_they_tell_then_each_comes_once_and_in_time(
    settings: Settings,
) -> None:
    every_writer_is_answered_in_time(settings, 100, seed_of("a hundred told again"))
