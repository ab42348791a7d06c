"""Parquet files whose nested columns have all their field ids, without which a stock reader finds nothing in lists and maps.

Spark writes the ids that fields of a schema carry, and there the elements of lists, and keys and values of maps, are none.
`IdentifiedParquet.java` is Spark's own format that adds theirs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrameWriter, SparkSession
from pyspark.sql import types as st

from commitlog.client.files.file_columns import ROW_ID
from commitlog.errors import DataFileError
from commitlog.spark.columns import ELEMENT_IDS
from commitlog.spark.janino import COMPILING, compiler, send

_FORMAT = "commitlog.IdentifiedParquet"


def save(writer: DataFrameWriter, spark: SparkSession, schema: st.StructType, directory: str) -> None:
    """Write rows of a schema whose columns carry their field ids; those of plain columns need nothing but Spark's own format.

    Files that Spark Connect writes lack the ids of elements, and are mapped by name.

    Raises:
        DataFileError: the rows carry their row ids, which go by field ids alone, and Spark Connect writes them.
    """
    nested = [each.name for each in schema.fields if ELEMENT_IDS in each.metadata]
    is_classic = hasattr(spark, "_jsparkSession")
    if nested and not is_classic and ROW_ID in schema.names:
        raise DataFileError(
            f"Spark Connect writes no field ids for what is in lists and maps ({', '.join(nested)}), and rows that keep their "
            "ids need them: update, merge or compact in a session with a driver of its own, or by log.table(...), without Spark"
        )
    if not nested or not is_classic:
        writer.parquet(directory)
        return
    ids = [str(number) for each in schema.fields for number in each.metadata.get(ELEMENT_IDS, ())]
    with _known(spark):
        writer.format(_FORMAT).option(ELEMENT_IDS, " ".join(ids)).save(directory)


@contextmanager
def _known(spark: SparkSession) -> Iterator[None]:
    """This thread's Spark finds the format by its name, and tasks what they need of it."""
    jvm: Any = spark._jvm
    with COMPILING:
        classes, loader = _compiled(jvm)
        send(spark, "commitlog-identified-parquet", classes)
    thread = jvm.java.lang.Thread.currentThread()
    before = thread.getContextClassLoader()
    thread.setContextClassLoader(loader)
    try:
        yield
    finally:
        thread.setContextClassLoader(before)


@lru_cache(maxsize=1)
def _compiled(jvm: Any) -> tuple[dict[str, bytes], Any]:
    """The classes as tasks load them, and the driver's loader of them."""
    made = compiler(jvm, Path(__file__).with_name("IdentifiedParquet.java"))
    return dict(made.getBytecodes()), made.getClassLoader()
