"""The names of a log's topics."""

from __future__ import annotations

from typing import NamedTuple


class Topics(NamedTuple):
    """The names of a log's topics; that of trims is only there once results were trimmed."""

    proposals: str
    results: str
    receipts: str
    dead_letters: str
    control: str
    trims: str


def topics_of(log: str) -> Topics:
    """The names of a log's topics."""
    return Topics(*(f"{log}.{name.replace('_', '-')}" for name in Topics._fields))
