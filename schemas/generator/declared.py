"""What the schemas declare: records, enums and unions by name, each in the file that declares it first.

Beside what Avro knows, schemas say in attributes of their own (which change no fingerprint) what Python has to know:

of a record
    kind            its name in a tagged union, where that is not the record's own: TableRead is TABLE
    tuple           it is a NamedTuple: small, hashed, unpacked
    check           a function that a record which was read must pass
    cases           which fields are set depends on one of them: by its symbol, field to "set", "told" (maybe null) or a default
    codec, json     "by hand": its bytes, its JSON are written by hand
    columns_of      it holds lists of equal length, one for each field of the record named here
of a field
    default         as in Avro; also what Python and JSON take when it is not told
    shape           its bytes, and its JSON, are made by hand under this name
    with, without   fields that the records in it must have, must not have
    json            false: not in JSON; {"as": a path}, {"read": a function}, {"required": true} although Python has a default
    held            Python holds something else in its place
    link            it is not the record's own, but says where that stands in the log
    passes          records in it are read with this field of the one around them
    encoded         it holds another record's bytes, which are decoded by whoever reads it
of an array of a union
    items_name      what Python calls the union; its tag is the enum <items_name>Kind
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Schema = Any
ORDER = (
    "proposal",
    "outcome",
    "receipts",
    "genesis",
    "takeover",
    "heartbeat",
    "trim",
    "dead_letter",
    "file_statistics",
    "checkpoint_section",
)


def snake(name: str) -> str:
    """The name of a function or variable: ``DataFile`` to ``data_file``."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


@dataclass(frozen=True)
class Field:
    """A field of a record."""

    name: str
    type: Schema
    doc: str
    more: dict[str, Any]

    @property
    def has_default(self) -> bool:
        return "default" in self.more

    @property
    def shape(self) -> str | None:
        return self.more.get("shape")


@dataclass(frozen=True)
class Record:
    """A record of the log."""

    name: str
    module: str
    doc: str
    fields: tuple[Field, ...]
    more: dict[str, Any]

    def is_by_hand(self, what: str) -> bool:
        return self.more.get(what) == "by hand"


@dataclass(frozen=True)
class Enum:
    """Names that mean something; ``texts`` is what they are in JSON and Python."""

    name: str
    module: str
    doc: str
    symbols: tuple[str, ...]
    texts: tuple[str, ...]


@dataclass(frozen=True)
class Union:
    """One of several records, told apart by their kind."""

    name: str
    module: str
    members: tuple[str, ...]


@dataclass
class Declared:
    """Everything that is declared, in the order in which it is."""

    records: dict[str, Record] = field(default_factory=dict)
    enums: dict[str, Enum] = field(default_factory=dict)
    unions: dict[str, Union] = field(default_factory=dict)
    fixed: dict[str, int] = field(default_factory=dict)
    roots: dict[str, str] = field(default_factory=dict)

    def kind_of(self, name: str) -> str:
        """The tag of a record in its union."""
        kind: str = self.records[name].more.get("kind", snake(name).upper())
        return kind

    def union_of(self, name: str) -> Union | None:
        """The union that a record is in."""
        return next((union for union in self.unions.values() if name in union.members), None)

    def walk(self, schema: Schema, module: str) -> str:
        """Notes what a schema declares; returns the name if it is a named one."""
        if isinstance(schema, list):
            for branch in schema:
                self.walk(branch, module)
        elif isinstance(schema, dict):
            match schema["type"]:
                case "record":
                    return self._record(schema, module)
                case "enum":
                    symbols = tuple(schema["symbols"])
                    texts = tuple(schema.get("texts", symbols))
                    self.enums.setdefault(schema["name"], Enum(schema["name"], module, schema["doc"], symbols, texts))
                    return str(schema["name"])
                case "fixed":
                    self.fixed[schema["name"]] = schema["size"]
                    return str(schema["name"])
                case "array":
                    self.walk(schema["items"], module)
                    if "items_name" in schema:
                        members = tuple(self.name_of(item) for item in schema["items"])
                        self.unions[schema["items_name"]] = Union(schema["items_name"], module, members)
                case "map":
                    self.walk(schema["values"], module)
        return ""

    def _record(self, schema: Schema, module: str) -> str:
        fields = []
        for each in schema["fields"]:
            self.walk(each["type"], module)
            more = {key: value for key, value in each.items() if key not in ("name", "type", "doc")}
            fields.append(Field(each["name"], each["type"], each["doc"], more))
        more = {
            key: value for key, value in schema.items() if key not in ("name", "type", "doc", "fields", "namespace")
        }
        record = Record(schema["name"], module, schema["doc"], tuple(fields), more)
        known = self.records.setdefault(record.name, record)
        assert [each.name for each in known.fields] == [each.name for each in record.fields], record.name
        return record.name

    @staticmethod
    def name_of(schema: Schema) -> str:
        """The name of a named type, declared here or before."""
        return str(schema["name"]) if isinstance(schema, dict) else str(schema)


def declared(directory: Path) -> Declared:
    """What the newest version of each schema declares."""
    found = Declared()
    for module in ORDER:
        found.roots[module] = found.walk(json.loads((directory / f"{module}.avsc").read_text(encoding="utf-8")), module)
    newest = {path.stem for path in directory.glob("*.avsc") if "." not in path.stem}
    assert newest == set(ORDER), f"schemas that are not in ORDER: {newest ^ set(ORDER)}"
    return found
