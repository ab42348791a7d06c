"""Generated from schemas/file_statistics.avsc by `make records`: their bytes."""

from __future__ import annotations

from collections.abc import Sequence

from librt.strings import BytesWriter

from commitlog.domain.model.records.file_statistics import ColumnStatistics
from commitlog.log.codec.avro import Cursor, array, maybe_flag, maybe_long, same_length, text
from commitlog.log.codec.values import read_bound, write_bound


def write_file_statistics(out: BytesWriter, them: Sequence[ColumnStatistics]) -> None:
    """Writes a FileStatistics, as `schemas/file_statistics.avsc` has it."""
    array(out, text, [each.column for each in them])
    array(out, write_bound, [each.min for each in them])
    array(out, write_bound, [each.max for each in them])
    array(out, maybe_long, [each.null_count for each in them])
    array(out, maybe_long, [each.value_count for each in them])
    array(out, maybe_flag, [each.contains_nan for each in them])
    array(out, maybe_long, [each.size_bytes for each in them])


def read_file_statistics(cursor: Cursor) -> tuple[ColumnStatistics, ...]:
    """Reads a FileStatistics; ValueError when the lists differ in length."""
    column = cursor.texts()
    min = cursor.array(read_bound)
    max = cursor.array(read_bound)
    null_count = cursor.maybe_longs()
    value_count = cursor.maybe_longs()
    contains_nan = cursor.array(Cursor.maybe_flag)
    size_bytes = cursor.maybe_longs()
    count = same_length((column, min, max, null_count, value_count, contains_nan, size_bytes))
    return tuple(
        [
            ColumnStatistics(
                column[at], min[at], max[at], null_count[at], value_count[at], contains_nan[at], size_bytes[at]
            )
            for at in range(count)
        ]
    )
