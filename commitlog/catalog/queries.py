"""What readers ask the catalog: for the client, the CLI and Spark. Nothing here writes the lake."""

from __future__ import annotations

import sys
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString, NamedTuple
from uuid import UUID

import psycopg
from psycopg import sql
from psycopg.types.string import TextLoader
from pyroaring import FrozenBitMap64

from commitlog.catalog import query_statements as statements
from commitlog.catalog.agreed_snapshots import AGREE
from commitlog.catalog.connecting import is_replica
from commitlog.catalog.outside_files import columns_with_rows, tables_with_rows
from commitlog.catalog.pruning import exclusions
from commitlog.catalog.reader import CatalogReader, of_one_moment
from commitlog.domain.model import LogSettings, MappedColumn, Predicate
from commitlog.domain.model.definitions import (
    Column,
    EndedColumn,
    PartitionKey,
    TableDefinition,
    ended_columns,
    quoted,
)
from commitlog.domain.model.settings import changed_settings
from commitlog.domain.model.types import ColumnType, fold, parse_type
from commitlog.domain.state.dumping import load_definition
from commitlog.errors import (
    CatalogMismatchError,
    CatalogUnavailableError,
    ConfigurationError,
    MomentNotFoundError,
    SnapshotNotFoundError,
)

PROJECTOR_NAME = "commitlog projector"
STANDBY_NAME = "commitlog standby"
"""What a projector's session is called, so that others see in PostgreSQL that it lives."""

PART_ROWS = 20_000
"""So many rows that are in no file become Python's values at a time."""
_NO_POSITIONS = FrozenBitMap64()
_STORED: Mapping[type, LiteralString] = {int: "bigint[]", bytes: "bytea[]", UUID: "uuid[]"}


@dataclass(frozen=True, slots=True)
class CatalogTable:
    """A table at a snapshot; ``path`` is the folder of its relative files, with a slash at the end."""

    definition: TableDefinition
    schema_name: str
    path: str

    def place(self, path: str, is_relative: bool) -> str:
        """The absolute path of one of the table's files."""
        return self.path + path if is_relative else path


class FileTotals(NamedTuple):
    """What data files come to: ``rows`` are those that are not deleted."""

    files: int
    rows: int
    deleted: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class CatalogFile:
    """A data file that is live at a snapshot.

    path, delete_file_path: absolute. deleted: positions that the catalog holds as inlined deletes; those in the delete
    file come on top. row_id_start None: the file carries its rows' ids. partition_values None: they are not known,
    or those of an earlier partitioning.
    """

    data_file_id: int
    path: str
    record_count: int
    file_size_bytes: int
    footer_size: int | None
    row_id_start: int | None
    begin_snapshot: int
    partition_values: tuple[str | None, ...] | None
    delete_file_path: str | None
    delete_count: int
    deleted: FrozenBitMap64
    name_mapping: tuple[MappedColumn, ...] | None

    @property
    def deleted_count(self) -> int:
        """How many of its rows are deleted."""
        return self.delete_count + len(self.deleted)

    @property
    def live_count(self) -> int:
        """How many of its rows are not."""
        return self.record_count - self.deleted_count


@dataclass(frozen=True, slots=True)
class CatalogSnapshot:
    """A snapshot: when it was made, by whom, and which kinds of changes it has, such as ``("APPEND",)``.

    Those of a lake that was taken over have no writer and no kinds.
    """

    snapshot_id: int
    time: datetime
    writer_id: str | None
    changes: tuple[str, ...]
    author: str | None
    message: str | None
    extra: str | None


@dataclass(frozen=True, slots=True)
class AppliedPosition:
    """How far the results topic is applied."""

    log_id: bytes
    seq: int
    epoch: int
    hash: bytes
    results_offset: int
    next_offset: int


class Shown(NamedTuple):
    """What readers see: all results before ``next_offset``, up to outcome ``seq``, and the newest snapshot of them."""

    next_offset: int
    seq: int
    snapshot_id: int
    schema_version: int


