"""The short form of changes and reads in scenario files, and their JSON.

A proposal is ``base N: CHANGE; CHANGE | reading READ, READ | as WRITER``. Names are of schema main unless dotted. Changes:

    create schema s [if not exists]            drop schema s [cascade] [if exists]
    create table t (id int64, v varchar not null) [key id] [unique v] [parent -> p.id] [at ROW] [policy ABORT]
    drop table t      rename t to u            create view v      replace view v      drop view v
    alter t add x int64 [not null]             alter t drop x     alter t rename x to y     alter t type x int64
    alter t not null x      alter t default x 1      alter t comment some words      alter t at ROW      alter t by x
    append t 10 10          (row counts, each may bear bounds of the first column: 10[1..5])
    delete t 0:1,2 1:whole 2:file:3,4          compact t 0 1 -> 20
    insert k id=1 v=x       update k 1 v=y     delete row k 1     (a number after ``time`` is row_time_us)
    flush k 0 1             (row ids)          expire 3           configure window_snapshots=2

Reads are ``t [where id = 5] [files 0 1]``, ``name t``, ``names of main`` and ``rows k 1 2``.
"""

from __future__ import annotations

import re
from itertools import count
from typing import Any

Json = dict[str, Any]
_NUMBERS = count()
_FLAGS = ("if_not_exists", "if_exists", "cascade")


def parse_proposal(text: str) -> Json:
    """The fields of a proposal: base, changes, reads, isolation and writer."""
    head, _, rest = text.partition(":")
    changes, *parts = rest.split("|")
    fields: Json = {
        "base": int(head.removeprefix("base ")),
        "changes": [_change(part) for part in _split(changes, ";")],
    }
    for part in parts:
        word, _, value = part.strip().partition(" ")
        if word == "reading":
            fields |= {"isolation": "SERIALIZABLE", "reads": [_read(read) for read in _split(value, ",")]}
        elif word == "as":
            fields["writer_id"] = value
        else:
            raise ValueError(f"{part!r} is neither reading nor as")
    return fields


def _split(text: str, separator: str) -> list[str]:
    return [part.strip() for part in text.split(separator) if part.strip()]


def _name(text: str, key: str = "table") -> Json:
    schema, _, name = text.rpartition(".")
    return {"schema": schema or "main", key: name}


def _scalar(text: str) -> Any:
    return int(text) if re.fullmatch(r"-?\d+", text) else text


def _change(text: str) -> Json:
    for verb, make in _VERBS.items():
        if text.startswith(verb + " "):
            return make(text.removeprefix(verb + " ").strip())
    raise ValueError(f"no change: {text!r}")


def _flags(text: str) -> tuple[str, Json]:
    flags: Json = {}
    for flag in _FLAGS:
        words = flag.replace("_", " ")
        if words in text:
            text, flags[flag] = text.replace(words, "").strip(), True
    return text, flags


def _schema_change(kind: str) -> Any:
    def make(text: str) -> Json:
        name, flags = _flags(text)
        return {"kind": kind, "schema": name, **flags}

    return make


def _entry_change(kind: str, key: str, **more: str) -> Any:
    def make(text: str) -> Json:
        name, flags = _flags(text)
        return {"kind": kind, **_name(name, key), **more, **flags}

    return make


# --- tables -----------------------------------------------------------------------------------------------------------


def _column(text: str) -> Json:
    name, kind, *rest = text.split()
    return {"name": name, "type": kind, "nullable": rest != ["not", "null"]}


def _create_table(text: str) -> Json:
    text, flags = _flags(text)
    name, columns, rest = re.fullmatch(r"(\S+) \(([^)]*)\)(.*)", text).groups()  # type: ignore[union-attr]
    change = {"kind": "CREATE_TABLE", **_name(name), "columns": [_column(c) for c in _split(columns, ",")], **flags}
    words = rest.split()
    properties: Json = {}
    while words:
        word = words.pop(0)
        if words and words[0] == "->":
            change.setdefault("foreign_keys", []).append(_foreign_key(word, words[1]))
            del words[:2]
        elif word in ("key", "unique"):
            named = words.pop(0)
            change |= {"primary_key": [named]} if word == "key" else {"unique": [*change.get("unique", []), [named]]}
        else:
            properties[{"at": "conflict_granularity", "policy": "on_conflict"}[word]] = words.pop(0)
    return change | {"properties": properties}


def _foreign_key(column: str, target: str) -> Json:
    *table, ref_column = target.split(".")
    name = _name(".".join(table))
    return {"columns": [column], "ref_schema": name["schema"], "ref_table": name["table"], "ref_columns": [ref_column]}


def _rename_table(text: str) -> Json:
    old, new = text.split(" to ")
    return {"kind": "RENAME_TABLE", **_name(old), "new_table": new}


def _alter(text: str) -> Json:
    table, rest = text.split(" ", 1)
    return {"kind": "ALTER_TABLE", **_name(table), "alterations": [_alteration(rest)]}


