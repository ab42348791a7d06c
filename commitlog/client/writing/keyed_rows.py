"""Rows of keyed tables, one by one: inserted, updated, or whichever of the two they need."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any, TypeAlias

from commitlog.client.access.contents import Contents
from commitlog.client.arguments import checked_text, shown
from commitlog.client.reading.scan import Scan
from commitlog.client.tables.arrow_schemas import exact
from commitlog.client.tables.arrow_types import to_rows
from commitlog.client.tables.missing import found_table
from commitlog.client.tables.names import TableName
from commitlog.client.tables.values import in_form, row_value
from commitlog.client.writing.rows import PlainRows, RowData, given_rows, no_dict
from commitlog.client.writing.targets import RowTransaction
from commitlog.domain.model import FilterOp, Predicate
from commitlog.domain.model.definitions import Column, ForeignKey, TableDefinition
from commitlog.domain.model.typed_values import canonical_value
from commitlog.errors import DataFileError, InvalidRequestError

RowBeforeAfter: TypeAlias = tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]
"""A row as it was and as it is; None where it came, or went."""


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
        compared = [column for column in keys if exact(column) == column]
        where = [
            Predicate(
                each.name,
                FilterOp.IN,
                tuple(dict.fromkeys(_key_scalar(each, row[each.name]) for row in wanted.values())),
            )
            for each in compared
        ]
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
    """Have the wanted rows in the place of those that are there, in an order in which each change may be made.

    Raises:
        InvalidRequestError: these are more than ``changes_max`` changes, which one commit takes, or there is no such order.
    """
    table = str(name)
    now = {_key_of(definition, row): row for row in there}
    then = {_key_of(definition, row): row for row in wanted}
    changes = [(now.get(key), then.get(key)) for key in {**now, **then}]
    check_row_count(len(changes), changes_max)
    try:
        ordered = in_order(definition, changes)
    except CycleError as error:
        met = [row for at in error.args[1][1:] for row in changes[at] if row is not None]
        rows = ", ".join(dict.fromkeys(shown(_key_part(definition, row)) for row in met))
        raise InvalidRequestError(
            f"the rows {rows} of table {name} have exchanged UNIQUE values or refer to each other, which one commit cannot "
            "undo: change one of them first, by a commit of its own"
        ) from None
    for was, row in ordered:
        if row is None:
            assert was is not None
            transaction.delete_row(table, _key_part(definition, was))
        elif was is not None:
            transaction.update_row(table, _key_part(definition, was), row)
        else:
            transaction.insert_row(table, row)


def in_order(definition: TableDefinition, changes: Sequence[RowBeforeAfter]) -> list[RowBeforeAfter]:
    """Changes of a table's rows, as `in_order_of_all` has those of several."""
    return [change for _, change in in_order_of_all([(definition, changes)])]


def in_order_of_all(
    tables: Sequence[tuple[TableDefinition, Sequence[RowBeforeAfter]]], *, as_far_as_possible: bool = False
) -> list[tuple[int, RowBeforeAfter]]:
    """Changes of rows of tables, with the place of the table of each, each after those without which it cannot be made: which
    give up a UNIQUE value that it takes, which make what it refers to, and which refer to what it ends.

    Args:
        tables: with their changes.
        as_far_as_possible: where there is no such order, those that have one come first, then some that wait for each other,
            and then all others.

    Raises:
        CycleError: there is no such order; its second argument has the places of changes that wait for each other.
    """
    all_changes = [(place, change) for place, (_, changes) in enumerate(tables) for change in changes]
    before = _before_each([definition for definition, _ in tables], all_changes)
    sorter, cycle = TopologicalSorter(before), []
    try:
        sorter.prepare()
    except CycleError as error:
        if not as_far_as_possible:
            raise
        cycle = error.args[1]
    ordered: list[int] = []
    while ready := sorter.get_ready():
        ordered += ready
        sorter.done(*ready)
    return [all_changes[at] for at in dict.fromkeys([*ordered, *cycle, *before])]


def _before_each(
    definitions: Sequence[TableDefinition], changes: Sequence[tuple[int, RowBeforeAfter]]
) -> dict[int, set[int]]:
    """By place of each change the places of those that have to be made before."""
    now: list[dict[int, Mapping[str, Any]]] = [{} for _ in definitions]
    then: list[dict[int, Mapping[str, Any]]] = [{} for _ in definitions]
    for at, (place, (was, row)) in enumerate(changes):
        if was is not None:
            now[place][at] = was
        if row is not None:
            then[place][at] = row
    before: dict[int, set[int]] = {at: set() for at in range(len(changes))}
    places = {definition.table_id: place for place, definition in enumerate(definitions)}
    for place, definition in enumerate(definitions):
        holders = {value: at for at, row in now[place].items() for value in _unique_values(definition, row)}
        for at, row in then[place].items():
            before[at] |= {holders[value] for value in _unique_values(definition, row) if value in holders} - {at}
        for reference in definition.foreign_keys:
            target = places.get(reference.ref_table_id)
            if target is None:
                continue
            names = definition.names_of(reference.column_ids)
            ref_names = definitions[target].names_of(reference.ref_column_ids)
            for parent, child in _only_here(then[place], then[target], now[target], names, ref_names):
                before[child].add(parent)
            for parent, child in _only_here(now[place], now[target], then[target], names, ref_names):
                before[parent].add(child)
    return before


def _only_here(
    children: Mapping[int, Mapping[str, Any]],
    parents: Mapping[int, Mapping[str, Any]],
    otherwise: Mapping[int, Mapping[str, Any]],
    names: Sequence[str],
    ref_names: Sequence[str],
) -> Iterator[tuple[int, int]]:
    """Places of changes, of a parent and of a child that refers to it, where the parent offers that value on one side only.

    Rows are by the place of their change: ``children`` and ``parents`` before all changes or after them, ``otherwise`` the
    parents on the other side.
    """
    offering = {_values(row, ref_names): at for at, row in parents.items()}
    for at, row in children.items():
        value = _values(row, names)
        parent = at if value is None else offering.get(value, at)
        if parent != at and _values(otherwise.get(parent, {}), ref_names) != value:
            yield parent, at


def own_references(definition: TableDefinition) -> list[ForeignKey]:
    """The foreign keys by which rows of a table refer to others of it."""
    return [each for each in definition.foreign_keys if each.ref_table_id == definition.table_id]


def _values(row: Mapping[str, Any], names: Sequence[str]) -> tuple[Any, ...] | None:
    """The values of some columns; None where one of them is NULL."""
    found = tuple([row.get(name) for name in names])
    return None if None in found else found


def _unique_values(definition: TableDefinition, row: Mapping[str, Any]) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """What a row holds by its UNIQUE constraints, with the number of each; nothing by one of which a column is NULL."""
    for number, columns in enumerate(definition.unique):
        values = _values(row, definition.names_of(columns))
        if values is not None:
            yield number, values


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
        return canonical_value(column.type, _key_scalar(column, value))
    except (ValueError, OverflowError) as error:
        raise InvalidRequestError(f"column {column.name} ({column.type}): the value {shown(value)} {error}") from None


def _key_scalar(column: Column, value: Any) -> Any:
    return in_form(column.type, row_value(value))


def _key_part(definition: TableDefinition, row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in definition.names_of(definition.primary_key)}
