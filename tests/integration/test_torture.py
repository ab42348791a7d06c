"""A whole service under real faults: five minutes of every kind in each change's tests."""

from __future__ import annotations

import os

import pytest
from log_running import seed_of

from commitlog.config import Settings
from commitlog.ops.torture.campaign import run_torture
from commitlog.ops.torture.faults import FAULTS, FULL

FAULTS_MIN, FAULTS_MAX = 10, 1_000
SECONDS = 300.0


@pytest.mark.timeout(7_200)
def test_torture_of_five_minutes_then_every_promise_was_kept() -> None:
    seconds = float(os.environ.get("COMMITLOG_TEST_TORTURE_S", SECONDS))
    seed = seed_of("five minutes")
    result = run_torture(Settings.load(), seed=seed, say=print, faults=FAULTS_MAX, seconds=seconds)
    assert list(result.wrongs) == [], f"seed {seed}"
    assert result.acknowledged == sum(result.verdicts.values())
    assert result.snapshots == result.verdicts["COMMITTED"]
    assert len(result.suffered) >= FAULTS_MIN
    groups = {fault.name: fault.group for fault in FAULTS}
    assert {groups[each.fault] for each in result.suffered} | set(result.left_out) == set(groups.values())
    assert set(result.left_out) <= {FULL}
