"""Where chance comes from: one seed, or choices that were noted before, so that a schedule can be run again and shortened."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Choices:
    """Numbers that decide everything; those that were given, then zeros, which mean that nothing happens.

    Args:
        source: a seed, or the choices of an earlier run.
    """

    def __init__(self, source: int | Sequence[int]) -> None:
        self._chance = random.Random(source) if isinstance(source, int) else None
        self._given: Sequence[int] = () if isinstance(source, int) else source
        self.made: list[int] = []

    def below(self, count: int) -> int:
        """A number from 0 on."""
        if self._chance is not None:
            chosen = int(self._chance.random() * count)
        else:
            at = len(self.made)
            chosen = self._given[at] % count if at < len(self._given) else 0
        self.made.append(chosen)
        return chosen

    def pick(self, options: Sequence[T]) -> T:
        """One of them."""
        return options[self.below(len(options))]

    def one_in(self, count: int) -> bool:
        """Seldom; never where choices have run out."""
        return self.below(count) == count - 1
