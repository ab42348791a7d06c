"""What a type of Avro is in Python, and by which expressions its values are written, read and taken from JSON."""

from __future__ import annotations

from dataclasses import dataclass

from declared import Declared, Field, Schema, snake

_SCALAR = ["null", "boolean", "long", "double", "string"]
_PRIMITIVES = {
    "long": ("int", "long", "long", "integer"),
    "int": ("int", "long", "long", "integer"),
    "string": ("str", "text", "text", "text"),
    "boolean": ("bool", "flag", "flag", "boolean"),
    "bytes": ("bytes", "blob", "blob", ""),
}
# By name: the type in Python, and how it is read from JSON.
SHAPES = {
    "row": ("Row", "row"),
    "positions": ("RowPositions", "positions"),
    "literal": ("Scalar | tuple[Scalar, ...]", ""),
    "bound": ("Scalar", "scalar"),
    "statistics": ("Statistics", "listed(_COLUMN_STATISTICS)"),
    "name_mapping": ("tuple[MappedColumn, ...]", "name_mapping"),
    "plain": ("list[Plain]", ""),
}


@dataclass(frozen=True)
class Type:
    """A type of Python with its ways to bytes and back.

    write: a function of a writer and a value, or a statement with {} in the value's place; is_maybe: for values that are not
    None, which is written as another branch. read: a function of a cursor, or an expression with {} in the cursor's place.
    json: a reader of JSON values.
    """

    python: str
    write: str
    read: str
    json: str
    is_maybe: bool = False

    def written(self, value: str) -> list[str]:
        """The lines that write a value."""
        line = self.write.replace("{}", value) if "{}" in self.write else f"{self.write}(out, {value})"
        if not self.is_maybe:
            return [line]
        return [f"if {value} is None:", "    out.append(NULL)", "else:", "    out.append(SOME)", f"    {line}"]

    def reading(self, cursor: str = "cursor") -> str:
        if self.read.startswith("Cursor."):
            return f"{cursor}.{self.read.removeprefix('Cursor.')}()"
        return self.read.replace("{}", cursor) if "{}" in self.read else f"{self.read}({cursor})"

    @property
    def writer(self) -> str:
        assert not self.is_maybe, self
        return f"lambda out, value: {self.write.replace('{}', 'value')}" if "{}" in self.write else self.write

    @property
    def reader(self) -> str:
        return f"lambda cursor: {self.read.replace('{}', 'cursor')}" if "{}" in self.read else self.read


class Types:
    """The types of everything that is declared."""

    def __init__(self, declared: Declared) -> None:
        self.declared = declared

    def of_field(self, field: Field) -> Type:
        """The type of a field, with what its attributes say."""
        kind = self.of(field.type, field.shape)
        read = field.more.get("json")
        if isinstance(read, dict) and "read" in read:
            reader = read["read"]
            wrapped = f"optional({reader})" if isinstance(field.type, list) else f"listed({reader})"
            return Type(kind.python, kind.write, kind.read, wrapped)
        return kind

    def of(self, schema: Schema, shape: str | None = None) -> Type:
        """The type of a schema."""
        if isinstance(schema, list):
            return self._of_union(schema, shape)
        if shape is not None:
            python, reader = SHAPES[shape]
            return Type(python, f"write_{shape}", f"read_{shape}", reader)
        if isinstance(schema, str) and schema in _PRIMITIVES:
            python, write, read, reader = _PRIMITIVES[schema]
            return Type(python, write, f"Cursor.{read}", reader)
        if isinstance(schema, dict) and schema["type"] == "array":
            return self._of_array(schema)
        if isinstance(schema, dict) and schema["type"] == "map":
            return self._of_map(schema["values"])
        return self._of_name(self.declared.name_of(schema))

    def _of_name(self, name: str) -> Type:
        if name in self.declared.fixed:
            size = self.declared.fixed[name]
            python = "ProposalId" if name == "ProposalId" else "bytes"
            return Type(python, f"fixed(out, {{}}, {size})", f"{{}}.fixed({size})", "proposal_id")
        if name in self.declared.enums:
            symbols = snake(name).upper()
            return Type(name, f"out.append(_{symbols}[{{}}])", f"{{}}.symbol(_{symbols}_MEMBERS)", f"member({name})")
        record = self.declared.records.get(name)
        by_hand = record is not None and record.is_by_hand("json")
        reader = snake(name) if by_hand else f"_{snake(name).upper()}"
        return Type(name, f"write_{snake(name)}", f"read_{snake(name)}", reader)

    def _of_union(self, branches: list[Schema], shape: str | None) -> Type:
        if branches == _SCALAR:
            return self.of("", shape) if shape else Type("Scalar", "scalar", "read_scalar", "scalar")
        if branches[0] != "null":
            return self.of("", shape or "positions")
        if len(branches) > 2:
            assert shape is not None, branches
            return self.of("", shape)
        inner = self.of(branches[1], shape)
        python, reader = f"{inner.python} | None", f"optional({inner.json})"
        if inner.write in {"long", "text", "flag", "blob"}:
            return Type(python, f"maybe_{inner.write}", f"Cursor.maybe_{inner.write}", reader)
        if inner.write.startswith("fixed("):
            return Type(python, f"maybe_{inner.write}", inner.read.replace(".fixed", ".maybe_fixed"), reader)
        read = f"{inner.reading('{}')} if {{}}.is_some() else None"
        return Type(python, inner.write, read, reader, is_maybe=True)

    def _of_array(self, schema: Schema) -> Type:
        inner = self._of_name(schema["items_name"]) if "items_name" in schema else self.of(schema["items"])
        python, reader = f"tuple[{inner.python}, ...]", f"listed({inner.json})"
        if inner.write in {"long", "text"}:
            return Type(python, f"{inner.write}s", f"Cursor.{inner.write}s", reader)
        return Type(python, f"array(out, {inner.writer}, {{}})", f"{{}}.array({inner.reader})", reader)

    def _of_map(self, values: Schema) -> Type:
        if isinstance(values, list) and len(values) > len(_SCALAR):
            return self.of("", "row")
        inner = self.of(values)
        return Type(
            f"Mapping[str, {inner.python}]",
            f"mapping(out, {inner.writer}, {{}})",
            f"{{}}.mapping({inner.reader})",
            f"by_name({inner.json})",
        )


def default_name(record: str) -> str:
    """The record with all its defaults, made once."""
    return f"_DEFAULT_{snake(record).upper()}"


def default_text(field: Field, kind: Type, declared: Declared) -> str:
    """A field's default as Python writes it."""
    value = field.more["default"]
    name = kind.python
    if name in declared.enums:
        return f"{name}.{value}"
    if name in declared.records:
        return default_name(name)
    if value == [] or (value == "" and name != "str"):
        return "()"
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 10_000:
        return f"{value:_}"
    return "_NO_NAMES" if value == {} else repr(value)
