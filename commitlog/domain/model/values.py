"""The plain values inside records: scalars, row images, row positions; and the bounds that all of them keep."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TypeAlias

from pyroaring import FrozenBitMap64

RULES_VERSION = 1
"""Version of the rules by which this code decides. A log that carries a newer one is refused."""

BIGINT_MIN, BIGINT_MAX = -(2**63), 2**63 - 1
TIME_US_MIN, TIME_US_MAX = -210_866_803_200_000_000, BIGINT_MAX
"""The times that a PostgreSQL timestamp holds, in microseconds since 1970 of 64 bits: 4713 BC to 294247 AD."""
MAIN_SCHEMA_ID = 0
_SHOWN_LENGTH_MAX = 60
NESTING_MAX = 200
"""How deep a value of a row may be nested to be looked at at all."""

ProposalId: TypeAlias = bytes
"""The 16 bytes of a UUID. ``ids.format_id`` and ``parse_id`` turn it into text and back."""

Scalar: TypeAlias = bool | int | float | str | None
RowValue: TypeAlias = "Scalar | list[RowValue] | dict[str, RowValue]"
Row: TypeAlias = Mapping[str, RowValue]
"""A full row image, column name to value; values as JSON has them (dates, times, uuids and decimals as text)."""
RowPositions: TypeAlias = "FrozenBitMap64 | tuple[int, ...]"
"""Row positions in a file. A tuple is what was written but is no set of positions (negative or given twice)."""
Plain: TypeAlias = "bool | int | float | str | bytes | list[Plain] | dict[str, Plain] | None"
"""What a checkpoint is made of."""


def is_bigint(number: int) -> bool:
    """Whether a number has 64 bits at most. A comparison with the largest one is one of long numbers, and slower."""
    above = number >> 63
    return above == 0 or above == -1


def row_positions(rows: tuple[int, ...] | list[int]) -> RowPositions:
    """Make a set of row positions; what is no set (negative or given twice) stays as written, for decide to refuse."""
    if any(row < 0 for row in rows):
        return tuple(rows)
    positions = FrozenBitMap64(rows)
    return positions if len(positions) == len(rows) else tuple(rows)


def is_nested_deeper(value: object, levels: int) -> bool:
    """Whether lists and objects are in one another more than ``levels`` deep; found out without recursion."""
    level: list[object] = [value]
    for _ in range(levels):
        level = [
            inner
            for outer in level
            if isinstance(outer, list | dict)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, list | dict)
        ]
        if not level:
            return False
    return True


def shown(value: object) -> str:
    """A value in an error's text."""
    try:
        text = json.dumps(value)
    except (TypeError, ValueError):
        text = repr(value)
    return text if len(text) <= _SHOWN_LENGTH_MAX else text[: _SHOWN_LENGTH_MAX - 3] + "..."
