"""The bytes of values that are more than their Avro type says: rows, row positions, name mappings, filters, plain state.

Each has a function that writes it and one that reads it, by the name that the schema's ``shape`` gives it; and
there are the checks that a record must pass which its schema cannot say. What JSON would call malformed is so here too.
"""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from librt.strings import BytesWriter
from pyroaring import FrozenBitMap64

from commitlog.domain.model.record import Record
from commitlog.domain.model.records.proposal import (
    ChangeKind,
    DataFile,
    FilterOp,
    MappedColumn,
    Predicate,
)
from commitlog.domain.model.values import (
    BIGINT_MAX,
    NESTING_MAX,
    Plain,
    Row,
    RowPositions,
    RowValue,
    Scalar,
    is_bigint,
    is_nested_deeper,
    row_positions,
)
from commitlog.errors import MalformedRecordError
from commitlog.log.codec.avro import NULL, SOME, Cursor, array, blob, long, longs, mapping, scalar, text

R = TypeVar("R", bound=Record)

_NESTED: Final = 0x0A

# --- scalars ----------------------------------------------------------------------------------------------------------


def read_scalar(cursor: Cursor) -> Scalar:
    """A scalar as JSON could hold it."""
    value = cursor.scalar()
    if isinstance(value, float) and not math.isfinite(value):
        raise MalformedRecordError(f"the number {value} is none that JSON can hold")
    return value


write_bound = scalar


def read_bound(cursor: Cursor) -> Scalar:
    """A bound of a column's values: NaN and the infinities bound nothing."""
    value = cursor.scalar()
    return None if isinstance(value, float) and not math.isfinite(value) else value


# --- rows -------------------------------------------------------------------------------------------------------------


def write_row(out: BytesWriter, row: Row) -> None:
    """A row image."""
    mapping(out, _write_row_value, row)


