"""What ALTER_TABLE makes of a table's definition, in time that grows with the steps and the columns, not with their product."""

from __future__ import annotations

from collections.abc import Iterator

from commitlog.domain.model import Alteration, AlterOp, InvalidCode
from commitlog.domain.model.defining import build_column, check_property, column_type, default_text, partition_keys
from commitlog.domain.model.definitions import (
    REPLICATED,
    Column,
    PartitionKey,
    TableDefinition,
    no_such_column,
    quoted,
)
from commitlog.domain.model.types import can_widen, fold
from commitlog.errors import InvalidChangeError

BENIGN_OPS = frozenset({AlterOp.SET_COMMENT, AlterOp.SET_DEFAULT, AlterOp.SET_PROPERTY})
"""Alterations that change no definition in the sense of rules.md 12.2, 12.20."""


def alter(
    table: TableDefinition,
    alterations: tuple[Alteration, ...],
    *,
    partition_ids: tuple[int, ...],
    came: bool = False,
) -> TableDefinition:
    """Apply alterations one after another; raise InvalidChangeError at the first that cannot be.

    ``partition_ids`` are given in order to the SET_PARTITION_BY steps that set a key. Of steps that ``came``
    from another site nothing is done by the SET_TYPE of a column that is as wide already, and by what would have links bring a
    table again.
    """
    altering = _Altering(table, iter(partition_ids), came)
    for step in alterations:
        _STEPS[step.op](altering, step)
    return altering.done()


class _Altering:
    """A definition while steps change it; its columns by id, in their order, once a step asks for them."""

    def __init__(self, table: TableDefinition, partition_ids: Iterator[int], came: bool) -> None:
        self.table = table
        self.partition_ids = partition_ids
        self.came = came
        self.next_column_id = table.next_column_id
        self._columns: dict[int, Column] | None = None
        self._ids: dict[str, int] = {}
        self._keys: set[int] | None = None

    @property
    def columns(self) -> dict[int, Column]:
        """By id."""
        return self._columns_and_ids()[0]

    @property
    def ids(self) -> dict[str, int]:
        """The columns' ids by their folded names."""
        return self._columns_and_ids()[1]

    def _columns_and_ids(self) -> tuple[dict[int, Column], dict[str, int]]:
        if self._columns is None:
            self._columns = {column.column_id: column for column in self.table.columns}
            self._ids = {folded: column.column_id for folded, column in self.table.by_name.items()}
        return self._columns, self._ids

    @property
    def keys(self) -> set[int]:
        """The columns of keys."""
        if self._keys is None:
            self._keys = self.table.key_columns
        return self._keys

    def done(self) -> TableDefinition:
        made = self.table
        if self._columns is None:
            return made
        columns = tuple(self._columns.values())
        if columns != made.columns or self.next_column_id != made.next_column_id:
            made = made.replace(columns=columns, next_column_id=self.next_column_id)
        made.index({folded: self._columns[column_id] for folded, column_id in self._ids.items()})
        return made

    def column(self, name: str | None) -> Column:
        assert name is not None
        column_id = self.ids.get(fold(name))
        if column_id is None:
            raise no_such_column(self.table.name, name, self.columns.values())
        return self.columns[column_id]

    def use_of(self, column_id: int) -> str | None:
        table = self.table
        if column_id in self.keys:
            if column_id in table.primary_key:
                return "in the primary key"
            if any(column_id in ids for ids in table.unique):
                return "in a UNIQUE constraint"
            return "in a foreign key"
        return "a partition key" if any(column_id == key.column_id for key in table.partition_by) else None


def _add_column(altering: _Altering, step: Alteration) -> None:
    assert step.column is not None
    folded = fold(step.column.name)
    if folded in altering.ids:
        raise InvalidChangeError(
            InvalidCode.COLUMN_EXISTS,
            f"table {quoted(altering.table.name)} already has a column {quoted(step.column.name)}",
        )
    column = build_column(step.column, altering.next_column_id)
    column = column.replace(initial_default=column.default)
    altering.next_column_id += sum(1 for _ in column.walk())
    altering.columns[column.column_id] = column
    altering.ids[folded] = column.column_id


