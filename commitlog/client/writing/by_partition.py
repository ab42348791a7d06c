"""Arrow rows taken apart by partition, with the directory and the values of each."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from commitlog.client.tables.partitions import DIRECTORY, is_computed, is_plain, is_storable, partition_value
from commitlog.domain.model import Scalar
from commitlog.domain.model.buckets import bucket
from commitlog.domain.model.definitions import Column, PartitionKey, TableDefinition
from commitlog.domain.model.typed_values import canonical_value, value_text

_CODES_MAX = 2**63
_PARTS: Mapping[str, Callable[[Any], Any]] = {"year": pc.year, "month": pc.month, "day": pc.day, "hour": pc.hour}


class Partition(NamedTuple):
    """Some rows that are in one partition.

    directory: below the table's ("" when no key can be computed), with a slash behind it.
    values: in the order of the keys; None when not all of them are known.
    """

    directory: str
    values: tuple[Scalar, ...] | None
    rows: pa.Table


class _Value(NamedTuple):
    """One value of a key: its directory, and how the log is told of it."""

    directory: str
    value: Scalar
    is_known: bool


_Digits: TypeAlias = "list[list[tuple[_Value, ...]]]"
"""By digit of a code the values of one key, or of several, that each of its numbers means."""


def by_partition(rows: pa.Table, table: TableDefinition) -> Iterator[Partition]:
    """The rows of each partition, in their order.

    Args:
        rows: with the table's columns, in their types.
        table: what says the partitions.
    """
    keys = [(index, key, table.column_by_id(key.column_id)) for index, key in enumerate(table.partition_by)]
    computed = [each for each in keys if is_computed(each[1], each[2])]
    if not computed:
        yield Partition("", None, rows)
        return
    codes, digits = _coded([_values(rows.column(column.name), index, key, column) for index, key, column in computed])
    starts = _starts(codes)
    if len(starts) == 1:
        order = rows
    else:
        sorting = pc.sort_indices(codes)
        order, codes = rows.take(sorting), codes.take(sorting)
        starts = _starts(codes)
    for start, end in zip(starts, [*starts[1:], len(codes)], strict=True):
        found = _decoded(codes[start].as_py(), digits)
        is_known = len(computed) == len(keys) and all(each.is_known for each in found)
        yield Partition(
            "/".join(each.directory for each in found) + "/",
            tuple(each.value for each in found) if is_known else None,
            order.slice(start, end - start),
        )


def _coded(keys: list[tuple[pa.Array, list[_Value]]]) -> tuple[pa.Array, _Digits]:
    """One number a row that says which of its values each key has, and what its digits mean."""
    codes = pa.repeat(pa.scalar(0, pa.int64()), len(keys[0][0]))
    digits: _Digits = []
    count = 1
    for indices, values in keys:
        if count * len(values) > _CODES_MAX:
            # Of all that several keys could have together there are no more than rows.
            encoded = codes.dictionary_encode()
            digits = [[_decoded(code, digits) for code in encoded.dictionary.to_pylist()]]
            codes, count = encoded.indices.cast(pa.int64()), len(encoded.dictionary)
        codes = pc.add(pc.multiply(codes, len(values)), indices.cast(pa.int64()))
        digits.append([(each,) for each in values])
        count *= len(values)
    return codes, digits


def _decoded(code: int, digits: _Digits) -> tuple[_Value, ...]:
    found: tuple[_Value, ...] = ()
    for known in reversed(digits):
        code, at = divmod(code, len(known))
        found = (*known[at], *found)
    return found


def _values(given: pa.ChunkedArray, index: int, key: PartitionKey, column: Column) -> tuple[pa.Array, list[_Value]]:
    """Which of its values the key has in each row, and these values."""
    whole = given.combine_chunks() if given.num_chunks != 1 else given.chunk(0)
    if isinstance(whole, pa.ExtensionArray):
        # UUIDs: Arrow encodes nothing but their bytes.
        whole = whole.storage
    # Buckets are told later, of each value once.
    encoded = _PARTS.get(key.transform, lambda same: same)(whole).dictionary_encode()
    known = encoded.dictionary
    if key.buckets is not None:
        known = known.cast(pa.int32() if pa.types.is_date(known.type) else pa.int64())
    elif pa.types.is_timestamp(known.type) or pa.types.is_date(known.type):
        # Python's times have neither nanoseconds nor all years.
        known = known.cast(pa.string())
    values = [_value(index, key, column, each.as_py()) for each in known]
    indices = encoded.indices
    if indices.null_count:
        indices = pc.fill_null(indices, len(values))
        values.append(_value(index, key, column, None))
    return indices, values


def _starts(codes: pa.Array) -> list[int]:
    ends: list[int] = pc.run_end_encode(codes, run_end_type=pa.int64()).run_ends.to_pylist()
    return [0, *ends[:-1]]


def _value(index: int, key: PartitionKey, column: Column, value: Any) -> _Value:
    name = f"{DIRECTORY}{index}="
    if value is None:
        return _Value(f"{name}n", None, True)
    if key.buckets is not None:
        text = str(bucket(value, key.buckets))
    elif key.transform != "identity":
        text = str(value)
    else:
        # Compiled, a value that is told to be one or the other, bool or int, would be an int: True becomes 1.
        plain: Any = value
        if not isinstance(value, bool | int):
            plain = str(UUID(bytes=value) if isinstance(value, bytes) else value)
        try:
            text = value_text(column.type, canonical_value(column.type, plain))
        except ValueError:
            # A time of a year that is told to nobody, or is infinite.
            return _Value(f"{name}h{_hash(plain)}", None, False)
    shown = f"v{text}" if is_plain(text) else f"h{_hash(text)}"
    told = partition_value(key, column.type, text)
    return _Value(name + shown, told, is_storable(told))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
