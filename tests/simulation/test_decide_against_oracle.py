"""The core against the slow, obvious oracle on random histories: verdict, reason, snapshot ids and the set of conflicts.

Every history is also replayed from empty and from a checkpoint in its middle, to the same state by hash.
"""

from __future__ import annotations

import multiprocessing
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from hypothesis import given, settings
from hypothesis import strategies as st
from oracle.histories import PROPOSALS, run_seed

from commitlog.domain.deciding import reads
from commitlog.domain.deciding.append_blocks import newest_match

HISTORIES = 3_400
FIRST_SEED = 1_000_000
PLENTY = {"COMMITTED": 20_000, "CONFLICT": 10_000, "INVALID": 10_000, "BASE_EXPIRED": 10, "BASE_UNKNOWN": 10}
KINDS = {
    "committed FLUSH": 500, "met TABLE_FLUSHED": 20, "met TABLE_APPENDED": 5_000, "met FOREIGN_KEY": 100,
    "met UNIQUE": 50, "met MULTIPLE_UNIQUE": 20, "met UPDATE_KEY": 50, "met INSERT_UPDATE": 50,
    "settled INSERT_INSERT HANDLED": 200, "settled UPDATE_UPDATE HANDLED": 100, "settled UPDATE_DELETE HANDLED": 100,
    "settled UPDATE_KEY HANDLED": 20, "settled INSERT_UPDATE HANDLED": 100, "settled UNIQUE HANDLED": 10,
    "settled UPDATE_UPDATE APPLIED": 10, "settled UPDATE_DELETE APPLIED": 10, "settled DELETE_DELETE SKIPPED": 50,
}  # fmt: skip


def test_a_hundred_thousand_proposals_then_core_and_oracle_agree(capsys: pytest.CaptureFixture[str]) -> None:
    assert HISTORIES * PROPOSALS >= 100_000
    started = time.monotonic()
    verdicts: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        for run in pool.imap_unordered(run_seed, range(FIRST_SEED, FIRST_SEED + HISTORIES), chunksize=20):
            assert run.difference is None, str(run.difference)
            verdicts += run.verdicts
            kinds += run.kinds
    with capsys.disabled():
        print(f"\n{verdicts.total():,} proposals compared in {time.monotonic() - started:.0f} s: {dict(verdicts)}")
        print(dict(sorted(kinds.items())))
    assert verdicts.total() >= 100_000
    for answer, least in PLENTY.items():
        assert verdicts[answer] >= least, f"the histories hold too little of {answer}: {verdicts}"
    for kind, least in KINDS.items():
        assert kinds[kind] >= least, f"the histories hold too little of {kind}: {kinds}"


@settings(max_examples=50, deadline=None, derandomize=True)
@given(st.integers(min_value=0, max_value=10**9))
def test_any_seed_then_core_and_oracle_agree(seed: int) -> None:
    difference = run_seed(seed).difference
    assert difference is None, str(difference)


@pytest.mark.interpreted("compiled code takes blocks of the size that it was compiled with")
def test_short_histories_with_blocks_of_two_files_then_core_and_oracle_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reads, "newest_match", partial(newest_match, sizes=(4, 2)))
    for seed in range(2 * FIRST_SEED, 2 * FIRST_SEED + 60):
        difference = run_seed(seed).difference
        assert difference is None, str(difference)
