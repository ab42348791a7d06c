"""How a log is: what is decided, what readers see, whether a sequencer lives. What `status` shows."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass

from commitlog.catalog.queries import Catalog
from commitlog.client.results_lookup import ResultsLookup
from commitlog.config import Settings
from commitlog.errors import CatalogUnavailableError, CommitLogError
from commitlog.log.heartbeats import HeartbeatListener
from commitlog.log.topics import require_genesis

HEARTBEAT_TIMEOUT_S = 1.5
_POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class LogHealth:
    """How a log is.

    Attributes:
        log: its name.
        sequencer_alive: whether a sequencer's heartbeat was heard just now.
        epoch: that sequencer's.
        decided_seq: the last outcome in the results topic.
        head_snapshot_id: the head after it.
        applied_seq: the last outcome in the catalog.
        lag: outcomes that are decided and not in the catalog.
        problem: what is wrong, in words; None when all is well.
    """

    log: str
    sequencer_alive: bool = False
    epoch: int | None = None
    decided_seq: int | None = None
    head_snapshot_id: int | None = None
    applied_seq: int | None = None
    lag: int | None = None
    problem: str | None = None

    def as_dict(self) -> dict[str, object]:
        """For `--json`."""
        return asdict(self)


def log_health(settings: Settings) -> LogHealth:
    """Look at a log; what cannot be reached is said in ``problem``."""
    try:
        genesis = require_genesis(settings)
        listener = HeartbeatListener(settings)
        catalog = Catalog(settings.database_url)
        lookup = ResultsLookup(settings, catalog)
        try:
            last = lookup.last()
            heartbeat = _heard(listener, genesis.log_id)
        finally:
            listener.close()
            lookup.close()
            catalog.close()
    except CommitLogError as error:
        return LogHealth(settings.log, problem=str(error))
    decided = 0 if last is None else last.seq
    applied, problem = _applied(settings)
    if heartbeat is None:
        problem = "no sequencer is alive: run `commitlog serve` or `commitlog up`"
    return LogHealth(
        settings.log,
        sequencer_alive=heartbeat is not None,
        epoch=heartbeat,
        decided_seq=decided,
        head_snapshot_id=0 if last is None else last.head_snapshot_id,
        applied_seq=applied,
        lag=None if applied is None else max(0, decided - applied),
        problem=problem,
    )


def _heard(listener: HeartbeatListener, log_id: bytes) -> int | None:
    """The epoch of the sequencer that is heard in time."""
    deadline = time.monotonic() + HEARTBEAT_TIMEOUT_S
    while time.monotonic() < deadline:
        listener.listen()
        heartbeat = listener.heard.newest(log_id)
        if heartbeat is not None:
            return heartbeat.epoch
        time.sleep(_POLL_S)
    return None


def _applied(settings: Settings) -> tuple[int | None, str | None]:
    catalog = Catalog(settings.database_url)
    try:
        if not catalog.exists():
            return None, "there is no catalog yet: no projector has run"
        applied = catalog.applied()
        return (0 if applied is None else applied.seq), None
    except CatalogUnavailableError as error:
        return None, str(error)
    finally:
        catalog.close()
