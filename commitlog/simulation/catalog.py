"""The catalog in memory, at the projector's port: outcomes with a position, all of a transaction or nothing.

It stands for PostgreSQL as the projector meets it: a row lock that others wait for, a key that is there already, a disk that
is full, a connection that breaks before a commit, or after it and before its answer. Which rows of DuckLake's an
outcome becomes is not its business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import psycopg

from commitlog.catalog.written import AppliedPosition, Milepost, Move
from commitlog.domain.model import Genesis, Outcome
from commitlog.simulation.scheduling import Scheduler, SimulatedMachine

OID = 1
LOST_ONE_IN = 20
"""So often the connection breaks at a commit, where such things happen."""


class Database:
    """What a catalog holds.

    Args:
        scheduler: whose choices say when connections break.
        on_commit: told what a transaction has added, and the position that came with it.
    """

    def __init__(
        self, scheduler: Scheduler, on_commit: Callable[[Sequence[Outcome], AppliedPosition, int], None]
    ) -> None:
        self.scheduler = scheduler
        self.is_unusual = False
        self.outcomes: dict[int, Outcome] = {}
        self.position: AppliedPosition | None = None
        self.next_offset = 0
        self.writer: SimulatedCatalog | None = None
        self._on_commit = on_commit

    def commit(self, outcomes: Sequence[Outcome], position: AppliedPosition, next_offset: int) -> None:
        """Makes a transaction visible."""
        self.outcomes.update((outcome.seq, outcome) for outcome in outcomes)
        self.position, self.next_offset = position, next_offset
        self._on_commit(outcomes, position, next_offset)

    def breaks(self) -> bool:
        """Whether a connection breaks now."""
        return self.is_unusual and self.scheduler.choices.one_in(LOST_ONE_IN)


class SimulatedCatalog:
    """A `WrittenCatalog`: one machine's connection to the database."""

    def __init__(self, database: Database, machine: SimulatedMachine) -> None:
        self._database = database
        self._machine = machine
        self._outcomes: list[Outcome] = []
        self._position: AppliedPosition | None = None
        self._next_offset = 0
        self.meanwhile: Callable[[], bool] = lambda: False
        self.is_lost = False
        self.is_awaited = False
        self._reach()

    def __enter__(self) -> SimulatedCatalog:
        return self

    def __exit__(self, *_: object) -> None:
        self._let_go()

    def check_connected(self) -> None:
        if self.is_lost or self._machine.cut_s > self._machine.now_s():
            self._lose()

    def name(self, who: str) -> None:
        self._reach()

    def take_turn(self) -> bool:
        # Whoever believes that it is his turn: what keeps two apart is the position, and that is what is simulated.
        self._reach()
        return True

    def heeded(self) -> int | None:
        self._reach()
        return self._database.next_offset

    def end_turn(self, silent_s: float) -> None:
        self._reach()

    def position(self) -> AppliedPosition | None:
        self._reach()
        return self._database.position

    @contextmanager
    def transaction(self) -> Iterator[None]:
        self._outcomes, self._position = [], None
        try:
            yield
            self._commit()
        finally:
            self._let_go()

    def locked(self) -> tuple[int, int, bytes] | None:
        self._lock()
        at = self._position or self._database.position
        return None if at is None else (at.catalog_oid, at.seq, at.hash)

    def create(self, genesis: Genesis, data_path: str, digest: bytes, offset: int) -> bool:
        self._lock()
        if self._database.position is not None:
            return False
        self._position = AppliedPosition(OID, genesis.log_id, 0, 0, digest, offset)
        self._next_offset = offset + 1
        return True

    def open(self, log_id: bytes) -> None:
        pass

    def project(self, outcomes: Sequence[Outcome], mileposts: Sequence[Milepost]) -> None:
        self._reach()
        if self._machine.full_s > self._machine.now_s():
            raise psycopg.errors.DiskFull("simulated: no space left on device")
        for outcome in outcomes:
            if outcome.seq in self._database.outcomes:
                raise psycopg.errors.UniqueViolation(f"simulated: outcome {outcome.seq} is there already")
        self._outcomes += outcomes
        while self.meanwhile():
            pass

    def move(self, to: Move) -> None:
        self._reach()
        at = self._position or self._database.position
        if at is not None:
            self._position = AppliedPosition(at.catalog_oid, at.log_id, *to[:4])
            self._next_offset = to.next_offset

    def project_at_once(
        self, outcomes: Sequence[Outcome], mileposts: Sequence[Milepost], to: Move, seen: tuple[int, bytes, int]
    ) -> bool:
        with self.transaction():
            found = self.locked()
            if found is None or (found[1], found[2], found[0]) != seen:
                return False
            self.project(outcomes, mileposts)
            self.move(to)
        return True

    def is_due_after(self, snapshot_id: int, time_us: int) -> bool:
        return False

    def _lock(self) -> None:
        self._reach()
        database = self._database
        if database.writer not in (None, self):
            self._machine.wait(None, lambda: database.writer is None or database.writer._machine.is_dead)
        database.writer = self

    def _let_go(self) -> None:
        if self._database.writer is self:
            self._database.writer = None

    def _commit(self) -> None:
        self._reach()
        if self._database.breaks():
            self._lose()
        if self._position is not None:
            self._database.commit(self._outcomes, self._position, self._next_offset)
        self._machine.called()
        if self._database.breaks():
            self._lose()

    def _reach(self) -> None:
        self._machine.called()
        self.check_connected()

    def _lose(self) -> None:
        self.is_lost = True
        self._let_go()
        raise psycopg.OperationalError("simulated: the connection is lost")
