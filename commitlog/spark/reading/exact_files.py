"""Rows of exactly the files that the catalog names.

Spark's own readers take paths, and look each of them up before they plan: by a job with a task for each file, once there are
more than a few. `ExactFiles.java` hands Spark what the catalog knows already; tasks open the delete files of what they read by
`KnownFile.java`, which they are sent. Only Spark Connect, whose driver is elsewhere, reads by paths (`listed_files`).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql import types as st
from pyspark.sql.classic.column import Column as ClassicColumn

from commitlog.spark.columns import is_default_of_rows
from commitlog.spark.janino import COMPILING, compiler, send
from commitlog.spark.reading.deleted_rows import without_deleted
from commitlog.spark.reading.listed_files import listed_rows, read_by
from commitlog.spark.reading.scan_files import FILE, POSITION, ROW_ID_START, ScanFile

_DELETED = "_commitlog_deleted"
_KNOWN = st.StructType(
    [
        st.StructField(FILE, st.LongType()),
        st.StructField(ROW_ID_START, st.LongType()),
        st.StructField(_DELETED, st.BinaryType()),
    ]
)
_WORD_BITS_LOG2 = 5
_WORD_BITS = 1 << _WORD_BITS_LOG2
_ROW_INDEX = "_tmp_metadata_row_index"
"""A column of this name Spark's reader fills with where rows stand; as `_metadata.row_index` it makes an object of each row."""
_KNOWN_FILE = "commitlog.KnownFile"
_CHUNK_BYTES = 4 * 1024 * 1024


def file_rows(spark: SparkSession, files: Sequence[ScanFile], schema: st.StructType, *, placed: bool) -> DataFrame:
    """The live rows of files as ``schema``; those that are ``placed`` with `FILE`, `POSITION` and `ROW_ID_START`."""
    if not hasattr(spark, "_jsparkSession"):
        return listed_rows(spark, files, schema, placed=placed)
    with COMPILING:
        known_file, exact_files = _compiled(spark._jvm)
        send(spark, "commitlog-known-file", {_KNOWN_FILE: known_file})
        index = exact_files.newInstance()
    session = spark._jsparkSession
    reading = session if not any(map(is_default_of_rows, schema.fields)) else _by_row(session)
    read_as = _java_schema(spark, st.StructType([*schema.fields, st.StructField(_ROW_INDEX, st.LongType())]))
    has_deleted = any(each.has_deleted for each in files)
    # Rows that are not read in columns, as those of wide tables are not, would each get a copy of the bitmap.
    all_read = st.StructType([*schema.fields, *_KNOWN.fields, st.StructField(POSITION, st.LongType())])
    in_scan = has_deleted and bool(index.isColumnar(reading, _java_schema(spark, all_read)))
    index.begin(session, _java_schema(spark, _KNOWN))
    for chunk in _chunks(files, deleted=in_scan):
        index.add(chunk)
    options = _options(spark._jvm, tuple(read_by(schema).items()))
    rows = DataFrame(index.rows(session, reading, read_as, options, not placed), spark)
    if not (placed or has_deleted):
        return rows.drop(_ROW_INDEX, *_KNOWN.names)
    rows = rows.withColumnRenamed(_ROW_INDEX, POSITION)
    if has_deleted:
        rows = rows.where(_is_live(index)) if in_scan else without_deleted(rows, files)
    return rows.drop(_DELETED) if placed else rows.drop(_DELETED, FILE, POSITION, ROW_ID_START)


@lru_cache(maxsize=1)
def _compiled(jvm: Any) -> tuple[bytes, Any]:
    """`KnownFile.java` as tasks load it, and the class of `ExactFiles.java`."""
    folder = Path(__file__).parent
    known_file = compiler(jvm, folder / "KnownFile.java")
    exact_files = compiler(jvm, folder / "ExactFiles.java", known_file.getClassLoader())
    return known_file.getBytecodes()[_KNOWN_FILE], exact_files.getClassLoader().loadClass("commitlog.ExactFiles")


def _by_row(session: Any) -> Any:
    """A session like this one that reads files row by row."""
    found = session.cloneSession()
    found.conf().set("spark.sql.parquet.enableVectorizedReader", "false")
    return found


def _java_schema(spark: SparkSession, schema: st.StructType) -> Any:
    return _data_type(spark._jvm).fromJson(schema.json())


@lru_cache(maxsize=1)
def _data_type(jvm: Any) -> Any:
    """The class, each part of whose name Py4J asks the JVM for."""
    return jvm.org.apache.spark.sql.types.DataType


@lru_cache(maxsize=2)
def _options(jvm: Any, given: tuple[tuple[str, str], ...]) -> Any:
    options = jvm.java.util.HashMap()
    for name, value in given:
        options.put(name, value)
    return options


def _chunks(files: Iterable[ScanFile], *, deleted: bool) -> Iterator[bytes]:
    """The files as `ExactFiles.add` reads them, a few at a time; with what tells their ``deleted`` rows, if that is wanted."""
    chunk = bytearray()
    for each in files:
        chunk += _sized(each.path.encode())
        chunk += struct.pack(">qq", each.file_size_bytes, each.data_file_id)
        chunk += b"\0" if each.row_id_start is None else struct.pack(">?q", True, each.row_id_start)
        chunk += _given(each.deleted.serialize() if deleted and each.deleted else None)
        chunk += _given(each.delete_file_path.encode() if deleted and each.delete_file_path is not None else None)
        if len(chunk) > _CHUNK_BYTES:
            yield bytes(chunk)
            chunk.clear()
    yield bytes(chunk)


def _given(value: bytes | None) -> bytes:
    return b"\0" if value is None else b"\1" + _sized(value)


def _sized(value: bytes) -> bytes:
    return struct.pack(">i", len(value)) + value


def _is_live(index: Any) -> Expression:
    """Whether a row's bit is not set: there may be no bitmap, or none so far."""
    is_beyond = sf.expr(f"{_DELETED} IS NULL OR {POSITION} >= octet_length({_DELETED}) * 8L")
    # As text, which costs fewer calls of Spark than expressions; each read asks this for its deleted rows.
    place = sf.expr(f"CAST(shiftright({POSITION}, {_WORD_BITS_LOG2}) * 4 AS INT)")
    bit = sf.expr(f"CAST({POSITION} & {_WORD_BITS - 1} AS INT)")
    return is_beyond | (_bit(index, sf.col(_DELETED), place, bit) == 0)


def bit_of(spark: SparkSession, bitmap: Expression, position: Expression) -> Expression:
    """The bit of a bitmap at a position, which is not beyond it; the lowest of a byte comes first."""
    with COMPILING:
        _, exact_files = _compiled(spark._jvm)
        place = (sf.shiftright(position, _WORD_BITS_LOG2) * 4).cast("int")
        bit = position.bitwiseAND(_WORD_BITS - 1).cast("int")
        return _bit(exact_files.newInstance(), bitmap, place, bit)


def _bit(index: Any, bitmap: Expression, place: Expression, bit: Expression) -> Expression:
    """A bit of the word that begins at a byte's place."""
    return sf.getbit(ClassicColumn(index.word(bitmap._jc, place._jc)), bit)
