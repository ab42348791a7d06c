"""Filters as programs give them: ``(column, op, value)``, several of them, or the same as an expression in a text.

    day >= '2026-01-01' and id in (1, 2) and name is not null

There are only conditions that must all hold, each of one column and plain values: so much can be proved by statistics, and
told to the log as what was read. != and NOT IN are taken by scans alone, and told as IS NOT NULL.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeAlias

from commitlog.client.arguments import checked_items, checked_text
from commitlog.client.tables.values import scalar
from commitlog.domain.model import FilterOp, Predicate, Scalar
from commitlog.errors import InvalidRequestError


@dataclass(frozen=True, slots=True)
class Excluded:
    """A column is neither one of these values nor NULL: what is read by it can be told to the log only as more than that."""

    column: str
    values: tuple[Scalar, ...]

    @property
    def known(self) -> Predicate:
        """What a log's filter can say of it, which lets more through."""
        return Predicate(self.column, FilterOp.IS_NOT_NULL)


Where: TypeAlias = "str | tuple[Any, ...] | Predicate | Iterable[Predicate | tuple[Any, ...]] | None"
"""An expression; one ``(column, op, value)``; several, all of which must hold; None is no filter."""

NULL_CHECKS = (FilterOp.IS_NULL, FilterOp.IS_NOT_NULL)
_TOKEN = re.compile(
    r"""\s*(?:(?P<number>[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?)(?![\w.])|(?P<text>'(?:[^']|'')*')
    |(?P<quoted>"(?:[^"]|"")+"|`(?:[^`]|``)+`)|(?P<word>[^\W\d]\w*)|(?P<sign><=|>=|==|<>|!=|[=<>(),])|(?P<end>$))""",
    re.VERBOSE,
)
_COMPARISONS = {
    "=": FilterOp.EQ,
    "==": FilterOp.EQ,
    "<": FilterOp.LT,
    "<=": FilterOp.LE,
    ">": FilterOp.GT,
    ">=": FilterOp.GE,
}
_UNEQUAL = ("!=", "<>")
_BEYOND = frozenset({"or", "not", "like"})
_BEYOND_HINT = "; a filter is conditions that all hold: for others ask log.duckdb(), or filter what was read"
_FIELD_HINT = "; a filter names whole columns: fields of one ask of log.duckdb(), or filter what was read"
_WORDS = frozenset({"and", "or", "not", "in", "is", "between", "null", "like", "true", "false"})


def predicates(where: Where) -> tuple[Predicate, ...]:
    """A filter as the log's predicates, all of which must hold.

    Raises:
        InvalidRequestError: it is none, or more than the log can be told; the message says what is wrong, and in a text where.
    """
    found = conditions(where)
    told = tuple(each for each in found if isinstance(each, Predicate))
    if len(told) < len(found):
        raise InvalidRequestError(
            f"the filter {where!r} has != or NOT IN, which only scans take: what a change relies on is told to the log in "
            "conditions that it knows. Scan for the rows, and name them by IN"
        )
    return told


def conditions(where: Where) -> tuple[Predicate | Excluded, ...]:
    """A filter as a scan takes it: conditions all of which must hold.

    Raises:
        InvalidRequestError: it is none; the message says what is wrong, and in a text where.
    """
    if where is None:
        return ()
    if isinstance(where, str):
        return _Parser(where).conjunction_to_end()
    where = (where,) if isinstance(where, Predicate) or is_one(where) else where
    each = "(column, op, value), or an expression such as \"day >= '2026-01-01' and id in (1, 2)\""
    given: tuple[Any, ...] = checked_items("filter", where, (Predicate, Excluded, tuple, list), each)
    return tuple(map(_given, given))


def is_one(where: Any) -> bool:
    """Whether it is a single ``(column, op, value)``, and not a list of such."""
    return isinstance(where, tuple) and len(where) > 1 and isinstance(where[0], str)


def _given(each: Any) -> Predicate | Excluded:
    if not isinstance(each, Predicate | Excluded):
        return _condition(tuple(each))
    if isinstance(each, Predicate) and not isinstance(each.op, FilterOp):
        raise InvalidRequestError(
            f"{each!r} is no filter: its op is a FilterOp, such as FilterOp.IN, and {each.op!r} is none"
        )
    return each


def _condition(parts: tuple[Any, ...]) -> Predicate | Excluded:
    asked = " ".join(parts[1].lower().split()) if len(parts) == 3 and isinstance(parts[1], str) else ""
    if asked in _UNEQUAL:
        return Excluded(checked_text("the column of a filter", parts[0]), (scalar(parts[2]),))
    if asked == "not in":
        return Excluded(checked_text("the column of a filter", parts[0]), _values(FilterOp.IN, parts[2]))
    return _predicate(parts)


def _predicate(parts: tuple[Any, ...]) -> Predicate:
    known = ", ".join([*FilterOp, "!=", "not in"])
    op = _op(parts[1]) if 2 <= len(parts) <= 3 else None
    if op is None:
        asked = str(parts[1]).lower().split() if len(parts) > 1 else ()
        hint = _BEYOND_HINT if _BEYOND.intersection(asked) else ""
        raise InvalidRequestError(f"{parts!r} is no filter: write (column, op, value) with an op of {known}{hint}")
    column = checked_text("the column of a filter", parts[0])
    value = parts[2] if len(parts) == 3 else None
    if op in (FilterOp.IN, FilterOp.BETWEEN):
        values = _values(op, value)
        if op is FilterOp.BETWEEN and len(values) != 2:
            raise InvalidRequestError(f"between takes [low, high], not {value!r}")
        return Predicate(column, op, values)
    if op in NULL_CHECKS:
        if value is not None:
            raise InvalidRequestError(f"{op} takes no value")
        return Predicate(column, op)
    return Predicate(column, op, scalar(value))


