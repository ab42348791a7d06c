"""DuckLake column types: their names, and which may be widened to which.

The names are those of the DuckLake 1.0 specification ("Data Types"). Nested types are written
``struct(a int64, b list(varchar))``, ``list(int64)`` or ``int64[]``, ``map(varchar, int64)``; angle brackets are read too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from commitlog.domain.model.record import Remade

INTEGER_BITS = {
    "int8": (True, 8), "int16": (True, 16), "int32": (True, 32), "int64": (True, 64), "int128": (True, 128),
    "uint8": (False, 8), "uint16": (False, 16), "uint32": (False, 32), "uint64": (False, 64), "uint128": (False, 128),
}  # fmt: skip
FLOATS = frozenset({"float32", "float64"})
TIMESTAMPS = frozenset({"timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns", "timestamptz"})
NESTED = frozenset({"struct", "list", "map"})
_PLAIN = (
    set(INTEGER_BITS) | FLOATS | TIMESTAMPS
    | {"boolean", "date", "time", "timetz", "interval", "varchar", "blob", "uuid", "json", "variant", "geometry"}
)  # fmt: skip
_UNKEYABLE = FLOATS | NESTED | {"interval", "json", "variant", "geometry"}
_WIDENING_LADDERS = (
    ("int8", "int16", "int32", "int64"),
    ("uint8", "uint16", "uint32", "uint64"),
    ("float32", "float64"),
)
_DEPTH_MAX = 64
_NAMES = (
    "boolean, int8 to int128, uint8 to uint128, float32, float64, decimal(p, s), varchar, blob, date, time, timetz, timestamp, "
    "timestamp_s, timestamp_ms, timestamp_ns, timestamptz, interval, uuid, json, variant, geometry, list(t), map(k, v) and "
    "struct(name t, ...)"
)


@dataclass(frozen=True, slots=True)
class ColumnType(Remade):
    """A parsed type. ``fields`` of a struct are (name, type); of a list ("element", t); of a map "key" and "value"."""

    name: str
    precision: int = 0
    scale: int = 0
    fields: tuple[tuple[str, ColumnType], ...] = ()

    @property
    def catalog_name(self) -> str:
        """The text of ``ducklake_column.column_type``: nested types by their bare name."""
        return f"decimal({self.precision},{self.scale})" if self.name == "decimal" else self.name

    def __str__(self) -> str:
        match self.name:
            case "struct":
                return "struct(" + ", ".join(f"{quote(name)} {inner}" for name, inner in self.fields) + ")"
            case "list" | "map":
                return f"{self.name}(" + ", ".join(str(inner) for _, inner in self.fields) + ")"
            case _:
                return self.catalog_name


def quote(name: str) -> str:
    """Quote a name where the type grammar needs it."""
    return name if re.fullmatch(r"[A-Za-z_]\w*", name) else '"' + name.replace('"', '""') + '"'


_TOKEN = re.compile(r'\s*(?:("(?:[^"]|"")*")|([A-Za-z_]\w*)|([0-9]+)|(\[\])|([(){}<>,:]))')


def _unknown(text: str) -> ValueError:
    return ValueError(f"unknown type {text!r}; the types are {_NAMES}")


class _TypeParser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[str] = []
        at = 0
        stripped = text.rstrip()
        while at < len(stripped):
            match = _TOKEN.match(stripped, at)
            if match is None:
                raise _unknown(text)
            self.tokens.append(match.group().strip())
            at = match.end()
        self.at = 0
        self.deepest = 0

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self) -> str:
        token = self.peek()
        self.at += 1
        return token

    def expect(self, *allowed: str) -> str:
        token = self.take()
        if token not in allowed:
            raise _unknown(self.text)
        return token

    def parse(self, depth: int = 0) -> ColumnType:
        """The next type, ``depth`` others around it; ``deepest`` tells how deep the innermost of those read so far lies."""
        self.check_depth(depth)
        beside, self.deepest = self.deepest, depth
        name = self.take().lower()
        if name == "decimal":
            data_type = self.decimal()
        elif name in NESTED:
            data_type = self.nested(name, depth)
        elif name in _PLAIN:
            data_type = ColumnType(name)
        else:
            raise _unknown(self.text)
        while self.peek() == "[]":
            self.take()
            # What was read is an element, and all in it one deeper, after all.
            self.deepest += 1
            self.check_depth(self.deepest)
            data_type = ColumnType("list", fields=(("element", data_type),))
        self.deepest = max(self.deepest, beside)
        return data_type

    def check_depth(self, depth: int) -> None:
        if depth > _DEPTH_MAX:
            raise ValueError(f"type {self.text[:40]!r}... is nested more than {_DEPTH_MAX} deep")

    def decimal(self) -> ColumnType:
        self.expect("(")
        precision = self.take()
        self.expect(",")
        scale = self.take()
        self.expect(")")
        if not (precision.isdigit() and scale.isdigit() and 1 <= int(precision) <= 38 and int(scale) <= int(precision)):
            raise ValueError(f"{self.text!r}: decimal takes a precision of 1 to 38 and a scale of at most that")
        return ColumnType("decimal", int(precision), int(scale))

    def nested(self, name: str, depth: int) -> ColumnType:
        closing = ")" if self.expect("(", "<") == "(" else ">"
        if name == "struct":
            return ColumnType(name, fields=self.struct_fields(closing, depth))
        inner = [self.parse(depth + 1)]
        if name == "map":
            self.expect(",")
            inner.append(self.parse(depth + 1))
        self.expect(closing)
        names = ("element",) if name == "list" else ("key", "value")
        return ColumnType(name, fields=tuple(zip(names, inner, strict=True)))

    def struct_fields(self, closing: str, depth: int) -> tuple[tuple[str, ColumnType], ...]:
        fields: list[tuple[str, ColumnType]] = []
        while True:
            name = self.take()
            if name.startswith('"'):
                name = name[1:-1].replace('""', '"')
            if not name or name in "(){}<>,:[]":
                raise ValueError(f"unknown type {self.text!r}: a struct field needs a name")
            if self.peek() == ":":
                self.take()
            fields.append((name, self.parse(depth + 1)))
            if self.expect(",", closing) == closing:
                break
        if len({fold(name) for name, _ in fields}) < len(fields):
            raise ValueError(f"{self.text!r} has two fields of one name")
        return tuple(fields)


@lru_cache(maxsize=4096)
def parse_type(text: str) -> ColumnType:
    """Parse the name of a type; raise ValueError that names the text when DuckLake has no such type."""
    parser = _TypeParser(text)
    data_type = parser.parse()
    if parser.at != len(parser.tokens):
        raise _unknown(text)
    return data_type


_FOLD = str.maketrans({chr(c): chr(c + 32) for c in range(ord("A"), ord("Z") + 1)})


def fold(name: str) -> str:
    """ASCII case folding, by which names are compared (rules.md 12.1)."""
    return name.lower() if name.isascii() else name.translate(_FOLD)


def is_json_list(data_type: ColumnType) -> bool:
    """Whether a list's elements are JSON."""
    return data_type.name == "list" and data_type.fields[0][1].name == "json"


def is_keyable(data_type: ColumnType) -> bool:
    """Whether equality of values is exact enough for a primary key, a UNIQUE constraint or a reference."""
    return data_type.name not in _UNKEYABLE


def can_widen(old: ColumnType, new: ColumnType) -> bool:
    """Whether DuckLake promotes ``old`` to ``new`` without rewriting files (rules.md 12.25)."""
    for ladder in _WIDENING_LADDERS:
        if old.name in ladder and new.name in ladder:
            return ladder.index(old.name) < ladder.index(new.name)
    if old.name == new.name == "decimal":
        wider = new.scale >= old.scale and new.precision - new.scale >= old.precision - old.scale
        return wider and new != old
    return False
