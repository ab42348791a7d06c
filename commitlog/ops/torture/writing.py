"""The writers of a torture, several in a process: each does one kind of write again and again, and asks until it knows.

What it is about to do is in its ledger before it is sent. Whoever is killed and started again finds it there, and asks for the
same by the same key, or by the same id.
"""

from __future__ import annotations

import json
import random
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import wait as wait_for_all
from pathlib import Path
from typing import Any

import pyarrow as pa

from commitlog.client import CommitLog
from commitlog.client.access.log_access import OutcomeState
from commitlog.client.ids import new_proposal_id
from commitlog.client.outcomes.submitted import SubmittedOutcome
from commitlog.client.transaction import Transaction
from commitlog.config import Settings
from commitlog.domain.model import Reason, Verdict
from commitlog.errors import (
    CatalogBehindError,
    CatalogUnavailableError,
    LogUnavailableError,
    OutcomeUnknownError,
    ProposalRejectedError,
    SnapshotNotFoundError,
    WriterBusyError,
)
from commitlog.ops.service.json_logs import log_as_json
from commitlog.ops.torture.ledger import END_FILE, Answer, Ledger, stacks_told

TIMEOUT_MS = 10_000
PAUSE_S_MAX = 0.6
AWAY_PAUSE_S = 0.3
ASYNC_TOGETHER = 20
SLOTS = 3
KEYS = 50
EVENTS, PAIRS, SLOTTED, KEYED, SENT = "main.events", "main.pairs", "main.slots", "main.keyed", "main.sent"
ROW = {"writer": pa.string(), "number": pa.int64()}
WEATHER = (
    OutcomeUnknownError,
    WriterBusyError,
    LogUnavailableError,
    CatalogUnavailableError,
    CatalogBehindError,
    SnapshotNotFoundError,
)
"""What a writer has to live with: it asks again. A catalog whose PostgreSQL was killed is a moment older, and lacks a snapshot
that it had until it has caught up."""


def create_tables(settings: Settings) -> None:
    """What the writers write to; done again, they are there."""

    def create(tx: Transaction) -> None:
        tx.create_table(EVENTS, schema=pa.schema(ROW))
        tx.create_table(PAIRS, schema=pa.schema(ROW))
        tx.create_table(SLOTTED, schema=pa.schema({"slot": pa.int64(), **ROW}))
        tx.create_table(KEYED, schema=pa.schema({"id": pa.int64(), **ROW}), primary_key=["id"])
        tx.create_table(SENT, schema=pa.schema({"id": pa.string(), **ROW}), primary_key=["id"])

    with CommitLog.connect(settings=settings) as log:
        log.run(create, key="tables", timeout_ms=60_000)


class Writer(ABC):
    """One kind of write.

    Args:
        log: the connection, which other writers of the process share.
        name: whose it is.
        chance: its own.
    """

    def __init__(self, log: CommitLog, name: str, chance: random.Random) -> None:
        self._log = log
        self._name = name
        self._chance = chance

    def begin(self) -> Mapping[str, object]:
        """What the next write needs to be the same when it is asked for again."""
        return {}

    @abstractmethod
    def write(self, number: int, begun: Mapping[str, Any]) -> Sequence[SubmittedOutcome | Answer]:
        """Do it, or find that it has been done."""

    def _row(self, number: int) -> dict[str, Any]:
        return {"writer": self._name, "number": number}

    def _key(self, number: int) -> str:
        return f"{self._name}:{number}"


class Appends(Writer):
    """Blind appends, known by their keys."""

    def write(self, number: int, begun: Mapping[str, Any]) -> Sequence[SubmittedOutcome]:
        rows = [self._row(number)]
        return [_some(self._log.append(EVENTS, rows, key=self._key(number), timeout_ms=TIMEOUT_MS))]


class Pairs(Writer):
    """Transactions of two tables, SERIALIZABLE, known by their keys."""

    def write(self, number: int, begun: Mapping[str, Any]) -> Sequence[SubmittedOutcome]:
        def put(tx: Transaction) -> None:
            tx.append(EVENTS, [self._row(number)])
            tx.append(PAIRS, [self._row(number)])

        return [self._log.run(put, key=self._key(number), isolation="serializable", timeout_ms=TIMEOUT_MS)]


class Overwrites(Writer):
    """Rows that several replace at once: most attempts meet a conflict."""

    def write(self, number: int, begun: Mapping[str, Any]) -> Sequence[SubmittedOutcome]:
        slot, table = number % SLOTS, self._log.table(SLOTTED)
        rows = [{"slot": slot, **self._row(number)}]
        return [_some(table.overwrite(rows, f"slot = {slot}", key=self._key(number), timeout_ms=TIMEOUT_MS))]


class Upserts(Writer):
    """Keyed rows that several change at once."""

    def begin(self) -> Mapping[str, object]:
        return {"id": self._chance.randrange(KEYS)}

    def write(self, number: int, begun: Mapping[str, Any]) -> Sequence[SubmittedOutcome]:
        row = {"id": begun["id"], **self._row(number)}
        return [_some(self._log.table(KEYED).upsert([row], key=self._key(number), timeout_ms=TIMEOUT_MS))]


