"""The wire format of Confluent's serializers: a zero, the id that a registry gave the schema, and the body.

A log holds no such records: `relay` turns them into the log's own before they come to it, and the log's into them after. Which
schema an id means it asks; nobody else does.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from commitlog.errors import MalformedRecordError
from commitlog.log.codec.framing import HEADER_SIZE_BYTES, resolved, schema_in, schemas_dir
from commitlog.log.codec.records.headers import HEADERS

_FRAME = struct.Struct(">bI")
_SCHEMAS_KEPT = 1_000


def framed(data: bytes, schema_id: int) -> bytes:
    """A record of a log in Confluent's framing, for the id of its schema."""
    return _FRAME.pack(0, schema_id) + data[HEADER_SIZE_BYTES:]


def unframed(data: bytes, record: str) -> bytes:
    """A record's own bytes, of those in Confluent's framing that this version has made."""
    return HEADERS[record] + data[_FRAME.size :]


def proposal_in(data: bytes | None, schema_of: Callable[[int], str]) -> bytes:
    """A proposal's own bytes, of those in Confluent's framing.

    Args:
        data: a message's value.
        schema_of: the text of the schema that an id means.

    Raises:
        MalformedRecordError: it is none, or none that this version's schema can hold.
    """
    if data is None or len(data) < _FRAME.size or data[0] != 0:
        start = "nothing" if not data else data[: _FRAME.size].hex()
        raise MalformedRecordError(
            f"no record in Confluent's framing: it starts with {start}, not 00 and a schema's id"
        )
    _, schema_id = _FRAME.unpack_from(data)
    body = data[_FRAME.size :]
    written, is_ours = _proposals_schema(schema_of(schema_id))
    return HEADERS["Proposal"] + (body if is_ours else resolved(body, "Proposal", written, schema_in("proposal.avsc")))


def schema_text(file: str) -> str:
    """The schema in a file of `schemas_dir`, for a registry."""
    return (schemas_dir() / file).read_text(encoding="utf-8")


@lru_cache(_SCHEMAS_KEPT)
def _proposals_schema(text: str) -> tuple[Any, bool]:
    """The schema, and whether it is the one that this version writes."""
    from fastavro.schema import fingerprint, parse_schema, to_parsing_canonical_form

    try:
        given = json.loads(text)
        name = given.get("name") if isinstance(given, dict) else given
        if name is None or str(name).rpartition(".")[2] != "Proposal":
            raise MalformedRecordError(f"the schema is of {name or 'no record'}, not of commitlog.Proposal")
        written = parse_schema(given)
        crc = fingerprint(to_parsing_canonical_form(given), "CRC-64-AVRO")
    except MalformedRecordError:
        raise
    except Exception as error:  # the parser raises whatever the schema leads it into
        raise MalformedRecordError(f"the schema cannot be read: {type(error).__name__} {error}"[:300]) from None
    return written, bytes.fromhex(crc) == HEADERS["Proposal"][2:]
