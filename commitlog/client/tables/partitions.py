"""Partition keys: how they are written, and the partition of a file where its statistics prove one."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from commitlog.client.arguments import checked_items
from commitlog.domain.model import BIGINT_MAX, ColumnStatistics, PartitionSpec, Scalar
from commitlog.domain.model.buckets import BUCKETED
from commitlog.domain.model.definitions import Column, PartitionKey, TableDefinition
from commitlog.domain.model.texts import check_text
from commitlog.domain.model.typed_values import canonical_value, value_text
from commitlog.domain.model.types import FLOATS, INTEGER_BITS, ColumnType
from commitlog.errors import InvalidRequestError

PLAIN = r"[A-Za-z0-9_.+-]{0,80}"
"""Texts of partitions that are the names of their directories too; of others the hash is."""
DIRECTORY = "commitlog_p"
"""What the directories of partitions are called, with the index of the partition key behind it."""
PARTS_OF_TIMES = {"year": slice(0, 4), "month": slice(5, 7), "day": slice(8, 10), "hour": slice(11, 13)}
"""Transforms of times, and where in the text of a date or timestamp, 2024-01-31 12:30:00, the part is."""

_TRANSFORM = re.compile(r"(year|month|day|hour)\((.+)\)")
_CALL = re.compile(r"\w+\s*\(.*\)")
_BUCKET = re.compile(r"bucket\((\d{1,9}),\s*(.+)\)")


def partition_specs(keys: str | Iterable[str | PartitionSpec]) -> tuple[PartitionSpec, ...]:
    """Partition keys from ``"month"`` (a column), ``"month(day)"``, ``"bucket(16, id)"`` or PartitionSpec, one or several."""
    if isinstance(keys, tuple) and not keys:
        return ()
    given: tuple[Any, ...] = checked_items(
        "partition_by",
        (keys,) if isinstance(keys, str) else keys,
        (str, PartitionSpec),
        "columns, such as ['day'] or ['month(day)']",
    )
    return tuple(key if isinstance(key, PartitionSpec) else _spec(key) for key in given)


def _spec(text: str) -> PartitionSpec:
    if match := _TRANSFORM.fullmatch(text):
        return PartitionSpec(match[2].strip(), match[1])
    if match := _BUCKET.fullmatch(text):
        return PartitionSpec(match[2].strip(), f"bucket({match[1]})")
    if _CALL.fullmatch(text):
        raise InvalidRequestError(
            f"{text!r} is no partition key: write a column's name, year(c), month(c), day(c) or hour(c) of a time, or "
            f"bucket(16, c); a column of that very name is PartitionSpec({text!r})"
        )
    return PartitionSpec(text)


def partition_values_of(
    table: TableDefinition, statistics: Iterable[ColumnStatistics], record_count: int
) -> tuple[Scalar, ...] | None:
    """The partition that every row of a file is in; None when the statistics do not prove it."""
    if not table.partition_by or record_count == 0:
        return None
    known = {column.column: column for column in statistics}
    values: list[Scalar] = []
    for key in table.partition_by:
        column = table.column_by_id(key.column_id)
        statistic = known.get(column.name)
        if statistic is None or column.type.name in FLOATS:
            return None
        if statistic.null_count == record_count:
            values.append(None)
            continue
        value = one_value(key, statistic)
        if value is None or not is_storable(value):
            return None
        values.append(value)
    return tuple(values)


def one_value(key: PartitionKey, statistic: ColumnStatistics) -> Scalar:
    """What all rows of a file have for a key, after the transform; None when its statistics, with times in UTC, prove none."""
    low, high = statistic.min, statistic.max
    if statistic.null_count != 0 or low is None or high is None:
        return None
    if key.transform == "identity":
        return low if low == high else None
    part = PARTS_OF_TIMES.get(key.transform)
    if part is None or not _same_until(low, high, part.stop):
        return None
    return int(str(low)[part])


def is_computed(key: PartitionKey, column: Column) -> bool:
    """Whether a row's value of a key is computed by writers; else its files are of any partition."""
    data_type = column.type.name
    return data_type in BUCKETED if key.buckets is not None else data_type not in FLOATS and data_type != "blob"


def is_plain(text: str) -> bool:
    """Whether the text of a partition is the name of its directory too; else its hash is."""
    return re.fullmatch(PLAIN, text) is not None


def partition_value(key: PartitionKey, data_type: ColumnType, text: str) -> Scalar:
    """A partition value from its text.

    Raises:
        ValueError: the text is none of the type.
    """
    if key.transform != "identity" or data_type.name in INTEGER_BITS:
        return text if abs(int(text)) > BIGINT_MAX else int(text)
    if data_type.name == "boolean":
        return text == "true"
    value: Any = canonical_value(data_type, text)
    return value_text(data_type, value)


def is_storable(value: Scalar) -> bool:
    """Whether a partition value can be said to the log: text with a newline or another control character cannot."""
    try:
        check_text(value if isinstance(value, str) else None, "a partition value")
    except ValueError:
        return False
    return True


def _same_until(low: Scalar, high: Scalar, end: int) -> bool:
    """Whether two times are the same up to a part: between them the part then has no other value."""
    return isinstance(low, str) and isinstance(high, str) and low[:end] == high[:end]
