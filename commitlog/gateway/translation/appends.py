"""The files that a commit brings to tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from commitlog.adoption.definitions import SourceColumn, SourceTable
from commitlog.adoption.file_records import name_mapping, partition_values, statistics
from commitlog.adoption.source import CatalogRows
from commitlog.client.files.new_files import NewFiles
from commitlog.client.files.outside import bring
from commitlog.client.files.places import relative_to
from commitlog.domain import model as m
from commitlog.domain.model.altering import alter
from commitlog.domain.model.defining import define
from commitlog.domain.model.definitions import Column, TableDefinition
from commitlog.domain.model.types import fold
from commitlog.errors import InvalidChangeError, NotUnderstoodError
from commitlog.gateway.batch import Batch, Row
from commitlog.gateway.translation.base import Base
from commitlog.gateway.translation.lake import CommittedLake
from commitlog.gateway.translation.own_rows import GivenFile, carries_own_rows, check_row_count, written_anew
from commitlog.gateway.translation.reading import footer_of, positions_in, written_in

_READERS_MAX = 16


class Appends:
    """What a commit appends.

    Args:
        batch: the commit.
        base: the catalog at its base.
        lake: what the commit makes of it.
        defined: the changes of objects that come before.
        on_file: is told the full path of each file that is written in the place of a client's.

    Attributes:
        unused: full paths of the client's files in whose place others are written.
    """

    def __init__(
        self,
        batch: Batch,
        base: Base,
        lake: CommittedLake,
        defined: Iterable[m.Change],
        on_file: Callable[[str], None],
    ) -> None:
        self._batch = batch
        self._base = base
        self._lake = lake
        self._defined = tuple(defined)
        self._on_file = on_file
        self._own_deletes = {row["data_file_id"]: row for row in batch.rows.get("delete_file", ())}
        self.unused: list[str] = []

    def given(self, table: SourceTable) -> list[GivenFile]:
        """The files of a table as the client wrote them."""
        folder = self._lake.folder(table.table_id)
        given = [self._given(row, self._file(table, row, folder), folder) for row in self._rows(table)]
        for each in given:
            check_row_count(each, footer_of(self._base, each.path))
        return given

    def _rows(self, table: SourceTable) -> list[Row]:
        rows = self._batch.rows.get("data_file", ())
        return [row for row in rows if row["table_id"] == table.table_id and row["end_snapshot"] is None]

    def _given(self, row: Row, file: m.DataFile, folder: str) -> GivenFile:
        path = folder + file.path if file.path_is_relative else file.path
        delete = self._own_deletes.get(row["data_file_id"])
        deleted = () if delete is None else positions_in(self._base, self._lake.place(delete))
        return GivenFile(file, path, frozenset(deleted))

    def to(self, table: SourceTable) -> Iterator[m.Append]:
        """The files that come to a table."""
        rows = self._rows(table)
        if not rows:
            return
        target = self._lake.folder_to_be(table.table_id)
        if target is None:
            raise NotUnderstoodError(
                f"rows of table {table.schema}.{table.name}, which the same transaction creates and whose name is no folder's: "
                "split it, so that the table is there when its rows are written"
            )
        self._check_ids(table)
        folder = self._lake.folder(table.table_id)
        given = [(row, self._file(table, row, folder)) for row in rows]
        files = tuple(file for found in self._looked_into(table, folder, target, given) for file in found)
        if files:
            yield m.Append(table.schema, table.name, files)

    def _looked_into(
        self, table: SourceTable, folder: str, target: str, given: Sequence[tuple[Row, m.DataFile]]
    ) -> Iterable[Sequence[m.DataFile]]:
        if len(given) == 1:
            return [self._settled(table, folder, target, *given[0])]
        with ThreadPoolExecutor(min(_READERS_MAX, len(given))) as readers:
            return list(readers.map(lambda each: self._settled(table, folder, target, *each), given))

    def _settled(
        self, table: SourceTable, folder: str, target: str, row: Row, file: m.DataFile
    ) -> Sequence[m.DataFile]:
        """The file as it is, or those in its place: it has rows that the transaction changed itself, or another folder than
        the table will have, which had another name when it was written."""
        given = self._given(row, file, folder)
        metadata = footer_of(self._base, given.path)
        self._check_defaults(table, metadata)
        delete = self._own_deletes.get(row["data_file_id"])
        is_as_written = delete is None and not carries_own_rows(metadata)
        if is_as_written and (folder == target or not file.path_is_relative):
            return (file,)
        if delete is not None:
            self.unused += self._lake.unneeded(delete)
        unneeded = self._lake.unneeded(row)
        self.unused += unneeded
        with written_in(target):
            if is_as_written:
                path = bring(given.path, table.name, target, NewFiles(), is_final=bool(unneeded))
                self._on_file(path)
                return (file.replace(path=path.removeprefix(target)),)
            return tuple(written_anew(self._base, table, target, given, metadata, self._on_file))

    def _file(self, table: SourceTable, row: Row, folder: str) -> m.DataFile:
        name, catalog = f"{table.schema}.{table.name}", self._lake.catalog
        if row["begin_snapshot"] != self._batch.snapshot_id or row["partial_max"] is not None:
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
            statistics(catalog, row, table),
            partition_values(catalog, row, table),
            self._mapping(table, row),
        )

    def _mapping(self, table: SourceTable, row: Row) -> tuple[m.MappedColumn, ...] | None:
        if row["mapping_id"] is None:
            return None
        new = [each for each in self._batch.rows.get("name_mapping", ()) if each["mapping_id"] == row["mapping_id"]]
        if not new:
            return self._known_mapping(table, row)
        if any(each["is_partition"] for each in new):
            raise NotUnderstoodError(
                f"file {row['path']}, of whose columns some are in its path: INSERT its rows from read_parquet"
            )
        return name_mapping(self._lake.catalog, row, table)

    def _known_mapping(self, table: SourceTable, row: Row) -> tuple[m.MappedColumn, ...]:
        """The names of files with the same columns that were added before, by the id that they have in the catalog.

        The client may know them by its own guess of that id, which means others there: so they are taken where they give
        each field of the file to the column of its name, as the client does.
        """
        base, ids = self._base, [row["mapping_id"]]
        of_tables = [each["table_id"] for each in base.rows("column_mapping", mapping_id=ids)]
        known = CatalogRows({"name_mapping": base.rows("name_mapping", mapping_id=ids)})
        found = name_mapping(known, row, table) or ()
        held = {fold(name) for name in footer_of(base, self._lake.place(row)).schema.to_arrow_schema().names}
        shared = held & {fold(column.name) for column in table.columns}
        named = {(fold(each.source_name), fold(each.column)) for each in found}
        if of_tables != [table.table_id] or named != {(name, name) for name in shared}:
            raise NotUnderstoodError(
                f"file {row['path']}, whose columns have the names of mapping {row['mapping_id']}: attach again and repeat"
            )
        return found

    def _check_defaults(self, table: SourceTable, metadata: Any) -> None:
        """See that what a file does not hold is read as its transaction saw it."""
        if not self._lake.is_new(table.table_id):
            return
        held = set(metadata.schema.to_arrow_schema().names)
        for column in table.columns:
            if column.initial_default is not None and column.name not in held:
                raise NotUnderstoodError(
                    f"table {table.schema}.{table.name} created, filled and given column {column.name} in one transaction: "
                    "split it, so that the table is there when it is altered"
                )

    def _check_ids(self, table: SourceTable) -> None:
        """See that the columns of a table that the commit defines get the ids that its files name them by."""
        own = [each for each in self._defined if isinstance(each, m.CreateTable | m.AlterTable)]
        changes = [each for each in own if (each.schema, each.table) == (table.schema, table.name)]
        if not changes:
            return
        definition = self._base.definition(table.table_id)
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
