"""Nested values in the text form in which the catalog keeps them outside of files: DuckDB's, of structs, lists and maps."""

from __future__ import annotations

import json
import re
from typing import Any

from commitlog.domain.model.types import ColumnType

_QUOTED = re.compile(r"'((?:[^'\\]|\\.)*)'", re.DOTALL)
_BARE = re.compile(r"[^,\]}=]*")


def parse_nested(data_type: ColumnType, text: str) -> Any:
    """The value that a text stands for: structs as dicts, maps as lists of pairs; what is inside them as text or None.

    Raises:
        ValueError: it is no such text.
    """
    reader = _Reader(text)
    value = reader.value(data_type)
    if reader.at != len(text):
        raise ValueError(f"has {text[reader.at : reader.at + 20]!r} behind its end")
    return value


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def value(self, data_type: ColumnType) -> Any:
        """The value of a type that begins here."""
        inner = [kind for _, kind in data_type.fields]
        if self.text.startswith("NULL", self.at):
            self.at += 4
            return None
        match data_type.name:
            case "list" if inner[0].name == "json":
                return [None if each is None else json.dumps(each) for each in self._json_list()]
            case "list":
                return self._items("[", "]", lambda: self.value(inner[0]))
            case "struct":
                return dict(self._items("{", "}", lambda: self._field(data_type)))
            case "map":
                return self._items("{", "}", lambda: self._entry(inner[0], inner[1]))
        return self._flat()

    def _json_list(self) -> list[Any]:
        """JSON's own text, in quotes where it is inside of something else."""
        if not self.text.startswith("[", self.at):
            return list(json.loads(self._flat()))
        found, self.at = json.JSONDecoder().raw_decode(self.text, self.at)
        return list(found)

    def _field(self, data_type: ColumnType) -> tuple[str, Any]:
        name = self._flat()
        self._expect(": ")
        return name, self.value(dict(data_type.fields)[name])

    def _entry(self, key: ColumnType, value: ColumnType) -> tuple[Any, Any]:
        found = self.value(key)
        self._expect("=")
        return found, self.value(value)

    def _items(self, opening: str, closing: str, item: Any) -> list[Any]:
        self._expect(opening)
        items: list[Any] = []
        while not self.text.startswith(closing, self.at):
            if items:
                self._expect(", ")
            items.append(item())
        self.at += len(closing)
        return items

    def _flat(self) -> str:
        match = _QUOTED.match(self.text, self.at)
        if match is not None:
            self.at = match.end()
            return re.sub(r"\\(.)", r"\1", match[1], flags=re.DOTALL)
        match = _BARE.match(self.text, self.at)
        assert match is not None
        self.at = match.end()
        return match[0]

    def _expect(self, wanted: str) -> None:
        if not self.text.startswith(wanted, self.at):
            raise ValueError(f"has no {wanted!r} at {self.at}")
        self.at += len(wanted)
