"""Who looks at a service while it runs: what it tells, and whether it is ready, found out beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING

from commitlog.config import Settings
from commitlog.log.carrier import Carrier
from commitlog.log.checkpoint import Checkpointer
from commitlog.log.connection import end_offsets
from commitlog.log.sequencer import Phase, Sequencer, SequencerStatus
from commitlog.log.topics import topics_of
from commitlog.log.undecided import has_proposal
from commitlog.observing.lag import LAG_S_MAX, Lag, Offsets
from commitlog.ops.service.counted import GatewayProgress
from commitlog.relay.progress import Backlog, RelayProgress, outcomes_backlog, proposals_backlog

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

    from commitlog.catalog.projector import Projector
    from commitlog.ops.service.endpoint import Watched
    from commitlog.ops.service.links import RunningLink
    from commitlog.ops.service.measures import Measures


class WatchedSequencer:
    """A sequencer, which is another one after each outage of its broker."""

    service = "sequencer"

    def __init__(self, settings: Settings) -> None:
        self._status: Callable[[], SequencerStatus] = SequencerStatus
        has_any = partial(has_proposal, settings)
        self.lag = Lag(self._done, _ends_of(settings, topics_of(settings.log).proposals), has_any=has_any)
        self.lags = (self.lag,)

    def is_made(self, sequencer: Sequencer) -> None:
        """Look at this one from now on."""
        self._status = lambda: sequencer.status

    def measures(self, measures: Measures) -> Iterator[Metric]:
        return measures.of_sequencer(self._status(), self.lag)

    def problem(self) -> str | None:
        phase = self._status().phase
        if phase not in (Phase.SERVING, Phase.STANDBY):
            return f"it is {phase.value}"
        return _behind(self.lag, "proposals have waited")

    def _done(self) -> Offsets:
        return self._status().next_offsets


class WatchedProjector:
    """A projector."""

    service = "projector"

    def __init__(self, settings: Settings, projector: Projector) -> None:
        self._projector = projector
        self.lag = Lag(self._done, _ends_of(settings, topics_of(settings.log).results))
        self.lags = (self.lag,)

    def measures(self, measures: Measures) -> Iterator[Metric]:
        return measures.of_projector(self._projector.status, self.lag)

    def problem(self) -> str | None:
        return (
            None if self._projector.status.is_standby else _behind(self.lag, "readers have not seen decided outcomes")
        )

    def _done(self) -> Offsets:
        next_offset = self._projector.status.next_offset
        return {0: next_offset} if next_offset else {}


class WatchedCheckpointer:
    """A checkpointer, which is another one after each outage of its broker."""

    service = "checkpointer"
    lags = ()

    def __init__(self) -> None:
        self.checkpointer: Checkpointer | None = None

    def is_made(self, checkpointer: Checkpointer) -> None:
        """Look at this one from now on."""
        self.checkpointer = checkpointer

    def measures(self, measures: Measures) -> Iterator[Metric]:
        if self.checkpointer is not None:
            yield from measures.of_checkpointer(
                replayed_seq=self.checkpointer.replayed_seq, saved_seq=self.checkpointer.saved_seq
            )

    def problem(self) -> str | None:
        return "it has not started yet" if self.checkpointer is None else self.checkpointer.problem


class WatchedCarrier:
    """A carrier, which is another one after each outage of its broker."""

    service = "carrier"
    lags = ()

    def __init__(self) -> None:
        self.carrier: Carrier | None = None

    def is_made(self, carrier: Carrier) -> None:
        """Look at this one from now on."""
        self.carrier = carrier

    def measures(self, measures: Measures) -> Iterator[Metric]:
        if self.carrier is not None:
            yield from measures.of_carrier(programs=self.carrier.programs, carried=self.carrier.carried)

    def problem(self) -> str | None:
        return "it has not started yet" if self.carrier is None else None


class WatchedLink:
    """A link from another site, which is another one after each outage."""

    def __init__(self, running: RunningLink) -> None:
        self._running = running
        self.service = running.service
        self.lag = running.lag
        self.lags = (self.lag,)

    def measures(self, measures: Measures) -> Iterator[Metric]:
        if self._running.progress is not None:
            yield from measures.of_link(self._running.progress, self.lag)

    def problem(self) -> str | None:
        if self._running.progress is None:
            return "it has not started yet"
        return _behind(self.lag, "commits of the other site have waited")


class WatchedRelay:
    """A relay: what waits, waits for all of a log's relays."""

    service = "relay"

    def __init__(self, settings: Settings) -> None:
        self.progress = RelayProgress()
        self.proposals = self._lag(proposals_backlog(settings), lambda: self.progress.partitions)
        self.outcomes = self._lag(outcomes_backlog(settings), lambda: min(1, self.progress.partitions))
        self.lags = (self.proposals, self.outcomes)

    def _lag(self, backlog: Backlog, partitions: Callable[[], int]) -> Lag:
        return Lag(lambda: backlog.done(partitions()), backlog.ends, has_any=backlog.has_any)

    def measures(self, measures: Measures) -> Iterator[Metric]:
        return measures.of_relay(self.progress, self.proposals, self.outcomes)

    def problem(self) -> str | None:
        if not self.progress.partitions:
            return "it has not started yet"
        return _behind(self.proposals, "proposals have waited at the border") or _behind(
            self.outcomes, "decided outcomes have not reached the border"
        )


class WatchedPage:
    """The web page: it is ready as soon as it answers."""

    service = "page"
    lags = ()

    def measures(self, measures: Measures) -> Iterator[Metric]:
        return iter(())

    def problem(self) -> str | None:
        return None


class WatchedGateway:
    """The gateway: it is ready as soon as it listens."""

    service = "gateway"
    lags = ()

    def __init__(self) -> None:
        self.address: str | None = None
        self.progress = GatewayProgress()

    def measures(self, measures: Measures) -> Iterator[Metric]:
        return measures.of_gateway(self.progress)

    def problem(self) -> str | None:
        return "it is not listening yet" if self.address is None else None


def told_about(settings: Settings, watched: Watched) -> AbstractContextManager[object]:
    """Tell about a service as long as the block runs, where the extra `metrics` is installed."""
    if find_spec("prometheus_client") is None:
        return nullcontext()
    from commitlog.ops.service.endpoint import endpoint

    return endpoint(settings, watched)


def _ends_of(settings: Settings, topic: str) -> Callable[[Offsets], Offsets]:
    return lambda done: end_offsets(settings, topic, done)


def _behind(lag: Lag, what: str) -> str | None:
    if lag.seconds is not None and lag.seconds > LAG_S_MAX:
        return f"{what} for {lag.seconds:.0f} s: it is slow or stuck; see its log"
    return lag.problem
