"""`format("commitlog")`: tables as a Spark data source, for Structured Streaming, SQL views and Spark Connect.

Options: `table` (`schema.table`), which `load` and `save` take too; for writing `createTable` with `partitionBy`, and
`onSchemaChange` (fail or retry, see `stream_into`); for batch
writing `key`, `mergeSchema` (see `append`) and, since Spark lets no source of Python's have its save modes error and ignore,
`ifExists` (append, error, ignore); for reading those of `TableReader` and
`TableStream`, or instead of a table `topic` = `results` (see `outcomes`); and every setting of commitlog by its name. A
streaming write is exactly once: its key is the query's id, which lives in the checkpoint, and the number of the batch, so
a batch that Spark repeats after a crash is answered with its first commit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from uuid import uuid4

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from commitlog.client import CommitLog
from commitlog.client.files.removing import remove_files
from commitlog.errors import ConfigurationError, DataFileError
from commitlog.spark.connection import connect
from commitlog.spark.reading.scan import snapshot_of
from commitlog.spark.reading.snapshots import agreed_snapshot, columns_read_at, query_of_task
from commitlog.spark.source.options import SourceOptions
from commitlog.spark.source.outcomes import OUTCOMES, OutcomesReader, OutcomesStream
from commitlog.spark.source.table_reader import TableReader, source_schema
from commitlog.spark.source.table_stream import TableStream
from commitlog.spark.source.workers import keep_imports, plainly
from commitlog.spark.writing.arrow_files import write_batches
from commitlog.spark.writing.column_fit import check_fit
from commitlog.spark.writing.key import QUERY_ID, RUN_ID, Key
from commitlog.spark.writing.publish import committed_before, publish
from commitlog.spark.writing.stream_runs import stream_key
from commitlog.spark.writing.target import Making, Target, create_if_missing, target

_PARTITION_OVERWRITE = "spark.sql.sources.partitionOverwriteMode"

# Every worker that has to do with the source imports this module.
keep_imports()


@dataclass
class WrittenFiles(WriterCommitMessage):
    """What one task wrote, for which streaming query and run of it, and in which query of Spark's."""

    paths: tuple[str, ...]
    query_id: str | None
    run_id: str | None
    query: str | None = None


class CommitLogDataSource(DataSource):
    """Tables of a log."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self._chosen = SourceOptions(options)

    @classmethod
    def name(cls) -> str:
        return "commitlog"

    @plainly
    def schema(self) -> StructType:
        schema = OUTCOMES if _follows_results(self._chosen) else source_schema(self._chosen, _table(self._chosen))
        return self._chosen.kept_in(schema) if self._chosen.creates_table else schema

    @plainly
    def reader(self, schema: StructType) -> DataSourceReader:
        chosen = self._chosen.with_kept(schema)
        return OutcomesReader(chosen) if _follows_results(chosen) else TableReader(chosen, _table(chosen), schema)

    @plainly
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        chosen = self._chosen.with_kept(schema)
        return OutcomesStream(chosen) if _follows_results(chosen) else TableStream(chosen, _table(chosen), schema)

    @plainly
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        chosen = self._chosen.with_kept(schema)
        return BatchWriter(chosen, _table(chosen), schema, overwrite=overwrite)

    @plainly
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        if overwrite:
            raise DataFileError("a stream into commitlog appends: use outputMode('append')")
        chosen = self._chosen.with_kept(schema)
        return StreamWriter(chosen, _table(chosen), schema)


def _follows_results(chosen: SourceOptions) -> bool:
    topic = chosen.text("topic")
    if topic not in (None, "results"):
        raise ConfigurationError(f"the option topic is results, or the option table is given; not {topic!r}")
    return topic is not None


def _table(chosen: SourceOptions) -> str:
    return chosen.table


def _making(options: SourceOptions, schema: StructType) -> Making:
    return Making(schema, options.flag("createTable"), options.partition_by, options.flag("mergeSchema"))


class BatchWriter(DataSourceArrowWriter):
    """A batch write: one file a task and partition, one proposal in all.

    Mode ``overwrite`` replaces all rows that the table had at the snapshot at which the same query reads tables, so what it
    has not seen is not replaced by what it has: the write is refused when others came in between. Rows that `read` gave were
    read before; the columns that come from there say when.
    """

    def __init__(self, options: SourceOptions, table: str, schema: StructType, *, overwrite: bool = False) -> None:
        self._options = options
        self._overwrite = overwrite
        self._follows = options.choice("onSchemaChange", "fail", "retry") == "retry"
        self._schema = schema
        log, making = connect(options.settings), _making(options, schema)
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

    @plainly
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        if self._overwrite:
            _refuse_dynamic_partitions()
        return WrittenFiles((), None, None) if self._is_done else _write(iterator, self._target)

    @plainly
    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        if self._is_done:
            return
        log, paths = connect(self._options.settings), _paths(messages)
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
        _remove_unpublished(messages)


class StreamWriter(DataSourceStreamArrowWriter):
    """A streaming write. Spark makes one for each batch, and another for its commit."""

    def __init__(self, options: SourceOptions, table: str, schema: StructType) -> None:
        self._options = options
        self._follows = options.choice("onSchemaChange", "fail", "retry") == "retry"
        log = connect(options.settings)
        making = _making(options, schema)
        if making.merge_schema:
            raise ConfigurationError("mergeSchema is for batches: alter the table before the stream brings new columns")
        if making.create:
            create_if_missing(log, table, making)
        self._target = target(log, table)
        check_fit(schema, self._target.definition, by_arrow=True)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return _write(iterator, self._target)

    @plainly
    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        paths = _paths(messages)
        if not paths:
            return
        told = next(each for each in messages if isinstance(each, WrittenFiles))
        assert told.query_id is not None, "Spark gives every streaming task its query's id"
        assert told.run_id is not None, "Spark gives every streaming task its run's job group"
        log = connect(self._options.settings)
        key = stream_key(log, told.query_id, told.run_id, self._target.definition.table_id, batchId)
        publish(log, self._target, paths, key=key, follows=self._follows)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        _remove_unpublished(messages)


def _write(batches: Iterator[pa.RecordBatch], to: Target) -> WrittenFiles:
    context = TaskContext.get()
    query_id, run_id = (context.getLocalProperty(name) if context else None for name in (QUERY_ID, RUN_ID))
    query = query_of_task(str(uuid4())) if context else None
    return WrittenFiles(write_batches(batches, to.definition, to.path), query_id, run_id, query)


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


def _paths(messages: Sequence[WriterCommitMessage | None]) -> list[str]:
    return [path for each in messages if isinstance(each, WrittenFiles) for path in each.paths]


def _remove_unpublished(messages: Sequence[WriterCommitMessage | None]) -> None:
    """Spark also aborts after a commit that raised, and then the proposal may still be accepted. Only when a task has
    failed, whose message is missing, was there no commit."""
    if any(each is None for each in messages):
        remove_files(_paths(messages))
