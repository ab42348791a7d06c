"""A Parquet file as a data file of a table: what its footer says, once everything in it fits the table.

Everything that does not fit is said at once: which column, what the table expects and what the file has. A file
without field ids is mapped by name; one with ids is matched by them alone.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from commitlog.client.files.column_statistics import column_statistics
from commitlog.client.tables.arrow_types import fields_of, fits, is_list, leaf_count
from commitlog.client.tables.partitions import partition_values_of
from commitlog.domain.model import ColumnStatistics, DataFile, MappedColumn, Scalar
from commitlog.domain.model.definitions import Column, TableDefinition
from commitlog.domain.model.types import ColumnType, fold
from commitlog.errors import DataFileError

ROW_ID, ROW_ID_FIELD = "_ducklake_internal_row_id", 2147483540
"""The column, and its field id, by which a file of COMPACT or FLUSH carries the ids of its rows."""

_FIELD_ID = b"PARQUET:field_id"
_LIST_CHILD = "list"
"""What the stock client calls the element of a list in a mapping by name."""


@dataclass(frozen=True, slots=True)
class _Footer:
    metadata: Any
    schema: pa.Schema
    footer_size: int
    file_size_bytes: int


def read_data_file(
    path: str | Path,
    table: TableDefinition,
    *,
    table_path: str | None,
    partition_values: Sequence[Scalar] | None = None,
    carries_row_ids: bool = False,
) -> DataFile:
    """Describe a Parquet file as a data file of a table.

    Args:
        path: a local path or an object store's URL.
        table: the table's definition.
        table_path: where the table's files are; a file below it is named relative to it.
        partition_values: in the order of the table's partition keys, after the transform; None takes those that the
            footer proves.
        carries_row_ids: whether the file may have DuckLake's own column of row ids beside the table's.

    Raises:
        DataFileError: there is no such file, it is not Parquet, or its columns do not fit the table.
    """
    place = normal_path(path)
    footer = _read_footer(place)
    fields = [each for each in footer.schema if not (carries_row_ids and _field_id(each) == ROW_ID_FIELD)]
    pairs = list(_matched(place, pa.schema(fields), table))
    statistics = tuple(_statistics(footer, pairs))
    _check_nulls(place, table, statistics)
    if partition_values is None:
        partition_values = partition_values_of(table, statistics, footer.metadata.num_rows)
    shown, is_relative = relative_to(place, table_path)
    return DataFile(
        path=shown,
        path_is_relative=is_relative,
        record_count=footer.metadata.num_rows,
        file_size_bytes=footer.file_size_bytes,
        footer_size=footer.footer_size,
        statistics=statistics,
        partition_values=None if partition_values is None else tuple(partition_values),
        name_mapping=None if _has_ids(footer.schema) else tuple(_mapping(column, field) for column, field in pairs),
    )


# --- paths ------------------------------------------------------------------------------------------------------------


def normal_path(path: str | Path) -> str:
    """A local path made absolute, or an object store's URL as it is."""
    text = os.fspath(path)
    parts = urlsplit(text)
    if parts.scheme == "file":
        text = unquote(parts.path)
    elif "://" in text:
        return text
    return os.path.abspath(text)


def filesystem_of(place: str) -> tuple[fs.FileSystem, str]:
    """The file system of a path or URL, and the path in it, where every letter stands for itself: ``%`` and ``[`` too."""
    scheme, separator, rest = place.partition("://")
    if not separator:
        return fs.LocalFileSystem(), place
    host, _, path = rest.partition("/")
    filesystem, root = fs.FileSystem.from_uri(f"{scheme}://{host}/")
    return filesystem, f"{root.rstrip('/')}/{path}"


def relative_to(place: str, table_path: str | None) -> tuple[str, bool]:
    """The path as a data file's record has it: below the table's own directory, or absolute."""
    if table_path is not None:
        directory = normal_path(table_path).rstrip("/") + "/"
        if place.startswith(directory):
            return place.removeprefix(directory), True
    return place, False


