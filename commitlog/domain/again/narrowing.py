"""Which narrower filter of a read would have kept files appended since its base out of it.

Each file tells by its partition values or statistics which range of a column it holds. A column tells the appended files
apart from what was read when one comparison lies beyond the range of all of them. Which of its two sides is offered
follows the files that were there to be read, as far as the window remembers them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from commitlog.domain import model as m
from commitlog.domain.deciding.proofs import (
    Bound,
    Comparable,
    comparable,
    excludes,
    held_by_partition,
    held_by_statistics,
    lists_of,
    may_be_cut,
    statistics_of,
)
from commitlog.domain.deciding.rules import StatisticsDecoder
from commitlog.domain.model.definitions import Column, TableDefinition
from commitlog.domain.model.types import ColumnType, fold
from commitlog.domain.state.index import SequencerState, TableState


@dataclass(frozen=True, slots=True)
class Narrowing:
    """One more condition for a read, and why it helps: the appended files hold the column from ``low`` to ``high``.

    low, high: as the files' writers gave them; None is unknown, both None that they hold only NULL.
    """

    read: int
    schema: str
    table: str
    predicate: m.Predicate
    low: m.Scalar
    high: m.Scalar


class _Span(NamedTuple):
    """What a set of files holds of a column; a bound is None when it is not known."""

    low: Bound | None
    high: Bound | None


_File = tuple[m.DataFile, Mapping[str, m.ColumnStatistics]]


def narrowings(
    state: SequencerState, index: int, read: m.TableRead, base: int, decode: StatisticsDecoder | None
) -> tuple[Narrowing, ...]:
    """The conditions of one column each that would have kept what was appended since the base out of a read that met it.

    Columns that the read filters on come first, then those that tell the appended files from the ones that were read,
    then those of which only the appended files are known.
    """
    table = state.entry_named(read.schema, read.table, base)
    if not isinstance(table, TableState) or base < state.index_floor or not table.is_known_at(base):
        return ()
    definition = table.definition
    met: list[_File] = []
    held: list[_File] = []
    listed = lists_of(definition, read.filter)
    for each in table.appended.files:
        is_old, file = each.snapshot_id <= base, each.file
        if is_old and read.files is not None and each.data_file_id not in read.files:
            continue
        if not excludes(definition, file, read.filter, decode, listed):
            (held if is_old else met).append((file, statistics_of(file, decode)))
    assert met, "no file was appended since, so nothing was to be kept out"
    filtered = list(dict.fromkeys(definition.column(each.column).column_id for each in read.filter))
    found = [
        (rank, Narrowing(index, read.schema, read.table, predicate, *_given(span)))
        for column in definition.columns
        if (span := _span_of(definition, column, met)) is not None
        for rank, predicate in _predicates(definition, column, read, span, held, column.column_id in filtered)
    ]
    return tuple(narrowing for _, narrowing in sorted(found, key=lambda each: each[0]))


def _given(span: _Span) -> tuple[m.Scalar, m.Scalar]:
    return (None if span.low is None else span.low.given, None if span.high is None else span.high.given)


# --- which side -------------------------------------------------------------------------------------------------------

_FILTERED, _TELLS_APART, _UNKNOWN = range(3)
_EMPTY = _Span(None, None)


def _predicates(
    table: TableDefinition, column: Column, read: m.TableRead, span: _Span, held: list[_File], is_filtered: bool
) -> Iterator[tuple[int, m.Predicate]]:
    """The condition on one column that leaves the span out and something of the read in, with its rank; or none."""
    own = [each for each in read.filter if fold(each.column) == fold(column.name)]
    if span is _EMPTY:
        if not any(each.op is m.FilterOp.IS_NULL for each in own):
            yield (_FILTERED if is_filtered else _UNKNOWN), m.Predicate(column.name, m.FilterOp.IS_NOT_NULL)
        return
    sides = [side for side in _sides(span) if all(_leaves_something(column.type, each, side) for each in own)]
    there = _span_of(table, column, held) if held else None
    apart = [side for side in sides if there is not None and there is not _EMPTY and _holds(side, there)]
    if apart:
        yield (_FILTERED if is_filtered else _TELLS_APART), m.Predicate(column.name, apart[0].op, apart[0].bound.given)
    elif sides and (is_filtered or not held):
        yield (_FILTERED if is_filtered else _UNKNOWN), m.Predicate(column.name, sides[0].op, sides[0].bound.given)


class _Side(NamedTuple):
    op: m.FilterOp
    bound: Bound


def _sides(span: _Span) -> Iterator[_Side]:
    if span.low is not None:
        yield _Side(m.FilterOp.LT, span.low)
    if span.high is not None and (span.high.exact or not may_be_cut(span.high.order)):
        yield _Side(m.FilterOp.GT, span.high)


def _leaves_something(data_type: ColumnType, predicate: m.Predicate, side: _Side) -> bool:
    """Whether a condition of the read can be met beyond the bound."""
    first, last = _limits(data_type, predicate)
    if predicate.op is m.FilterOp.IS_NULL:
        return False
    if side.op is m.FilterOp.LT:
        return first is None or first < side.bound.order  # type: ignore[operator]
    return last is None or last > side.bound.order  # type: ignore[operator]


def _limits(data_type: ColumnType, predicate: m.Predicate) -> tuple[Comparable | None, Comparable | None]:
    values = predicate.value if isinstance(predicate.value, tuple) else (predicate.value,)
    limits = [each for each in (comparable(data_type, value) for value in values) if each is not None]
    if not limits:
        return None, None
    match predicate.op:
        case m.FilterOp.LT | m.FilterOp.LE:
            return None, limits[0]
        case m.FilterOp.GT | m.FilterOp.GE:
            return limits[0], None
        case _:
            return min(limits), max(limits)


def _holds(side: _Side, there: _Span) -> bool:
    """Whether all that was there lies beyond the bound."""
    if side.op is m.FilterOp.LT:
        return there.high is not None and there.high.order < side.bound.order  # type: ignore[operator]
    return there.low is not None and there.low.order > side.bound.order  # type: ignore[operator]


# --- ranges -----------------------------------------------------------------------------------------------------------


def _span_of(table: TableDefinition, column: Column, files: list[_File]) -> _Span | None:
    """What the files hold of a column together; None when nothing is known, ``_EMPTY`` when they hold only NULL."""
    spans = [_span_in(table, column, *file) for file in files]
    full = [span for span in spans if span is not _EMPTY]
    if not full:
        return _EMPTY
    lows = [None if span is None else span.low for span in full]
    highs = [None if span is None else span.high for span in full]
    low = None if None in lows else min((b for b in lows if b), key=lambda bound: bound.order)
    high = None if None in highs else max((b for b in highs if b), key=lambda bound: bound.order)
    return None if low is None and high is None else _Span(low, high)


def _span_in(
    table: TableDefinition, column: Column, file: m.DataFile, statistics: Mapping[str, m.ColumnStatistics]
) -> _Span | None:
    for held in (held_by_partition(table, file, column), held_by_statistics(table, file, statistics, column)):
        if held is not None:
            if not held.may_be_value:
                return _EMPTY
            if held.low is not None or held.high is not None:
                return _Span(held.low, held.high)
    return None
