"""JSON as people write it, read strictly: what does not have the form raises MalformedRecordError that names the field.

Here is how single values are read, and the small loop that reads a record by a table of its fields, so that unknown
fields and missing ones are found everywhere in the same way. The tables are generated from ``schemas/``. Whether a
well-formed proposal makes sense is for ``decide``.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple, TypeVar

from pyroaring import AbstractBitMap64

from commitlog.domain.model.ids import format_id, parse_id
from commitlog.domain.model.record import Record
from commitlog.domain.model.records.proposal import FilterOp, MappedColumn, Predicate
from commitlog.domain.model.values import (
    BIGINT_MAX,
    BIGINT_MIN,
    NESTING_MAX,
    ProposalId,
    Row,
    RowPositions,
    RowValue,
    Scalar,
    is_bigint,
    is_nested_deeper,
    row_positions,
    shown,
)
from commitlog.errors import MalformedRecordError

T = TypeVar("T")
E = TypeVar("E", bound=StrEnum)
Reader = Callable[[Any, str], T]
"""Makes a value of what ``json.loads`` gave; the second argument says where it stands."""

_REQUIRED: Any = object()


class _GivenTwice:
    """In the place of a value whose field is given twice, of which `json.loads` takes the last."""


_GIVEN_TWICE = _GivenTwice()
_DIGITS_MAX = 100
"""More than 64 bits have, and than an error's text shows."""


class _Written(float):
    """A number with a point or an exponent, which a default keeps with all the digits with which it was written."""

    def __init__(self, text: str) -> None:
        self.text = text


