"""The manual's page of records, printed from the schemas that declare them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from commitlog.log.codec.framing import schemas_dir

_HEAD = """\
# Records

What lies in a log's topics, field by field: Avro, each value with its schema's fingerprint before it. How a reader tells which
records count is on [Reading the results](reading-results.md); the JSON of `--json`, `commitlog submit` and `replay` has the
same fields, with uuids and enums as text. The files are `schemas/*.avsc` in the repository and `commitlog/schemas` in the
package; a released schema that was changed since stays there as `<record>.<n>.avsc`, and is read for ever.

This page is printed by `commitlog manual records`.
"""
_TOPICS = {
    "proposal": "proposals",
    "outcome": "results",
    "genesis": "results, its first record",
    "takeover": "results",
    "receipts": "receipts",
    "dead_letter": "dead-letters",
    "heartbeat": "control",
    "trim": "trims, which `commitlog archive --trim` makes",
    "file_statistics": "none: within a proposal, as bytes",
    "checkpoint_section": "none: in a checkpoint's file",
}


def records_page() -> str:
    """The page "Records", in Markdown."""
    lines = [_HEAD]
    for file, topic in _TOPICS.items():
        schema = json.loads((schemas_dir() / f"{file}.avsc").read_text(encoding="utf-8"))
        lines += [f"## {schema['name']}", "", f"{schema['doc']} Topic: {topic}. Schema: `{file}.avsc`.", ""]
        lines += _fields(schema)
        for record in _records_within(schema):
            lines += [f"**{record['name']}**: {record.get('doc', '')}", "", *_fields(record)]
    return "\n".join(lines)


def _fields(record: Mapping[str, Any]) -> list[str]:
    rows = [f"| `{f['name']}` | {_type(f['type'])} | {_default(f)} | {f.get('doc', '')} |" for f in record["fields"]]
    return ["| field | type | default | meaning |", "|---|---|---|---|", *rows, ""]


def _default(field: Mapping[str, Any]) -> str:
    return f"`{json.dumps(field['default'])}`" if "default" in field else ""


def _type(declared: Any) -> str:
    """A type in words; named ones that have a table of their own by their name."""
    if isinstance(declared, list):
        return " or ".join(map(_type, declared))
    if isinstance(declared, str):
        return declared.rpartition(".")[2]
    match declared["type"]:
        case "array":
            return f"list of {_type(declared['items'])}"
        case "map":
            return f"map to {_type(declared['values'])}"
        case "enum":
            return f"{declared['name']}: " + ", ".join(declared["symbols"])
        case "fixed":
            return f"{declared['name']}: {declared['size']} bytes"
        case "record":
            return str(declared["name"])
        case other:
            return _type(other)


def _records_within(declared: Any) -> Iterator[Mapping[str, Any]]:
    """The records that are declared inside a type, in their order, without itself."""
    for inner in _parts(declared):
        if isinstance(inner, dict) and inner.get("type") == "record":
            yield inner
        yield from _records_within(inner)


def _parts(declared: Any) -> list[Any]:
    if isinstance(declared, list):
        return declared
    if not isinstance(declared, dict):
        return []
    match declared["type"]:
        case "record":
            return [field["type"] for field in declared["fields"]]
        case "array":
            return [declared["items"]]
        case "map":
            return [declared["values"]]
        case "enum" | "fixed":
            return []
        case other:
            return [other]
