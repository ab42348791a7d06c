"""Proposals and outcomes as JSON, the form that people meet: files, the command line, scenarios (rules.md 11).

What does not have the form raises ``MalformedRecordError`` that names the field; whether a well-formed proposal makes
sense is for ``decide``. The reading side is one table of fields per type, so that unknown fields and missing ones are
found everywhere in the same way.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple, TypeVar

from pyroaring import AbstractBitMap64, FrozenBitMap64

from commitlog.domain import model as m
from commitlog.domain.model.ids import id_time_ms
from commitlog.errors import MalformedRecordError

T = TypeVar("T")
Reader = Callable[[Any, str], Any]
_REQUIRED: Any = object()
_UUID = re.compile(r"[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
NESTING_MAX = 200
"""How deep a value of a row may be nested to be looked at at all."""


def format_id(proposal_id: m.ProposalId) -> str:
    """The text of a 16-byte id: ``01934f3e-7c00-7000-8000-000000000001``."""
    digits = proposal_id.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def parse_id(text: object) -> m.ProposalId:
    """The 16 bytes of a UUID in its usual text form; raises MalformedRecordError for anything else."""
    if not isinstance(text, str) or _UUID.fullmatch(text) is None:
        raise MalformedRecordError(f"proposal_id: {_shown(text)} is no UUID")
    return bytes.fromhex(text.replace("-", ""))


def _shown(value: object) -> str:
    try:
        text = json.dumps(value)
    except (TypeError, ValueError):
        text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


# --- readers ----------------------------------------------------------------------------------------------------------


class _Field(NamedTuple):
    read: Reader
    default: Any = _REQUIRED


def _wrong(where: str, value: object, wanted: str) -> MalformedRecordError:
    return MalformedRecordError(f"{where}: expected {wanted}, not {_shown(value)}")


def _integer(value: Any, where: str) -> int:
    if type(value) is not int:
        raise _wrong(where, value, "an integer")
    if not m.BIGINT_MIN <= value <= m.BIGINT_MAX:
        raise MalformedRecordError(f"{where}: {_shown(value)} is beyond a 64-bit integer")
    return value


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise _wrong(where, value, "text")
    return value


def _boolean(value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise _wrong(where, value, "true or false")
    return value


def _scalar(value: Any, where: str) -> m.Scalar:
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise MalformedRecordError(f"{where}: {_shown(value)} is beyond a 64-bit float")
        return value
    if isinstance(value, int):
        return _integer(value, where)
    raise _wrong(where, value, "null, true, false, a number or text")


def is_nested_deeper(value: object, levels: int) -> bool:
    """Whether lists and objects are in one another more than ``levels`` deep; found out without recursion."""
    level: list[object] = [value]
    for _ in range(levels):
        level = [
            inner
            for outer in level
            if isinstance(outer, list | dict)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, list | dict)
        ]
        if not level:
            return False
    return True


def _row_values(value: Any, where: str) -> m.RowValue:
    if is_nested_deeper(value, NESTING_MAX):
        raise MalformedRecordError(f"{where}: nested deeper than {NESTING_MAX}")
    return _row_value(value, where)


def _row_value(value: Any, where: str) -> m.RowValue:
    if isinstance(value, list):
        return [_row_value(item, where) for item in value]
    if isinstance(value, dict):
        return {_text(key, where): _row_value(item, where) for key, item in value.items()}
    return _scalar(value, where)


def _row(value: Any, where: str) -> m.Row:
    if not isinstance(value, dict):
        raise _wrong(where, value, "an object of column: value")
    return {_text(key, where): _row_values(item, f"{where}.{key}") for key, item in value.items()}


def _default_text(value: Any, where: str) -> str:
    scalar = _scalar(value, where)
    if isinstance(scalar, bool):
        return "true" if scalar else "false"
    return str(scalar)


def _optional(read: Reader) -> Reader:
    return lambda value, where: None if value is None else read(value, where)


def _list(read: Reader) -> Reader:
    def read_list(value: Any, where: str) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise _wrong(where, value, "a list")
        return tuple(read(item, f"{where}[{index}]") for index, item in enumerate(value))

    return read_list


def _mapping(read: Reader) -> Reader:
    def read_mapping(value: Any, where: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise _wrong(where, value, "an object")
        return {key: read(item, f"{where}.{key}") for key, item in value.items()}

    return read_mapping


def _enum(kind: type[T]) -> Reader:
    def read_enum(value: Any, where: str) -> T:
        try:
            return kind(value)  # type: ignore[call-arg]
        except ValueError:
            known = ", ".join(str(member) for member in kind)  # type: ignore[attr-defined]
            raise MalformedRecordError(f"{where}: {_shown(value)} is none of {known}") from None

    return read_enum


def _positions(value: Any, where: str) -> m.RowPositions:
    rows: tuple[int, ...] = _list(_integer)(value, where)
    return row_positions(rows)


def row_positions(rows: tuple[int, ...] | list[int]) -> m.RowPositions:
    """Make a set of row positions; what is no set (negative or given twice) stays as written, for decide to refuse."""
    if any(row < 0 for row in rows):
        return tuple(rows)
    positions = FrozenBitMap64(rows)
    return positions if len(positions) == len(rows) else tuple(rows)


def _read_fields(value: Any, where: str, known: Mapping[str, _Field], skip: tuple[str, ...] = ()) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _wrong(where, value, "an object")
    for name in value:
        if name not in known and name not in skip:
            raise MalformedRecordError(f"{where}: unknown field {_shown(name)}; known are {', '.join(known)}")
    found: dict[str, Any] = {}
    for name, (read, default) in known.items():
        if name in value:
            found[name] = read(value[name], f"{where}.{name}")
        elif default is _REQUIRED:
            raise MalformedRecordError(f"{where}: the field {name!r} is missing")
        else:
            found[name] = default
    return found


def _object(kind: Callable[..., T], known: Mapping[str, _Field]) -> Reader:
    return lambda value, where: kind(**_read_fields(value, where, known))


_NULL_INT = _Field(_optional(_integer), None)
_COLUMN = _object(
    m.ColumnSpec,
    {
        "name": _Field(_text),
        "type": _Field(_text),
        "nullable": _Field(_boolean, True),
        "default": _Field(_optional(_default_text), None),
    },
)
_PARTITION_BY = _list(_object(m.PartitionSpec, {"column": _Field(_text), "transform": _Field(_text)}))
_FOREIGN_KEY = _object(
    m.ForeignKeySpec,
    {
        "columns": _Field(_list(_text)),
        "ref_schema": _Field(_text),
        "ref_table": _Field(_text),
        "ref_columns": _Field(_list(_text)),
    },
)
_STATISTICS = _object(
    m.ColumnStatistics,
    {
        "column": _Field(_text),
        "min": _Field(_scalar, None),
        "max": _Field(_scalar, None),
        "null_count": _NULL_INT,
        "value_count": _NULL_INT,
        "contains_nan": _Field(_optional(_boolean), None),
        "size_bytes": _NULL_INT,
    },
)
_MAPPED_COLUMN: Reader = _object(
    m.MappedColumn,
    {
        "source_name": _Field(_text),
        "column": _Field(_text),
        "children": _Field(lambda value, where: _list(_MAPPED_COLUMN)(value, where), ()),
    },
)
_FILE_FIELDS = {
    "path": _Field(_text),
    "path_is_relative": _Field(_boolean, True),
    "record_count": _Field(_integer),
    "file_size_bytes": _Field(_integer),
    "footer_size": _NULL_INT,
    "statistics": _Field(_list(_STATISTICS), ()),
    "partition_values": _Field(_optional(_list(_scalar)), None),
    "name_mapping": _Field(_optional(_list(_MAPPED_COLUMN)), None),
}
_FILE = _object(m.DataFile, _FILE_FIELDS)
_FLUSHED_FILE = _object(m.DataFile, {**_FILE_FIELDS, "row_ids": _Field(_list(_integer))})
_POSITION_DELETE = _object(m.PositionDelete, {"data_file_id": _Field(_integer), "rows": _Field(_positions)})
_DELETE_FILE = _object(
    m.DeleteFile,
    {
        "data_file_id": _Field(_integer),
        "path": _Field(_text),
        "path_is_relative": _Field(_boolean, True),
        "rows": _Field(_positions),
        "file_size_bytes": _Field(_integer),
        "footer_size": _NULL_INT,
    },
)
_ORIGIN = _object(
    m.RowOrigin,
    {"node": _Field(_text), "tick": _Field(_integer), "stamp_ms": _Field(_integer), "priority": _Field(_integer)},
)

_ALTERATIONS: dict[m.AlterOp, dict[str, _Field]] = {
    m.AlterOp.ADD_COLUMN: {"column": _Field(_COLUMN)},
    m.AlterOp.DROP_COLUMN: {"name": _Field(_text)},
    m.AlterOp.RENAME_COLUMN: {"name": _Field(_text), "new_name": _Field(_text)},
    m.AlterOp.SET_TYPE: {"name": _Field(_text), "type": _Field(_text)},
    m.AlterOp.SET_NULLABLE: {"name": _Field(_text), "nullable": _Field(_boolean, True)},
    m.AlterOp.SET_DEFAULT: {"name": _Field(_text), "default": _Field(_optional(_default_text), None)},
    m.AlterOp.SET_PARTITION_BY: {"partition_by": _Field(_PARTITION_BY, ())},
    m.AlterOp.SET_COMMENT: {"name": _Field(_optional(_text), None), "comment": _Field(_optional(_text))},
    m.AlterOp.SET_PROPERTY: {"key": _Field(_text), "value": _Field(_optional(_text))},
}


def _alteration(value: Any, where: str) -> m.Alteration:
    if not isinstance(value, dict) or "op" not in value:
        raise MalformedRecordError(f"{where}: an alteration is an object with an 'op'")
    op = _enum(m.AlterOp)(value["op"], f"{where}.op")
    return m.Alteration(op=op, **_read_fields(value, where, _ALTERATIONS[op], skip=("op",)))


_SCHEMA = _Field(_text)
_TABLE = {"schema": _SCHEMA, "table": _Field(_text)}
_VIEW = {"schema": _SCHEMA, "view": _Field(_text)}
_SQL = {"sql": _Field(_text), "dialect": _Field(_text, "duckdb")}
_ROW_CHANGE = {"row_time_us": _NULL_INT, "origin": _Field(_optional(_ORIGIN), None)}
_IF_EXISTS = {"if_exists": _Field(_boolean, False)}
_IF_NOT_EXISTS = {"if_not_exists": _Field(_boolean, False)}

_CHANGES: dict[m.ChangeKind, tuple[Callable[..., m.Change], dict[str, _Field]]] = {
    m.ChangeKind.CREATE_SCHEMA: (m.CreateSchema, {"schema": _SCHEMA, **_IF_NOT_EXISTS}),
    m.ChangeKind.DROP_SCHEMA: (m.DropSchema, {"schema": _SCHEMA, "cascade": _Field(_boolean, False), **_IF_EXISTS}),
    m.ChangeKind.CREATE_TABLE: (
        m.CreateTable,
        {
            **_TABLE,
            "columns": _Field(_list(_COLUMN)),
            "primary_key": _Field(_list(_text), ()),
            "unique": _Field(_list(_list(_text)), ()),
            "foreign_keys": _Field(_list(_FOREIGN_KEY), ()),
            "partition_by": _Field(_PARTITION_BY, ()),
            "exclusion_constraints": _Field(_list(lambda value, _: json.dumps(value)), ()),
            "properties": _Field(_mapping(_text), {}),
            **_IF_NOT_EXISTS,
        },
    ),
    m.ChangeKind.DROP_TABLE: (m.DropTable, {**_TABLE, **_IF_EXISTS}),
    m.ChangeKind.RENAME_TABLE: (m.RenameTable, {**_TABLE, "new_table": _Field(_text)}),
    m.ChangeKind.ALTER_TABLE: (m.AlterTable, {**_TABLE, "alterations": _Field(_list(_alteration))}),
    m.ChangeKind.CREATE_VIEW: (m.CreateView, {**_VIEW, **_SQL, **_IF_NOT_EXISTS}),
    m.ChangeKind.REPLACE_VIEW: (m.ReplaceView, {**_VIEW, **_SQL}),
    m.ChangeKind.DROP_VIEW: (m.DropView, {**_VIEW, **_IF_EXISTS}),
    m.ChangeKind.APPEND: (m.Append, {**_TABLE, "files": _Field(_list(_FILE))}),
    m.ChangeKind.DELETE: (
        m.Delete,
        {
            **_TABLE,
            "positions": _Field(_list(_POSITION_DELETE), ()),
            "delete_files": _Field(_list(_DELETE_FILE), ()),
            "whole_files": _Field(_list(_integer), ()),
        },
    ),
    m.ChangeKind.COMPACT: (m.Compact, {**_TABLE, "replaced": _Field(_list(_integer)), "files": _Field(_list(_FILE))}),
    m.ChangeKind.INSERT_ROW: (m.InsertRow, {**_TABLE, "row": _Field(_row), **_ROW_CHANGE}),
    m.ChangeKind.UPDATE_ROW: (m.UpdateRow, {**_TABLE, "key": _Field(_row), "row": _Field(_row), **_ROW_CHANGE}),
    m.ChangeKind.DELETE_ROW: (m.DeleteRow, {**_TABLE, "key": _Field(_row), **_ROW_CHANGE}),
    m.ChangeKind.FLUSH: (m.Flush, {**_TABLE, "files": _Field(_list(_FLUSHED_FILE))}),
    m.ChangeKind.EXPIRE_SNAPSHOTS: (m.ExpireSnapshots, {"older_than_snapshot_id": _Field(_integer)}),
    m.ChangeKind.CONFIGURE: (m.Configure, {"settings": _Field(_mapping(_scalar))}),
}


def _change(value: Any, where: str) -> m.Change:
    if not isinstance(value, dict) or "kind" not in value:
        raise MalformedRecordError(f"{where}: a change is an object with a 'kind'")
    kind = _enum(m.ChangeKind)(value["kind"], f"{where}.kind")
    make, known = _CHANGES[kind]
    return make(**_read_fields(value, where, known, skip=("kind",)))


def _predicate(value: Any, where: str) -> m.Predicate:
    known = {"column": _Field(_text), "op": _Field(_enum(m.FilterOp)), "value": _Field(lambda v, _: v, None)}
    found = _read_fields(value, where, known)
    op, literal = found["op"], found["value"]
    match op:
        case m.FilterOp.IN:
            literal = _list(_scalar)(literal, f"{where}.value")
        case m.FilterOp.BETWEEN:
            literal = _list(_scalar)(literal, f"{where}.value")
            if len(literal) != 2:
                raise MalformedRecordError(f"{where}.value: between takes [low, high]")
        case m.FilterOp.IS_NULL | m.FilterOp.IS_NOT_NULL:
            if literal is not None:
                raise MalformedRecordError(f"{where}.value: {op} takes no value")
        case _:
            if "value" not in value:
                raise MalformedRecordError(f"{where}: the field 'value' is missing")
            literal = _scalar(literal, f"{where}.value")
    return m.Predicate(found["column"], op, literal)


_READS: dict[m.ReadKind, tuple[Callable[..., m.Read], dict[str, _Field]]] = {
    m.ReadKind.TABLE: (
        m.TableRead,
        {**_TABLE, "filter": _Field(_list(_predicate), ()), "files": _Field(_optional(_list(_integer)), None)},
    ),
    m.ReadKind.NAME: (m.NameRead, {"schema": _SCHEMA, "name": _Field(_optional(_text), None)}),
    m.ReadKind.ROWS: (m.RowsRead, {**_TABLE, "keys": _Field(_list(_row))}),
}


def _read(value: Any, where: str) -> m.Read:
    if not isinstance(value, dict) or "kind" not in value:
        raise MalformedRecordError(f"{where}: a read is an object with a 'kind'")
    kind = _enum(m.ReadKind)(value["kind"], f"{where}.kind")
    make, known = _READS[kind]
    return make(**_read_fields(value, where, known, skip=("kind",)))


_NULL_TEXT = _Field(_optional(_text), None)
_PROPOSAL = {
    "proposal_id": _Field(lambda value, _: parse_id(value)),
    "writer_id": _Field(_text),
    "writer_epoch": _NULL_INT,
    "writer_seq": _NULL_INT,
    "open_writer": _Field(_boolean, False),
    "decide_before_ms": _NULL_INT,
    "base_snapshot_id": _Field(_integer),
    "isolation": _Field(_enum(m.Isolation), m.Isolation.SNAPSHOT),
    "reads": _Field(_list(_read), ()),
    "changes": _Field(_list(_change)),
    "author": _NULL_TEXT,
    "message": _NULL_TEXT,
    "extra": _NULL_TEXT,
    "created_at_ms": _Field(_integer, 0),
}


def proposal_from_json(value: Any) -> m.Proposal:
    """Read a proposal from what ``json.loads`` gave; raises MalformedRecordError that names the field."""
    proposal = m.Proposal(**_read_fields(value, "proposal", _PROPOSAL))
    check_id_version(proposal.proposal_id, proposal.writer_seq)
    return proposal


def check_id_version(proposal_id: m.ProposalId, writer_seq: int | None) -> None:
    """Raise MalformedRecordError for an id without a time in it where only its time can tell a repeat."""
    if writer_seq is None and id_time_ms(proposal_id) is None:
        raise MalformedRecordError(
            f"proposal_id: {format_id(proposal_id)} is not a UUID version 7, which a proposal without writer_seq needs"
        )


def _no_constant(name: str) -> float:
    raise MalformedRecordError(f"{name} is no JSON number")


def _bounded_int(digits: str) -> int:
    if len(digits) > 20 or not m.BIGINT_MIN <= int(digits) <= m.BIGINT_MAX:
        raise MalformedRecordError(f"the number {digits[:24]} is beyond a 64-bit integer")
    return int(digits)


def parse_proposal(line: bytes | str) -> m.Proposal | m.MalformedProposal:
    """Read one line of a proposals file; what is none comes back as a MalformedProposal, with its ids if they can be read."""
    value: Any = None
    try:
        text = line.decode("utf-8") if isinstance(line, bytes) else line
        value = json.loads(text, parse_int=_bounded_int, parse_constant=_no_constant)
        return proposal_from_json(value)
    except MalformedRecordError as error:
        detail = str(error)
    except UnicodeDecodeError as error:
        detail = f"not UTF-8: {error.reason} at byte {error.start}"
    except json.JSONDecodeError as error:
        detail = f"not JSON: {error.msg} at column {error.colno}"
    except RecursionError:
        detail = "not a proposal: nested too deep"
    return m.MalformedProposal(detail, *_readable_ids(value))


def _readable_ids(value: Any) -> tuple[m.ProposalId | None, str | None]:
    if not isinstance(value, dict):
        return None, None
    try:
        proposal_id: m.ProposalId | None = parse_id(value.get("proposal_id"))
    except MalformedRecordError:
        proposal_id = None
    writer_id = value.get("writer_id")
    return proposal_id, writer_id if isinstance(writer_id, str) else None


# --- writing ----------------------------------------------------------------------------------------------------------


def to_json(value: Any) -> Any:
    """Turn a value of ``model`` into what ``json.dumps`` takes, under the same field names."""
    if isinstance(value, bytes):
        return format_id(value) if len(value) == 16 else value.hex()
    if isinstance(value, AbstractBitMap64):
        return list(value)
    if is_dataclass(value):
        plain = {f.name: to_json(getattr(value, f.name)) for f in fields(value)}
        return {"kind": str(value.kind), **plain} if "kind" not in plain and hasattr(value, "kind") else plain
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {name: to_json(item) for name, item in value._asdict().items()}
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    if isinstance(value, Mapping):
        return {key: to_json(item) for key, item in value.items()}
    return value


def _change_to_json(change: m.Change) -> dict[str, Any]:
    plain: dict[str, Any] = to_json(change)
    if isinstance(change, m.AlterTable):
        plain["alterations"] = [
            {"op": str(step.op), **{name: to_json(getattr(step, name)) for name in _ALTERATIONS[step.op]}}
            for step in change.alterations
        ]
    if isinstance(change, m.Append | m.Compact):
        for file in plain["files"]:
            del file["row_ids"]
    return plain


def proposal_to_json(proposal: m.Proposal) -> dict[str, Any]:
    """The JSON form of a proposal; ``proposal_from_json`` reads it back. Opaque statistics must be expanded before."""
    plain = {name: to_json(getattr(proposal, name)) for name in _PROPOSAL}
    plain["changes"] = [_change_to_json(change) for change in proposal.changes]
    return plain


def conflict_to_json(conflict: m.Conflict) -> dict[str, Any]:
    """The JSON form of a conflict."""
    return {
        "kind": str(conflict.kind),
        "proposed": {"change": conflict.proposed_change, "read": conflict.proposed_read},
        "object": to_json(conflict.object),
        "committed_snapshot_id": conflict.committed_snapshot_id,
        "committed_proposal_id": to_json(conflict.committed_proposal_id),
        "committed_writer_id": conflict.committed_writer_id,
        "detail": conflict.detail,
    }


def outcome_to_json(outcome: m.Outcome) -> dict[str, Any]:
    """The JSON form of an outcome, without its proposal."""
    return {
        "seq": outcome.seq,
        "epoch": outcome.epoch,
        "source": to_json(outcome.source),
        "proposal_id": to_json(outcome.proposal_id),
        "writer_id": outcome.writer_id,
        "decided_at_ms": outcome.decided_at_ms,
        "verdict": str(outcome.verdict),
        "snapshot_id": outcome.snapshot_id,
        "head_snapshot_id": outcome.head_snapshot_id,
        "reason": None if outcome.reason is None else str(outcome.reason),
        "detail": outcome.detail,
        "conflicts": [conflict_to_json(conflict) for conflict in outcome.conflicts],
        "conflict_count": outcome.conflict_count,
        "resolutions": to_json(outcome.resolutions),
        "assigned": to_json(outcome.assigned),
        "original_seq": outcome.original_seq,
        "same_content": outcome.same_content,
    }
