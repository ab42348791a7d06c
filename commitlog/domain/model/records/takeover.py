"""Generated from schemas/takeover.avsc by `make records`: the values."""

from __future__ import annotations

from typing import NamedTuple


class Takeover(NamedTuple):
    """A sequencer begins an epoch: accepted in the results topic if the epoch is the current one + 1, skipped otherwise.

    log_id: Of the log.
    epoch: That it begins.
    instance: Made anew for every attempt to take over.
    sent_at_ms: Its clock, ms since 1970.
    """

    log_id: bytes
    epoch: int
    instance: bytes
    sent_at_ms: int
