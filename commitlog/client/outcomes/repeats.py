"""Whether a write that was answered as a repeat is the same write: a key that is used again for another one is an error.

Whoever writes the same rows again makes new files, split and ordered otherwise perhaps, on another base, and finds a table
there that the first attempt has created. So what is compared is what the changes do: which tables they touch and how, how
many rows come, between which bounds, with how many NULLs; not paths, numbers of files, bytes (the same rows in another
order are packed otherwise), or what was deleted to make room.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

from commitlog.client.tables.names import TableName, quote_part
from commitlog.client.tables.write_keys import WriteKey, key_of
from commitlog.domain import model as m
from commitlog.domain.model.definitions import counted
from commitlog.domain.model.types import fold
from commitlog.errors import KeyReusedError
from commitlog.log.codec import decode_statistics

_ROWS = "row changes"
TEXT_CUT_AT = 8
"""Some writers cut the bounds of texts to so many bytes; what comes before is exact."""


class _Place(NamedTuple):
    """What kind of change, to which object."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class _Bounds:
    """Of one column over several files. None is unknown."""

    lows: frozenset[m.Scalar] | None
    highs: frozenset[m.Scalar] | None
    nulls: int | None


def check_repeat(first: m.Proposal, again: m.Proposal, *, snapshot_id: int | None) -> None:
    """See that a proposal that was answered as a repeat can be the same write as the one that was decided.

    Args:
        first: the proposal that was decided.
        again: the one that repeats its id, or its writer's ``writer_seq``.
        snapshot_id: what the first made, for the message.

    Raises:
        KeyReusedError: it is another write; the message says in what. Nothing of it was committed.
    """
    found = differences(first, again)
    if found:
        raise KeyReusedError(again.proposal_id, _key_of(first, again), found, first=first, snapshot_id=snapshot_id)


def check_kinds(
    first: m.Proposal, kinds: Collection[m.ChangeKind], *, proposal_id: m.ProposalId, snapshot_id: int | None
) -> None:
    """See that a write that would only make changes of some kinds can be the one that was committed under its key.

    Args:
        first: the proposal that was committed.
        kinds: what changes the write makes.
        proposal_id: of the write, which may not have been sent.
        snapshot_id: what the first made, for the message.

    Raises:
        KeyReusedError: the first made changes of another kind. Nothing of this one was committed.
    """
    if others := dict.fromkeys(place for place in map(_place_by_kind, first.changes) if place.kind not in kinds):
        assert first.writer_seq is not None, "it was found by its number"
        key = _numbered(WriteKey(first.writer_id, first.writer_seq))
        found = [f"the first had {_shown(others)}, as this one never does"]
        raise KeyReusedError(proposal_id, key, found, first=first, snapshot_id=snapshot_id)


def _place_by_kind(change: m.Change) -> _Place:
    return _place(change)._replace(kind=change.kind)


def _key_of(first: m.Proposal, again: m.Proposal) -> str:
    if first.proposal_id == again.proposal_id:
        return f"proposal id {UUID(bytes=again.proposal_id)}"
    assert again.writer_seq is not None, "it repeats an id or a number"
    return _numbered(WriteKey(again.writer_id, again.writer_seq))


def _numbered(write: WriteKey) -> str:
    return f"key {key_of(write)!r} (writer_seq {write.writer_seq} of writer {write.writer_id})"


