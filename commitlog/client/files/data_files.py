"""A Parquet file as a data file of a table: what its footer says, once everything in it fits the table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from commitlog.client.files.column_statistics import column_statistics, kept
from commitlog.client.files.file_columns import FileColumns, file_columns
from commitlog.client.files.footers import Footer, read_footer
from commitlog.client.files.places import normal_path, relative_to
from commitlog.client.tables.partitions import partition_values_of
from commitlog.domain.model import BIGINT_MAX, BIGINT_MIN, ColumnStatistics, DataFile, Scalar
from commitlog.domain.model.definitions import TableDefinition, counted
from commitlog.domain.model.typed_values import canonical_value
from commitlog.domain.model.types import parse_type
from commitlog.errors import DataFileError

_TIMESTAMP = parse_type("timestamp")


def read_data_file(
    path: str | Path,
    table: TableDefinition,
    *,
    table_path: str | None,
    partition_values: Sequence[Scalar] | None = None,
    carries_row_ids: bool = False,
) -> DataFile:
    """Describe a Parquet file as a data file of a table.

    Args:
        path: a local path or an object store's URL.
        table: the table's definition.
        table_path: where the table's files are; a file below it is named relative to it.
        partition_values: in the order of the table's partition keys, after the transform; None takes those that the
            footer proves.
        carries_row_ids: whether the file may have DuckLake's own column of row ids beside the table's.

    Raises:
        DataFileError: there is no such file, it is not Parquet, or its columns do not fit the table.
    """
    place = normal_path(path)
    footer = read_footer(place)
    columns = file_columns(place, footer.metadata, table, carries_row_ids=carries_row_ids)
    statistics = _statistics(place, footer, columns, table)
    record_count = footer.metadata.num_rows
    if partition_values is None:
        partition_values = partition_values_of(table, statistics, record_count)
    shown, is_relative = relative_to(place, table_path)
    return DataFile(
        path=shown,
        path_is_relative=is_relative,
        record_count=record_count,
        file_size_bytes=footer.file_size_bytes,
        footer_size=footer.footer_size,
        statistics=kept(statistics, table),
        partition_values=None if partition_values is None else tuple(partition_values),
        name_mapping=columns.name_mapping,
    )


def _statistics(
    place: str, footer: Footer, columns: FileColumns, table: TableDefinition
) -> tuple[ColumnStatistics, ...]:
    metadata = footer.metadata
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    found: list[ColumnStatistics] = []
    for leaf, column, bounds in columns.flat:
        known = column_statistics(groups, leaf, column, bounds, metadata.num_rows)
        if known.null_count and not column.nullable:
            raise DataFileError(
                f"{place} does not fit table {table.name}: column {known.column} may not be NULL, but is in "
                f"{counted(known.null_count, 'row')} of the file"
            )
        if column.type.name == "timestamp_ns" and (beyond := [*filter(_is_beyond_ns, (known.min, known.max))]):
            raise DataFileError(
                f"{place} does not fit table {table.name}: column {known.column}: expected {column.type}, which is within the "
                f"years 1677 and 2262, found {' and '.join(map(str, beyond))}"
            )
        found.append(known)
    return tuple(found)


def _is_beyond_ns(bound: Scalar) -> bool:
    """Whether a time, as a file in a coarser unit may have it, is none that 64 bits hold in nanoseconds."""
    nanoseconds = canonical_value(_TIMESTAMP, bound)
    return isinstance(nanoseconds, int) and not BIGINT_MIN <= nanoseconds <= BIGINT_MAX
