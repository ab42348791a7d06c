"""Generated from schemas/trim.avsc by `make records`: the values."""

from __future__ import annotations

from typing import NamedTuple


class Trim(NamedTuple):
    """Written to the trims topic before outcomes are deleted from the results; the one with the largest seq counts.

    genesis: The record with which the results began.
    log_id: Of the log.
    seq: Of the first outcome that stays.
    epoch: Of its sequencer.
    hash: Of its bytes.
    results_offset: Where it is.
    head_snapshot_id: The head after it.
    archive: Where all before it is, and itself.
    trimmed_at_ms: The clock of who trimmed, ms since 1970.
    """

    genesis: bytes
    log_id: bytes
    seq: int
    epoch: int
    hash: bytes
    results_offset: int
    head_snapshot_id: int
    archive: str
    trimmed_at_ms: int
