"""Deciding a log's history again: is every answer the one that its own rules give? (rules.md 1)

Proposals that share no table, name or foreign key do not meet, so the work can be shared out: ``Entities`` finds which
belong together, and a ``Verifier`` decides its share again while it only counts the others (``thin``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from commitlog.domain import model as m
from commitlog.domain.deciding.decide import decide
from commitlog.domain.deciding.rules import RowHandler, Rules, StatisticsDecoder
from commitlog.domain.deciding.shortening import shortenings
from commitlog.domain.model.named import named_by
from commitlog.domain.model.types import fold
from commitlog.domain.state.index import SequencerState, TableState, new_state
from commitlog.domain.state.replaying import replay
from commitlog.domain.state.sites import moves

_DATA = frozenset(
    {
        m.ChangeKind.APPEND,
        m.ChangeKind.DELETE,
        m.ChangeKind.COMPACT,
        m.ChangeKind.INSERT_ROW,
        m.ChangeKind.UPDATE_ROW,
        m.ChangeKind.DELETE_ROW,
        m.ChangeKind.FLUSH,
    }
)


class Finding(NamedTuple):
    """An outcome that is not what its log's rules give."""

    seq: int
    what: str


class TableTotals(NamedTuple):
    """What a table holds at the end: its live files, the sum of their ids, and the rows in files and by key."""

    table_id: int
    name: str
    files: int
    file_ids: int
    rows: int
    keyed_rows: int


def is_data_only(outcome: m.Outcome) -> bool:
    """Whether an outcome changes contents of tables and nothing else, so that only who looks at these needs it whole."""
    proposal = outcome.proposal
    return proposal is not None and bool(proposal.changes) and all(c.kind in _DATA for c in proposal.changes)


def thin(outcome: m.Outcome) -> m.Outcome:
    """The outcome for those who look at other tables: it counts, is remembered, and changes definitions but no contents."""
    proposal = outcome.proposal
    if proposal is None:
        return outcome
    kept = [index for index, change in enumerate(proposal.changes) if outcome.effects and change.kind not in _DATA]
    changes = tuple(proposal.changes[index] for index in kept)
    return outcome.replace(
        proposal=proposal.replace(changes=changes, reads=(), author=None, message=None, extra=None),
        assigned=m.Assigned(
            partition_ids=outcome.assigned.partition_ids,
            schema_version=outcome.assigned.schema_version,
            writer_epoch=outcome.assigned.writer_epoch,
        ),
        effects=tuple(outcome.effects[index] for index in kept),
        conflicts=(),
        resolutions=(),
        proposal_bytes=None,
    )


def keyed_rows_added(outcome: m.Outcome) -> int:
    """By how many the outcome changes the number of keyed rows, for the log's limit on them."""
    effects = [*(effect for effect in outcome.effects if not effect.skipped), *(effect for effect, _ in moves(outcome))]
    return sum((e.row_id is not None) - (e.ended_row_id is not None) for e in effects)


class Entities:
    """Which names belong together, because one proposal looks at several of them. Names are folded ``schema.table``."""

    def __init__(self) -> None:
        self._above: dict[str, str] = {}
        self._whole: set[str] = set()

    def add(self, names: Iterable[str]) -> None:
        """Names that one proposal touches; ``schema.*`` is every name of a schema."""
        first: str | None = None
        for name in names:
            if name.endswith(".*"):
                self._whole.add(name)
            self._above.setdefault(name, name)
            if first is None:
                first = name
            else:
                self._above[self._root(name)] = self._root(first)

    def _root(self, name: str) -> str:
        while (above := self._above[name]) != name:
            self._above[name] = self._above[above]
            name = above
        return name

    def groups(self) -> list[list[str]]:
        """The names, each with all that it belongs to, the largest group first."""
        for whole in sorted(self._whole):
            for name in list(self._above):
                if name.startswith(whole.removesuffix("*")):
                    self._above[self._root(name)] = self._root(whole)
        found: dict[str, list[str]] = {}
        for name in sorted(self._above):
            found.setdefault(self._root(name), []).append(name)
        return sorted(found.values(), key=lambda names: (-len(names), names))


