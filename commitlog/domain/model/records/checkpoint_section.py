"""Generated from schemas/checkpoint_section.avsc by `make records`: the values."""

from __future__ import annotations

from typing import ClassVar, Final

from mypy_extensions import mypyc_attr

from commitlog.domain.model.record import Record
from commitlog.domain.model.values import Plain


@mypyc_attr(acyclic=True)
class CheckpointSection(Record):
    """A part of a checkpoint, which is an Avro container file: the sequencer's state as plain values, long lists in pieces.

    name: Which part.
    whole: Whether items holds the section's one value, not some of its list.
    items: The values.
    """

    __slots__ = ("items", "name", "whole")

    FIELDS: ClassVar[tuple[str, ...]] = ("name", "whole", "items")

    def __init__(self, name: str, whole: bool, items: list[Plain]) -> None:
        self.name: Final = name
        self.whole: Final = whole
        self.items: Final = items
