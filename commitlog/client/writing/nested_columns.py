"""Nested columns, from Python's values.

What is in them is made as columns of their own, like any other. Arrow takes dicts for structs and pairs for lists, whatever the
table has, and where it is told the type of a column it cuts what is in it: 1.5 to 1 among whole numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from commitlog.client.arguments import shown
from commitlog.client.tables.values import is_missing
from commitlog.client.writing.file_schema import file_schema
from commitlog.domain.model.definitions import Column
from commitlog.domain.model.types import fold
from commitlog.errors import DataFileError

Make: TypeAlias = "Callable[[Sequence[Any], Column | None], pa.Array]"
"""The array of a column's values, or of those of a field that the column does not have."""


def nested_array(name: str, values: Iterable[Any], column: Column, make: Make) -> pa.Array:
    """The array of a nested column's values: dicts for structs, iterables for lists, either for maps, there of pairs.

    No iterators: what they hold is gone when the rows are tried again with the table as it is by then.

    Args:
        name: what the column is called in messages.
        values: one for each row.
        column: the table's.
        make: makes what is not nested.

    Raises:
        DataFileError: a value has not the column's shape.
    """
    given = [None if is_missing(each) else _plain(each) for each in values]
    if all(each is None for each in given):
        return pa.nulls(len(given), file_schema([column]).field(0).type)

    def part(values: Sequence[Any], child: Column | None) -> pa.Array:
        if child is None or (len(values) and not child.children):
            return make(values, child)
        return nested_array(name, values, child, make)

    if column.type.name == "struct":
        return _structs(name, given, column, part)
    is_map = column.type.name == "map"
    rows = [None if each is None else _pairs(name, each) if is_map else _items(name, each) for each in given]
    ends = [0, *accumulate(0 if row is None else len(row) for row in rows)]
    begins = [None if row is None else begin for row, begin in zip(rows, ends[:-1], strict=True)]
    starts = pa.array([*begins, ends[-1]], pa.int32())
    items = _joined([row for row in rows if row is not None])
    if not is_map:
        return pa.ListArray.from_arrays(starts, part(items, column.children[0]))
    keys, inner = column.children
    if any(key is None or is_missing(key) for key, _ in items):
        raise DataFileError(f"column {name}: a map has a key that is missing")
    return pa.MapArray.from_arrays(
        starts, part([key for key, _ in items], keys), part([item for _, item in items], inner)
    )


def _plain(value: Any) -> Any:
    return value.as_py() if isinstance(value, pa.Scalar) else value


def _structs(name: str, given: Sequence[Any], column: Column, part: Make) -> pa.Array:
    for value in given:
        if value is not None and not isinstance(value, Mapping):
            raise DataFileError(f"column {name}: {shown(value)} is no struct: give a dict of its fields")
    known = {fold(child.name): child for child in column.children}
    names = list(dict.fromkeys(key for value in given for key in value or ())) or [
        child.name for child in column.children
    ]
    for key in names:
        if not isinstance(key, str):
            raise DataFileError(f"column {name}: the name of a field must be a text, not {shown(key)}")
    fields = [part([None if each is None else each.get(key) for each in given], known.get(fold(key))) for key in names]
    return pa.StructArray.from_arrays(fields, names, mask=pa.array([each is None for each in given]))


def _pairs(name: str, value: Any) -> list[tuple[Any, Any]]:
    pairs = list(value.items()) if isinstance(value, Mapping) else value
    if not isinstance(pairs, list | tuple) or not all(
        isinstance(each, list | tuple) and len(each) == 2 for each in pairs
    ):
        raise DataFileError(
            f"column {name}: {shown(value)} is no map: give a dict, or a list of pairs of a key and a value"
        )
    return [(key, item) for key, item in pairs]


def _items(name: str, value: Any) -> Sequence[Any] | np.ndarray:
    is_one = isinstance(value, str | bytes | Mapping | Iterator) or getattr(value, "ndim", 1) == 0
    if is_one or not isinstance(value, Iterable):
        raise DataFileError(f"column {name}: {shown(value)} is no list")
    return value if isinstance(value, list | np.ndarray) else list(value)


def _joined(rows: Sequence[Any]) -> Any:
    """What is in lists, one after the other; arrays, such as embeddings, without a look at each of their values."""
    kinds = {each.dtype if isinstance(each, np.ndarray) and each.ndim == 1 else None for each in rows}
    if len(kinds) == 1 and (kind := kinds.pop()) is not None and kind.kind in "biuf":
        return np.concatenate(rows)
    return list(chain.from_iterable(rows))
