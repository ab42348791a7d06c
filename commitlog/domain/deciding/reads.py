"""Read sets under SERIALIZABLE: was anything that the writer read changed since its base? (rules.md 4, 12.13-14, 12.24)

A filter excludes a file when one of its conjuncts alone proves, from partition values or column statistics, that no row of
the file can match. Whatever is missing, of another type or possibly cut short proves nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date
from decimal import Decimal
from typing import TypeAlias, assert_never

from commitlog.domain import model as m
from commitlog.domain.deciding.conflicts import Hit, hit_kind, object_of
from commitlog.domain.model.definitions import InvalidChangeError, TableDefinition, quoted
from commitlog.domain.model.types import FLOATS, INTEGER_BITS, TIMESTAMPS, ColumnType, canonical_value, fold
from commitlog.domain.state.index import ROW_CHANGES, SchemaState, SequencerState, TableState, ViewState
from commitlog.domain.state.row_keys import given_key, shown_key

StatisticsDecoder: TypeAlias = Callable[[bytes], tuple[m.ColumnStatistics, ...]]

_COMPARED_AS_TEXT = frozenset({"varchar", "uuid"})
_COMPARED_AS_TIME = frozenset({"date", "time", *TIMESTAMPS})
_CUT_LENGTH_MIN = 8
"""No known writer cuts text bounds shorter than this many bytes; a longer maximum may be a prefix of the real one."""


def find_read_hits(
    state: SequencerState, read: m.Read, base: int, decode_statistics: StatisticsDecoder | None
) -> Iterator[Hit]:
    """What was committed since the base to what was read; InvalidChangeError for a read that never could be."""
    match read:
        case m.TableRead():
            yield from _table_hits(state, read, base, decode_statistics)
        case m.NameRead():
            yield from _name_hits(state, read, base)
        case m.RowsRead():
            yield from _rows_hits(state, read, base)
        case _:
            assert_never(read)


def _read_table(state: SequencerState, schema_name: str, name: str, base: int) -> TableState:
    schema = state.schema_at(fold(schema_name), base)
    entry = None if schema is None else state.entry_at(schema, fold(name), base)
    if not isinstance(entry, TableState):
        is_view = isinstance(entry, ViewState)
        code, what = (
            (m.InvalidCode.NOT_A_TABLE, "is a view") if is_view else (m.InvalidCode.TABLE_MISSING, "did not exist")
        )
        raise InvalidChangeError(
            code, f"a read names table {quoted(schema_name)}.{quoted(name)}, which {what} at snapshot {base}"
        )
    return entry


def definition_hits(table: TableState, base: int) -> Iterator[Hit]:
    """What was committed since the base to a table as such, after which its filters mean nothing certain."""
    for kind in (m.ChangeKind.DROP_TABLE, m.ChangeKind.DROP_SCHEMA, m.ChangeKind.RENAME_TABLE):
        if table.last.get(kind, -1) > base:
            yield Hit(hit_kind(table, kind), table.last[kind], object_of(table))
    if table.definition_changed_at > base:
        yield Hit(m.ConflictKind.TABLE_ALTERED, table.definition_changed_at, object_of(table))


# --- TABLE ------------------------------------------------------------------------------------------------------------


def _table_hits(
    state: SequencerState, read: m.TableRead, base: int, decode_statistics: StatisticsDecoder | None
) -> Iterator[Hit]:
    table = _read_table(state, read.schema, read.table, base)
    changed = list(definition_hits(table, base))
    yield from changed
    if not changed:
        for predicate in read.filter:
            table.definition.column(predicate.column)
    for data_file_id in read.files or ():
        _check_file_read(state, table, data_file_id, base)
    yield from _append_hits(state, table, read, base, decode_statistics, same_definition=not changed)
    yield from _delete_hits(state, table, read, base)
    rows_changed = table.last_of(ROW_CHANGES)
    if rows_changed > base:
        yield Hit(m.ConflictKind.TABLE_ROWS_CHANGED, rows_changed, object_of(table))


def _check_file_read(state: SequencerState, table: TableState, data_file_id: int, base: int) -> None:
    if data_file_id < 0:
        raise InvalidChangeError(
            m.InvalidCode.NUMBER_NEGATIVE, f"a read lists data file {data_file_id}: ids are not negative"
        )
    if data_file_id in table.live_files or (table.dropped_at is not None and data_file_id < state.next_file_id):
        return
    if data_file_id < state.next_file_id:
        if base < state.index_floor:
            if max(table.last.get(m.ChangeKind.DELETE, -1), table.last.get(m.ChangeKind.COMPACT, -1)) > base:
                return
        else:
            history = state.file_history.get(data_file_id)
            if history is not None and history.table_id == table.table_id and (history.ended_at or -1) > base:
                return
    raise InvalidChangeError(
        m.InvalidCode.FILE_UNKNOWN,
        f"a read lists data file {data_file_id}, which table {quoted(table.name)} did not hold",
    )


def _append_hits(
    state: SequencerState,
    table: TableState,
    read: m.TableRead,
    base: int,
    decode_statistics: StatisticsDecoder | None,
    *,
    same_definition: bool,
) -> Iterator[Hit]:
    last = table.last.get(m.ChangeKind.APPEND, -1)
    if last <= base:
        return
    if base < state.index_floor or not same_definition:
        yield Hit(m.ConflictKind.TABLE_APPENDED, last, object_of(table))
        return
    for snapshot_id, _, file in reversed(table.appended):
        if snapshot_id <= base:
            return
        if not excludes(table.definition, file, read.filter, decode_statistics):
            yield Hit(m.ConflictKind.TABLE_APPENDED, snapshot_id, object_of(table))
            return


def _delete_hits(state: SequencerState, table: TableState, read: m.TableRead, base: int) -> Iterator[Hit]:
    last = table.last.get(m.ChangeKind.DELETE, -1)
    if last <= base:
        return
    if read.files is None or base < state.index_floor:
        yield Hit(m.ConflictKind.TABLE_DELETED_FROM, last, object_of(table))
        return
    for data_file_id in dict.fromkeys(read.files):
        history = state.file_history.get(data_file_id)
        if history is not None and history.last_delete() > base:
            yield Hit(
                m.ConflictKind.TABLE_DELETED_FROM, history.last_delete(), object_of(table, data_file_id=data_file_id)
            )


# --- NAME -------------------------------------------------------------------------------------------------------------


def _name_hits(state: SequencerState, read: m.NameRead, base: int) -> Iterator[Hit]:
    folded = fold(read.schema)
    for event in reversed(state.schema_names.get(folded, ())):
        if event.snapshot_id <= base:
            break
        if event.schema is not None:
            yield Hit(m.ConflictKind.SCHEMA_CREATED, event.snapshot_id, object_of(event.schema))
    schema = state.schema_at(folded, base)
    if schema is None:
        return
    if schema.dropped_at is not None and schema.dropped_at > base:
        yield Hit(m.ConflictKind.SCHEMA_DROPPED, schema.dropped_at, object_of(schema))
    for name in sorted(schema.names) if read.name is None else [fold(read.name)]:
        yield from _name_event_hits(state, schema, name, base)


def _name_event_hits(state: SequencerState, schema: SchemaState, name: str, base: int) -> Iterator[Hit]:
    before = state.entry_at(schema, name, base)
    for event in state.name_events_after(schema, name, base):
        entry = event.entry if event.entry is not None else before
        if entry is not None and not (event.entry is None and event.kind is m.ChangeKind.DROP_SCHEMA):
            yield Hit(hit_kind(entry, event.kind), event.snapshot_id, object_of(entry))
        if isinstance(before, ViewState) and before.last.get(m.ChangeKind.REPLACE_VIEW, -1) > base:
            yield Hit(m.ConflictKind.VIEW_REPLACED, before.last[m.ChangeKind.REPLACE_VIEW], object_of(before))
        before = event.entry
    if isinstance(before, ViewState) and before.last.get(m.ChangeKind.REPLACE_VIEW, -1) > base:
        yield Hit(m.ConflictKind.VIEW_REPLACED, before.last[m.ChangeKind.REPLACE_VIEW], object_of(before))


# --- ROWS -------------------------------------------------------------------------------------------------------------


def _rows_hits(state: SequencerState, read: m.RowsRead, base: int) -> Iterator[Hit]:
    table = _read_table(state, read.schema, read.table, base)
    if not table.definition.keyed:
        raise InvalidChangeError(
            m.InvalidCode.PRIMARY_KEY_MISSING,
            f"a read names rows of table {quoted(table.name)}, which has no primary key",
        )
    changed = list(definition_hits(table, base))
    yield from changed
    if changed:
        return
    keys = [given_key(table.definition, key) for key in read.keys]
    if base < state.index_floor:
        last = table.last_of(ROW_CHANGES)
        if last > base:
            yield Hit(m.ConflictKind.TABLE_ROWS_CHANGED, last, object_of(table))
        return
    assert table.rows is not None
    for key in keys:
        if (last := table.rows.last_change(key)) > base:
            yield Hit(m.ConflictKind.ROW_CHANGED, last, object_of(table, row_key=shown_key(key)))


# --- proofs from statistics -------------------------------------------------------------------------------------------


def excludes(
    table: TableDefinition, file: m.DataFile, conjunction: tuple[m.Predicate, ...], decode: StatisticsDecoder | None
) -> bool:
    """Whether it is proved that no row of the file matches the conjunction."""
    if file.record_count == 0:
        return True
    statistics = file.statistics
    if isinstance(statistics, bytes):
        statistics = () if decode is None else decode(statistics)
    by_name = {fold(column.column): column for column in statistics}
    for predicate in conjunction:
        column = table.column(predicate.column)
        if is_vacuous(column.type, predicate):
            return True
        if _partition_excludes(table, file, column.column_id, column.type, predicate):
            return True
        column_statistics = by_name.get(fold(column.name))
        if column_statistics is not None and _statistics_exclude(
            column.type, file.record_count, column_statistics, predicate
        ):
            return True
    return False


def is_vacuous(data_type: ColumnType, predicate: m.Predicate) -> bool:
    """A predicate that no value satisfies: in [], or between with low above high."""
    if predicate.op is m.FilterOp.IN:
        return predicate.value == ()
    if predicate.op is m.FilterOp.BETWEEN:
        assert isinstance(predicate.value, tuple)
        low, high = (comparable(data_type, value) for value in predicate.value)
        return low is not None and high is not None and high < low  # type: ignore[operator]
    return False


def _partition_excludes(
    table: TableDefinition, file: m.DataFile, column_id: int, data_type: ColumnType, predicate: m.Predicate
) -> bool:
    if file.partition_values is None:
        return False
    for key, value in zip(table.partition_by, file.partition_values, strict=False):
        if key.column_id != column_id or key.transform != "identity":
            continue
        if value is None:
            return predicate.op is not m.FilterOp.IS_NULL
        if predicate.op is m.FilterOp.IS_NULL:
            return True
        point = _partition_point(data_type, value)
        if point is not None and _range_excludes(data_type, point, point, predicate, exact=True):
            return True
    return False


def _partition_point(data_type: ColumnType, value: m.Scalar) -> Comparable | None:
    """A partition's value, which may be the text that DuckLake stores, in the column's value domain."""
    if isinstance(value, str) and data_type.name not in _COMPARED_AS_TIME:
        try:
            shown = canonical_value(data_type, value)
        except ValueError:
            return None
        return comparable(data_type, shown) if isinstance(shown, bool | int | float | str | Decimal) else None
    return comparable(data_type, value)


def _statistics_exclude(
    data_type: ColumnType, record_count: int, column_statistics: m.ColumnStatistics, predicate: m.Predicate
) -> bool:
    all_null = column_statistics.value_count == 0 or column_statistics.null_count == record_count
    if predicate.op is m.FilterOp.IS_NULL:
        return column_statistics.null_count == 0
    if all_null:
        return True
    if predicate.op is m.FilterOp.IS_NOT_NULL:
        return False
    low, high = comparable(data_type, column_statistics.min), comparable(data_type, column_statistics.max)
    if data_type.name in FLOATS and column_statistics.contains_nan is not False:
        high = None
    return _range_excludes(data_type, low, high, predicate, exact=False)


Comparable: TypeAlias = "bool | int | float | Decimal | str | date"


def comparable(data_type: ColumnType, value: m.Scalar | Decimal) -> Comparable | None:
    """A bound or literal in the column's value domain; None when it is missing or of another type: it proves nothing."""
    name = data_type.name
    if value is None:
        return None
    if name == "boolean":
        return value if isinstance(value, bool) else None
    if name in INTEGER_BITS or name in FLOATS:
        return value if isinstance(value, int | float) and not isinstance(value, bool) and value == value else None
    if name == "decimal":
        if isinstance(value, bool) or (isinstance(value, str) and not _is_decimal(value)):
            return None
        return Decimal(str(value))
    if not isinstance(value, Decimal) and (name in _COMPARED_AS_TEXT or name in _COMPARED_AS_TIME):
        try:
            return canonical_value(data_type, value)  # type: ignore[return-value]
        except ValueError:
            return None
    return None


