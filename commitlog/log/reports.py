"""What the log's client says about single records. It is compiled: there is one for every proposal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mypy_extensions import mypyc_attr

from commitlog.log.triage import in_words

WITHOUT_OFFSET = "acknowledged without an offset"
"""What went wrong with a record that the client only supposes to have been written."""


@mypyc_attr(acyclic=True)
class Report:
    """What became of one record: where it is, or what went wrong, or neither."""

    __slots__ = ("error", "offset")

    def __init__(self, offset: int | None, error: str | None = None) -> None:
        self.offset = offset
        self.error = error

    def __repr__(self) -> str:
        return f"Report({self.offset}, {self.error!r})"


class Delivery:
    """Is called by the client when it knows what became of one record of several; ``on_report`` is told by its index."""

    __slots__ = ("_index", "_on_report")

    def __init__(self, on_report: Callable[[int, Report], None], index: int) -> None:
        self._on_report = on_report
        self._index = index

    def __call__(self, error: Any, message: Any) -> None:
        """Takes the client's error, or the message as it was written."""
        report = Report(None, in_words(error)) if error is not None else Report(offset_of(message))
        self._on_report(self._index, report)


def offset_of(message: Any) -> int | None:
    """Where a message was written; None where the client only supposes it, which it says by no offset or a negative one."""
    offset: int | None = message.offset()
    return offset if offset is not None and offset >= 0 else None
