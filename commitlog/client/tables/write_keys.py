"""Keys that people give a write, so that doing it again commits nothing: what they are as writers and their numbers."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from commitlog.client.arguments import shown
from commitlog.client.tables.names import folded, parse_table_name
from commitlog.domain.model.texts import check_text
from commitlog.errors import InvalidRequestError

# One text for each number: branch:007 and branch:7 are two keys. What begins as the writers of others do is one of these.
_NUMBERED = re.compile(r"(?!key:)(.+):(0|[1-9][0-9]{0,17})", re.DOTALL)
_OF_TABLE = re.compile(r"@[^@.]+\.[^@]+$")


class WriteKey(NamedTuple):
    """The writer and its number that a key stands for: the log commits one proposal with them, whatever happens."""

    writer_id: str
    writer_seq: int


def parse_key(key: Any) -> WriteKey:
    """What a key stands for: ``nightly:20240131`` is number 20240131 of writer nightly, any other text a writer of its own.

    Raises:
        InvalidRequestError: it is no text, or none that can be sent.
    """
    if not isinstance(key, str) or not key.strip():
        raise InvalidRequestError(f"key must be a text that names the write, such as 'load:1', not {shown(key)}")
    try:
        check_text(key, "a key")
    except ValueError as error:
        raise InvalidRequestError(str(error)) from None
    numbered = _NUMBERED.fullmatch(key)
    return WriteKey(f"key:{key}", 0) if numbered is None else WriteKey(numbered[1], int(numbered[2]))


def writer_to_table(writer_id: str, table: str) -> str:
    """The writer of a key's part for one table: a name that people choose for a load may be that of each table's part of it."""
    return f"{writer_id}@{folded(parse_table_name(table))}"


def key_of(write: WriteKey) -> str:
    """The key that stands for a writer and its number, as `parse_key` takes it, without the table that it is a part for."""
    name = _OF_TABLE.sub("", write.writer_id)
    return (
        name.removeprefix("key:") if name.startswith("key:") and not write.writer_seq else f"{name}:{write.writer_seq}"
    )


def table_key(key: Any, table: str) -> WriteKey:
    """What a key of a write to one table stands for.

    Raises:
        InvalidRequestError: it is no text, or none that can be sent.
    """
    parsed = parse_key(key)
    return parsed._replace(writer_id=writer_to_table(parsed.writer_id, table))
