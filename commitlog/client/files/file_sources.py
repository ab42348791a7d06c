"""How the fields of a file are the columns of its table: by their ids, or by the names that a file without ids came with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from commitlog.client.tables.arrow_columns import Find
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

    def by_source(column: Column, fields: Sequence[pa.Field]) -> int | None:
        name = sources.get(column.column_id)
        return next((at for at, each in enumerate(fields) if each.name == name), None)

    return by_source


def _by_id(column: Column, fields: Sequence[pa.Field]) -> int | None:
    ids = [field_id(each) for each in fields]
    if column.column_id in ids:
        return ids.index(column.column_id)
    # Nested fields may have no ids where the columns do.
    return next(
        (at for at, each in enumerate(fields) if ids[at] is None and fold(each.name) == fold(column.name)), None
    )


def _mapped(columns: Sequence[Column], mapping: Sequence[MappedColumn]) -> Iterator[tuple[Column, MappedColumn]]:
    by_name = {fold(each.column): each for each in mapping}
    return ((column, by_name[fold(column.name)]) for column in columns if fold(column.name) in by_name)


def _named(column: Column, mapped: MappedColumn) -> Iterator[tuple[int, str]]:
    yield column.column_id, mapped.source_name
    for child, each in _mapped(column.children, mapped.children):
        yield from _named(child, each)
