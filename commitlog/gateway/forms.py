"""The forms of the statements in a commit's text of DuckLake 1.0, as duckdb 1.5.5 sends them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from commitlog.catalog.tables import DUCKLAKE_COLUMNS

# Possessive, so that a literal is read in one way only and in time that grows with its length.
_TEXT = r"'(?:[^'\x00]|'')*+'"
_NUMBER = r"(?:0|-?[1-9][0-9]{0,17})"
_ID = r"(?:0|[1-9][0-9]{0,17})"
_IDS = rf"{_ID}(?:, ?{_ID})*+"
_NAME = r'"(?:[^"\x00]|"")++"'
_UUID = r"'[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}'"
_LITERALS = {"i": _NUMBER, "s": _TEXT, "u": _UUID, "b": "true|false", "t": r"NOW\(\)"}


def _form(text: str, **parts: str) -> re.Pattern[str]:
    """A form: blanks stand for any blanks and line breaks, <schema> for the catalog's, other names in <> for their parts."""
    parts = {"schema": rf"(?P<schema>{_NAME})", "ids": rf"(?P<ids>{_IDS})", "at": rf"(?P<at>{_ID})", **parts}
    pattern = re.escape(text).replace(r"\ ", r"[ \n]+")
    return re.compile(re.sub("<([a-z]+)>", lambda found: parts[found[1]], pattern))


def _rows(*columns: str) -> str:
    row = r"\([ \n]*" + r",[ \n]*".join(columns) + r"[ \n]*\)"
    return rf"{row}(?:,[ \n]*{row})*+"


BEGINNING = _form("INSERT INTO <schema>.ducklake_snapshot VALUES ")
SPACE = re.compile(r"[ \n]*+")
COMMA = re.compile(r",[ \n]*+")
INSERT = _form("INSERT INTO <schema>.ducklake_<table> VALUES ", table="(?P<table>[a-z0-9_]+)")
INLINED_DELETES = re.compile(rf"inlined_delete_({_ID})")

ENDING = _form(
    "UPDATE <schema>.ducklake_<table> SET end_snapshot = <at> WHERE end_snapshot IS NULL AND <key> IN (<ids>)",
    table="(?P<table>[a-z_]+)",
    key="(?P<key>[a-z_]+)",
)
ENDED_BY = {
    "schema": ("schema_id",),
    "table": ("table_id",),
    "view": ("view_id",),
    "column": ("table_id",),
    "column_tag": ("table_id",),
    "tag": ("object_id",),
    "partition_info": ("table_id",),
    "sort_info": ("table_id",),
    "data_file": ("table_id", "data_file_id"),
    "delete_file": ("table_id",),
}
"""By which column rows of a table end."""
ENDING_OF_TABLE = _form(
    "UPDATE <schema>.ducklake_<table> SET end_snapshot = <at> WHERE table_id IN (<ids>) AND end_snapshot IS NULL",
    table="(?P<table>partition_info|sort_info)",
)
DROPPED_COLUMNS = _form(
    "WITH dropped_cols(tid, cid) AS ( VALUES <pairs> ) UPDATE <schema>.ducklake_column SET end_snapshot = <at> FROM "
    "dropped_cols WHERE table_id=tid AND column_id=cid AND end_snapshot IS NULL",
    pairs=f"(?P<pairs>{_rows(_ID, _ID)})",
)
OVERWRITTEN_TAGS = _form(
    "WITH overwritten_tags(tid, key) AS ( VALUES <keys> ) UPDATE <schema>.ducklake_tag SET end_snapshot = <at> FROM "
    "overwritten_tags WHERE object_id=tid AND ducklake_tag.key=overwritten_tags.key AND end_snapshot IS NULL",
    keys=f"(?P<keys>{_rows(_ID, _TEXT)})",
)
OVERWRITTEN_COLUMN_TAGS = _form(
    "WITH overwritten_tags(tid, cid, key) AS ( VALUES <keys> ) UPDATE <schema>.ducklake_column_tag SET end_snapshot = <at> "
    "FROM overwritten_tags WHERE table_id=tid AND column_id=cid AND ducklake_column_tag.key=overwritten_tags.key AND "
    "end_snapshot IS NULL",
    keys=f"(?P<keys>{_rows(_ID, _ID, _TEXT)})",
)
SUPERSEDED = _form("DELETE FROM <schema>.ducklake_delete_file WHERE delete_file_id IN (<ids>)")
ENDED_ROWS = _form(
    "WITH deleted_row_list(deleted_row_id) AS ( VALUES <rows> ) UPDATE <schema>.ducklake_inlined_data_<table> SET "
    "end_snapshot = <at> FROM deleted_row_list WHERE row_id=deleted_row_id AND end_snapshot IS NULL AND begin_snapshot != "
    "<begin>",
    rows=f"(?P<rows>{_rows(_ID)})",
    table=rf"(?P<table_id>{_ID})_{_ID}",
    begin=f"(?P<begin>{_ID})",
)
TABLE_STATISTICS = _form(
    "UPDATE <schema>.ducklake_table_stats SET record_count=<number>, file_size_bytes=<number>, next_row_id=<number> WHERE "
    "table_id=<number>",
    number=_NUMBER,
)
_OR_NULL = ("NULL|true|false", "NULL|true|false", f"NULL|{_TEXT}", f"NULL|{_TEXT}", f"NULL|{_TEXT}")
COLUMN_STATISTICS = _form(
    "WITH new_values(tid, cid, new_contains_null, new_contains_nan, new_min, new_max, new_extra_stats) AS ( VALUES <given> ) "
    "UPDATE <schema>.ducklake_table_column_stats SET contains_null=CAST(new_contains_null AS BOOLEAN), "
    "contains_nan=CAST(new_contains_nan AS BOOLEAN), min_value=new_min, max_value=new_max, extra_stats=new_extra_stats FROM "
    "new_values WHERE table_id=tid AND column_id=cid",
    given=_rows(_ID, _ID, *(f"(?:{each})" for each in _OR_NULL)),
)
_DELETES = rf"delete_{_ID}\(file_id BIGINT, row_id BIGINT, begin_snapshot BIGINT\)"
_ROWS = rf"""data_{_ID}_{_ID}\((?:[^()"';]|{_NAME}|\({_ID}(?:, ?{_ID})?\))++\)"""
ROWS_TABLE = _form(
    "CREATE TABLE IF NOT EXISTS <schema>.ducklake_inlined_<which>",
    which=f"(?:{_DELETES}|{_ROWS})",
)
"""A table for rows in no file, which the log makes where it needs one."""


