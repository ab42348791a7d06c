"""Writers that go on whatever happens to the sequencers, and what must be true of the log that they leave."""

from __future__ import annotations

import threading
import time
from collections import Counter

from log_running import Ids, all_outcomes, messages_of, proposal, wait_until

from commitlog.config import Settings
from commitlog.domain import model as m
from commitlog.errors import LogUnavailableError, OutcomeUnknownError
from commitlog.log.codec import decode_receipts
from commitlog.log.publisher import Publisher
from commitlog.log.topics import topics_of

WRITERS = 3
SUBMIT_TIMEOUT_S = 10.0
WELL_AGAIN_S = 120.0


class Writers:
    """Threads that send one proposal after the other; one that is not answered in time is sent again.

    `waited_s` is by the seq that answered how long its writer has waited, since it was sent for the last time.

    Args:
        settings: which log, and where.
        seed: of the ids.
        timeout_s: how long each waits for an answer.
        pause_s: after an answer, so that the log of a long run stays short, which every new sequencer loads.
    """

    def __init__(
        self, settings: Settings, seed: int, *, timeout_s: float = SUBMIT_TIMEOUT_S, pause_s: float = 0.0
    ) -> None:
        self._settings = settings
        self._timeout_s = timeout_s
        self._pause_s = pause_s
        self._stop = threading.Event()
        self._sent_s = [0.0] * WRITERS
        self.receipts: list[m.Receipt] = []
        self.waited_s: dict[int, float] = {}
        self.unknown = 0
        self.failures: list[BaseException] = []
        self._threads = [
            threading.Thread(target=self._write, args=(number, Ids(seed + number))) for number in range(WRITERS)
        ]

    def __enter__(self) -> Writers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def wait_until_answered(self) -> None:
        """Until every writer has an answer to a proposal that was sent after this call."""
        since_s = time.monotonic()
        wait_until(lambda: self.are_answered(since_s), "answers to every writer", deadline_s=WELL_AGAIN_S)

    def are_answered(self, since_s: float) -> bool:
        """Whether every writer has an answer to a proposal that was sent after this moment of the monotonic clock."""
        assert not self.failures
        return min(self._sent_s) > since_s

    def _write(self, number: int, ids: Ids) -> None:
        try:
            with Publisher(self._settings) as publisher:
                count = 0
                while not self._stop.wait(self._pause_s):
                    count += 1
                    each = proposal(ids, 0, m.CreateSchema(f"s{number}_{count}"), writer=f"w{number}")
                    sent_s = time.monotonic()
                    self.receipts.append(self._answer(publisher, each))
                    self._sent_s[number] = sent_s
        except BaseException as error:
            self.failures.append(error)

    def _answer(self, publisher: Publisher, each: m.Proposal) -> m.Receipt:
        deadline = time.monotonic() + 2 * WELL_AGAIN_S
        while True:
            sent_s = time.monotonic()
            try:
                receipt = publisher.submit(each, timeout_s=self._timeout_s)
            except (OutcomeUnknownError, LogUnavailableError):
                self.unknown += 1
                if time.monotonic() > deadline:
                    raise
                continue
            self.waited_s[receipt.seq] = time.monotonic() - sent_s
            return receipt


def check(settings: Settings, writers: Writers) -> None:
    """Nothing is lost, nothing decided twice, nobody was told what does not hold."""
    assert not writers.failures
    outcomes = all_outcomes(settings)
    assert [each.seq for each in outcomes] == list(range(1, len(outcomes) + 1))
    sources = Counter(each.source for each in outcomes)
    assert max(sources.values()) == 1, "a proposal was decided twice"
    for partition in {each.partition for each in sources}:
        offsets = sorted(each.offset for each in sources if each.partition == partition)
        assert offsets == list(range(len(offsets))), "a proposal was left out"
    first = Counter(each.proposal_id for each in outcomes if each.verdict is not m.Verdict.DUPLICATE)
    assert set(first.values()) == {1}
    assert all(first[each.proposal_id] for each in writers.receipts), "an answered proposal is not in the log"
    told: set[int] = set()
    topic = topics_of(settings.log).receipts
    for partition in range(settings.partitions):
        for value in messages_of(settings, topic, partition):
            for receipt in decode_receipts(value).receipts:
                outcome = outcomes[receipt.seq - 1]
                assert (receipt.proposal_id, receipt.verdict, receipt.snapshot_id, receipt.source) == (
                    outcome.proposal_id,
                    outcome.verdict,
                    outcome.snapshot_id,
                    outcome.source,
                )
                told.add(receipt.seq)
    assert told >= {receipt.seq for receipt in writers.receipts}
    assert not any(each.verdict is m.Verdict.REJECTED for each in outcomes)
