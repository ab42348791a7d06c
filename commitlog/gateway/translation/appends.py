"""The files that a commit brings to tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow.parquet as pq

from commitlog.adoption.definitions import SourceColumn, SourceTable
from commitlog.adoption.file_records import name_mapping, partition_values, statistics
from commitlog.client.files.places import relative_to
from commitlog.domain import model as m
from commitlog.domain.model.altering import alter
from commitlog.domain.model.definitions import Column, TableDefinition, define
from commitlog.errors import InvalidChangeError, NotUnderstoodError
from commitlog.gateway.batch import Batch, Row
from commitlog.gateway.translation.base import Base
from commitlog.gateway.translation.lake import CommittedLake

_ROW_ID = "_ducklake_internal_row_id"
_READERS_MAX = 16
_OWN_ROW_ID = 10**18
"""From here on the client numbers rows that its transaction inserted itself."""
OWN_ROWS = (
    "rows of table {} that the same transaction inserted were changed or deleted in it: split it, so that they are inserted in "
    "one transaction and changed in the next"
)


def append(
    batch: Batch, base: Base, lake: CommittedLake, table: SourceTable, defined: Iterable[m.Change]
) -> Iterator[m.Append]:
    """The files that come to a table.

    Args:
        batch: the commit.
        base: the catalog at its base.
        lake: what the commit makes of it.
        table: which.
        defined: the changes of objects that come before.
    """
    rows = [
        row
        for row in batch.rows.get("data_file", ())
        if row["table_id"] == table.table_id and row["end_snapshot"] is None
    ]
    if not rows:
        return
    name = f"{table.schema}.{table.name}"
    if lake.is_new(table.table_id) and not lake.is_plain(table.table_id):
        raise NotUnderstoodError(
            f"rows of table {name}, which the same transaction creates and whose name is no folder's: split it, so that the "
            "table is there when its rows are written"
        )
    _check_ids(base, table, tuple(defined))
    folder = lake.folder(table.table_id)
    files = tuple(_file(batch, lake, table, row, folder) for row in rows)
    _check_files(base, lake, table, [folder + file.path if file.path_is_relative else file.path for file in files])
    yield m.Append(table.schema, table.name, files)


def _file(batch: Batch, lake: CommittedLake, table: SourceTable, row: Row, folder: str) -> m.DataFile:
    name = f"{table.schema}.{table.name}"
    if row["begin_snapshot"] != batch.snapshot_id or row["partial_max"] is not None:
        raise NotUnderstoodError(f"file {row['path']} of table {name}, which holds rows of other snapshots")
    if row["encryption_key"] is not None:
        raise NotUnderstoodError(f"file {row['path']} of table {name} is encrypted: attach without ENCRYPTED")
    if row["file_format"] != "parquet":
        raise NotUnderstoodError(f"file {row['path']} of table {name} is {row['file_format']}, not Parquet")
    path, is_relative = row["path"], row["path_is_relative"]
    if not is_relative:
        path, is_relative = relative_to(path, folder)
    return m.DataFile(
        path,
        row["record_count"],
        row["file_size_bytes"],
        is_relative,
        row["footer_size"],
        statistics(lake.catalog, row, table),
        partition_values(lake.catalog, row, table),
        _mapping(batch, lake, row, table),
    )


def _mapping(batch: Batch, lake: CommittedLake, row: Row, table: SourceTable) -> tuple[m.MappedColumn, ...] | None:
    if row["mapping_id"] is None:
        return None
    new = [each for each in batch.rows.get("name_mapping", ()) if each["mapping_id"] == row["mapping_id"]]
    if not new:
        raise NotUnderstoodError(
            f"file {row['path']}, whose columns have the names of mapping {row['mapping_id']}: attach again and repeat"
        )
    if any(each["is_partition"] for each in new):
        raise NotUnderstoodError(
            f"file {row['path']}, of whose columns some are in its path: INSERT its rows from read_parquet"
        )
    return name_mapping(lake.catalog, row, table)


def _check_files(base: Base, lake: CommittedLake, table: SourceTable, paths: Sequence[str]) -> None:
    if len(paths) == 1:
        _check_file(base, lake, table, paths[0])
        return
    with ThreadPoolExecutor(min(_READERS_MAX, len(paths))) as readers:
        for checked in [readers.submit(_check_file, base, lake, table, path) for path in paths]:
            checked.result()


def _check_file(base: Base, lake: CommittedLake, table: SourceTable, path: str) -> None:
    """See that what the file holds is read as its transaction saw it."""
    with base.open(path) as file:
        metadata: Any = pq.read_metadata(file)
    name = f"{table.schema}.{table.name}"
    _check_row_ids(metadata, name)
    if lake.is_new(table.table_id):
        held = set(metadata.schema.to_arrow_schema().names)
        for column in table.columns:
            if column.initial_default is not None and column.name not in held:
                raise NotUnderstoodError(
                    f"table {name} created, filled and given column {column.name} in one transaction: split it, so that the "
                    "table is there when it is altered"
                )


def _check_row_ids(metadata: Any, table: str) -> None:
    """See that a file carries no row ids of rows that its own transaction inserted."""
    for group in range(metadata.num_row_groups):
        described = metadata.row_group(group)
        for at in range(described.num_columns - 1, -1, -1):
            column = described.column(at)
            if column.path_in_schema == _ROW_ID:
                if column.statistics is None or column.statistics.max >= _OWN_ROW_ID:
                    raise NotUnderstoodError(OWN_ROWS.format(table))
                break


# --- ids of columns, which the files name -----------------------------------------------------------------------------


def _check_ids(base: Base, table: SourceTable, defined: tuple[m.Change, ...]) -> None:
    """See that the columns of a table that the commit defines get the ids that its files name them by."""
    own = [each for each in defined if isinstance(each, m.CreateTable | m.AlterTable)]
    changes = [each for each in own if (each.schema, each.table) == (table.schema, table.name)]
    if not changes:
        return
    definition = base.definition(table.table_id)
    try:
        for change in changes:
            definition = _changed(definition, change)
    except InvalidChangeError:
        return  # The log says so, in its own words.
    if definition is None or _ids(table.columns) != _ids(definition.columns):
        raise NotUnderstoodError(
            f"table {table.schema}.{table.name} defined and filled in one transaction in a way that numbers its columns "
            "otherwise than the log: split it, so that the table is as it shall be when its rows are written"
        )


def _changed(definition: TableDefinition | None, change: m.CreateTable | m.AlterTable) -> TableDefinition:
    if isinstance(change, m.CreateTable):
        return define(change, table_id=0, schema_id=0, partition_id=0)
    assert definition is not None
    return alter(definition, change.alterations, partition_ids=(0,) * len(change.alterations))


def _ids(columns: Iterable[SourceColumn | Column]) -> list[tuple[int, str]]:
    found: list[tuple[int, str]] = []
    for column in columns:
        found.append((column.column_id, column.name))
        found += _ids(column.children)
    return sorted(found)