@dataclass(frozen=True, slots=True)
class Milepost:
    """An accepted outcome (seq 0: the genesis) at which reading the results may begin."""

    log_id: bytes
    seq: int
    epoch: int
    hash: bytes
    results_offset: int


class Catalog(CatalogReader):
    """The catalog of one log. Safe to share between threads: they take turns."""

    # --- snapshots ----------------------------------------------------------------------------------------------------

    def exists(self) -> bool:
        """Whether the catalog has been made."""
        return self._select("SELECT to_regclass('commitlog.applied') IS NOT NULL")[0][0] is True

    def applied(self) -> AppliedPosition | None:
        """How far the results are applied; None before the first outcome."""
        rows = self._select(statements.APPLIED)
        if not rows:
            return None
        log_id, seq, epoch, digest, offset, next_offset = rows[0]
        return AppliedPosition(log_id.bytes, seq, epoch, digest, offset, next_offset)

    def milepost(
        self, *, before_seq: int | None = None, before_snapshot: int | None = None, before_offset: int | None = None
    ) -> Milepost | None:
        """The last one before an outcome, before the one that made a snapshot, before an offset of the results; None when
        there is none."""
        found = self._mileposts(statements.MILEPOST_BEFORE, (before_seq, before_snapshot, before_offset))
        return found[0] if found else None

    def mileposts(self, *, every: int, from_offset: int, to_offset: int) -> list[Milepost]:
        """Those between offsets of the results, both exclusive, whose seq is a multiple of ``every``."""
        return self._mileposts(statements.MILEPOSTS_BETWEEN, (every, from_offset, to_offset))

    def _mileposts(self, which: sql.SQL, parameters: Sequence[Any]) -> list[Milepost]:
        rows = self._select(which, parameters)
        return [Milepost(log_id.bytes, seq, epoch, bytes(digest), at) for log_id, seq, epoch, digest, at in rows]

    def log_settings(self) -> LogSettings:
        """The log's settings, as far as its results are applied."""
        told = self._select(statements.LOG_SETTINGS)[0][0]
        return changed_settings(LogSettings(), {name: told[name] for name in LogSettings.FIELDS if name in told})

    def is_replica(self) -> bool:
        """Whether this PostgreSQL follows another one, and can only be read."""
        with self.connected() as conn:
            return is_replica(conn)

    def has_projector(self) -> bool:
        """Whether a projector is connected to the catalog's database."""
        return int(self._select(statements.PROJECTORS, (PROJECTOR_NAME,))[0][0]) > 0

    def standbys(self) -> int:
        """How many projectors are connected to the catalog's database and wait for their turn."""
        return int(self._select(statements.PROJECTORS, (STANDBY_NAME,))[0][0])

    def head_snapshot_id(self) -> int:
        """The newest snapshot that readers see."""
        return int(self._select("SELECT max(snapshot_id) FROM ducklake_snapshot")[0][0])

    def shown(self) -> Shown | None:
        """What readers see now; None before the first outcome."""
        rows = self._select(statements.SHOWN)
        return Shown(*rows[0]) if rows else None

    def oldest_snapshot_id(self) -> int:
        """The oldest snapshot that was not expired."""
        return int(self._select("SELECT min(snapshot_id) FROM ducklake_snapshot")[0][0])

    def snapshot_at(self, moment: datetime) -> int:
        """The newest snapshot not later than ``moment``; MomentNotFoundError when all are."""
        rows = self._select(statements.SNAPSHOT_BEFORE, (moment,))
        if rows[0][0] is None:
            ((floor, began),) = self._select(statements.OLDEST_SNAPSHOT)
            raise MomentNotFoundError(moment, floor_snapshot_id=floor, began=began)
        return int(rows[0][0])

    def check_snapshot(self, snapshot_id: int) -> None:
        """Raise SnapshotNotFoundError, which says which ones there are, unless the snapshot exists."""
        low, high, found = self._select(statements.SNAPSHOT_RANGE, (snapshot_id,))[0]
        if not found:
            raise SnapshotNotFoundError(snapshot_id, floor_snapshot_id=low, head_snapshot_id=high)

    def snapshots(
        self, *, table_id: int | None = None, limit: int | None = None, before: int | None = None
    ) -> list[CatalogSnapshot]:
        """Snapshots, the newest first.

        Args:
            table_id: only those that changed this table.
            limit: how many at most.
            before: only those before this one.
        """
        asked = {"table": table_id, "entry": _entry_of(table_id), "before": before, "limit": limit}
        rows = self._select(statements.SNAPSHOTS, asked)
        return [
            CatalogSnapshot(snapshot_id, time, writer_id, tuple(kinds.split(",")) if kinds else (), *told)
            for snapshot_id, time, writer_id, kinds, *told in rows
        ]

    def only_blind_appends(self, table_id: int, *, after: int, upto: int) -> bool:
        """Whether a table was changed in these snapshots by nothing but blind appends, which rely on nothing that was read.

        A proposal is a blind append when it is SNAPSHOT and all its changes are appends."""
        asked = {"entry": _entry_of(table_id), "after": after, "upto": upto}
        return bool(self._select(statements.ONLY_BLIND_APPENDS, asked)[0][0])

    def agreed_snapshot(self, query: str, propose: Callable[[], int]) -> int:
        """The snapshot that a query of many processes reads: what one of them has proposed first.

        Raises:
            ConfigurationError: it is not known yet, and this PostgreSQL, a replica perhaps, takes nothing.
        """
        known = self._select(AGREE, (query, None))[0][0]
        if known is None:
            try:
                known = self._select(AGREE, (query, propose()))[0][0]
            except CatalogUnavailableError as error:
                if not isinstance(error.__cause__, psycopg.errors.ReadOnlySqlTransaction):
                    raise
                raise ConfigurationError(
                    f"the catalog at {error.address} can only be read, so the tasks of a query cannot agree "
                    "there on a snapshot: name one (the option snapshot or timestamp), or connect to the primary"
                ) from error
        return int(known)

    # --- tables -------------------------------------------------------------------------------------------------------

    def data_path(self) -> str:
        """Where the lake's files are, with a slash at the end."""
        return str(self._select(statements.DATA_PATH)[0][0])

    @of_one_moment
    def schema_path(self, schema: str, snapshot_id: int) -> str | None:
        """The folder of a schema; None when there is none of that name."""
        for name, path in self._select(statements.SCHEMAS_AT, (snapshot_id, snapshot_id)):
            if fold(name) == fold(schema):
                return self.data_path() + str(path)
        return None

    def schemas(self, snapshot_id: int) -> list[str]:
        """The names of the schemas at a snapshot."""
        return sorted(name for name, _ in self._select(statements.SCHEMAS_AT, (snapshot_id, snapshot_id)))

    def table_at(self, schema: str, table: str, snapshot_id: int) -> CatalogTable | None:
        """A table as of a snapshot; None when there is none of that name.

        Raises:
            CatalogMismatchError: what the catalog says of it is not what commitlog writes.
        """
        for found in self._select(statements.TABLE_AT, {"schema": schema, "table": table, "snapshot": snapshot_id}):
            if fold(found[1]) == fold(table) and fold(found[3]) == fold(schema):
                return _table(found, snapshot_id)
        return None

    def tables_at(self, snapshot_id: int) -> list[CatalogTable]:
        """Every table as of a snapshot, in the order of `tables`.

        Raises:
            CatalogMismatchError: what the catalog says of one is not what commitlog writes.
        """
        return [
            _table(found, snapshot_id) for found in self._select(statements.EACH_TABLE_AT, {"snapshot": snapshot_id})
        ]

    def tables(self, snapshot_id: int) -> list[tuple[str, str, int]]:
        """Every table at a snapshot: schema, name, id."""
        rows = self._select(statements.TABLES_AT, [snapshot_id] * 4)
        return [(schema, table, table_id) for schema, table, table_id in rows]

    def schemas_with_views(self, snapshot_id: int) -> list[str]:
        """The schemas in which there is a view at a snapshot."""
        return [schema for (schema,) in self._select(statements.SCHEMAS_WITH_VIEWS_AT, [snapshot_id] * 4)]

    def column_names_ever(self, table_id: int) -> dict[str, frozenset[int]]:
        """Every (folded) name that a top-level column of the table ever had, with the ids of its columns."""
        found: dict[str, set[int]] = {}
        for name, column_id in self._select(statements.COLUMN_NAMES_EVER, (table_id,)):
            found.setdefault(fold(name), set()).add(column_id)
        return {name: frozenset(ids) for name, ids in found.items()}

    def columns_ended(self, table_id: int, name: str) -> list[EndedColumn]:
        """The top-level columns of the table that had a (folded) name and have it no longer, the last one first."""
        ends = self._select(statements.COLUMN_ENDS, (table_id,))
        return ended_columns(EndedColumn(*span) for found, *span in ends if fold(found) == name)

    def namings(self, schema: str, table: str) -> list[int]:
        """The snapshots that may have changed what a table's name, or one of its columns', means, the newest first."""
        return [at for (at,) in self._select(statements.NAMINGS, {"schema": schema, "table": table})]

    def column_types_before(self, table_id: int) -> list[tuple[int, str, int]]:
        """The former types of the table's top-level columns: column id, type, the snapshot that ended it; earliest first."""
        return [(*row,) for row in self._select(statements.COLUMN_TYPES_BEFORE, (table_id,))]

    # --- contents -----------------------------------------------------------------------------------------------------

    @of_one_moment
    def files_at(
        self,
        table: CatalogTable,
        snapshot_id: int,
        *,
        where: Iterable[Predicate] = (),
        newest: int | None = None,
    ) -> list[CatalogFile]:
        """The data files that are live at a snapshot.

        Args:
            table: as of the snapshot.
            snapshot_id: which snapshot.
            where: a conjunction; files of which statistics or partition values prove that no row matches are left out.
            newest: how many at most, those that came last; None is all.
        """
        conditions, values = exclusions(table.definition, where)
        asked = (snapshot_id, snapshot_id, table.definition.table_id, snapshot_id, snapshot_id, *values)
        if newest is None:
            rows = self._select(statements.FILES_AT.format(conditions=conditions), asked)
        else:
            rows = self._select(statements.NEWEST_FILES_AT.format(conditions=conditions), (*asked, newest))[::-1]
        return self._files(table, rows, self._inlined_deletes(table.definition.table_id, snapshot_id))

    @of_one_moment
    def file_totals_at(self, table: CatalogTable, snapshot_id: int) -> FileTotals:
        """What the data files that are live at a snapshot come to."""
        table_id = table.definition.table_id
        asked = {"table": table_id, "snapshot": snapshot_id}
        [(files, rows, deleted, size_bytes)] = self._select(statements.FILE_TOTALS_AT, asked)
        if (name := self.deletes_table(table_id)) is not None:
            query = statements.POSITIONS_DELETED_AT.format(sql.Identifier(name))
            deleted += self._select(query, asked)[0][0]
        return FileTotals(files, int(rows - deleted), int(deleted), int(size_bytes))

    def file_count_at(self, table_id: int, snapshot_id: int) -> int:
        """How many data files of a table are live at a snapshot."""
        return int(self._select(statements.FILE_COUNT_AT, (table_id, snapshot_id, snapshot_id))[0][0])

    def file_counts_at(self, snapshot_id: int) -> dict[int, int]:
        """How many data files are live at a snapshot, by the id of their table; tables without one are left out."""
        return dict(self._select(statements.FILE_COUNTS_AT, (snapshot_id, snapshot_id)))

    def live_files(
        self, table_id: int, paths: Sequence[str]
    ) -> list[tuple[int, str, bytes | None, str | None, int | None]]:
        """Id, path, and proposal (id, writer, writer_seq) of the live data files of a table that have these paths."""
        rows = self._select(statements.LIVE_FILES, (table_id, list(paths)))
        return [(file_id, path, None if uuid is None else uuid.bytes, *writer) for file_id, path, uuid, *writer in rows]

    @of_one_moment
    def files_of(self, table: CatalogTable, data_file_ids: Sequence[int]) -> list[CatalogFile]:
        """Data files by their ids, whether they are live or not, without their deletes."""
        rows = self._select(statements.FILES_BY_ID, (list(data_file_ids),))
        return self._files(table, rows, {})

    def _files(
        self, table: CatalogTable, rows: Sequence[tuple[Any, ...]], deleted: Mapping[int, FrozenBitMap64]
    ) -> list[CatalogFile]:
        partitioned = [row[0] for row in rows if row[9] is not None and row[9] == table.definition.partition_id]
        values = self._partition_values(table.definition.table_id, partitioned)
        mappings = self._mappings({row[8] for row in rows if row[8] is not None}, table.definition)
        return [
            CatalogFile(
                data_file_id=row[0],
                path=table.place(row[1], row[2]),
                record_count=row[3],
                file_size_bytes=row[4],
                footer_size=row[5],
                row_id_start=row[6],
                begin_snapshot=row[7],
                partition_values=values.get(row[0]),
                delete_file_path=None if row[10] is None else table.place(row[10], row[11]),
                delete_count=row[12] or 0,
                deleted=deleted.get(row[0], _NO_POSITIONS),
                name_mapping=None if row[8] is None else mappings[row[8]],
            )
            for row in rows
        ]

    def _inlined_deletes(self, table_id: int, snapshot_id: int) -> dict[int, FrozenBitMap64]:
        name = self.deletes_table(table_id)
        if name is None:
            return {}
        # As bytes, since there may be a million of them.
        query = statements.POSITIONS_DELETED.format(sql.Identifier(name))
        rows = self._select(query, (snapshot_id,))
        return {file_id: _unpacked(packed) for file_id, packed in rows}

    def deletes_table(self, table_id: int) -> str | None:
        """The name of the SQL table of a table's deletes by position; None when it has none."""
        name = f"ducklake_inlined_delete_{table_id}"
        return name if self._select("SELECT to_regclass(%s) IS NOT NULL", (name,))[0][0] else None

    def _partition_values(self, table_id: int, data_file_ids: list[int]) -> dict[int, tuple[str | None, ...]]:
        if not data_file_ids:
            return {}
        # A file that could be in any bucket has a row for each: its values are not known.
        rows = self._select(statements.PARTITION_VALUES, (table_id, data_file_ids))
        return {data_file_id: tuple(values) for data_file_id, values in rows}

    def _mappings(self, mapping_ids: set[int], definition: TableDefinition) -> dict[int, tuple[MappedColumn, ...]]:
        if not mapping_ids:
            return {}
        names = {column.column_id: column.name for column in definition.all_columns()}
        below: defaultdict[tuple[int, int | None], list[tuple[int, str, int]]] = defaultdict(list)
        for mapping_id, number, source, target, parent in self._select(statements.MAPPINGS, (list(mapping_ids),)):
            below[mapping_id, parent].append((number, source, target))

        def mapped(mapping_id: int, parent: int | None) -> tuple[MappedColumn, ...]:
            return tuple(
                MappedColumn(source, names[target], mapped(mapping_id, number))
                for number, source, target in below.get((mapping_id, parent), ())
                if target in names
            )

        return {mapping_id: mapped(mapping_id, None) for mapping_id in mapping_ids}

    def rows_at(
        self,
        table_id: int,
        snapshot_id: int,
        *,
        among: Mapping[int, Sequence[Any]] | None = None,
        limit: int | None = None,
    ) -> list[dict[int, Any]]:
        """The rows that are in no file at a snapshot, by the ids of their columns; values as stored.

        Args:
            table_id: of which table.
            snapshot_id: which snapshot.
            among: values of columns, by their ids, all of int, bytes or UUID: rows that have none of them may be left out.
            limit: how many rows at most.
        """
        return [row for _, row in self.rows_by_id_at(table_id, snapshot_id, among=among, limit=limit)]

    @of_one_moment
    def rows_by_id_at(
        self,
        table_id: int,
        snapshot_id: int,
        *,
        upto: int | None = None,
        among: Mapping[int, Sequence[Any]] | None = None,
        limit: int | None = None,
    ) -> list[tuple[int, dict[int, Any]]]:
        """The same, each with its row id; with ``upto`` only rows that have not changed after that snapshot."""
        begun_by = snapshot_id if upto is None else min(snapshot_id, upto)
        return [row for part in self._stored_parts(table_id, snapshot_id, begun_by, among, limit) for row in part]

    def rows_in_parts(
        self,
        table_id: int,
        snapshot_id: int,
        *,
        among: Mapping[int, Sequence[Any]] | None = None,
        limit: int | None = None,
    ) -> Iterator[list[dict[int, Any]]]:
        """The same as `rows_at`, some rows at a time, within `at_once`: as Python's values they take ten times their bytes."""
        for part in self._stored_parts(table_id, snapshot_id, snapshot_id, among, limit):
            yield [row for _, row in part]

    def _stored_parts(
        self,
        table_id: int,
        snapshot_id: int,
        begun_by: int,
        among: Mapping[int, Sequence[Any]] | None,
        limit: int | None,
    ) -> Iterator[list[tuple[int, dict[int, Any]]]]:
        left = limit
        for name, columns in self.rows_columns(table_id).items():
            chosen = sql.SQL(", ").join(map(statements.column, ("row_id", *columns)))
            # A column that came later has one value for all rows of before.
            known = {column: among[id_] for column, id_ in columns.items() if among is not None and id_ in among}
            conditions = [
                statements.AMONG.format(statements.column(column), sql.SQL(_STORED[type(values[0])]))
                for column, values in known.items()
            ]
            query = statements.ROWS_OF_COLUMNS.format(chosen, sql.Identifier(name), sql.Composed(conditions))
            for found in self.stored_values(query, (begun_by, snapshot_id, *map(list, known.values()), left)):
                yield [(row_id, dict(zip(columns.values(), row, strict=True))) for row_id, *row in found]
                left = None if left is None else left - len(found)

    @of_one_moment
    def row_count_at(self, table_id: int, snapshot_id: int) -> int:
        """How many rows are in no file at a snapshot."""
        counts = (statements.ROW_COUNT_AT.format(sql.Identifier(name)) for name in self._tables_with_rows(table_id))
        return sum(int(self._select(count, (snapshot_id, snapshot_id))[0][0]) for count in counts)

    def stored_values(self, query: sql.Composed, parameters: Sequence[Any]) -> Iterator[list[tuple[Any, ...]]]:
        """Values of rows that are in no file, some rows at a time; intervals as text, for a timedelta knows no months."""
        with self.connected() as conn:
            cursor = conn.cursor()
            cursor.adapters.register_loader("interval", TextLoader)
            cursor.execute(query, parameters)
        while found := cursor.fetchmany(PART_ROWS):
            yield found

    def _tables_with_rows(self, table_id: int) -> list[str]:
        with self.connected() as conn:
            return tables_with_rows(conn, table_id)

    def rows_columns(self, table_id: int) -> dict[str, dict[str, int]]:
        """The SQL tables with rows of a table that are in no file, oldest first, each with its columns' names and ids."""
        with self.at_once() as conn:
            return columns_with_rows(conn, table_id)

    # --- outcomes -----------------------------------------------------------------------------------------------------

    def outcome(self, proposal_id: bytes) -> dict[str, Any] | None:
        """The first outcome of a proposal id that is not DUPLICATE, as the columns of ``commitlog.outcomes``."""
        rows = self._records(statements.OUTCOME, (UUID(bytes=proposal_id),))
        return rows[0] if rows else None

    def proposal_ending(self, writer_id: str, ending: bytes) -> UUID | None:
        """The last committed proposal of a writer whose id ends with these 8 bytes."""
        rows = self._select(statements.PROPOSAL_ENDING, (writer_id, ending))
        return rows[0][0] if rows else None

    def committed_as(self, writer_id: str, writer_seq: int) -> dict[str, Any] | None:
        """What a writer has committed under a ``writer_seq``, as the columns of ``commitlog.outcomes``; None when there is
        nothing."""
        rows = self._records(statements.COMMITTED_AS, (writer_id, writer_seq))
        return rows[0] if rows else None

    def decided_offsets(self, partitions: Iterable[int]) -> dict[int, int]:
        """By partition of the proposals, the offset after the last one whose outcome is applied; 0 where there is none."""
        found = {partition: self._select(statements.DECIDED_OFFSET, (partition,)) for partition in partitions}
        return {partition: rows[0][0] if rows else 0 for partition, rows in found.items()}


