"""`format("commitlog")` as a source: a table at a snapshot, and a table followed from snapshot to snapshot.

Python reads the files here, so `commitlog.spark.read` is the faster way to read a large table at once; this one is for
SQL views, Spark Connect and streams. A stream's offset is a snapshot id, and its batches are whole snapshots.

Spark plans a source once, and runs that plan in every query of the same view or DataFrame. So a plan only says what the
table was like then: the tasks of each query agree on the snapshot that it reads, which is the newest at its start.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, groupby
from uuid import uuid4

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxFiles, SupportsTriggerAvailableNow
from pyspark.sql.types import LongType, StringType, StructField, StructType

from commitlog.catalog.queries import Catalog, CatalogTable
from commitlog.catalog.table_changes import ChangedFile, ChangedRow, TableChanges
from commitlog.client import CommitLog
from commitlog.client.reading.rows_of_file import RowsOfFile, rows_of_change
from commitlog.client.tables.names import parse_table_name
from commitlog.domain.model.definitions import Column
from commitlog.domain.model.types import fold
from commitlog.errors import ConfigurationError, DataFileError, TableNotFoundError
from commitlog.spark.columns import scan_schema
from commitlog.spark.connection import catalog_of, connect, connect_by, settings_of
from commitlog.spark.reading.arrow_rows import read_rows, text_array
from commitlog.spark.reading.scan import scan_at, snapshot_of
from commitlog.spark.reading.snapshots import agreed_snapshot, query_of_task
from commitlog.spark.source.options import SourceOptions
from commitlog.spark.source.workers import plainly

CHANGE, SNAPSHOT = "_change", "_snapshot_id"
INSERT, DELETE = "insert", "delete"
PARTITION_ROWS = 1_000_000
HEAD_KEPT_S = 0.1
TASKS_MIN = 4
"""How many tasks read a table at least: it may have grown when the plan is run again."""


@dataclass(frozen=True, slots=True)
class Part:
    """Rows of one file, or of no file as Arrow IPC bytes; ``change`` and ``snapshot_id`` where changes are asked for."""

    rows: RowsOfFile | bytes
    row_count: int
    change: str | None = None
    snapshot_id: int = -1


class Parts(InputPartition):
    """What one task reads, as which columns."""

    def __init__(self, columns: Sequence[Column], parts: Sequence[Part]) -> None:
        super().__init__(None)
        self.columns = columns
        self.parts = parts

    def read(self, schema: StructType) -> Iterator[pa.RecordBatch]:
        """The rows as ``schema``, which Arrow's batches must have to the letter."""
        whole = to_arrow_schema(schema, timezone="UTC")
        own = pa.schema([each for each in whole if each.name not in (CHANGE, SNAPSHOT)])
        for part in self.parts:
            for batch in _batches(part, self.columns, own):
                marks = {
                    CHANGE: pa.array([part.change] * batch.num_rows, pa.string()),
                    SNAPSHOT: pa.array([part.snapshot_id] * batch.num_rows, pa.int64()),
                }
                arrays = [marks[each.name] if each.name in marks else batch.column(each.name) for each in whole]
                yield pa.RecordBatch.from_arrays(arrays, schema=whole)


class Share(InputPartition):
    """What one of ``count`` tasks reads: as planned at a snapshot, or its share of the table at another one."""

    def __init__(self, snapshot_id: int, number: int, count: int, planned: Parts) -> None:
        super().__init__(number)
        self.snapshot_id = snapshot_id
        self.number = number
        self.count = count
        self.planned = planned


