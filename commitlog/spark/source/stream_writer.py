"""`format("commitlog")` as a stream's sink: it needs a Spark that gives Arrow's batches to streams' sinks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from commitlog.errors import ConfigurationError
from commitlog.spark.connection import connect
from commitlog.spark.source.options import SourceOptions
from commitlog.spark.source.workers import keep_imports, plainly
from commitlog.spark.source.written_files import WrittenFiles, making_of, paths_of, remove_unpublished, written
from commitlog.spark.writing.column_fit import check_fit
from commitlog.spark.writing.publish import publish
from commitlog.spark.writing.stream_runs import stream_key
from commitlog.spark.writing.target import create_if_missing, target

keep_imports()


class StreamWriter(DataSourceStreamArrowWriter):
    """A streaming write. Spark makes one for each batch, and another for its commit, when the table may be another than that
    which tasks have written for: files go by what it was then, and are refused if it was altered since."""

    def __init__(self, options: SourceOptions, table: str, schema: StructType) -> None:
        self._options = options
        self._follows = options.choice("onSchemaChange", "fail", "retry") == "retry"
        log = connect(options.settings)
        making = making_of(options, schema)
        if making.merge_schema:
            raise ConfigurationError("mergeSchema is for batches: alter the table before the stream brings new columns")
        if making.create:
            create_if_missing(log, table, making)
        self._target = target(log, table)
        check_fit(schema, self._target.definition, by_arrow=True)

    @plainly()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return written(iterator, self._target)

    @plainly()
    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        paths = paths_of(messages)
        if not paths:
            return
        told = next(each for each in messages if isinstance(each, WrittenFiles))
        assert told.query_id is not None, "Spark gives every streaming task its query's id"
        assert told.run_id is not None, "Spark gives every streaming task its run's job group"
        log = connect(self._options.settings)
        key = stream_key(log, told.query_id, told.run_id, told.to.definition.table_id, batchId)
        publish(log, told.to, paths, key=key, follows=self._follows)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        remove_unpublished(messages)
