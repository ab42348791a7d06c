"""Generated from schemas/heartbeat.avsc by `make records`: the values."""

from __future__ import annotations

from typing import NamedTuple


class Heartbeat(NamedTuple):
    """Written to the control topic by the active sequencer; a standby takes over when none comes.

    log_id: Of the log.
    epoch: Of the sequencer.
    instance: Of its takeover.
    seq: The last outcome that is accepted.
    sent_at_ms: Its clock, ms since 1970.
    leaving: The last one: a standby takes over at once.
    """

    log_id: bytes
    epoch: int
    instance: bytes
    seq: int
    sent_at_ms: int
    leaving: bool = False
