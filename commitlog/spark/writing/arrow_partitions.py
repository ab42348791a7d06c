"""Arrow batches taken apart by partition, with the directories that `commitlog.spark.writing.partitions` gives Spark's rows."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from commitlog.domain.model.definitions import Column, PartitionKey, TableDefinition
from commitlog.domain.model.types import canonical_value, value_text
from commitlog.spark.writing.partitions import DIRECTORY, is_computed, is_plain

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SIGN = 2**31 - 1
_WORD = 2**32 - 1


def by_partition(batch: pa.RecordBatch, table: TableDefinition) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows of each partition, with its directory below the table's ("" when it cannot be told).

    Args:
        batch: with the table's columns, in their types.
        table: what says the partitions.
    """
    keys = [(index, key, table.column_by_id(key.column_id)) for index, key in enumerate(table.partition_by)]
    computed = [each for each in keys if is_computed(each[1], each[2])]
    if not computed:
        yield "", batch
        return
    encoded = [_part(batch.column(column.name), key).dictionary_encode() for _, key, column in computed]
    codes = np.stack([np.asarray(pc.fill_null(each.indices, -1)) for each in encoded])
    combinations, which = np.unique(codes, axis=1, return_inverse=True)
    for number, combination in enumerate(combinations.T):
        parts = [
            f"{DIRECTORY}{index}={_text(key, column, None if code < 0 else values.dictionary[int(code)].as_py())}"
            for (index, key, column), values, code in zip(computed, encoded, combination, strict=True)
        ]
        yield "/".join(parts) + "/", batch.filter(pa.array(which.reshape(-1) == number))


def _part(values: pa.Array, key: PartitionKey) -> pa.Array:
    """What a partition goes by, of each value; buckets are told later, of each value once."""
    parts = {"year": pc.year, "month": pc.month, "day": pc.day, "hour": pc.hour}
    return parts[key.transform](values) if key.transform in parts else values


def _text(key: PartitionKey, column: Column, value: Any) -> str:
    if value is None:
        return "n"
    if key.buckets is not None:
        text = str(bucket(_number(value), key.buckets))
    elif key.transform != "identity":
        text = str(value)
    else:
        plain = value if isinstance(value, bool | int) else str(value)
        text = value_text(column.type, canonical_value(column.type, plain))
    return f"v{text}" if is_plain(text) else "h" + hashlib.sha256(text.encode()).hexdigest()


def _number(value: Any) -> int:
    if isinstance(value, datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=UTC)
        return (aware - _EPOCH) // timedelta(microseconds=1)
    if isinstance(value, date):
        return (value - _EPOCH.date()).days
    return int(value)


def bucket(value: int, buckets: int) -> int:
    """Iceberg's bucket of a number: murmur3 of its 8 bytes, without the sign, modulo."""
    hashed = 0
    for word in np.frombuffer(value.to_bytes(8, "little", signed=True), dtype="<u4").tolist():
        mixed = word * 0xCC9E2D51 & _WORD
        mixed = (mixed << 15 | mixed >> 17) & _WORD
        hashed ^= mixed * 0x1B873593 & _WORD
        hashed = (hashed << 13 | hashed >> 19) & _WORD
        hashed = (hashed * 5 + 0xE6546B64) & _WORD
    hashed ^= 8
    hashed = (hashed ^ hashed >> 16) * 0x85EBCA6B & _WORD
    hashed = (hashed ^ hashed >> 13) * 0xC2B2AE35 & _WORD
    return ((hashed ^ hashed >> 16) & _SIGN) % buckets
