"""Single outcomes looked up by several at once."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from commitlog.client.access import results_lookup
from commitlog.client.access.results_lookup import ResultsLookup
from commitlog.config import Settings
from commitlog.errors import LogUnavailableError


def test_lookup_when_kafka_is_away_then_who_waited_for_the_first_to_ask_is_told_so_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked, came, gives_up = [], [], threading.Event()

    def clock() -> float:
        came.append(time.monotonic())
        return came[-1]

    def unanswered(settings: Settings, **_: Any) -> None:
        asked.append(settings)
        assert gives_up.wait(30)
        raise LogUnavailableError(settings.bootstrap_servers, detail="timed out")

    monkeypatch.setattr(results_lookup, "ResultsReader", unanswered)
    monkeypatch.setattr(results_lookup, "time", SimpleNamespace(monotonic=clock))
    lookup = ResultsLookup(Settings.load(environment={}))
    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(lookup.last)
        while not asked:
            time.sleep(0.01)
        waiting = [pool.submit(lookup.by_seq, 1), pool.submit(lookup.by_snapshot, 1), pool.submit(lookup.last)]
        while len(came) < 4:
            time.sleep(0.01)
        gives_up.set()
        with pytest.raises(LogUnavailableError, match="timed out"):
            first.result(30)
        for each in waiting:
            with pytest.raises(LogUnavailableError, match="others have asked before, and had no answer"):
                each.result(30)
    assert len(asked) == 1
    # Whoever comes later asks again.
    with pytest.raises(LogUnavailableError, match="timed out"):
        lookup.last()
