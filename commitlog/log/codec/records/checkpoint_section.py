"""Generated from schemas/checkpoint_section.avsc by `make records`: their bytes."""

from __future__ import annotations

from librt.strings import BytesWriter

from commitlog.domain.model.records.checkpoint_section import CheckpointSection
from commitlog.log.codec.avro import Cursor, flag, text
from commitlog.log.codec.values import read_plain, write_plain


def write_checkpoint_section(out: BytesWriter, it: CheckpointSection) -> None:
    """Writes a CheckpointSection, as `schemas/checkpoint_section.avsc` has it."""
    text(out, it.name)
    flag(out, it.whole)
    write_plain(out, it.items)


def read_checkpoint_section(cursor: Cursor) -> CheckpointSection:
    """Reads a CheckpointSection."""
    return CheckpointSection(name=cursor.text(), whole=cursor.flag(), items=read_plain(cursor))
