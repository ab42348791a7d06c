"""Which rows of a table came and went between two snapshots, read by tasks: each reads what changed in a few files."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StringType, StructField, StructType

from commitlog.client.reading.changes import CHANGE, ROW_ID, SNAPSHOT, RowChanges
from commitlog.spark.columns import held_columns, table_schema
from commitlog.spark.reading.arrow_rows import arrow_schema

_PART = "part"
_TASKS_MAX = 256


def row_changes(spark: SparkSession, changes: RowChanges, table: str) -> DataFrame:
    """The rows of a table that came and went, in no order; columns that Spark cannot hold are left out, with a warning."""
    head = [StructField(SNAPSHOT, LongType()), StructField(ROW_ID, LongType()), StructField(CHANGE, StringType())]
    schema = StructType([*head, *table_schema(held_columns(changes.columns, table)).fields])
    parts = [(pickle.dumps(each),) for each in changes.apart()]
    if not parts:
        return spark.createDataFrame([], schema)
    shared = spark.createDataFrame(parts, f"{_PART} binary").repartition(min(len(parts), _TASKS_MAX))
    return shared.mapInArrow(_reader(arrow_schema(schema)), schema)


def _reader(schema: pa.Schema) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for part in batch.column(_PART):
                yield from pickle.loads(part.as_py()).to_arrow().select(schema.names).cast(schema).to_batches()

    return read
