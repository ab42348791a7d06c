"""Arrow rows in the form of a table's files: columns by name, in any order, each of them as the table's type.

Types are widened; numbers and times are taken as others of their kind where every value fits, midnights as dates. Nothing is
cut or parsed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from uuid import UUID

import pyarrow as pa

from commitlog.client.files.file_columns import FlatColumn, flat_columns
from commitlog.client.tables.arrow_columns import by_name, conformed, is_checked, missing
from commitlog.client.tables.arrow_types import fields_of, has_shape, shown_type, type_text
from commitlog.client.writing.file_schema import bounded_columns, file_schema
from commitlog.domain.model.definitions import Column, TableDefinition, counted
from commitlog.domain.model.types import FLOATS, INTEGER_BITS, TIMESTAMPS, ColumnType, can_widen, fold, parse_type
from commitlog.errors import DataFileError

KEPT_MAX = 64
_NAIVE_TIMES = TIMESTAMPS - {"timestamptz"}
_TEXTS = frozenset({"varchar", "json"})


@dataclass(frozen=True, slots=True)
class Fit:
    """How rows of one schema become rows of a table's files.

    schema: of the files.
    sources: of each column of the table, where it is in the rows; None where it is missing.
    flat: the flat columns of the files.
    bounded: the columns whose bounds the footer has.
    is_same: whether the rows have just these columns, and any value of these types may be in them.
    stores_schema: whether the footer has Arrow's schema too: Parquet's own leaves no type but ids in doubt.
    is_read: whether they are rows of the table's own files, which stay what they are.
    """

    table: TableDefinition
    given: pa.Schema
    schema: pa.Schema
    sources: tuple[int | None, ...]
    flat: tuple[FlatColumn, ...]
    bounded: list[str]
    is_same: bool
    stores_schema: bool
    is_read: bool

    def apply(self, rows: pa.Table) -> pa.Table:
        """The rows as they are written.

        Raises:
            DataFileError: a value does not fit its column.
        """
        if self.is_same:
            return rows
        columns = zip(self.table.columns, self.sources, self.schema, strict=True)
        arrays = [self._column(rows, column, source, field.type) for column, source, field in columns]
        return pa.Table.from_arrays(arrays, schema=self.schema)

    def _column(self, rows: pa.Table, column: Column, source: int | None, data_type: pa.DataType) -> pa.ChunkedArray:
        if source is None:
            values = pa.chunked_array([missing(column, rows.num_rows, data_type, is_read=False)])
        else:
            values = rows.column(source)
            if values.type != data_type or (is_checked(column) and not self.is_read):
                values = _cast(values, column, data_type, is_read=self.is_read)
        if not column.nullable and values.null_count:
            raise DataFileError(
                f"column {column.name} of table {self.table.name} may not be NULL, but is in "
                f"{counted(values.null_count, 'row')}"
            )
        return values


def fit(given: pa.Schema, table: TableDefinition, *, is_read: bool = False) -> Fit:
    """How rows with these columns are written to a table; see `Fit` for ``is_read``.

    Raises:
        DataFileError: they do not fit; the message lists every column that does not.
    """
    global _kept
    for kept in _kept:
        if kept.table is table and kept.is_read == is_read and kept.given.equals(given):
            return kept
    schema = file_schema(table.columns)
    _check(given, table)
    sources = tuple(map(by_name(list(given)), table.columns))
    flat = tuple(flat_columns(schema, {column.name: column for column in table.columns}))
    made = Fit(
        table,
        given,
        schema,
        sources,
        flat,
        bounded=bounded_columns(table.columns),
        is_same=schema.equals(given)
        and all(column.nullable and (is_read or not is_checked(column)) for column in table.columns),
        stores_schema=any(column.type.name == "uuid" for column in table.all_columns()),
        is_read=is_read,
    )
    # Of several threads that keep something at once, one may be forgotten.
    _kept = (made, *_kept[: KEPT_MAX - 1])
    return made


_kept: tuple[Fit, ...] = ()


def _cast(values: pa.ChunkedArray, column: Column, data_type: pa.DataType, *, is_read: bool) -> pa.ChunkedArray:
    if data_type == pa.uuid() and (pa.types.is_string(values.type) or pa.types.is_large_string(values.type)):
        values = _uuids(values, column)
    try:
        chunks = [conformed(chunk, column, data_type, by_name, is_read=is_read) for chunk in values.chunks]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise DataFileError(f"column {column.name} ({column.type}): {error}") from None
    return pa.chunked_array(chunks, data_type)


def _uuids(texts: pa.ChunkedArray, column: Column) -> pa.ChunkedArray:
    """The ids that texts say, as they are read: Arrow has no cast for them."""
    try:
        values = [None if text is None else UUID(text).bytes for text in texts.to_pylist()]
    except ValueError as error:
        raise DataFileError(f"column {column.name} ({column.type}): {error}") from None
    return pa.chunked_array([pa.array(values, pa.binary(16)).cast(pa.uuid())])


def _check(given: pa.Schema, table: TableDefinition) -> None:
    folded = [fold(field.name) for field in given]
    there = set(folded)
    known = {fold(column.name): column for column in table.columns}
    problems = [f"column {name} is there twice" for name in _twice(folded)]
    strangers = [field.name for field in given if fold(field.name) not in known]
    if strangers:
        names, has = ", ".join(strangers[:20]), ", ".join(column.name for column in table.columns[:20])
        problems.append(f"{'column' if len(strangers) == 1 else 'columns'} {names} not in the table (it has {has})")
    for name, field in zip(folded, given, strict=True):
        if name in known:
            problems += _misfits(known[name], field.type, field.name)
    problems += [
        f"column {column.name} is missing, expected {column.type} (never NULL)"
        for name, column in known.items()
        if name not in there and not column.nullable and column.default is None
    ]
    if problems:
        raise DataFileError(f"the rows do not fit table {table.name}: " + "; ".join(problems[:20]))


def _twice(names: list[str]) -> list[str]:
    return sorted(name for name, count in Counter(names).items() if count > 1)


def _misfits(column: Column, found: pa.DataType, where: str) -> Iterator[str]:
    if pa.types.is_null(found):
        return
    inner = list(fields_of(found))
    is_nested = bool(inner or column.children)
    if not (has_shape(column.type, found) if is_nested else _takes(column.type, found)):
        hint = "" if is_nested else "; cast it first"
        yield f"column {where}: expected {column.type}, found {shown_type(found)}{hint}"
    elif column.type.name == "struct":
        yield from _struct_misfits(column, inner, where)
    else:
        for child, field in zip(column.children, inner, strict=True):
            yield from _misfits(child, field.type, f"{where}.{child.name}")


def _struct_misfits(column: Column, fields: Sequence[pa.Field], where: str) -> Iterator[str]:
    children = {fold(child.name): child for child in column.children}
    folded = [fold(field.name) for field in fields]
    yield from (f"column {where}: field {name} is there twice" for name in _twice(folded))
    for field in fields:
        child = children.get(fold(field.name))
        if child is None:
            yield f"column {where}: field {field.name} is not in {column.type}"
        else:
            yield from _misfits(child, field.type, f"{where}.{field.name}")


def _takes(expected: ColumnType, found: pa.DataType) -> bool:
    """Whether values of an Arrow type can be those of a flat column, each as it is or not at all."""
    text = type_text(found)
    if text is None:
        return False
    given = parse_type(text)
    if given == expected or can_widen(given, expected):
        return True
    if given.name in INTEGER_BITS:
        return expected.name in INTEGER_BITS or expected.name in FLOATS or expected.name == "decimal"
    if (given.name, expected.name) == ("varchar", "uuid") or (given.name in _NAIVE_TIMES and expected.name == "date"):
        return True
    return any(given.name in kind and expected.name in kind for kind in (_NAIVE_TIMES, _TEXTS, {"decimal"}))
