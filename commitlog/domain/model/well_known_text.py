"""Geometries as text, as far as DuckDB reads them.

Source: OGC 06-103r4, "Well-known Text Representation for Geometry"; what DuckDB takes of it was measured.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_POINTS = {"POINT": 0, "LINESTRING": 1, "MULTIPOINT": 1, "POLYGON": 2, "MULTILINESTRING": 2, "MULTIPOLYGON": 3}
"""By kind, how deep the lists are whose items are points."""
_COLLECTION = "GEOMETRYCOLLECTION"
_NAME = re.compile(f"({'|'.join((*_POINTS, _COLLECTION))})(ZM|Z|M)?")
_DEPTH_MAX = 32
_TOKEN = re.compile(r"\s*([A-Za-z]+|-?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[(),])", re.ASCII)
_END = ""


def check_geometry(text: str) -> None:
    """Raise ValueError with a phrase that continues "the value ..." for what is no geometry."""
    parser = _Parser(text)
    parser.geometry(None, 0)
    if parser.take() != _END:
        raise parser.error()


class _Parser:
    def __init__(self, text: str) -> None:
        self.tokens: list[str] = []
        at = 0
        while match := _TOKEN.match(text, at):
            self.tokens.append(match[1].upper())
            at = match.end()
        if text[at:].strip():
            raise self.error()
        self.at = 0

    def error(self) -> ValueError:
        return ValueError("is no geometry such as POINT(1 2)")

    def take(self) -> str:
        self.at += 1
        return self.tokens[self.at - 1] if self.at <= len(self.tokens) else _END

    def took(self, token: str) -> bool:
        """Take the next token if it is this one."""
        is_next = self.at < len(self.tokens) and self.tokens[self.at] == token
        self.at += is_next
        return is_next

    def geometry(self, dimensions: str | None, depth: int) -> None:
        """One, in a collection of the same dimensions."""
        named = _NAME.fullmatch(self.take())
        if named is None:
            raise self.error()
        kind, own = named[1], named[2] or next((each for each in ("ZM", "Z", "M") if self.took(each)), "")
        if depth > _DEPTH_MAX or dimensions not in (None, own):
            raise self.error()
        if self.took("EMPTY"):
            return
        if kind == _COLLECTION:
            self.items(lambda: self.geometry(own, depth + 1))
        elif kind == "POINT":
            self.items(lambda: self.point(own), at_most_one=True)
        else:
            self.points(_POINTS[kind], own, is_each_in_brackets=kind == "MULTIPOINT")

    def points(self, deep: int, dimensions: str, *, is_each_in_brackets: bool) -> None:
        def item() -> None:
            if (deep > 1 or is_each_in_brackets) and self.took("EMPTY"):
                return
            if deep > 1:
                self.points(deep - 1, dimensions, is_each_in_brackets=False)
            elif is_each_in_brackets and self.tokens[self.at : self.at + 1] == ["("]:
                self.items(lambda: self.point(dimensions), at_most_one=True)
            else:
                self.point(dimensions)

        self.items(item)

    def items(self, item: Callable[[], None], *, at_most_one: bool = False) -> None:
        """What is in brackets, divided by commas."""
        if self.take() != "(":
            raise self.error()
        item()
        while not at_most_one and self.took(","):
            item()
        if self.take() != ")":
            raise self.error()

    def point(self, dimensions: str) -> None:
        for _ in range(2 + len(dimensions)):
            number = self.take()
            if number[-1:] not in "0123456789." or number == _END:
                raise self.error()
