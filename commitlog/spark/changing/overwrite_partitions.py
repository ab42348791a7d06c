"""Which rows go when a table's partitions are replaced by those that a DataFrame has rows of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from pyroaring import FrozenBitMap64
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from commitlog.client import Transaction
from commitlog.client.files.removing import remove_files
from commitlog.client.tables.partitions import is_computed, partition_value
from commitlog.domain.model import DataFile, Scalar
from commitlog.domain.model.definitions import TableDefinition
from commitlog.errors import DataFileError
from commitlog.spark.changing.base import Base, only, refuse_inlined
from commitlog.spark.changing.matching import Found
from commitlog.spark.changing.row_replacement import put_delete
from commitlog.spark.reading.dataframes import with_positions
from commitlog.spark.reading.positions import positions
from commitlog.spark.writing.column_fit import fit
from commitlog.spark.writing.partitions import (
    described,
    directory_columns,
    directory_texts,
    write_rows,
)

Partition: TypeAlias = "tuple[Scalar, ...]"
_READS_MAX = 100


def put_partitions(transaction: Transaction, base: Base, df: DataFrame) -> Sequence[str]:
    """Append the rows of ``df``, and delete all rows of their partitions; returns the files that it has written.

    Raises:
        DataFileError: the table has no partitions that could be told; the message says what to do.
    """
    _check_partitions(base.definition)
    refuse_inlined(base)
    paths = write_rows(fit(df, base.definition), base.definition, base.path)
    if not paths:
        return ()
    try:
        files = described(paths, base.definition, base.path)
        whole, unknown = _files_of_partitions(base, files)
        found = _rows_of_partitions(only(base, unknown), paths) if unknown else {}
        opened = [*whole, *unknown]
        for where in _identities(base.definition, files):
            transaction.read(base.table, filter=where, files=opened)
            # They are told once, however many reads there are.
            opened = []
        delete_files = put_delete(transaction, base, Found(found, whole))
        transaction.append(base.table, files)
    except BaseException:
        remove_files(paths)
        raise
    return [*delete_files, *paths]


def _check_partitions(table: TableDefinition) -> None:
    if not table.partition_by:
        raise DataFileError(
            f"table {table.name} is not partitioned: overwrite the rows that match a filter, or all, or partition it first"
        )
    for key in table.partition_by:
        column = table.column_by_id(key.column_id)
        if not is_computed(key, column):
            raise DataFileError(
                f"Spark cannot tell a row's partition by {key.transform} of {column.name} ({column.type}): overwrite the rows "
                "that match a filter instead"
            )


def _files_of_partitions(base: Base, files: Sequence[DataFile]) -> tuple[list[int], list[int]]:
    """The data files of which all rows go, and those of which nobody knows which do: they have to be read."""
    table, scanned = base.definition, base.scan.files
    partitions = {_partition(table, file.partition_values) for file in files}
    if None in partitions:
        return [], [each.data_file_id for each in scanned]
    known = {each.data_file_id: _partition(table, each.partition_values) for each in scanned}
    whole = [file for file, partition in known.items() if partition in partitions]
    return whole, [file for file, partition in known.items() if partition is None]


def _rows_of_partitions(part: Base, paths: Sequence[str]) -> dict[int, FrozenBitMap64]:
    """By data file id the positions of the rows that are in the partitions of the files written."""
    names = directory_columns(part.definition)
    texts = part.spark.createDataFrame(
        sorted({directory_texts(path) for path in paths}), ", ".join(f"{name} string" for name in names)
    )
    rows = with_positions(part.spark, part.scan).select("*", *[value.alias(name) for name, value in names.items()])
    return positions(rows.join(sf.broadcast(texts), list(names), "left_semi"))


def _partition(table: TableDefinition, values: Sequence[Scalar] | None) -> Partition | None:
    """Partition values in the one form in which they are compared; None when they are not known."""
    if values is None:
        return None
    found: list[Scalar] = []
    for key, value in zip(table.partition_by, values, strict=True):
        try:
            data_type = table.column_by_id(key.column_id).type
            found.append(
                None
                if value is None
                else partition_value(key, data_type, str(value).lower() if data_type.name == "boolean" else str(value))
            )
        except ValueError:
            return None
    return tuple(found)


def _identities(table: TableDefinition, files: Sequence[DataFile]) -> Iterator[list[tuple[object, ...]]]:
    """The filters of what was read: the values of whole columns that partitions go by; one without any if they are many."""
    keys = [
        (i, table.column_by_id(k.column_id).name) for i, k in enumerate(table.partition_by) if k.transform == "identity"
    ]
    if not keys or any(file.partition_values is None for file in files):
        yield []
        return
    values = {tuple((file.partition_values or ())[index] for index, _ in keys) for file in files}
    if len(values) > _READS_MAX:
        yield []
        return
    for each in sorted(values, key=str):
        yield [
            (name, "is_null") if value is None else (name, "=", value)
            for (_, name), value in zip(keys, each, strict=True)
        ]
