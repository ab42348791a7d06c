"""Writers of a torture that do not come to their end say where they are."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from commitlog.config import Settings
from commitlog.ops.torture import machines
from commitlog.ops.torture.ledger import stacks_file
from commitlog.ops.torture.machines import Writers

STUCK = """
import faulthandler, sys, threading, time
from pathlib import Path
from commitlog.ops.torture.ledger import stacks_told
register = faulthandler.register
def register_late(*arguments, **more):
    time.sleep(0.5)
    register(*arguments, **more)
faulthandler.register = register_late
def waits_for_ever():
    threading.Event().wait()
with stacks_told(Path(sys.argv[1])):
    waits_for_ever()
"""


def test_finish_when_a_writer_does_not_end_then_it_says_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machines, "STUCK_S", 0.1)
    writers = Writers(Settings.load(environment={}, home=tmp_path), tmp_path / "ledgers", seed=1)
    writers._commands = [(sys.executable, "-c", STUCK, str(tmp_path / "ledgers"))]
    writers._processes = [None]
    try:
        writers.tend()
        [pid] = writers.pids()
        stacks = stacks_file(tmp_path / "ledgers", pid)
        for _ in range(100):
            assert not writers.finish(0.5)
            assert writers._processes[0].poll() is None  # type: ignore[attr-defined]
            if stacks.exists() and "waits_for_ever" in stacks.read_text():
                break
        else:
            pytest.fail("it has not said where it is")
        assert writers.pids() == [pid]
    finally:
        writers.stop()
