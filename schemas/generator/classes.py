"""The classes of records, enums and unions, as `domain` knows them."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from declared import Declared, Enum, Field, Record, Union
from python_types import Types, default_name, default_text

WIDTH = 118


class Classes:
    """Makes the text of a module of value classes."""

    def __init__(self, declared: Declared) -> None:
        self.declared = declared
        self.types = Types(declared)

    def module(self, module: str) -> str:
        """The text of the module for one schema file, without its imports."""
        parts = [self._enum(each) for each in self.declared.enums.values() if each.module == module]
        unions = [each for each in self.declared.unions.values() if each.module == module]
        parts += [self._tags(each) for each in unions]
        records = [each for each in self.declared.records.values() if each.module == module and _has_class(each)]
        for each in records:
            parts.append(self._columns(each) if "columns_of" in each.more else self._record(each))
            if each.name in self._defaults():
                parts.append(f"{default_name(each.name)}: Final = {each.name}()\n")
        parts += [f"{each.name}: TypeAlias = {' | '.join(each.members)}\n" for each in unions]
        text = "\n\n".join(parts)
        if "_NO_NAMES" in text:
            text = f"_NO_NAMES: Final[Mapping[str, str]] = {{}}\n\n\n{text}"
        return text

    def _defaults(self) -> set[str]:
        """The records that are some field's default."""
        fields = [field for record in self.declared.records.values() for field in record.fields]
        return {self.types.of_field(each).python for each in fields if each.more.get("default") == {}}

    def _enum(self, enum: Enum) -> str:
        members = [f'    {symbol} = "{value}"' for symbol, value in zip(enum.symbols, enum.texts, strict=True)]
        return "\n".join([f"class {enum.name}(Symbol):", *_docstring(enum.doc, ()), "", *members, ""])

    def _tags(self, union: Union) -> str:
        kinds = [self.declared.kind_of(name) for name in union.members]
        members = [f'    {kind} = "{kind}"' for kind in kinds]
        doc = f"Which {union.name.lower()} it is. The names are those of the log and of JSON and are never used again."
        return "\n".join([f"class {union.name}Kind(Symbol):", *_docstring(doc, ()), "", *members, ""])

    def _columns(self, record: Record) -> str:
        fields = tuple(
            Field(each.name, each.type["items"], each.doc, {**each.more, "default": each.more["each_default"]})
            if "each_default" in each.more
            else Field(each.name, each.type["items"], each.doc, each.more)
            for each in record.fields
        )
        return self._record(Record(record.more["columns_of"], record.module, record.more["item_doc"], fields, {}))

    def _record(self, record: Record) -> str:
        held = [held_field(each) for each in record.fields if "link" not in each.more]
        fields = [(each, self._python(each), self._default(each)) for each in held]
        aside = [each.name for each in record.fields if "encoded" in each.more]
        for name in aside:
            at = next(index for index, (each, _, _) in enumerate(fields) if each.name == name)
            source = next(each for each in record.fields if each.name == name)
            inner = source.more["encoded"]
            fields[at] = (Field(name, "", "The proposal, decoded.", {}), f"{inner} | None", "None")
            fields.append((Field(f"{name}_bytes", "", source.doc, {}), "bytes | None", "None"))
        aside = [f"{name}_bytes" for name in aside]
        docs = [(each.name, each.doc) for each, _, _ in fields]
        if record.more.get("tuple"):
            lines = [f"    {each.name}: {python}{_with(default)}" for each, python, default in fields]
            return "\n".join([f"class {record.name}(NamedTuple):", *_docstring(record.doc, docs), "", *lines, ""])
        names = [each.name for each, _, _ in fields]
        listed = ", ".join(f'"{name}"' for name in names) + ("," if len(names) == 1 else "")
        union = self.declared.union_of(record.name)
        lines = ["@mypyc_attr(acyclic=True)", f"class {record.name}(Record):", *_docstring(record.doc, docs), ""]
        slots = ", ".join(f'"{name}"' for name in sorted(names)) + ("," if len(names) == 1 else "")
        lines += [f"    __slots__ = ({slots})", ""]
        if union is not None:
            lines.append(
                f"    kind: ClassVar[{union.name}Kind] = {union.name}Kind.{self.declared.kind_of(record.name)}"
            )
        lines.append(f"    FIELDS: ClassVar[tuple[str, ...]] = ({listed})")
        if aside:
            lines.append(f"    ASIDE: ClassVar[frozenset[str]] = frozenset({sorted(aside)})")
        given = [f"{each.name}: {python}" for each, python, default in fields if default is None]
        given += [f"{each.name}: {python} = {default}" for each, python, default in fields if default is not None]
        lines += ["", f"    def __init__(self, {', '.join(given)}) -> None:"]
        lines += [f"        self.{name}: Final = {name}" for name in names]
        return "\n".join([*lines, ""])

    def _python(self, field: Field) -> str:
        return str(field.more["held_type"]) if "held_type" in field.more else self.types.of_field(field).python

    def _default(self, field: Field) -> str | None:
        if not field.has_default:
            return None
        return "()" if "held_type" in field.more else default_text(field, self.types.of_field(field), self.declared)


def held_field(field: Field) -> Field:
    """The field as Python holds it."""
    held = field.more.get("held")
    if held is None:
        return field
    more = {"held_type": held["type"], **({"default": held["default"]} if "default" in held else {})}
    return Field(held["name"], "", held["doc"], more)


def _has_class(record: Record) -> bool:
    return not record.is_by_hand("codec") or any("held" in each.more for each in record.fields)


def _with(default: str | None) -> str:
    return "" if default is None else f" = {default}"


def _docstring(doc: str, fields: list[tuple[str, str]] | tuple[()]) -> Iterator[str]:
    lines = textwrap.wrap(doc.replace(": ", ": "), WIDTH - 8)
    if len(lines) == 1 and not fields:
        yield f'    """{lines[0]}"""'
        return
    first, _, rest = doc.partition(". ")
    yield f'    """{first.rstrip(".")}.'
    yield ""
    for line in textwrap.wrap(rest, WIDTH - 4):
        yield f"    {line}"
    if rest and fields:
        yield ""
    for name, text in fields:
        for line in textwrap.wrap(f"{name}: {text}", WIDTH - 4, subsequent_indent="    "):
            yield f"    {line}"
    yield '    """'
