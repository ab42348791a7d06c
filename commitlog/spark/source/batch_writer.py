"""`format("commitlog")` as a sink of batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from commitlog.client import CommitLog
from commitlog.errors import ConfigurationError, DataFileError
from commitlog.spark.connection import connect
from commitlog.spark.reading.snapshots import agreed_snapshot, columns_read_at, snapshot_of
from commitlog.spark.source.options import SourceOptions
from commitlog.spark.source.workers import keep_imports, plainly
from commitlog.spark.source.written_files import WrittenFiles, making_of, paths_of, remove_unpublished, written
from commitlog.spark.writing.column_fit import check_fit
from commitlog.spark.writing.key import Key
from commitlog.spark.writing.publish import committed_before, publish
from commitlog.spark.writing.target import target

_PARTITION_OVERWRITE = "spark.sql.sources.partitionOverwriteMode"

keep_imports()


class BatchWriter(DataSourceArrowWriter):
    """A batch write: one file a task and partition, one proposal in all.

    Mode ``overwrite`` replaces all rows that the table had at the snapshot at which the same query reads tables, and is refused
    when others came since: it must not replace what it has not seen. Rows that `read` gave were read before; the columns that
    come from there say when.
    """

    def __init__(self, options: SourceOptions, table: str, schema: StructType, *, overwrite: bool = False) -> None:
        self._options = options
        self._overwrite = overwrite
        self._follows = options.choice("onSchemaChange", "fail", "retry") == "retry"
        self._schema = schema
        log, making = connect(options.settings), making_of(options, schema)
        key = options.text("key")
        self._key = None if key is None else Key.parse(key).of_table(table)
        self._target = target(log, table, making)
        self._is_done = committed_before(log, self._key) is not None or self._is_there_already(table)
        check_fit(schema, self._target.definition, by_arrow=True)

    def _is_there_already(self, table: str) -> bool:
        """Whether the table is there, and so nothing is to be written."""
        if_exists = self._options.choice("ifExists", "append", "error", "ignore")
        if self._target.preparation.created or if_exists == "append":
            return False
        if if_exists == "error":
            raise DataFileError(f"table {table} is there already: leave out the option ifExists to write to it")
        return True

    @plainly()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        if self._overwrite:
            _refuse_dynamic_partitions()
        return WrittenFiles((), self._target, None, None) if self._is_done else written(iterator, self._target)

    @plainly()
    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        if self._is_done:
            return
        log, paths = connect(self._options.settings), paths_of(messages)
        to = replace(self._target, snapshot_id=self._base(log, messages)) if self._overwrite else self._target
        publish(log, to, paths, key=self._key, replaces=self._overwrite, follows=self._follows and not self._overwrite)

    def _base(self, log: CommitLog, messages: Sequence[WriterCommitMessage | None]) -> int:
        if self._options.is_pinned:
            read_at = snapshot_of(log, self._options.text("snapshot"), self._options.text("timestamp"))
        else:
            queries = {each.query for each in messages if isinstance(each, WrittenFiles)} - {None}
            read_at = min((agreed_snapshot(log, each) for each in queries if each), default=self._target.snapshot_id)
            by_columns = columns_read_at(self._schema, log, self._target.definition.table_id)
            read_at = read_at if by_columns is None else min(read_at, by_columns)
        # The files are written for the table as it was when the write was planned.
        return min(read_at, self._target.snapshot_id)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        remove_unpublished(messages)


def _refuse_dynamic_partitions() -> None:
    """Raise ConfigurationError where Spark is set to replace only partitions that the rows are in. Of the session's settings
    tasks alone know."""
    context = TaskContext.get()
    mode = context.getLocalProperty(_PARTITION_OVERWRITE) if context else None
    if mode is not None and mode.lower() == "dynamic":
        raise ConfigurationError(
            f"mode('overwrite') replaces all rows of the table, and {_PARTITION_OVERWRITE} is dynamic: replace partitions by "
            "commitlog.spark.table(spark, name).overwrite(df, partitions='dynamic'), or set it to static to replace all rows"
        )
