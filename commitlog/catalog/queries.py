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
from psycopg.rows import dict_row
from pyroaring import FrozenBitMap64

from commitlog.catalog.pruning import exclusions
from commitlog.catalog.query_snapshots import AGREE
from commitlog.catalog.reader import CatalogReader, of_one_moment
from commitlog.domain.model import MappedColumn, Predicate
from commitlog.domain.model.definitions import Column, PartitionKey, TableDefinition
from commitlog.domain.model.types import ColumnType, fold, parse_type
from commitlog.domain.state.dumping import load_definition
from commitlog.errors import CatalogUnavailableError, ConfigurationError, SnapshotNotFoundError

PROJECTOR_NAME = "commitlog projector"
"""What a projector's session is called, so that others see in PostgreSQL that it lives."""

_FILE_COLUMNS: LiteralString = """SELECT f.data_file_id, f.path, f.path_is_relative, f.record_count, f.file_size_bytes,
    f.footer_size, f.row_id_start, f.begin_snapshot, f.mapping_id, f.partition_id"""
_FILES_AT = sql.SQL(
    _FILE_COLUMNS
    + """, d.path, d.path_is_relative, d.delete_count FROM ducklake_data_file f
    LEFT JOIN ducklake_delete_file d ON d.data_file_id = f.data_file_id AND d.begin_snapshot <= %s
        AND (d.end_snapshot IS NULL OR d.end_snapshot > %s)
    WHERE f.table_id = %s AND f.begin_snapshot <= %s AND f.begin_snapshot > %s
    AND (f.end_snapshot IS NULL OR f.end_snapshot > %s){conditions}
    ORDER BY f.data_file_id"""
)
_TABLE_AT: LiteralString = """
    SELECT t.table_id, t.table_name, t.schema_id, s.schema_name,
        (SELECT value FROM ducklake_metadata WHERE key = 'data_path' AND scope IS NULL) || s.path || t.path,
        (SELECT definition FROM commitlog.table_definitions d WHERE d.table_id = t.table_id),
        (SELECT coalesce(json_agg(json_build_array(column_id, column_name, column_type, initial_default, default_value,
                nulls_allowed, parent_column) ORDER BY column_order, column_id), '[]')
            FROM ducklake_column c WHERE c.table_id = t.table_id
            AND c.begin_snapshot <= %(snapshot)s AND (c.end_snapshot IS NULL OR c.end_snapshot > %(snapshot)s)),
        (SELECT coalesce(json_agg(json_build_array(i.partition_id, c.column_id, c.transform)
                ORDER BY c.partition_key_index), '[]')
            FROM ducklake_partition_info i JOIN ducklake_partition_column c USING (partition_id, table_id)
            WHERE i.table_id = t.table_id
            AND i.begin_snapshot <= %(snapshot)s AND (i.end_snapshot IS NULL OR i.end_snapshot > %(snapshot)s))
    FROM (SELECT FROM ducklake_snapshot LIMIT 1) gate, ducklake_table t JOIN ducklake_schema s USING (schema_id)
    WHERE lower(t.table_name) = lower(%(table)s) AND lower(s.schema_name) = lower(%(schema)s)
    AND t.begin_snapshot <= %(snapshot)s AND (t.end_snapshot IS NULL OR t.end_snapshot > %(snapshot)s)
    AND s.begin_snapshot <= %(snapshot)s AND (s.end_snapshot IS NULL OR s.end_snapshot > %(snapshot)s)"""
"""One statement sees one moment; like every reader of several tables it opens ``ducklake_snapshot`` first, see ``at_once``."""

_NO_POSITIONS = FrozenBitMap64()


