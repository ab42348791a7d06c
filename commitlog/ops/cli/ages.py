"""Ages as people write them, 90m, 12h, 7d, and snapshots by their ids or by when they were the newest."""

from __future__ import annotations

from datetime import datetime

import click

from commitlog.client.reading.moments import as_moment
from commitlog.errors import InvalidRequestError

AGE_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
"""Milliseconds by unit."""


def read_age_ms(text: str) -> int:
    """An age in words, in milliseconds."""
    if not (text[:-1].isdecimal() and text[-1:] in AGE_MS):
        raise click.BadParameter(f"{text!r} is not an age: give a number and one of {', '.join(AGE_MS)}, such as 7d")
    return int(text[:-1]) * AGE_MS[text[-1]]


def read_moment(text: str) -> datetime:
    """A moment, or how long ago it was."""
    try:
        return as_moment("a moment", text)
    except InvalidRequestError:
        raise click.BadParameter(
            f"{text!r} is not a time: give one such as 2026-03-02T04:05, 12h, 7d or yesterday"
        ) from None


def read_snapshot(text: str) -> int | datetime:
    """A snapshot by its id, or by a moment at which it was the newest."""
    if text.isdecimal():
        return int(text)
    try:
        return as_moment("a snapshot", text)
    except InvalidRequestError:
        raise click.BadParameter(
            f"{text!r} is not a snapshot: give its id, or a time such as 2026-03-02T04:05, 12h, 7d or yesterday"
        ) from None
