"""How the fields of a file are the columns of its table: by their ids, or by the names that a file without ids came with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from commitlog.client.tables.arrow_columns import Find, first_places
from commitlog.client.tables.arrow_types import field_id
from commitlog.domain.model import MappedColumn
from commitlog.domain.model.definitions import Column
from commitlog.domain.model.types import fold


def finder(columns: Sequence[Column], mapping: tuple[MappedColumn, ...] | None) -> Find:
    """What tells which of a file's fields is a column's."""
    if mapping is None:
        return _by_id
    sources = {
        column_id: name for column, each in _mapped(columns, mapping) for column_id, name in _named(column, each)
    }

    def by_source(fields: Sequence[pa.Field]) -> Callable[[Column], int | None]:
        places = first_places(each.name for each in fields)
        return lambda column: places.get(sources.get(column.column_id))

    return by_source


def _by_id(fields: Sequence[pa.Field]) -> Callable[[Column], int | None]:
    ids = first_places(map(field_id, fields))
    # Nested fields may have no ids where the columns do.
    names = first_places(fold(each.name) if field_id(each) is None else None for each in fields)
    return lambda column: ids.get(column.column_id, names.get(fold(column.name)))


def _mapped(columns: Sequence[Column], mapping: Sequence[MappedColumn]) -> Iterator[tuple[Column, MappedColumn]]:
    by_name = {fold(each.column): each for each in mapping}
    return ((column, by_name[fold(column.name)]) for column in columns if fold(column.name) in by_name)


def _named(column: Column, mapped: MappedColumn) -> Iterator[tuple[int, str]]:
    yield column.column_id, mapped.source_name
    for child, each in _mapped(column.children, mapped.children):
        yield from _named(child, each)
