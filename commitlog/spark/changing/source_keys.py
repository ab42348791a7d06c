"""Which rows of a table may match one of a merge's source, by a bitmap of a key.

Most rows match none. To look each up among the source's rows is a jump through megabytes, which takes longer than to read the
row; keys that follow each other in the table have bits that do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from commitlog.spark.columns import quoted
from commitlog.spark.reading.exact_files import bit_of

ROWS_MIN = 1_000_000
"""Of a table, for which the job that asks for the keys pays."""
_BITS = 22
"""Half a megabyte at most, of which each task is sent a copy."""
_SET_MAX = 0.25
_WITHIN = 1 << 62


def candidates(rows: DataFrame, source: DataFrame, ends: Mapping[str, tuple[Any, Any]]) -> DataFrame:
    """The rows but for most that have an integer key of no row of the source; ``ends`` are the least and the greatest there."""
    for name, (least, greatest) in ends.items():
        if isinstance(least, int) and isinstance(rows.select(quoted(name)).schema[0].dataType, st.IntegralType):
            return _marked(rows, source, name, least, greatest)
    return rows


def _marked(rows: DataFrame, source: DataFrame, name: str, least: int, greatest: int) -> DataFrame:
    if least <= -_WITHIN or greatest >= _WITHIN:
        return rows
    shift = max(0, (greatest - least).bit_length() - _BITS)
    key = quoted(name)
    keys = source.select(sf.col(key).cast("bigint")).dropna().toArrow().column(0).to_numpy()
    flags = np.zeros(((greatest - least >> shift) // 32 + 1) * 32, np.uint8)
    flags[keys - least >> shift] = 1
    if flags.mean() > _SET_MAX:
        return rows
    bits = rows.sparkSession.createDataFrame(pa.table({"bits": [np.packbits(flags, bitorder="little").tobytes()]}))
    is_within = sf.expr(f"{key} BETWEEN {least}L AND {greatest}L")
    bit = bit_of(rows.sparkSession, bits.scalar(), f"shiftright({key} - {least}L, {shift})")
    # What is beyond the ends has no bit; a filter of its own is also one that Parquet's reader goes by.
    return rows.where(is_within).where(sf.when(is_within, bit == 1))