def differences(first: m.Proposal, again: m.Proposal) -> tuple[str, ...]:
    """In what the second proposal is another write than the first, in words; empty when it can be the same."""
    before, now = _by_place(first.changes), _by_place(again.changes)
    loose = _Loose.of(first, again)
    found = []
    for where, alone in (
        ("only the first has", before.keys() - now.keys()),
        ("only this one has", now.keys() - before.keys()),
    ):
        if places := [each for each in sorted(alone) if not loose.may_lack(each)]:
            found.append(f"{where} {_shown(places)}")
    for place in sorted(before.keys() & now.keys()):
        if not loose.may_differ(place):
            found += _different(place, before[place], now[place])
    if first.open_writer != again.open_writer:
        found.append("one of them opens its writer")
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Loose:
    """What may be otherwise in the same write, since each attempt has found another state of the tables.

    written: tables that both put rows into. read: those that one of them has read. computed: of these, those whose rows
    were looked for: an attempt that comes after its own commit finds others, or none.
    """

    written: frozenset[str]
    read: frozenset[str]
    computed: frozenset[str]

    @classmethod
    def of(cls, first: m.Proposal, again: m.Proposal) -> _Loose:
        reads = [each for each in (*first.reads, *again.reads) if isinstance(each, m.TableRead)]
        if not (_reads(again) and (_reads(first) or _reads(again) & _made(first.changes))):
            # What reads nothing, as an append, is no attempt at what is computed from rows, unless it made their table.
            reads = []
        changes = (*first.changes, *again.changes)
        looked_for = [each for each in reads if each.filter or each.files is not None]
        partly = [each for each in changes if isinstance(each, m.Delete) and (each.positions or each.delete_files)]
        read = frozenset(_folded(each.schema, each.table) for each in reads)
        return cls(
            frozenset.intersection(*(_written(each.changes) for each in (first, again))),
            read,
            read & ({_folded(x.schema, x.table) for x in looked_for} | {_folded(x.schema, x.table) for x in partly}),
        )

    def may_lack(self, place: _Place) -> bool:
        """Whether one of the two need not have such changes."""
        if place.kind == m.ChangeKind.CREATE_SCHEMA:
            return any(name.startswith(f"{quote_part(place.name)}.") for name in self.written)
        if place.kind == m.ChangeKind.CREATE_TABLE:
            return place.name in self.written
        return place.kind in (m.ChangeKind.APPEND, m.ChangeKind.DELETE) and place.name in self.read

    def may_differ(self, place: _Place) -> bool:
        """Whether such changes of both need not be the same."""
        return place.kind == m.ChangeKind.DELETE or (place.kind == m.ChangeKind.APPEND and place.name in self.computed)


def _reads(proposal: m.Proposal) -> frozenset[str]:
    return frozenset(_folded(each.schema, each.table) for each in proposal.reads if isinstance(each, m.TableRead))


def _made(changes: Iterable[m.Change]) -> frozenset[str]:
    return frozenset(place.name for place in map(_place, changes) if place.kind == m.ChangeKind.CREATE_TABLE)


def _written(changes: Iterable[m.Change]) -> frozenset[str]:
    return frozenset(place.name for place in map(_place, changes) if place.kind in (m.ChangeKind.APPEND, _ROWS))


def _by_place(changes: Iterable[m.Change]) -> dict[_Place, list[m.Change]]:
    found: dict[_Place, list[m.Change]] = {}
    for change in changes:
        found.setdefault(_place(change), []).append(change)
    return found


def _place(change: m.Change) -> _Place:
    match change:
        case m.ExpireSnapshots() | m.Configure():
            return _Place(change.kind, "the log")
        case m.CreateSchema() | m.DropSchema():
            return _Place(change.kind, fold(change.schema))
        case m.CreateView() | m.ReplaceView() | m.DropView():
            return _Place(change.kind, _folded(change.schema, change.view))
        case m.InsertRow() | m.UpdateRow() | m.DeleteRow():
            return _Place(_ROWS, _folded(change.schema, change.table))
        case _:
            return _Place(change.kind, _folded(change.schema, change.table))


def _folded(schema: str, name: str) -> str:
    return str(TableName(fold(schema), fold(name)))


def _shown(places: Iterable[_Place]) -> str:
    return ", ".join(f"{place.kind.lower().replace('_', ' ')} of {place.name}" for place in places)


