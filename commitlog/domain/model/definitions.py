"""What a table is: columns, keys, partitioning and properties. `defining` makes a definition, `altering` another one of it.

Column ids count from 1 per table, nested fields depth first, and are never reused; they are the field ids of the Parquet files.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import ClassVar, Final, NamedTuple

from mypy_extensions import mypyc_attr

from commitlog.domain.model import InvalidCode, RowValue, Scalar
from commitlog.domain.model.record import Record
from commitlog.domain.model.types import ColumnType, fold
from commitlog.domain.model.values import shown
from commitlog.errors import InvalidChangeError

HANDLER_PREFIX = "handler:"
FOREIGN_PATHS = "foreign_paths"
"""The table property that lets files of a table lie outside of its folder."""
STATISTICS_COLUMNS = "statistics_columns"
"""The table property that says of how many columns, beside those of partition keys, the catalog has each file's statistics."""
STATISTICS_COLUMNS_DEFAULT = 32
REPLICATED = "replicated"
"""The table property that, as "false", has links between sites leave a table where it is."""
_BUCKET = re.compile(r"bucket\(([0-9]{1,9})\)")
_NO_PROPERTIES: Final[Mapping[str, str]] = {}


class EndedColumn(NamedTuple):
    """A column, the snapshot that gave it a name, and the one that took that again."""

    column_id: int
    began_at: int
    ended_at: int


def ended_columns(spans: Iterable[EndedColumn]) -> list[EndedColumn]:
    """A name's spans, which come the latest first, each from where its column got the name on: whatever else of the column
    changed meanwhile began another span."""
    found: list[EndedColumn] = []
    for span in spans:
        if found and (span.column_id, span.ended_at) == (found[-1].column_id, found[-1].began_at):
            found[-1] = found[-1]._replace(began_at=span.began_at)
        else:
            found.append(span)
    return found


@mypyc_attr(acyclic=True)
class Column(Record):
    """A column or nested field. ``initial_default`` is what files written before it was added read as."""

    __slots__ = ("children", "column_id", "comment", "default", "initial_default", "name", "nullable", "type")

    FIELDS: ClassVar[tuple[str, ...]] = (
        "column_id",
        "name",
        "type",
        "nullable",
        "default",
        "initial_default",
        "comment",
        "children",
    )

    def __init__(
        self,
        column_id: int,
        name: str,
        type: ColumnType,
        nullable: bool = True,
        default: str | None = None,
        initial_default: str | None = None,
        comment: str | None = None,
        children: tuple[Column, ...] = (),
    ) -> None:
        self.column_id: Final = column_id
        self.name: Final = name
        self.type: Final = type
        self.nullable: Final = nullable
        self.default: Final = default
        self.initial_default: Final = initial_default
        self.comment: Final = comment
        self.children: Final = children

    def walk(self) -> Iterator[Column]:
        """This column, then its nested fields, depth first."""
        yield self
        for child in self.children:
            yield from child.walk()

    def fields_by_name(self) -> dict[str, Column]:
        """The columns right below it by their folded names."""
        return {fold(child.name): child for child in self.children}


@mypyc_attr(acyclic=True)
class PartitionKey(Record):
    """One partition key by column id; ``transform`` is identity, year, month, day, hour or bucket(N)."""

    __slots__ = ("column_id", "transform")

    FIELDS: ClassVar[tuple[str, ...]] = ("column_id", "transform")

    def __init__(self, column_id: int, transform: str) -> None:
        self.column_id: Final = column_id
        self.transform: Final = transform

    @property
    def buckets(self) -> int | None:
        """How many buckets there are; None for other transforms."""
        bucket = _BUCKET.fullmatch(self.transform)
        return int(bucket[1]) if bucket else None

    def hides_bucket(self, value: Scalar) -> bool:
        """Whether there are buckets, and a file's value is none of them."""
        if self.buckets is None or value is None:
            return False
        text = str(value)
        is_number = text.isascii() and text.isdigit() and len(text) <= len(str(self.buckets))
        return not is_number or str(int(text)) != text or int(text) >= self.buckets


