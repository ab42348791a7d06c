"""Rows of files but for the deleted ones, by a join of each file with one bitmap, in which its rows look their positions up.

That is several times faster than an anti join on positions; a scan whose tasks make the bitmaps needs no join.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from commitlog.client.reading.rows_of_file import numbers
from commitlog.spark.reading.scan_files import FILE, POSITION, ScanFile

_DELETED = "_commitlog_deleted_words"
_WORD_BITS = 64
_DELETE_FILE_READERS = 8
# As SQL, which is one call to Spark's JVM; as functions it would be twenty. NULL stands for a file without deleted rows, and
# for what is behind the last of them.
_IS_LIVE = f"""NOT coalesce(getbit(get({_DELETED}, CAST({POSITION} DIV {_WORD_BITS} AS INT)),
    CAST({POSITION} % {_WORD_BITS} AS INT)) = 1, false)"""


def without_deleted(rows: DataFrame, files: Sequence[ScanFile]) -> DataFrame:
    """The rows, which have ``FILE`` and ``POSITION``, but for the deleted ones."""
    deleted = [each for each in files if each.has_deleted]
    with ThreadPoolExecutor(_DELETE_FILE_READERS) as pool:
        bitmaps = list(pool.map(_words, deleted))
    known = pa.table({FILE: pa.array([each.data_file_id for each in deleted], pa.int64()), _DELETED: bitmaps})
    joined = rows.join(sf.broadcast(rows.sparkSession.createDataFrame(known)), FILE, "left")
    return joined.where(_IS_LIVE).drop(_DELETED)


def _words(file: ScanFile) -> npt.NDArray[np.int64]:
    """A bit for each position up to the last deleted one, the lowest first, in whole words."""
    positions = file.deleted | file.in_delete_file()
    flags = np.zeros((positions.max() // _WORD_BITS + 1) * _WORD_BITS, np.uint8)
    flags[numbers(positions)] = 1
    return np.packbits(flags, bitorder="little").view("<i8")
