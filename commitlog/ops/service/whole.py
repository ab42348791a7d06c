"""All that `serve` runs on one machine, looked at as one service: what a container's or balancer's probe wants to know."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from commitlog.config import Settings
from commitlog.ops.service.listening import measures_note, running, unready
from commitlog.ops.service.supervisor import CARRIER, LINK, RELAY, Supervised, Supervisor

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

    from commitlog.ops.service.measures import Measures


class WatchedWhole:
    """The processes of a supervisor: ready when each of them is but links and the relay: a site that is cut off goes on by
    itself, and so does a log whose registry is away.

    Before there is a supervisor it lives, and says in `waits_for` why it is not ready: who looks after it must not take it
    for dead because a server is away.
    """

    service = "serve"
    lags = ()

    def __init__(self, settings: Settings, supervisor: Supervisor | None = None) -> None:
        self._settings = settings
        self.supervisor = supervisor
        self.waits_for = "it has not started yet"

    def measures(self, measures: Measures) -> Iterator[Metric]:
        return measures.of_supervisor([] if self.supervisor is None else self.supervisor.described())

    def problem(self) -> str | None:
        if self.supervisor is None:
            return self.waits_for
        own = (
            each for each in self.supervisor.described() if not each.name.startswith((LINK, RELAY.name, CARRIER.name))
        )
        problems = ((each.name, self._problem_of(each)) for each in own)
        return "; ".join(f"{name}: {problem}" for name, problem in problems if problem) or None

    def _problem_of(self, service: Supervised) -> str | None:
        if service.pid is None:
            return "not running; it is being restarted"
        found = running(self._settings, measures_note(service.name))
        return "it has not started yet" if found is None else unready(found)
