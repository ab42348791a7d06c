"""What a proposal asks for in 64 bits, by which a repetition is told from another write under the same key (rules.md 12.33).

A writer that does its work again makes new files, of other names, sizes and numbers, and may do so from a newer base. So
the upper half is of what it wants whatever the base; then come 16 bits of the base, and 16 of what was computed from it,
such as ids of files and positions, which are compared only between proposals from one base.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from zlib import crc32

from commitlog.domain import model as m
from commitlog.domain.model.record import Record
from commitlog.domain.model.types import fold

_HALF = 0xFFFF
_SIGN = 1 << 31
_TABLES_MAX = 4_096


def content_of(proposal: m.Proposal) -> int:
    """What a proposal asks for, as a signed 64-bit number; times, texts about it, reads and statistics do not count."""
    rewrites = False
    for change in proposal.changes:
        rewrites = rewrites or isinstance(change, (m.Delete, m.Compact, m.Flush))
    wanted = ["true" if proposal.open_writer else "false"]
    computed: list[str] = []
    for change in proposal.changes:
        match change:
            case m.Append():
                wanted.append(_of_table(change.kind, change.schema, change.table))
                (computed if rewrites else wanted).append(_rows(change.files))
            case m.InsertRow():
                wanted += (_of_table(change.kind, change.schema, change.table), _text(change.row))
            case m.UpdateRow():
                wanted += (
                    _of_table(change.kind, change.schema, change.table),
                    _text(change.key),
                    _text(change.row),
                )
            case m.DeleteRow():
                wanted += (_of_table(change.kind, change.schema, change.table), _text(change.key))
            case m.Delete():
                wanted.append(_of_table(change.kind, change.schema, change.table))
                # Most deletes are of whole files alone: of anything else nothing is made into text.
                if change.positions or change.delete_files:
                    computed += [f"{each.data_file_id}:{_positions(each.rows)}" for each in change.positions]
                    computed.append(f"{len(change.positions)}")
                    computed += [f"{each.data_file_id}:{_positions(each.rows)}" for each in change.delete_files]
                computed.append(_numbers(change.whole_files))
            case m.Compact():
                wanted.append(_of_table(change.kind, change.schema, change.table))
                computed += (_numbers(change.replaced), _rows(change.files))
            case m.Flush():
                wanted.append(_of_table(change.kind, change.schema, change.table))
                computed += [_numbers(file.row_ids or ()) for file in change.files]
            case m.AlterTable():
                wanted += (_of_table(change.kind, change.schema, change.table), _text(change.alterations))
            case _:
                wanted.append(_text(change))
    upper = (_check(wanted) ^ _SIGN) - _SIGN
    return upper << 32 | (proposal.base_snapshot_id & _HALF) << 16 | (_half(_check(computed)) if computed else _NOTHING)


def is_same_content(first: int, second: int) -> bool:
    """Whether two proposals ask for the same, as far as ``content_of`` them tells."""
    differ = first ^ second
    same_base = not differ >> 16 & _HALF
    return not differ >> 32 and not (same_base and differ & _HALF)


@lru_cache(maxsize=_TABLES_MAX)
def _of_table(kind: str, schema: str, table: str) -> str:
    return _text((kind, fold(schema), fold(table)))


def _text(value: object) -> str:
    """A value as a text that is no other value's; how long a text is stands before it, so that it ends nowhere else."""
    if isinstance(value, str):
        return f"{len(value)}:{value}"
    if isinstance(value, Record):
        told: list[str] = []
        for name in value.FIELDS:
            each = getattr(value, name)
            if each is not None:
                told.append(f"{name}={_text(each)}")
        return f"{type(value).__name__}({','.join(told)})"
    if isinstance(value, (list, tuple)):
        return f"[{','.join([_text(each) for each in value])}]"
    if isinstance(value, dict):
        return f"{{{','.join([_text(name) + _text(value[name]) for name in sorted(value)])}}}"
    return repr(value)


def _numbers(values: Iterable[int]) -> str:
    return f"[{','.join([str(each) for each in values])}]"


def _rows(files: Iterable[m.DataFile]) -> str:
    rows = 0
    for file in files:
        rows += file.record_count
    return str(rows)


def _positions(rows: m.RowPositions) -> str:
    return _numbers(rows) if isinstance(rows, tuple) else rows.serialize().hex()


def _check(texts: Iterable[str]) -> int:
    """32 bits of texts. A check against mistakes, not against who looks for two texts that have the same: it would only have
    its own write taken for a repetition."""
    return crc32(",".join(texts).encode("utf-8", "surrogatepass"))


def _half(check: int) -> int:
    return (check ^ check >> 16) & _HALF


_NOTHING = _half(_check(()))
