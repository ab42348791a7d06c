"""Table names as people write them: ``flights``, ``main.flights``, ``"odd.schema"."a ""quoted"" name"``."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from commitlog.client.arguments import checked_text
from commitlog.domain.model.types import fold
from commitlog.errors import InvalidRequestError

DEFAULT_SCHEMA = "main"
_PART = r'"(?:[^"]|"")*"|[^."]+'
_NAME = re.compile(rf"({_PART})(?:\.({_PART}))?")
_PLAIN = re.compile(r'[^."]+')


class TableName(NamedTuple):
    """A schema and the name of a table or view in it."""

    schema: str
    name: str

    def __str__(self) -> str:
        return f"{quote_part(self.schema)}.{quote_part(self.name)}"


def folded(named: tuple[str, str]) -> TableName:
    """A schema and a name in it, as tables are compared by them."""
    return TableName(fold(named[0]), fold(named[1]))


def parse_table_name(text: str) -> TableName:
    """Split a name into schema and table; without a schema it is ``main``.

    A part that holds a dot or a double quote stands in double quotes, with double quotes inside doubled.

    Raises:
        InvalidRequestError: the text is no such name; the message shows how to write it.
    """
    return _parsed(checked_text("the name of a table", text))


@lru_cache(maxsize=1_000)
def _parsed(text: str) -> TableName:
    match = _NAME.fullmatch(text)
    if match is None:
        raise InvalidRequestError(
            f'{text[:80]!r} is no table name: write schema.table or table, and parts with dots or quotes as "like.this"; a '
            "shell takes such quotes for its own unless single ones are around them: 'main.\"like.this\"'"
        )
    first, second = match.groups()
    if second is None:
        return TableName(DEFAULT_SCHEMA, _unquoted(first))
    return TableName(_unquoted(first), _unquoted(second))


@lru_cache(maxsize=1_000)
def quote_part(part: str) -> str:
    """A part of a name as ``parse_table_name`` reads it back."""
    return part if _PLAIN.fullmatch(part) else '"' + part.replace('"', '""') + '"'


def _unquoted(part: str) -> str:
    return part[1:-1].replace('""', '"') if part.startswith('"') else part