# --- the footer -------------------------------------------------------------------------------------------------------


def _read_footer(place: str) -> _Footer:
    try:
        filesystem, inner = filesystem_of(place)
        info = filesystem.get_file_info(inner)
        if info.type is fs.FileType.NotFound:
            raise DataFileError(f"{place} does not exist; write the file before it is committed")
        if info.type is fs.FileType.Directory:
            raise DataFileError(f"{place} is a directory; name the Parquet files in it")
        with filesystem.open_input_file(inner) as file:
            return _parsed_footer(place, file, info.size)
    except pa.ArrowInvalid as error:
        raise DataFileError(f"{place} is not a readable Parquet file: {_first_line(error)}") from None
    except OSError as error:
        raise DataFileError(f"{place} cannot be read: {_first_line(error)}") from None


def _parsed_footer(place: str, file: Any, size: int) -> _Footer:
    if size < 12:
        raise DataFileError(f"{place} is not a Parquet file: it has only {size} bytes")
    tail = file.read_at(8, size - 8)
    if tail[4:] == b"PARE":
        raise DataFileError(f"{place} has an encrypted footer, which no reader of the lake could open")
    if tail[4:] != b"PAR1":
        raise DataFileError(f"{place} is not a Parquet file: it does not end with PAR1")
    try:
        metadata = pq.read_metadata(file)
    except OSError as error:
        raise DataFileError(f"{place} is not a readable Parquet file: {_first_line(error)}") from None
    footer_size: int = struct.unpack("<I", tail[:4])[0]
    return _Footer(metadata, metadata.schema.to_arrow_schema(), footer_size, size)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


# --- columns ----------------------------------------------------------------------------------------------------------


def _field_id(field: pa.Field) -> int | None:
    value = (field.metadata or {}).get(_FIELD_ID)
    return None if value is None or int(value) < 0 else int(value)


def _has_ids(schema: pa.Schema) -> bool:
    return any(_field_id(field) is not None for field in schema)


def _matched(place: str, schema: pa.Schema, table: TableDefinition) -> Iterator[tuple[Column, pa.Field]]:
    """The table's column of each of the file's, in the order of the file.

    Raises:
        DataFileError: lists everything that does not fit.
    """
    by_id = _has_ids(schema)
    given = [(_column_of(field, table, by_id=by_id), field) for field in schema]
    pairs = [(column, field) for column, field in given if column is not None]
    problems = list(_strangers([field for column, field in given if column is None], table, by_id=by_id))
    for column, field in pairs:
        problems += _misfits(column, field, field.name, by_id=by_id)
    taken = [column.column_id for column, _ in pairs]
    problems += [f"column {c.name} is there twice" for c in table.columns if taken.count(c.column_id) > 1]
    problems += [
        f"column {column.name} is missing, expected {column.type} (never NULL)"
        for column in table.columns
        if column.column_id not in taken and not column.nullable and column.initial_default is None
    ]
    if problems:
        raise DataFileError(f"{place} does not fit table {table.name}: " + "; ".join(problems[:20]))
    return iter(pairs)


def _column_of(field: pa.Field, table: TableDefinition, *, by_id: bool) -> Column | None:
    if by_id:
        field_id = _field_id(field)
        return next((column for column in table.columns if column.column_id == field_id), None)
    return next((column for column in table.columns if fold(column.name) == fold(field.name)), None)


def _strangers(fields: list[pa.Field], table: TableDefinition, *, by_id: bool) -> Iterator[str]:
    """What to say of the file's columns that are none of the table's."""
    if not fields:
        return
    if by_id:
        known = ", ".join(f"{column.name}={column.column_id}" for column in table.columns[:20])
        for field in fields:
            field_id = _field_id(field)
            if field_id is None:
                yield f"column {field.name} has no field id though others have one; give ids to all columns or to none"
            else:
                yield f"column {field.name} has field id {field_id}, which is none of the table's ({known})"
        return
    names = ", ".join(field.name for field in fields[:20])
    known = ", ".join(column.name for column in table.columns[:20])
    yield f"{'column' if len(fields) == 1 else 'columns'} {names} not in the table (it has {known})"


