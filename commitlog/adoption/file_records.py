"""What a catalog says of a data file, as a proposal says it: bounds, partition values, the names of its columns."""

from __future__ import annotations

from commitlog.adoption.definitions import SourceColumn, SourceTable
from commitlog.adoption.files import known_counts, typed
from commitlog.adoption.source import CatalogRows, Row
from commitlog.client.tables.partitions import PARTS_OF_TIMES, is_storable, one_value
from commitlog.domain import model as m
from commitlog.domain.model.defining import check_part
from commitlog.domain.model.definitions import PartitionKey


def statistics(catalog: CatalogRows, row: Row, table: SourceTable) -> tuple[m.ColumnStatistics, ...]:
    """The bounds and counts of a data file's columns."""
    leaves = table.leaves()
    return tuple(
        m.ColumnStatistics(
            path,
            typed(kind, told["min_value"]),
            typed(kind, told["max_value"]),
            *known_counts(told["null_count"], told["value_count"], row["record_count"]),
            None if told["contains_nan"] is None else bool(told["contains_nan"]),
            told["column_size_bytes"],
        )
        for told in catalog.of_file("file_column_stats", row["data_file_id"])
        if told["column_id"] in leaves
        for path, kind in [leaves[told["column_id"]]]
    )


def partition_values(catalog: CatalogRows, row: Row, table: SourceTable) -> tuple[m.Scalar, ...] | None:
    """A data file's partition values; None when it has none of the table's partitioning, or they are not known."""
    if row["partition_id"] is None or row["partition_id"] != table.partition_id:
        return None
    columns = {column.column_id: column for column in table.columns}
    told = {
        value["partition_key_index"]: value["partition_value"]
        for value in catalog.of_file("file_partition_value", row["data_file_id"])
    }
    values: list[m.Scalar] = []
    for index, (column_id, transform) in enumerate(table.partition_by):
        column, text = columns[column_id], told.get(index)
        value = typed(column.type_name if transform == "identity" else "varchar", text)
        if text is not None and (value is None or not is_storable(value)):
            return None  # As a partition value, None would say NULL.
        if transform in PARTS_OF_TIMES and text is not None and not _can_be(text, transform):
            return None
        if transform in PARTS_OF_TIMES and (text is None or column.type_name == "timestamptz"):
            bounds = next((each for each in statistics(catalog, row, table) if each.column == column.name), None)
            if bounds is None or not _is_part(text, PartitionKey(column_id, transform), bounds, row["record_count"]):
                return None
        values.append(value)
    return tuple(values)


def _can_be(text: str, transform: str) -> bool:
    """Whether a text is a year, month, day or hour; where a lake came from another format it may count days instead."""
    try:
        check_part(transform, text)
    except ValueError:
        return False
    return True


def _is_part(text: str | None, key: PartitionKey, bounds: m.ColumnStatistics, record_count: int) -> bool:
    """Whether a file's bounds prove a part of its times: clients take it in their own time zone, and NULL of infinity."""
    if text is None:
        return bounds.null_count == record_count
    return str(one_value(key, bounds)) == text


def name_mapping(catalog: CatalogRows, row: Row, table: SourceTable) -> tuple[m.MappedColumn, ...] | None:
    """The names that a data file's columns have in it; None when they are known by their field ids."""
    if row["mapping_id"] is None:
        return None
    mapped = [each for each in catalog.rows["name_mapping"] if each["mapping_id"] == row["mapping_id"]]

    def below(parent: int | None, columns: tuple[SourceColumn, ...]) -> tuple[m.MappedColumn, ...]:
        names = {column.column_id: column for column in columns}
        return tuple(
            m.MappedColumn(
                each["source_name"],
                names[each["target_field_id"]].name,
                below(each["column_id"], names[each["target_field_id"]].children),
            )
            for each in mapped
            if each["parent_column"] == parent and each["target_field_id"] in names
        )

    return below(None, table.columns)
