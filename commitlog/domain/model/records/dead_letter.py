"""Generated from schemas/dead_letter.avsc by `make records`: the values."""

from __future__ import annotations

from typing import ClassVar, Final

from mypy_extensions import mypyc_attr

from commitlog.domain.model.record import Record


@mypyc_attr(acyclic=True)
class DeadLetter(Record):
    """Bytes that are no proposal, and where they came from.

    log_id: Of the log.
    seq: Of the MALFORMED outcome.
    topic: Where the bytes came from.
    partition: Its partition.
    offset: Its offset there.
    detail: Why it was refused.
    decided_at_ms: When, ms since 1970.
    key: The message's key; null: none.
    value_size_bytes: The size of the bytes as they came.
    value: The bytes as they came; cut off where value_size_bytes is larger; null: a message without a value.
    """

    __slots__ = (
        "decided_at_ms",
        "detail",
        "key",
        "log_id",
        "offset",
        "partition",
        "seq",
        "topic",
        "value",
        "value_size_bytes",
    )

    FIELDS: ClassVar[tuple[str, ...]] = (
        "log_id",
        "seq",
        "topic",
        "partition",
        "offset",
        "detail",
        "decided_at_ms",
        "key",
        "value_size_bytes",
        "value",
    )

    def __init__(
        self,
        log_id: bytes,
        seq: int,
        topic: str,
        partition: int,
        offset: int,
        detail: str,
        decided_at_ms: int,
        key: bytes | None,
        value_size_bytes: int,
        value: bytes | None,
    ) -> None:
        self.log_id: Final = log_id
        self.seq: Final = seq
        self.topic: Final = topic
        self.partition: Final = partition
        self.offset: Final = offset
        self.detail: Final = detail
        self.decided_at_ms: Final = decided_at_ms
        self.key: Final = key
        self.value_size_bytes: Final = value_size_bytes
        self.value: Final = value
