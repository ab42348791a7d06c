"""The functions that write records as bytes, and those that read them."""

from __future__ import annotations

from collections.abc import Sequence

from declared import Declared, Enum, Field, Record, Union, snake
from python_types import Types

_LISTS = {"Cursor.text": "cursor.texts()", "Cursor.maybe_long": "cursor.maybe_longs()"}
"""Lists that are read without a call through the function that reads one item."""


class BytesForms:
    """Makes the text of a module of encoders and decoders."""

    def __init__(self, declared: Declared) -> None:
        self.declared = declared
        self.types = Types(declared)

    def module(self, module: str) -> str:
        """The text of the module for one schema file, without its imports."""
        own = [each for each in self.declared.records.values() if each.module == module]
        parts = [self._symbols(each) for each in self.declared.enums.values() if each.module == module]
        parts += [self._cases(each) for each in own if "cases" in each.more]
        for record in own:
            if record.is_by_hand("codec"):
                continue
            if "columns_of" in record.more:
                parts += [self._write_columns(record), self._read_columns(record)]
            else:
                parts += [self._write(record), self._read(record)]
        parts += [self._union(each) for each in self.declared.unions.values() if each.module == module]
        return "\n\n".join(parts)

    def _symbols(self, enum: Enum) -> str:
        name = snake(enum.name).upper()
        return f"_{name}_MEMBERS: Final = tuple({enum.name})\n_{name}: Final = symbols({enum.name})\n"

    def _cases(self, record: Record) -> str:
        cases = record.more["cases"]
        lines = []
        for case, fields in cases["fields"].items():
            required = sorted(
                name
                for name, how in fields.items()
                if how == "set" or (isinstance(how, dict) and how["default"] not in (None, []))
            )
            allowed = sorted(fields)
            on = self._case_enum(record)
            lines.append(f"    {on}.{case}: ({_names(required)}, {_names(allowed)}),")
        table = f"_{snake(record.name).upper()}_CASES"
        body = "\n".join(lines)
        return f"{table}: Final[Mapping[{on}, tuple[frozenset[str], frozenset[str]]]] = {{\n{body}\n}}\n"

    def _case_enum(self, record: Record) -> str:
        on = next(each for each in record.fields if each.name == record.more["cases"]["on"])
        return self.types.of_field(on).python

    # --- writing ------------------------------------------------------------------------------------------------------

    def _write(self, record: Record) -> str:
        asked = [each for each in record.fields if "link" in each.more or "encoded" in each.more]
        arguments = "".join(f", {each.name}: {self.types.of_field(each).python}" for each in asked)
        return "\n".join(
            [
                f"def write_{snake(record.name)}(out: BytesWriter, it: {record.name}{arguments}) -> None:",
                f'    """{_bytes_doc(record)}"""',
                *(f"    {line}" for each in record.fields for line in self._written(each)),
                "",
            ]
        )

    def _written(self, field: Field) -> list[str]:
        kind = self.types.of_field(field)
        if "link" in field.more or "encoded" in field.more:
            return kind.written(field.name)
        held = field.more.get("held")
        return kind.written(f"it.{held['name']}.{field.name}" if held else f"it.{field.name}")

    def _write_columns(self, record: Record) -> str:
        lines = []
        for field in record.fields:
            inner = self.types.of(field.type["items"], field.shape)
            lines.append(f"    array(out, {inner.writer}, [each.{field.name} for each in them])")
        return "\n".join(
            [
                f"def write_{snake(record.name)}(out: BytesWriter, them: Sequence[{record.more['columns_of']}]) -> None:",
                f'    """{_bytes_doc(record)}"""',
                *lines,
                "",
            ]
        )

    # --- reading ------------------------------------------------------------------------------------------------------

    def _read(self, record: Record) -> str:
        names = [each.name for each in record.fields]
        until = max(
            (index for index, each in enumerate(record.fields) if _is_kept_aside(each)),
            default=-1,
        )
        returned, arguments, lines = record.name, "", []
        links = [each for each in record.fields if "link" in each.more]
        encoded = next((each for each in record.fields if "encoded" in each.more), None)
        given = next((each.more["held"]["from"] for each in record.fields if "from" in each.more.get("held", {})), None)
        if links:
            returned = f"tuple[{record.name}, {', '.join(self.types.of_field(each).python for each in links)}]"
        if encoded is not None:
            arguments = f", decode: Callable[[bytes], {encoded.more['encoded']}]"
            until = len(names) - 1
        if given is not None:
            arguments += f", {given}: int"
        values = []
        for index, field in enumerate(record.fields):
            read = self._reading(record, field)
            if index <= until:
                lines.append(f"    {field.name} = {read}")
                read = field.name
            if "link" in field.more:
                continue
            if field is encoded:
                values.append(f"{field.name}=None if {field.name} is None else decode({field.name})")
                values.append(f"{field.name}_bytes={field.name}")
            else:
                values.append(f"{field.more.get('held', {}).get('name', field.name)}={read}")
        made = f"{record.name}({', '.join(values)})"
        if record.more.get("tuple"):
            lines.append(
                f"    it: {record.name} = {_made_tuple(record.name, [each.split('=', 1)[1] for each in values])}"
            )
            made = "it"
        if "check" in record.more:
            made = f"{record.more['check']}({made})"
        if "cases" in record.more:
            on, table = record.more["cases"]["on"], f"_{snake(record.name).upper()}_CASES"
            lines.append(f"    it = {made}")
            made = f"check_case(it, it.{on}, {table})"
        if links:
            made = f"{made}, {', '.join(each.name for each in links)}"
        doc = f"Reads {_a(record.name)}{' and where it stands in the log' if links else ''}."
        head = f"def read_{snake(record.name)}(cursor: Cursor{arguments}) -> {returned}:"
        return "\n".join([head, f'    """{doc}"""', *lines, f"    return {made}", ""])

    def _reading(self, record: Record, field: Field) -> str:
        kind = self.types.of_field(field)
        held = field.more.get("held", {})
        if "from" in held:
            return _made_tuple(held["type"], [held["from"], kind.reading()])
        if "passes" in field.more:
            inner = self.types.of(field.type["items"])
            return f"cursor.array(lambda inner: {inner.read}(inner, {field.more['passes']}))"
        read = kind.reading()
        for how in ("with", "without"):
            for name in field.more.get(how, ()):
                read = f"{field.name}_{how}_{name}({read}, {record.name}.kind)"
        return read

    def _read_columns(self, record: Record) -> str:
        lines = []
        for field in record.fields:
            inner = self.types.of(field.type["items"], field.shape)
            lines.append(f"    {field.name} = {_LISTS.get(inner.reader, f'cursor.array({inner.reader})')}")
        item = record.more["columns_of"]
        names = ", ".join(each.name for each in record.fields)
        values = ", ".join(f"{each.name}[at]" for each in record.fields)
        return "\n".join(
            [
                f"def read_{snake(record.name)}(cursor: Cursor) -> tuple[{item}, ...]:",
                f'    """Reads {_a(record.name)}; ValueError when the lists differ in length."""',
                *lines,
                f"    count = same_length(({names}))",
                f"    return tuple([{item}({values}) for at in range(count)])",
                "",
            ]
        )

    def _union(self, union: Union) -> str:
        name = snake(union.name)
        branches = "\n".join(
            f"    {member}: ({index}, write_{snake(member)})," for index, member in enumerate(union.members)
        )
        readers = "\n".join(f"    read_{snake(member)}," for member in union.members)
        return f'''_{name.upper()}_WRITERS: Final[Mapping[type, tuple[int, Callable[[BytesWriter, Any], None]]]] = {{
{branches}
}}
_{name.upper()}_READERS: Final[tuple[Callable[[Cursor], {union.name}], ...]] = (
{readers}
)


def write_{name}(out: BytesWriter, it: {union.name}) -> None:
    """Writes which {name} it is, and the {name}."""
    branch, write = _{name.upper()}_WRITERS[type(it)]
    long(out, branch)
    write(out, it)


def read_{name}(cursor: Cursor) -> {union.name}:
    """Reads which {name} it is, and the {name}."""
    return cursor.symbol(_{name.upper()}_READERS)(cursor)
'''


def _is_kept_aside(field: Field) -> bool:
    return "link" in field.more or "passes" in field.more


def _names(names: list[str]) -> str:
    inner = ", ".join(f'"{name}"' for name in names)
    return f"frozenset({{{inner}}})" if names else "frozenset()"


def _made_tuple(name: str, values: Sequence[str]) -> str:
    return f"new_named({name}, ({', '.join(values)}{',' if len(values) == 1 else ''}))"


def _a(name: str) -> str:
    return f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"


def _bytes_doc(record: Record) -> str:
    return f"Writes {_a(record.name)}, as `schemas/{record.module}.avsc` has it."
