"""Which change would have let a refused proposal through: it is decided again, in the state it met, under variations.

A variation changes one thing: the base, a read, a setting of a table, the isolation. Nothing here guesses: every answer
is ``decide``'s own, on the state just before the outcome. Row handlers are never asked, because what is
installed differs from one machine to the next, and two people who ask shall get the same answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations, product
from typing import TypeAlias

from commitlog.domain import model as m
from commitlog.domain.again.narrowing import Narrowing, narrowings
from commitlog.domain.again.noting_handlers import NotingHandlers
from commitlog.domain.deciding.decide import decide, find_conflicts
from commitlog.domain.deciding.rules import OtherRules, Rules, StatisticsDecoder
from commitlog.domain.state.index import SequencerState

NARROWINGS_MAX = 3
"""How many columns are tried for one read."""
_FILE_KINDS = frozenset({m.ConflictKind.TABLE_DELETED_FROM, m.ConflictKind.TABLE_COMPACTED})
_SETTLING = ("LAST_UPDATE_WINS", "KEEP_EXISTING")
_TABLE_APPENDED = m.ConflictKind.TABLE_APPENDED
_TABLE_DELETED_FROM = m.ConflictKind.TABLE_DELETED_FROM


# --- what can be varied -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Rebase:
    """The same changes from a newer base."""

    base_snapshot_id: int


@dataclass(frozen=True, slots=True)
class NarrowerReads:
    """One more condition for each of some reads; none when no column tells the appended files apart."""

    narrowings: tuple[Narrowing, ...]


@dataclass(frozen=True, slots=True)
class ListedFiles:
    """Reads (by index) that list the files they opened, none of which is among those that were deleted from."""

    reads: tuple[int, ...]
    deleted_from: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TableRule:
    """Tables, by the names (schema, table) and ids of the conflicts, with another granularity or policy."""

    names: tuple[tuple[str, str], ...]
    rules: OtherRules


@dataclass(frozen=True, slots=True)
class SnapshotIsolation:
    """SNAPSHOT instead of SERIALIZABLE."""


@dataclass(frozen=True, slots=True)
class Without:
    """The proposal without some of its changes and reads, by index."""

    changes: tuple[int, ...]
    reads: tuple[int, ...]


Variation: TypeAlias = Rebase | NarrowerReads | ListedFiles | TableRule | SnapshotIsolation | Without


@dataclass(frozen=True, slots=True)
class Alternative:
    """Variations made together, and what would have come of it.

    passes: whether it would have committed; None when a row handler would have been asked. because: what would have been
    in the way, None when it passes. handlers: the names of those that were not asked.
    """

    variations: tuple[Variation, ...]
    passes: bool | None
    because: str | None = None
    handlers: tuple[str, ...] = ()


def alternatives_to(
    state: SequencerState, outcome: m.Outcome, *, decode_statistics: StatisticsDecoder | None = None
) -> tuple[Alternative, ...]:
    """What would have become of a proposal that was refused for a conflict, had one thing been otherwise.

    state: as it was just before the outcome; it is not changed. The rebase comes first, then the rest with the cheapest
    first; if nothing alone would have helped, the smallest combination that would have is there too.
    """
    assert outcome.proposal is not None
    assert outcome.reason is m.Reason.CONFLICT
    court = _Court(state, outcome, outcome.proposal, decode_statistics)
    rebase, *others = [court.judge((variation,)) for variation in court.variations()]
    equal = [each for each in others if not isinstance(each.variations[0], SnapshotIsolation | Without)]
    weaker = others[len(equal) :]
    if not any(each.passes for each in equal):
        together = court.together(equal)
        if together is None and not any(each.passes for each in weaker):
            together = court.together(others)
        equal += [] if together is None else [together]
    return (rebase, *equal, *weaker)


class _Court:
    """One refused proposal, decided again as often as is asked."""

    def __init__(
        self,
        state: SequencerState,
        outcome: m.Outcome,
        proposal: m.Proposal,
        decode_statistics: StatisticsDecoder | None,
    ) -> None:
        self._state = state
        self._outcome = outcome
        self._proposal = proposal
        self._decode = decode_statistics
        self._conflicts = outcome.conflicts
        if outcome.conflict_count > len(outcome.conflicts):
            self._conflicts = find_conflicts(state, proposal, rules=Rules(decode_statistics=decode_statistics))

    # --- judging ------------------------------------------------------------------------------------------------------

    def judge(self, variations: tuple[Variation, ...]) -> Alternative:
        """Decide the proposal again with these variations."""
        handlers = NotingHandlers()
        others = tuple(each.rules for each in variations if isinstance(each, TableRule))
        decided = decide(
            self._state,
            reduce(_varied, variations, self._proposal),
            now_ms=self._outcome.decided_at_ms,
            source=self._outcome.source,
            epoch=self._outcome.epoch,
            rules=Rules(handlers, self._decode, others),
        )
        if decided.verdict is m.Verdict.COMMITTED:
            return Alternative(variations, passes=True)
        if handlers.missing:
            return Alternative(variations, passes=None, handlers=handlers.missing)
        return Alternative(variations, passes=False, because=self._why_not(variations) or decided.detail)

    def _why_not(self, variations: tuple[Variation, ...]) -> str | None:
        """What the refusal's own text does not say."""
        within = any(isinstance(each, TableRule | NarrowerReads | ListedFiles) for each in variations)
        if within and self._proposal.base_snapshot_id < self._state.index_floor:
            return (
                f"base {self._proposal.base_snapshot_id} is older than snapshot {self._state.index_floor}, back to which "
                "the log remembers single files and rows, so only whole tables were compared"
            )
        if variations == (NarrowerReads(()),):
            return "the statistics of the appended files tell them apart in no column"
        return None

    def together(self, tried: Sequence[Alternative]) -> Alternative | None:
        """The first of the smallest combinations that passes, with one variation of a kind; None when none does."""
        chosen: dict[object, list[Variation]] = {}
        for variation in (each.variations[0] for each in tried):
            if isinstance(variation, Without) or variation == NarrowerReads(()):
                continue
            is_granularity = isinstance(variation, TableRule) and variation.rules.granularity is not None
            of_kind = chosen.setdefault((type(variation), is_granularity), [])
            # The first of a kind is the best, but a finer granularity may be needed.
            if is_granularity or not of_kind:
                of_kind.append(variation)
        for size in range(2, len(chosen) + 1):
            for kinds in combinations(chosen.values(), size):
                for several in product(*kinds):
                    judged = self.judge(several)
                    if judged.passes:
                        return judged
        return None

    # --- which variations there are -----------------------------------------------------------------------------------

    def variations(self) -> Iterator[Variation]:
        """Everything that could have been otherwise, the rebase and then the cheapest first."""
        yield Rebase(self._state.head_snapshot_id)
        yield from self._narrower_reads()
        if reads := self._reads_met(_TABLE_DELETED_FROM):
            unlisted = [index for index in reads if _lists_no_files(self._proposal.reads[index])]
            if unlisted:
                yield ListedFiles(tuple(unlisted), self._files_deleted_from(unlisted))
        yield from self._granularities()
        yield from self._policies()
        reads_met = self._reads_met()
        if reads_met:
            yield SnapshotIsolation()
        changes_met = sorted({c.proposed_change for c in self._conflicts if c.proposed_change is not None})
        spares_changes = len(changes_met) < len(self._proposal.changes)
        if spares_changes and (changes_met or len(reads_met) < len(self._proposal.reads)):
            yield Without(tuple(changes_met), tuple(reads_met))

    def _reads_met(self, *kinds: m.ConflictKind) -> list[int]:
        met = {c.proposed_read for c in self._conflicts if not kinds or c.kind in kinds}
        return sorted(index for index in met if index is not None)

    def _files_deleted_from(self, reads: Sequence[int]) -> tuple[int, ...]:
        base = self._proposal.base_snapshot_id
        tables = {c.object.table_id for c in self._conflicts if c.proposed_read in reads}
        history = self._state.file_history.items()
        return tuple(sorted(i for i, each in history if each.table_id in tables and each.last_delete() > base))

    def _narrower_reads(self) -> Iterator[NarrowerReads]:
        found: list[tuple[Narrowing, ...]] = []
        for index in self._reads_met(_TABLE_APPENDED):
            read = self._proposal.reads[index]
            assert isinstance(read, m.TableRead)
            found.append(narrowings(self._state, index, read, self._proposal.base_snapshot_id, self._decode))
        if not found:
            return
        if not all(found):
            yield NarrowerReads(())
        elif len(found) == 1:
            for narrowing in found[0][:NARROWINGS_MAX]:
                yield NarrowerReads((narrowing,))
        else:
            yield NarrowerReads(tuple(columns[0] for columns in found))

    def _granularities(self) -> Iterator[TableRule]:
        met = self._tables_met(c for c in self._conflicts if c.kind in _FILE_KINDS)
        present = {table_id: self._state.granularity_of(self._state.tables[table_id]) for table_id in met}
        passed = False
        for granularity in (m.Granularity.FILE, m.Granularity.ROW):
            coarser = {t: name for t, name in met.items() if _fineness(present[t]) < _fineness(granularity)}
            if coarser and not passed:
                rules = OtherRules(granularity=granularity, tables=frozenset(coarser))
                variation = TableRule(tuple(sorted(coarser.values())), rules)
                passed = self.judge((variation,)).passes is True
                yield variation

    def _policies(self) -> Iterator[TableRule]:
        met = self._tables_met(c for c in self._conflicts if _is_race_on_rows(c))
        for policy in _SETTLING:
            others = {t: name for t, name in met.items() if self._state.policy_of(self._state.tables[t]) != policy}
            if others:
                rules = OtherRules(on_conflict=policy, tables=frozenset(others))
                yield TableRule(tuple(sorted(others.values())), rules)

    def _tables_met(self, conflicts: Iterable[m.Conflict]) -> dict[int, tuple[str, str]]:
        """The tables in which changes of the proposal met something, with their names."""
        met: dict[int, tuple[str, str]] = {}
        for conflict in conflicts:
            where = conflict.object
            if (
                conflict.proposed_change is not None
                and where.table_id is not None
                and where.table_id in self._state.tables
            ):
                met[where.table_id] = (str(where.schema), str(where.table))
        return met


