"""`format("commitlog")` as a stream of what came into a table, and, where asked for, of what went.

An offset is the last snapshot that has changed this table: what is committed to others makes no batch. A batch is whole
snapshots.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxFiles, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from commitlog.catalog.queries import Catalog, CatalogTable
from commitlog.catalog.table_changes import ChangedFile, ChangedRow, TableChanges
from commitlog.client.reading.rows_of_file import rows_of_change
from commitlog.client.tables.names import TableName, parse_table_name
from commitlog.domain.model.definitions import Column
from commitlog.errors import (
    CatalogBehindError,
    ConfigurationError,
    DataFileError,
    LogLossError,
    SnapshotNotFoundError,
    TableNotFoundError,
)
from commitlog.spark.connection import catalog_of, connect, proposal_of
from commitlog.spark.reading.scan import scan_at
from commitlog.spark.source.batch_limits import BatchLimits, Load
from commitlog.spark.source.options import SourceOptions
from commitlog.spark.source.parts import (
    DELETE,
    INSERT,
    Part,
    Parts,
    columns_of,
    inlined_rows,
    packed,
    parts_of_scan,
)
from commitlog.spark.source.schemas import CHANGE, check_changes_told
from commitlog.spark.source.workers import keep_imports, plainly

HEAD_KEPT_S = 0.1
LATEST, EARLIEST, FULL = "latest", "earliest", "full"
_BEGIN_ANOTHER = (
    "Begin another stream, with a checkpoint of its own and the option startingSnapshot=full (the table as it is now, then "
    "what comes)"
)

Offset: TypeAlias = Mapping[str, "int | str"]
"""``{"snapshot": 42, "proposal": ...}``, by which it is told from one of the same number in a log that was restored;
``{"snapshot": 42}`` where a stream is to begin. Before the first batch of one that begins with the newest snapshot,
whichever that will be, ``{"from": "latest"}`` or ``{"from": "full"}``: Spark keeps the end of a batch, and asks for its
beginning again."""

keep_imports()


class TableStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The rows that came into a table, snapshot after snapshot.

    Options: `startingSnapshot`, a snapshot's id for what was committed after it, `latest` for what comes from now on,
    `full` for the table as it is now and then what comes, `earliest` for all that the log still knows; without it, all from
    the beginning, and an error when that is not known any more. `maxFilesPerTrigger`, `maxRowsPerTrigger` and
    `snapshotsPerTrigger`, how much a batch takes at most, in whole snapshots and always one; the first batch of `full` is
    the whole table. `changes`, deleted rows too, with the columns `_change` and `_snapshot_id` (an update is a delete and an
    insert of one snapshot).
    """

    def __init__(self, options: SourceOptions, table: str, schema: StructType) -> None:
        self._options = options
        self._table = table
        self._schema = schema
        self._changes = options.flag("changes") and any(each.name == CHANGE for each in schema.fields)
        self._limits = BatchLimits.of(options)
        self._start = _start_of(options)
        self._head: tuple[float, int] | None = None
        self._last: int | None = None
        self._unchanged = (0, 0)
        self._known: Offset = {}

    def __getstate__(self) -> dict[str, Any]:
        """What tasks get: they read files, and need no settings for that."""
        return {**vars(self), "_options": None}

    @property
    def _catalog(self) -> Catalog:
        # Not kept in a field: Spark sends the reader to its tasks.
        return catalog_of(connect(self._options.settings))

    @property
    def _name(self) -> TableName:
        return parse_table_name(self._table)

    @plainly()
    def initialOffset(self) -> dict[str, int | str]:  # noqa: N802
        if self._start in (LATEST, FULL):
            return {"from": self._start}
        oldest = self._catalog.oldest_snapshot_id()
        if self._start == EARLIEST:
            return {"snapshot": oldest}
        if self._start is None and oldest > 0:
            raise ConfigurationError(
                f"the log knows its snapshots from {oldest} on, not from the beginning: set the option startingSnapshot to "
                "full (the table as it is now, then what comes), earliest (all that is still known), latest (what comes "
                f"from now on), or to {oldest} or a later snapshot, for what was committed after it"
            )
        if isinstance(self._start, int):
            self._catalog.check_snapshot(self._start)
        return {"snapshot": self._start or 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        smallest = self._limits.smallest
        return ReadAllAvailable() if smallest is None else ReadMaxFiles(smallest)

    @plainly()
    def latestOffset(self, start: Offset, limit: ReadLimit) -> dict[str, int | str]:  # noqa: N802
        head = self._newest() if self._last is None else self._last
        if "from" in start:
            return self._named(head)
        after = int(start["snapshot"])
        if head < after:
            # A catalog that is made anew may take longer to be there, and then nothing is known to be gone.
            with suppress(CatalogBehindError):
                self._wait_for(after)
        else:
            self._check_made(start)
        if head <= self._unchanged_upto(after):
            return dict(start)
        with self._catalog.at_once():
            end = self._end(after, head, is_limited=isinstance(limit, ReadMaxFiles))
            return dict(start) if end == after else self._named(end)

    def _end(self, after: int, head: int, *, is_limited: bool) -> int:
        """Where a batch ends that begins after a snapshot: at the last one that changed the table, or would be too much."""
        # Expired snapshots do not tell any more what they changed: whoever went by those that are left would lose rows.
        self._check_kept(self._unchanged_upto(after) + 1)
        table = self._table_at(head)
        changes = TableChanges(self._catalog, table, self._unchanged_upto(after), head)
        most = self._limits.smallest if is_limited else None
        changed = changes.snapshots(deletes=self._changes, limit=most)
        if not changed:
            # From here on nobody looks at what the name was before.
            self._check_same(table, self._unchanged_upto(after))
            self._unchanged = (after, head)
            return head if self._is_fading(after, head) else after
        if most is None:
            return changed[-1]
        end = self._limits.last_of(self._loads(TableChanges(self._catalog, table, after, changed[-1]), changed))
        assert end is not None, "there is a snapshot, and one always fits"
        return end

    def _unchanged_upto(self, after: int) -> int:
        """The last snapshot of which this reader knows that none after ``after`` up to it has changed the table."""
        known_after, upto = self._unchanged
        return max(after, upto) if known_after == after else after

    def _is_fading(self, after: int, head: int) -> bool:
        """Whether an offset goes on although nothing came, for its snapshot will be expired before long.

        That is so once it is among the older half of those that are left, where any were expired.
        """
        oldest = self._catalog.oldest_snapshot_id()
        return oldest > 0 and after < (oldest + head) // 2

    def _loads(self, changes: TableChanges, snapshots: Sequence[int]) -> Iterator[Load]:
        files, rows = changes.files(deletes=self._changes), changes.rows(deletes=self._changes)
        for snapshot_id in snapshots:
            of_files = [_row_count(each) for each in files if each.snapshot_id == snapshot_id]
            stored = sum(each.snapshot_id == snapshot_id for each in rows)
            yield Load(snapshot_id, len(of_files), sum(of_files) + stored)

    @plainly()
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._last = connect(self._options.settings).head_snapshot_id()

    @plainly()
    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        upto = int(end["snapshot"])
        self._wait_for(upto)
        for each in (start, end):
            self._check_made(each)
        if "from" in start:
            return self._whole(upto) if start["from"] == FULL else []
        after = self._unchanged_upto(int(start["snapshot"]))
        if after >= upto:
            return []
        with self._catalog.at_once():
            return self._changed_parts(after, upto)

    def _whole(self, snapshot_id: int) -> Sequence[InputPartition]:
        scan = scan_at(self._catalog, self._table, snapshot_id)
        columns = self._columns(scan.columns, scan.table_id)
        return packed(columns, parts_of_scan(scan, columns, self._schema))

    def _changed_parts(self, after: int, upto: int) -> Sequence[InputPartition]:
        self._check_kept(after)
        table = self._table_at(upto)
        self._check_same(table, after)
        columns = self._columns(table.definition.columns, table.definition.table_id)
        changes = TableChanges(self._catalog, table, after, upto)
        parts = [self._file_part(each) for each in changes.files(deletes=self._changes)]
        parts += self._row_parts(changes.rows(deletes=self._changes), columns)
        return packed(columns, parts)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Parts)
        return partition.read(self._schema)

    def commit(self, end: Offset) -> None:
        pass

    def stop(self) -> None:
        pass

    def _newest(self) -> int:
        """The newest snapshot; Spark asks about every 13 ms, the catalog is asked less often."""
        now = time.monotonic()
        if self._head is None or now - self._head[0] > HEAD_KEPT_S:
            self._head = now, self._catalog.head_snapshot_id()
        return self._head[1]

    def _wait_for(self, snapshot_id: int) -> None:
        """Wait until the catalog holds a snapshot that a checkpoint names: one that is made anew may lack it still, and a batch
        that ends there would lack its rows.

        Raises:
            LogLossError: the log does not have it, as one that was restored from an older backup.
            CatalogBehindError: the catalog does not hold it in time.
        """
        if self._newest() >= snapshot_id:
            return
        head = connect(self._options.settings).wait_for_snapshot()
        if head < snapshot_id:
            raise LogLossError(
                f"the stream of {self._name} has gone on to snapshot {snapshot_id}, and the newest of the log is {head}: it "
                f"has lost what came after, or the checkpoint is of another log. {_BEGIN_ANOTHER}"
            )

    def _named(self, snapshot_id: int) -> dict[str, int | str]:
        """An offset there."""
        made_by = self._made_by(snapshot_id)
        found: dict[str, int | str] = {"snapshot": snapshot_id} | ({} if made_by is None else {"proposal": made_by})
        self._known = found
        return found

    def _made_by(self, snapshot_id: int) -> str | None:
        proposal_id = proposal_of(connect(self._options.settings), snapshot_id)
        return None if proposal_id is None else str(proposal_id)

    def _check_made(self, offset: Offset) -> None:
        """Raise LogLossError where the log has another snapshot under the number: one that was restored gives it once more, and
        whoever went on there would miss what came before it."""
        if "proposal" in offset and offset != self._known:
            snapshot_id = int(offset["snapshot"])
            if self._made_by(snapshot_id) != offset["proposal"]:
                raise LogLossError(
                    f"the stream of {self._name} has gone on to snapshot {snapshot_id}, which is another one in the log now: "
                    f"that was restored from a backup, or made anew. {_BEGIN_ANOTHER}"
                )
            self._known = offset

    def _table_at(self, snapshot_id: int) -> CatalogTable:
        found = self._catalog.table_at(self._name.schema, self._name.name, snapshot_id)
        if found is None:
            raise TableNotFoundError(str(self._name), snapshot_id=snapshot_id)
        return found

    def _check_kept(self, snapshot_id: int) -> None:
        try:
            self._catalog.check_snapshot(snapshot_id)
        except SnapshotNotFoundError as error:
            error.add_note(
                f"The stream of {self._name} needs it to know what came next, and snapshots are expired. {_BEGIN_ANOTHER}"
            )
            raise

    def _check_same(self, table: CatalogTable, after: int) -> None:
        """Raise ConfigurationError where the name was another table's, of which nobody would tell what came to it since."""
        before = self._catalog.table_at(self._name.schema, self._name.name, after)
        if before is not None and before.definition.table_id != table.definition.table_id:
            raise ConfigurationError(
                f"{self._name} is another table than at snapshot {after}, up to which the stream has read: that one was "
                f"dropped or renamed. {_BEGIN_ANOTHER}"
            )

    def _columns(self, known: Sequence[Column], table_id: int) -> tuple[Column, ...]:
        """The stream's columns as the end of a batch has them, or as the newest snapshot does: a query that began after an
        alteration is given the batch again that an earlier one had planned before it.

        Raises:
            DataFileError: neither has them.
            ConfigurationError: one has a name by which changes are told.
        """
        if self._changes:
            check_changes_told(known, self._table)
        try:
            return columns_of(self._schema, known, self._table)
        except DataFileError:
            now = self._table_at(self._catalog.head_snapshot_id())
            if now.definition.table_id != table_id:
                raise
            return columns_of(self._schema, now.definition.columns, self._table)

    def _file_part(self, changed: ChangedFile) -> Part:
        change = DELETE if changed.is_delete else INSERT
        return Part(rows_of_change(changed), changed.file.record_count, change, changed.snapshot_id)

    def _row_parts(self, changed: Sequence[ChangedRow], columns: Sequence[Column]) -> Iterator[Part]:
        for (snapshot_id, is_delete), group in groupby(changed, key=lambda each: (each.snapshot_id, each.is_delete)):
            rows = [each.values for each in group]
            inlined = inlined_rows(columns, self._schema, rows)
            yield Part(inlined, len(rows), DELETE if is_delete else INSERT, snapshot_id)


def _start_of(options: SourceOptions) -> int | str | None:
    given = options.text("startingSnapshot")
    if given is None or given.isdigit():
        return None if given is None else int(given)
    word = given.lower()
    if word in (LATEST, EARLIEST, FULL):
        return word
    raise ConfigurationError(
        f"the option startingSnapshot is a snapshot's id such as 42, latest, earliest or full, not {given!r}"
    )


def _row_count(changed: ChangedFile) -> int:
    """About how many rows of a file came or went."""
    return len(changed.positions) if changed.positions else changed.file.record_count - len(changed.without)
