"""Ids of proposals, and what is told from ids alone: the time in a proposal's id, the partition of a writer's proposals.

The partition is that of Java's default partitioner (murmur2), the same in every client.

librdkafka's own default is another hash (CRC32), so the partition is always set explicitly.
"""

from __future__ import annotations

import re
from functools import lru_cache

from commitlog.domain.model.values import ProposalId, shown
from commitlog.errors import MalformedRecordError

_UUID = re.compile(r"[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")

_EXAMPLE = "01934f3e-7c00-7000-8000-000000000001"

_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Return the 32-bit murmur2 hash of ``data`` as Kafka's Java client computes it."""
    length = len(data)
    h = (_SEED ^ length) & _MASK
    whole = length & ~3
    for i in range(0, whole, 4):
        k = int.from_bytes(data[i : i + 4], "little")
        k = (k * _M) & _MASK
        k ^= k >> 24
        k = (k * _M) & _MASK
        h = ((h * _M) & _MASK) ^ k
    if tail := data[whole:]:
        h = ((h ^ int.from_bytes(tail, "little")) * _M) & _MASK
    h ^= h >> 13
    h = (h * _M) & _MASK
    return h ^ (h >> 15)


@lru_cache(maxsize=65_536)
def partition_for(writer_id: str, partitions: int) -> int:
    """Return the partition of ``writer_id``; text that UTF-8 cannot hold counts with its escapes."""
    return (murmur2(writer_id.encode("utf-8", "backslashreplace")) & 0x7FFFFFFF) % partitions


def id_time_ms(proposal_id: bytes) -> int | None:
    """The time in a UUID version 7, ms since 1970; None for other versions, and variants that are not RFC 9562's."""
    if proposal_id[6] >> 4 != 7 or proposal_id[8] >> 6 != 0b10:
        return None
    time_ms = 0
    for at in range(6):
        time_ms = time_ms << 8 | proposal_id[at]
    return time_ms


def format_id(proposal_id: ProposalId) -> str:
    """The text of a 16-byte id: ``01934f3e-7c00-7000-8000-000000000001``."""
    digits = proposal_id.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def parse_id(text: object) -> ProposalId:
    """The 16 bytes of a UUID in its usual text form; raises MalformedRecordError for anything else."""
    if not isinstance(text, str) or _UUID.fullmatch(text) is None:
        raise MalformedRecordError(f"proposal_id: {shown(text)} is no UUID as text, such as {_EXAMPLE}")
    return bytes.fromhex(text.replace("-", ""))
