"""The folders of schemas and tables in the lake: the projector names them, and clients know those of plain names before."""

from __future__ import annotations

import re
from uuid import UUID, uuid5

_PLAIN_NAME = re.compile(r"[A-Za-z0-9_-]{1,255}")
"""No file system takes a folder with a longer name."""


def object_uuid(log_id: bytes, kind: str, object_id: int) -> UUID:
    """The uuid of a schema, table or view: made of the log and the id, so that a rebuilt catalog has the same."""
    return uuid5(UUID(bytes=log_id), f"{kind}/{object_id}")


def is_plain(name: str) -> bool:
    """Whether a schema or table of that name has a folder of that name."""
    return _PLAIN_NAME.fullmatch(name) is not None


def path_of(name: str, fallback: str) -> str:
    """The folder of a schema or table: its name where that is plain, else its uuid."""
    return f"{name if is_plain(name) else fallback}/"