def _alteration(text: str) -> Json:
    words = text.split()
    match words:
        case ["add", *_]:
            return {"op": "ADD_COLUMN", "column": _column(text.removeprefix("add "))}
        case ["drop", name]:
            return {"op": "DROP_COLUMN", "name": name}
        case ["rename", name, "to", new_name]:
            return {"op": "RENAME_COLUMN", "name": name, "new_name": new_name}
        case ["type", name, kind]:
            return {"op": "SET_TYPE", "name": name, "type": kind}
        case ["not", "null", name]:
            return {"op": "SET_NULLABLE", "name": name, "nullable": False}
        case ["default", name, value]:
            return {"op": "SET_DEFAULT", "name": name, "default": value}
        case ["comment", *_]:
            return {"op": "SET_COMMENT", "name": None, "comment": text.removeprefix("comment ")}
        case ["at", value]:
            return {"op": "SET_PROPERTY", "key": "conflict_granularity", "value": value}
        case ["by", name]:
            return {"op": "SET_PARTITION_BY", "partition_by": [{"column": name, "transform": "identity"}]}
    raise ValueError(f"no alteration: {text!r}")


# --- files ------------------------------------------------------------------------------------------------------------


def _file(text: str) -> Json:
    count, low, high = re.fullmatch(r"(\d+)(?:\[(\d+)\.\.(\d+)\])?", text).groups()  # type: ignore[union-attr]
    statistics = [] if low is None else [{"column": "id", "min": int(low), "max": int(high), "null_count": 0}]
    return {
        "path": f"f{next(_NUMBERS)}.parquet",
        "record_count": int(count),
        "file_size_bytes": 1000,
        "statistics": statistics,
    }


def _append(text: str) -> Json:
    table, *counts = text.split()
    return {"kind": "APPEND", **_name(table), "files": [_file(count) for count in counts]}


def _delete(text: str) -> Json:
    table, *targets = text.split()
    change: Json = {"kind": "DELETE", **_name(table), "positions": [], "delete_files": [], "whole_files": []}
    for target in targets:
        file_id, *how = target.split(":")
        if how == ["whole"]:
            change["whole_files"].append(int(file_id))
            continue
        entry = {"data_file_id": int(file_id), "rows": [int(row) for row in how[-1].split(",")]}
        if how[0] == "file":
            change["delete_files"].append({**entry, "path": f"d{next(_NUMBERS)}.parquet", "file_size_bytes": 100})
        else:
            change["positions"].append(entry)
    return change


def _compact(text: str) -> Json:
    replaced, _, counts = text.partition("->")
    table, *file_ids = replaced.split()
    return {
        "kind": "COMPACT",
        **_name(table),
        "replaced": [int(file_id) for file_id in file_ids],
        "files": [_file(count) for count in counts.split()],
    }


# --- rows -------------------------------------------------------------------------------------------------------------


def _row(words: list[str]) -> tuple[Json, Json]:
    time: Json = {}
    if "time" in words:
        at = words.index("time")
        time, words = {"row_time_us": int(words[at + 1])}, words[:at]
    return {name: _scalar(value) for name, value in (word.split("=") for word in words)}, time


def _insert(text: str) -> Json:
    table, *words = text.split()
    row, time = _row(words)
    return {"kind": "INSERT_ROW", **_name(table), "row": row, **time}


def _update(text: str) -> Json:
    table, key, *words = text.split()
    row, time = _row(words)
    return {"kind": "UPDATE_ROW", **_name(table), "key": {"id": int(key)}, "row": {"id": int(key)} | row, **time}


def _delete_row(text: str) -> Json:
    table, key, *words = text.split()
    return {"kind": "DELETE_ROW", **_name(table), "key": {"id": int(key)}, **_row(words)[1]}


def _flush(text: str) -> Json:
    table, *row_ids = text.split()
    file = _file(str(len(row_ids))) | {"row_ids": [int(row_id) for row_id in row_ids]}
    return {"kind": "FLUSH", **_name(table), "files": [file]}


def _configure(text: str) -> Json:
    return {
        "kind": "CONFIGURE",
        "settings": {key: _scalar(value) for key, value in (w.split("=") for w in text.split())},
    }


_VERBS = {
    "create schema": _schema_change("CREATE_SCHEMA"),
    "drop schema": _schema_change("DROP_SCHEMA"),
    "create table": _create_table,
    "drop table": _entry_change("DROP_TABLE", "table"),
    "rename": _rename_table,
    "alter": _alter,
    "create view": _entry_change("CREATE_VIEW", "view", sql="SELECT 1"),
    "replace view": _entry_change("REPLACE_VIEW", "view", sql="SELECT 2"),
    "drop view": _entry_change("DROP_VIEW", "view"),
    "append": _append,
    "delete row": _delete_row,
    "delete": _delete,
    "compact": _compact,
    "insert": _insert,
    "update": _update,
    "flush": _flush,
    "expire": lambda text: {"kind": "EXPIRE_SNAPSHOTS", "older_than_snapshot_id": int(text)},
    "configure": _configure,
}


# --- reads ------------------------------------------------------------------------------------------------------------


def _read(text: str) -> Json:
    words = text.split()
    match words:
        case ["name", name]:
            return {"kind": "NAME", **_name(name, "name")}
        case ["names", "of", schema]:
            return {"kind": "NAME", "schema": schema, "name": None}
        case ["rows", table, *keys]:
            return {"kind": "ROWS", **_name(table), "keys": [{"id": int(key)} for key in keys]}
    table, *words = words
    read: Json = {"kind": "TABLE", **_name(table), "filter": [], "files": None}
    if words[:1] == ["where"]:
        read["filter"] = [{"column": words[1], "op": words[2], "value": _scalar(words[3])}]
        words = words[4:]
    if words[:1] == ["files"]:
        read["files"] = [int(file_id) for file_id in words[1:]]
    return read
