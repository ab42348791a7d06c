"""Generated from schemas/checkpoint_section.avsc by `make records`: their bytes."""

from __future__ import annotations

from commitlog.domain.model.records.checkpoint_section import CheckpointSection
from commitlog.log.codec.avro import Cursor, flag, text
from commitlog.log.codec.values import plain_bytes, read_plain


def checkpoint_section_bytes(it: CheckpointSection) -> bytes:
    """The bytes of a CheckpointSection, as `schemas/checkpoint_section.avsc` has it."""
    return b"".join((text(it.name), flag(it.whole), plain_bytes(it.items)))


def read_checkpoint_section(cursor: Cursor) -> CheckpointSection:
    """Reads a CheckpointSection."""
    return CheckpointSection(name=cursor.text(), whole=cursor.flag(), items=read_plain(cursor))
