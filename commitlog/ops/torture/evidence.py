"""Gathers what is left of a log: its topics from their beginning, its writers' ledgers, its rows as readers find them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from commitlog.client import CommitLog
from commitlog.config import Settings
from commitlog.domain.model import Outcome, Receipt
from commitlog.log.codec import decode_receipts
from commitlog.log.connection import end_offsets, first_offsets
from commitlog.log.genesis import require_genesis
from commitlog.log.reading import read_through
from commitlog.log.results import read_accepted, results_end
from commitlog.log.topics import topics_of
from commitlog.ops.maintenance.doctor import DURABILITY, examine
from commitlog.ops.torture.checking import Evidence
from commitlog.ops.torture.ledger import all_written
from commitlog.ops.torture.writing import EVENTS, PAIRS, SENT

EXPECTED: Mapping[str, Sequence[str]] = {EVENTS: ("append", "pair"), PAIRS: ("pair",), SENT: ("batch",)}
"""Tables that keep all rows, and the kinds of write that put them there."""


def gather(settings: Settings, ledgers: Path, failures: Sequence[str]) -> Evidence:
    """All of it.

    Args:
        settings: the log, by its servers' own addresses; the catalog holds all of it.
        ledgers: the writers' folder.
        failures: what the campaign itself has to tell.
    """
    partitions = range(require_genesis(settings).partitions)
    outcomes = [record.value for record in read_accepted(settings, None, results_end(settings))]
    return Evidence(
        outcomes=[each for each in outcomes if isinstance(each, Outcome)],
        ends=end_offsets(settings, topics_of(settings.log).proposals, partitions),
        receipts=list(_receipts(settings, partitions)),
        written=list(all_written(ledgers)),
        rows=_rows(settings),
        expected=EXPECTED,
        findings=list(_findings(settings)),
        failures=failures,
    )


def _receipts(settings: Settings, partitions: range) -> Iterator[Receipt]:
    topic = topics_of(settings.log).receipts
    starts = first_offsets(settings, topic, partitions)
    ends = end_offsets(settings, topic, partitions)
    for _, value in read_through(settings, topic, starts, ends):
        yield from decode_receipts(value or b"").receipts


def _rows(settings: Settings) -> dict[str, Counter[tuple[str, int]]]:
    found = {}
    with CommitLog.connect(settings=settings) as log:
        for table in EXPECTED:
            rows = log.table(table).scan(columns=["writer", "number"]).to_arrow().to_pylist()
            found[table] = Counter((row["writer"], row["number"]) for row in rows)
    return found


def _findings(settings: Settings) -> Iterator[str]:
    for result in examine(settings):
        if result.check == DURABILITY:
            # What one broker on one machine can lose is known.
            continue
        if result.not_checked is not None:
            yield f"{result.check}: {result.not_checked}"
        yield from (f"{result.check}: {finding.what}" for finding in result.findings if not finding.is_note)
