"""Text inside nested values that DuckDB could not read back from a row outside of files.

Such rows hold nested values as text, which DuckDB casts. Where one list, struct or map is inside another, it looks for the
closing bracket of the inner one without regard to quotes, and no way of escaping helps. Measured: it reads every text in
which no such bracket comes before its opening one, and hardly any other.
"""

from __future__ import annotations

from commitlog.domain.model import RowValue
from commitlog.domain.model.types import NESTED, ColumnType, fold

_OPENING = {"]": "[", "}": "{"}


def check_nested_text(
    data_type: ColumnType, value: RowValue, closing: frozenset[str] = frozenset(), depth: int = 0
) -> None:
    """Raise ValueError for text that would be taken for the end of a value; ``closing``: the brackets that would end one.

    The value must be one of its type already.
    """
    if data_type.name in NESTED:
        if depth:
            closing |= {"]" if data_type.name == "list" else "}"}
        _check_inside(data_type, value, closing, depth + 1)
    elif isinstance(value, str) and closing:
        for bracket in sorted(closing):
            if _closes_early(value, bracket):
                raise ValueError(f"has {bracket} in a text nested twice, which DuckDB cannot read outside of files")


def _check_inside(data_type: ColumnType, value: RowValue, closing: frozenset[str], depth: int) -> None:
    if isinstance(value, list):
        for item in value:
            check_nested_text(data_type.fields[0][1], item, closing, depth)
    elif isinstance(value, dict):
        by_name = {fold(name): inner for name, inner in data_type.fields}
        for name, item in value.items():
            if data_type.name == "map":
                check_nested_text(by_name["key"], name, closing, depth)
            check_nested_text(by_name["value" if data_type.name == "map" else fold(name)], item, closing, depth)


def _closes_early(text: str, closing: str) -> bool:
    opening, depth = _OPENING[closing], 0
    for letter in text:
        depth += (letter == opening) - (letter == closing)
        if depth < 0:
            return True
    return False