class Definitions(Writer):
    """Schemas and tables that come, change and go, known by the proposal's id."""

    def begin(self) -> Mapping[str, object]:
        return {"base": self._log.wait_for_snapshot(timeout=TIMEOUT_MS / 1000), "ids": [new_proposal_id().hex()]}

    def write(self, number: int, begun: Mapping[str, Any]) -> Sequence[SubmittedOutcome | Answer]:
        [proposal_id] = begun["ids"]
        tx = _same(self._log, self._name, begun, proposal_id)
        self._define(tx, *divmod(number - 1, 4))
        return [_first(self._log, proposal_id, self._log.submit(tx.hand_over(), timeout_ms=TIMEOUT_MS))]

    def _define(self, tx: Transaction, turn: int, step: int) -> None:
        schema = f"{self._name}_{turn}"
        if step == 0:
            tx.create_schema(schema)
        elif step == 1:
            tx.create_table(f"{schema}.t", schema=pa.schema(ROW))
        elif step == 2:
            tx.alter(f"{schema}.t").add_column("more", "int64")
        else:
            tx.drop_schema(schema, cascade=True)


class Batches(Writer):
    """Many proposals that are sent together, each known by its id."""

    def begin(self) -> Mapping[str, object]:
        ids = [new_proposal_id().hex() for _ in range(ASYNC_TOGETHER)]
        return {"base": self._log.wait_for_snapshot(timeout=TIMEOUT_MS / 1000), "ids": ids}

    def write(self, number: int, begun: Mapping[str, Any]) -> Sequence[SubmittedOutcome | Answer]:
        futures: list[Future[SubmittedOutcome]] = []
        for each in begun["ids"]:
            tx = _same(self._log, self._name, begun, each)
            tx.insert_row(SENT, {"id": each, **self._row(number)})
            futures.append(self._log.submit_async(tx, timeout_ms=TIMEOUT_MS))
        wait_for_all(futures)
        return [_first(self._log, each, future.result()) for each, future in zip(begun["ids"], futures, strict=True)]


KINDS: Mapping[str, type[Writer]] = {
    "append": Appends,
    "pair": Pairs,
    "overwrite": Overwrites,
    "upsert": Upserts,
    "define": Definitions,
    "batch": Batches,
}


def _same(log: CommitLog, writer: str, begun: Mapping[str, Any], proposal_id: str) -> Transaction:
    # An id is one writer's: that of the connection is another one after a start.
    return log.transaction(base_snapshot_id=begun["base"], writer_id=writer, proposal_id=bytes.fromhex(proposal_id))


def _some(outcome: SubmittedOutcome | None) -> SubmittedOutcome:
    assert outcome is not None
    return outcome


def _first(log: CommitLog, proposal_id: str, answered: SubmittedOutcome) -> SubmittedOutcome | Answer:
    """The first answer to an id: asked again too late, it is refused, and is looked up."""
    if answered.reason is not Reason.PROPOSAL_EXPIRED:
        return answered
    found = log.outcome(bytes.fromhex(proposal_id))
    if found.state is not OutcomeState.DECIDED or found.outcome is None:
        raise AssertionError(f"{proposal_id} was refused as too old, and is {found.state} all the same")
    return Answer(found.outcome.seq, found.outcome.verdict.value, found.outcome.snapshot_id)


def write_on(log: CommitLog, kind: str, name: str, seed: int, folder: Path) -> None:
    """Be a writer until there is an end.

    Args:
        log: the connection, which other writers of the process share.
        kind, name: what it does, and who it is.
        seed: of all writers.
        folder: of the ledgers.
    """
    chance = random.Random(f"{seed} {name}")
    with Ledger(folder, kind, name) as ledger:
        _write(KINDS[kind](log, name, chance), ledger, chance, folder / END_FILE)


def _write(writer: Writer, ledger: Ledger, chance: random.Random, end: Path) -> None:
    """What was begun is asked for until it is answered."""
    begun = ledger.unanswered
    while begun is not None or not end.exists():
        try:
            if begun is None:
                begun = writer.begin()
                ledger.begin(begun)
            answers = writer.write(ledger.number, begun)
        except ProposalRejectedError as error:
            answers = [Answer(error.outcome.seq, Verdict.REJECTED.value, None)]  # type: ignore[attr-defined]
        except Exception as error:
            if not isinstance(error, WEATHER) and not _is_full(error):
                ledger.fail(error)
            time.sleep(AWAY_PAUSE_S)
            continue
        ledger.answer([_plain(each) for each in answers])
        begun = None
        time.sleep(chance.random() * PAUSE_S_MAX)


def _is_full(error: Exception) -> bool:
    return isinstance(error, OSError) and "No space left" in str(error)


def _plain(told: SubmittedOutcome | Answer) -> Answer:
    return told if isinstance(told, Answer) else Answer(told.seq, told.verdict.value, told.snapshot_id)


def main() -> None:
    """Run the writers of one process: a folder for ledgers, a seed, and by writer its kind, in JSON."""
    folder, seed, kinds = Path(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3])
    log_as_json("writers")
    with stacks_told(folder), connected(Settings.load()) as log:
        threads = [
            threading.Thread(target=write_on, args=(log, kind, name, seed, folder), name=name)
            for name, kind in kinds.items()
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def connected(settings: Settings) -> CommitLog:
    """A connection, as soon as there is one to be had."""
    while True:
        try:
            return CommitLog.connect(settings=settings)
        except WEATHER:
            time.sleep(AWAY_PAUSE_S)


if __name__ == "__main__":
    main()