def _is_decimal(text: str) -> bool:
    body = text.removeprefix("-")
    whole, _, fraction = body.partition(".")
    return whole.isascii() and whole.isdigit() and (not fraction or (fraction.isascii() and fraction.isdigit()))


def _range_excludes(
    data_type: ColumnType, low: Comparable | None, high: Comparable | None, predicate: m.Predicate, *, exact: bool
) -> bool:
    """Whether no value from ``low`` to ``high`` (None: unbounded) satisfies the predicate."""
    op, value = predicate.op, predicate.value
    if op is m.FilterOp.IN:
        assert isinstance(value, tuple)
        literals = [comparable(data_type, item) for item in value]
        return all(_below(lit, low) or _above(lit, high, exact) for lit in literals)
    if op is m.FilterOp.BETWEEN:
        assert isinstance(value, tuple)
        first, last = comparable(data_type, value[0]), comparable(data_type, value[1])
        return _below(last, low) or _above(first, high, exact)
    assert not isinstance(value, tuple)
    literal = comparable(data_type, value)
    match op:
        case m.FilterOp.EQ:
            return _below(literal, low) or _above(literal, high, exact)
        case m.FilterOp.LT:
            return _below(literal, low) or (literal is not None and literal == low)
        case m.FilterOp.LE:
            return _below(literal, low)
        case m.FilterOp.GT:
            return _above(literal, high, exact) or (
                literal is not None and literal == high and (exact or not may_be_cut(high))
            )
        case m.FilterOp.GE:
            return _above(literal, high, exact)
    return False


def _below(literal: Comparable | None, low: Comparable | None) -> bool:
    return literal is not None and low is not None and literal < low  # type: ignore[operator]


def _above(literal: Comparable | None, high: Comparable | None, exact: bool) -> bool:
    if literal is None or high is None or not literal > high:  # type: ignore[operator]
        return False
    return exact or not (may_be_cut(high) and isinstance(literal, str) and literal.startswith(str(high)))


def may_be_cut(high: Comparable | None) -> bool:
    """Whether a maximum may be the beginning of a longer one."""
    return isinstance(high, str) and len(high.encode("utf-8", "replace")) >= _CUT_LENGTH_MIN
