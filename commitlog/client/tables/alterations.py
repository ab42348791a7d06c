"""The steps of one ALTER_TABLE, chained: ``tx.alter("t").add_column("x", "int64").drop_column("y")``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from commitlog.client.arguments import checked_flag, checked_text, checked_text_or_none
from commitlog.client.tables.partitions import partition_specs
from commitlog.client.tables.schemas import type_name
from commitlog.client.tables.values import scalar
from commitlog.domain.model import Alteration, AlterOp, ColumnSpec, PartitionSpec, Scalar

if TYPE_CHECKING:
    from typing import Self


class TableAlteration:
    """Alterations of one table, which become one change of the transaction, in the order in which they are asked for."""

    def __init__(self, take: Callable[[Alteration], None]) -> None:
        self._take = take

    def add_column(self, name: str, type: Any, *, nullable: bool = True, default: Scalar = None) -> Self:
        """Add a column of a DuckLake, Arrow, Polars or numpy type; rows that are there read as ``default``."""
        column = ColumnSpec(
            _column(name), type_name(name, type), checked_flag("nullable", nullable), default_text(default)
        )
        return self._step(Alteration(AlterOp.ADD_COLUMN, column=column))

    def drop_column(self, name: str) -> Self:
        """Drop a column."""
        return self._step(Alteration(AlterOp.DROP_COLUMN, name=_column(name)))

    def rename_column(self, name: str, new_name: str) -> Self:
        """Rename a column; its id, by which files know it, stays."""
        return self._step(Alteration(AlterOp.RENAME_COLUMN, name=_column(name), new_name=_column(new_name)))

    def set_type(self, name: str, type: Any) -> Self:
        """Widen a column's type, to a DuckLake, Arrow, Polars or numpy one."""
        return self._step(Alteration(AlterOp.SET_TYPE, name=_column(name), type=type_name(name, type)))

    def set_nullable(self, name: str, nullable: bool) -> Self:
        """Allow or forbid NULL; that no row has one now is for the caller to know."""
        return self._step(
            Alteration(AlterOp.SET_NULLABLE, name=_column(name), nullable=checked_flag("nullable", nullable))
        )

    def set_default(self, name: str, default: Scalar) -> Self:
        """Set the value that rows get which do not say one; None removes it."""
        return self._step(Alteration(AlterOp.SET_DEFAULT, name=_column(name), default=default_text(default)))

    def set_partition_by(self, keys: Iterable[str | PartitionSpec]) -> Self:
        """Partition files to come by these keys; none ends the partitioning."""
        return self._step(Alteration(AlterOp.SET_PARTITION_BY, partition_by=partition_specs(keys)))

    def set_comment(self, comment: str | None, *, column: str | None = None) -> Self:
        """Comment the table, or one of its columns."""
        name = None if column is None else _column(column)
        return self._step(Alteration(AlterOp.SET_COMMENT, name=name, comment=checked_text_or_none("comment", comment)))

    def set_property(self, key: str, value: str | None) -> Self:
        """Set a property of the table, such as ``conflict_granularity``; None resets it."""
        checked_text("the name of a property", key)
        return self._step(
            Alteration(AlterOp.SET_PROPERTY, key=key, value=checked_text_or_none(f"property {key}", value))
        )

    def _step(self, step: Alteration) -> Self:
        self._take(step)
        return self


def _column(name: str) -> str:
    return checked_text("the name of a column", name)


def default_text(default: object) -> str | None:
    """The text of a default's literal."""
    value = scalar(default)
    if isinstance(value, bool):
        return "true" if value else "false"
    return None if value is None else str(value)
