"""A table by its name, as programs read it and write it. Thin: `reading` and `writing` do the work."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from commitlog.client.access.contents import Contents
from commitlog.client.arguments import checked_count, checked_count_or_none
from commitlog.client.files.given_files import Files
from commitlog.client.outcomes.submitted import SubmittedOutcome
from commitlog.client.reading.moments import snapshot_of
from commitlog.client.tables.filters import Where
from commitlog.client.tables.names import TableName
from commitlog.client.tables.table_at import TableAt
from commitlog.client.writing.rows import RowData
from commitlog.domain.model import PartitionSpec
from commitlog.domain.model.definitions import TableDefinition
from commitlog.errors import InvalidRequestError, TableNotFoundError

if TYPE_CHECKING:
    import pyarrow as pa

    from commitlog.catalog.queries import CatalogFile, CatalogSnapshot
    from commitlog.client.reading.changes import RowChanges
    from commitlog.client.reading.scan import Scan


class TableLog(Protocol):
    """What a table asks of its log, which is a ``CommitLog``."""

    def head_snapshot_id(self) -> int: ...

    def table_at(self, name: TableName, snapshot_id: int) -> TableAt | None: ...

    def contents(self) -> Contents: ...

    def append(
        self, table: str, data: RowData | None = None, *, files: Files | None = None, **options: Any
    ) -> SubmittedOutcome | None: ...


class Table:
    """A table of a log. Made by ``CommitLog.table``; each call asks for the table as it is by then.

    Args:
        log: the log.
        name: what the table is called; there need not be one of that name until it is asked for something.
    """

    def __init__(self, log: TableLog, name: TableName) -> None:
        self._log = log
        self._name = name

    @property
    def name(self) -> str:
        """Its name with its schema, such as ``main.flights``."""
        return str(self._name)

    def __repr__(self) -> str:
        return f"Table({self.name!r})"

    # --- what it is ---------------------------------------------------------------------------------------------------

    def at(self, snapshot_id: int | None = None) -> TableAt:
        """Its definition as of a snapshot, and where its files are; None is the newest.

        Raises:
            TableNotFoundError: there is none of that name.
            SnapshotNotFoundError: the snapshot is beyond the head.
        """
        at = self._log.head_snapshot_id() if snapshot_id is None else checked_count("snapshot_id", snapshot_id)
        found = self._log.table_at(self._name, at)
        if found is None:
            raise TableNotFoundError(self.name, snapshot_id=at)
        return found

    @property
    def definition(self) -> TableDefinition:
        """Its columns, keys, partitions and properties, with their ids, at the newest snapshot.

        Raises:
            TableNotFoundError: there is none of that name.
        """
        return self.at().definition

    @property
    def schema(self) -> pa.Schema:
        """Its columns at the newest snapshot as Arrow has them when they are read.

        Raises:
            TableNotFoundError: there is none of that name.
        """
        from commitlog.client.tables.arrow_schemas import arrow_schema

        return arrow_schema(self.definition.columns)

    # --- reading ------------------------------------------------------------------------------------------------------

    def scan(
        self,
        *,
        where: Where = None,
        columns: Iterable[str] | None = None,
        snapshot: int | None = None,
        timestamp: datetime | str | None = None,
    ) -> Scan:
        """Its rows as of one snapshot, for Arrow, Polars or pandas; nothing is read yet.

        Args:
            where: which rows: an expression such as ``"day >= '2026-01-01' and id in (1, 2)"``, one
                ``(column, op, value)``, or several, all of which must hold. Files that statistics or partition values prove
                to hold none of them are not opened. None is all rows.
            columns: the names of those that are read, in their order; None is all.
            snapshot: as of which snapshot; None is the newest, with all that was committed before.
            timestamp: instead, as of which moment: a datetime or ISO 8601, in UTC unless it says otherwise.

        Raises:
            TableNotFoundError: there is none of that name at the snapshot.
            SnapshotNotFoundError: there is no such snapshot, or not any more.
            InvalidRequestError: the filter cannot be read, a column is not there, or a value is none of its column's type.
        """
        from commitlog.client.reading.scan import Scan

        at = snapshot_of(self._log, snapshot, timestamp)
        return Scan(self._log.contents(), self._name, at, where=where, columns=columns)

    def changes(self, after: int, upto: int | None = None) -> RowChanges:
        """Which of its rows came and went in the snapshots after one and up to another, as DuckLake's ``table_changes`` has
        them, with ``snapshot_id``, ``rowid`` and ``change_type`` (insert, delete, update_preimage, update_postimage) before
        the columns.

        Args:
            after: the snapshot whose state is known: its own changes are not among them.
            upto: the last one; None is the newest.

        Raises:
            TableNotFoundError: there is none of that name at the last snapshot.
            SnapshotNotFoundError: there is no such snapshot, or not any more.
        """
        from commitlog.client.reading.changes import RowChanges

        first, last = snapshot_of(self._log, checked_count("after", after), None), snapshot_of(self._log, upto, None)
        if first > last:
            raise InvalidRequestError(f"changes go from a snapshot to a later one, not from {first} to {last}")
        return RowChanges(self._log.contents(), self._name, first, last)

    def files(self, snapshot: int | None = None) -> Sequence[CatalogFile]:
        """The data files that it has at a snapshot; None is the newest.

        Raises:
            TableNotFoundError: there is none of that name.
            SnapshotNotFoundError: there is no such snapshot, or not any more.
        """
        at = snapshot_of(self._log, snapshot, None)
        contents = self._log.contents()
        with contents.at_once():
            found = contents.table_at(self._name.schema, self._name.name, at)
            if found is None:
                raise TableNotFoundError(self.name, snapshot_id=at)
            return contents.files_at(found, at)

    def history(self, limit: int | None = None) -> list[CatalogSnapshot]:
        """The snapshots that changed it, the newest first, also those of an earlier name.

        Args:
            limit: how many at most; None is all that the log still knows.

        Raises:
            TableNotFoundError: there is none of that name.
        """
        table_id = self.definition.table_id
        return self._log.contents().snapshots(table_id=table_id, limit=checked_count_or_none("limit", limit))

    # --- writing ------------------------------------------------------------------------------------------------------

    def append(
        self,
        data: RowData | None = None,
        *,
        files: Files | None = None,
        outside: str | None = None,
        create: bool = False,
        partition_by: Iterable[str | PartitionSpec] = (),
        key: str | None = None,
        **options: Any,
    ) -> SubmittedOutcome | None:
        """Add rows, in a commit of its own: see ``CommitLog.append``.

        Args:
            data: an Arrow table, batch, reader or iterable of batches; a frame of pandas, Polars or another library of
                Arrow's; a list of dicts; a dict of columns.
            files: Parquet files that are there already, instead.
            outside: what becomes of those that are not below the table's folder: "copy", "move" or "reference".
            create: create the table for the columns of ``data``, in the same commit, if there is none.
            partition_by: of a table that is created.
            key: names this write, such as ``load:1``, so that doing it again commits nothing and answers as the first did.
            options: see ``CommitLog.append``.

        Returns:
            The answer; None when there was nothing to commit.
        """
        return self._log.append(
            self.name,
            data,
            files=files,
            outside=outside,
            create=create,
            partition_by=partition_by,
            key=key,
            **options,
        )