def _once_each(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(fields)
    if len(found) < len(fields):
        found.update((name, _GIVEN_TWICE) for name, times in Counter(name for name, _ in fields).items() if times > 1)
    return found


def read_json(given: str) -> Any:
    """What a text of JSON says; JSONDecodeError for what is none.

    What no reader here may take (numbers beyond 64 bits, NaN, fields that are given twice) is refused by the readers, which
    know where it stands.
    """
    return json.loads(
        given,
        parse_int=lambda digits: int(digits[:_DIGITS_MAX]),
        parse_float=_Written,
        object_pairs_hook=_once_each,
    )


class Field(NamedTuple):
    """How a field is read, and what it is when it is not there."""

    read: Reader[Any]
    default: Any = _REQUIRED


def _wrong(where: str, value: object, wanted: str) -> MalformedRecordError:
    if value is _GIVEN_TWICE:
        return MalformedRecordError(f"{where} is given twice")
    return MalformedRecordError(f"{where}: expected {wanted}, not {shown(value)}")


# --- reading values ---------------------------------------------------------------------------------------------------


def integer(value: Any, where: str) -> int:
    """A whole number of 64 bits."""
    if type(value) is not int:
        raise _wrong(where, value, "an integer")
    if not BIGINT_MIN <= value <= BIGINT_MAX:
        raise MalformedRecordError(f"{where}: {shown(value)} is beyond a 64-bit integer")
    return value


def text(value: Any, where: str) -> str:
    """Text."""
    if not isinstance(value, str):
        raise _wrong(where, value, "text")
    return value


def boolean(value: Any, where: str) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise _wrong(where, value, "true or false")
    return value


_AS_TEXT = ": as a column's value it is written as text"


def scalar(value: Any, where: str) -> Scalar:
    """Null, true, false, a finite number or text."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise MalformedRecordError(f"{where}: {shown(value)} is beyond a 64-bit float{_AS_TEXT}")
        return float(value)
    if isinstance(value, int):
        if not is_bigint(value):
            raise MalformedRecordError(f"{where}: {shown(value)} is beyond a 64-bit integer{_AS_TEXT}")
        return value
    raise _wrong(where, value, "null, true, false, a number or text")


def row(value: Any, where: str) -> Row:
    """A row image, or a key."""
    if not isinstance(value, dict):
        raise _wrong(where, value, "an object of column: value")
    return {text(key, where): _row_values(item, f"{where}.{key}") for key, item in value.items()}


def _row_values(value: Any, where: str) -> RowValue:
    if is_nested_deeper(value, NESTING_MAX):
        raise MalformedRecordError(f"{where}: nested deeper than {NESTING_MAX}")
    return _row_value(value, where)


def _row_value(value: Any, where: str) -> RowValue:
    if isinstance(value, list):
        return [_row_value(item, f"{where}[{index}]") for index, item in enumerate(value)]
    if isinstance(value, dict):
        return {text(key, where): _row_value(item, f"{where}.{key}") for key, item in value.items()}
    return scalar(value, where)


def default_text(value: Any, where: str) -> str:
    """A column's default, which may be written as the value itself."""
    literal = scalar(value, where)
    if isinstance(literal, bool):
        return "true" if literal else "false"
    return value.text if isinstance(value, _Written) else str(literal)


def json_text(value: Any, where: str) -> str:
    """Anything that JSON has, kept as JSON."""
    return json.dumps(_row_value(value, where))


def positions(value: Any, where: str) -> RowPositions:
    """Row positions, as a list of numbers."""
    rows: tuple[int, ...] = listed(integer)(value, where)
    return row_positions(rows)


def proposal_id(value: Any, _: str) -> ProposalId:
    """The text of a UUID."""
    return parse_id(value)


def optional(read: Reader[T]) -> Reader[T | None]:
    """Null, or what the reader reads."""
    return lambda value, where: None if value is None else read(value, where)


def listed(read: Reader[T]) -> Reader[tuple[T, ...]]:
    """A list of what the reader reads."""

    def read_list(value: Any, where: str) -> tuple[T, ...]:
        if not isinstance(value, list):
            raise _wrong(where, value, "a list")
        found: list[T] = []
        missing: list[str] = []
        for index, item in enumerate(value):
            try:
                found.append(read(item, f"{where}[{index}]"))
            except _MissingError as error:
                missing += error.fields
        if missing:
            raise _MissingError(missing)
        return tuple(found)

    return read_list


def by_name(read: Reader[T]) -> Reader[dict[str, T]]:
    """An object whose values are what the reader reads."""

    def read_mapping(value: Any, where: str) -> dict[str, T]:
        if not isinstance(value, dict):
            raise _wrong(where, value, "an object")
        return {key: read(item, f"{where}.{key}") for key, item in value.items()}

    return read_mapping


def member(kind: type[E]) -> Reader[E]:
    """A member of an enum, by its text."""

    def read_member(value: Any, where: str) -> E:
        try:
            return kind(value)
        except ValueError:
            raise _wrong(where, value, f"one of {', '.join(str(each) for each in kind)}") from None

    return read_member


# --- reading records --------------------------------------------------------------------------------------------------


def read_fields(value: Any, where: str, known: Mapping[str, Field], skip: tuple[str, ...] = ()) -> dict[str, Any]:
    """The fields of a record by their table; those to skip are read elsewhere."""
    if not isinstance(value, dict):
        raise _wrong(where, value, "an object")
    for name, given in value.items():
        if name not in known and name not in skip:
            raise MalformedRecordError(f"{where}: unknown field {shown(name)}; known are {', '.join(known)}")
        if given is _GIVEN_TWICE:
            raise MalformedRecordError(f"{where}.{name} is given twice")
    found: dict[str, Any] = {}
    missing: list[str] = []
    for name, (read, default) in known.items():
        if name in value:
            try:
                found[name] = read(value[name], f"{where}.{name}")
            except _MissingError as error:
                missing += error.fields
        elif default is _REQUIRED:
            missing.append(f"{where}.{name}")
        else:
            found[name] = default
    if missing:
        raise _MissingError(missing)
    return found


class _MissingError(MalformedRecordError):
    """Fields are missing: all of them are told at once."""

    def __init__(self, fields: Sequence[str]) -> None:
        self.fields = fields
        if len(fields) == 1:
            where, _, name = fields[0].rpartition(".")
            super().__init__(f"{where}: the field {name!r} is missing")
        else:
            super().__init__(f"these fields are missing: {', '.join(fields)}")


def record(make: Callable[..., T], known: Mapping[str, Field]) -> Reader[T]:
    """A record, by the table of its fields."""
    return lambda value, where: make(**read_fields(value, where, known))


def one_of(
    what: str, tag: str, tags: type[E], made: Mapping[E, tuple[Callable[..., T], Mapping[str, Field]]]
) -> Reader[T]:
    """A record whose fields depend on one of them, the tag; ``what`` is what errors call it."""
    read_tag = member(tags)

    def read_one(value: Any, where: str) -> T:
        if not isinstance(value, dict) or tag not in value:
            raise MalformedRecordError(f"{where}: {what} is an object with {'an' if tag == 'op' else 'a'} {tag!r}")
        make, known = made[read_tag(value[tag], f"{where}.{tag}")]
        return make(**read_fields(value, where, known, skip=(tag,)))

    return read_one


_PREDICATE: Mapping[str, Field] = {
    "column": Field(text),
    "op": Field(member(FilterOp)),
    "value": Field(lambda value, _: value, None),
}


def predicate(value: Any, where: str) -> Predicate:
    """``{column, op, value}``; which values are right depends on the op."""
    found = read_fields(value, where, _PREDICATE)
    op, literal = found["op"], found["value"]
    if op in (FilterOp.IN, FilterOp.BETWEEN):
        literal = listed(scalar)(literal, f"{where}.value")
        if op is FilterOp.BETWEEN and len(literal) != 2:
            raise MalformedRecordError(f"{where}.value: between takes [low, high]")
    elif op in (FilterOp.IS_NULL, FilterOp.IS_NOT_NULL):
        if literal is not None:
            raise MalformedRecordError(f"{where}.value: {op} takes no value")
    elif "value" not in value:
        raise _MissingError([f"{where}.value"])
    else:
        literal = scalar(literal, f"{where}.value")
    return Predicate(found["column"], op, literal)


def mapped_column(value: Any, where: str) -> MappedColumn:
    """``{source_name, column, children}``."""
    return MappedColumn(**read_fields(value, where, _MAPPED_COLUMN))


name_mapping = listed(mapped_column)
_MAPPED_COLUMN: Mapping[str, Field] = {
    "source_name": Field(text),
    "column": Field(text),
    "children": Field(name_mapping, ()),
}


# --- writing ----------------------------------------------------------------------------------------------------------


def to_json(value: Any) -> Any:
    """Turn a record, or a value in one, into what ``json.dumps`` takes, under the same field names."""
    if isinstance(value, bytes):
        return format_id(value) if len(value) == 16 else value.hex()
    if isinstance(value, AbstractBitMap64):
        return list(value)
    if isinstance(value, Record):
        plain = {name: to_json(getattr(value, name)) for name in value.FIELDS}
        return {"kind": str(value.kind), **plain} if "kind" not in plain and hasattr(value, "kind") else plain
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {name: to_json(item) for name, item in value._asdict().items()}
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    if isinstance(value, Mapping):
        return {key: to_json(item) for key, item in value.items()}
    return value


def without(plain: dict[str, Any], *names: str) -> dict[str, Any]:
    """The object without some of its fields."""
    return {name: value for name, value in plain.items() if name not in names}