@dataclass(frozen=True, slots=True)
class CatalogTable:
    """A table at a snapshot; ``path`` is the folder of its relative files, with a slash at the end."""

    definition: TableDefinition
    schema_name: str
    path: str

    def place(self, path: str, is_relative: bool) -> str:
        """The absolute path of one of the table's files."""
        return self.path + path if is_relative else path


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
        rows = self._select("SELECT log_id, seq, epoch, hash, results_offset, next_offset FROM commitlog.applied")
        if not rows:
            return None
        log_id, seq, epoch, digest, offset, next_offset = rows[0]
        return AppliedPosition(log_id.bytes, seq, epoch, digest, offset, next_offset)

    def milepost(
        self, *, before_seq: int | None = None, before_snapshot: int | None = None, before_offset: int | None = None
    ) -> Milepost | None:
        """The last one before an outcome, before the one that made a snapshot, before an offset of the results; None when
        there is none."""
        found = self._mileposts(
            "WHERE m.seq < coalesce(%s, 9223372036854775807) AND m.head_snapshot_id < coalesce(%s, 9223372036854775807) "
            "AND m.results_offset < coalesce(%s, 9223372036854775807) ORDER BY m.seq DESC LIMIT 1",
            (before_seq, before_snapshot, before_offset),
        )
        return found[0] if found else None

    def mileposts(self, *, every: int, from_offset: int, to_offset: int) -> list[Milepost]:
        """Those between offsets of the results, both exclusive, whose seq is a multiple of ``every``."""
        return self._mileposts(
            "WHERE m.seq %% %s = 0 AND m.results_offset > %s AND m.results_offset < %s ORDER BY m.seq",
            (every, from_offset, to_offset),
        )

    def _mileposts(self, which: LiteralString, parameters: Sequence[Any]) -> list[Milepost]:
        rows = self._select(
            "SELECT a.log_id, m.seq, m.epoch, m.hash, m.results_offset FROM commitlog.mileposts m, commitlog.applied a "
            + which,
            parameters,
        )
        return [Milepost(log_id.bytes, seq, epoch, bytes(digest), at) for log_id, seq, epoch, digest, at in rows]

    def has_projector(self) -> bool:
        """Whether a projector is connected to the catalog's database."""
        query = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = %s"
        return int(self._select(query, (PROJECTOR_NAME,))[0][0]) > 0

    def head_snapshot_id(self) -> int:
        """The newest snapshot that readers see."""
        return int(self._select("SELECT max(snapshot_id) FROM ducklake_snapshot")[0][0])

    def shown(self) -> Shown | None:
        """What readers see now; None before the first outcome."""
        rows = self._select(
            """SELECT a.next_offset, a.seq, s.snapshot_id, s.schema_version FROM commitlog.applied a,
               (SELECT snapshot_id, schema_version FROM ducklake_snapshot ORDER BY snapshot_id DESC LIMIT 1) s"""
        )
        return Shown(*rows[0]) if rows else None

    def oldest_snapshot_id(self) -> int:
        """The oldest snapshot that was not expired."""
        return int(self._select("SELECT min(snapshot_id) FROM ducklake_snapshot")[0][0])

    def snapshot_at(self, moment: datetime) -> int:
        """The newest snapshot not later than ``moment``; SnapshotNotFoundError when all are."""
        rows = self._select(
            "SELECT max(snapshot_id), min(snapshot_id) FROM ducklake_snapshot WHERE snapshot_time <= %s", (moment,)
        )
        if rows[0][0] is None:
            self.check_snapshot(-1)
        return int(rows[0][0])

    def check_snapshot(self, snapshot_id: int) -> None:
        """Raise SnapshotNotFoundError, which says which ones there are, unless the snapshot exists."""
        low, high, found = self._select(
            "SELECT min(snapshot_id), max(snapshot_id), bool_or(snapshot_id = %s) FROM ducklake_snapshot",
            (snapshot_id,),
        )[0]
        if not found:
            raise SnapshotNotFoundError(snapshot_id, floor_snapshot_id=low, head_snapshot_id=high)

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
        return str(self._select("SELECT value FROM ducklake_metadata WHERE key = 'data_path' AND scope IS NULL")[0][0])

    @of_one_moment
    def schema_path(self, schema: str, snapshot_id: int) -> str | None:
        """The folder of a schema; None when there is none of that name."""
        for name, path in self._select(
            "SELECT schema_name, path FROM ducklake_schema WHERE begin_snapshot <= %s "
            "AND (end_snapshot IS NULL OR end_snapshot > %s)",
            (snapshot_id, snapshot_id),
        ):
            if fold(name) == fold(schema):
                return self.data_path() + str(path)
        return None

    def table_at(self, schema: str, table: str, snapshot_id: int) -> CatalogTable | None:
        """A table as of a snapshot; None when there is none of that name."""
        for found in self._select(_TABLE_AT, {"schema": schema, "table": table, "snapshot": snapshot_id}):
            table_id, table_name, schema_id, schema_name, path, stored, columns, partitions = found
            if fold(table_name) == fold(table) and fold(schema_name) == fold(schema):
                now = load_definition(stored)
                definition = TableDefinition(
                    table_id=table_id,
                    schema_id=schema_id,
                    name=table_name,
                    columns=_columns(columns),
                    next_column_id=now.next_column_id,
                    primary_key=now.primary_key,
                    unique=now.unique,
                    foreign_keys=now.foreign_keys,
                    partition_id=partitions[0][0] if partitions else None,
                    partition_by=tuple(PartitionKey(column_id, transform) for _, column_id, transform in partitions),
                    comment=now.comment,
                    properties=now.properties,
                )
                return CatalogTable(definition, schema_name, path)
        return None

    def tables(self, snapshot_id: int) -> list[tuple[str, str, int]]:
        """Every table at a snapshot: schema, name, id."""
        rows = self._select(
            """SELECT s.schema_name, t.table_name, t.table_id FROM ducklake_table t JOIN ducklake_schema s USING (schema_id)
               WHERE t.begin_snapshot <= %s AND (t.end_snapshot IS NULL OR t.end_snapshot > %s)
               AND s.begin_snapshot <= %s AND (s.end_snapshot IS NULL OR s.end_snapshot > %s) ORDER BY 1, 2""",
            [snapshot_id] * 4,
        )
        return [(schema, table, table_id) for schema, table, table_id in rows]

    def column_names_ever(self, table_id: int) -> dict[str, frozenset[int]]:
        """Every (folded) name that a top-level column of the table ever had, with the ids of its columns."""
        found: dict[str, set[int]] = {}
        for name, column_id in self._select(
            "SELECT DISTINCT column_name, column_id FROM ducklake_column WHERE table_id = %s AND parent_column IS NULL",
            (table_id,),
        ):
            found.setdefault(fold(name), set()).add(column_id)
        return {name: frozenset(ids) for name, ids in found.items()}

    # --- contents -----------------------------------------------------------------------------------------------------

    @of_one_moment
    def files_at(
        self, table: CatalogTable, snapshot_id: int, *, after: int = -1, where: Iterable[Predicate] = ()
    ) -> list[CatalogFile]:
        """The data files that are live at a snapshot.

        Args:
            table: as of the snapshot.
            snapshot_id: which snapshot.
            after: only files that came after this one.
            where: a conjunction; files of which statistics or partition values prove that no row matches are left out.
        """
        conditions, values = exclusions(table.definition, where)
        rows = self._select(
            _FILES_AT.format(conditions=conditions),
            (snapshot_id, snapshot_id, table.definition.table_id, snapshot_id, after, snapshot_id, *values),
        )
        return self._files(table, rows, self._inlined_deletes(table.definition.table_id, snapshot_id))

    def live_files(
        self, table_id: int, paths: Sequence[str]
    ) -> list[tuple[int, str, bytes | None, str | None, int | None]]:
        """Id, path, and proposal (id, writer, writer_seq) of the live data files of a table that have these paths."""
        rows = self._select(
            """SELECT f.data_file_id, f.path, o.proposal_id, o.writer_id, o.writer_seq FROM ducklake_data_file f
               LEFT JOIN commitlog.outcomes o ON o.snapshot_id = f.begin_snapshot
               WHERE f.table_id = %s AND f.end_snapshot IS NULL AND f.path = ANY(%s)""",
            (table_id, list(paths)),
        )
        return [(file_id, path, None if uuid is None else uuid.bytes, *writer) for file_id, path, uuid, *writer in rows]

    @of_one_moment
    def files_of(self, table: CatalogTable, data_file_ids: Sequence[int]) -> list[CatalogFile]:
        """Data files by their ids, whether they are live or not, without their deletes."""
        rows = self._select(
            _FILE_COLUMNS + ", NULL, NULL, NULL FROM ducklake_data_file f WHERE f.data_file_id = ANY(%s) ORDER BY 1",
            (list(data_file_ids),),
        )
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
        query = sql.SQL(
            "SELECT file_id, string_agg(int8send(row_id), ''::bytea) FROM {} WHERE begin_snapshot <= %s GROUP BY 1"
        )
        rows = self._select(query.format(sql.Identifier(name)), (snapshot_id,))
        return {file_id: _unpacked(packed) for file_id, packed in rows}

    def deletes_table(self, table_id: int) -> str | None:
        """The name of the SQL table of a table's deletes by position; None when it has none."""
        name = f"ducklake_inlined_delete_{table_id}"
        return name if self._select("SELECT to_regclass(%s) IS NOT NULL", (name,))[0][0] else None

    def rows_tables(self, table_id: int) -> list[str]:
        """The names of the SQL tables of a table's rows that are in no file, oldest first."""
        rows = self._select(
            "SELECT table_name FROM ducklake_inlined_data_tables WHERE table_id = %s ORDER BY schema_version",
            (table_id,),
        )
        return [name for (name,) in rows]

    def _partition_values(self, table_id: int, data_file_ids: list[int]) -> dict[int, tuple[str | None, ...]]:
        if not data_file_ids:
            return {}
        # A file that could be in any bucket has a row for each: its values are not known.
        rows = self._select(
            """SELECT data_file_id, array_agg(partition_value ORDER BY partition_key_index)
               FROM ducklake_file_partition_value WHERE table_id = %s AND data_file_id = ANY(%s)
               GROUP BY 1 HAVING count(*) = count(DISTINCT partition_key_index)""",
            (table_id, data_file_ids),
        )
        return {data_file_id: tuple(values) for data_file_id, values in rows}

    def _mappings(self, mapping_ids: set[int], definition: TableDefinition) -> dict[int, tuple[MappedColumn, ...]]:
        if not mapping_ids:
            return {}
        names = {column.column_id: column.name for column in definition.all_columns()}
        rows = self._select(
            "SELECT mapping_id, column_id, source_name, target_field_id, parent_column FROM ducklake_name_mapping "
            "WHERE mapping_id = ANY(%s) ORDER BY mapping_id, column_id",
            (list(mapping_ids),),
        )

        def mapped(mapping_id: int, parent: int | None) -> tuple[MappedColumn, ...]:
            return tuple(
                MappedColumn(source, names[target], mapped(mapping_id, number))
                for found, number, source, target, above in rows
                if found == mapping_id and above == parent and target in names
            )

        return {mapping_id: mapped(mapping_id, None) for mapping_id in mapping_ids}

    @of_one_moment
    def inlined_rows_at(self, table_id: int, snapshot_id: int) -> list[dict[str, Any]]:
        """The rows that are in no file at a snapshot, by the names of their columns, with ``row_id``; values as stored."""
        rows: list[dict[str, Any]] = []
        for name in self.rows_tables(table_id):
            query = sql.SQL(
                "SELECT * FROM {} WHERE begin_snapshot <= %s AND (end_snapshot IS NULL OR end_snapshot > %s) ORDER BY row_id"
            ).format(sql.Identifier(name))
            with self.connected() as conn, conn.cursor(row_factory=dict_row) as cursor:
                rows += cursor.execute(query, (snapshot_id, snapshot_id)).fetchall()
        return rows

    # --- outcomes -----------------------------------------------------------------------------------------------------

    def outcome(self, proposal_id: bytes) -> dict[str, Any] | None:
        """The first outcome of a proposal id that is not DUPLICATE, as the columns of ``commitlog.outcomes``."""
        rows = self._records(
            "SELECT * FROM commitlog.outcomes WHERE proposal_id = %s ORDER BY (verdict = 'DUPLICATE'), seq LIMIT 1",
            (UUID(bytes=proposal_id),),
        )
        return rows[0] if rows else None

    def proposal_ending(self, writer_id: str, ending: bytes) -> UUID | None:
        """The last committed proposal of a writer whose id ends with these 8 bytes."""
        rows = self._select(
            "SELECT proposal_id FROM commitlog.outcomes WHERE writer_id = %s AND verdict = 'COMMITTED' "
            "AND substring(uuid_send(proposal_id) FROM 9) = %s ORDER BY seq DESC LIMIT 1",
            (writer_id, ending),
        )
        return rows[0][0] if rows else None

    def committed_as(self, writer_id: str, writer_seq: int) -> int | None:
        """The seq of what a writer has committed under a ``writer_seq``; None when there is nothing."""
        rows = self._select(
            "SELECT seq FROM commitlog.outcomes WHERE writer_id = %s AND writer_seq = %s AND verdict = 'COMMITTED'",
            (writer_id, writer_seq),
        )
        return rows[0][0] if rows else None

    def decided_offsets(self, partitions: Iterable[int]) -> dict[int, int]:
        """By partition of the proposals, the offset after the last one whose outcome is applied; 0 where there is none."""
        query: LiteralString = (
            "SELECT source_offset + 1 FROM commitlog.outcomes WHERE source_partition = %s ORDER BY seq DESC LIMIT 1"
        )
        found = {partition: self._select(query, (partition,)) for partition in partitions}
        return {partition: rows[0][0] if rows else 0 for partition, rows in found.items()}

    def history(self, *, limit: int, before_seq: int | None = None) -> list[dict[str, Any]]:
        """The newest outcomes first, with the time, author and message of the snapshots they made."""
        return self._records(
            """SELECT o.*, s.snapshot_time, c.author, c.commit_message AS message, c.changes_made
               FROM commitlog.outcomes o
               LEFT JOIN ducklake_snapshot s USING (snapshot_id)
               LEFT JOIN ducklake_snapshot_changes c USING (snapshot_id)
               WHERE o.seq < coalesce(%s, 9223372036854775807) ORDER BY o.seq DESC LIMIT %s""",
            (before_seq, limit),
        )


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
