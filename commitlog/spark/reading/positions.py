"""Where rows stand, as one bitmap for each file: tasks make words of them, and the driver never has a number for each row."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import FrozenBitMap64
from pyspark.sql import DataFrame, GroupedData
from pyspark.sql import functions as sf

from commitlog.client.reading.rows_of_file import bitmap
from commitlog.spark.reading.scan_files import FILE, POSITION

_WORD_BITS = 64
_WORDS_AT_ONCE = 1_000_000
_INDEX, _WORD, _IS_REPEATED = "_commitlog_index", "_commitlog_word", "_commitlog_is_repeated"


def positions(rows: DataFrame) -> dict[int, FrozenBitMap64]:
    """Where the rows of ``with_positions``, perhaps filtered, stand: positions by data file id."""
    return _by_file(_words(rows).agg(sf.bit_or(_WORD)).toArrow())


def positions_and_repeated(rows: DataFrame) -> tuple[dict[int, FrozenBitMap64], frozenset[int]]:
    """The `positions`, and the data files of which a row is there more than once."""
    bits = sf.bit_or(_WORD)
    found = _words(rows).agg(bits, (sf.count("*") > sf.bit_count(bits)).alias(_IS_REPEATED)).toArrow()
    repeated = found.filter(found[_IS_REPEATED])[FILE].unique().to_pylist()
    return _by_file(found.drop_columns(_IS_REPEATED)), frozenset(repeated)


def _words(rows: DataFrame) -> GroupedData:
    bit = f"shiftleft(1L, CAST({POSITION} % {_WORD_BITS} AS INT))"
    words = rows.selectExpr(FILE, f"CAST({POSITION} DIV {_WORD_BITS} AS INT) AS {_INDEX}", f"{bit} AS {_WORD}")
    return words.groupBy(FILE, _INDEX)


def _by_file(found: pa.Table) -> dict[int, FrozenBitMap64]:
    files, indices, values = (column.to_numpy() for column in found.columns)
    order = np.lexsort((indices, files))
    files, indices, values = files[order], indices[order].astype(np.int64), values[order]
    ids, starts = np.unique(files, return_index=True)
    return {
        int(file): bitmap(np.concatenate([*_set_bits(indices[start:end], values[start:end])]))
        for file, (start, end) in zip(ids, pairwise([*starts, len(files)]), strict=True)
    }


def _set_bits(indices: npt.NDArray[np.int64], words: npt.NDArray[np.int64]) -> Iterator[npt.NDArray[np.int64]]:
    """The places of the bits that are set, a part of the words at a time."""
    for start in range(0, len(words), _WORDS_AT_ONCE):
        part = slice(start, start + _WORDS_AT_ONCE)
        bits = np.unpackbits(words[part].astype("<i8").view(np.uint8).reshape(-1, 8), axis=1, bitorder="little")
        at, bit = np.nonzero(bits)
        yield indices[part][at] * _WORD_BITS + bit
