"""Which text may enter the log: what PostgreSQL, Avro and a stock reader can all hold (rules.md 12.5, 12.26)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from commitlog.domain.model import TIME_US_MAX, TIME_US_MIN, InvalidCode, RowValue
from commitlog.domain.model.definitions import quoted
from commitlog.domain.model.record import Record
from commitlog.domain.model.values import is_nested_deeper
from commitlog.errors import InvalidChangeError

_NESTING_MAX = 64
_TIME_MS_MIN: Final = -(-TIME_US_MIN // 1000)
_TIME_MS_MAX: Final = TIME_US_MAX // 1000
_FORBIDDEN = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_FORBIDDEN_IN_LINES = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


def check_text(text: str | None, what: str, *, multiline: bool = False) -> None:
    """Raise InvalidChangeError for control characters or lone surrogates; ``multiline`` allows newline and tab."""
    if text is None or (text.isascii() and text.isprintable()):
        return
    found = (_FORBIDDEN_IN_LINES if multiline else _FORBIDDEN).search(text)
    if found is not None:
        raise InvalidChangeError(
            InvalidCode.TEXT_UNSTORABLE,
            f"{what} holds the character U+{ord(found[0]):04X}, which no text here may hold",
        )


def check_name(name: str, what: str, length_max: int) -> None:
    """Raise InvalidChangeError for an empty, too long or unprintable name."""
    if not name:
        raise InvalidChangeError(InvalidCode.NAME_EMPTY, f"the {what} name is empty")
    if len(name) > length_max:
        raise InvalidChangeError(
            InvalidCode.NAME_TOO_LONG,
            f"the {what} name {quoted(name)} is longer than {length_max} characters (name_length_max)",
        )
    if not (name.isascii() and name.isprintable()):
        check_text(name, f"the {what} name")


def check_row_text(row: Mapping[str, RowValue], what: str) -> None:
    """Raise InvalidChangeError for text in a row image that may not enter the log, and for values nested too deep."""
    for name, value in row.items():
        check_text(name, f"a column name of {what}")
        if isinstance(value, list | dict) and is_nested_deeper(value, _NESTING_MAX):
            raise InvalidChangeError(
                InvalidCode.VALUE_TOO_NESTED, f"a value of {what} is nested deeper than {_NESTING_MAX}"
            )
        check_value_text(value, what)


def check_value_text(value: RowValue, what: str) -> None:
    """Raise InvalidChangeError for text in a (nested) value that may not enter the log."""
    if isinstance(value, str):
        check_text(value, f"a value of {what}", multiline=True)
    elif isinstance(value, list):
        for item in value:
            check_value_text(item, what)
    elif isinstance(value, dict):
        for key, item in value.items():
            check_text(key, f"a field name of {what}", multiline=True)
            check_value_text(item, what)


def check_all_text(value: object, what: str) -> None:
    """Raise InvalidChangeError for text anywhere in a change that may not enter the log."""
    if isinstance(value, str):
        check_text(value, what)
    elif isinstance(value, Record):
        for name in value.FIELDS:
            check_all_text(getattr(value, name), what)
    elif isinstance(value, tuple):
        for item in value:
            check_all_text(item, what)
    elif isinstance(value, dict):
        for key, item in value.items():
            check_text(key, what)
            check_all_text(item, what)


def check_time_ms(what: str, time_ms: int | None) -> None:
    """Raise InvalidChangeError for a time, ms since 1970, that PostgreSQL cannot hold."""
    if time_ms is not None and not _TIME_MS_MIN <= time_ms <= _TIME_MS_MAX:
        raise InvalidChangeError(InvalidCode.TIME_OUT_OF_RANGE, f"{what} {time_ms} is beyond PostgreSQL's times")
