"""Outcomes shared out to SQL transactions, so that each stays within what a default PostgreSQL has room for.

A transaction keeps a lock on every SQL table that it makes or touches until it ends, and PostgreSQL has room for some 6,400
of all sessions together. What an outcome is going to touch is told by its changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol, TypeVar

from commitlog.domain import model as m

LOCKS_MAX = 2_000
"""Of one SQL transaction, unless a single outcome takes more."""

_ALWAYS = 100
"""On the tables that every catalog has, and by what guards them."""
_FOR_CATALOG = 400
_FOR_NEW_TABLE = 8
_FOR_TABLE = 4


class HasValue(Protocol):
    """A record of the results."""

    @property
    def value(self) -> m.Genesis | m.Outcome: ...


RecordT = TypeVar("RecordT", bound=HasValue)


def shared_out(records: Sequence[RecordT]) -> Iterator[list[RecordT]]:
    """The records in their order, as many together as one SQL transaction may take."""
    share: list[RecordT] = []
    locks = _ALWAYS
    for record in records:
        more = locks_of(record.value)
        if share and locks + more > LOCKS_MAX:
            yield share
            share, locks = [], _ALWAYS
        share.append(record)
        locks += more
    if share:
        yield share


def locks_of(value: m.Genesis | m.Outcome) -> int:
    """About how many locks it takes to project a record, beyond those on the tables that every catalog has."""
    if isinstance(value, m.Genesis):
        return _FOR_CATALOG
    if value.verdict is not m.Verdict.COMMITTED or value.proposal is None:
        return 0
    made = 0
    touched: set[tuple[str, str]] = set()
    for change in value.proposal.changes:
        match change:
            case m.Append():
                pass
            case m.CreateTable() | m.AlterTable():
                made += 1
            case m.Delete() | m.InsertRow() | m.UpdateRow() | m.DeleteRow() | m.Flush():
                touched.add((change.schema, change.table))
    return made * _FOR_NEW_TABLE + len(touched) * _FOR_TABLE
