"""`format("commitlog")` as a source of a table at a snapshot.

Python reads the files here, so `commitlog.spark.read` is the faster way to read a large table at once; this one is for
SQL views and Spark Connect.

Spark plans a source once, and runs that plan in every query of the same view or DataFrame. So a plan only says what the
table was like then: the tasks of each query agree on the snapshot that it reads, which is the newest at its start.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any
from uuid import uuid4

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from commitlog.client import CommitLog
from commitlog.spark.connection import catalog_of, connect, connect_by, for_tasks, settings_of
from commitlog.spark.reading.scan import scan_at
from commitlog.spark.reading.snapshots import agreed_snapshot, query_of_task, snapshot_of
from commitlog.spark.source.options import SourceOptions
from commitlog.spark.source.parts import Parts, columns_of, packed, parts_of_scan
from commitlog.spark.source.workers import keep_imports, plainly

TASKS_MIN = 4
"""How many tasks read a table at least: it may have grown when the plan is run again."""

keep_imports()


class Share(InputPartition):
    """What one of ``count`` tasks reads: as planned at a snapshot, or its share of the table at another one."""

    def __init__(self, snapshot_id: int, number: int, count: int, planned: Parts) -> None:
        super().__init__(number)
        self.snapshot_id = snapshot_id
        self.number = number
        self.count = count
        self.planned = planned


class TableReader(DataSourceReader):
    """A table: as of the option `snapshot` (an id) or `timestamp`, or, without, as of each query's own start."""

    def __init__(self, options: SourceOptions, table: str, schema: StructType) -> None:
        self._options = options
        self._table = table
        self._schema = schema
        self._plan_id = str(uuid4())
        self._settings = settings_of(connect(options.settings))

    def __getstate__(self) -> dict[str, Any]:
        """What tasks get: they ask the log and its catalog which snapshot their query reads, unless one was named."""
        needed = None if self._options.is_pinned else for_tasks(self._settings, catalog=True)
        return {**vars(self), "_options": None, "_settings": needed}

    @plainly()
    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        log = connect_by(self._settings)
        snapshot_id = snapshot_of(log, options.text("snapshot"), options.text("timestamp"))
        planned = list(_plan(log, self._table, self._schema.json(), snapshot_id))
        if options.is_pinned:
            return planned
        planned += [Parts(planned[0].columns, ())] * (TASKS_MIN - len(planned))
        return [Share(snapshot_id, number, len(planned), each) for number, each in enumerate(planned)]

    @plainly()
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
    columns = columns_of(schema, scan.columns, table)
    return tuple(packed(columns, parts_of_scan(scan, columns, schema))) or (Parts(columns, ()),)
