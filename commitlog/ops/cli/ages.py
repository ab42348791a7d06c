"""Ages as people write them: 90m, 12h, 7d."""

from __future__ import annotations

import click

AGE_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
"""Milliseconds by unit."""


def read_age_ms(text: str) -> int:
    """An age in words, in milliseconds."""
    if not (text[:-1].isdecimal() and text[-1:] in AGE_MS):
        raise click.BadParameter(f"{text!r} is no age: a number and one of {', '.join(AGE_MS)}, such as 7d")
    return int(text[:-1]) * AGE_MS[text[-1]]