def _drop_column(altering: _Altering, step: Alteration) -> None:
    column, table = altering.column(step.name), altering.table
    if len(altering.columns) == 1:
        raise InvalidChangeError(
            InvalidCode.COLUMNS_MISSING, f"column {quoted(column.name)} is the last one of table {quoted(table.name)}"
        )
    if why := altering.use_of(column.column_id):
        raise InvalidChangeError(
            InvalidCode.COLUMN_IN_USE, f"column {quoted(column.name)} of table {quoted(table.name)} is {why}"
        )
    del altering.columns[column.column_id]
    del altering.ids[fold(column.name)]


def _rename_column(altering: _Altering, step: Alteration) -> None:
    assert step.new_name is not None
    column, table = altering.column(step.name), altering.table
    if column.column_id in altering.keys:
        raise InvalidChangeError(
            InvalidCode.COLUMN_IN_USE,
            f"column {quoted(column.name)} of table {quoted(table.name)} is a key column: not renamed",
        )
    if altering.ids.get(fold(step.new_name), column.column_id) != column.column_id:
        raise InvalidChangeError(
            InvalidCode.COLUMN_EXISTS, f"table {quoted(table.name)} already has a column {quoted(step.new_name)}"
        )
    if column.name == step.new_name:
        raise InvalidChangeError(InvalidCode.COLUMN_EXISTS, f"column {quoted(column.name)} already has that name")
    del altering.ids[fold(column.name)]
    altering.ids[fold(step.new_name)] = column.column_id
    altering.columns[column.column_id] = column.replace(name=step.new_name)


def _set_type(altering: _Altering, step: Alteration) -> None:
    assert step.type is not None
    column = altering.column(step.name)
    data_type = column_type(step.type)
    if altering.came and (data_type == column.type or can_widen(data_type, column.type)):
        return
    if not can_widen(column.type, data_type):
        raise InvalidChangeError(
            InvalidCode.TYPE_NOT_WIDENED,
            f"column {quoted(column.name)} is {column.type} and cannot be widened to {data_type}",
        )
    altering.columns[column.column_id] = column.replace(type=data_type)


def _set_nullable(altering: _Altering, step: Alteration) -> None:
    assert step.nullable is not None
    column = altering.column(step.name)
    if step.nullable and column.column_id in altering.table.primary_key:
        raise InvalidChangeError(
            InvalidCode.COLUMN_IN_USE, f"column {quoted(column.name)} is in the primary key and cannot be NULL"
        )
    altering.columns[column.column_id] = column.replace(nullable=step.nullable)


def _set_default(altering: _Altering, step: Alteration) -> None:
    column = altering.column(step.name)
    default = default_text(column.name, column.type, step.default)
    altering.columns[column.column_id] = column.replace(default=default)


def _set_partition_by(altering: _Altering, step: Alteration) -> None:
    keys: tuple[PartitionKey, ...] = partition_keys(altering.column, step.partition_by)
    partition_id = next(altering.partition_ids) if keys else None
    table = altering.table
    altering.table = table.with_options(table.comment, table.properties, keys, partition_id)


def _set_comment(altering: _Altering, step: Alteration) -> None:
    if step.name is None:
        table = altering.table
        altering.table = table.with_options(step.comment, table.properties, table.partition_by, table.partition_id)
    else:
        column = altering.column(step.name)
        altering.columns[column.column_id] = column.replace(comment=step.comment)


def _set_property(altering: _Altering, step: Alteration) -> None:
    assert step.key is not None
    check_property(step.key, step.value)
    table = altering.table
    if step.key == REPLICATED and not table.is_replicated and step.value != "false":
        if altering.came:
            return
        raise InvalidChangeError(
            InvalidCode.PROPERTY_VALUE_INVALID,
            f"table {quoted(table.name)} is {REPLICATED} = false, and stays so, for links have left out what was written to it "
            "since: create another table, and insert its rows there",
        )
    properties = {key: value for key, value in table.properties.items() if key != step.key}
    if step.value is not None:
        properties[step.key] = step.value
    altering.table = table.with_options(table.comment, properties, table.partition_by, table.partition_id)


_STEPS = {
    AlterOp.ADD_COLUMN: _add_column,
    AlterOp.DROP_COLUMN: _drop_column,
    AlterOp.RENAME_COLUMN: _rename_column,
    AlterOp.SET_TYPE: _set_type,
    AlterOp.SET_NULLABLE: _set_nullable,
    AlterOp.SET_DEFAULT: _set_default,
    AlterOp.SET_PARTITION_BY: _set_partition_by,
    AlterOp.SET_COMMENT: _set_comment,
    AlterOp.SET_PROPERTY: _set_property,
}
