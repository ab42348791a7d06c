"""What a proposal asks for in 64 bits, by which a repetition is told from another write under the same key (rules.md 12.33).

A writer that does its work again makes new files, of other names, sizes and numbers, and may do so from a newer base. So
the upper half is of what it wants whatever the base; then come 16 bits of the base, and 16 of what was computed from it,
such as ids of files and positions, which are compared only between proposals from one base.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b
from json import JSONEncoder

from commitlog.domain import model as m
from commitlog.domain.model.json_values import to_json
from commitlog.domain.model.types import fold

_to_text = JSONEncoder(sort_keys=True, separators=(",", ":"), default=str).encode
_HALF = 0xFFFF
_SIGN = 1 << 31
_TABLES_MAX = 4_096


def content_of(proposal: m.Proposal) -> int:
    """What a proposal asks for, as a signed 64-bit number; times, texts about it, reads and statistics do not count."""
    rewrites = False
    for change in proposal.changes:
        rewrites = rewrites or isinstance(change, (m.Delete, m.Compact, m.Flush))
    # Texts of JSON that are joined: one text of all takes three times as long to make, for every proposal.
    wanted = ["true" if proposal.open_writer else "false"]
    computed: list[str] = []
    for change in proposal.changes:
        match change:
            case m.Append():
                wanted.append(_of_table(change.kind, change.schema, change.table))
                (computed if rewrites else wanted).append(_rows(change.files))
            case m.InsertRow():
                wanted += (_of_table(change.kind, change.schema, change.table), _to_text(change.row))
            case m.UpdateRow():
                wanted += (
                    _of_table(change.kind, change.schema, change.table),
                    _to_text(change.key),
                    _to_text(change.row),
                )
            case m.DeleteRow():
                wanted += (_of_table(change.kind, change.schema, change.table), _to_text(change.key))
            case m.Delete():
                wanted.append(_of_table(change.kind, change.schema, change.table))
                computed.append(_to_text([[each.data_file_id, _positions(each.rows)] for each in change.positions]))
                computed.append(_to_text([[each.data_file_id, _positions(each.rows)] for each in change.delete_files]))
                computed.append(_to_text(change.whole_files))
            case m.Compact():
                wanted.append(_of_table(change.kind, change.schema, change.table))
                computed += (_to_text(change.replaced), _rows(change.files))
            case m.Flush():
                wanted.append(_of_table(change.kind, change.schema, change.table))
                computed += (_to_text(file.row_ids) for file in change.files)
            case _:
                wanted.append(_to_text(to_json(change)))
    upper = (_hash(wanted, 4) ^ _SIGN) - _SIGN
    return upper << 32 | (proposal.base_snapshot_id & _HALF) << 16 | (_hash(computed, 2) if computed else _NOTHING)


def is_same_content(first: int, second: int) -> bool:
    """Whether two proposals ask for the same, as far as ``content_of`` them tells."""
    differ = first ^ second
    same_base = not differ >> 16 & _HALF
    return not differ >> 32 and not (same_base and differ & _HALF)


@lru_cache(maxsize=_TABLES_MAX)
def _of_table(kind: str, schema: str, table: str) -> str:
    return _to_text([kind, fold(schema), fold(table)])


def _rows(files: Iterable[m.DataFile]) -> str:
    rows = 0
    for file in files:
        rows += file.record_count
    return str(rows)


def _positions(rows: m.RowPositions) -> object:
    return rows if isinstance(rows, tuple) else rows.serialize().hex()


def _hash(texts: Iterable[str], size: int) -> int:
    number = 0
    for byte in blake2b(f"[{','.join(texts)}]".encode(), digest_size=size).digest():
        number = number << 8 | byte
    return number


_NOTHING = _hash((), 2)
