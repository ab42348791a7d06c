"""A table by its name, as programs read it and write it. Thin: `reading` and `writing` do the work."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from commitlog.client.access.contents import Contents
from commitlog.client.arguments import checked_count, checked_count_or_none
from commitlog.client.files.given_files import Files
from commitlog.client.outcomes.submitted import SubmittedOutcome
from commitlog.client.reading.moments import Clock, SnapshotGiven, snapshot_named, snapshot_of
from commitlog.client.tables.filters import Where
from commitlog.client.tables.missing import found_table
from commitlog.client.tables.names import TableName
from commitlog.client.tables.others_names import ARGUMENTS_OF_TABLES, OF_TABLES, knowing_arguments, told_instead
from commitlog.client.tables.table_at import TableAt
from commitlog.client.writing.rows import RowData
from commitlog.domain.model import ChangeKind, Isolation, LogSettings, PartitionSpec
from commitlog.domain.model.definitions import TableDefinition
from commitlog.errors import InvalidRequestError, TableNotFoundError

if TYPE_CHECKING:
    import pyarrow as pa

    from commitlog.catalog.queries import CatalogFile, CatalogSnapshot
    from commitlog.client.reading.changes import RowChanges
    from commitlog.client.reading.scan import Scan
    from commitlog.client.transaction import Transaction
    from commitlog.client.writing.targets import RowTransaction


class TableLog(Protocol):
    """What a table asks of its log, which is a ``CommitLog``."""

    @property
    def access(self) -> Clock: ...

    def head_snapshot_id(self) -> int: ...

    def wait_for_snapshot(self) -> int: ...

    def table_at(self, name: TableName, snapshot_id: int) -> TableAt | None: ...

    def contents(self) -> Contents: ...

    def missing_table(self, name: TableName, snapshot_id: int) -> TableNotFoundError: ...

    @property
    def settings(self) -> LogSettings: ...

    def changes_max(self, wanted: int) -> int: ...

    @property
    def transaction(self) -> Callable[..., Transaction]: ...

    def claim_data_path(self) -> None: ...

    def change_rows(
        self, table: str, change: Callable[[Any], None], *, key: str | None = None, **options: Any
    ) -> SubmittedOutcome | None: ...

    def append(
        self, table: str, data: RowData | None = None, *, files: Files | None = None, **options: Any
    ) -> SubmittedOutcome | None: ...


@knowing_arguments(ARGUMENTS_OF_TABLES)
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

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            return told_instead(self, name, OF_TABLES)

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
            raise self._log.missing_table(self._name, at)
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
        snapshot: SnapshotGiven | None = None,
        timestamp: datetime | str | None = None,
    ) -> Scan:
        """Its rows as of one snapshot, for Arrow, Polars or pandas; nothing is read yet.

        Args:
            where: which rows: an expression such as ``"day >= '2026-01-01' and id in (1, 2)"``, one
                ``(column, op, value)``, or several, all of which must hold; ``!=`` and ``not in`` let no NULL through. Files
                that statistics or partition values prove to hold none of them are not opened. None is all rows.
            columns: the names of those that are read, in their order; None is all.
            snapshot: as of which snapshot; None is the newest, with all that was committed before.
            timestamp: instead, as of which moment: a datetime; ISO 8601, in UTC unless it says otherwise; or how long ago,
                such as "90m", "7d" or "yesterday". Where a snapshot is asked for, a moment does too.

        Raises:
            TableNotFoundError: there is none of that name at the snapshot.
            SnapshotNotFoundError: there is no such snapshot, or not any more.
            InvalidRequestError: the filter cannot be read, a column is not there, or a value is none of its column's type.
        """
        from commitlog.client.reading.scan import Scan

        at = snapshot_of(self._log, snapshot, timestamp)
        return Scan(self._log.contents(), self._name, at, where=where, columns=columns)

    def changes(self, after: SnapshotGiven, upto: SnapshotGiven | None = None) -> RowChanges:
        """Which of its rows came and went in the snapshots after one and up to another, as DuckLake's ``table_changes`` has
        them, with ``snapshot_id``, ``rowid`` and ``change_type`` (insert, delete, update_preimage, update_postimage) before
        the columns.

        Args:
            after: the snapshot whose state is known: its own changes are not among them. An id or a moment, as in ``scan``.
            upto: the last one; None is the newest.

        Raises:
            TableNotFoundError: there is none of that name at the last snapshot.
            SnapshotNotFoundError: there is no such snapshot, or not any more.
            InvalidRequestError: the table has a column of its own by one of these names.
        """
        from commitlog.client.reading.changes import RowChanges

        first, last = snapshot_named(self._log, "after", after), snapshot_of(self._log, upto, what="upto")
        if first > last:
            raise InvalidRequestError(f"changes go from a snapshot to a later one, not from {first} to {last}")
        return RowChanges(self._log.contents(), self._name, first, last)

    def diff(self, first: SnapshotGiven, last: SnapshotGiven | None = None) -> pa.Table:
        """The rows that are not the same at two snapshots, whatever became of them in between: ``rowid`` and ``change_type``
        (insert, delete, update_preimage, update_postimage), then the columns, as they are at the last snapshot. A row that went
        while an equal one came, as ``restore`` writes them, is not among them.

        Args:
            first: the earlier snapshot; an id or a moment, as in ``scan``.
            last: the later one; None is the newest.

        Raises:
            TableNotFoundError: there is none of that name at the last snapshot.
            SnapshotNotFoundError: there is no such snapshot, or not any more.
        """
        from commitlog.client.reading.row_diff import net_rows

        return net_rows(self.changes(first, last).to_arrow())

    def files(self, snapshot: SnapshotGiven | None = None) -> Sequence[CatalogFile]:
        """The data files that it has at a snapshot; None is the newest.

        Raises:
            TableNotFoundError: there is none of that name.
            SnapshotNotFoundError: there is no such snapshot, or not any more.
        """
        at = snapshot_of(self._log, snapshot, None)
        contents = self._log.contents()
        with contents.at_once():
            return contents.files_at(found_table(self._name, at, contents), at)

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

    def delete(self, where: Where | bool, *, key: str | None = None, **options: Any) -> SubmittedOutcome | None:
        """Delete the rows that match; files of which statistics prove that all rows match are not read.

        After a conflict the rows are looked for again, on the newest snapshot. Where they stand in more places than a proposal
        can name, the files that have most of them are rewritten first, by commits of which readers see no change.

        Args:
            where: which rows, as ``scan`` takes it, but for ``!=`` and ``not in``; True are all of them.
            key: names this write, such as ``cleanup:7``, so that doing it again deletes nothing and answers as the first did.
            options: see ``CommitLog.transaction``; ``attempts`` is how often it is computed at most. With
                ``isolation="snapshot"`` rows that come meanwhile do not matter.

        Returns:
            The answer; None when no row matches.

        Raises:
            InvalidRequestError: the filter cannot be read, or says not which rows.
            TableNotFoundError: there is no such table.
            ProposalRejectedError: the last attempt was refused; what was written is removed.
            OutcomeUnknownError: no answer in time.
        """
        from commitlog.client.writing.deleting import Deletion

        change = Deletion(self._name, where, self._log.contents(), self._log.settings)
        return self._changed_apart(change.put, key, (ChangeKind.DELETE, ChangeKind.DELETE_ROW), options)

    def overwrite(
        self, data: RowData, where: Where | bool, *, key: str | None = None, **options: Any
    ) -> SubmittedOutcome | None:
        """Replace the rows that match by others, in one commit: done again, it leaves the same rows.

        After a conflict the rows that go are looked for again, on the newest snapshot; those that come are written once.

        Args:
            data: the new rows, in any form that ``append`` takes; all of them must match ``where``.
            where: which rows go, as ``delete`` takes it; True are all of them, and then any rows may come.
            key: names this write, such as ``nightly:2026-03-02``, so that doing it again commits nothing and answers as the
                first did.
            options: see ``CommitLog.transaction``; ``attempts`` is how often it is computed at most. With
                ``isolation="snapshot"`` rows that come meanwhile do not matter.

        Returns:
            The answer; None when no row goes and none comes.

        Raises:
            InvalidRequestError: the filter cannot be read, or says not which rows; ``data`` is no rows.
            TableNotFoundError: there is no such table.
            DataFileError: the rows do not fit the table, one does not match ``where``, or the table has a primary key.
            ProposalRejectedError: the last attempt was refused; what was written is removed.
            OutcomeUnknownError: no answer in time. What was written stays, for it may yet be accepted.
        """
        from commitlog.client.writing.overwriting import Overwrite
        from commitlog.client.writing.rows import rows_of
        from commitlog.client.writing.written import WrittenFiles

        written, log = WrittenFiles(), self._log
        change = Overwrite(self._name, rows_of(data), where, log.contents(), log.settings, written)
        log.claim_data_path()
        with written:
            outcome = self._changed_apart(change.put, key, (ChangeKind.DELETE, ChangeKind.APPEND), options)
        return None if outcome is None else written.answered(outcome)

    def insert(self, rows: Any, *, key: str | None = None, **options: Any) -> SubmittedOutcome | None:
        """Insert rows of a keyed table: one as a dict, or several in any form that ``append`` takes.

        Columns that a row does not give have their defaults.

        Raises:
            ProposalRejectedError: a row of the same key is there, or another constraint does not hold.
        """
        from commitlog.client.writing.keyed_rows import plain_rows

        given = plain_rows(rows, self._log.changes_max)

        def put(transaction: RowTransaction) -> None:
            for row in given:
                transaction.insert_row(self.name, row)

        kinds = (ChangeKind.INSERT_ROW,)
        return self._log.change_rows(self.name, put, key=key, kinds=kinds, **{"attempts": 1, **options})

    def update(self, by: Mapping[str, Any], row: Mapping[str, Any], **options: Any) -> SubmittedOutcome | None:
        """Replace the row of a key by ``row``, a full image; ``upsert`` changes single columns.

        Args:
            by: the columns of the primary key and their values.
            row: all columns as they will be.
            options: see ``CommitLog.transaction``; also ``key``.

        Raises:
            ProposalRejectedError: there is no row of that key, or a constraint does not hold.
        """
        return self._log.change_rows(
            self.name,
            lambda transaction: transaction.update_row(self.name, by, row),
            kinds=(ChangeKind.UPDATE_ROW,),
            **{"attempts": 1, **options},
        )

    def delete_row(self, by: Mapping[str, Any], **options: Any) -> SubmittedOutcome | None:
        """Delete the row of a key: ``by`` are the columns of the primary key and their values.

        Raises:
            ProposalRejectedError: there is no row of that key, or another table refers to it.
        """
        return self._log.change_rows(
            self.name,
            lambda transaction: transaction.delete_row(self.name, by),
            kinds=(ChangeKind.DELETE_ROW,),
            **{"attempts": 1, **options},
        )

    def upsert(self, rows: Any, *, key: str | None = None, **options: Any) -> SubmittedOutcome | None:
        """Insert rows of a keyed table, or update those whose keys are there: columns that are not given stay as they are.

        Args:
            rows: one row as a dict, or several in any form that ``append`` takes.
            key: names this write, so that doing it again commits nothing and answers as the first did.
            options: see ``CommitLog.transaction``; ``attempts`` is how often it is computed at most.

        Returns:
            The answer; None when there are no rows.

        Raises:
            DataFileError: the table has no primary key.
            InvalidRequestError: a row lacks a column of the key or gives one twice, or two rows have the same key.
        """
        from commitlog.client.writing.keyed_rows import Upsert, plain_rows

        change = Upsert(self._name, plain_rows(rows, self._log.changes_max), self._log.contents())
        kinds = (ChangeKind.INSERT_ROW, ChangeKind.UPDATE_ROW)
        isolated = {"isolation": Isolation.SNAPSHOT, **options}
        return self._log.change_rows(self.name, change.put, key=key, kinds=kinds, **isolated)

    def restore(self, snapshot: SnapshotGiven, *, key: str | None = None, **options: Any) -> SubmittedOutcome | None:
        """Make its rows those of an earlier snapshot, by a commit on top; its columns stay as they are now: what was renamed
        since keeps its values, what was dropped stays away, what was added has the default it was added with.

        Files that have the same rows now as then stay. The rows of others are read and written again, with new row ids, even
        when they were restored before. Of a table with a primary key, rows are inserted, updated and deleted by it.

        Args:
            snapshot: which snapshot's rows; an id or a moment, as in ``scan``.
            key: names this write, so that doing it again commits nothing and answers as the first did.
            options: see ``CommitLog.transaction``; ``attempts`` is how often it is computed at most.

        Returns:
            The answer; None when all files stay, and of a table with a primary key when it has these rows now.

        Raises:
            SnapshotNotFoundError: there is no such snapshot, or not any more.
            DataFileError: the table has been created anew since, or a row of then has NULL where none may be now.
            InvalidRequestError: more rows of a table with a key have changed since than a commit takes.
        """
        from commitlog.client.writing.restoring import Restoration

        then = snapshot_named(self._log, "snapshot", snapshot)
        change = Restoration(self._name, then, self._log.contents(), self._log.settings.changes_max)
        return self._log.change_rows(self.name, change.put, key=key, **options)

    # --- inside -------------------------------------------------------------------------------------------------------

    def _changed_apart(
        self, change: Callable[[Any], None], key: str | None, kinds: Sequence[ChangeKind], options: Mapping[str, Any]
    ) -> SubmittedOutcome | None:
        from commitlog.client.writing.setting_apart import with_rows_apart

        return with_rows_apart(
            self._log,
            lambda: self._log.change_rows(self.name, change, key=key, kinds=kinds, **options),
            base_is_given=options.get("base_snapshot_id") is not None,
        )
