"""What new files say of themselves, whichever change brings them: paths, sizes, statistics, partitions (rules.md 12.31)."""

from __future__ import annotations

import re

from commitlog.domain import model as m
from commitlog.domain.deciding.plan import Plan
from commitlog.domain.model.defining import check_partition_values
from commitlog.domain.model.definitions import FOREIGN_PATHS, Column, TableDefinition, no_such_column, quoted
from commitlog.domain.model.texts import check_text
from commitlog.domain.model.types import fold
from commitlog.domain.model.values import is_bigint
from commitlog.domain.state.index import TableState
from commitlog.errors import InvalidChangeError

_NO_PARTS = frozenset({"", ".", ".."})
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_PLAIN = re.compile(r"[\w=-][\w.=-]*(?:/[\w=-][\w.=-]*)*", re.ASCII)
"""What most paths are like, and what is right about a relative one without a closer look."""


def check_data_files(plan: Plan, table: TableState, files: tuple[m.DataFile, ...]) -> int:
    """Check new data files together; return how many rows they hold."""
    plan.bounds.count_files(len(files))
    rows = size = 0
    for file in files:
        check_data_file(plan, table, file)
        rows += file.record_count
        size += file.file_size_bytes
    if not is_bigint(size + table.file_bytes):
        raise InvalidChangeError(
            m.InvalidCode.TABLE_TOO_LARGE,
            f"table {quoted(table.name)} would hold more bytes than a 64-bit number can count",
        )
    return rows


def check_data_file(plan: Plan, table: TableState, file: m.DataFile) -> None:
    """Check what a new data file says of itself, and of the table's columns."""
    check_file(plan, table, file)
    _check_told(file)
    definition = plan.names.definition(table)
    if definition is not None:
        _check_columns(definition, file)
        plan.bounds.count_bucket_values(definition.unknown_buckets(file.partition_values))


def check_file(plan: Plan, table: TableState, file: m.DataFile | m.DeleteFile) -> None:
    """Check what a file says of itself."""
    _check_path(plan, table, file)
    if file.file_size_bytes < 0:
        raise InvalidChangeError(
            m.InvalidCode.NUMBER_NEGATIVE,
            f"file {quoted(file.path)}: file_size_bytes {file.file_size_bytes} is negative",
        )
    if file.footer_size is not None and file.footer_size < 0:
        raise InvalidChangeError(
            m.InvalidCode.NUMBER_NEGATIVE, f"file {quoted(file.path)}: footer_size {file.footer_size} is negative"
        )
    if isinstance(file, m.DataFile) and file.record_count < 0:
        raise InvalidChangeError(
            m.InvalidCode.NUMBER_NEGATIVE, f"file {quoted(file.path)}: record_count {file.record_count} is negative"
        )


def _check_path(plan: Plan, table: TableState, file: m.DataFile | m.DeleteFile) -> None:
    """Whose a file is must be seen from its path, and no file may be taken twice (rules.md 12.31)."""
    path = file.path
    if not (file.path_is_relative and _PLAIN.fullmatch(path)):
        _look_closely_at_path(plan, table, file)
    plan.bounds.name_path(path)


def _look_closely_at_path(plan: Plan, table: TableState, file: m.DataFile | m.DeleteFile) -> None:
    path = file.path
    if not path:
        raise InvalidChangeError(m.InvalidCode.PATH_INVALID, "a file has an empty path")
    check_text(path, "a file's path")
    if file.path_is_relative and (_SCHEME.match(path) or any(part in _NO_PARTS for part in path.split("/"))):
        raise InvalidChangeError(
            m.InvalidCode.PATH_INVALID,
            f"file {quoted(path)}: a path is relative to its table's folder, without scheme, and without empty, . or .. parts",
        )
    if not file.path_is_relative and plan.names.newest_definition(table).properties.get(FOREIGN_PATHS) != "true":
        raise InvalidChangeError(
            m.InvalidCode.PATH_OUTSIDE_TABLE,
            f"file {quoted(path)} may lie outside of the folder of table {quoted(table.name)}: write it there and name it "
            f"relative to it, or set the table's property {FOREIGN_PATHS} to true",
        )


def _check_told(file: m.DataFile) -> None:
    """Check what a file tells of columns, whatever its table's are."""
    if isinstance(file.statistics, tuple):
        for column in file.statistics:
            _check_statistics(file, column)
    for value in file.partition_values or ():
        if isinstance(value, str):
            check_text(value, f"a partition value of file {quoted(file.path)}")
    _check_source_names(file, file.name_mapping or ())


def _check_source_names(file: m.DataFile, mapped: tuple[m.MappedColumn, ...]) -> None:
    for each in mapped:
        check_text(each.source_name, f"a source name of file {quoted(file.path)}")
        _check_source_names(file, each.children)


def _check_columns(table: TableDefinition, file: m.DataFile) -> None:
    check_partition_values(table, file)
    if file.name_mapping:
        columns = [table.column(mapped.column) for mapped in file.name_mapping]
        _check_fields(table, file, file.name_mapping, columns)


def _check_fields(
    table: TableDefinition, file: m.DataFile, mapping: tuple[m.MappedColumn, ...], columns: list[Column]
) -> None:
    """See that names are of one column each, and those below them too: a field that the column does not have would be left
    out by the catalog, and its values with it; of two that are given, each reader would take the one that it likes."""
    sources, targets = {each.source_name for each in mapping}, {column.column_id for column in columns}
    if len(sources) < len(mapping) or len(targets) < len(mapping):
        raise InvalidChangeError(
            m.InvalidCode.COLUMN_GIVEN_TWICE,
            f"file {quoted(file.path)}: its name mapping has a column of the file, or one of the table's, twice",
        )
    for mapped, column in zip(mapping, columns, strict=True):
        if not mapped.children:
            continue
        # A struct may have thousands of fields, and each file of a proposal name all of them.
        fields, found = column.fields_by_name(), []
        for each in mapped.children:
            field = fields.get(fold(each.column))
            if field is None:
                raise no_such_column(table.name, f"{column.name}.{each.column}", column.children)
            found.append(field)
        _check_fields(table, file, mapped.children, found)


def _check_statistics(file: m.DataFile, column: m.ColumnStatistics) -> None:
    for text in (column.column, column.min, column.max):
        if isinstance(text, str):
            check_text(text, f"a statistic of file {quoted(file.path)}", multiline=True)
    for count in (column.null_count, column.value_count, column.size_bytes):
        if count is not None and count < 0:
            raise InvalidChangeError(
                m.InvalidCode.NUMBER_NEGATIVE,
                f"file {quoted(file.path)}: a count of column {quoted(column.column)} is negative",
            )