def _misfits(column: Column, field: pa.Field, where: str, *, by_id: bool) -> Iterator[str]:
    inner = list(fields_of(field.type))
    expected = column.type
    if not inner and not column.children:
        if not fits(expected, field.type):
            yield f"column {where}: expected {expected}, found {_shown(field.type)}"
        return
    if not _same_shape(expected, field.type):
        yield f"column {where}: expected {expected}, found {_shown(field.type)}"
        return
    if expected.name == "struct":
        yield from _struct_misfits(column, inner, where, by_id=by_id)
        return
    for child, child_field in zip(column.children, inner, strict=True):
        yield from _id_misfit(child, child_field, f"{where}.{child.name}")
        yield from _misfits(child, child_field, f"{where}.{child.name}", by_id=by_id)


def _struct_misfits(column: Column, inner: list[pa.Field], where: str, *, by_id: bool) -> Iterator[str]:
    for child_field in inner:
        child = _child_of(column, child_field, by_id=by_id)
        if child is None:
            yield f"column {where}: field {child_field.name} is not in {column.type}"
            continue
        yield from _misfits(child, child_field, f"{where}.{child_field.name}", by_id=by_id)


def _child_of(column: Column, field: pa.Field, *, by_id: bool) -> Column | None:
    field_id = _field_id(field)
    if by_id and field_id is not None:
        return next((child for child in column.children if child.column_id == field_id), None)
    return next((child for child in column.children if fold(child.name) == fold(field.name)), None)


def _id_misfit(child: Column, field: pa.Field, where: str) -> Iterator[str]:
    field_id = _field_id(field)
    if field_id is not None and field_id != child.column_id:
        yield f"column {where} has field id {field_id}, expected {child.column_id}"


def _same_shape(expected: ColumnType, found: pa.DataType) -> bool:
    shapes = {"struct": pa.types.is_struct, "map": pa.types.is_map, "list": is_list}
    return expected.name in shapes and bool(shapes[expected.name](found))


def _shown(found: pa.DataType) -> str:
    text = str(found)
    return text if len(text) <= 80 else text[:77] + "..."


def _mapping(column: Column, field: pa.Field, source_name: str | None = None) -> MappedColumn:
    inner = list(fields_of(field.type))
    if column.type.name == "struct":
        pairs = [(_child_of(column, each, by_id=False), each, each.name) for each in inner]
        children = tuple(_mapping(child, each, name) for child, each, name in pairs if child is not None)
    elif column.type.name == "list":
        children = (_mapping(column.children[0], inner[0], _LIST_CHILD),)
    else:
        children = tuple(_mapping(c, each, c.name) for c, each in zip(column.children, inner, strict=True))
    return MappedColumn(field.name if source_name is None else source_name, column.name, children)


# --- contents ---------------------------------------------------------------------------------------------------------


def _statistics(footer: _Footer, pairs: list[tuple[Column, pa.Field]]) -> Iterator[ColumnStatistics]:
    columns = {field.name: column for column, field in pairs}
    leaf = 0
    for field in footer.schema:
        column = columns.get(field.name)
        if column is not None and not column.children:
            yield column_statistics(footer.metadata, leaf, column, field.type)
        leaf += leaf_count(field.type)


def _check_nulls(place: str, table: TableDefinition, statistics: tuple[ColumnStatistics, ...]) -> None:
    for known in statistics:
        if known.null_count and not table.column(known.column).nullable:
            raise DataFileError(
                f"{place} does not fit table {table.name}: column {known.column} may not be NULL, but "
                f"{known.null_count} rows of the file are"
            )
