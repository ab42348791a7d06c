"""How wide a row outside of files is in PostgreSQL, which holds a row in one page and only its long values elsewhere.

Every COMMITTED outcome must fit the catalog (rules.md 12.30). The layout is PostgreSQL's: a header with one bit per
column, then the values that are not NULL, those of fixed width at their alignment; what is longer than a pointer is moved
out of the row when the row would not fit, and a pointer stays.
"""

from __future__ import annotations

from collections.abc import Mapping

from commitlog.domain.model import InvalidCode, RowValue
from commitlog.domain.model.definitions import TableDefinition, quoted
from commitlog.errors import InvalidChangeError

POSTGRESQL_ROW_BYTES_MAX = 8_160
"""What a page of 8 KiB can hold of one row."""

_HEADER_BYTES = 23
_OWN_COLUMNS = 3
"""row_id, begin_snapshot and end_snapshot, a bigint each, which DuckLake puts before the table's own."""
_FIXED = {
    "boolean": (1, 1), "int8": (2, 2), "int16": (2, 2), "int32": (4, 4), "int64": (8, 8), "uint8": (4, 4), "uint16": (4, 4),
    "uint32": (8, 8), "float32": (4, 4), "float64": (8, 8), "time": (8, 8), "timetz": (12, 8), "interval": (16, 8),
    "uuid": (16, 1),
}  # fmt: skip
"""Width and alignment of the types that PostgreSQL holds as such; all others have a length of their own."""
_POINTER_BYTES = 24
_WIDEST_BYTES = 25
"""Of one column: interval with its alignment, or a pointer, and a bit that says whether it is NULL."""


def check_row_width(table: TableDefinition, image: Mapping[str, RowValue], bytes_max: int) -> None:
    """Raise InvalidChangeError for a complete image that takes more than ``bytes_max`` bytes in its page."""
    if _HEADER_BYTES + 9 + (len(table.columns) + _OWN_COLUMNS) * _WIDEST_BYTES <= bytes_max:
        return
    if (width := stored_width(table, image)) > bytes_max:
        raise InvalidChangeError(
            InvalidCode.ROW_TOO_WIDE,
            f"a row of table {quoted(table.name)} would take {width} bytes of a page in PostgreSQL, more than {bytes_max} "
            "(inlined_row_bytes_max): too many of its columns are not NULL",
        )


def stored_width(table: TableDefinition, image: Mapping[str, RowValue]) -> int:
    """The bytes that a complete image takes in its page at most, once its long values are moved out."""
    columns = len(table.columns) + _OWN_COLUMNS
    width = _aligned(_HEADER_BYTES + (columns + 7) // 8, 8) + 8 * _OWN_COLUMNS
    for column in table.columns:
        value = image[column.name]
        if value is None:
            continue
        size, alignment = _FIXED.get(column.type.name, (_POINTER_BYTES, 1))
        if size == _POINTER_BYTES and isinstance(value, str):
            # A short text stands where it is, with one byte of length.
            size = min(_POINTER_BYTES, 1 + len(value.encode("utf-8", "backslashreplace")))
        width = _aligned(width, alignment) + size
    return width


def _aligned(offset: int, alignment: int) -> int:
    return -(-offset // alignment) * alignment
