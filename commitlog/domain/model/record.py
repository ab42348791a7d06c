"""What all records of the log have in common: they are equal by their fields, and never change.

A dataclass would do, but for the ``__init__`` that it makes when the program starts: that one stays interpreted where all
else is compiled, and costs more than the decision that the record is made for. So the generated classes write theirs out.
"""

from __future__ import annotations

from dataclasses import fields
from enum import StrEnum
from typing import Any, ClassVar, Final, Self

from mypy_extensions import mypyc_attr

new_named: Final[Any] = tuple.__new__
"""A named tuple of a class and all of its values: the class makes it by a function that stays interpreted."""


class Symbol(StrEnum):
    """The base of the generated enums. Members are looked up many times for every proposal, and an enum's own hash would be
    made by a function that stays interpreted.
    """

    __hash__ = str.__hash__


# No record is in a cycle: one that the collector of garbage need not know of is made in half the time.
@mypyc_attr(acyclic=True)
class Record:
    """The base of the generated records. ``FIELDS`` are the fields' names; those in ``ASIDE`` make no difference."""

    __slots__ = ()

    FIELDS: ClassVar[tuple[str, ...]] = ()
    ASIDE: ClassVar[frozenset[str]] = frozenset()

    def replace(self, **changes: Any) -> Self:
        """The same record with other values in some fields."""
        return type(self)(**self.fields() | changes)

    def values(self) -> tuple[Any, ...]:
        """The values of the fields, in their order."""
        return tuple([getattr(self, name) for name in self.FIELDS])

    def fields(self) -> dict[str, Any]:
        """The fields by name, in their order; inner records stay what they are."""
        return {name: getattr(self, name) for name in self.FIELDS}

    def _compared(self) -> tuple[Any, ...]:
        return tuple([getattr(self, name) for name in self.FIELDS if name not in self.ASIDE])

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        assert isinstance(other, Record)
        return self._compared() == other._compared()

    def __hash__(self) -> int:
        return hash((type(self), self._compared()))

    def __repr__(self) -> str:
        shown = [f"{name}={getattr(self, name)!r}" for name in self.FIELDS if name not in self.ASIDE]
        return f"{type(self).__name__}({', '.join(shown)})"

    def __reduce__(self) -> Any:
        return _remade, (type(self), self.fields())


def _remade(kind: type[Record], fields: dict[str, Any]) -> Record:
    return kind(**fields)


class Remade:
    """The base of frozen dataclasses that are pickled: a compiled one would have its fields set, and refuse that."""

    __slots__ = ()

    def __reduce__(self) -> Any:
        own: Any = self
        return type(self), tuple([getattr(self, each.name) for each in fields(own) if each.init])
