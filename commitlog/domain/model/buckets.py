"""Buckets of partition keys: into which of so many a value falls, as Iceberg and DuckLake compute it."""

from __future__ import annotations

from datetime import date

from commitlog.domain.model.typed_values import SECOND_DIGITS, canonical_value
from commitlog.domain.model.types import ColumnType
from commitlog.domain.model.values import Scalar

BUCKETED = frozenset({"int8", "int16", "int32", "int64", "boolean", "date", "timestamp", "timestamptz"})
"""The types of which a value's bucket is computed here."""
_EPOCH = date(1970, 1, 1)
_SIGN = 2**31 - 1
_WORD = 2**32 - 1


def bucket(value: int, buckets: int) -> int:
    """Iceberg's bucket of a number: murmur3 of its 8 bytes, without the sign, modulo."""
    hashed, unsigned = 0, value & (2**64 - 1)
    for word in (unsigned & _WORD, unsigned >> 32):
        mixed = word * 0xCC9E2D51 & _WORD
        mixed = (mixed << 15 | mixed >> 17) & _WORD
        hashed ^= mixed * 0x1B873593 & _WORD
        hashed = (hashed << 13 | hashed >> 19) & _WORD
        hashed = (hashed * 5 + 0xE6546B64) & _WORD
    hashed ^= 8
    hashed = (hashed ^ hashed >> 16) * 0x85EBCA6B & _WORD
    hashed = (hashed ^ hashed >> 13) * 0xC2B2AE35 & _WORD
    return ((hashed ^ hashed >> 16) & _SIGN) % buckets


def bucket_of(data_type: ColumnType, value: Scalar, buckets: int) -> int | None:
    """The bucket of a column's value; None where it is not computed here, or there is no such value of the type."""
    if data_type.name not in BUCKETED or value is None or isinstance(value, bool) != (data_type.name == "boolean"):
        return None
    try:
        found = canonical_value(data_type, value)
    except ValueError:
        return None
    if isinstance(found, date):
        return bucket((found - _EPOCH).days, buckets)
    assert isinstance(found, int)
    if data_type.name not in SECOND_DIGITS:
        return bucket(found, buckets)
    # A moment stands in nanoseconds: one between two microseconds is the one or the other, as a reader rounds it.
    return None if found % 1000 else bucket(found // 1000, buckets)
