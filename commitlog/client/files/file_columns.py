"""How the columns of files are those of their table: worked out once for all files of a schema.

Everything that does not fit is said at once: which column, what the table expects and what the file has. A file
without field ids is mapped by name; one with ids is matched by them alone, and mapped by its names nevertheless where nested
fields have none: readers would find nothing in these.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from commitlog.client.files.column_statistics import BoundsReader, bounds_reader
from commitlog.client.tables.arrow_types import field_id, fields_of, fits, has_shape, leaf_count, shown_type
from commitlog.domain.model import MappedColumn
from commitlog.domain.model.definitions import Column, TableDefinition
from commitlog.domain.model.types import fold
from commitlog.errors import DataFileError

ROW_ID, ROW_ID_FIELD = "_ducklake_internal_row_id", 2147483540
"""The column, and its field id, by which a file of COMPACT or FLUSH carries the ids of its rows."""

KEPT_MAX = 64

_ARROW_SCHEMA = b"ARROW:schema"
_LIST_CHILD = "list"
"""What the stock client calls the element of a list in a mapping by name."""


class FlatColumn(NamedTuple):
    """A flat column of a file: which of its Parquet columns, which of the table's, and how its bounds are read."""

    leaf: int
    column: Column
    bounds: BoundsReader | None


@dataclass(frozen=True, slots=True)
class FileColumns:
    """The columns of all files of one schema, as those of one table; ``name_mapping`` is None where all have field ids."""

    flat: tuple[FlatColumn, ...]
    name_mapping: tuple[MappedColumn, ...] | None


@dataclass(frozen=True, slots=True)
class _Kept:
    parquet_schema: Any
    arrow_schema: bytes | None
    table: TableDefinition
    carries_row_ids: bool
    columns: FileColumns


_kept: tuple[_Kept, ...] = ()


def file_columns(place: str, metadata: Any, table: TableDefinition, *, carries_row_ids: bool) -> FileColumns:
    """The columns of a file.

    Args:
        place: where the file is.
        metadata: what pyarrow reads from its footer.
        table: the table's definition.
        carries_row_ids: whether the file may have DuckLake's own column of row ids beside the table's.

    Raises:
        DataFileError: its columns do not fit the table.
    """
    global _kept
    parquet_schema, arrow_schema = metadata.schema, (metadata.metadata or {}).get(_ARROW_SCHEMA)
    for kept in _kept:
        if (
            kept.table is table
            and kept.carries_row_ids == carries_row_ids
            and kept.arrow_schema == arrow_schema
            and kept.parquet_schema.equals(parquet_schema)
        ):
            return kept.columns
    columns = _columns(place, parquet_schema.to_arrow_schema(), table, carries_row_ids)
    # Of several threads that keep something at once, one may be forgotten.
    _kept = (_Kept(parquet_schema, arrow_schema, table, carries_row_ids, columns), *_kept[: KEPT_MAX - 1])
    return columns


def _columns(place: str, schema: pa.Schema, table: TableDefinition, carries_row_ids: bool) -> FileColumns:
    fields = [each for each in schema if not (carries_row_ids and field_id(each) == ROW_ID_FIELD)]
    pairs = _matched(place, pa.schema(fields), table)
    without = [name for field in fields for name in _without_id(field, field.name)]
    if without and len(fields) < len(schema):
        raise DataFileError(
            f"{place} carries the ids of its rows, which readers find by field ids alone, and {', '.join(without[:20])} "
            f"{'has' if len(without) == 1 else 'have'} none: write it with the table's, also for what is in lists and maps"
        )
    by_id = _has_ids(fields)
    mapping = tuple(_mapping(column, field, by_id=by_id) for column, field in pairs) if without else None
    return FileColumns(tuple(flat_columns(schema, {field.name: column for column, field in pairs})), mapping)


def flat_columns(schema: pa.Schema, columns: Mapping[str, Column]) -> Iterator[FlatColumn]:
    """The flat columns of a file with this schema, where ``columns`` has the table's of each of its fields."""
    leaf = 0
    for field in schema:
        column = columns.get(field.name)
        if column is not None and not column.children:
            yield FlatColumn(leaf, column, bounds_reader(column.type, field.type))
        leaf += leaf_count(field.type)


def _has_ids(fields: Iterable[pa.Field]) -> bool:
    return any(field_id(field) is not None for field in fields)


def _without_id(field: pa.Field, where: str) -> Iterator[str]:
    if field_id(field) is None:
        yield where
    for inner in fields_of(field.type):
        yield from _without_id(inner, f"{where}.{inner.name}")


