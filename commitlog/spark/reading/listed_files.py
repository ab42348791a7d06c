"""Parquet files by their paths, which Spark looks up itself: for sessions whose driver is elsewhere."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from urllib.parse import unquote

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from commitlog.errors import DataFileError
from commitlog.spark.columns import DEFAULT, FIELD_ID, quoted
from commitlog.spark.reading.deleted_rows import without_deleted
from commitlog.spark.reading.scan_files import FILE, POSITION, ROW_ID_START, ScanFile

FIELD_IDS = "spark.sql.parquet.fieldId.read.enabled"
READ_BY = {
    FIELD_IDS: "true",
    # Days that are not told to be of another calendar are those that all other readers take them for.
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
    # Without some of its files a table has other rows: a merge would insert those that it does not find.
    "ignoreMissingFiles": "false",
    "ignoreCorruptFiles": "false",
}
"""How Spark reads files, whatever its session's settings are, or have become when it does."""
_WITH_FLOATS = {**READ_BY, "parquet.filter.dictionary.enabled": "false"}
_FLOAT = re.compile(r"\b(float|double)\b")
_PATH, _PATH_HASH = "_commitlog_path", "_commitlog_path_hash"
_PATTERN = re.compile(r"[][{}*?\\]")
"""What makes a path a pattern to Spark."""


def read_by(schema: st.StructType) -> Mapping[str, str]:
    """How Spark reads files of a schema: not by dictionaries of floats, in which -0.0 is another number than 0.0 to Parquet."""
    return _WITH_FLOATS if _FLOAT.search(schema.simpleString()) else READ_BY


def listed_rows(spark: SparkSession, files: Sequence[ScanFile], schema: st.StructType, *, placed: bool) -> DataFrame:
    """See `exact_files.file_rows`."""
    found = read_files(spark, [each.path for each in files], schema)
    # Ids and defaults are of these files alone: whoever writes the rows to others writes what is told of their columns, too.
    shown = [sf.col(quoted(each.name)).alias(each.name, metadata=_told(each)) for each in schema.fields]
    if not placed and not any(each.has_deleted for each in files):
        return found.select(*shown)
    known = _known(found, files).selectExpr(f"xxhash64({_PATH}) AS {_PATH_HASH}", FILE, ROW_ID_START)
    # Rows find their file by a hash, since a join by numbers takes half the time of one by text. Two of a million paths have
    # the same hash of 64 bits with odds of 1 to 30 million.
    by_path = found.selectExpr(
        "*", f"xxhash64(_metadata.file_path) AS {_PATH_HASH}", f"_metadata.row_index AS {POSITION}"
    )
    rows = by_path.join(sf.broadcast(known), _PATH_HASH)
    if any(each.has_deleted for each in files):
        rows = without_deleted(rows, files)
    return rows.select(*shown, *[FILE, POSITION, ROW_ID_START] if placed else [])


def _told(field: st.StructField) -> dict[str, object]:
    return {name: value for name, value in field.metadata.items() if name not in (FIELD_ID, DEFAULT)}


def read_files(spark: SparkSession, paths: Sequence[str], schema: st.StructType | None = None) -> DataFrame:
    """Exactly these Parquet files: Spark takes a path for a pattern, and finds none whose name it takes for hidden.

    Raises:
        DataFileError: there is one that it would leave out.
    """
    for path in paths:
        if re.match(r"[._]", name := path.rpartition("/")[2]) and "=" not in name:
            raise DataFileError(
                f"Spark leaves out files whose names begin with _ or a dot, such as {path}: read the table with another "
                "client, or write its rows to other files"
            )
    reader = spark.read.options(**READ_BY) if schema is None else spark.read.options(**read_by(schema)).schema(schema)
    return reader.parquet(*[_PATTERN.sub(r"\\\g<0>", path) for path in paths])


def _known(rows: DataFrame, files: Sequence[ScanFile]) -> DataFrame:
    """What is known of the files, each by the name that Spark gives it in the rows."""
    # The scan writes file:/ where the list of its input writes file:///.
    shown = {_plain(name): name.replace("file:///", "file:/", 1) for name in rows.inputFiles()}
    columns = {
        _PATH: pa.array([shown[_plain(each.path)] for each in files], pa.string()),
        FILE: pa.array([each.data_file_id for each in files], pa.int64()),
        ROW_ID_START: pa.array([each.row_id_start for each in files], pa.int64()),
    }
    return rows.sparkSession.createDataFrame(pa.table(columns))


def _plain(path: str) -> str:
    """A path in one form: Spark's are URLs, with escapes and a scheme for local files too."""
    scheme, separator, rest = path.partition(":/")
    if not separator:
        return path
    return "/" + unquote(rest).lstrip("/") if scheme == "file" else f"{scheme}:/{unquote(rest)}"
