"""What becomes of rows in a MERGE: clauses in their order, of which the first whose condition holds for a row counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pyspark.sql import Column as Expression
from pyspark.sql import functions as sf

from commitlog.client import SubmittedOutcome
from commitlog.client.tables.others_names import knowing_arguments, told_instead
from commitlog.errors import InvalidRequestError
from commitlog.spark.writing.key import Key

Values: TypeAlias = "Mapping[str, Any] | Literal['*']"
"""By column SQL or a Column over ``source`` and ``target``, or a plain value; "*" are the columns that the source has."""
Condition: TypeAlias = "Expression | str | None"


@dataclass(frozen=True, slots=True)
class Clause:
    """What becomes of rows for which the condition holds; without ``values`` they go."""

    condition: Condition
    values: Values | None

    @property
    def reads_expressions(self) -> bool:
        """Whether more is read of the source than the columns that the table has too."""
        return self.condition is not None or isinstance(self.values, Mapping)


@dataclass(frozen=True, slots=True)
class Clauses:
    """What becomes of rows that match, of source rows without a match, and of the table's rows without one."""

    matched: tuple[Clause, ...] = ()
    not_matched: tuple[Clause, ...] = ()
    not_matched_by_source: tuple[Clause, ...] = ()

    @property
    def all(self) -> tuple[Clause, ...]:
        return (*self.matched, *self.not_matched, *self.not_matched_by_source)

    def and_then(self, kind: str, condition: Condition, values: Values | None) -> Clauses:
        """These, and one more of a kind.

        Raises:
            InvalidRequestError: it could never count, or its values are none.
        """
        before: tuple[Clause, ...] = getattr(self, kind)
        if before and before[-1].condition is None:
            raise InvalidRequestError(
                f"a clause of {kind} after one without a condition never counts: put the one without a condition last"
            )
        if condition is not None and not isinstance(condition, str | Expression):
            raise InvalidRequestError(
                f"the condition of a clause is SQL or a Column, not {condition!r}; "
                "values are given by name, such as set={...}"
            )
        _check(values)
        return replace(self, **{kind: (*before, Clause(condition, values))})


def _check(values: Values | None) -> None:
    if values is None or values == "*":
        return
    if not isinstance(values, Mapping) or not values:
        raise InvalidRequestError(f"values are a dict by column, such as {{'age': 5}}, or '*', not {values!r}")


def first_that_holds(clauses: Sequence[Clause], number: int = 0) -> Expression:
    """The number of the clause that counts for a row, from ``number`` on; NULL if none does."""
    found = sf.lit(None).cast("int")
    for at, clause in reversed([*enumerate(clauses, number)]):
        holds = sf.expr(clause.condition) if isinstance(clause.condition, str) else clause.condition
        found = sf.lit(at) if holds is None else sf.when(holds, sf.lit(at)).otherwise(found)
    return found


OF_MERGES: Mapping[str, str] = {
    "execute": "commit()",
    "whenMatchedUpdate": "when_matched_update(condition, set={...})",
    "whenMatchedUpdateAll": "when_matched_update()",
    "whenMatchedDelete": "when_matched_delete(condition)",
    "whenNotMatchedInsert": "when_not_matched_insert(condition, values={...})",
    "whenNotMatchedInsertAll": "when_not_matched_insert()",
    "whenNotMatchedBySourceUpdate": "when_not_matched_by_source_update(condition, set={...})",
    "whenNotMatchedBySourceDelete": "when_not_matched_by_source_delete(condition)",
    "withSchemaEvolution": "append(df, merge_schema=True) before it, or tx.alter(table).add_column(...),",
}
"""What users of delta-spark look for, and what there is instead."""
ARGUMENTS: Mapping[str, Mapping[str, str]] = {
    "when_matched_update": {"values": "set="},
    "when_not_matched_insert": {"set": "values="},
    "when_not_matched_by_source_update": {"values": "set="},
}
Commit: TypeAlias = "Callable[..., SubmittedOutcome | None]"


@knowing_arguments(ARGUMENTS)
@dataclass(frozen=True, slots=True)
class Merge:
    """A MERGE in the making. Made by ``SparkTable.merge``: clause after clause, then `commit`.

    Conditions and values are SQL or Columns, which name columns as ``source.x`` and ``target.x``: ``{"age": "source.age"}``.
    Values that are neither stand for themselves; so does a text as ``sf.lit("late")`` or ``"'late'"``. Of the clauses of
    one kind the first whose condition holds for a row counts, so one without a condition comes last. Each call returns a new
    merge, and changes none.
    """

    _commit: Commit
    _clauses: Clauses = field(default_factory=Clauses)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            return told_instead(self, name, OF_MERGES)

    def when_matched_update(self, condition: Condition = None, set: Values = "*") -> Merge:
        """Give a row that matches one of the source other values; "*" are those of the columns that the source has."""
        return self._with("matched", condition, set)

    def when_matched_delete(self, condition: Condition = None) -> Merge:
        """Delete a row that matches one of the source."""
        return self._with("matched", condition, None)

    def when_not_matched_insert(self, condition: Condition = None, values: Values = "*") -> Merge:
        """Insert a row of the source that matches none; columns that are not given are their defaults, or NULL."""
        return self._with("not_matched", condition, values)

    def when_not_matched_by_source_update(
        self, condition: Condition = None, set: Mapping[str, Any] | None = None
    ) -> Merge:
        """Give a row that no row of the source matches other values, which are over ``target`` alone."""
        if not isinstance(set, Mapping):
            raise InvalidRequestError("a row that no row of the source matches gets values by set={'column': ...}")
        return self._with("not_matched_by_source", condition, set)

    def when_not_matched_by_source_delete(self, condition: Condition = None) -> Merge:
        """Delete a row that no row of the source matches."""
        return self._with("not_matched_by_source", condition, None)

    def commit(
        self,
        *,
        key: Key | str | None = None,
        message: str | None = None,
        attempts: int = 3,
        isolation: str = "serializable",
    ) -> SubmittedOutcome | None:
        """Compute the merge and commit it; after a conflict it is computed again, but for the source.

        Args:
            key: names this write to the table, such as ``nightly:2024-01-31``, so that doing it again commits nothing.
            message: for the history.
            attempts: how often it is computed at most, each time from the newest snapshot on.
            isolation: "serializable", "write_serializable" or "snapshot"; see `SparkTable`.

        Returns:
            The answer; None when no row changes.

        Raises:
            InvalidRequestError: there is no clause.
            DataFileError: two rows of the source have the same key, or values do not fit the table.
            ProposalRejectedError: the last attempt was refused too; its files are gone.
        """
        if not self._clauses.all:
            raise InvalidRequestError(
                "a merge without a clause changes nothing: add .when_matched_update(), for example"
            )
        return self._commit(self._clauses, key=key, message=message, attempts=attempts, isolation=isolation)

    def _with(self, kind: str, condition: Condition, values: Values | None) -> Merge:
        return replace(self, _clauses=self._clauses.and_then(kind, condition, values))
