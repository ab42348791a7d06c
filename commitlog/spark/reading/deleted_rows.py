"""Rows of files but for the deleted ones, by a join of each file with one bitmap, in which its rows look their positions up.

That is several times faster than an anti join on positions; a scan that is handed the bitmaps needs no join.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import FrozenBitMap64
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from commitlog.spark.reading.scan_files import FILE, POSITION, ScanFile

_DELETED = "_commitlog_deleted_words"
_WORD_BITS = 64
# As SQL, which is one call to Spark's JVM; as functions it would be twenty. NULL stands for a file without deleted rows, and
# for what is behind the last of them.
_IS_LIVE = f"""NOT coalesce(getbit(get({_DELETED}, CAST({POSITION} DIV {_WORD_BITS} AS INT)),
    CAST({POSITION} % {_WORD_BITS} AS INT)) = 1, false)"""


def without_deleted(rows: DataFrame, files: Sequence[ScanFile]) -> DataFrame:
    """The rows, which have ``FILE`` and ``POSITION``, but for the deleted ones."""
    deleted = [each for each in files if each.deleted]
    bitmaps = pa.table(
        {
            FILE: pa.array([each.data_file_id for each in deleted], pa.int64()),
            _DELETED: [words(each.deleted, _WORD_BITS).view("<i8") for each in deleted],
        }
    )
    joined = rows.join(sf.broadcast(rows.sparkSession.createDataFrame(bitmaps)), FILE, "left")
    return joined.where(_IS_LIVE).drop(_DELETED)


def words(positions: FrozenBitMap64, word_bits: int) -> npt.NDArray[np.uint8]:
    """A bit for each position up to the last, the lowest first, in whole words."""
    flags = np.zeros((positions.max() // word_bits + 1) * word_bits, np.uint8)
    flags[np.frombuffer(positions.to_array(), np.uint64).astype(np.int64)] = 1
    return np.packbits(flags, bitorder="little")
