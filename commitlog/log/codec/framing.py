"""Avro single-object encoding, and which schemas there are.

A record is C3 01, the CRC-64-AVRO fingerprint of its schema (little endian), and the body. Every file in ``schemas/`` is
known by its fingerprint: ``<record>.avsc`` is the version that is written, ``<record>.<n>.avsc`` an earlier one, whose
records are read as the newest one's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

from fastavro import parse_schema, schemaless_reader, schemaless_writer
from fastavro.schema import fingerprint, to_parsing_canonical_form

from commitlog.errors import MalformedRecordError

MARKER = b"\xc3\x01"
HEADER_SIZE_BYTES = 10
REGISTRY_MARKER = b"\x00"


class Schema(NamedTuple):
    """One version of a record's schema; ``newer`` is the one that its records are read as, None for the newest."""

    record: str
    header: bytes
    parsed: Any
    newer: Any


def load_schemas(directory: Path) -> tuple[dict[str, Schema], dict[bytes, Schema]]:
    """The newest version of each record by its name, and every version by its header."""
    newest: dict[str, Schema] = {}
    for path in sorted(directory.glob("*.avsc")):
        if path.stem.count(".") == 0:
            schema = _load(path, None)
            newest[schema.record] = schema
    by_header = {schema.header: schema for schema in newest.values()}
    for path in directory.glob("*.*.avsc"):
        record = json.loads(path.read_text(encoding="utf-8"))["name"]
        earlier = _load(path, newest[record].parsed)
        by_header[earlier.header] = earlier
    return newest, by_header


def _load(path: Path, newer: Any) -> Schema:
    plain = json.loads(path.read_text(encoding="utf-8"))
    crc = fingerprint(to_parsing_canonical_form(plain), "CRC-64-AVRO")
    return Schema(plain["name"], MARKER + bytes.fromhex(crc), parse_schema(plain), newer)


def schemas_dir() -> Path:
    """Where the schemas are: inside an installed package, beside it in a source tree."""
    package = Path(__file__).resolve().parents[2]
    installed = package / "schemas"
    return installed if installed.is_dir() else package.parent / "schemas"


NEWEST, BY_HEADER = load_schemas(schemas_dir())


class UnknownSchemaError(MalformedRecordError):
    """A record of ours by its marker, of a schema that is not among this version's."""


def writer_of(record: str) -> Callable[[Mapping[str, Any]], bytes]:
    """A function that encodes one kind of record. Text that UTF-8 cannot hold and numbers beyond 64 bits raise."""
    schema = NEWEST[record]
    header, parsed = schema.header, schema.parsed

    def write(datum: Mapping[str, Any]) -> bytes:
        buffer = BytesIO()
        buffer.write(header)
        schemaless_writer(buffer, parsed, datum)
        return buffer.getvalue()

    return write


def read(data: bytes, *expected: str) -> tuple[str, dict[str, Any]]:
    """The record's name and its fields; in a Proposal the records in unions come as (name, fields).

    Raises:
        MalformedRecordError: for anything that is not exactly one of the expected records.
    """
    schema = schema_of(data)
    if schema.record not in expected:
        raise MalformedRecordError(f"a record of kind {schema.record}, not {' or '.join(expected)}")
    return schema.record, _read_body(data, schema)


def schema_of(data: bytes) -> Schema:
    """The schema that a record's header names.

    Raises:
        UnknownSchemaError: none of this version's.
        MalformedRecordError: there is no such header.
    """
    schema = BY_HEADER.get(data[:HEADER_SIZE_BYTES])
    if schema is None:
        raise _no_header(data)
    return schema


def _read_body(data: bytes, schema: Schema) -> dict[str, Any]:
    buffer = BytesIO(data)
    buffer.seek(HEADER_SIZE_BYTES)
    try:
        named = schema.record == "Proposal"
        fields: dict[str, Any] = schemaless_reader(buffer, schema.parsed, schema.newer, return_record_name=named)  # type: ignore[assignment]
    except Exception as error:  # the decoder raises whatever the bytes lead it into
        raise MalformedRecordError(f"the bytes are no {schema.record}: {type(error).__name__} {error}"[:300]) from None
    if buffer.tell() != len(data):
        raise MalformedRecordError(f"{len(data) - buffer.tell()} bytes too many after the {schema.record}")
    return fields


def _no_header(data: bytes) -> MalformedRecordError:
    if data[:2] != MARKER:
        hint = " (a schema registry's wire format is not read)" if data[:1] == REGISTRY_MARKER else ""
        return MalformedRecordError(
            f"no Avro single-object record: it starts with {data[:4].hex() or 'nothing'}, not c301{hint}"
        )
    if len(data) < HEADER_SIZE_BYTES:
        return MalformedRecordError(f"no Avro single-object record: only {len(data)} bytes")
    fingerprint = data[2:HEADER_SIZE_BYTES].hex()
    return UnknownSchemaError(f"unknown schema fingerprint {fingerprint}; known are those of this version's schemas")
