"""Writes the records of the log as Python, from what `schemas/*.avsc` declares: `make records`.

Value classes for `domain`, their bytes for `log`, their JSON. Nothing else declares a record; a test makes these modules
anew and compares.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from bytes_forms import BytesForms
from classes import Classes
from declared import ORDER, Declared, declared, snake
from fastavro.schema import fingerprint, to_parsing_canonical_form
from json_forms import JsonForms

SCHEMAS = Path(__file__).resolve().parents[1]
CLASSES = "commitlog.domain.model.records"
CODECS = "commitlog.log.codec.records"
JSON_ROOTS = {"proposal": ("Proposal", True), "outcome": ("Outcome", False)}

_HEAD = (
    '"""Generated from schemas/{module}.avsc by `make records`: {what}."""\n\nfrom __future__ import annotations\n\n'
)
_STANDARD = {
    "collections.abc": "Callable Mapping Sequence",
    "functools": "partial",
    "mypy_extensions": "mypyc_attr",
    "typing": "Any ClassVar Final NamedTuple TypeAlias",
}
_VALUES = "NESTING_MAX Plain ProposalId Row RowPositions Scalar"
_AVRO = (
    "NULL SOME Cursor array blob fixed flag long longs mapping maybe_blob maybe_fixed maybe_flag maybe_long maybe_text "
    "same_length scalar symbols text texts"
)
_CODEC_VALUES = (
    "check_case check_predicate files_with_row_ids files_without_row_ids read_bound read_literal read_name_mapping "
    "read_plain read_positions read_row read_scalar write_bound write_literal write_name_mapping write_plain "
    "write_positions write_row"
)
_JSON = (
    "Field Reader boolean by_name default_text integer json_text listed member name_mapping one_of optional positions "
    "predicate proposal_id record row scalar text to_json without"
)


def generated() -> dict[str, str]:
    """The text of each generated module, by its path in the project; not formatted yet."""
    known = declared(SCHEMAS)
    classes, codecs, forms = Classes(known), BytesForms(known), JsonForms(known)
    texts = {}
    for module in ORDER:
        what = {"what": "the values", "module": module}
        texts[_path(CLASSES, module)] = _whole(what, classes.module(module), f"{CLASSES}.{module}", known)
        what = {"what": "their bytes", "module": module}
        texts[_path(CODECS, module)] = _whole(what, codecs.module(module), f"{CODECS}.{module}", known)
    for module, (root, is_read) in JSON_ROOTS.items():
        read = forms.reading(root) if is_read else ""
        body = f"{read}\n\n{forms.writing(root)}"
        if is_read:
            name = snake(root)
            body += (
                f"\n\ndef {name}_from_json(value: Any) -> {root}:\n"
                f'    """Reads a {root.lower()} from what ``json.loads`` gave; MalformedRecordError names the field."""\n'
                f'    return {known.records[root].more["check"]}(_{name.upper()}(value, "{name}"))\n'
            )
        what = {"what": "their JSON form", "module": module}
        texts[_path(CLASSES, f"{module}_json")] = _whole(what, body, f"{CLASSES}.{module}_json", known)
    texts[_path(CODECS, "headers")] = _headers(known)
    return texts


def _headers(known: Declared) -> str:
    """By which header each version of each record is known: the marker, and its schema's CRC-64-AVRO fingerprint."""
    newest, earlier = [], []
    for module in ORDER:
        newest.append(f'    "{known.roots[module]}": bytes.fromhex("{_header(SCHEMAS / f"{module}.avsc")}"),')
        for path in sorted(SCHEMAS.glob(f"{module}.*.avsc")):
            versions = f'("{known.roots[module]}", "{path.name}", "{module}.avsc")'
            earlier.append(f'    bytes.fromhex("{_header(path)}"): {versions},')
    return (
        '"""Generated from schemas/ by `make records`: the header of each record, by which its schema is known."""\n\n'
        "from __future__ import annotations\n\nfrom typing import Final\n\n"
        f"HEADERS: Final[dict[str, bytes]] = {{\n{chr(10).join(newest)}\n}}\n"
        f"EARLIER: Final[dict[bytes, tuple[str, str, str]]] = {{\n{chr(10).join(earlier)}\n}}\n"
        '"""Of earlier versions: the record, its schema\'s file, and the file of the newest one."""\n'
    )