def _batches(part: Part, columns: Sequence[Column], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    if isinstance(part.rows, RowsOfFile):
        yield from read_rows(part.rows, columns, schema)
    else:
        with pa.ipc.open_stream(part.rows) as stream:
            yield from stream


def _packed(columns: Sequence[Column], parts: Iterable[Part]) -> list[Parts]:
    """Parts in their order, packed into tasks of about ``PARTITION_ROWS``."""
    packed: list[list[Part]] = []
    room = 0
    for part in parts:
        if room <= 0:
            packed.append([])
            room = PARTITION_ROWS
        packed[-1].append(part)
        room -= max(part.row_count, 1)
    return [Parts(columns, each) for each in packed]


def source_schema(options: SourceOptions, table: str) -> StructType:
    """What a read gives: the table's columns, as of the snapshot that the options name; with the option `changes` also
    what became of a row, and in which snapshot.

    Raises:
        TableNotFoundError: there is no such table at the snapshot.
    """
    log, name = connect(options.settings), parse_table_name(table)
    snapshot_id = snapshot_of(log, options.text("snapshot"), options.text("timestamp"))
    catalog = catalog_of(log)
    catalog.check_snapshot(snapshot_id)
    found = catalog.table_at(name.schema, name.name, snapshot_id)
    if found is None:
        raise TableNotFoundError(str(name), snapshot_id=snapshot_id)
    return _table_schema(found.definition.columns, changes=options.flag("changes"))


def _table_schema(columns: Iterable[Column], *, changes: bool = False) -> StructType:
    fields = [StructField(each.name, each.dataType, True) for each in scan_schema(columns).fields]
    if changes:
        fields += [StructField(CHANGE, StringType(), False), StructField(SNAPSHOT, LongType(), False)]
    return StructType(fields)


def _columns_of(schema: StructType, known: Iterable[Column], table: str) -> tuple[Column, ...]:
    """The columns that a schema names, in its order.

    Raises:
        DataFileError: the table has not one of them, or not of that type.
    """
    by_name = {fold(column.name): column for column in known}
    types = {fold(each.name): each.dataType for each in _table_schema(by_name.values()).fields}
    wanted = [each for each in schema.fields if each.name not in (CHANGE, SNAPSHOT)]
    for each in wanted:
        if types.get(fold(each.name)) != each.dataType:
            raise DataFileError(
                f"table {table} has no column {each.name} of type {each.dataType.simpleString()} (any more): load it, create "
                "the view, or start the stream again, to read the table as it is now"
            )
    return tuple(by_name[fold(each.name)] for each in wanted)


def _inlined(columns: Sequence[Column], schema: StructType, rows: Sequence[Mapping[int, object]]) -> bytes:
    """Rows that are in no file, given by column id, as an Arrow IPC stream."""
    own = StructType([each for each in schema.fields if each.name not in (CHANGE, SNAPSHOT)])
    arrow = to_arrow_schema(own, timezone="UTC")
    arrays = [
        text_array(column, [row.get(column.column_id, column.initial_default) for row in rows], each.type)
        for column, each in zip(columns, arrow, strict=True)
    ]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, arrow) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=arrow))
    return bytes(sink.getvalue())


class TableReader(DataSourceReader):
    """A table: as of the option `snapshot` (an id) or `timestamp`, or, without, as of each query's own start."""

    def __init__(self, options: SourceOptions, table: str, schema: StructType) -> None:
        self._options = options
        self._table = table
        self._schema = schema
        self._plan_id = str(uuid4())
        self._settings = settings_of(connect(options.settings))

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        log = connect_by(self._settings)
        snapshot_id = snapshot_of(log, options.text("snapshot"), options.text("timestamp"))
        planned = list(_plan(log, self._table, self._schema.json(), snapshot_id))
        if options.is_pinned:
            return planned
        planned += [Parts(planned[0].columns, ())] * (TASKS_MIN - len(planned))
        return [Share(snapshot_id, number, len(planned), each) for number, each in enumerate(planned)]

    @plainly
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, Share):
            log = connect_by(self._settings)
            snapshot_id = agreed_snapshot(log, query_of_task(self._plan_id))
            if snapshot_id != partition.snapshot_id:
                planned = _plan(log, self._table, self._schema.json(), snapshot_id)
                shares = planned[partition.number :: partition.count]
                return chain.from_iterable(each.read(self._schema) for each in shares)
            partition = partition.planned
        assert isinstance(partition, Parts)
        return partition.read(self._schema)


@lru_cache(maxsize=8)
def _plan(log: CommitLog, table: str, schema_json: str, snapshot_id: int) -> tuple[Parts, ...]:
    """All rows of a table at a snapshot, for one task or more; made once for all tasks of a worker."""
    schema = StructType.fromJson(json.loads(schema_json))
    scan = scan_at(catalog_of(log), table, snapshot_id)
    columns = _columns_of(schema, scan.columns, table)
    parts = [
        Part(RowsOfFile(each.path, each.name_mapping, without=each.deleted), each.record_count) for each in scan.files
    ]
    if count := scan.inlined.num_rows:
        values = {column.column_id: scan.inlined[column.name].to_pylist() for column in columns}
        rows = [{key: given[at] for key, given in values.items()} for at in range(count)]
        parts.append(Part(_inlined(columns, schema, rows), count))
    return tuple(_packed(columns, parts)) or (Parts(columns, ()),)


class TableStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The rows that came into a table, snapshot after snapshot.

    Options: `startingSnapshot`, rows that were committed after it (default: all that the log still knows);
    `snapshotsPerTrigger`, how many snapshots a batch takes at most; `changes`, deleted rows too, with the columns
    `_change` and `_snapshot_id` (an update is a delete and an insert of one snapshot).
    """

    def __init__(self, options: SourceOptions, table: str, schema: StructType) -> None:
        self._options = options
        self._table = table
        self._schema = schema
        self._changes = any(each.name == CHANGE for each in schema.fields)
        self._limit = options.number("snapshotsPerTrigger")
        self._head: tuple[float, int] | None = None
        self._last: int | None = None

    @property
    def _catalog(self) -> Catalog:
        # Not kept in a field: Spark sends the reader to its tasks.
        return catalog_of(connect(self._options.settings))

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        oldest = self._catalog.oldest_snapshot_id()
        start = self._options.number("startingSnapshot")
        if start is None and oldest > 0:
            raise ConfigurationError(
                f"the log knows its snapshots from {oldest} on, not from the beginning: set the option startingSnapshot to "
                f"{oldest} or later, and read the table as of that snapshot for what was there before"
            )
        if start is not None:
            self._catalog.check_snapshot(start)
        return {"snapshot": start or 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable() if self._limit is None else ReadMaxFiles(self._limit)

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        head = self._newest() if self._last is None else self._last
        if isinstance(limit, ReadMaxFiles):
            head = min(head, start["snapshot"] + limit.max_files)
        return {"snapshot": max(head, start["snapshot"])}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._last = connect(self._options.settings).head_snapshot_id()

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        after, upto = start["snapshot"], end["snapshot"]
        if after >= upto:
            return []
        with self._catalog.at_once():
            return self._changed_parts(after, upto)

    def _changed_parts(self, after: int, upto: int) -> Sequence[InputPartition]:
        self._catalog.check_snapshot(after)
        table = self._table_at(upto)
        if table is None:
            return []
        columns = _columns_of(self._schema, table.definition.columns, self._table)
        changes = TableChanges(self._catalog, table, after, upto)
        parts = [self._file_part(each) for each in changes.files(deletes=self._changes)]
        parts += self._row_parts(changes.rows(deletes=self._changes), columns)
        return _packed(columns, parts)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Parts)
        return partition.read(self._schema)

    def commit(self, end: dict[str, int]) -> None:
        pass

    def stop(self) -> None:
        pass

    def _newest(self) -> int:
        """The newest snapshot; Spark asks about every 13 ms, the catalog is asked less often."""
        now = time.monotonic()
        if self._head is None or now - self._head[0] > HEAD_KEPT_S:
            self._head = now, self._catalog.head_snapshot_id()
        return self._head[1]

    def _table_at(self, snapshot_id: int) -> CatalogTable | None:
        """The table; None before it was created."""
        name = parse_table_name(self._table)
        found = self._catalog.table_at(name.schema, name.name, snapshot_id)
        newest = self._catalog.head_snapshot_id()
        if found is None and self._catalog.table_at(name.schema, name.name, newest) is None:
            raise TableNotFoundError(str(name), snapshot_id=newest)
        return found

    def _file_part(self, changed: ChangedFile) -> Part:
        change = DELETE if changed.is_delete else INSERT
        return Part(rows_of_change(changed), changed.file.record_count, change, changed.snapshot_id)

    def _row_parts(self, changed: Sequence[ChangedRow], columns: Sequence[Column]) -> Iterator[Part]:
        for (snapshot_id, is_delete), group in groupby(changed, key=lambda each: (each.snapshot_id, each.is_delete)):
            rows = [each.values for each in group]
            inlined = _inlined(columns, self._schema, rows)
            yield Part(inlined, len(rows), DELETE if is_delete else INSERT, snapshot_id)
