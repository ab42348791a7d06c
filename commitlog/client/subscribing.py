"""Outcomes as they come, for a program that goes on where it stopped."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import TracebackType
from weakref import WeakSet

from commitlog.client.access.log_access import GroupPosition
from commitlog.client.tables.names import folded, parse_table_name
from commitlog.domain.model import Outcome
from commitlog.errors import InvalidRequestError


class Subscription(Iterator[Outcome]):
    """Outcomes in the log's order. Made by ``log.subscribe``; with a ``group`` it keeps the position.

    Whoever asks for the next outcome, or leaves the ``with`` block without an exception, has handled those before. Where a
    signal or an error has ended the asking, the next one goes on there.

    Args:
        begin: gives the outcomes after a seq, as many at once as are there, and none now and then while none come.
        after_seq: where a group begins that has no position, and whoever has none.
        is_asked: which outcomes are given out.
        position: the group's.
    """

    def __init__(
        self,
        begin: Callable[[int], Iterator[Sequence[Outcome]]],
        after_seq: int,
        is_asked: Callable[[Outcome], bool],
        position: GroupPosition | None,
    ) -> None:
        self._is_asked = is_asked
        self._position = position
        self._given: int | None = None
        self._is_closed = False
        stored = None if position is None else position.seq()
        self._begin = begin
        self._after_seq = after_seq if stored is None else stored
        self._outcomes: Iterator[Outcome] | None = None
        _subscriptions.add(self)

    def __next__(self) -> Outcome:
        if self._is_closed:
            raise StopIteration
        self._store()
        try:
            outcome = self._next_asked()
        except BaseException:
            # What was read and not given out is read again: a signal may end this anywhere, and a broker be away.
            self._outcomes = None
            raise
        if outcome is None:
            self.close()
            raise StopIteration
        self._given = self._after_seq = outcome.seq
        return outcome

    def _next_asked(self) -> Outcome | None:
        if self._outcomes is None:
            self._outcomes = self._read()
        for outcome in self._outcomes:
            if self._is_closed:
                return None
            if self._is_asked(outcome):
                return outcome
            self._given = self._after_seq = outcome.seq
            self._store()
        return None

    def _read(self) -> Iterator[Outcome]:
        """What comes, until it is closed, by which another thread or a signal ends the waiting."""
        for outcomes in self._begin(self._after_seq):
            if self._is_closed:
                return
            if self._position is not None and not outcomes:
                self._position.keep()
            yield from outcomes

    def __enter__(self) -> Subscription:
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error_type is None and not self._is_closed:
            self._store()
        self.close()

    def close(self) -> None:
        """Give out nothing more, and end the waiting; the outcome that was given out last counts as not handled."""
        if not self._is_closed:
            self._is_closed = True
            if self._position is not None:
                self._position.close()

    def _store(self) -> None:
        if self._position is not None and self._given is not None:
            self._position.store(self._given)
        self._given = None

    def _leave_to_parent(self) -> None:
        from commitlog.log.connection import leave_to_parent

        leave_to_parent((self._outcomes, self._position))
        self._begin, self._outcomes, self._position = _none_here, None, None


def _none_here(after_seq: int) -> Iterator[Sequence[Outcome]]:
    """In a process made by fork: what its parent's subscription gives out."""
    raise InvalidRequestError(
        "the process that made this one goes on with the subscription: call log.subscribe here, too"
    )
    yield


_subscriptions: WeakSet[Subscription] = WeakSet()


def _leave_all_to_parent() -> None:
    for subscription in list(_subscriptions):
        subscription._leave_to_parent()


os.register_at_fork(after_in_child=_leave_all_to_parent)


def changes_one_of(tables: Iterable[str] | None) -> Callable[[Outcome], bool]:
    """Whether an outcome changed one of these tables, dropped its schema, or was refused a change of one; None is any.

    Raises:
        InvalidRequestError: a name cannot be one.
    """
    if tables is None:
        return lambda _: True
    from commitlog.client.access.history_entries import schemas_dropped, tables_of

    wanted = {folded(parse_table_name(each)) for each in tables}
    schemas = {schema for schema, _ in wanted}

    def is_asked(outcome: Outcome) -> bool:
        return any(folded(each) in wanted for each in tables_of(outcome)) or not schemas.isdisjoint(
            schemas_dropped(outcome)
        )

    return is_asked