def _header(path: Path) -> str:
    schema = json.loads(path.read_text(encoding="utf-8"))
    return f"c301{fingerprint(to_parsing_canonical_form(schema), 'CRC-64-AVRO')}"


def _path(package: str, module: str) -> str:
    return f"{package.replace('.', '/')}/{module}.py"


def _whole(what: dict[str, str], body: str, own: str, known: Declared) -> str:
    imports = "\n".join(_imports(body, own, known))
    return _HEAD.format(**what) + imports + "\n\n" + body + "\n"


def _imports(body: str, own: str, known: Declared) -> Iterator[str]:
    """Imports of the names that a module uses and does not make."""
    made = set(re.findall(r"^(?:class|def) (\w+)|^(\w+):", body, re.MULTILINE))
    own_names = {name for pair in made for name in pair if name}
    code = re.sub(r'"""(?s:.*?)"""', "", body)
    used = set(re.findall(r"(?<![.\w\"])(\w+)", code)) - own_names
    for module, names in _sources(own, known).items():
        if module != own and (found := sorted(used & names)):
            yield f"from {module} import {', '.join(found)}"


def _sources(own: str, known: Declared) -> dict[str, set[str]]:
    sources = {module: set(names.split()) for module, names in _STANDARD.items()}
    sources["commitlog.domain.model.record"] = {"Record", "Symbol", "new_named"}
    for table in (known.records, known.enums, known.unions):
        for name, each in table.items():
            sources.setdefault(f"{CLASSES}.{each.module}", set()).add(name)
            if name in known.unions:
                sources[f"{CLASSES}.{each.module}"].add(f"{name}Kind")
    sources[f"{CLASSES}.file_statistics"] |= {"ColumnStatistics"}
    sources["commitlog.domain.model.values"] = set(_VALUES.split())
    sources["commitlog.domain.model.checks"] = {"check_id_version"}
    sources["commitlog.domain.model.statistics"] = {"Statistics"}
    if own.startswith(CODECS):
        sources["commitlog.log.codec.avro"] = set(_AVRO.split())
        sources["commitlog.log.codec.values"] = set(_CODEC_VALUES.split())
        sources["commitlog.log.codec.statistics"] = {"read_statistics", "write_statistics"}
        sources["librt.strings"] = {"BytesWriter"}
        for name, record in known.records.items():
            names = {f"write_{snake(name)}", f"read_{snake(name)}"}
            sources.setdefault(f"{CODECS}.{record.module}", set()).update(names)
            for enum in known.enums.values():
                upper = snake(enum.name).upper()
                sources.setdefault(f"{CODECS}.{enum.module}", set()).update({f"_{upper}", f"_{upper}_MEMBERS"})
    elif own.endswith("_json"):
        sources["commitlog.domain.model.json_values"] = set(_JSON.split())
    return sources


def formatted(text: str, path: str) -> str:
    """The text as the linter wants it."""
    ruff = Path(sys.executable).with_name("ruff")
    for command in (("check", "--fix", "--quiet", "--exit-zero"), ("format", "--quiet")):
        run = subprocess.run(
            [ruff, *command, "--stdin-filename", SCHEMAS.parent / path, "-"],
            input=text,
            capture_output=True,
            text=True,
            check=True,
            cwd=SCHEMAS.parent,
        )
        text = run.stdout
    return text


def main() -> None:
    """Writes the modules; with --check only says which are not what the schemas declare."""
    is_check, differ = sys.argv[1:] == ["--check"], []
    for path, text in generated().items():
        target, made = SCHEMAS.parent / path, formatted(text, path)
        if target.exists() and target.read_text(encoding="utf-8") == made:
            continue
        differ.append(path)
        if not is_check:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(made, encoding="utf-8")
            print(path)
    if is_check and differ:
        sys.exit(f"not what the schemas declare, `make records` writes them: {', '.join(differ)}")


if __name__ == "__main__":
    main()
