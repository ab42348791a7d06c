"""Which rows of a table may match one of a merge's source, by a bitmap of a key.

Most rows match none. To look each up among the source's rows is a jump through megabytes, which takes longer than to read the
row; keys that follow each other in the table have bits that do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from commitlog.spark.columns import quoted
from commitlog.spark.reading.exact_files import bit_of

ROWS_MIN = 1_000_000
"""Of a table, for which the job that asks for the keys pays."""
_BITS = 22
"""Half a megabyte at most, of which each task is sent a copy."""
_SET_MAX = 0.25
_WITHIN = 1 << 62


class KeyBits(NamedTuple):
    """A key of integers, and a bit for each 2^``shift`` of its values, from the source's ``least`` to its ``greatest``."""

    name: str
    least: int
    greatest: int
    shift: int
    bits: bytes


def key_bits(source: DataFrame, ends: Mapping[str, tuple[Any, Any]]) -> KeyBits | None:
    """The bits of the first key whose ``ends``, its least and greatest value there, are integers; None if they tell little."""
    for name, (least, greatest) in ends.items():
        if isinstance(least, int):
            return _bits(source, name, least, greatest) if max(-least, greatest) < _WITHIN else None
    return None


def _bits(source: DataFrame, name: str, least: int, greatest: int) -> KeyBits | None:
    shift = max(0, (greatest - least).bit_length() - _BITS)
    keys = source.select(sf.col(quoted(name)).cast("bigint")).dropna().toArrow().column(0).to_numpy()
    flags = np.zeros(((greatest - least >> shift) // 32 + 1) * 32, np.uint8)
    flags[keys - least >> shift] = 1
    if flags.mean() > _SET_MAX:
        return None
    return KeyBits(name, least, greatest, shift, np.packbits(flags, bitorder="little").tobytes())


def candidates(rows: DataFrame, found: KeyBits | None) -> DataFrame:
    """The rows but for most that have a key of no row of the source."""
    if found is None:
        return rows
    key = sf.col(quoted(found.name))
    bits = rows.sparkSession.createDataFrame(pa.table({"bits": [found.bits]}))
    least, greatest = (sf.lit(each).cast("bigint") for each in (found.least, found.greatest))
    is_within = key.between(least, greatest)
    bit = bit_of(rows.sparkSession, bits.scalar(), sf.shiftright(key - least, found.shift))
    # What is beyond the ends has no bit; that it is within them is also a filter which Parquet's reader goes by.
    return rows.where(is_within & sf.when(is_within, bit == 1))
