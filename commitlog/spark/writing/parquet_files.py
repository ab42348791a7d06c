"""Parquet files written by Spark's own writer, to where the lake keeps them.

Nothing is moved afterwards. Each write has a directory of its own below the table's, with a name that no other write can
have: so what a refused write leaves behind is known, and removed as one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any

import pyarrow.parquet as pq
from pyarrow import fs
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as sf

from commitlog.client.files.lake import new_name
from commitlog.client.files.places import filesystem_of
from commitlog.client.files.removing import remove_files
from commitlog.errors import DataFileError
from commitlog.spark.writing.identified_files import save

_SETTINGS = {
    # The default INT96 has no bounds in the footer.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # LEGACY are days of a calendar that no other reader takes them for.
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.fieldId.write.enabled": "true",
    "spark.sql.parquet.writeLegacyFormat": "false",
}
_NO_MARKER = ("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
_UNCOMMITTED = "_temporary"
"""Where Hadoop's committers have tasks write."""

_lock = Lock()
_writes: dict[Any, tuple[int, dict[str, str | None]]] = {}


def write_new(df: DataFrame, table_path: str, partition_by: Sequence[str] = ()) -> tuple[str, ...]:
    """Write ``df`` as `write_parquet` does, into a directory below the table's; what a failed write left is removed."""
    directory = f"{table_path.rstrip('/')}/{new_name()}"
    try:
        return write_parquet(df, directory, partition_by)
    except BaseException:
        _remove_directory(directory)
        raise


def write_parquet(df: DataFrame, directory: str, partition_by: Sequence[str] = ()) -> tuple[str, ...]:
    """Write ``df``, whose columns carry their field ids, and return the paths of the files that hold rows.

    Columns to ``partition_by`` become directories, and are in no file.

    Raises:
        DataFileError: tasks have written rows to where this process does not find them.
    """
    counted = Observation()
    is_counted = _may_be_elsewhere(df.sparkSession, directory)
    rows = df.observe(counted, sf.count(sf.lit(1)).alias("rows")) if is_counted else df
    with _as_all_read_it(df.sparkSession):
        writer = rows.write.option(*_NO_MARKER).option("compression", "snappy")
        writer = writer.partitionBy(*partition_by) if partition_by else writer
        save(writer, df.sparkSession, df.schema, directory)
    paths = sorted(_listed(directory))
    if is_counted:
        _check_all_here(paths, directory, counted.get["rows"])
    # Only Spark's first task writes a file when it has no rows, so that an empty DataFrame keeps its schema.
    if paths and _row_count(paths[0]) == 0:
        remove_files(paths[:1])
        del paths[0]
    return tuple(paths)


def _may_be_elsewhere(session: SparkSession, directory: str) -> bool:
    """Whether tasks may run on another machine than this process, and the directory be another one there.

    Rows are counted only then, for counting takes its time.
    """
    if "://" in directory and not directory.startswith("file:"):
        return False
    context = getattr(session, "sparkContext", None)
    return context is None or re.match(r"local(\[|$)", context.master) is None


def _check_all_here(paths: Sequence[str], directory: str, rows_written: int) -> None:
    found = sum(_row_count(each) for each in paths)
    if found != rows_written:
        raise DataFileError(
            f"Spark's tasks have written {rows_written:,} rows, and this process finds {found:,} of them at {directory}: the "
            "data path is a folder of each machine's own; set data_path to storage that all machines share, such as s3://"
        )


def _row_count(path: str) -> int:
    filesystem, inner = filesystem_of(path)
    with filesystem.open_input_file(inner) as file:
        return int(pq.read_metadata(file).num_rows)


def _remove_directory(directory: str) -> None:
    """Remove what one write left, if it left anything."""
    filesystem, path = filesystem_of(directory)
    if filesystem.get_file_info(path).type is not fs.FileType.NotFound:
        filesystem.delete_dir(path)


def _listed(directory: str) -> Iterator[str]:
    """The files that tasks have committed: of two that do the same one may be writing still, for which Spark does not wait."""
    filesystem, path = filesystem_of(directory)
    for each in filesystem.get_file_info(fs.FileSelector(path, recursive=True, allow_not_found=True)):
        is_committed = not each.path.startswith(f"{path}/{_UNCOMMITTED}/")
        if each.type == fs.FileType.File and each.base_name.endswith(".parquet") and is_committed:
            yield directory + each.path.removeprefix(path)


@contextmanager
def _as_all_read_it(session: SparkSession) -> Iterator[None]:
    """Files are such that every reader finds the same values in them, for the time of a write.

    The settings belong to the session and no write can bring its own, so they are put back when the last of several
    concurrent writes ends.
    """
    # Python may have several objects for one session of Spark's.
    known: Any = getattr(session, "_jsparkSession", session)
    with _lock:
        writes, before = _writes.get(known, (0, {}))
        if writes == 0:
            before = {name: session.conf.get(name, None) for name in _SETTINGS}
            for name, value in _SETTINGS.items():
                session.conf.set(name, value)
        _writes[known] = (writes + 1, before)
    try:
        yield
    finally:
        with _lock:
            writes, before = _writes.pop(known)
            if writes > 1:
                _writes[known] = (writes - 1, before)
            else:
                _put_back(session, before)


def _put_back(session: SparkSession, before: Mapping[str, str | None]) -> None:
    for name, value in before.items():
        if value is None:
            session.conf.unset(name)
        else:
            session.conf.set(name, value)
