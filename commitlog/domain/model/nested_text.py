"""Values that DuckDB could not read back from a row outside of files: text inside nested ones, and variants.

Such rows hold nested values as text, which DuckDB casts. Where one list, struct or map is inside another, it looks for the
closing bracket of the inner one without regard to quotes, and no way of escaping helps. Measured: it reads every text in
which no such bracket comes before its opening one, and hardly any other. A variant stands there as text, and is a text to
whoever reads it, whatever it was.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from commitlog.domain.model import RowValue
from commitlog.domain.model.typed_values import canonical_value
from commitlog.domain.model.types import NESTED, ColumnType, fold, is_json_list

_OPENING = {"]": "[", "}": "{"}


def check_nested_text(
    data_type: ColumnType, value: RowValue, closing: frozenset[str] = frozenset(), depth: int = 0
) -> None:
    """Raise ValueError for text that would be taken for the end of a value, and for variants that are no text; ``closing``:
    the brackets that would end a value.

    The value must be one of its type already.
    """
    if data_type.name in NESTED and not is_json_list(data_type):
        if depth:
            closing |= {"]" if data_type.name == "list" else "}"}
        _check_inside(data_type, value, closing, depth + 1)
    elif data_type.name == "variant" and value is not None and not isinstance(value, str):
        raise ValueError("is no text, as which alone DuckDB reads a variant outside of files")
    elif closing and value is not None:
        _check_brackets(_text(data_type, value), closing, "a text")


def _check_inside(data_type: ColumnType, value: RowValue, closing: frozenset[str], depth: int) -> None:
    if isinstance(value, list):
        for item in value:
            check_nested_text(data_type.fields[0][1], item, closing, depth)
    elif isinstance(value, dict):
        by_name = {fold(name): inner for name, inner in data_type.fields}
        if data_type.name == "struct":
            # All of them stand beside their values, also of those that are NULL.
            for name, _ in data_type.fields:
                _check_brackets(name, closing, "a field's name")
        for name, item in value.items():
            if data_type.name == "map":
                check_nested_text(by_name["key"], name, closing, depth)
            check_nested_text(by_name["value" if data_type.name == "map" else fold(name)], item, closing, depth)


def _check_brackets(text: str, closing: frozenset[str], what: str) -> None:
    for bracket in sorted(closing):
        if _closes_early(text, bracket):
            raise ValueError(f"has {bracket} in {what} nested twice, which DuckDB cannot read outside of files")


def json_text(value: RowValue) -> str:
    """The text of a JSON value, which may be that text already."""
    return value if isinstance(value, str) else json.dumps(value)


def json_list_text(values: Sequence[RowValue]) -> str:
    """A list of JSON values, of which DuckDB takes nothing but JSON's own text."""
    return "[" + ", ".join("null" if each is None else json_text(each) for each in values) + "]"


def _text(data_type: ColumnType, value: RowValue) -> str:
    """What stands in quotes for a value inside a nested one; empty for what no quotes are needed for."""
    if isinstance(value, list) and is_json_list(data_type):
        return json_list_text(value)
    if data_type.name == "json":
        return json_text(value)
    found = canonical_value(data_type, value) if data_type.name == "blob" else value
    return found if isinstance(found, str) else ""


def _closes_early(text: str, closing: str) -> bool:
    opening, depth = _OPENING[closing], 0
    for letter in text:
        depth += (letter == opening) - (letter == closing)
        if depth < 0:
            return True
    return False
