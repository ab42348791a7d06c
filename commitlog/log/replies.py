"""Replies: receipts that a sequencer brings to a carrier of its own machine itself, sooner than Kafka does.

A carrier names in a header of each proposal where it can be replied to: a socket beside its own, whose name no other carrier
has. A sequencer that finds it sends receipts there as soon as what they report is accepted, and to Kafka a little later, those
of several batches together. Where it finds none, on another machine or because the carrier is gone, Kafka brings them like all
others. So nothing depends on a reply, and where one is lost the receipt is only late.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator
from pathlib import Path

from commitlog.log.carrier_line import address_of
from commitlog.observing.headers import Headers, value_of

HEADER = "reply_to"
_NAME_BYTES = 8
_NAME = re.compile(rf"[0-9a-f]{{{2 * _NAME_BYTES}}}")
_REPLY_BYTES_MAX = 256 * 1024
"""More than a system lets go at once."""


class ReplySocket:
    """A carrier's end, which it reads when something has come.

    Args:
        carrier_socket: where the carrier listens. What killed ones have left beside it is removed.

    Raises:
        OSError: it cannot be there.

    Attributes:
        name: what its proposals say.
    """

    def __init__(self, carrier_socket: Path) -> None:
        for left in carrier_socket.parent.iterdir():
            if left.stem == carrier_socket.name and _NAME.fullmatch(left.suffix[1:]):
                left.unlink(missing_ok=True)
        self.name = os.urandom(_NAME_BYTES).hex()
        self._path = _path_of(carrier_socket, self.name)
        self._socket = _new_socket()
        self._buffer = bytearray(_REPLY_BYTES_MAX)
        try:
            with address_of(self._path) as address:
                self._socket.bind(address)
            self._path.chmod(0o600)
        except BaseException:
            self._socket.close()
            raise

    def fileno(self) -> int:
        """For a selector."""
        return self._socket.fileno()

    def received(self) -> Iterator[bytes]:
        """What has come."""
        while True:
            try:
                size = self._socket.recv_into(self._buffer)
            except BlockingIOError:
                return
            yield bytes(memoryview(self._buffer)[:size])

    def close(self) -> None:
        """From now on Kafka brings what it would have got."""
        self._path.unlink(missing_ok=True)
        self._socket.close()


class Replier:
    """A sequencer's end.

    Args:
        carrier_socket: where a carrier of this machine listens, if there is one.
    """

    def __init__(self, carrier_socket: Path | None) -> None:
        self._carrier_socket = carrier_socket
        self._socket = _new_socket()
        self._connected_to: str | None = None

    def reply(self, reply_to: str, receipts: bytes) -> bool:
        """Send receipts to whoever is named so; False where nobody on this machine is, or has no room for them now."""
        try:
            if reply_to != self._connected_to and not self._connect(reply_to):
                return False
            self._socket.send(receipts)
        except OSError:
            return False
        return True

    def close(self) -> None:
        """It replies no more."""
        self._socket.close()

    def _connect(self, name: str) -> bool:
        if self._carrier_socket is None or not _NAME.fullmatch(name):
            return False
        with address_of(_path_of(self._carrier_socket, name)) as address:
            self._socket.connect(address)
        self._connected_to = name
        return True


def reply_to_in(headers: Headers | None) -> str | None:
    """Where a proposal's headers say that its receipt may go; anybody may have written them."""
    return None if not headers else value_of(headers, HEADER)


def _path_of(carrier_socket: Path, name: str) -> Path:
    return carrier_socket.with_name(f"{carrier_socket.name}.{name}")


def _new_socket() -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    made.setblocking(False)
    return made
