"""Ids of proposals: UUID version 7, made by the client before it sends, so that a repeat can be recognised."""

from __future__ import annotations

import hashlib
import os
import secrets
import socket
import threading
import time
from typing import Any
from uuid import UUID

from commitlog.client.arguments import shown
from commitlog.domain.model.ids import partition_for
from commitlog.errors import InvalidRequestError

_COUNTER_BITS = 12
_AHEAD_MS_MAX = 10_000
"""A clock that was set back by more was wrong before, and its ids with it: they go by the right one from then on."""
_lock = threading.Lock()
_last = 0


def new_proposal_id() -> bytes:
    """The 16 bytes of a new id; ids of one process are in the order in which they were made, unless its clock is set back."""
    global _last
    with _lock:
        # The time in units of 1/4096 ms, so that the 12 bits behind the milliseconds keep the order.
        tick = (time.time_ns() << _COUNTER_BITS) // 1_000_000
        if _last - tick < _AHEAD_MS_MAX << _COUNTER_BITS:
            tick = max(tick, _last + 1)
        _last = tick
    return id_at(tick >> _COUNTER_BITS, tick & 0xFFF, int.from_bytes(os.urandom(8), "big"))


def _begin_in_child() -> None:
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_begin_in_child)


def uuid7() -> UUID:
    """A new UUID version 7, such as proposals have; in order as `new_proposal_id`."""
    return UUID(bytes=new_proposal_id())


def random_id() -> bytes:
    """The 16 bytes of a UUID version 4."""
    noise = int.from_bytes(os.urandom(16), "big")
    return (noise & ~(0xF << 76 | 0b11 << 62) | 0x4 << 76 | 0b10 << 62).to_bytes(16, "big")


def id_at(time_ms: int, counter: int, noise: int) -> bytes:
    """The UUID version 7 of a time, a 12-bit counter and 62 bits of noise."""
    value = (time_ms & (2**48 - 1)) << 80 | 0x7 << 76 | (counter & 0xFFF) << 64 | 0b10 << 62 | noise & (2**62 - 1)
    return value.to_bytes(16, "big")


def new_writer_id(partitions: int = 1) -> str:
    """A name of this process's own, which tells where it runs.

    The names of all processes of a machine are in one of so many partitions: what they propose can go together, and be answered
    together.
    """
    host = socket.gethostname()
    partition = partition_for(host, partitions)
    while True:
        name = f"{host}-{os.getpid()}-{secrets.token_hex(4)}"
        if partition_for(name, partitions) == partition:
            return name


def id_of_content(time_ms: int, content: bytes) -> bytes:
    """The UUID version 7 of a time that the same content has each time."""
    noise = int.from_bytes(hashlib.sha256(content).digest()[:10], "big")
    return id_at(time_ms, noise >> 62, noise)


def as_proposal_id(value: Any) -> bytes:
    """The 16 bytes of an id given as bytes, text or UUID.

    Raises:
        InvalidRequestError: the value is no UUID.
    """
    if isinstance(value, UUID):
        return value.bytes
    if isinstance(value, bytes):
        if len(value) != 16:
            raise InvalidRequestError(f"a proposal id has 16 bytes, not {len(value)}")
        return value
    try:
        return UUID(value).bytes
    except (ValueError, TypeError, AttributeError):
        raise InvalidRequestError(f"{shown(value)} is no proposal id: it must be a UUID") from None
