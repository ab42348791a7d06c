"""How long something took, many times: a histogram with the bounds that dashboards and alerts ask for."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate

BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class Durations:
    """Counts how many were within each bound. One thread adds; others may look meanwhile.

    Attributes:
        sum_s: all of them together, in seconds.
    """

    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS_S) + 1)
        self.sum_s = 0.0

    def add(self, seconds: float) -> None:
        """Count one; by clocks that disagree it may be negative, which counts as none."""
        self._counts[bisect_left(BOUNDS_S, seconds)] += 1
        self.sum_s += max(0.0, seconds)

    @property
    def count(self) -> int:
        """How many there were."""
        return sum(self._counts)

    def up_to(self) -> Iterator[tuple[str, int]]:
        """Each bound in seconds, as Prometheus writes it, with how many took no longer; the last is ``+Inf``."""
        return zip([*map(str, BOUNDS_S), "+Inf"], accumulate(self._counts), strict=True)