def touched(proposal: m.Proposal) -> Iterator[str]:
    """The names that a proposal looks at, folded; ``schema.*`` for all of a schema."""
    for change in proposal.changes:
        named = [*named_by(change)]
        if isinstance(change, m.CreateTable):
            named += [(key.ref_schema, key.ref_table) for key in change.foreign_keys]
        for schema, name in named:
            yield f"{fold(schema)}.{fold(name)}"
        if isinstance(change, m.DropSchema):
            yield f"{fold(change.schema)}.*"
    for read in proposal.reads:
        read_name = read.name if isinstance(read, m.NameRead) else read.table
        yield f"{fold(read.schema)}.{'*' if read_name is None else fold(read_name)}"


class _RecordedAnswers:
    """Row handlers that answer as they once did; what an outcome does not tell it is taken to have been refused for."""

    def __init__(self, outcome: m.Outcome) -> None:
        self._outcome = outcome
        self._rows = {r.change: r.row for r in outcome.resolutions if r.action is m.ResolutionAction.HANDLED}
        self._refused = outcome.reason is m.Reason.INVALID
        self._guessed_from: int | None = None

    def may_be_named(self, name: str) -> bool:
        """Whether the log was decided where it is installed, as far as the outcome tells."""
        return not self._refused

    def handler(self, name: str, change: int) -> RowHandler | None:
        """What gives the answer that settled this change."""
        if change in self._rows:
            return lambda *_: self._rows[change]
        return None if self._refused else lambda *_: self._fail(change)

    def _fail(self, change: int) -> m.Row:
        if self._guessed_from is None or change < self._guessed_from:
            self._guessed_from = change
        raise ValueError("it did not settle this")

    def may_explain(self, again: m.Outcome, state: SequencerState) -> bool:
        """Whether the outcome may be right though it was decided otherwise again: a refusal does not tell what handlers had
        answered, by which it may have met fewer conflicts, or others' lack of what their rows need, or rows that are in the
        way of what a handler let stand. ``state``: as it was decided on."""
        outcome = self._outcome
        if (
            self._guessed_from is None
            or outcome.reason is not m.Reason.CONFLICT
            or again.verdict is not m.Verdict.REJECTED
        ):
            return False
        met, count = _evidence(again), again.conflict_count
        otherwise_alike = outcome.replace(
            reason=again.reason, conflicts=again.conflicts, conflict_count=count, resolutions=again.resolutions
        )
        if not outcome.conflicts or difference(otherwise_alike, again, ()) is not None:
            return False
        are_all_told = again.reason is m.Reason.CONFLICT and count == len(met)
        others = [c for c, each in zip(outcome.conflicts, _evidence(outcome), strict=True) if each not in met]
        return not are_all_told or all(self._may_follow(each, state) for each in others)

    def _may_follow(self, conflict: m.Conflict, state: SequencerState) -> bool:
        """Whether a change that a handler was asked for, or a later one, may have met a row there that raced."""
        proposal, change, where = self._outcome.proposal, conflict.proposed_change, conflict.object
        return (
            proposal is not None
            and change is not None
            and self._guessed_from is not None
            and change >= self._guessed_from
            and where.row_key is not None
            and where.table_id in state.tables
            and proposal.base_snapshot_id < conflict.committed_snapshot_id <= state.head_snapshot_id
        )