# --- making a variation -----------------------------------------------------------------------------------------------


def _varied(proposal: m.Proposal, variation: Variation) -> m.Proposal:
    match variation:
        case Rebase(base_snapshot_id=base):
            return proposal.replace(base_snapshot_id=base)
        case NarrowerReads(narrowings=found):
            conditions = {each.read: (each.predicate,) for each in found}
            return proposal.replace(
                reads=tuple(_narrowed(read, conditions.get(n, ())) for n, read in enumerate(proposal.reads))
            )
        case ListedFiles(reads=listed):
            return proposal.replace(
                reads=tuple(_listing(read) if n in listed else read for n, read in enumerate(proposal.reads))
            )
        case SnapshotIsolation():
            return proposal.replace(isolation=m.Isolation.SNAPSHOT)
        case Without(changes=changes, reads=reads):
            return proposal.replace(
                changes=tuple(change for n, change in enumerate(proposal.changes) if n not in changes),
                reads=tuple(read for n, read in enumerate(proposal.reads) if n not in reads),
            )
        case _:
            return proposal


def _narrowed(read: m.Read, conditions: tuple[m.Predicate, ...]) -> m.Read:
    return read.replace(filter=(*read.filter, *conditions)) if isinstance(read, m.TableRead) else read


def _listing(read: m.Read) -> m.Read:
    return read.replace(files=()) if isinstance(read, m.TableRead) else read


def _lists_no_files(read: m.Read) -> bool:
    return isinstance(read, m.TableRead) and read.files is None


def _is_race_on_rows(conflict: m.Conflict) -> bool:
    """Whether a policy is asked for it, or would be had the base not been too old."""
    if conflict.kind is m.ConflictKind.TABLE_ROWS_CHANGED:
        return True
    return conflict.object.row_key is not None and conflict.kind is not m.ConflictKind.FOREIGN_KEY


def _fineness(granularity: m.Granularity) -> int:
    return list(m.Granularity).index(granularity)
