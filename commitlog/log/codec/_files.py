"""Data files between the model and Avro, and their statistics, which travel opaque (rules.md 2)."""

from __future__ import annotations

import math
from collections import deque
from typing import Any

from commitlog.domain import model as m
from commitlog.domain.model.json_form import NESTING_MAX
from commitlog.errors import MalformedRecordError
from commitlog.log.codec._values import (
    optional,
    positions_from_avro,
    positions_to_avro,
    scalar_to_avro,
    scalars_from_avro,
    scalars_to_avro,
)
from commitlog.log.codec.framing import read, writer_of

_write_statistics = writer_of("FileStatistics")


def encode_statistics(statistics: tuple[m.ColumnStatistics, ...]) -> bytes:
    """The bytes that a data file's record carries; no columns are no bytes."""
    if not statistics:
        return b""
    return _write_statistics(
        {
            "column": [each.column for each in statistics],
            "min": [scalar_to_avro(each.min) for each in statistics],
            "max": [scalar_to_avro(each.max) for each in statistics],
            "null_count": [optional("long", each.null_count) for each in statistics],
            "value_count": [optional("long", each.value_count) for each in statistics],
            "contains_nan": [optional("boolean", each.contains_nan) for each in statistics],
            "size_bytes": [optional("long", each.size_bytes) for each in statistics],
        }
    )


def decode_statistics(data: bytes) -> tuple[m.ColumnStatistics, ...]:
    """Statistics by column. They are hints: what does not decode proves nothing and is (), never an error."""
    if not data:
        return ()
    try:
        _, fields = read(data, "FileStatistics")
        lists = [fields[name] for name in ("null_count", "value_count", "contains_nan", "size_bytes")]
        bounds = [[_bound(value) for value in fields[name]] for name in ("min", "max")]
        return tuple([m.ColumnStatistics(*column) for column in zip(fields["column"], *bounds, *lists, strict=True)])
    except (MalformedRecordError, ValueError):
        return ()


def _bound(value: Any) -> m.Scalar:
    """NaN and the infinities bound nothing."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def file_to_avro(file: m.DataFile) -> dict[str, Any]:
    """A data file."""
    statistics = file.statistics
    values, mapping = file.partition_values, file.name_mapping
    return {
        "path": file.path,
        "path_is_relative": file.path_is_relative,
        "record_count": file.record_count,
        "file_size_bytes": file.file_size_bytes,
        "footer_size": optional("long", file.footer_size),
        "statistics": statistics if isinstance(statistics, bytes) else encode_statistics(statistics),
        "partition_values": None if values is None else ("array", scalars_to_avro(values)),
        "name_mapping": None if mapping is None else ("array", _mapping_to_avro(mapping)),
        "row_ids": None if file.row_ids is None else ("array", list(file.row_ids)),
    }


def file_from_avro(fields: dict[str, Any]) -> m.DataFile:
    """A data file, its statistics left opaque."""
    values, mapping, row_ids = fields["partition_values"], fields["name_mapping"], fields["row_ids"]
    return m.DataFile(
        fields["path"],
        fields["record_count"],
        fields["file_size_bytes"],
        fields["path_is_relative"],
        fields["footer_size"],
        fields["statistics"] or (),
        None if values is None else scalars_from_avro(values),
        None if mapping is None else _mapping_from_avro(mapping),
        None if row_ids is None else tuple(row_ids),
    )


def _mapping_to_avro(mapping: tuple[m.MappedColumn, ...]) -> list[dict[str, Any]]:
    flat: list[dict[str, Any]] = []
    waiting = deque((column, -1) for column in mapping)
    while waiting:
        column, parent = waiting.popleft()
        flat.append({"source_name": column.source_name, "column": column.column, "parent": parent})
        waiting.extend((child, len(flat) - 1) for child in column.children)
    return flat


def _mapping_from_avro(flat: list[dict[str, Any]]) -> tuple[m.MappedColumn, ...]:
    """Columns from the last to the first, so that each finds its children made."""
    depths: list[int] = []
    for index, column in enumerate(flat):
        parent = column["parent"]
        if not -1 <= parent < index:
            raise MalformedRecordError(f"name_mapping: column {index} stands before the column it is in")
        depths.append(0 if parent == -1 else depths[parent] + 1)
        if depths[index] > NESTING_MAX:
            raise MalformedRecordError(f"name_mapping: nested deeper than {NESTING_MAX} levels")
    children: list[list[m.MappedColumn]] = [[] for _ in range(len(flat) + 1)]
    for index in range(len(flat) - 1, -1, -1):
        column = flat[index]
        inner = tuple(reversed(children[index]))
        children[column["parent"]].append(m.MappedColumn(column["source_name"], column["column"], inner))
    return tuple(reversed(children[-1]))


def position_delete_to_avro(delete: m.PositionDelete) -> dict[str, Any]:
    """Deleted rows of one file."""
    return {"data_file_id": delete.data_file_id, "rows": positions_to_avro(delete.rows)}


def position_delete_from_avro(fields: dict[str, Any]) -> m.PositionDelete:
    """Deleted rows of one file."""
    return m.PositionDelete(fields["data_file_id"], positions_from_avro(fields["rows"]))


def delete_file_to_avro(file: m.DeleteFile) -> dict[str, Any]:
    """A delete file."""
    return {
        "data_file_id": file.data_file_id,
        "path": file.path,
        "path_is_relative": file.path_is_relative,
        "rows": positions_to_avro(file.rows),
        "file_size_bytes": file.file_size_bytes,
        "footer_size": optional("long", file.footer_size),
    }


def delete_file_from_avro(fields: dict[str, Any]) -> m.DeleteFile:
    """A delete file."""
    return m.DeleteFile(
        data_file_id=fields["data_file_id"],
        path=fields["path"],
        rows=positions_from_avro(fields["rows"]),
        file_size_bytes=fields["file_size_bytes"],
        path_is_relative=fields["path_is_relative"],
        footer_size=fields["footer_size"],
    )
