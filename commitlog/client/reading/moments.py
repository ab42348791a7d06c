"""Which snapshot a reader means."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Protocol

from commitlog.client.arguments import checked_count, shown
from commitlog.errors import InvalidRequestError

if TYPE_CHECKING:
    from commitlog.client.access.contents import Contents


class ReadLog(Protocol):
    """What a reader asks of its log, which is a ``CommitLog``."""

    def head_snapshot_id(self) -> int: ...

    def contents(self) -> Contents: ...


def snapshot_of(log: ReadLog, snapshot: int | None, timestamp: datetime | str | None) -> int:
    """The snapshot that an id or a moment names; without both the newest, with all that was committed before.

    Raises:
        InvalidRequestError: both are given, or one of them cannot be read.
        SnapshotNotFoundError: there is no such snapshot, or not any more.
        MomentNotFoundError: the moment is before the oldest snapshot.
    """
    if snapshot is not None and timestamp is not None:
        raise InvalidRequestError("give a snapshot or a timestamp to read at, not both")
    head = log.head_snapshot_id()
    if snapshot is not None:
        log.contents().check_snapshot(checked_count("snapshot", snapshot))
        return snapshot
    return head if timestamp is None else log.contents().snapshot_at(as_moment("timestamp", timestamp))


def as_moment(what: str, given: datetime | str) -> datetime:
    """A moment as programs give it: a datetime, or ISO 8601, in UTC unless it says otherwise.

    Raises:
        InvalidRequestError: it is neither; ``what`` is what the message calls it.
    """
    try:
        found = datetime.fromisoformat(given) if isinstance(given, str) else given
        if isinstance(found, date) and not isinstance(found, datetime):
            found = datetime(found.year, found.month, found.day)
        return found if found.tzinfo else found.replace(tzinfo=UTC)
    except (ValueError, AttributeError):
        raise InvalidRequestError(
            f"{what} must be a datetime, or a text such as '2026-01-31T12:30:00', in UTC unless it says otherwise, not "
            f"{shown(given)}"
        ) from None
