"""Headers of a record, such as the span that it was sent in."""

from __future__ import annotations

from typing import Any

HEADER = "traceparent"
"""The W3C's, in ASCII."""

Headers = list[tuple[str, str | bytes | None]] | dict[str, str | bytes | None]


def value_of(headers: Headers | None, header: str) -> str | None:
    """What a record's headers say by a name."""
    for name, value in headers.items() if isinstance(headers, dict) else headers or ():
        if name == header and value is not None:
            return value if isinstance(value, str) else value.decode("ascii", "replace")
    return None


def traceparent_in(headers: Headers | None) -> str | None:
    """What a record's headers say of the span that it was sent in."""
    return value_of(headers, HEADER)


def headers_of(traceparent: str | None, *more: tuple[str, bytes]) -> dict[str, Any]:
    """How a record is sent in a span, with more headers, as an argument of a producer's; nothing for none."""
    span = () if traceparent is None else ((HEADER, traceparent.encode("ascii")),)
    return {"headers": [*span, *more]} if span or more else {}
