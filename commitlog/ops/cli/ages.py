"""Ages as people write them, 90m, 12h, 7d, and snapshots by their ids or by when they were the newest."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import click

from commitlog.client.reading.moments import as_moment
from commitlog.errors import InvalidRequestError

AGE_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
"""Milliseconds by unit."""


def read_age_ms(text: str) -> int:
    """An age in words, in milliseconds."""
    if not (text[:-1].isdecimal() and text[-1:] in AGE_MS):
        raise click.BadParameter(f"{text!r} is no age: a number and one of {', '.join(AGE_MS)}, such as 7d")
    return int(text[:-1]) * AGE_MS[text[-1]]


class SnapshotType(click.ParamType):
    """A snapshot: its id, or a moment, as a datetime."""

    name = "snapshot"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | datetime:
        """What the text says."""
        if isinstance(value, int | datetime):
            return value
        if value.isdecimal():
            return int(value)
        try:
            return as_moment("a snapshot", value)
        except InvalidRequestError:
            self.fail(
                f"{value!r} is no snapshot: give its id, or a moment such as 2026-03-02T04:05, 12h, 7d or yesterday"
            )
