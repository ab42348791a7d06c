"""What tasks that write by `format("commitlog")` make and tell, for batches and streams alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from uuid import uuid4

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType

from commitlog.client.files.removing import remove_files
from commitlog.spark.reading.snapshots import query_of_task
from commitlog.spark.source.options import SourceOptions
from commitlog.spark.writing.arrow_files import write_batches
from commitlog.spark.writing.key import QUERY_ID, RUN_ID
from commitlog.spark.writing.target import Making, Target


@dataclass
class WrittenFiles(WriterCommitMessage):
    """What one task wrote, for which table as it was then, for which streaming query and run of it, and in which query of
    Spark's."""

    paths: tuple[str, ...]
    to: Target
    query_id: str | None
    run_id: str | None
    query: str | None = None


def making_of(options: SourceOptions, schema: StructType) -> Making:
    return Making(schema, options.flag("createTable"), options.partition_by, options.flag("mergeSchema"))


def written(batches: Iterator[pa.RecordBatch], to: Target) -> WrittenFiles:
    context = TaskContext.get()
    query_id, run_id = (context.getLocalProperty(name) if context else None for name in (QUERY_ID, RUN_ID))
    query = query_of_task(str(uuid4())) if context else None
    return WrittenFiles(write_batches(batches, to.definition, to.path), to, query_id, run_id, query)


def paths_of(messages: Sequence[WriterCommitMessage | None]) -> list[str]:
    return [path for each in messages if isinstance(each, WrittenFiles) for path in each.paths]


def remove_unpublished(messages: Sequence[WriterCommitMessage | None]) -> None:
    """Spark also aborts after a commit that raised, and then the proposal may still be accepted. Only when a task has
    failed, whose message is missing, was there no commit."""
    if any(each is None for each in messages):
        remove_files(paths_of(messages))
