"""What doctor says of a log whose time is ahead of the clock."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from commitlog.catalog.checks import CheckedCatalog, LogSide, check_clock
from commitlog.domain.model import Genesis, LogSettings
from commitlog.domain.state.index import new_state

LOG_ID, HASH = bytes(16), bytes(32)
NOW_MS = 1_785_000_000_000


@pytest.mark.parametrize(("ahead_ms", "notes"), [(-3_600_000, 0), (60_000, 0), (60_001, 1)])
def test_clock_when_the_log_is_ahead_of_it_by_more_than_clients_may_be_then_is_noted(ahead_ms: int, notes: int) -> None:
    state = new_state(Genesis(LOG_ID, settings=LogSettings(clock_skew_ms_max=60_000)))
    state.decided_at_ms = NOW_MS + ahead_ms
    catalog = CheckedCatalog(Mock(), LogSide(LOG_ID, HASH, state, 1), LOG_ID, 1, HASH, NOW_MS)
    found = list(check_clock(catalog))
    assert len(found) == notes
    assert all(
        each.is_note and "until 2026-07-25 17:21 UTC every outcome gets that time" in each.what for each in found
    )