def _write_row_value(out: BytesWriter, value: RowValue) -> None:
    if isinstance(value, list | dict):
        out.append(_NESTED)
        text(out, json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")))
    else:
        scalar(out, value)


def read_row(cursor: Cursor) -> dict[str, RowValue]:
    """A row image."""
    return cursor.mapping(_read_row_value)


def _read_row_value(cursor: Cursor) -> RowValue:
    if cursor.data[cursor.at] == _NESTED:
        cursor.at += 1
        return _nested_from_json(cursor.text())
    return read_scalar(cursor)


def _nested_from_json(text: str) -> RowValue:
    try:
        value = json.loads(text, parse_int=_bounded_int, parse_float=_finite_float, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise MalformedRecordError(f"a nested value is not JSON: {error}"[:200]) from None
    if not isinstance(value, list | dict):
        raise MalformedRecordError("a nested value is neither a list nor a struct")
    if is_nested_deeper(value, NESTING_MAX):
        raise MalformedRecordError(f"a value of a row is nested deeper than {NESTING_MAX} levels")
    return value


def _bounded_int(digits: str) -> int:
    if len(digits) > 20 or not is_bigint(int(digits)):
        raise MalformedRecordError(f"the number {digits[:24]} is beyond a 64-bit integer")
    return int(digits)


def _no_constant(name: str) -> float:
    raise MalformedRecordError(f"{name} is no JSON number")


def _finite_float(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise MalformedRecordError(f"the number {digits[:24]} is beyond a 64-bit float")
    return value


def write_positions(out: BytesWriter, rows: RowPositions) -> None:
    """Row positions: a roaring bitmap, or the numbers as they were written."""
    if isinstance(rows, tuple):
        out.append(SOME)
        longs(out, rows)
    else:
        out.append(NULL)
        blob(out, rows.serialize())


def read_positions(cursor: Cursor) -> RowPositions:
    """Row positions; the bitmap library checks what it is given."""
    if cursor.is_some():
        return row_positions(cursor.longs())
    packed = cursor.blob()
    try:
        positions = FrozenBitMap64.deserialize(packed)
    except Exception as error:  # the library raises ValueError and IndexError, and promises neither
        raise MalformedRecordError(f"row positions are no roaring bitmap: {error}") from None
    if len(positions) and positions.max() > BIGINT_MAX:
        raise MalformedRecordError(f"the row position {positions.max()} is beyond a 64-bit integer")
    return positions


# --- filters ----------------------------------------------------------------------------------------------------------

_LISTS: Final = frozenset({FilterOp.IN, FilterOp.BETWEEN})
_CHECKS: Final = frozenset({FilterOp.IS_NULL, FilterOp.IS_NOT_NULL})
_LIST: Final = 0x0A


def write_literal(out: BytesWriter, value: Scalar | tuple[Scalar, ...]) -> None:
    """What a filter compares with."""
    if isinstance(value, tuple):
        out.append(_LIST)
        array(out, scalar, value)
    else:
        scalar(out, value)


def read_literal(cursor: Cursor) -> Scalar | tuple[Scalar, ...]:
    """What a filter compares with."""
    if cursor.data[cursor.at] == _LIST:
        cursor.at += 1
        return cursor.array(read_scalar)
    return read_scalar(cursor)


def check_predicate(predicate: Predicate) -> Predicate:
    """The predicate, if its literal fits its op."""
    op, value = predicate.op, predicate.value
    if isinstance(value, tuple) != (op in _LISTS):
        raise MalformedRecordError(f"the filter's {op.value} takes {'a list' if op in _LISTS else 'no list'}")
    if op is FilterOp.BETWEEN and isinstance(value, tuple) and len(value) != 2:
        raise MalformedRecordError("the filter's between takes [low, high]")
    if op in _CHECKS and value is not None:
        raise MalformedRecordError(f"the filter's {op.value} takes no value")
    return predicate


# --- files ------------------------------------------------------------------------------------------------------------


def files_with_row_ids(files: tuple[DataFile, ...], kind: ChangeKind) -> tuple[DataFile, ...]:
    """The files, if each says the ids of its rows."""
    if any(file.row_ids is None for file in files):
        raise MalformedRecordError(f"{kind}: a file's field 'row_ids' is missing")
    return files


def files_without_row_ids(files: tuple[DataFile, ...], kind: ChangeKind) -> tuple[DataFile, ...]:
    """The files, if none says the ids of its rows."""
    if any(file.row_ids is not None for file in files):
        raise MalformedRecordError(f"{kind}: only a file of FLUSH has 'row_ids'")
    return files


def write_name_mapping(out: BytesWriter, columns: tuple[MappedColumn, ...]) -> None:
    """Columns as a flat list, each with the index of the one it is in."""
    flat: list[tuple[MappedColumn, int]] = []
    waiting = deque((column, -1) for column in columns)
    while waiting:
        column, parent = waiting.popleft()
        flat.append((column, parent))
        waiting.extend((child, len(flat) - 1) for child in column.children)
    array(out, _write_mapped_column, flat)


def _write_mapped_column(out: BytesWriter, placed: tuple[MappedColumn, int]) -> None:
    column, parent = placed
    text(out, column.source_name)
    text(out, column.column)
    long(out, parent)


def _read_mapped_column(cursor: Cursor) -> tuple[str, str, int]:
    return cursor.text(), cursor.text(), cursor.long()


def read_name_mapping(cursor: Cursor) -> tuple[MappedColumn, ...]:
    """Columns made from the last to the first, so that each finds its children made."""
    flat = cursor.array(_read_mapped_column)
    depths: list[int] = []
    for index, (_, _, parent) in enumerate(flat):
        if not -1 <= parent < index:
            raise MalformedRecordError(f"name_mapping: column {index} stands before the column it is in")
        depths.append(0 if parent == -1 else depths[parent] + 1)
        if depths[index] > NESTING_MAX:
            raise MalformedRecordError(f"name_mapping: nested deeper than {NESTING_MAX} levels")
    children: list[list[MappedColumn]] = [[] for _ in range(len(flat) + 1)]
    for index in range(len(flat) - 1, -1, -1):
        source_name, column, parent = flat[index]
        children[parent].append(MappedColumn(source_name, column, tuple(reversed(children[index]))))
    return tuple(reversed(children[-1]))


# --- cases -------------------------------------------------------------------------------------------------------------


def check_case(record: R, case: Any, fields: Mapping[Any, tuple[frozenset[str], frozenset[str]]]) -> R:
    """The record, if just those fields are set that its case takes: by case, which must be set and which may be."""
    given = {name for name in record.FIELDS if getattr(record, name) not in (None, (), case)}
    required, allowed = fields[case]
    if missing := required - given:
        raise MalformedRecordError(f"{case}: the field {min(missing)!r} is missing")
    if unknown := given - allowed:
        raise MalformedRecordError(f"{case} takes no {min(unknown)!r}")
    return record


# --- plain values -----------------------------------------------------------------------------------------------------


def write_plain(out: BytesWriter, values: Sequence[Plain]) -> None:
    """A list of plain values."""
    array(out, _write_plain, values)


def _write_plain(out: BytesWriter, value: Plain) -> None:
    if isinstance(value, bytes):
        out.append(0x0A)
        blob(out, value)
    elif isinstance(value, list | tuple):
        out.append(0x0C)
        write_plain(out, value)
    elif isinstance(value, dict):
        out.append(0x0E)
        mapping(out, _write_plain, value)
    else:
        scalar(out, value)


def read_plain(cursor: Cursor) -> list[Plain]:
    """A list of plain values."""
    return list(cursor.array(_read_plain))


_read_by_branch: Final[dict[int, Callable[[Cursor], Plain]]] = {
    0x0A: Cursor.blob,
    0x0C: read_plain,
    0x0E: lambda cursor: cursor.mapping(_read_plain),
}


def _read_plain(cursor: Cursor) -> Plain:
    read = _read_by_branch.get(cursor.data[cursor.at])
    if read is None:
        return cursor.scalar()
    cursor.at += 1
    return read(cursor)