def _different(place: _Place, before: Sequence[m.Change], now: Sequence[m.Change]) -> list[str]:
    if place.kind in (m.ChangeKind.APPEND, m.ChangeKind.COMPACT, m.ChangeKind.FLUSH):
        return _different_files(place.name, _files(before), _files(now))
    if place.kind == _ROWS:
        return _different_rows(place.name, before, now)
    return [] if [_bare(each) for each in before] == [_bare(each) for each in now] else [f"{_shown([place])} differs"]


def _bare(change: m.Change) -> m.Change:
    """Without what may differ: the case of names, the order of a row's columns, and its time."""
    bare: dict[str, Any] = {
        name: fold(value)
        for name in ("schema", "table", "view")
        if isinstance(value := getattr(change, name, None), str)
    }
    if isinstance(change, m.InsertRow | m.UpdateRow | m.DeleteRow):
        bare["row_time_us"] = None
        for name in ("key", "row"):
            if (values := getattr(change, name, None)) is not None:
                bare[name] = dict(sorted((fold(column), value) for column, value in values.items()))
    return change.replace(**bare)


def _different_rows(table: str, before: Sequence[m.Change], now: Sequence[m.Change]) -> list[str]:
    first, again = (Counter(repr(_bare(each)) for each in changes) for changes in (before, now))
    if first == again:
        return []
    return [
        f"first {counted(len(before), 'row')} of {table} changed, {len(now):,} now, {(again - first).total():,} otherwise"
    ]


# --- files ------------------------------------------------------------------------------------------------------------


def _files(changes: Sequence[m.Change]) -> list[m.DataFile]:
    return [file for each in changes if isinstance(each, m.Append | m.Compact | m.Flush) for file in each.files]


def _different_files(table: str, before: Sequence[m.DataFile], now: Sequence[m.DataFile]) -> list[str]:
    first, again = (sum(file.record_count for file in files) for files in (before, now))
    if first != again:
        return [f"{counted(first, 'row')} came into {table} first, {again:,} now"]
    known, given = _bounds_of(before), _bounds_of(now)
    columns = [column for column in sorted(known.keys() & given.keys()) if _differ(known[column], given[column])]
    if not columns:
        return []
    return [f"the {counted(again, 'row')} for {table} came with other values than the first in {', '.join(columns)}"]


def _bounds_of(files: Sequence[m.DataFile]) -> Mapping[str, _Bounds]:
    """By column, where every file with rows tells of it."""
    told = [{fold(each.column): each for each in _statistics(file)} for file in files if file.record_count]
    columns = set.intersection(*(set(each) for each in told)) if told else set()
    return {column: _joined([each[column] for each in told]) for column in columns}


def _statistics(file: m.DataFile) -> tuple[m.ColumnStatistics, ...]:
    return decode_statistics(file.statistics) if isinstance(file.statistics, bytes) else file.statistics


def _joined(columns: Sequence[m.ColumnStatistics]) -> _Bounds:
    valued = [each for each in columns if each.value_count != 0]
    nulls = [each.null_count for each in columns]
    return _Bounds(
        _all_known(each.min for each in valued),
        _all_known(each.max for each in valued),
        sum(each for each in nulls if each is not None) if None not in nulls else None,
    )


def _all_known(bounds: Iterator[m.Scalar]) -> frozenset[m.Scalar] | None:
    known = frozenset(bounds)
    return None if None in known else known


def _differ(first: _Bounds, again: _Bounds) -> bool:
    """However the rows are split, the file with the least value has it for its bound: both sides then name it."""
    if None not in (first.nulls, again.nulls) and first.nulls != again.nulls:
        return True
    return any(
        one is not None and other is not None and (one or other) and not any(_same(a, b) for a in one for b in other)
        for one, other in ((first.lows, again.lows), (first.highs, again.highs))
    )


def _same(one: m.Scalar, other: m.Scalar) -> bool:
    if one == other:
        return True
    if not isinstance(one, str) or not isinstance(other, str):
        return False
    first, second = one.encode(), other.encode()
    return TEXT_CUT_AT in (len(first), len(second)) and first[: TEXT_CUT_AT - 1] == second[: TEXT_CUT_AT - 1]
