"""Errors about names that nothing has, with what may have been meant, and about rows that no file has, with the way out."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any, Protocol, TypeVar

from commitlog.client.tables.names import TableName, quote_part
from commitlog.domain.model.definitions import TableDefinition
from commitlog.domain.model.types import fold
from commitlog.errors import DataFileError, InvalidRequestError, TableNotFoundError

TableT = TypeVar("TableT", covariant=True)
_SHOWN_MAX = 5
_COMPARED_MAX = 2_000


class Listed(Protocol[TableT]):
    """Which names there are at a snapshot, and the tables."""

    def schemas(self, snapshot_id: int) -> list[str]: ...

    def tables(self, snapshot_id: int) -> list[tuple[str, str, int]]: ...

    def table_at(self, schema: str, table: str, snapshot_id: int) -> TableT | None: ...

    def snapshots(self, *, limit: int | None = None) -> Sequence[Any]: ...


def found_table(name: TableName, snapshot_id: int, listed: Listed[TableT]) -> TableT:
    """A table at a snapshot.

    Raises:
        TableNotFoundError: there is none of that name.
    """
    found = listed.table_at(name.schema, name.name, snapshot_id)
    if found is None:
        raise missing_table(name, snapshot_id, listed)
    return found


def missing_table(name: TableName, snapshot_id: int, listed: Listed[Any]) -> TableNotFoundError:
    """The error for a table that is not there, or not yet."""
    newest = listed.snapshots(limit=1)[0].snapshot_id
    if newest > snapshot_id and listed.table_at(name.schema, name.name, newest) is not None:
        meant = "it was created later, or was called otherwise then: its history() says when"
        return TableNotFoundError(str(name), snapshot_id=snapshot_id, meant=meant)
    schemas = listed.schemas(snapshot_id)
    if not _has(schemas, name.schema):
        return TableNotFoundError(str(name), snapshot_id=snapshot_id, meant=_no_schema(name.schema, schemas))
    known = {str(TableName(schema, table)): fold(table) for schema, table, _ in listed.tables(snapshot_id)}
    near = [each for each, table in known.items() if table == fold(name.name)]
    close = get_close_matches(fold(name.name), _nearest(fold(name.name), {*known.values()}), n=_SHOWN_MAX)
    near += [each for each, table in known.items() if table in close]
    meant = f"did you mean {' or '.join(near[:_SHOWN_MAX])}?" if near else ""
    return TableNotFoundError(str(name), snapshot_id=snapshot_id, meant=meant)


def _nearest(name: str, others: set[str]) -> list[str]:
    """The other names, at most so many as are compared in a moment: those that stand next to it in the alphabet."""
    ordered = sorted(others - {name})
    first = max(0, bisect(ordered, name) - _COMPARED_MAX // 2)
    return ordered[first : first + _COMPARED_MAX]


def check_schema(schema: str, snapshot_id: int, listed: Listed[Any]) -> None:
    """See that a schema is there.

    Raises:
        InvalidRequestError: it is not; the message says which are.
    """
    schemas = listed.schemas(snapshot_id)
    if not _has(schemas, schema):
        raise InvalidRequestError(f"{_no_schema(schema, schemas)}: tx.create_schema({schema!r}) creates it")


def _has(schemas: Sequence[str], schema: str) -> bool:
    return fold(schema) in map(fold, schemas)


def _no_schema(schema: str, schemas: Sequence[str]) -> str:
    near = get_close_matches(fold(schema), schemas, n=_SHOWN_MAX)
    shown = [quote_part(each) for each in (*near, *sorted(set(schemas) - set(near)))]
    more = ", ..." if len(shown) > _SHOWN_MAX else ""
    return f"there is no schema {quote_part(schema)} (there is {', '.join(shown[:_SHOWN_MAX])}{more})"


def rows_by_key(name: object) -> DataFileError:
    """What is said when files of rows are to be added to a table whose rows are judged by their keys."""
    return DataFileError(
        f"table {name} has a primary key, so its rows come one by one: "
        f"log.table({str(name)!r}).upsert(rows) or .insert(rows), and tx.insert_row in a transaction"
    )


def rows_without_file(name: object, table: TableDefinition) -> DataFileError:
    """What is said when the rows of a table that are in no file are in the way."""
    if table.keyed:
        return DataFileError(f"table {name} has rows that are in no file: change them one by one, by their key")
    return DataFileError(
        f"table {name} has rows that are in no file, and no key by which these could be changed: while nobody writes it, copy "
        f"it, log.table('{name}_copy').append(log.table('{name}').scan().to_arrow(), create=True), and have the copy take its "
        f"name in one transaction, tx.drop_table('{name}'), then tx.rename_table('{name}_copy', '{table.name}'); its partition "
        "keys, defaults, NOT NULL, comments and properties are to be set again"
    )
