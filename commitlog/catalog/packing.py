"""Rows as the bytes that PostgreSQL takes: of a binary COPY, and of one parameter that holds several rows of a table.

A generic writer asks of every value what it is; here the columns of each table say so, once. Source: PostgreSQL's manual,
COPY, "Binary Format"; for parameters `array_recv` and `record_recv`, which read the same fields, each after its type.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from librt.strings import BytesWriter, write_i16_be, write_i32_be, write_i64_be

from commitlog.catalog.tables import DUCKLAKE_COLUMNS

_COPY_BEGIN: Final = b"PGCOPY\n\xff\r\n\x00" + bytes(8)
_COPY_END: Final = b"\xff\xff"

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
    "refused_tables": (_INT8, _TEXT, _TEXT),
    "taken_over": (_INT8, _TEXT, _INT8, _INT8),
    "mileposts": (_INT8, _INT8, _BYTEA, _INT8, _INT8),
    "flushed_rows": (_INT8, _INT8, _INT8, _INT8),
}  # fmt: skip
"""The types of the columns of each table whose rows can be packed, by the numbers that every PostgreSQL knows them by.

A row holds Python's own values; of a uuid its bytes, of a time microseconds since 1970, of JSON its text.
"""

_NULL: Final = -1
_JSONB_VERSION: Final = b"\x01"
_EPOCH_US: Final = 946_684_800_000_000
"""PostgreSQL's time begins with the year 2000."""

_ONE_DIMENSION_NO_NULLS: Final = b"\x00\x00\x00\x01\x00\x00\x00\x00"
_FROM_ONE: Final = b"\x00\x00\x00\x01"


def copy_bytes(table: str, rows: Sequence[Sequence[Any]]) -> bytes:
    """All that COPY takes of some rows of a table."""
    types = TYPES[table]
    out = BytesWriter()
    out.write(_COPY_BEGIN)
    for row in rows:
        assert len(row) == len(types)
        write_i16_be(out, len(types))
        for at, value in enumerate(row):
            _write(out, types[at], value)
    out.write(_COPY_END)
    return out.getvalue()


def array_bytes(table: str, row_type: int, rows: Sequence[Sequence[Any]]) -> bytes:
    """Rows of a table as one parameter, an array of the table's row type, by the number that its database knows that by."""
    types = TYPES[table]
    out = BytesWriter()
    out.write(_ONE_DIMENSION_NO_NULLS)
    out.write(row_type.to_bytes(4, "big"))
    write_i32_be(out, len(rows))
    out.write(_FROM_ONE)
    for row in rows:
        _write_sized(out, _record_bytes(types, row))
    return out.getvalue()


def _record_bytes(types: tuple[int, ...], row: Sequence[Any]) -> bytes:
    assert len(row) == len(types)
    out = BytesWriter()
    write_i32_be(out, len(types))
    for at, value in enumerate(row):
        write_i32_be(out, types[at])
        _write(out, types[at], value)
    return out.getvalue()


def _write(out: BytesWriter, data_type: int, value: Any) -> None:
    """A value's size and bytes."""
    if value is None:
        write_i32_be(out, _NULL)
    elif data_type == _INT8:
        write_i32_be(out, 8)
        write_i64_be(out, value)
    elif data_type in (_VARCHAR, _TEXT):
        text: str = value
        _write_sized(out, text.encode("utf-8"))
    elif data_type == _BOOL:
        write_i32_be(out, 1)
        out.append(1 if value else 0)
    elif data_type == _TIME:
        time_us: int = value
        write_i32_be(out, 8)
        write_i64_be(out, time_us - _EPOCH_US)
    elif data_type == _UUID:
        assert len(value) == 16
        _write_sized(out, value)
    elif data_type == _INT4:
        write_i32_be(out, 4)
        write_i32_be(out, value)
    else:
        _write_sized(out, value if data_type == _BYTEA else _JSONB_VERSION + value.encode("utf-8"))


def _write_sized(out: BytesWriter, data: bytes) -> None:
    write_i32_be(out, len(data))
    out.write(data)
