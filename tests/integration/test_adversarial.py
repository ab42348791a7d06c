"""Hostile proposals through a real sequencer, a real projector and the stock DuckDB client: answered, projected, read, all.

Integers at their bounds, long and odd texts, deep types, and nine mutated copies of each. A log in memory decides the same
bytes: the real one's answers must be its answers.
"""

from __future__ import annotations

import random
import re
import time
from collections import deque
from itertools import islice
from typing import Any

import psycopg
import pytest
from deciding import DecidedLog
from fuzzing import mutations
from log_running import serving, wait_until
from test_catalog_extremes import READ_TABLES, Extremes, live_keys

from commitlog.catalog.projector import Projector
from commitlog.client.reading.duckdb_client import open_lake
from commitlog.config import Settings
from commitlog.domain import model as m
from commitlog.domain.deciding.decide import decide
from commitlog.domain.deciding.rules import HandlersByName, Rules
from commitlog.domain.model.malformed import MalformedProposal
from commitlog.domain.state.index import new_state
from commitlog.domain.state.replaying import replay
from commitlog.errors import MalformedRecordError
from commitlog.log import codec
from commitlog.log.codec import decode_statistics
from commitlog.log.connection import MESSAGE_BYTES_MAX, make_producer
from commitlog.log.genesis import init_log
from commitlog.log.results import ResultsReader

MUTATED_EACH = 9
KEPT = 200
"""The last so many proposals are those that are mutated."""
PIECE = 1_000
"""So many are kept in memory at a time."""
CLOCK = re.compile(r"the sequencer's \d+ ms")


class DecidedNow(DecidedLog):
    """Decides at one moment, which the real sequencer's clock has passed by little."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = time.time_ns() // 1_000_000

    def propose(self, *changes: dict[str, Any], **fields: Any) -> m.Outcome:
        return super().propose(*changes, **{"now_ms": self.now_ms, **fields})


class Adversary:
    """Makes proposals' bytes, and what is to be answered to each."""

    def __init__(self, genesis: m.Genesis, seed: int) -> None:
        self.log = DecidedNow()
        self.log.genesis, self.log.state = genesis, new_state(genesis)
        self.extremes = Extremes(self.log, seed)
        self.chance = random.Random(seed)
        self.recent: deque[bytes] = deque(maxlen=KEPT)

    def make(self, count: int) -> list[bytes]:
        """So many proposals; each is decided here before the next is made."""
        made: list[bytes] = []
        first = len(self.log.outcomes)
        while len(made) < count:
            before = len(self.log.outcomes)
            self.extremes.propose()
            if len(self.log.outcomes) == before:
                continue
            asked = self.log.outcomes[-1].proposal
            assert asked is not None
            made.append(codec.encode_proposal(asked))
            self.recent.append(made[-1])
            for data in islice(mutations(list(self.recent), self.chance), MUTATED_EACH):
                # The topic takes no larger ones.
                if len(data) <= self.log.genesis.settings.proposal_bytes_max:
                    self._decide(data)
                    made.append(data)
        self.log.outcomes[first:] = [each.replace(proposal=None) for each in self.log.outcomes[first:]]
        return made

    def _decide(self, data: bytes) -> None:
        try:
            asked: m.Proposal | MalformedProposal = codec.decode_proposal(data)
        except MalformedRecordError as error:
            asked = MalformedProposal(str(error), *codec.readable_ids(data))
        number = len(self.log.outcomes)
        outcome = decide(
            self.log.state,
            asked,
            now_ms=self.log.now_ms,
            source=m.Position(0, number),
            rules=Rules(HandlersByName({})),
        )
        replay(self.log.state, outcome)
        self.log.outcomes.append(outcome)


def told(outcome: m.Outcome) -> tuple[object, ...]:
    """What the answer says, but for the time that the sequencer's clock had."""
    detail = CLOCK.sub("the sequencer's clock", outcome.detail or "")
    return outcome.seq, outcome.verdict, outcome.reason, outcome.snapshot_id, detail


def check(settings: Settings, seed: int, count: int) -> None:
    genesis = init_log(settings)
    adversary = Adversary(genesis, seed)
    producer = make_producer(settings, linger_ms=5, compression_type="lz4", message_max_bytes=MESSAGE_BYTES_MAX)
    while len(adversary.log.outcomes) < count:
        for data in adversary.make(min(PIECE, count - len(adversary.log.outcomes))):
            producer.produce(f"{settings.log}.proposals", data, partition=0)
        assert producer.flush(60) == 0
    proposed = len(adversary.log.outcomes)
    with serving(settings) as sequencer:
        wait_until(lambda: sequencer.status.seq >= proposed, "all are decided", deadline_s=1200)
    with ResultsReader(settings) as reader:
        answers = (record.value for records in reader.read_to_end() for record in records)
        assert [told(each) for each in answers if isinstance(each, m.Outcome)] == [
            told(each) for each in adversary.log.outcomes
        ]
    assert not any(each.reason is m.Reason.INTERNAL for each in adversary.log.outcomes)
    Projector(settings, decode_statistics=decode_statistics).project_to_end()
    read(settings.database_url, adversary)


def read(url: str, adversary: Adversary) -> None:
    """The stock client lists the snapshots and reads the rows that are in no file."""
    state = adversary.log.state
    tables = [each for each in state.tables.values() if each.dropped_at is None and each.rows is not None]
    with psycopg.connect(url) as conn:
        assert conn.execute("SELECT seq FROM commitlog.applied").fetchone() == (len(adversary.log.outcomes),)
        snapshots = conn.execute("SELECT count(*) FROM ducklake_snapshot").fetchall()
    with open_lake(url) as client:
        assert client.execute("SELECT count(*) FROM ducklake_snapshots('lake')").fetchall() == snapshots
        for table in adversary.chance.sample(tables, min(READ_TABLES, len(tables))):
            name = ".".join('"' + each.replace('"', '""') + '"' for each in (table.schema.name, table.definition.name))
            rows = client.execute(f"SELECT * FROM {name}").fetchall()
            assert len(rows) == len(live_keys(table)), name


@pytest.fixture
def one_partition(kafka: str, database_url: str, log_name: str, settings: Settings) -> Settings:
    return Settings.load(
        environment={},
        log=log_name,
        bootstrap_servers=kafka,
        database_url=database_url,
        data_path=settings.data_path,
        home=settings.home,
        partitions=1,
        proposal_bytes_max=16 * 2**20,
    )


def test_adversarial_proposals_then_all_are_answered_projected_and_read(one_partition: Settings) -> None:
    check(one_partition, seed=11, count=1_500)


@pytest.mark.nightly
@pytest.mark.timeout(7200)
def test_a_hundred_thousand_adversarial_proposals_then_all_are_answered_projected_and_read(
    one_partition: Settings,
) -> None:
    check(one_partition, seed=12, count=100_000)
