"""A whole service under real faults: every kind of fault in each change's tests, five minutes and more of them at night."""

from __future__ import annotations

import os

import pytest
from log_running import seed_of

from commitlog.config import Settings
from commitlog.ops.torture.campaign import Torture, run_torture
from commitlog.ops.torture.faults import FAULTS, FULL

FAULTS_OF_A_NIGHT = 1_000
SECONDS_OF_A_NIGHT = 300.0


def tortured(name: str, **how: float) -> Torture:
    seed = seed_of(name)
    result = run_torture(Settings.load(), seed=seed, say=print, **how)  # type: ignore[arg-type]
    assert list(result.wrongs) == [], f"seed {seed}"
    assert result.acknowledged == sum(result.verdicts.values())
    assert result.snapshots == result.verdicts["COMMITTED"]
    return result


@pytest.mark.timeout(900)
def test_torture_when_a_fault_of_every_kind_has_come_then_every_promise_was_kept() -> None:
    result = tortured("every kind", faults=10, pause_s_max=3.0)
    groups = {fault.name: fault.group for fault in FAULTS}
    assert {groups[each.fault] for each in result.suffered} | set(result.left_out) == set(groups.values())
    assert set(result.left_out) <= {FULL}


@pytest.mark.nightly
@pytest.mark.timeout(7_200)
def test_torture_of_five_minutes_then_every_promise_was_kept() -> None:
    seconds = float(os.environ.get("COMMITLOG_TEST_TORTURE_S", SECONDS_OF_A_NIGHT))
    tortured("a night", faults=FAULTS_OF_A_NIGHT, seconds=seconds)
