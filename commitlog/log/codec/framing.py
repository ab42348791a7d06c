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


def opened(data: bytes, record: str, read: Callable[[Cursor], T], *, expands: bool = False) -> T:
    """The value in the bytes of a record; ``expands`` as `Cursor` has it.

    Raises:
        MalformedRecordError: for anything that is not exactly one such record.
    """
    if data[:HEADER_SIZE_BYTES] != HEADERS[record]:
        found = record_of(data)
        if found != record:
            raise MalformedRecordError(f"a record of kind {found}, not {record}")
        _, written, newest = EARLIER[data[:HEADER_SIZE_BYTES]]
        body = resolved(data[HEADER_SIZE_BYTES:], record, schema_in(written), schema_in(newest))
        data = HEADERS[record] + body
    cursor = Cursor(data, HEADER_SIZE_BYTES, expands=expands)
    try:
        value = read(cursor)
    except MalformedRecordError:
        raise
    except Exception as error:  # whatever the bytes lead a reader into: their end, text that is none, ...
        raise MalformedRecordError(f"the bytes are no {record}: {type(error).__name__} {error}"[:300]) from None
    if cursor.at != len(data):
        raise MalformedRecordError(f"{len(data) - cursor.at} bytes too many after the {record}")
    return value


def resolved(body: bytes, record: str, written: Any, newest: Any) -> bytes:
    """A record's body by one schema as that by another, by Avro's rules of schema resolution.

    Raises:
        MalformedRecordError: there is no such body, or none that the other schema can hold.
    """
    from fastavro import schemaless_reader, schemaless_writer

    source, buffer = BytesIO(body), BytesIO()
    try:
        fields: Any = schemaless_reader(source, written, newest, return_record_name=True, return_named_type=True)
        schemaless_writer(buffer, newest, fields)
    except Exception as error:  # the decoder raises whatever the bytes lead it into
        raise MalformedRecordError(f"the bytes are no {record}: {type(error).__name__} {error}"[:300]) from None
    if source.tell() < len(body):
        raise MalformedRecordError(f"{len(body) - source.tell()} bytes too many after the {record}")
    return buffer.getvalue()


@cache
def schema_in(file: str) -> Any:
    """The schema in a file of `schemas_dir`, as fastavro takes it."""
    from fastavro import parse_schema

    return parse_schema(json.loads((schemas_dir() / file).read_text(encoding="utf-8")))


def _no_header(data: bytes) -> MalformedRecordError:
    if data[:2] != MARKER:
        return MalformedRecordError(
            f"no Avro single-object record: it starts with {data[:4].hex() or 'nothing'}, not c301"
        )
    if len(data) < HEADER_SIZE_BYTES:
        return MalformedRecordError(f"no Avro single-object record: only {len(data)} bytes")
    fingerprint = data[2:HEADER_SIZE_BYTES].hex()
    return UnknownSchemaError(f"unknown schema fingerprint {fingerprint}; known are those of this version's schemas")
