"""How far a service is behind the topic that it reads: looked at from beside it, so that it is seen when it is stuck."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping

LOOK_S = 1.0
LAG_S_MAX = 10.0
"""Who is behind for longer is not ready."""

Offsets = Mapping[int, int]

_logger = logging.getLogger("commitlog.lag")


class Lag:
    """What a reader has left to do.

    Args:
        done: up to which offset of each partition it is done; empty before it knows.
        ends: asks where partitions end.
        has_any: whether there is a record between the two: not all that has an offset is one.
        clock_s: a clock that never goes back.

    Attributes:
        records: how many it is behind; None when that is not known.
        seconds: for how long the first of them has been there, as far as was looked.
        problem: why that is not known, in words; None when it is.
    """

    def __init__(
        self,
        done: Callable[[], Offsets],
        ends: Callable[[Offsets], Offsets],
        *,
        has_any: Callable[[Offsets, Offsets], bool] = lambda done, ends: True,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._done = done
        self._ends = ends
        self._has_any = has_any
        self._clock_s = clock_s
        self._seen: deque[tuple[Offsets, float]] = deque()
        self._no_records: Offsets = {}
        self.records: int | None = None
        self.seconds: float | None = None
        self.problem: str | None = "it has not been measured yet"

    def watch(self, stop: threading.Event) -> None:
        """Look each second, until it is told to stop."""
        while not stop.is_set():
            self.look()
            stop.wait(LOOK_S)

    def look(self) -> None:
        """Compare what is done with where the topic ends; what comes in the way of that is its problem."""
        try:
            self.problem = self.compare()
        except Exception as error:
            # Whatever it is: who cannot be looked at is not ready, and the service itself goes on.
            _logger.debug("the lag is unknown", exc_info=error)
            self.problem = str(error) or repr(error)
        if self.problem is not None:
            self.records = self.seconds = None

    def compare(self) -> str | None:
        """Compare them; gives what is not known yet for that, in words, and raises what asking raises."""
        done = self._done()
        if not done:
            return "its starting position is not known yet"
        ends, now_s = self._ends(done), self._clock_s()
        self._note(done, ends, now_s)
        if self.seconds is not None and self.seconds > LAG_S_MAX and not self._has_any(done, ends):
            self._no_records = ends
            self._note(done, ends, now_s)
        return None

    def _note(self, done: Offsets, ends: Offsets, now_s: float) -> None:
        done = {each: max(offset, self._no_records.get(each, 0)) for each, offset in done.items()}
        if not self._seen or self._seen[-1][0] != ends:
            self._seen.append((ends, now_s))
        while self._seen and _left(done, self._seen[0][0]) == 0:
            self._seen.popleft()
        self.records = _left(done, ends)
        self.seconds = now_s - self._seen[0][1] if self._seen else 0.0


def _left(done: Offsets, ends: Offsets) -> int:
    return sum(max(0, end - done.get(partition, 0)) for partition, end in ends.items())
