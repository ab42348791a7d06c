"""How long a standby has not heard the active sequencer, by its own clock."""

from __future__ import annotations

from commitlog.log.chain import ChainState
from commitlog.log.codec import Heartbeat
from commitlog.log.heartbeats import DEAF_S, Heard

LOG_ID = b"L" * 16
CHAIN = ChainState(LOG_ID, 2, b"B" * 16, 7, b"h" * 32)


def beat(epoch: int, instance: bytes, *, leaving: bool = False) -> Heartbeat:
    return Heartbeat(LOG_ID, epoch, instance * 16, 7, 0, leaving)


def listening(heard: Heard, start_s: float, end_s: float) -> None:
    """Listens often from one time to another, and hears nothing."""
    steps = int((end_s - start_s) / DEAF_S * 2) + 1
    for step in range(steps + 1):
        heard.listened(start_s + (end_s - start_s) * step / steps)


def test_heard_when_nothing_comes_then_silence_grows_from_the_last_heartbeat_of_the_current_epoch() -> None:
    heard = Heard(10.0)
    listening(heard, 10.0, 12.0)
    assert heard.silent_s(CHAIN, 12.0) == 2.0
    heard.hear(beat(2, b"B"), 12.0)
    listening(heard, 12.0, 13.0)
    assert heard.silent_s(CHAIN, 13.0) == 1.0


def test_heard_when_a_fenced_one_still_beats_then_it_is_silence() -> None:
    heard = Heard(10.0)
    listening(heard, 10.0, 12.0)
    heard.hear(beat(1, b"A"), 12.0)
    heard.hear(beat(2, b"A"), 12.0)
    assert heard.silent_s(CHAIN, 12.0) == 2.0


def test_heard_when_the_active_one_leaves_then_silent_for_ever() -> None:
    heard = Heard(10.0)
    heard.hear(beat(2, b"B", leaving=True), 10.1)
    assert heard.silent_s(CHAIN, 10.1) == float("inf")


def test_heard_when_it_did_not_listen_for_long_then_that_is_no_silence() -> None:
    heard = Heard(10.0)
    heard.hear(beat(2, b"B"), 10.0)
    listening(heard, 10.0, 10.4)
    heard.listened(60.0)
    assert heard.silent_s(CHAIN, 60.0) == 0.0
    listening(heard, 60.0, 61.0)
    assert heard.silent_s(CHAIN, 61.0) == 1.0
