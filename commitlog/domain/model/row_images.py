"""Full images of rows: every column of the table, under its own name and with a value that it may have."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite

from commitlog.domain.model import InvalidCode, RowValue
from commitlog.domain.model.defining import default_value
from commitlog.domain.model.definitions import TableDefinition, no_such_value, quoted
from commitlog.domain.model.nested_text import check_nested_text
from commitlog.domain.model.typed_values import (
    canonical_value,
    check_float_digits,
    check_json_type,
    check_second_digits,
)
from commitlog.domain.model.types import ColumnType, fold
from commitlog.domain.model.values import is_bigint
from commitlog.errors import InvalidChangeError


def conformed_row(table: TableDefinition, row: Mapping[str, RowValue]) -> dict[str, RowValue]:
    """The full image of a row that was made before the table was altered: without columns that are gone."""
    names = {fold(column.name) for column in table.columns}
    return complete_row(table, {name: value for name, value in row.items() if fold(name) in names}, made_before=True)


def altered_row(before: TableDefinition, after: TableDefinition, row: Mapping[str, RowValue]) -> dict[str, RowValue]:
    """The full image, once its table was altered, of a row that was made before that."""
    names = {column.column_id: column.name for column in after.columns}
    called = {fold(column.name): names.get(column.column_id) for column in before.columns}
    named = [(called.get(fold(name)), value) for name, value in row.items()]
    return conformed_row(after, {name: value for name, value in named if name is not None})


def default_in_row(data_type: ColumnType, default: str) -> RowValue:
    """The value of a default as a row holds it: integers beyond 64 bits, and what is no number in JSON, as text."""
    value = default_value(data_type, default)
    if isinstance(value, int) and not is_bigint(value):
        return default
    return default if isinstance(value, float) and not isfinite(value) else value


def complete_row(
    table: TableDefinition, row: Mapping[str, RowValue], *, made_before: bool = False
) -> dict[str, RowValue]:
    """Return the full image under the table's own column names: missing columns are NULL or their default.

    made_before: what it lacks was added after it was made, so that it reads as in any older row (``initial_default``).

    Raises InvalidChangeError for an unknown column, one given twice, a value of another type, or NULL where none may be.
    """
    given: dict[str, RowValue] = {}
    by_name = {column.name: column for column in table.columns}
    for name, value in row.items():
        column = by_name.get(name) or table.column(name)
        if column.name in given:
            raise InvalidChangeError(
                InvalidCode.COLUMN_GIVEN_TWICE,
                f"a row of table {quoted(table.name)} gives column {quoted(column.name)} twice",
            )
        given[column.name] = value
    full: dict[str, RowValue] = {}
    for column in table.columns:
        value = given.get(column.name)
        default = column.initial_default if made_before else column.default
        if column.name not in given and default is not None:
            value = default_in_row(column.type, default)
        if value is None and not column.nullable:
            lacks = (
                "" if column.name in given else ", and the row does not give it: a row is given with all its columns"
            )
            raise InvalidChangeError(
                InvalidCode.NULL_NOT_ALLOWED,
                f"column {quoted(column.name)} of table {quoted(table.name)} may not be NULL{lacks}",
            )
        try:
            if column.name in given:
                check_json_type(column.type, value)
            canonical_value(column.type, value)
            check_second_digits(column.type, value)
            check_nested_text(column.type, value)
        except ValueError as error:
            raise no_such_value(table.name, column.name, value, error) from None
        full[column.name] = value
    return full


def check_numbers(table: TableDefinition, values: Mapping[str, RowValue]) -> None:
    """Raise InvalidChangeError for a number in a row, or key, that may stand for several decimals of its column.

    It is asked of what a writer gives, not of rows that are kept or come from another site: a column that was widened since
    has more such decimals.
    """
    for name, value in values.items():
        if isinstance(value, float | list | dict):
            column = table.column(name)
            try:
                check_float_digits(column.type, value)
            except ValueError as error:
                raise no_such_value(table.name, column.name, value, error) from None
