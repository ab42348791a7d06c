"""The JSON of proposals and outcomes: tables by which it is read, and functions that write what differs from the records."""

from __future__ import annotations

from typing import Any

from declared import Declared, Field, Record, Union, snake
from python_types import Types


class JsonForms:
    """Makes the text of a module of JSON readers and writers."""

    def __init__(self, declared: Declared) -> None:
        self.declared = declared
        self.types = Types(declared)

    # --- reading ------------------------------------------------------------------------------------------------------

    def reading(self, root: str) -> str:
        """The tables of all records in one."""
        parts: list[str] = []
        self._table(self.declared.records[root], parts, set())
        return "\n".join(parts)

    def _table(
        self, record: Record, parts: list[str], done: set[str], *, selected: str | None = None, by: Field | None = None
    ) -> None:
        """The table of a record, those of the records in it first; ``selected``: of the fields that ``by`` lets in."""
        called = selected or record.name
        if called in done or record.is_by_hand("json"):
            return
        done.add(called)
        for field in record.fields:
            self._inner(field, parts, done)
        if selected is not None and by is not None:
            parts.append(self._selection(by, selected))
            return
        if "columns_of" in record.more:
            return
        name = snake(record.name).upper()
        if "cases" in record.more:
            parts.append(self._cases(record))
        elif self.declared.union_of(record.name) is None:
            parts.append(f"_{name}: Reader[{record.name}] = record({record.name}, {self._fields(record)})\n")

    def _inner(self, field: Field, parts: list[str], done: set[str]) -> None:
        if field.shape == "statistics":
            self._columns(self.declared.records["FileStatistics"], parts)
        for schema in _within(field.type):
            name = schema if isinstance(schema, str) else schema.get("name", "")
            if name in self.declared.records:
                self._table(self.declared.records[name], parts, done, selected=self._selected(field), by=field)
            union = self.declared.unions.get(schema.get("items_name", "")) if isinstance(schema, dict) else None
            if union is not None:
                for member in union.members:
                    self._table(self.declared.records[member], parts, done)
                parts.append(self._union(union))

    def _columns(self, record: Record, parts: list[str]) -> None:
        if any(part.startswith(f"_{snake(record.more['columns_of']).upper()}:") for part in parts):
            return
        entries = []
        for each in record.fields:
            reader = self.types.of(each.type["items"], each.shape).json
            entries.append(self._entry(each.name, reader, each.more.get("each_default", ...)))
        item = record.more["columns_of"]
        parts.append(f"_{snake(item).upper()}: Reader[{item}] = record({item}, {{{', '.join(entries)}}})\n")

    def _union(self, union: Union) -> str:
        kind, name = f"{union.name}Kind", snake(union.name)
        lines = []
        for member in union.members:
            record = self.declared.records[member]
            lines.append(f"{kind}.{self.declared.kind_of(member)}: ({member}, {self._fields(record)}),")
        body = "\n".join(lines)
        return f'_{name.upper()}: Reader[{union.name}] = one_of("a {name}", "kind", {kind}, {{\n{body}\n}})\n'

    def _cases(self, record: Record) -> str:
        cases = record.more["cases"]
        by_name = {each.name: each for each in record.fields}
        enum = self.types.of_field(by_name[cases["on"]]).python
        lines = []
        for case, fields in cases["fields"].items():
            entries = []
            for name, how in fields.items():
                kind = self.types.of_field(by_name[name])
                is_optional = how != "set" and not (isinstance(how, dict) and how["default"] not in (None, []))
                reader = kind.json if is_optional else _unwrapped(kind.json)
                entries.append(self._entry(name, reader, how["default"] if isinstance(how, dict) else ...))
            made = f"partial({record.name}, {enum}.{case})"
            lines.append(f"{enum}.{case}: ({made}, {{{', '.join(entries)}}}),")
        body = "\n".join(lines)
        name = snake(record.name)
        return (
            f"_{name.upper()}_CASES: Mapping[{enum}, tuple[Callable[..., {record.name}], Mapping[str, Field]]] = "
            f"{{\n{body}\n}}\n"
            f'_{name.upper()}: Reader[{record.name}] = one_of("an {name}", "{cases["on"]}", {enum}, '
            f"_{name.upper()}_CASES)\n"
        )

    def _fields(self, record: Record) -> str:
        return "{" + ", ".join(self._entry(each.name, *self._how(each)) for each in record.fields) + "}"

    def _how(self, field: Field) -> tuple[str, Any]:
        reader = self.types.of_field(field).json
        special = field.more.get("json")
        if (selected := self._selected(field)) is not None:
            reader = f"listed({selected})"
        if isinstance(special, dict) and special.get("required"):
            return reader, ...
        return reader, field.more.get("default", ...)

    def _selected(self, field: Field) -> str | None:
        """What the reader is called of records that must have some fields, or must not."""
        names = [f"_{how}_{name}" for how in ("with", "without") for name in field.more.get(how, ())]
        if not names:
            return None
        return f"_{snake(self.declared.name_of(field.type['items'])).upper()}{''.join(names).upper()}"

    def _selection(self, field: Field, name: str) -> str:
        record = self.declared.records[self.declared.name_of(field.type["items"])]
        wanted, unwanted = field.more.get("with", ()), field.more.get("without", ())
        entries = []
        for each in record.fields:
            reader, default = self._how(each)
            if each.name in wanted:
                reader, default = _unwrapped(reader), ...
            if each.name not in unwanted:
                entries.append(self._entry(each.name, reader, default))
        return f"{name}: Reader[{record.name}] = record({record.name}, {{{', '.join(entries)}}})\n"

    def _entry(self, name: str, reader: str, default: Any) -> str:
        if default is ...:
            return f'"{name}": Field({reader})'
        if reader.startswith("member("):
            return f'"{name}": Field({reader}, {reader[7:-1]}.{default})'
        shown = "()" if default in ([], "") and "listed" in reader else repr(default)
        return f'"{name}": Field({reader}, {shown})'

    # --- writing ------------------------------------------------------------------------------------------------------

    def writing(self, root: str) -> str:
        """Functions for the records in one whose JSON is not just their fields, the inner ones first."""
        parts: list[str] = []
        self._writer(self.declared.records[root], parts, {}, is_root=True)
        return "\n\n".join(parts)

    def _writer(self, record: Record, parts: list[str], done: dict[str, bool], *, is_root: bool = False) -> bool:
        """Whether the record has a function of its own; it is added to the parts."""
        if record.name in done:
            return done[record.name]
        done[record.name] = False
        entries: dict[str, Any] = {}
        is_special = is_root
        if self.declared.union_of(record.name) is not None:
            entries["kind"] = f'"{self.declared.kind_of(record.name)}"'
        for field in record.fields:
            how = field.more.get("json")
            if how is False or "link" in field.more:
                is_special = True
                continue
            value, is_own = self._value(field, parts, done)
            is_special |= is_own
            if isinstance(how, dict) and "as" in how:
                outer, inner = how["as"].split(".")
                entries.setdefault(outer, {})[inner] = value
                is_special = True
            else:
                entries[field.name] = value
        name = snake(record.name)
        if "cases" in record.more:
            done[record.name] = True
            on = record.more["cases"]["on"]
            parts.append(
                f"def {name}_to_json(it: {record.name}) -> dict[str, Any]:\n"
                f'    """The JSON form of {_a(record.name)}: the fields that go with its {on}."""\n'
                f"    _, fields = _{name.upper()}_CASES[it.{on}]\n"
                f'    return {{"{on}": str(it.{on}), **{{name: to_json(getattr(it, name)) for name in fields}}}}\n'
            )
        elif is_special:
            done[record.name] = True
            parts.append(
                f"def {name}_to_json(it: {record.name}) -> dict[str, Any]:\n"
                f'    """The JSON form of {_a(record.name)}."""\n'
                f"    return {_object(entries)}\n"
            )
        return done[record.name]

    def _value(self, field: Field, parts: list[str], done: dict[str, bool]) -> tuple[str, bool]:
        it, kind = f"it.{field.name}", self.types.of_field(field)
        if "without" in field.more:
            left_out = ", ".join(f'"{name}"' for name in field.more["without"])
            return f"[without(to_json(each), {left_out}) for each in {it}]", True
        for schema in _within(field.type):
            union = self.declared.unions.get(schema.get("items_name", "")) if isinstance(schema, dict) else None
            if union is not None:
                own = [name for name in union.members if self._writer(self.declared.records[name], parts, done)]
                if own:
                    table = "\n".join(f"    {name}: {snake(name)}_to_json," for name in own)
                    upper = snake(union.name).upper()
                    parts.append(
                        f"_{upper}_TO_JSON: Mapping[type, Callable[[Any], dict[str, Any]]] = {{\n{table}\n}}\n\n\n"
                        f"def {upper.lower()}_to_json(it: {union.name}) -> Any:\n"
                        f'    """The JSON form of {_a(union.name)}."""\n'
                        f"    own = _{upper}_TO_JSON.get(type(it))\n"
                        "    return to_json(it) if own is None else own(it)\n"
                    )
                    return f"[{upper.lower()}_to_json(each) for each in {it}]", True
                return f"to_json({it})", False
            name = schema if isinstance(schema, str) else schema.get("name", "")
            inner = self.declared.records.get(name)
            if inner is not None and self._writer(inner, parts, done):
                return f"[{snake(name)}_to_json(each) for each in {it}]", True
        if kind.python in {"int", "str", "bool", "int | None", "str | None", "bool | None"}:
            return it, False
        return f"to_json({it})", False


def _within(schema: Any) -> list[Any]:
    """A schema and those that it is made of, but for the fields of records."""
    found = [schema]
    if isinstance(schema, list):
        for branch in schema:
            found += _within(branch)
    elif isinstance(schema, dict):
        for inner in ("items", "values"):
            if inner in schema and "items_name" not in schema:
                found += _within(schema[inner])
    return [each for each in found if isinstance(each, str | dict)]


def _unwrapped(reader: str) -> str:
    return reader.removeprefix("optional(").removesuffix(")") if reader.startswith("optional(") else reader


def _a(name: str) -> str:
    return f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"


def _object(entries: dict[str, Any]) -> str:
    shown = [f'"{name}": {_object(value) if isinstance(value, dict) else value}' for name, value in entries.items()]
    return "{" + ", ".join(shown) + "}"
