"""Rows of keyed tables, one by one: inserted, updated, or whichever of the two they need."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any

from commitlog.client.access.contents import Contents
from commitlog.client.arguments import checked_text, shown
from commitlog.client.reading.scan import Scan
from commitlog.client.tables.arrow_schemas import exact
from commitlog.client.tables.arrow_types import to_rows
from commitlog.client.tables.missing import found_table
from commitlog.client.tables.names import TableName
from commitlog.client.tables.values import row_value, scalar
from commitlog.client.writing.rows import PlainRows, RowData, given_rows, no_dict
from commitlog.client.writing.targets import RowTransaction
from commitlog.domain.model import FilterOp, Predicate
from commitlog.domain.model.definitions import Column, TableDefinition
from commitlog.domain.model.typed_values import canonical_value
from commitlog.errors import DataFileError, InvalidRequestError


def plain_rows(data: RowData | Mapping[str, Any], changes_max: Callable[[int], int]) -> list[dict[str, Any]]:
    """Rows as dicts, from one row, or from any form in which rows come.

    Raises:
        InvalidRequestError: it is none of them, or there are more than ``changes_max``, which one commit takes.
    """
    if isinstance(data, Mapping) and not (data and all(_is_column(each) for each in data.values())):
        return [dict(data)]
    given = given_rows(data)
    if isinstance(given, PlainRows):
        given = given.one_by_one()
    if isinstance(given, list):
        check_row_count(len(given), changes_max(len(given)))
        for row in given:
            if not isinstance(row, Mapping):
                raise no_dict(row)
        return [dict(row) for row in given]
    found: list[dict[str, Any]] = []
    for piece in given.pieces:
        count = len(found) + piece.num_rows
        check_row_count(count, changes_max(count))
        found += to_rows(piece, maps_as_pydicts="strict")
    return found


def check_row_count(count: int, changes_max: int) -> None:
    """See that so many rows of a keyed table go into one commit.

    Raises:
        InvalidRequestError: they do not.
    """
    if count > changes_max:
        raise InvalidRequestError(
            f"{count:,} rows, each changed by its key, are more than the {changes_max:,} changes that a commit takes "
            "(changes_max): make it in parts, a commit for each"
        )


def _is_column(values: Any) -> bool:
    return not isinstance(values, str | bytes | bytearray | memoryview | Mapping) and hasattr(values, "__len__")


class Upsert:
    """Rows that are inserted where the table has none of their key, and else take its place.

    Args:
        name: of the table.
        rows: with the columns of its key; of a row that is there the columns that are not given stay as they are.
        contents: says which rows there are.
    """

    def __init__(self, name: TableName, rows: Sequence[Mapping[str, Any]], contents: Contents) -> None:
        self._name = name
        self._rows = rows
        self._contents = contents

    def put(self, transaction: RowTransaction) -> None:
        """Insert or update the rows as the transaction sees the table.

        Raises:
            TableNotFoundError: there is none of that name.
            DataFileError: the table has no key.
            InvalidRequestError: a row lacks a column of the key or gives one twice, or two rows have the same key.
        """
        found = found_table(self._name, transaction.base_snapshot_id, self._contents)
        table, definition = str(self._name), found.definition
        if not definition.keyed:
            raise DataFileError(
                f"table {table} has no primary key, by which a row could be known: append rows, or create it with one"
            )
        wanted = self._by_key(definition)
        there = dict(self._there(definition, wanted, transaction.base_snapshot_id))
        for key, row in wanted.items():
            if key in there:
                transaction.update_row(table, _key_part(definition, row), {**there[key], **row})
            else:
                transaction.insert_row(table, row)

    def _by_key(self, definition: TableDefinition) -> dict[tuple[Any, ...], dict[str, Any]]:
        """The rows by their keys, columns called as the table calls them."""
        wanted: dict[tuple[Any, ...], dict[str, Any]] = {}
        for given in self._rows:
            row = {
                definition.column(checked_text("the name of a column", name)).name: each for name, each in given.items()
            }
            if len(row) < len(given):
                raise InvalidRequestError(f"a row gives a column twice: {', '.join(given)}")
            key = _key_of(definition, row)
            if key in wanted:
                raise InvalidRequestError(
                    f"two rows have the key {shown(_key_part(definition, row))}: give each key once"
                )
            wanted[key] = row
        return wanted

    def _there(
        self, definition: TableDefinition, wanted: Mapping[tuple[Any, ...], Mapping[str, Any]], at: int
    ) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
        """The rows that have one of the wanted keys, by their keys."""
        keys = map(definition.column_by_id, definition.primary_key)
        # What Arrow does not hold no filter compares.
        compared = [column.name for column in keys if exact(column) == column]
        values = {name: dict.fromkeys(scalar(row[name]) for row in wanted.values()) for name in compared}
        where = [Predicate(name, FilterOp.IN, tuple(values[name])) for name in compared]
        for row in Scan(self._contents, self._name, at, where=where).images():
            if (key := _key_of(definition, row)) in wanted:
                yield key, row


def put_by_key(
    transaction: RowTransaction,
    name: TableName,
    definition: TableDefinition,
    there: Sequence[Mapping[str, Any]],
    wanted: Sequence[Mapping[str, Any]],
    changes_max: int,
) -> None:
    """Have the wanted rows in the place of those that are there: each after the one that gives up a UNIQUE value it takes.

    Raises:
        InvalidRequestError: these are more than ``changes_max`` changes, which one commit takes, or rows take such values from
            each other, which no order allows.
    """
    table = str(name)
    now = {_key_of(definition, row): row for row in there}
    then = {_key_of(definition, row): row for row in wanted}
    check_row_count(len(now | then), changes_max)
    holders = {value: key for key, row in now.items() for value in _unique_values(definition, row)}
    after = {
        key: {holders[value] for value in _unique_values(definition, then.get(key, {})) if value in holders} - {key}
        for key in now | then
    }
    try:
        ordered = list(TopologicalSorter(after).static_order())
    except CycleError as error:
        rows = ", ".join(shown(_key_part(definition, now[key])) for key in error.args[1][1:])
        raise InvalidRequestError(
            f"the rows {rows} of table {name} have exchanged UNIQUE values, which one commit cannot undo: update or "
            "delete one of them first"
        ) from None
    for key in ordered:
        if key not in then:
            transaction.delete_row(table, _key_part(definition, now[key]))
        elif key in now:
            transaction.update_row(table, _key_part(definition, now[key]), then[key])
        else:
            transaction.insert_row(table, then[key])


def _unique_values(definition: TableDefinition, row: Mapping[str, Any]) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """What a row holds by its UNIQUE constraints, with the number of each; nothing by one of which a column is NULL."""
    for number, columns in enumerate(definition.unique):
        names = definition.names_of(columns)
        if all(row.get(column) is not None for column in names):
            yield number, tuple(row[column] for column in names)


def _key_of(definition: TableDefinition, row: Mapping[str, Any]) -> tuple[Any, ...]:
    names = definition.names_of(definition.primary_key)
    lacking = [name for name in names if row.get(name) is None]
    if lacking:
        raise InvalidRequestError(
            f"a row lacks {', '.join(lacking)}, of the key of table {definition.name}: {shown(dict(row))}"
        )
    return tuple(_key_value(definition.column(name), row[name]) for name in names)


def _key_value(column: Column, value: Any) -> Any:
    try:
        return canonical_value(column.type, row_value(value))
    except (ValueError, OverflowError) as error:
        raise InvalidRequestError(f"column {column.name} ({column.type}): the value {shown(value)} {error}") from None


def _key_part(definition: TableDefinition, row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in definition.names_of(definition.primary_key)}
