"""PostgreSQL's wire, version 3, as far as a gateway must understand it: frames, the startup, and the answers it gives itself.

Pure. A frame is a letter, the length of what follows with itself, and the body; the startup alone has no letter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

VERSION_3 = 3
CANCEL_REQUEST = 80877102
SSL_REQUEST = 80877103
GSS_REQUEST = 80877104
STARTUP_BYTES_MAX = 10_000
MESSAGE_BYTES_MAX = 256 * 1024 * 1024
"""A commit of 10,000 files is one text of a few megabytes."""

_AUTHENTICATION_SASL = b"\x00\x00\x00\x0a"
_BOUND = b"SCRAM-SHA-256-PLUS\x00"

QUERY = b"Q"
ERROR = b"E"
AUTHENTICATION = b"R"
LET_IN = b"R\x00\x00\x00\x08\x00\x00\x00\x00"
HEADER_BYTES = 5
READY = b"Z\x00\x00\x00\x05"
IDLE, IN_TRANSACTION, FAILED = b"I", b"T", b"E"
NO_TLS, TLS = b"N", b"S"

REFUSED_STATE = "P0001"
FORBIDDEN_STATE = "42501"
UNKNOWN_STATE = "08006"


@dataclass(frozen=True, slots=True)
class Startup:
    """The first message of a session.

    Attributes:
        code: what it asks for: a version of the protocol, or one of the requests above.
        options: user, database and so on.
        raw: the message as it came.
    """

    code: int
    options: Mapping[str, str]
    raw: bytes

    @property
    def user(self) -> str:
        """The login."""
        return self.options.get("user", "")

    @property
    def database(self) -> str:
        """The database, which is the login's name where nothing is said."""
        return self.options.get("database") or self.user


def read_startup(body: bytes) -> Startup:
    """The first message, from what follows its length."""
    code = int.from_bytes(body[:4], "big")
    options: dict[str, str] = {}
    if code >> 16 == VERSION_3:
        parts = body[4:].split(b"\x00")
        names = zip(parts[::2], parts[1::2], strict=False)
        options = {name.decode(errors="replace"): value.decode(errors="replace") for name, value in names if name}
    return Startup(code, options, (len(body) + 4).to_bytes(4, "big") + body)


def frame(kind: bytes, body: bytes) -> bytes:
    """A message."""
    return kind + (len(body) + 4).to_bytes(4, "big") + body


def query(text: str) -> bytes:
    """A simple query."""
    return frame(QUERY, text.encode() + b"\x00")


PING = query("SELECT 1")
PONG = b"".join(
    (
        frame(b"T", b"\x00\x01?column?\x00" + bytes(6) + b"\x00\x00\x00\x17\x00\x04\xff\xff\xff\xff\x00\x00"),
        frame(b"D", b"\x00\x01\x00\x00\x00\x011"),
        frame(b"C", b"SELECT 1\x00"),
        READY + IDLE,
    )
)
"""What pools of clients ask to learn whether a connection is well, and PostgreSQL's answer outside of a transaction."""


def without_binding(message: bytes) -> bytes:
    """A message of PostgreSQL's; where it offers ways to give a password, without the one that is bound to TLS."""
    kind, body = message[:1], message[HEADER_BYTES:]
    if kind != AUTHENTICATION or not body.startswith(_AUTHENTICATION_SASL):
        return message
    return frame(kind, body.replace(_BOUND, b""))


def completed(tag: str, state: bytes) -> bytes:
    """The answer to a statement that succeeded, and the state that the session is in then."""
    return frame(b"C", tag.encode() + b"\x00") + READY + state


def refused(message: str, state: bytes, *, code: str = REFUSED_STATE) -> bytes:
    """The answer to a statement that failed, and the state that the session is in then."""
    return error("ERROR", message, code) + READY + state


def notice(message: str) -> bytes:
    """What a client is told beside an answer."""
    return frame(b"N", _fields("WARNING", message, "01000"))


def error(severity: str, message: str, code: str) -> bytes:
    """An error alone; after a FATAL one the connection is closed."""
    return frame(b"E", _fields(severity, message, code))


def error_said(message: bytes) -> str:
    """What an error, or the first of several, says in words."""
    fields = message[5 : 1 + int.from_bytes(message[1:5], "big")].split(b"\x00")
    return next((each[1:].decode(errors="replace") for each in fields if each[:1] == b"M"), "no words")


def _fields(severity: str, message: str, code: str) -> bytes:
    told = {"S": severity, "V": severity, "C": code, "M": message}
    return b"".join(f"{name}{value}".encode() + b"\x00" for name, value in told.items()) + b"\x00"
