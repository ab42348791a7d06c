"""The line between a program and the carrier of its machine: a socket with a name in the file system, and what goes over it.

Each message begins with its length and its kind. A program says first which log it means and is welcomed; then it sends
proposals, and gets a receipt for each. Whoever has no answer to give hangs up, and nothing that was sent is lost by that: the
program proposes it again by itself, and the log decides an id once.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from struct import Struct
from typing import NamedTuple

from commitlog.domain.model import ProposalId

VERSION = b"commitlog carrier 2"
HELLO, WELCOME, PROPOSAL, RECEIPT, PING, PONG = range(1, 7)
ID_BYTES = 16
RECEIVED_BYTES = 32 * 1024
"""What is read at once. Beyond 64 KiB, each buffer that is let go has the system's allocator tidy up all that is free."""
_HEAD = Struct("<IB")
_PROPOSAL = Struct("<16sII?")
_ADDRESS_BYTES_MAX = 100
"""A socket's address has room for 107 bytes, on some systems for 103."""
_BODY_BYTES_MAX = 256 * 1024 * 1024


class UnknownMessageError(ValueError):
    """What came is no message of this version."""


class Letter(NamedTuple):
    """A proposal as a program gives it to the carrier.

    Attributes:
        proposal_id: its id.
        writer_id: whose it is.
        encoded: as it lies in the log.
        traceparent: the span that it was sent in.
        is_awaited: whoever proposes it proposes nothing more before the answer comes.
    """

    proposal_id: ProposalId
    writer_id: str
    encoded: bytes
    traceparent: str | None = None
    is_awaited: bool = True

    def as_message(self) -> bytes:
        """As it goes over the line."""
        writer, span = self.writer_id.encode(), (self.traceparent or "").encode()
        head = _PROPOSAL.pack(self.proposal_id, len(writer), len(span), self.is_awaited)
        return message(PROPOSAL, head + writer + span + self.encoded)

    @classmethod
    def of(cls, body: bytes) -> Letter:
        """What came over the line; UnknownMessageError where it is none."""
        if len(body) < _PROPOSAL.size:
            raise UnknownMessageError(f"a proposal of {len(body)} bytes")
        proposal_id, writer_size, span_size, is_awaited = _PROPOSAL.unpack_from(body)
        writer_end = _PROPOSAL.size + writer_size
        span_end = writer_end + span_size
        try:
            writer_id, traceparent = body[_PROPOSAL.size : writer_end].decode(), body[writer_end:span_end].decode()
        except UnicodeDecodeError:
            raise UnknownMessageError("a proposal whose writer is no text") from None
        return cls(proposal_id, writer_id, body[span_end:], traceparent or None, is_awaited)


def message(kind: int, body: bytes = b"") -> bytes:
    """As it goes over the line."""
    return _HEAD.pack(len(body), kind) + body


class Messages:
    """Cuts what came over a line into its messages."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def cut(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """The messages that are whole now, by kind and body.

        Raises:
            UnknownMessageError: it is none.
        """
        rest, begin = self._rest, 0
        rest += data
        while len(rest) - begin >= _HEAD.size:
            size, kind = _HEAD.unpack_from(rest, begin)
            if size > _BODY_BYTES_MAX or not HELLO <= kind <= PONG:
                raise UnknownMessageError(f"a message of kind {kind} with {size:,} bytes")
            end = begin + _HEAD.size + size
            if end > len(rest):
                break
            yield kind, bytes(rest[begin + _HEAD.size : end])
            begin = end
        del rest[:begin]


def hello(log_id: bytes) -> bytes:
    """What a program says first."""
    return message(HELLO, log_id + VERSION)


@contextmanager
def address_of(path: Path) -> Iterator[str]:
    """The address of a socket at a path, however long that is where the system has a short name for its folder."""
    if len(os.fsencode(path)) <= _ADDRESS_BYTES_MAX:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def new_socket() -> socket.socket:
    """One of a line, or that waits for such; OSError where the system has none."""
    return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
