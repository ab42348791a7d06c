"""The names of a log's topics."""

from __future__ import annotations

from typing import NamedTuple


class Topics(NamedTuple):
    """The names of a log's topics."""

    proposals: str
    results: str
    receipts: str
    dead_letters: str
    control: str


def topics_of(log: str) -> Topics:
    """The names of a log's topics."""
    return Topics(f"{log}.proposals", f"{log}.results", f"{log}.receipts", f"{log}.dead-letters", f"{log}.control")
