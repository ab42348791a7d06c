"""The schemas, tables and views that a commit touches: as they were at its base, and as they are to be."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from functools import cached_property

from commitlog.adoption.definitions import Definitions, SourceColumn, SourceTable, SourceView
from commitlog.adoption.source import CatalogRows, is_computed
from commitlog.catalog.folders import is_plain, path_of
from commitlog.client.files.places import relative_to
from commitlog.domain.model.definitions import FOREIGN_PATHS
from commitlog.errors import NotUnderstoodError
from commitlog.gateway.batch import Batch, Row
from commitlog.gateway.refusing import RENAMED_TWICE
from commitlog.gateway.translation.base import Base

_DEFINED_BY = ("schema", "table", "view", "column", "tag", "column_tag", "partition_info")
_OF_FILES = ("file_column_stats", "file_partition_value", "name_mapping")
_COMMENT = "comment"
_MADE = re.compile(r"(?:[^/]+/)*ducklake-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?:-delete)?\.parquet")
"""How the client names the files that it makes itself, below a table's folder."""
_NO_PARTS = ("", ".", "..")


class CommittedLake:
    """What a commit makes of the lake that it saw.

    Args:
        batch: the commit.
        base: the catalog at its base.
    """

    def __init__(self, batch: Batch, base: Base) -> None:
        self._batch = batch
        self._base = base
        self.alters = any(name in batch.rows for name in _DEFINED_BY) or any(
            ending.table in _DEFINED_BY for ending in batch.endings
        )
        self.whole_files = self._files_ended()
        rows = {name: self._definition_rows(name) for name in _DEFINED_BY}
        rows["partition_column"] = self._partition_columns(rows["partition_info"])
        self._rows = rows
        self.catalog = CatalogRows({name: batch.rows.get(name, ()) for name in _OF_FILES})
        definitions = Definitions(CatalogRows(rows))
        self.before = definitions.at(base.snapshot_id)
        self.after = definitions.at(batch.snapshot_id)
        self._check_folders()
        self._check_places()
        self._check_files()
        if self.alters:
            self._check()

    # --- what was there -----------------------------------------------------------------------------------------------

    @cached_property
    def touched(self) -> frozenset[int]:
        """The ids of the tables and views that the commit names."""
        found = {row["table_id"] for name in ("column", "column_tag", "partition_info") for row in self._new(name)}
        found |= {row["table_id"] for name in ("table", "data_file", "delete_file") for row in self._new(name)}
        found |= {row["object_id"] for row in self._new("tag")} | {row["view_id"] for row in self._new("view")}
        found |= {row["table_id"] for row in self.whole_files}
        for ending in self._batch.endings:
            if ending.columns[0] != "data_file_id" and ending.table != "schema":
                found |= {value[0] for value in ending.values}
        return frozenset(found) | self._batch.inlined_deletes.keys() | self._batch.ended_rows.keys()

    def _new(self, name: str) -> Collection[Row]:
        return self._batch.rows.get(name, ())

    def _files_ended(self) -> list[Row]:
        ids = {
            value[0] for ending in self._batch.endings if ending.columns == ("data_file_id",) for value in ending.values
        }
        found = list(self._base.rows("data_file", data_file_id=sorted(ids))) if ids else []
        own = {row["data_file_id"] for row in self._new("data_file")}
        if missing := ids - own - {row["data_file_id"] for row in found}:
            raise NotUnderstoodError(
                f"a delete of data file {min(missing)}, which was not there: read again and repeat"
            )
        return found

    def _definition_rows(self, name: str) -> list[Row]:
        endings = [ending for ending in self._batch.endings if ending.table == name]
        rows: list[Row] = []
        for row in self._at_base(name):
            end = self._batch.snapshot_id if any(ending.ends(row) for ending in endings) else None
            rows.append({**row, "end_snapshot": end})
        return rows + list(self._new(name))

    def _at_base(self, name: str) -> Collection[Row]:
        objects = sorted(self.touched)
        match name:
            case "schema":
                return self._base.rows("schema")
            case "table" | "column":
                return self._base.rows(name, table_id=objects)
            case "partition_info":
                needed = self.alters or any(row["partition_id"] is not None for row in self._new("data_file"))
                return self._base.rows(name, table_id=objects) if needed else ()
            case "column_tag":
                return self._base.rows(name, table_id=objects) if self.alters else ()
        key = {"view": "view_id", "tag": "object_id"}[name]
        return self._base.rows(name, **{key: objects}) if self.alters else ()

    def _partition_columns(self, infos: Collection[Row]) -> list[Row]:
        new = list(self._new("partition_column"))
        known = sorted(
            {row["partition_id"] for row in infos} - {row["partition_id"] for row in self._new("partition_info")}
        )
        return [*self._base.rows("partition_column", partition_id=known), *new] if known else new

    # --- tables -------------------------------------------------------------------------------------------------------

    def table(self, table_id: int) -> SourceTable:
        """A table as it is to be, which rows come to or go from."""
        found = self.after.tables.get(table_id)
        if found is None:
            raise NotUnderstoodError(f"rows of table {table_id}, which was not there: read again and repeat")
        return found

    def is_new(self, table_id: int) -> bool:
        """Whether the commit creates the table."""
        return table_id not in self.before.tables

    @property
    def dropped(self) -> Set[int]:
        """The ids of the tables that were there and go."""
        return self.before.tables.keys() - self.after.tables.keys()

    def folder(self, table_id: int) -> str:
        """Where the table's files are, with a slash at the end."""
        table = self._by_id["table"][table_id]
        if not table["path_is_relative"]:
            return str(table["path"])
        return self._folder_of(self._by_id["schema"][table["schema_id"]]) + str(table["path"] or "")

    def place(self, row: Row) -> str:
        """The full path of a file, of its row in the catalog."""
        path = str(row["path"])
        return self.folder(row["table_id"]) + path if row["path_is_relative"] else path

    def unneeded(self, row: Row) -> tuple[str, ...]:
        """The full path of a file that the proposal does not name, where it can go: only what the client itself has just made.

        A file that it was told to add, by `ducklake_add_data_files`, is the user's, and what the lake holds already is nobody's
        to remove, whatever a text says of it.
        """
        place = self.place(row)
        return (place,) if place in self._removable else ()

    def unneeded_of(self, table_id: int) -> list[str]:
        """The same of all files that the commit brings to a table."""
        return [path for row in self._new_files if row["table_id"] == table_id for path in self.unneeded(row)]

    def made_for(self, table_id: int) -> list[str]:
        """The full paths of the files of a table that are called as the client itself calls those that it makes."""
        return [self.place(row) for row in self._new_files if row["table_id"] == table_id and _is_made(row)]

    @cached_property
    def _removable(self) -> Set[str]:
        made = {self.place(row): self.folder(row["table_id"]) for row in self._new_files if _is_made(row)}
        return made.keys() - self._base.named(set(made.values()), made.keys()) if made else frozenset()

    @cached_property
    def _new_files(self) -> Sequence[Row]:
        return (*self._new("data_file"), *self._new("delete_file"))

    def folder_to_be(self, table_id: int) -> str | None:
        """The folder that the log gives a table, with a slash at the end; None where nobody knows it before it is created."""
        if not self.is_new(table_id):
            return self.folder(table_id)
        table = self._by_id["table"][table_id]
        schema = self._by_id["schema"][table["schema_id"]]
        is_known = schema["schema_id"] in self.before.schemas or schema["path"] == path_of(schema["schema_name"], "")
        if not is_known or not is_plain(table["table_name"]):
            return None
        return self._folder_of(schema) + path_of(table["table_name"], "")

    def _folder_of(self, schema: Row) -> str:
        path = str(schema["path"] or "")
        return self._base.data_path + path if schema["path_is_relative"] else path

    @cached_property
    def _by_id(self) -> Mapping[str, Mapping[int, Row]]:
        """Of each schema and table the row at the base, for none is moved; of a new one its newest."""
        return {
            name: {row[f"{name}_id"]: row for row in (*self._new(name), *self._at_base(name))}
            for name in ("schema", "table")
        }

    # --- what cannot be said ------------------------------------------------------------------------------------------

    def _check(self) -> None:
        self._check_drops()
        self._check_tags()
        for table_id, after in self.after.tables.items():
            before = self.before.tables.get(table_id)
            if before is not None and before.schema != after.schema:
                raise NotUnderstoodError(
                    f"table {before.schema}.{before.name} moved to schema {after.schema}: create it there from a query instead"
                )
            _check_nested(before, after)
        for schema_id, name in self.after.schemas.items():
            if self.before.schemas.get(schema_id, name) != name:
                raise NotUnderstoodError(
                    f"schema {self.before.schemas[schema_id]} renamed: a log does not rename schemas"
                )
        for row in self._new("column"):
            if row["end_snapshot"] is None and is_computed(row):
                raise NotUnderstoodError(
                    f"column {row['column_name']} with the default expression {row['default_value']}: a default is a literal "
                    "value, such as 3 or 'none'"
                )

    def _check_drops(self) -> None:
        """See that what goes is dropped: the client takes away what one transaction renames twice to its own name."""
        views = self.before.views.keys() - self.after.views.keys()
        gone: list[tuple[str, int, SourceTable | SourceView]] = [
            *(("table", table_id, self.before.tables[table_id]) for table_id in self.dropped),
            *(("view", view_id, self.before.views[view_id]) for view_id in views),
        ]
        for what, number, was in gone:
            if (f"dropped_{what}", number) not in self._batch.said:
                raise NotUnderstoodError(f"{what} {was.schema}.{was.name} goes and is not dropped: {RENAMED_TWICE}")

    def _check_folders(self) -> None:
        """See that what the commit makes lies where the client would have put it: the gateway reads and removes files there."""
        for name in ("schema", "table"):
            there = {row[f"{name}_id"] for row in self._at_base(name)}
            for row in self._new(name):
                folder = str(row["path"] or "")
                is_own = row["path_is_relative"] and folder.endswith("/") and is_plain(folder[:-1])
                if row[f"{name}_id"] not in there and not is_own:
                    raise NotUnderstoodError(
                        f"{name} {row[f'{name}_name']} in the folder {folder!r}, which is not its own"
                    )

    def _check_places(self) -> None:
        """See that the gateway reads no file that the log would not take: it may see more than who commits."""
        for row in self._new_files:
            if row["table_id"] not in self._by_id["table"]:
                continue  # what is said of that comes later
            path, is_relative = str(row["path"]), row["path_is_relative"]
            if not is_relative:
                path, is_relative = relative_to(path, self.folder(row["table_id"]))
            if is_relative and any(part in _NO_PARTS for part in path.split("/")):
                raise NotUnderstoodError(f"file {path!r}, which may lie outside of its table's folder")
            if not is_relative and not self._takes_foreign_paths(row["table_id"]):
                raise NotUnderstoodError(
                    f"file {path!r} outside of its table's folder: write it there, or set the table's property {FOREIGN_PATHS} "
                    "to true"
                )

    def _takes_foreign_paths(self, table_id: int) -> bool:
        definition = None if self.is_new(table_id) else self._base.definition(table_id)
        return definition is not None and definition.properties.get(FOREIGN_PATHS) == "true"

    def _check_files(self) -> None:
        for ending in self._batch.endings:
            of_tables = ending.table in ("data_file", "delete_file") and ending.columns == ("table_id",)
            if of_tables and (kept := {value[0] for value in ending.values} - self.dropped):
                raise NotUnderstoodError(f"the end of all files of table {min(kept)}, which stays: TRUNCATE it instead")
        if self._batch.superseded:
            given = {row["data_file_id"] for row in (*self._new("delete_file"), *self.whole_files)}
            for row in self._base.rows("delete_file", delete_file_id=sorted(self._batch.superseded)):
                if row["data_file_id"] not in given:
                    raise NotUnderstoodError(f"rows of data file {row['data_file_id']} that were deleted and come back")

    def _check_tags(self) -> None:
        tables = self.before.tables.keys() | self.after.tables.keys()
        for row in self._new("tag"):
            if row["object_id"] not in tables and row["value"] is not None:
                raise NotUnderstoodError("a comment on a view or schema: a log keeps comments of tables and columns")
        nested = {
            (table.table_id, child) for table in self.after.tables.values() for child in _nested_ids(table.columns)
        }
        for row in self._new("column_tag"):
            if (row["table_id"], row["column_id"]) in nested:
                raise NotUnderstoodError("a comment on a field of a struct: comment on its column instead")
        for row in (*self._new("tag"), *self._new("column_tag")):
            if row["key"] != _COMMENT:
                raise NotUnderstoodError(f"the tag {row['key']}, which a log does not keep")
        for table_id, table in self.after.tables.items():
            comments = (table.comment, *(column.comment for column in table.columns))
            if table_id not in self.before.tables and any(each is not None for each in comments):
                raise NotUnderstoodError(
                    f"a comment on table {table.schema}.{table.name}, or on a column of it, in the transaction that creates "
                    "it: split it, so that the table is there when it is commented on"
                )


def _is_made(row: Row) -> bool:
    return bool(row["path_is_relative"]) and _MADE.fullmatch(str(row["path"])) is not None


def _nested_ids(columns: Collection[SourceColumn]) -> Iterator[int]:
    for column in columns:
        yield from (each for child in column.children for each in child.ids())


def _check_nested(before: SourceTable | None, after: SourceTable) -> None:
    known = {} if before is None else {column.column_id: column for column in before.columns}
    for column in after.columns:
        was = known.get(column.column_id)
        if was is not None and (was.children or column.children) and was.type != column.type:
            raise NotUnderstoodError(
                f"column {column.name} of table {after.schema}.{after.name} whose fields change: add a column of the new type "
                "and drop this one"
            )
