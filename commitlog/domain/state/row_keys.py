"""Keys, UNIQUE values and references of row images in one canonical text each, by which rows meet (rules.md 12.15)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from commitlog.domain.model import DeleteRow, InsertRow, InvalidCode, Row, RowValue, UpdateRow
from commitlog.domain.model.definitions import Column, TableDefinition, no_such_value, quoted
from commitlog.domain.model.typed_values import canonical_value, check_json_type, value_text
from commitlog.domain.model.types import INTEGER_BITS, fold
from commitlog.domain.state.rows import LOCAL, Origin, RowVersion
from commitlog.errors import InvalidChangeError

RowChange: TypeAlias = InsertRow | UpdateRow | DeleteRow
_SEPARATOR = "\x1f"
"""Stands between the parts of a composite key; no text in the log can hold it."""
SHOWN_BETWEEN = ", "
"""Stands between them as people see them."""


def canonical_text(table: TableDefinition, column_ids: tuple[int, ...], image: Mapping[str, RowValue]) -> str | None:
    """The values of some columns as one text; None when one of them is NULL."""
    parts: list[str] = []
    for column_id in column_ids:
        column = table.column_by_id(column_id)
        value = canonical_value(column.type, image[column.name])
        if value is None:
            return None
        parts.append(value_text(column.type, value))
    return _SEPARATOR.join(parts)


def key_of(table: TableDefinition, image: Mapping[str, RowValue]) -> str:
    """The canonical key of a complete image."""
    key = canonical_text(table, table.primary_key, image)
    assert key is not None, "key columns are not nullable"
    return key


def given_key(table: TableDefinition, key: Row) -> str:
    """The canonical form of a key as a change or read names it; InvalidChangeError when it is not the table's key."""
    by_name = {fold(name): value for name, value in key.items()}
    columns = [table.column_by_id(column_id) for column_id in table.primary_key]
    if len(by_name) != len(key) or by_name.keys() != {fold(column.name) for column in columns}:
        names = ", ".join(column.name for column in columns)
        raise InvalidChangeError(
            InvalidCode.KEY_INCOMPLETE, f"a key of table {quoted(table.name)} gives exactly its key columns: {names}"
        )
    image: dict[str, RowValue] = {}
    for column in columns:
        value = by_name[fold(column.name)]
        if value is None:
            raise InvalidChangeError(
                InvalidCode.NULL_NOT_ALLOWED,
                f"key column {quoted(column.name)} of table {quoted(table.name)} cannot be NULL",
            )
        try:
            check_json_type(column.type, value)
            canonical_value(column.type, value)
        except ValueError as error:
            raise no_such_value(table.name, column.name, value, error, what="key column") from None
        image[column.name] = value
    return key_of(table, image)


def key_columns(table: TableDefinition, key: str) -> dict[str, RowValue]:
    """The key columns that a canonical key is of, as a change names them: ``given_key`` of them is the key."""
    columns = [table.column_by_id(column_id) for column_id in table.primary_key]
    return {column.name: _value(column, text) for column, text in zip(columns, key.split(_SEPARATOR), strict=True)}


def _value(column: Column, text: str) -> RowValue:
    if column.type.name == "boolean":
        return text == "true"
    if column.type.name in INTEGER_BITS and -(2**63) <= int(text) < 2**63:
        return int(text)
    return text


def shown_key(key: str) -> str:
    """A canonical key, or an identity, as people see it: no two look the same, for outcomes and views name rows by it."""
    if _SEPARATOR not in key:
        return key
    return SHOWN_BETWEEN.join([_shown_part(part) for part in key.split(_SEPARATOR)])


def _shown_part(part: str) -> str:
    if "," not in part and '"' not in part:
        return part
    return '"' + part.replace('"', '""') + '"'


def unique_values(table: TableDefinition, image: Row) -> tuple[str | None, ...]:
    """What an image holds of each UNIQUE constraint."""
    return tuple([canonical_text(table, column_ids, image) for column_ids in table.unique])


def referenced_values(table: TableDefinition, image: Row) -> tuple[str | None, ...]:
    """What an image refers to by each foreign key."""
    return tuple([canonical_text(table, key.column_ids, image) for key in table.foreign_keys])


def origin_of(change: RowChange) -> Origin:
    """The node that made a row version."""
    return LOCAL if change.origin is None else Origin(change.origin.priority, change.origin.node)


def time_us_of(change: RowChange, decided_at_ms: int) -> int:
    """When a row version was made: as its change says, else when it was decided."""
    return decided_at_ms * 1000 if change.row_time_us is None else change.row_time_us


def identity_in(change: RowChange) -> str | None:
    """Which row it brings."""
    return None if isinstance(change, DeleteRow) else change.identity


def make_version(
    table: TableDefinition,
    image: Row,
    *,
    row_id: int,
    snapshot_id: int,
    time_us: int,
    origin: Origin,
    identity: str | None,
) -> RowVersion:
    """The version of a row with this complete image."""
    return RowVersion(
        row_id=row_id,
        snapshot_id=snapshot_id,
        time_us=time_us,
        origin=origin,
        unique=unique_values(table, image),
        references=referenced_values(table, image),
        image=image,
        identity=identity,
    )


def new_identity(key: str, node: str, snapshot_id: int) -> str:
    """Of a row that is no longer the first one of its key; no key of the same table reads like it."""
    return _SEPARATOR.join((key, node, str(snapshot_id)))


def provided_value(
    parent: TableDefinition, ref_column_ids: tuple[int, ...], key: str, unique: tuple[str | None, ...]
) -> str | None:
    """What a row of ``parent`` with that key and those UNIQUE values offers to references to ``ref_column_ids``."""
    return key if ref_column_ids == parent.primary_key else unique[parent.unique.index(ref_column_ids)]
