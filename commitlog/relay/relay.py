"""A relay: what goes in and what goes out, side by side, until one of them ends or it is told to stop."""

from __future__ import annotations

import threading
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait

from commitlog.config import Settings
from commitlog.log.codec.confluent import schema_text
from commitlog.log.genesis import require_genesis
from commitlog.relay.inward import Inward
from commitlog.relay.outward import Outward
from commitlog.relay.progress import RelayProgress
from commitlog.relay.registry import Registry
from commitlog.relay.topics import ensure_border_topics

LOOKED_AT_EVERY_S = 0.2


def run_relay(settings: Settings, *, stop: threading.Event, progress: RelayProgress | None = None) -> None:
    """Take proposals from the border to a log, and its receipts and outcomes to the border, until it is told to stop.

    The registry is told the schemas of all three, so that a program finds them by their topics. Several may run: they share the
    proposals, and one of them gives the outcomes.

    Args:
        settings: which log, and where; they name the registry.
        stop: tells it.
        progress: is added to.

    Raises:
        ConfigurationError: no registry is named, it refuses, or there is no such log.
        FencedError: another relay gives the outcomes, before this one has heard that its turn is over.
        LogUnavailableError, RegistryUnavailableError: a server does not answer.
        LogRefusedError: Kafka does not let a topic be read, written or created.
        LogIntegrityError: the results are not what they were, or something is of a newer version.
    """
    progress = RelayProgress() if progress is None else progress
    with Registry(settings) as registry:
        genesis = require_genesis(settings)
        border = ensure_border_topics(settings, genesis.partitions)
        progress.partitions = genesis.partitions
        registry.id_of(border.proposals, schema_text("proposal.avsc"))
        receipts_id = registry.id_of(border.receipts, schema_text("receipts.avsc"))
        outcomes_id = registry.id_of(border.results, schema_text("outcome.avsc"))
        inward = Inward(settings, genesis, border, registry, progress, receipts_id=receipts_id)
        _run_both(inward, Outward(settings, genesis, border, progress, outcomes_id=outcomes_id), stop)


def _run_both(inward: Inward, outward: Outward, stop: threading.Event) -> None:
    """Run both until one of them ends, which ends the other; raises what ended it."""
    ways = (inward, outward)
    ending = threading.Event()
    with ThreadPoolExecutor(len(ways), thread_name_prefix="commitlog-relay") as threads:
        running = [threads.submit(way.run, ending) for way in ways]
        try:
            while not stop.is_set() and not wait(running, LOOKED_AT_EVERY_S, FIRST_COMPLETED).done:
                pass
        finally:
            ending.set()
    for way in running:
        way.result()
