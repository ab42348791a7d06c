"""Threads that wait for their answers, by one publisher on a real broker."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import pytest
from log_running import Ids, append, create_table, make_log, proposal, seed_of, serving

from commitlog.config import Settings
from commitlog.log.publisher import Publisher
from commitlog.log.senders import CROWD_OF_THREADS, Crowding
from commitlog.log.sending import Sender

LINGER_MS = 10_000
"""Less than an answer is waited for: on a loaded machine librdkafka may not see in time that it is to hurry."""
TOGETHER = 60
CROWDING = Crowding(CROWD_OF_THREADS.size_min, short_s=0.0, linger_ms=LINGER_MS)
"""As if no machine had time."""
LOOK_S = 0.1
PATIENCE_S = 90.0
"""Less than so many would take, by six threads, if each round of theirs lingered."""


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Of each proposal that was sent, how long it might linger."""
    lingers: list[int] = []
    send = Sender.send

    def counted(self: Sender, *args: Any, **more: Any) -> None:
        send(self, *args, **more)
        lingers.append(self.linger_ms)

    monkeypatch.setattr(Sender, "send", counted)
    return lingers


@pytest.fixture
def settings(kafka: str, log_name: str, tmp_path: Path) -> Settings:
    return make_log(kafka, log_name, tmp_path)


def commits(publisher: Publisher, ids: Ids, writer: str, is_over: Callable[[], bool]) -> list[bool]:
    """One after the other, until it is over: of each whether it was committed."""
    found: list[bool] = []
    while not is_over():
        made = proposal(ids, 1, append(f"{writer}-{len(found)}"), writer=writer)
        receipt = publisher.submit(made)
        found.append(receipt.proposal_id == made.proposal_id and receipt.snapshot_id is not None)
    return found


def test_crowd_when_all_of_it_wait_then_what_it_has_proposed_lingers_no_longer(
    settings: Settings, request: pytest.FixtureRequest, sent: list[int]
) -> None:
    given_up_at = time.monotonic() + PATIENCE_S

    def is_over() -> bool:
        return sent.count(LINGER_MS) >= TOGETHER or time.monotonic() > given_up_at

    with serving(settings), Publisher(settings, crowdings=(CROWDING,)) as publisher, ThreadPoolExecutor(6) as threads:
        seed = seed_of(request.node.name)
        publisher.submit(proposal(Ids(seed), 0, create_table()))
        looping = [
            threads.submit(commits, publisher, Ids(seed + number), f"w{number}", is_over) for number in range(1, 7)
        ]
        # Of those that are left in the end there are not enough to be waited for by each other.
        while wait(looping, LOOK_S).not_done:
            if is_over():
                publisher.flush(PATIENCE_S)
        found = [each.result() for each in looping]
    assert sent.count(LINGER_MS) >= TOGETHER, f"of {len(sent)} proposals, in {PATIENCE_S} s"
    assert sum(map(len, found)) == len(sent) - 1
    assert all(map(all, found))
