"""Which producer sends a proposal: at once, or together with those that come soon.

A request costs a broker more than what is in it. So what is sent beside many others lingers, and goes with them; what is sent
alone goes at once. Threads that wait for their answers come again soon after them: where the processors are short, none of
such a crowd goes alone, for what is spared there is what all wait for. Once all of it wait, nothing more comes before an answer
does, and what lingers is sent.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from commitlog.errors import CommitLogError
from commitlog.log.sending import Sender
from commitlog.machine import Machine, Thread

_logger = logging.getLogger("commitlog.publisher")

AT_ONCE_MAX = 6
TOGETHER_MS = 3
"""Beyond so many unanswered proposals, those that come within so long are sent together. Of an idempotent producer no more than
five batches of a partition are under way unanswered: for what is beyond, librdkafka waits in a busy loop from the end of this
time on. Longer, a process that proposes 500 a second and waits for nothing would keep as many unanswered by the wait itself."""
LATELY_S = 0.5


@dataclass(frozen=True)
class Crowding:
    """When what is proposed waits for the rest of a crowd.

    Attributes:
        size_min: so many that have waited at once lately are one.
        short_s: processors are short where whoever is let go on takes so long to be there.
        linger_ms: the others of the crowd come within so many.
    """

    size_min: int
    short_s: float
    linger_ms: int


CROWD_OF_THREADS = Crowding(size_min=4, short_s=0.0008, linger_ms=15)
"""A thread that is let go on takes 0.2 ms to be there where there is time, 0.4 among eight that do nothing else, 1.4 to 2.7
among 64 of four processes on two cores, of whose turn, some 25 ms, 15 are little (measured)."""


class MakeSender(Protocol):
    """Makes a producer whose records wait so long for others; a broker may take ``timeout_s`` to answer."""

    def __call__(self, *, linger_ms: int, timeout_s: float) -> Sender: ...


class Crowd:
    """How many threads have waited at once lately: in this half of a second and the one before.

    Many threads tell it without a lock: a number that is lost only sends something sooner or later.

    size_min: so many are one.
    """

    def __init__(self, size_min: int) -> None:
        self._size_min = size_min
        self._began_s = float("-inf")
        self._most = self._most_before = 0

    def size(self, now_s: float) -> int:
        """The most that waited at once."""
        past_s = now_s - self._began_s
        if past_s >= LATELY_S:
            self._most_before = self._most if past_s < 2 * LATELY_S else 0
            self._most, self._began_s = 0, now_s
        return max(self._most, self._most_before)

    def is_complete(self, waiting: int, now_s: float) -> bool:
        """Notes how many wait, and says whether they are all of a crowd."""
        size = max(self.size(now_s), waiting)
        self._most = max(self._most, waiting)
        return waiting == size >= self._size_min


class Senders:
    """The producers of one process, each made when it is first wanted. Thread-safe.

    Args:
        make: makes one.
        machine: whose time it is.
        timeout_s: how long a broker may take to answer the first one.
        crowdings: when what is proposed waits for others; of several the first that fits.
    """

    def __init__(
        self,
        make: MakeSender,
        machine: Machine,
        *,
        timeout_s: float,
        later_timeout_s: float,
        crowdings: Sequence[Crowding] = (CROWD_OF_THREADS,),
    ) -> None:
        self._make = make
        self._machine = machine
        self._later_timeout_s = later_timeout_s
        self._made = {0: make(linger_ms=0, timeout_s=timeout_s)}
        self._makers: dict[int, Thread] = {}
        self._lock = threading.Lock()
        self._is_closing = False
        self._crowdings = crowdings
        self._crowd = Crowd(min(crowding.size_min for crowding in crowdings))

    @property
    def all(self) -> Sequence[Sender]:
        """Those that are made by now."""
        return list(self._made.values())

    def wanted(self, unanswered: int, going_on_s: float) -> Sender:
        """The sender for the next proposal.

        One that lingers is made in the background, which takes a tenth of a second; until it is there all is sent at once.

        Args:
            unanswered: how many proposals are.
            going_on_s: how long a thread that is let go on takes to be there, as `Answers` measures it.
        """
        linger_ms = self._linger_ms(unanswered, going_on_s)
        return self._made.get(linger_ms) or self._made_later(linger_ms)

    def waits(self, waiting: int) -> None:
        """Note that somebody begins to wait for an answer, so that ``waiting`` threads do now."""
        if self._crowd.is_complete(waiting, self._machine.now_s()):
            for linger_ms, sender in list(self._made.items()):
                if linger_ms:
                    sender.hurry()

    def stop_making(self) -> None:
        """From now on `all` stays as it is."""
        with self._lock:
            self._is_closing = True
            makers = list(self._makers.values())
        for maker in makers:
            maker.join()

    def _linger_ms(self, unanswered: int, going_on_s: float) -> int:
        for crowding in self._crowdings:
            if going_on_s >= crowding.short_s and self._crowd.size(self._machine.now_s()) >= crowding.size_min:
                return crowding.linger_ms
        return TOGETHER_MS if unanswered > AT_ONCE_MAX else 0

    def _made_later(self, linger_ms: int) -> Sender:
        with self._lock:
            if linger_ms not in self._makers and not self._is_closing:
                self._makers[linger_ms] = self._machine.thread(lambda: self._make_one(linger_ms), "commitlog-sender")
        return self._made[0]

    def _make_one(self, linger_ms: int) -> None:
        try:
            self._made[linger_ms] = self._make(linger_ms=linger_ms, timeout_s=self._later_timeout_s)
        except CommitLogError as error:
            _logger.debug("what is sent together is sent for at once, until a broker answers: %s", error)
            self._makers.pop(linger_ms, None)
