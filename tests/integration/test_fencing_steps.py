"""A sequencer stops at one certain step of serving, wakes up when another has its place, and tells nothing wrong."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import psutil
import pytest
from log_running import wait_until
from writing_on import WELL_AGAIN_S, Writers, check

from commitlog.config import Settings
from commitlog.log.genesis import init_log
from commitlog.log.sequencer import EXIT_FENCED, Phase
from commitlog.ops.bench.sequencer_fleet import Fleet

STOPS_AT_A_STEP = """
import os, signal, sys
from commitlog.config import Settings
from commitlog.log import active, producing, sequencer, serving
from commitlog.ops.service.json_logs import log_as_json

owner, name, when, left = eval(sys.argv[1]), sys.argv[2], sys.argv[3], [int(sys.argv[4])]
real = getattr(owner, name)

def count():
    left[0] -= 1
    if left[0] == 0:
        os.kill(os.getpid(), signal.SIGSTOP)

def stopping(*arguments, **more):
    if when == "before":
        count()
    result = real(*arguments, **more)
    if when == "after":
        count()
    return result

setattr(owner, name, stopping)
log_as_json("sequencer")
sys.exit(sequencer.run_sequencer(Settings.load()))
"""

# What is stopped, before or after which call of it: the first append is the takeover.
STEPS = {
    "the takeover is appended, not read": ("serving.TakeoverAttempt", "offset_of", "before", 1),
    "the takeover is read, nothing told again": ("active.Active", "tell_again", "before", 1),
    "decided, not appended": ("producing.KafkaResults", "append", "before", 5),
    "appended, not reported": ("producing.KafkaResults", "append", "after", 5),
    "reported, not judged": ("serving.Serving", "judge", "before", 200),
    "accepted, not told": ("active.Active", "_tell", "before", 5),
    "a message is about to be told": ("producing.KafkaVoice", "send", "before", 20),
    "told, not acknowledged": ("producing.KafkaVoice", "send", "after", 20),
    "acknowledged": ("serving.Telling", "acknowledged", "after", 5),
}


@pytest.mark.nightly
def test_zombie_of_each_step_of_serving_then_fenced_and_nothing_wrong_is_told(
    settings: Settings, tmp_path: Path
) -> None:
    init_log(settings)
    writers = Writers(settings, 11)
    with Fleet(settings) as fleet:
        with writers:
            fleet.start(standby=False)
            for what, step in STEPS.items():
                well = fleet.start(standby=True)
                wait_until(lambda: well.phase is Phase.STANDBY, f"a standby before: {what}")  # noqa: B023
                zombie = fleet.add([sys.executable, "-c", STOPS_AT_A_STEP, *map(str, step)])
                process = psutil.Process(zombie.pid)
                wait_until(lambda: process.status() == psutil.STATUS_STOPPED, f"a stop: {what}")  # noqa: B023
                writers.wait_until_answered()
                os.kill(zombie.pid, signal.SIGCONT)
                wait_until(
                    lambda: zombie.phase in (Phase.STOPPED, Phase.STANDBY),  # noqa: B023
                    f"it has noticed: {what}",
                    deadline_s=WELL_AGAIN_S,
                )
                assert zombie.exit_code in (None, EXIT_FENCED), what
                zombie.kill()
                for member in [each for each in fleet.members if each.phase is not Phase.SERVING]:
                    member.kill()
                    fleet.members.remove(member)
                writers.wait_until_answered()
        check(settings, writers)