def _values(op: str, given: Any) -> tuple[Scalar, ...]:
    if not isinstance(given, list | tuple | set | frozenset | range):
        raise InvalidRequestError(f"{op} takes a list of values, not {given!r}")
    return tuple(scalar(item) for item in given)


def _op(given: Any) -> FilterOp | None:
    """What a program calls an op: as the log does, in any case, ``==``, or ``is null`` as a text has it."""
    folded = "_".join(given.lower().split()) if isinstance(given, str) else ""
    return _COMPARISONS.get(folded) or next((each for each in FilterOp if each == folded), None)


class _Parser:
    """Reads an expression from its beginning to its end."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = self.begin = 0
        self.kind = ""
        self.token = ""
        self._step()

    def conjunction_to_end(self) -> tuple[Predicate | Excluded, ...]:
        if self.kind == "end":
            raise InvalidRequestError(
                "the filter is an empty text: write a condition such as \"day >= '2026-01-01'\", or leave the filter out"
            )
        found = self._conjunction()
        if self.kind != "end":
            raise self._refusal("AND, or the end")
        return found

    def _conjunction(self) -> tuple[Predicate | Excluded, ...]:
        found, depth = [], 0
        while True:
            while self._has_taken("("):
                depth += 1
            found.append(self._condition())
            while depth and self._has_taken(")"):
                depth -= 1
            if not self._has_taken("and"):
                break
        if depth:
            raise self._refusal("')'")
        return tuple(found)

    def _condition(self) -> Predicate | Excluded:
        column = self._column()
        if self.kind == "sign" and self.token in _COMPARISONS:
            op = _COMPARISONS[self._taken()]
            return Predicate(column, op, self._literal())
        if self.kind == "sign" and self.token in _UNEQUAL:
            self._step()
            return Excluded(column, (self._literal(),))
        if self._has_taken("not"):
            self._take("in", "IN")
            return Excluded(column, self._list())
        if self._has_taken("in"):
            return Predicate(column, FilterOp.IN, self._list())
        if self._has_taken("between"):
            low = self._literal()
            self._take("and", "AND and the upper bound")
            return Predicate(column, FilterOp.BETWEEN, (low, self._literal()))
        if self._has_taken("is"):
            op = FilterOp.IS_NOT_NULL if self._has_taken("not") else FilterOp.IS_NULL
            self._take("null", "NULL")
            return Predicate(column, op)
        raise self._refusal("=, !=, <, <=, >, >=, IN, NOT IN, BETWEEN, IS NULL or IS NOT NULL")

    def _column(self) -> str:
        if self.kind == "quoted":
            mark = self.token[0]
            return self._taken()[1:-1].replace(mark * 2, mark)
        if self.kind != "word" or self.token.lower() in _WORDS:
            raise self._refusal("the name of a column")
        return self._taken()

    def _list(self) -> tuple[Scalar, ...]:
        self._take("(", "'('")
        values = [self._literal()]
        while self._has_taken(","):
            values.append(self._literal())
        self._take(")", "')'")
        return tuple(values)

    def _literal(self) -> Scalar:
        if self.kind == "word" and self.token.lower() in ("date", "timestamp", "timestamptz", "time"):
            self._step()
            if self.kind != "text":
                raise self._refusal("a text in quotes")
        if self.kind == "text":
            return self._taken()[1:-1].replace("''", "'")
        if self.kind == "number":
            try:
                number = int(self.token) if re.fullmatch(r"[-+]?\d+", self.token) else Decimal(self.token)
            except (ValueError, ArithmeticError):
                raise self._refusal("a number that a column can have") from None
            self._step()
            return scalar(number)
        if self._is("true") or self._is("false"):
            return self._taken().lower() == "true"
        if self._is("null"):
            raise self._refusal("a value; write IS NULL or IS NOT NULL")
        raise self._refusal("a number, a text in single quotes, TRUE or FALSE")

    def _is(self, token: str) -> bool:
        return self.kind in ("word", "sign") and self.token.lower() == token

    def _has_taken(self, token: str) -> bool:
        is_there = self._is(token)
        if is_there:
            self._step()
        return is_there

    def _take(self, token: str, expected: str) -> None:
        if not self._has_taken(token):
            raise self._refusal(expected)

    def _taken(self) -> str:
        token = self.token
        self._step()
        return token

    def _step(self) -> None:
        match = _TOKEN.match(self.text, self.at)
        if match is None or match.lastgroup is None:
            self.begin = len(self.text) - len(self.text[self.at :].lstrip())
            self.kind, self.token = "unknown", self.text[self.begin]
            return
        self.kind, self.token = match.lastgroup, match[match.lastgroup]
        self.begin, self.at = match.span(match.lastgroup)

    def _refusal(self, expected: str) -> InvalidRequestError:
        found = "it ends there" if self.kind == "end" else f"found {self.token!r}"
        hint = ""
        if self.token.lower() in _BEYOND:
            hint = _BEYOND_HINT
        elif self.kind == "quoted" and self.token[0] == '"' and "column" not in expected:
            hint = f"; double quotes are for names of columns: write '{self.token[1:-1]}'"
        elif self.token == ".":
            hint = _FIELD_HINT
        return InvalidRequestError(
            f"the filter {self.text!r} cannot be read at position {self.begin + 1}: expected {expected}, {found}{hint}"
        )