def _matched(place: str, schema: pa.Schema, table: TableDefinition) -> list[tuple[Column, pa.Field]]:
    """The table's column of each of the file's, in the order of the file.

    Raises:
        DataFileError: lists everything that does not fit.
    """
    by_id = _has_ids(schema)
    given = list(zip(_columns_of(schema, table, by_id=by_id), schema, strict=True))
    pairs = [(column, field) for column, field in given if column is not None]
    problems = list(_strangers([field for column, field in given if column is None], table, by_id=by_id))
    for column, field in pairs:
        problems += _misfits(column, field, field.name, by_id=by_id)
    taken = Counter(column.column_id for column, _ in pairs)
    problems += [f"column {c.name} is there twice" for c in table.columns if taken[c.column_id] > 1]
    problems += [
        f"column {column.name} is missing, expected {column.type} (never NULL)"
        for column in table.columns
        if column.column_id not in taken and not column.nullable and column.initial_default is None
    ]
    if problems:
        raise DataFileError(f"{place} does not fit table {table.name}: " + "; ".join(problems[:20]))
    return pairs


def _columns_of(fields: Iterable[pa.Field], table: TableDefinition, *, by_id: bool) -> list[Column | None]:
    if by_id:
        known: dict[int | None, Column] = {column.column_id: column for column in table.columns}
        return [known.get(field_id(field)) for field in fields]
    return [table.by_name.get(fold(field.name)) for field in fields]


def _strangers(fields: list[pa.Field], table: TableDefinition, *, by_id: bool) -> Iterator[str]:
    """What to say of the file's columns that are none of the table's."""
    if not fields:
        return
    if by_id:
        known = ", ".join(f"{column.name}={column.column_id}" for column in table.columns[:20])
        for field in fields:
            if (found := field_id(field)) is None:
                yield f"column {field.name} has no field id though others have one; give ids to all columns or to none"
            else:
                yield f"column {field.name} has field id {found}, which is none of the table's ({known})"
        return
    names = ", ".join(field.name for field in fields[:20])
    known = ", ".join(column.name for column in table.columns[:20])
    yield f"{'column' if len(fields) == 1 else 'columns'} {names} not in the table (it has {known})"


def _misfits(column: Column, field: pa.Field, where: str, *, by_id: bool) -> Iterator[str]:
    inner = list(fields_of(field.type))
    expected = column.type
    is_nested = bool(inner or column.children)
    if not (has_shape(expected, field.type) if is_nested else fits(expected, field.type)):
        yield f"column {where}: expected {expected}, found {shown_type(field.type)}"
    elif expected.name == "struct":
        yield from _struct_misfits(column, inner, where, by_id=by_id)
    else:
        for child, child_field in zip(column.children, inner, strict=True):
            yield from _id_misfit(child, child_field, f"{where}.{child.name}")
            yield from _misfits(child, child_field, f"{where}.{child.name}", by_id=by_id)


def _struct_misfits(column: Column, inner: list[pa.Field], where: str, *, by_id: bool) -> Iterator[str]:
    for child, child_field in zip(_children_of(column, inner, by_id=by_id), inner, strict=True):
        if child is None:
            yield f"column {where}: field {child_field.name} is not in {column.type}"
            continue
        yield from _misfits(child, child_field, f"{where}.{child_field.name}", by_id=by_id)


def _children_of(column: Column, fields: Iterable[pa.Field], *, by_id: bool) -> list[Column | None]:
    ids = {child.column_id: child for child in column.children} if by_id else {}
    names = {fold(child.name): child for child in column.children}
    return [
        names.get(fold(field.name)) if not by_id or (found := field_id(field)) is None else ids.get(found)
        for field in fields
    ]


def _id_misfit(child: Column, field: pa.Field, where: str) -> Iterator[str]:
    if (found := field_id(field)) not in (None, child.column_id):
        yield f"column {where} has field id {found}, expected {child.column_id}"


def _mapping(column: Column, field: pa.Field, source_name: str | None = None, *, by_id: bool) -> MappedColumn:
    inner = list(fields_of(field.type))
    if column.type.name == "struct":
        pairs = zip(_children_of(column, inner, by_id=by_id), inner, strict=True)
        children = tuple(_mapping(child, each, by_id=by_id) for child, each in pairs if child is not None)
    elif column.type.name == "list":
        children = (_mapping(column.children[0], inner[0], _LIST_CHILD, by_id=by_id),)
    else:
        children = tuple(_mapping(c, each, c.name, by_id=by_id) for c, each in zip(column.children, inner, strict=True))
    return MappedColumn(field.name if source_name is None else source_name, column.name, children)
