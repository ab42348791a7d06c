"""The newest file appended since a base in which a filter may find a row.

Most searches find none, and would look at every file since the base. So files that were appended one after another are
looked at together: a block of 16, 256 or 4,096 of them tells of a column which values its files span, exactly as far as one
column alone goes. It is summed up when a search first gets there, and kept with the table's appended files until the window
has passed it. A block in which a row may be found is taken apart, down to files, which ``proofs.excludes`` judges: blocks
save work, and never have a say.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from commitlog.domain.deciding.proofs import (
    Bound,
    Held,
    Listed,
    Readings,
    excludes,
    held_by_partition,
    held_by_statistics,
    is_vacuous,
    lists_of,
    may_be_cut,
    readings_together,
    statistics_of,
)
from commitlog.domain.deciding.rules import StatisticsDecoder
from commitlog.domain.model import DataFile, FilterOp, Predicate
from commitlog.domain.model.definitions import Column, TableDefinition
from commitlog.domain.state.files import AppendedFile
from commitlog.domain.state.index import TableState

BLOCK_SIZES = (4096, 256, 16)
"""Largest first, each a multiple of the next."""

_LAST_CHARACTER = "\U0010ffff"
_Value: TypeAlias = Any
"""One that compares with all others of its column."""


def newest_match(
    table: TableState,
    conjunction: tuple[Predicate, ...],
    base_snapshot_id: int,
    decode: StatisticsDecoder | None,
    sizes: Sequence[int] = BLOCK_SIZES,
) -> AppendedFile | None:
    """The newest file since the base of which it is not proved that no row of it matches."""
    definition, files = table.definition, table.appended.files
    if any(is_vacuous(definition.column(each.column).type, each) for each in conjunction):
        return None
    first = bisect_right(files, base_snapshot_id, key=_snapshot_of)
    blocks = _blocks_of(table, decode, sizes)
    listed = lists_of(definition, conjunction)
    questions = [_Question(definition, *each) for each in zip(conjunction, listed, strict=True)]
    at = len(files)
    while at > first:
        passed = blocks.passed(at, questions)
        if passed:
            at -= passed
            continue
        at -= 1
        if not excludes(definition, files[at].file, conjunction, decode, listed):
            return files[at]
    return None


def _snapshot_of(appended: AppendedFile) -> int:
    return appended.snapshot_id


def _blocks_of(table: TableState, decode: StatisticsDecoder | None, sizes: Sequence[int]) -> _Blocks:
    """Those that were kept, if what they tell is still told in the same way."""
    kept = table.appended.kept
    if (
        isinstance(kept, _Blocks)
        and kept.definition_changed_at == table.definition_changed_at
        and kept.decode is decode
        and kept.sizes == sizes
    ):
        kept.forget_gone()
        return kept
    table.appended.kept = blocks = _Blocks(table, decode, sizes)
    return blocks


# --- what is asked ----------------------------------------------------------------------------------------------------


class _Range:
    """Values from ``first`` to ``last``; None is no bound."""

    def __init__(self, first: _Value, last: _Value, *, without_first: bool = False, without_last: bool = False) -> None:
        self.first = first
        self.last = last
        self.without_first = without_first
        self.without_last = without_last


class _Question:
    """A predicate, made ready to be asked of many blocks."""

    def __init__(self, table: TableDefinition, predicate: Predicate, listed: Listed | None) -> None:
        self.column = table.column(predicate.column)
        self.op = predicate.op
        self.listed = listed
        self.ranges = [] if listed is not None else _ranges(self.column, predicate)


def _ranges(column: Column, predicate: Predicate) -> list[_Range]:
    """The values that satisfy a predicate; none for one that asks for NULL."""
    given = predicate.value if isinstance(predicate.value, tuple) else (predicate.value,)
    values = readings_together(column.type, given)
    firsts = [None if value is None else value.least for value in values]
    lasts = [None if value is None else value.greatest for value in values]
    match predicate.op:
        case FilterOp.EQ:
            return [_Range(firsts[0], lasts[0])]
        case FilterOp.BETWEEN:
            return [_Range(firsts[0], lasts[1])]
        case FilterOp.LT:
            return [_Range(None, lasts[0], without_last=True)]
        case FilterOp.LE:
            return [_Range(None, lasts[0])]
        case FilterOp.GT:
            return [_Range(firsts[0], None, without_first=True)]
        case FilterOp.GE:
            return [_Range(firsts[0], None)]
        case _:
            return []


# --- what a block tells -----------------------------------------------------------------------------------------------


class _Step:
    """Some file's values begin at ``low`` (None: unknown), and those of all that begin there or lower reach to ``end``.

    Of text ``end`` is the first that lies beyond, of all else the last value; None is unknown.
    """

    def __init__(self, low: _Value, end: _Value) -> None:
        self.low = low
        self.end = end


class _Spans:
    """Which values of a column the files of a block span, as stairs: both sides of the steps rise.

    The first step may have no low, and the last one no end.
    """

    def __init__(self, may_be_null: bool, steps: Iterable[_Step]) -> None:
        self.may_be_null = may_be_null
        self.steps = _stairs(steps)
        self.begins_anywhere = bool(self.steps) and self.steps[0].low is None
        self.lows = [step.low for step in self.steps if step.low is not None]

    def exclude(self, question: _Question) -> bool:
        """Whether no value of a file satisfies a predicate, for each file on its own."""
        if question.op is FilterOp.IS_NULL:
            return not self.may_be_null
        if question.op is FilterOp.IS_NOT_NULL:
            return not self.steps
        if question.listed is not None:
            return self._exclude_listed(question.listed)
        return all(self._exclude_range(asked) for asked in question.ranges)

    def _exclude_listed(self, listed: Listed) -> bool:
        if not listed.is_known:
            return not self.steps
        if len(listed.least) <= len(self.steps):
            ranges = zip(listed.least, listed.greatest, strict=True)
            return all(self._exclude_range(_Range(first, last)) for first, last in ranges)
        return all(_is_beyond(listed.first_from(step.low), step.end) for step in self.steps)

    def _exclude_range(self, asked: _Range) -> bool:
        if asked.last is None:
            count = len(self.lows)
        elif asked.without_last:
            count = bisect_left(self.lows, asked.last)
        else:
            count = bisect_right(self.lows, asked.last)
        if self.begins_anywhere:
            count += 1
        if count == 0:
            return True
        first, end = asked.first, self.steps[count - 1].end
        if first is None or end is None:
            return False
        if isinstance(first, str):
            return bool((first + "\0" if asked.without_first else first) >= end)
        return bool(first >= end if asked.without_first else first > end)


def _is_beyond(first: Readings | None, end: _Value) -> bool:
    """Whether a step has ended before the first of some values, if there is one, begins."""
    if first is None:
        return True
    if end is None:
        return False
    least: _Value = first.least
    return bool(least >= end if isinstance(end, str) else least > end)


def _stairs(steps: Iterable[_Step]) -> list[_Step]:
    stairs: list[_Step] = []
    for step in sorted(steps, key=_by_low):
        if stairs:
            top = stairs[-1]
            if top.end is None:
                break
            if step.end is not None and step.end <= top.end:
                continue
            if step.low == top.low:
                stairs.pop()
        stairs.append(step)
    return stairs


def _by_low(step: _Step) -> tuple[bool, _Value]:
    return step.low is not None, step.low


def _spans_of_files(held: Iterable[Held | None]) -> _Spans:
    may_be_null = False
    steps = []
    for each in held:
        told = _UNTOLD if each is None else each
        may_be_null = may_be_null or told.may_be_null
        if told.may_be_value:
            steps.append(_Step(None if told.low is None else told.low.order, _end(told.high)))
    return _Spans(may_be_null, steps)


_UNTOLD = Held()


def _end(high: Bound | None) -> _Value:
    if high is None or not isinstance(high.order, str):
        return None if high is None else high.order
    if high.exact or not may_be_cut(high.order):
        return high.order + "\0"
    # What was cut short to it begins with it.
    most = high.order.rstrip(_LAST_CHARACTER)
    return most[:-1] + chr(ord(most[-1]) + 1) if most else None


class _Told:
    """What a block tells of a column, by partition values and by statistics."""

    def __init__(self, by_partition: _Spans, by_statistics: _Spans) -> None:
        self.by_partition = by_partition
        self.by_statistics = by_statistics


def _told_by_files(
    table: TableDefinition, column: Column, files: Sequence[DataFile], decode: StatisticsDecoder | None
) -> _Told:
    held = [each for each in files if each.record_count > 0]
    return _Told(
        _spans_of_files([held_by_partition(table, each, column) for each in held]),
        _spans_of_files([held_by_statistics(table, each, statistics_of(each, decode), column) for each in held]),
    )


def _merged(parts: Sequence[_Spans]) -> _Spans:
    return _Spans(any(each.may_be_null for each in parts), [step for each in parts for step in each.steps])


# --- blocks -----------------------------------------------------------------------------------------------------------


class _Blocks:
    """What is known of a table's blocks, by column, size and number; block n holds files n * size and on."""

    def __init__(self, table: TableState, decode: StatisticsDecoder | None, sizes: Sequence[int]) -> None:
        self.definition_changed_at = table.definition_changed_at
        self.decode = decode
        self.sizes = sizes
        self._table = table
        self._told: dict[int, list[dict[int, _Told]]] = {}
        self._gone = table.appended.gone

    def passed(self, at: int, questions: Sequence[_Question]) -> int:
        """How many files before the one at an index can be passed over together, for the predicates exclude each; 0 if none."""
        number = self._table.appended.gone + at
        for level, size in enumerate(self.sizes):
            if number % size == 0 and size <= at:
                for question in questions:
                    told = self._tell(question.column, level, number // size - 1)
                    if told.by_partition.exclude(question) or told.by_statistics.exclude(question):
                        return size
        return 0

    def forget_gone(self) -> None:
        """Drop those that the window has passed, once there are many."""
        gone = self._table.appended.gone
        if gone - self._gone < self.sizes[0]:
            return
        self._gone = gone
        for levels in self._told.values():
            for level, size in enumerate(self.sizes):
                levels[level] = {number: told for number, told in levels[level].items() if number * size >= gone}

    def _tell(self, column: Column, level: int, number: int) -> _Told:
        levels = self._told.get(column.column_id)
        if levels is None:
            levels = self._told[column.column_id] = [{} for _ in self.sizes]
        told = levels[level].get(number)
        if told is None:
            told = levels[level][number] = self._sum_up(column, level, number)
        return told

    def _sum_up(self, column: Column, level: int, number: int) -> _Told:
        size = self.sizes[level]
        if level == len(self.sizes) - 1:
            appended = self._table.appended
            start = number * size - appended.gone
            files = [appended.files[at].file for at in range(start, start + size)]
            return _told_by_files(self._table.definition, column, files, self.decode)
        count = size // self.sizes[level + 1]
        parts = [self._tell(column, level + 1, each) for each in range(number * count, (number + 1) * count)]
        return _Told(_merged([each.by_partition for each in parts]), _merged([each.by_statistics for each in parts]))