def _entry_of(table_id: int | None) -> str:
    """What finds a table among the changes that DuckLake names of a snapshot."""
    return f"(^|,)[a-z_]+:{table_id}(,|$)"


def _table(row: Sequence[Any], snapshot_id: int) -> CatalogTable:
    """A table, of a row of ``TABLE_AT``.

    Raises:
        CatalogMismatchError: what the catalog says of it is not what commitlog writes.
    """
    try:
        return _as_written(row, snapshot_id)
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise CatalogMismatchError(
            f"the catalog does not say of table {quoted(str(row[3]))}.{quoted(str(row[1]))} what commitlog writes there "
            f"({error!r}): `commitlog doctor` says what else was changed, and what to do"
        ) from error


def _as_written(row: Sequence[Any], snapshot_id: int) -> CatalogTable:
    table_id, name, schema_id, schema_name, path, stored, earlier, columns, partitions = row
    if path is None:
        raise TypeError("no path")
    now = load_definition(stored)
    definition = TableDefinition(
        table_id=table_id,
        schema_id=schema_id,
        name=name,
        columns=_columns(columns),
        next_column_id=now.next_column_id,
        primary_key=now.primary_key,
        unique=now.unique,
        foreign_keys=now.foreign_keys,
        partition_id=partitions[0][0] if partitions else None,
        partition_by=tuple(PartitionKey(column_id, transform) for _, column_id, transform in partitions),
        comment=now.comment,
        properties=now.properties if earlier is None else earlier,
    )
    return CatalogTable(definition, schema_name, path)


def _columns(rows: Sequence[Sequence[Any]]) -> tuple[Column, ...]:
    """The top-level columns, of rows that name each column's parent."""
    by_parent: defaultdict[int | None, list[Sequence[Any]]] = defaultdict(list)
    for row in rows:
        by_parent[row[-1]].append(row)

    def below(parent: int | None) -> Iterator[Column]:
        for column_id, name, kind, initial_default, default, nullable, _ in by_parent[parent]:
            children = tuple(below(column_id))
            if children:
                parsed = ColumnType(kind, fields=tuple((child.name, child.type) for child in children))
            else:
                parsed = parse_type(kind)
            given = None if default in (None, "NULL") else default
            yield Column(column_id, name, parsed, nullable, given, initial_default, children=children)

    return tuple(below(None))


def _unpacked(packed: bytes) -> FrozenBitMap64:
    """Positions from 64-bit integers in PostgreSQL's byte order."""
    positions = array("Q", packed)
    if sys.byteorder == "little":
        positions.byteswap()
    return FrozenBitMap64(positions)
