"""Which snapshot a reader means."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from numbers import Integral
from typing import TYPE_CHECKING, Protocol, TypeAlias

from commitlog.client.arguments import checked_count, shown
from commitlog.errors import InvalidRequestError

if TYPE_CHECKING:
    from commitlog.catalog.queries import CatalogSnapshot
    from commitlog.client.access.contents import Contents


Moment: TypeAlias = datetime | str
"""A datetime; or ISO 8601, an age such as 90m, 12h or 7d, ``today`` or ``yesterday``. UTC unless it says otherwise."""
SnapshotGiven: TypeAlias = int | Moment
"""A snapshot by its id, or as the newest of a moment."""
_AGE = re.compile(r"([0-9]{1,6})([smhdw])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_DAYS_AGO = {"today": 0, "yesterday": 1}


class Clock(Protocol):
    """What time it is for a log."""

    def now(self) -> datetime: ...


class ReadLog(Protocol):
    """What a reader asks of its log, which is a ``CommitLog``."""

    @property
    def access(self) -> Clock: ...

    def head_snapshot_id(self) -> int: ...

    def wait_for_snapshot(self) -> int: ...

    def contents(self) -> Contents: ...


def snapshot_of(
    log: ReadLog, snapshot: SnapshotGiven | None, timestamp: Moment | None = None, *, what: str = "snapshot"
) -> int:
    """The snapshot that an id or a moment names; without both the newest, with all that was committed before.

    ``what`` is what messages call it.

    Raises:
        InvalidRequestError: both are given, one of them cannot be read, or the moment is to come.
        SnapshotNotFoundError: there is no such snapshot, or not any more.
        MomentNotFoundError: the moment is before the oldest snapshot.
    """
    if snapshot is not None and timestamp is not None:
        raise InvalidRequestError("give a snapshot or a timestamp to read at, not both")
    head, now = log.head_snapshot_id(), log.access.now()
    if isinstance(snapshot, str | date):
        return newest_at(log.contents(), what, as_moment(what, snapshot, "an id, a datetime", now=now), now=now)
    if snapshot is not None:
        snapshot_id = checked_count(what, snapshot)
        if snapshot_id > head:
            # With the setting staleness_ms the head may be an older one.
            log.wait_for_snapshot()
        log.contents().check_snapshot(snapshot_id)
        return snapshot_id
    if timestamp is None:
        return head
    return newest_at(log.contents(), "timestamp", as_moment("timestamp", timestamp, now=now), now=now)


def snapshot_named(log: ReadLog, what: str, given: SnapshotGiven) -> int:
    """The snapshot that an id or a moment names, where one has to be named; errors as of ``snapshot_of``."""
    if not isinstance(given, Integral | str | date):
        raise InvalidRequestError(f"{what} must be a snapshot's id or a moment, not {shown(given)}")
    return snapshot_of(log, given, what=what)


def as_moment(what: str, given: Moment, forms: str = "a datetime", *, now: datetime | None = None) -> datetime:
    """A moment as programs and people give it; see ``Moment``. An age is one at ``now``, None by this machine's clock.

    Raises:
        InvalidRequestError: it is none; ``what`` is what the message calls it, ``forms`` what it may be besides a text.
    """
    try:
        found = _moment_of_text(given.strip(), now or datetime.now(UTC)) if isinstance(given, str) else given
        if isinstance(found, date) and not isinstance(found, datetime):
            found = datetime(found.year, found.month, found.day)
        moment = found if found.tzinfo else found.replace(tzinfo=UTC)
        moment.astimezone(UTC)  # Readers ask in UTC, where it may be beyond the first or last year.
        return moment
    except (ValueError, AttributeError, OverflowError):
        raise InvalidRequestError(
            f"{what} must be {forms}, or a text such as '2026-01-31T12:30:00', in UTC unless it says otherwise, '12h', '7d' "
            f"or 'yesterday', not {shown(given)}"
        ) from None


class Snapshots(Protocol):
    """What is asked of a catalog."""

    def snapshot_at(self, moment: datetime) -> int: ...

    def snapshots(self, *, limit: int | None = None) -> list[CatalogSnapshot]: ...


def newest_at(contents: Snapshots, what: str, moment: datetime, *, now: datetime | None = None) -> int:
    """The newest snapshot of a moment, once that is known: a sequencer's clock may be ahead of this one. ``now`` None is by
    this machine's clock.

    Raises:
        InvalidRequestError: the moment is to come; ``what`` is what the message calls it.
        MomentNotFoundError: the moment is before the oldest snapshot.
    """
    now = now or datetime.now(UTC)
    if moment > now and moment > contents.snapshots(limit=1)[0].time:
        raise InvalidRequestError(
            f"{what} must be a moment that has passed: {moment.isoformat()} comes after now, {now.isoformat()}"
        )
    return contents.snapshot_at(moment)


def _moment_of_text(text: str, now: datetime) -> datetime:
    if (days := _DAYS_AGO.get(text.lower())) is not None:
        return now.replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=days)
    if (age := _AGE.fullmatch(text)) is not None:
        return now - timedelta(**{_UNITS[age[2]]: int(age[1])})
    return datetime.fromisoformat(text)
