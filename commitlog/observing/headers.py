"""The span that a record was sent in, as one of its headers."""

from __future__ import annotations

from typing import Any

HEADER = "traceparent"
"""The W3C's, in ASCII."""

Headers = list[tuple[str, str | bytes | None]] | dict[str, str | bytes | None]


def traceparent_in(headers: Headers | None) -> str | None:
    """What a record's headers say of the span that it was sent in."""
    for name, value in headers.items() if isinstance(headers, dict) else headers or ():
        if name == HEADER and value is not None:
            return value if isinstance(value, str) else value.decode("ascii", "replace")
    return None


def headers_of(traceparent: str | None) -> dict[str, Any]:
    """How a record is sent in a span, as an argument of a producer's; nothing for none."""
    return {} if traceparent is None else {"headers": [(HEADER, traceparent.encode("ascii"))]}