@mypyc_attr(acyclic=True)
class ForeignKey(Record):
    """``column_ids`` refer to ``ref_column_ids`` of table ``ref_table_id``."""

    __slots__ = ("column_ids", "ref_column_ids", "ref_table_id")

    FIELDS: ClassVar[tuple[str, ...]] = ("column_ids", "ref_table_id", "ref_column_ids")

    def __init__(self, column_ids: tuple[int, ...], ref_table_id: int, ref_column_ids: tuple[int, ...]) -> None:
        self.column_ids: Final = column_ids
        self.ref_table_id: Final = ref_table_id
        self.ref_column_ids: Final = ref_column_ids


@mypyc_attr(acyclic=True)
class TableDefinition(Record):
    """Everything about a table but its rows and files."""

    __slots__ = (
        "_by_name",
        "columns",
        "comment",
        "foreign_keys",
        "name",
        "next_column_id",
        "partition_by",
        "partition_id",
        "primary_key",
        "properties",
        "schema_id",
        "table_id",
        "unique",
    )

    FIELDS: ClassVar[tuple[str, ...]] = (
        "table_id",
        "schema_id",
        "name",
        "columns",
        "next_column_id",
        "primary_key",
        "unique",
        "foreign_keys",
        "partition_id",
        "partition_by",
        "comment",
        "properties",
    )

    def __init__(
        self,
        table_id: int,
        schema_id: int,
        name: str,
        columns: tuple[Column, ...],
        next_column_id: int,
        primary_key: tuple[int, ...] = (),
        unique: tuple[tuple[int, ...], ...] = (),
        foreign_keys: tuple[ForeignKey, ...] = (),
        partition_id: int | None = None,
        partition_by: tuple[PartitionKey, ...] = (),
        comment: str | None = None,
        properties: Mapping[str, str] = _NO_PROPERTIES,
    ) -> None:
        self.table_id: Final = table_id
        self.schema_id: Final = schema_id
        self.name: Final = name
        self.columns: Final = columns
        self.next_column_id: Final = next_column_id
        self.primary_key: Final = primary_key
        self.unique: Final = unique
        self.foreign_keys: Final = foreign_keys
        self.partition_id: Final = partition_id
        self.partition_by: Final = partition_by
        self.comment: Final = comment
        self.properties: Final = properties
        self._by_name: Mapping[str, Column] | None = None

    def unknown_buckets(self, values: Sequence[Scalar] | None) -> int:
        """How many buckets the rows of a file may be in as far as its values tell; 0 for keys of which they tell it.

        The catalog names each of them, because the stock client passes over files without the one that it looks for.
        """
        if not self.partition_by:
            return 0
        keys = enumerate(self.partition_by)
        return sum(key.buckets or 0 for at, key in keys if values is None or key.hides_bucket(values[at]))

    @property
    def keyed(self) -> bool:
        """Whether rows are judged one by one (rules.md 5)."""
        return bool(self.primary_key)

    @property
    def key_columns(self) -> set[int]:
        """The columns that are not dropped and keep their names: of the primary key, UNIQUE constraints and foreign keys."""
        return {
            *self.primary_key,
            *(column_id for ids in self.unique for column_id in ids),
            *(column_id for key in self.foreign_keys for column_id in key.column_ids),
        }

    def of_keys(self) -> TableDefinition:
        """The same table with these columns alone, which may be NULL unless they are of the primary key."""
        ids = self.key_columns
        return self.replace(
            columns=tuple(
                [
                    column.replace(nullable=column.column_id not in self.primary_key)
                    for column in self.columns
                    if column.column_id in ids
                ]
            )
        )

    @property
    def is_replicated(self) -> bool:
        """Whether links bring it to other sites, and from there (rules.md 6)."""
        return self.properties.get(REPLICATED) != "false"

    def column(self, name: str) -> Column:
        """Return the top-level column of that name, or raise InvalidChangeError naming the table's columns."""
        column = self.by_name.get(fold(name))
        if column is None:
            raise no_such_column(self.name, name, self.columns)
        return column

    @property
    def by_name(self) -> Mapping[str, Column]:
        """The top-level columns by their folded names; made once, for a wide table is asked for each of its columns."""
        by_name = self._by_name
        if by_name is None:
            by_name = self._by_name = {fold(column.name): column for column in self.columns}
        return by_name

    def with_options(
        self,
        comment: str | None,
        properties: Mapping[str, str],
        partition_by: tuple[PartitionKey, ...],
        partition_id: int | None,
    ) -> TableDefinition:
        """The same table with these instead of its own."""
        made = TableDefinition(
            self.table_id,
            self.schema_id,
            self.name,
            self.columns,
            self.next_column_id,
            self.primary_key,
            self.unique,
            self.foreign_keys,
            partition_id,
            partition_by,
            comment,
            properties,
        )
        made._by_name = self._by_name
        return made

    def index(self, by_name: Mapping[str, Column]) -> None:
        """Take the columns by their folded names from who has them at hand."""
        self._by_name = by_name

    def column_by_id(self, column_id: int) -> Column:
        """Return the top-level column with that id."""
        return next(column for column in self.columns if column.column_id == column_id)

    def names_of(self, column_ids: Iterable[int]) -> list[str]:
        """What the top-level columns with these ids are called."""
        return [self.column_by_id(column_id).name for column_id in column_ids]

    def all_columns(self) -> Iterator[Column]:
        """Every column and nested field, depth first."""
        for column in self.columns:
            yield from column.walk()


