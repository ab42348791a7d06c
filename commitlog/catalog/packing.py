"""Rows as the bytes that PostgreSQL takes: of a binary COPY, and of one parameter that holds several rows of a table.

A generic writer asks of every value what it is; here the columns of each table say so, once. Source: PostgreSQL's manual,
COPY, "Binary Format"; for parameters `array_recv` and `record_recv`, which read the same fields, each after its type.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Any, Final

from commitlog.catalog.tables import DUCKLAKE_COLUMNS

COPY_BEGIN: Final = b"PGCOPY\n\xff\r\n\x00" + bytes(8)
COPY_END: Final = b"\xff\xff"

_BOOL: Final = 16
_BYTEA: Final = 17
_INT8: Final = 20
_INT4: Final = 23
_TEXT: Final = 25
_VARCHAR: Final = 1043
_TIME: Final = 1184
_UUID: Final = 2950
_JSONB: Final = 3802

_TYPES_OF_CODES: Final = {"i": _INT8, "s": _VARCHAR, "b": _BOOL, "t": _TIME, "u": _UUID}
TYPES: Final[dict[str, tuple[int, ...]]] = {
    **{
        f"ducklake_{name}": tuple([_TYPES_OF_CODES[item.split(":")[1][0]] for item in text.split()])
        for name, text in DUCKLAKE_COLUMNS.items()
    },
    "outcomes": (
        _INT8, _UUID, _TEXT, _INT8, _INT8, _INT8, _TEXT, _TEXT, _TEXT, _INT8, _INT8, _TEXT, _TEXT, _INT4, _JSONB,
        _JSONB, _INT8, _TIME, _INT8, _INT4, _INT8,
    ),
    "mileposts": (_INT8, _INT8, _BYTEA, _INT8, _INT8),
    "flushed_rows": (_INT8, _INT8, _INT8, _INT8),
}  # fmt: skip
"""The types of the columns of each table whose rows can be packed, by the numbers that every PostgreSQL knows them by.

A row holds Python's own values; of a uuid its bytes, of a time microseconds since 1970, of JSON its text.
"""

_NULL: Final = b"\xff\xff\xff\xff"
_SIZE_AND_INT4: Final = Struct(">ii").pack
_SIZE_AND_INT8: Final = Struct(">iq").pack
_SIZES: Final = [size.to_bytes(4, "big") for size in range(1024)]
_SIZE_16: Final = b"\x00\x00\x00\x10"
_TRUE: Final = b"\x00\x00\x00\x01\x01"
_FALSE: Final = b"\x00\x00\x00\x01\x00"
_JSONB_VERSION: Final = b"\x01"
_EPOCH_US: Final = 946_684_800_000_000
"""PostgreSQL's time begins with the year 2000."""

_ONE_DIMENSION_NO_NULLS: Final = b"\x00\x00\x00\x01\x00\x00\x00\x00"
_FROM_ONE: Final = b"\x00\x00\x00\x01"


def copy_bytes(table: str, rows: Sequence[Sequence[Any]]) -> bytes:
    """Rows of a table for COPY, without its begin and end."""
    types = TYPES[table]
    start = len(types).to_bytes(2, "big")
    parts: list[bytes] = []
    for row in rows:
        assert len(row) == len(types)
        parts.append(start)
        for at, value in enumerate(row):
            parts.append(_field(types[at], value))
    return b"".join(parts)


def array_bytes(table: str, row_type: int, rows: Sequence[Sequence[Any]]) -> bytes:
    """Rows of a table as one parameter, an array of the table's row type, by the number that its database knows that by."""
    parts = [_ONE_DIMENSION_NO_NULLS, row_type.to_bytes(4, "big"), len(rows).to_bytes(4, "big"), _FROM_ONE]
    for row in rows:
        packed = _record_bytes(TYPES[table], row)
        parts.append(len(packed).to_bytes(4, "big"))
        parts.append(packed)
    return b"".join(parts)


def _record_bytes(types: tuple[int, ...], row: Sequence[Any]) -> bytes:
    parts = [len(types).to_bytes(4, "big")]
    for data_type, value in zip(types, row, strict=True):
        parts.append(data_type.to_bytes(4, "big"))
        parts.append(_field(data_type, value))
    return b"".join(parts)


def _field(data_type: int, value: Any) -> bytes:
    """A value's size and bytes."""
    if value is None:
        return _NULL
    if data_type == _INT8:
        number: int = value
        return _SIZE_AND_INT8(8, number)
    if data_type in (_VARCHAR, _TEXT):
        text: str = value
        return _sized(text.encode("utf-8"))
    if data_type == _BOOL:
        return _TRUE if value else _FALSE
    if data_type == _TIME:
        time_us: int = value
        return _SIZE_AND_INT8(8, time_us - _EPOCH_US)
    if data_type == _UUID:
        uuid: bytes = value
        assert len(uuid) == 16
        return _SIZE_16 + uuid
    if data_type == _INT4:
        small: int = value
        return _SIZE_AND_INT4(4, small)
    return _sized(value if data_type == _BYTEA else _JSONB_VERSION + value.encode("utf-8"))


def _sized(data: bytes) -> bytes:
    size = len(data)
    return (_SIZES[size] if size < len(_SIZES) else size.to_bytes(4, "big")) + data
