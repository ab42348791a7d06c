"""Avro single-object encoding, and which schemas there are.

A record is C3 01, the CRC-64-AVRO fingerprint of its schema (little endian), and the body. Every file in ``schemas/`` is
known by its fingerprint: ``<record>.avsc`` is the version that is written, ``<record>.<n>.avsc`` one of an earlier release,
whose records are brought to the newest form before they are read.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any, TypeVar

from librt.strings import BytesWriter

from commitlog.errors import MalformedRecordError
from commitlog.log.codec.avro import Cursor
from commitlog.log.codec.records.headers import EARLIER, HEADERS

T = TypeVar("T")

MARKER = b"\xc3\x01"
HEADER_SIZE_BYTES = 10
_RECORDS = {header: record for record, header in HEADERS.items()}


class UnknownSchemaError(MalformedRecordError):
    """A record of ours by its marker, of a schema that is not among this version's."""


def schemas_dir() -> Path:
    """Where the schemas are: inside an installed package, beside it in a source tree."""
    package = Path(__file__).resolve().parents[2]
    installed = package / "schemas"
    return installed if installed.is_dir() else package.parent / "schemas"


def begun(record: str) -> BytesWriter:
    """A writer with the header that names a record's schema; its fields come next."""
    out = BytesWriter()
    out.write(HEADERS[record])
    return out


def record_of(data: bytes) -> str:
    """Which record the bytes are, by their header.

    Raises:
        UnknownSchemaError: none of this version's.
        MalformedRecordError: there is no such header.
    """
    header = data[:HEADER_SIZE_BYTES]
    record = _RECORDS.get(header)
    if record is not None:
        return record
    if header in EARLIER:
        return EARLIER[header][0]
    raise _no_header(data)


def opened(data: bytes, record: str, read: Callable[[Cursor], T]) -> T:
    """The value in the bytes of a record.

    Raises:
        MalformedRecordError: for anything that is not exactly one such record.
    """
    if data[:HEADER_SIZE_BYTES] != HEADERS[record]:
        found = record_of(data)
        if found != record:
            raise MalformedRecordError(f"a record of kind {found}, not {record}")
        data = _in_newest_form(data, *EARLIER[data[:HEADER_SIZE_BYTES]])
    cursor = Cursor(data, HEADER_SIZE_BYTES)
    try:
        value = read(cursor)
    except MalformedRecordError:
        raise
    except Exception as error:  # whatever the bytes lead a reader into: their end, text that is none, ...
        raise MalformedRecordError(f"the bytes are no {record}: {type(error).__name__} {error}"[:300]) from None
    if cursor.at != len(data):
        raise MalformedRecordError(f"{len(data) - cursor.at} bytes too many after the {record}")
    return value


def _in_newest_form(data: bytes, record: str, written: str, newest: str) -> bytes:
    """Bytes of an earlier version as those of the newest one, by Avro's rules of schema resolution."""
    from fastavro import schemaless_reader, schemaless_writer

    earlier, latest = _parsed(schemas_dir() / written), _parsed(schemas_dir() / newest)
    try:
        fields: Any = schemaless_reader(
            BytesIO(data[HEADER_SIZE_BYTES:]), earlier, latest, return_record_name=True, return_named_type=True
        )
        buffer = BytesIO()
        schemaless_writer(buffer, latest, fields)
    except Exception as error:  # the decoder raises whatever the bytes lead it into
        raise MalformedRecordError(f"the bytes are no {record}: {type(error).__name__} {error}"[:300]) from None
    return HEADERS[record] + buffer.getvalue()


@cache
def _parsed(path: Path) -> Any:
    from fastavro import parse_schema

    return parse_schema(json.loads(path.read_text(encoding="utf-8")))


def _no_header(data: bytes) -> MalformedRecordError:
    if data[:2] != MARKER:
        return MalformedRecordError(
            f"no Avro single-object record: it starts with {data[:4].hex() or 'nothing'}, not c301"
        )
    if len(data) < HEADER_SIZE_BYTES:
        return MalformedRecordError(f"no Avro single-object record: only {len(data)} bytes")
    fingerprint = data[2:HEADER_SIZE_BYTES].hex()
    return UnknownSchemaError(f"unknown schema fingerprint {fingerprint}; known are those of this version's schemas")