def named_leaves(table: TableDefinition) -> dict[str, Column]:
    """What holds values, by its folded path: ``a``, or ``s.x`` for a field of a struct, ``l.element``, ``m.key``, ``m.value``.

    Names have dots, too: a path that is that of two names neither.
    """

    def walk(column: Column, prefix: str) -> Iterator[tuple[str, Column]]:
        path = prefix + fold(column.name)
        if column.children:
            for child in column.children:
                yield from walk(child, path + ".")
        else:
            yield path, column

    found = [each for column in table.columns for each in walk(column, "")]
    counts = Counter([path for path, _ in found])
    return {path: leaf for path, leaf in found if counts[path] == 1}


def visible(text: str) -> str:
    """A text whose every letter can be seen: only those that cannot, or that a terminal obeys, are written out."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode("ascii") for each in text)


def quoted(text: str, length_max: int = 80) -> str:
    """A name, or what somebody else says, as it stands in a message: printable, and not longer than a line."""
    shown = visible(text)
    return shown if len(shown) <= length_max else shown[: length_max - 3] + "..."


def noun(count: int, one: str) -> str:
    """What a count is of: the word for one, or for several."""
    return one if count == 1 else f"{one}s"


def counted(count: int, one: str) -> str:
    """A number of things as it stands in a message: 1 file, 2 files."""
    return f"{count:,} {noun(count, one)}"


def quoted_value(value: RowValue) -> str:
    """A value of a row or setting, as it stands in a message: text in quotes, all else as JSON has it."""
    return repr(quoted(value)) if isinstance(value, str) else shown(value)


def no_such_value(
    table: str, column: str, value: RowValue, problem: ValueError, *, what: str = "column"
) -> InvalidChangeError:
    """What is said of a value that its column cannot have; ``what`` kind of a column that is."""
    return InvalidChangeError(
        InvalidCode.VALUE_INVALID,
        f"{what} {quoted(column)} of table {quoted(table)}: the value {quoted_value(value)} {problem}",
    )


def no_such_column(table: str, name: str, columns: Iterable[Column]) -> InvalidChangeError:
    """What is said of a name that no column of a table has."""
    known = ", ".join(column.name for column in islice(columns, 20))
    return InvalidChangeError(InvalidCode.COLUMN_UNKNOWN, f"table {table} has no column {name!r} (it has {known})")