class Verifier:
    """Decides a share of a log again, one outcome after another from the genesis on."""

    def __init__(self, genesis: m.Genesis, *, decode_statistics: StatisticsDecoder | None) -> None:
        self.state = new_state(genesis)
        self.judged = 0
        self._decode_statistics = decode_statistics

    def check(self, outcome: m.Outcome) -> Finding | None:
        """Decide an outcome's proposal again, then apply the outcome as it was recorded."""
        finding = None
        if outcome.proposal is not None and outcome.rules_version == m.RULES_VERSION:
            self.judged += 1
            answers = _RecordedAnswers(outcome)
            again = decide(
                self.state,
                outcome.proposal,
                now_ms=outcome.decided_at_ms,
                source=outcome.source,
                epoch=outcome.epoch,
                rules=Rules(answers, self._decode_statistics),
            )
            what = difference(outcome, again, shortenings(self.state, again))
            if what is not None and not answers.may_explain(again, self.state):
                finding = Finding(outcome.seq, what)
        return self.apply(outcome) or finding

    def apply(self, outcome: m.Outcome, *, keyed_rows_added: int = 0) -> Finding | None:
        """Apply an outcome that another share judges; ``keyed_rows_added`` when it was made thin."""
        try:
            replay(self.state, outcome)
        except (AssertionError, LookupError, ValueError) as error:
            return Finding(outcome.seq, f"cannot be applied to what was committed before it: {error}")
        self.state.keyed_rows += keyed_rows_added
        return None

    def totals(self) -> Iterator[TableTotals]:
        """What the live tables hold; of tables of other shares this is empty."""
        for table in self.state.tables.values():
            if table.dropped_at is None:
                yield self._totals(table)

    def _totals(self, table: TableState) -> TableTotals:
        counts, files = self.state.record_counts, table.live_files
        rows = sum(counts.get(f) - self.state.deleted_count(f) for f in files)
        keyed = 0 if table.rows is None else len(table.rows.live)
        name = f"{table.schema.name}.{table.name}"
        return TableTotals(table.table_id, name, len(files), sum(files), rows, keyed)


def difference(recorded: m.Outcome, again: m.Outcome, shorter: Iterable[m.Outcome]) -> str | None:
    """How an outcome that was decided again differs, in words; None when it does not. Texts and codes may differ, and it may
    have been recorded as one of those that are ``shorter``."""
    if (recorded.verdict, recorded.reason) != (again.verdict, again.reason):
        return f"is {_answer(recorded)}, but the rules give {_answer(again)}"
    for name in (
        "snapshot_id",
        "head_snapshot_id",
        "snapshot_time_us",
        "original_seq",
        "same_content",
        "conflict_count",
        "assigned",
        "effects",
    ):
        if getattr(recorded, name) != getattr(again, name):
            return f"has {name} {getattr(recorded, name)}, but the rules give {getattr(again, name)}"
    if (recorded.next_catalog_id, recorded.next_file_id) != (again.next_catalog_id, again.next_file_id):
        return "leaves other counters of ids than the rules do"
    evidence, settled = _evidence(recorded), _settled(recorded)
    if evidence == _evidence(again) and settled == _settled(again):
        return None
    # An outcome that names none of its conflicts has been tampered with: one always fits, but beside a key of megabytes.
    kept = [
        each for each in (again, *shorter) if evidence == _evidence(each) and bool(evidence) == bool(again.conflicts)
    ]
    if not kept:
        return "names other conflicts than the rules do"
    if settled not in [_settled(each) for each in kept]:
        return "settles other conflicts than the rules do"
    return None


def _answer(outcome: m.Outcome) -> str:
    return outcome.verdict.value if outcome.reason is None else f"{outcome.verdict.value} ({outcome.reason.value})"


def _evidence(outcome: m.Outcome) -> list[tuple[object, ...]]:
    return [
        (c.kind, c.proposed_change, c.proposed_read, c.object.table_id, c.object.data_file_id, c.object.row_key,
         c.committed_snapshot_id, c.committed_proposal_id, c.committed_writer_id)
        for c in outcome.conflicts
    ]  # fmt: skip


def _settled(outcome: m.Outcome) -> list[m.Resolution]:
    return [each.replace(object=m.ConflictObject()) for each in outcome.resolutions]