class Shape:
    """How a row of a table is written.

    Args:
        name: of the table.
        columns: their names and types, as in `DUCKLAKE_COLUMNS`.
    """

    def __init__(self, name: str, columns: str) -> None:
        named = [each.partition(":") for each in columns.split()]
        kinds = [kind[0] for _, _, kind in named]
        self.name = name
        self.columns = tuple(column for column, _, _ in named)
        literals = (rf"(NULL|{_LITERALS[kind]})" for kind in kinds)
        self.row = re.compile(r"\([ \n]*+" + r",[ \n]*+".join(literals) + r"[ \n]*+\)")
        self._made: tuple[Callable[[str], Any], ...] = tuple(_MADE[kind] for kind in kinds)

    def values(self, literals: Sequence[str]) -> tuple[Any, ...]:
        """The values of a row, of its literals."""
        return tuple(None if each == "NULL" else made(each) for made, each in zip(self._made, literals, strict=True))


def text_of(literal: str) -> str:
    """The text that a literal stands for."""
    return literal[1:-1].replace("''", "'")


_MADE: dict[str, Callable[[str], Any]] = {
    "i": int,
    "s": text_of,
    "u": text_of,
    "b": "true".__eq__,
    "t": str,
}
INLINED_DELETE = Shape("inlined_delete", "file_id:i row_id:i begin_snapshot:i")
_REFUSED = ("metadata", "macro", "macro_impl", "macro_parameters", "sort_info", "sort_expression")
SHAPES = {name: Shape(name, columns) for name, columns in DUCKLAKE_COLUMNS.items() if name not in _REFUSED}
"""The tables that a commit of rows and definitions writes to."""


def ids(text: str) -> Iterator[int]:
    """The numbers of a list of ids."""
    return (int(each) for each in text.split(","))


_NUMBERS = re.compile(_ID)
_KEYED = re.compile(rf"\([ \n]*({_ID}),(?:[ \n]*({_ID}),)?[ \n]*({_TEXT})")


def numbers_in_rows(rows: str) -> list[int]:
    """The numbers of rows that hold nothing else."""
    return [int(each) for each in _NUMBERS.findall(rows)]


def pairs(rows: str) -> Iterator[tuple[int, int]]:
    """Rows of two numbers."""
    numbers = numbers_in_rows(rows)
    return zip(numbers[::2], numbers[1::2], strict=True)


def keyed(rows: str) -> Iterator[tuple[Any, ...]]:
    """Rows of one number or two, and a text."""
    for found in _KEYED.finditer(rows):
        yield (*(int(each) for each in found.groups()[:2] if each is not None), text_of(found[3]))
