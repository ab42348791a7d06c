"""Whose heartbeats a standby heeds, and since when it has heard none."""

from __future__ import annotations

from commitlog.log.chain import ChainState
from commitlog.log.codec import Heartbeat
from commitlog.log.heartbeats import Heard

LOG_ID = b"L" * 16
A, B = b"A" * 16, b"B" * 16


def beat(epoch: int, instance: bytes, *, log_id: bytes = LOG_ID, leaving: bool = False) -> Heartbeat:
    return Heartbeat(log_id, epoch, instance, 7, 5, leaving)


def chain(epoch: int, instance: bytes | None) -> ChainState:
    return ChainState(LOG_ID, epoch, instance, 7, b"H" * 32)


def test_silence_when_others_beat_then_only_the_accepted_one_is_heeded() -> None:
    heard = Heard(10.0)
    for other in (beat(1, A), beat(3, A), beat(2, B), beat(2, A, log_id=b"O" * 16)):
        heard.hear(other, 20.0)
    assert heard.silent_s(chain(2, A), 21.0) == 11.0
    heard.hear(beat(2, A), 20.5)
    assert heard.silent_s(chain(2, A), 21.0) == 0.5
    # Whoever began to read after the takeover does not know the instance: of an epoch only one is accepted.
    assert heard.silent_s(chain(2, None), 21.0) == 0.5


def test_silence_when_a_takeover_is_accepted_then_its_sender_has_just_lived() -> None:
    heard = Heard(10.0)
    heard.hear(beat(1, A), 11.0)
    heard.took_over(30.0)
    assert heard.silent_s(chain(2, B), 30.5) == 0.5


def test_silence_when_the_active_one_has_left_then_nothing_is_waited_for() -> None:
    heard = Heard(10.0)
    heard.hear(beat(1, A), 11.0)
    heard.hear(beat(1, A, leaving=True), 11.1)
    assert heard.silent_s(chain(1, A), 11.2) == float("inf")
    assert heard.silent_s(chain(2, B), 11.2) < 2.0
    assert heard.newest(LOG_ID) is None
    heard.hear(beat(2, B), 11.3)
    assert heard.newest(LOG_ID) == beat(2, B)
