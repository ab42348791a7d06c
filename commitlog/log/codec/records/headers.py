"""Generated from schemas/ by `make records`: the header of each record, by which its schema is known."""

from __future__ import annotations

from typing import Final

HEADERS: Final[dict[str, bytes]] = {
    "Proposal": bytes.fromhex("c30195be19e87f6000ab"),
    "Outcome": bytes.fromhex("c30104bd40402d4132eb"),
    "Receipts": bytes.fromhex("c301434a89aa5190c7cc"),
    "Genesis": bytes.fromhex("c301bbddfcf3457ff956"),
    "Takeover": bytes.fromhex("c301203b4dc9579f3794"),
    "Heartbeat": bytes.fromhex("c301acac71a19f1f8d84"),
    "Trim": bytes.fromhex("c30117ae2dd40b689089"),
    "DeadLetter": bytes.fromhex("c30106296370d71a0aab"),
    "FileStatistics": bytes.fromhex("c30120a12b76a143bebd"),
    "CheckpointSection": bytes.fromhex("c3011c0742938db0cc4b"),
}
EARLIER: Final[dict[bytes, tuple[str, str, str]]] = {}
"""Of earlier versions: the record, its schema's file, and the file of the newest one."""
