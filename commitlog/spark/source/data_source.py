"""`format("commitlog")`: tables as a Spark data source, for Structured Streaming, SQL views and Spark Connect.

Options: `table` (`schema.table`), which `load` and `save` take too; for writing `createTable` with `partitionBy`, and
`onSchemaChange` (fail or retry, see `stream_into`); for batch
writing `key`, `mergeSchema` (see `append`) and, since Spark lets no source of Python's have its save modes error and ignore,
`ifExists` (append, error, ignore); for reading those of `TableReader` and
`TableStream`, or instead of a table `topic` = `results` (see `outcomes`); and every setting of commitlog by its name. A
streaming write is exactly once: its key is the query's id, which lives in the checkpoint, and the number of the batch, so
a batch that Spark repeats after a crash is answered with its first commit.

Spark starts a process of Python's for each step: one looks up which sources there are, one makes the source, one plans, others
read or write. So a step imports what it needs, and no other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from commitlog.errors import CommitLogError, DataFileError
from commitlog.spark.source.workers import needs_spark, plainly

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceArrowWriter,
        DataSourceReader,
        DataSourceStreamArrowWriter,
        DataSourceStreamReader,
    )


class CommitLogDataSource(DataSource):
    """Tables of a log."""

    @plainly()
    def __init__(self, options: dict[str, str]) -> None:
        from commitlog.spark.source.options import SourceOptions

        super().__init__(options)
        self._chosen = SourceOptions(options)

    @classmethod
    def name(cls) -> str:
        return "commitlog"

    @plainly()
    def schema(self) -> StructType:
        if self._chosen.follows_results:
            from commitlog.spark.source.outcomes import OUTCOMES

            schema = OUTCOMES
        else:
            from commitlog.spark.source.schemas import source_schema

            schema = source_schema(self._chosen, self._chosen.table)
        return self._chosen.kept_in(schema) if self._chosen.creates_table else schema

    @plainly()
    def reader(self, schema: StructType) -> DataSourceReader:
        chosen = self._chosen.with_kept(schema)
        if chosen.follows_results:
            from commitlog.spark.source.outcomes import OutcomesReader

            return OutcomesReader(chosen)
        from commitlog.spark.source.table_reader import TableReader

        return TableReader(chosen, chosen.table, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        try:
            return self._stream_reader(schema)
        except CommitLogError as error:
            from commitlog.spark.source.unready_stream import UnreadyStream

            return UnreadyStream(error)

    def _stream_reader(self, schema: StructType) -> DataSourceStreamReader:
        needs_spark("4.2", "readStream.format('commitlog')", "read batches, or t.changes(after) of a table's handle")
        chosen = self._chosen.with_kept(schema)
        if chosen.follows_results:
            from commitlog.spark.source.outcomes_stream import OutcomesStream

            return OutcomesStream(chosen)
        from commitlog.spark.source.table_stream import TableStream

        return TableStream(chosen, chosen.table, schema)

    @plainly()
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        from commitlog.spark.source.batch_writer import BatchWriter

        chosen = self._chosen.with_kept(schema, is_written=True)
        return BatchWriter(chosen, chosen.table, schema, overwrite=overwrite)

    @plainly()
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        if overwrite:
            raise DataFileError("a stream into commitlog appends: use outputMode('append')")
        needs_spark(
            "4.1", "writeStream.format('commitlog')", "writeStream.foreachBatch(commitlog.spark.stream_into(...))"
        )
        from commitlog.spark.source.stream_writer import StreamWriter

        chosen = self._chosen.with_kept(schema, is_written=True)
        return StreamWriter(chosen, chosen.table, schema)
