"""A changeset in the making: what a program wants to change and what it has read, as of one snapshot.

Nothing is locked and nobody is talked to, except that the tables are looked up whose files are described. Names and definitions
are those of the base, with the changeset's own changes on top.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from commitlog.client.arguments import (
    checked_count,
    checked_flag,
    checked_ids,
    checked_items,
    checked_mapping,
    checked_properties,
    checked_schema,
    checked_text,
    checked_version,
)
from commitlog.client.changeset_tables import TablesInSight
from commitlog.client.files.file_paths import check_paths
from commitlog.client.files.given_files import Files
from commitlog.client.files.outside import checked_outside
from commitlog.client.tables.alterations import TableAlteration
from commitlog.client.tables.filters import Where, predicates
from commitlog.client.tables.names import TableName, parse_table_name
from commitlog.client.tables.overlay import define_new
from commitlog.client.tables.partitions import partition_specs
from commitlog.client.tables.schemas import Columns, columns_from
from commitlog.client.tables.views import checked_view
from commitlog.client.writing.rows import RowData, rows_or_files
from commitlog.domain import model as m
from commitlog.domain.model.types import fold
from commitlog.domain.model.values import row_positions
from commitlog.errors import InvalidChangeError, InvalidRequestError

ON_CONFLICT = "on_conflict"


class Changeset(TablesInSight):
    """What a program puts into one commit. Its methods are ``Transaction``'s."""

    # --- schemas, tables, views ---------------------------------------------------------------------------------------

    def create_schema(self, schema: str, *, if_not_exists: bool = False) -> None:
        """Create a schema."""
        self._add(m.CreateSchema(checked_schema(schema), checked_flag("if_not_exists", if_not_exists)))

    def drop_schema(self, schema: str, *, cascade: bool = False, if_exists: bool = False) -> None:
        """Drop a schema; with ``cascade`` also what is in it."""
        cascade, if_exists = checked_flag("cascade", cascade), checked_flag("if_exists", if_exists)
        self._add(m.DropSchema(checked_schema(schema), cascade, if_exists))

    def create_table(
        self,
        table: str,
        schema: Columns,
        *,
        partition_by: Iterable[str | m.PartitionSpec] = (),
        primary_key: Iterable[str] = (),
        unique: Iterable[Iterable[str]] = (),
        foreign_keys: Iterable[m.ForeignKeySpec] = (),
        properties: Mapping[str, str] | None = None,
        if_not_exists: bool = False,
    ) -> None:
        """Create a table.

        Args:
            table: its name, ``schema.table`` or ``table``.
            schema: an Arrow schema, column name to DuckLake type, or ColumnSpecs.
            partition_by: columns, or ``"month(day)"``, ``"bucket(16, id)"``.
            primary_key: columns; the table then takes rows (``insert_row``, ...) instead of files.
            unique: further unique constraints of a keyed table.
            foreign_keys: references of a keyed table.
            properties: ``conflict_granularity`` (TABLE, FILE, ROW), ``on_conflict``, ``foreign_paths`` (true, false),
                ``statistics_columns`` (of how many of the first columns the catalog has each file's statistics; 32),
                ``replicated`` (false: links between sites leave the table where it is).
            if_not_exists: do nothing when there is one.

        Raises:
            InvalidChangeError: there can be no such table; the message says why.
        """
        name = parse_table_name(table)
        change = m.CreateTable(
            schema=name.schema,
            table=name.name,
            columns=columns_from(schema),
            primary_key=checked_items("primary_key", primary_key, str, "names of columns"),
            unique=tuple(
                checked_items("each of unique", columns, str, "names of columns")
                for columns in checked_items("unique", unique, (list, tuple), "lists of columns, such as [['email']]")
            ),
            foreign_keys=checked_items("foreign_keys", foreign_keys, m.ForeignKeySpec, "ForeignKeySpec"),
            partition_by=partition_specs(partition_by),
            properties=checked_properties(properties),
            if_not_exists=checked_flag("if_not_exists", if_not_exists),
        )
        define_new(change)
        if ON_CONFLICT in change.properties and not change.primary_key:
            raise _without_key(name)
        self._add(change)

    def drop_table(self, table: str, *, if_exists: bool = False) -> None:
        """Drop a table."""
        name = parse_table_name(table)
        self._add(m.DropTable(*name, checked_flag("if_exists", if_exists)))

    def rename_table(self, table: str, new_name: str) -> None:
        """Rename a table within its schema; ``new_name`` is the name alone."""
        name, new_name = parse_table_name(table), checked_text("new_name", new_name)
        prefix = f"{name.schema}."
        if fold(new_name).startswith(fold(prefix)):
            alone = new_name[len(prefix) :]
            raise InvalidRequestError(
                f"new_name is the name alone, {alone!r}, not {new_name!r}: a table stays in its schema"
            )
        self._add(m.RenameTable(*name, new_name))

    def alter(self, table: str) -> TableAlteration:
        """Alter a table by the steps that are called on the result; together they are one change."""
        name = parse_table_name(table)
        at = len(self._changes)
        self._add(m.AlterTable(*name, ()))

        def take(step: m.Alteration) -> None:
            self._check_open()
            if step.key == ON_CONFLICT and step.value is not None and not self._table(name).definition.primary_key:
                raise _without_key(name)
            change = self._changes[at]
            assert isinstance(change, m.AlterTable)
            self._changes[at] = change.replace(alterations=(*change.alterations, step))
            self._types.clear()

        return TableAlteration(take)

    def create_view(self, view: str, sql: str, *, dialect: str = "duckdb", if_not_exists: bool = False) -> None:
        """Create a view."""
        name = parse_table_name(view)
        query = checked_view(sql, dialect)
        self._add(m.CreateView(*name, query, dialect, checked_flag("if_not_exists", if_not_exists)))

    def replace_view(self, view: str, sql: str, *, dialect: str = "duckdb") -> None:
        """Give a view another query."""
        name = parse_table_name(view)
        self._add(m.ReplaceView(*name, checked_view(sql, dialect), dialect))

    def drop_view(self, view: str, *, if_exists: bool = False) -> None:
        """Drop a view."""
        name = parse_table_name(view)
        self._add(m.DropView(*name, checked_flag("if_exists", if_exists)))

    # --- files --------------------------------------------------------------------------------------------------------

    def append(
        self, table: str, data: RowData | None = None, *, files: Files | None = None, outside: str | None = None
    ) -> None:
        """Add rows to a table. They are written as Parquet files now; a refused commit's files are removed.

        Args:
            table: its name.
            data: an Arrow table, batch, reader or iterable of batches; a frame of pandas, Polars or another library of
                Arrow's; a list of dicts; a dict of columns. Columns are matched by name in any order, a missing one has
                its default or is NULL, and values are cast where none is changed by it. Rows of a partitioned table are
                split by its partitions. A list of paths or DataFiles is taken as ``files``.
            files: Parquet files that are there already, instead: paths or URLs, whose footers are read and checked against
                the table now; or DataFiles, which are taken as they are.
            outside: what becomes of files that are not below the table's folder (see ``new_file``). "copy" puts copies
                there; "move" removes the files where they were once the copies are committed; "reference" leaves them,
                for a table whose property ``foreign_paths`` is "true". None is "reference" for such tables, else "copy".

        Raises:
            InvalidRequestError: ``data`` is no rows.
            TableNotFoundError: there is no such table at the base.
            DataFileError: the rows do not fit the table; or a file is missing, is not Parquet, does not fit the table, cannot
                be brought into its folder, is named twice, or is in it already.
        """
        name = parse_table_name(table)
        given = rows_or_files(data, files)
        bring_by = checked_outside(outside, of_rows=not isinstance(given, tuple))
        if isinstance(given, tuple):
            self._add(m.Append(*name, self._brought(name, given, bring_by)))
            return
        from commitlog.client.writing.appending import RowAppend

        self._check_open()
        self._log.claim_data_path()
        RowAppend(name, given, self._written).put(self)

    def add_written(self, table: TableName, files: tuple[m.DataFile, ...]) -> None:
        """Append files that were written for this commit alone: that they can be is known."""
        self._add(m.Append(*table, files))

    def new_file(self, table: str) -> str:
        """A path for a new Parquet file of a table: in the table's folder, by a name that no other file has.

        What is written there and not committed is found and removed by `commitlog clean` later.

        Raises:
            TableNotFoundError: there is no such table at the base.
            DataFileError: where the files of the table will be is not known yet.
        """
        return self._log.new_files.below(table, self.shape(table).path)

    def delete(
        self,
        table: str,
        positions: Mapping[int, Iterable[int]] | None = None,
        *,
        delete_files: Iterable[m.DeleteFile] = (),
        whole_files: Iterable[int] = (),
    ) -> None:
        """Delete rows.

        Args:
            table: its name.
            positions: by data file id, the positions of the rows in the file.
            delete_files: Parquet delete files, each with the positions that it holds.
            whole_files: ids of data files of which every row goes.
        """
        name = parse_table_name(table)
        deleted = checked_items("delete_files", delete_files, m.DeleteFile, "DeleteFile")
        if deleted:
            self._log.claim_data_path()
            check_paths(name, deleted, self._named_paths, lambda: self._table(name))
        by_file = checked_mapping(
            "positions", {} if positions is None else positions, "data file ids to positions of rows"
        )
        rows = [
            m.PositionDelete(
                checked_count("a data file id", file), row_positions(checked_ids("the positions of a file", rows))
            )
            for file, rows in by_file.items()
        ]
        self._add(m.Delete(*name, tuple(rows), deleted, checked_ids("whole_files", whole_files)))

    def compact(self, table: str, replaced: Iterable[int], files: Files) -> None:
        """Replace data files by others with the same live rows. Nothing else can be in the changeset.

        The new files should carry the rows' ids in the column ``_ducklake_internal_row_id`` (field id 2147483540).
        """
        name = parse_table_name(table)
        described = self._described(name, files, carry_row_ids=True)
        self._add(m.Compact(*name, checked_ids("replaced", replaced), described))

    def flush(self, table: str, files: Mapping[str | Path | m.DataFile, Sequence[int]]) -> None:
        """Move rows of a keyed table into Parquet files: by file the ids of its rows, in the order of the file.

        The files carry these ids too, as those of ``compact`` do.
        """
        name = parse_table_name(table)
        by_file = checked_mapping("files", files, "each file to the ids of its rows")
        described = self._described(name, list(by_file), carry_row_ids=True)
        flushed = zip(described, by_file.values(), strict=True)
        with_ids = tuple(
            file.replace(row_ids=checked_ids("the row ids of a file", row_ids)) for file, row_ids in flushed
        )
        self._add(m.Flush(*name, with_ids))

    # --- rows ---------------------------------------------------------------------------------------------------------

    def insert_row(
        self, table: str, row: Mapping[str, Any], *, row_time_us: int | None = None, origin: m.RowOrigin | None = None
    ) -> None:
        """Insert a row; columns that are not given are NULL or their default."""
        name = parse_table_name(table)
        self._add(m.InsertRow(*name, self._row(name, row), *checked_version(row_time_us, origin)))

    def update_row(
        self,
        table: str,
        key: Mapping[str, Any],
        row: Mapping[str, Any],
        *,
        row_time_us: int | None = None,
        origin: m.RowOrigin | None = None,
    ) -> None:
        """Replace the row of a key by ``row``, a full image."""
        name = parse_table_name(table)
        version = checked_version(row_time_us, origin)
        self._add(m.UpdateRow(*name, self._row(name, key), self._row(name, row), *version))

    def delete_row(
        self, table: str, key: Mapping[str, Any], *, row_time_us: int | None = None, origin: m.RowOrigin | None = None
    ) -> None:
        """Delete the row of a key."""
        name = parse_table_name(table)
        self._add(m.DeleteRow(*name, self._row(name, key), *checked_version(row_time_us, origin)))

    # --- the log itself -----------------------------------------------------------------------------------------------

    def configure(self, **settings: m.Scalar) -> None:
        """Change settings of the log. Nothing else can be in the changeset."""
        self._add(m.Configure(settings))

    def expire_snapshots(self, older_than_snapshot_id: int) -> None:
        """Let go of older snapshots. Nothing else can be in the changeset."""
        self._add(m.ExpireSnapshots(checked_count("older_than_snapshot_id", older_than_snapshot_id)))

    # --- reads --------------------------------------------------------------------------------------------------------

    def read(
        self,
        table: str,
        *,
        filter: Where = None,
        files: Iterable[int] | None = None,
    ) -> None:
        """Declare that the changes rely on what was read from a table. Only a SERIALIZABLE transaction is refused for it.

        Args:
            table: its name.
            filter: which rows, such as ``"day >= '2026-01-01' and id in (1, 2)"``, or a conjunction of ``(column, op, value)``;
                None is all. The narrower, the fewer conflicts.
            files: ids of the data files that were opened.
        """
        name = parse_table_name(table)
        opened = None if files is None else checked_ids("files", files)
        self._declare(m.TableRead(*name, predicates(filter), opened))

    def read_name(self, name: str) -> None:
        """Declare that the changes rely on what a table's or view's name means, or that there is none."""
        self._declare(m.NameRead(*parse_table_name(name)))

    def read_schema(self, schema: str) -> None:
        """Declare that the changes rely on which entries a schema has."""
        self._declare(m.NameRead(checked_schema(schema)))

    def read_rows(self, table: str, keys: Iterable[Mapping[str, Any]]) -> None:
        """Declare that the changes rely on rows of a keyed table, by key."""
        name = parse_table_name(table)
        given = checked_items("keys", keys, Mapping, "keys, such as {'id': 1}")
        self._declare(m.RowsRead(*name, tuple(self._row(name, key) for key in given)))

    # --- adding -------------------------------------------------------------------------------------------------------

    def _add(self, change: m.Change) -> None:
        self._check_open()
        self._changes.append(change)
        if not isinstance(change, m.InsertRow | m.UpdateRow | m.DeleteRow):
            self._types.clear()

    def _declare(self, read: m.Read) -> None:
        self._check_open()
        self._reads.append(read)

    def _check_kept(self) -> None:
        if self._is_given_up:
            raise InvalidRequestError(
                "the transaction was given up, and what was written for it is removed: begin another one"
            )

    def _check_open(self) -> None:
        self._check_kept()
        if self._is_answered or self._sent is not None:
            raise InvalidRequestError(
                "the transaction has been sent: what is added now would be in no commit; begin another one"
            )


def _without_key(table: TableName) -> InvalidChangeError:
    return InvalidChangeError(
        m.InvalidCode.PRIMARY_KEY_MISSING,
        f"{ON_CONFLICT} says what becomes of changes to the same row: table {table} has no primary key, so it takes none",
    )
