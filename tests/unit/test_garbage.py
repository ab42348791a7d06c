"""Who collects the garbage of the process in which a sequencer runs."""

from __future__ import annotations

import gc
import subprocess
import sys

from commitlog.config import Settings
from commitlog.log.garbage import Garbage
from commitlog.log.sequencer import Sequencer

IN_A_PROCESS_OF_ITS_OWN = """
import gc, weakref
from commitlog.log.garbage import OwnGarbage
class State: pass
state = State()
state.itself, gone = state, weakref.ref(state)
garbage = OwnGarbage()
garbage.begin()
garbage.has_loaded()
print(gc.isenabled(), gc.get_freeze_count() > 0)
del state
garbage.is_due()
print(gone() is None)
garbage.has_thrown_away()
print(gone() is None, gc.isenabled())
"""


def test_a_sequencer_in_somebodys_process_leaves_its_collector_alone() -> None:
    garbage, before = Sequencer(Settings.load(environment={}))._garbage, gc.get_freeze_count()
    for told in (garbage.begin, garbage.has_loaded, garbage.is_due, garbage.has_thrown_away):
        told()
    assert type(garbage) is Garbage
    assert gc.isenabled()
    assert gc.get_freeze_count() == before


def test_a_state_that_was_thrown_away_is_freed_though_it_was_frozen() -> None:
    said = subprocess.run([sys.executable, "-c", IN_A_PROCESS_OF_ITS_OWN], capture_output=True, text=True, check=True)
    assert said.stdout.splitlines() == ["False True", "False", "True False"]
