"""Links that `serve` keeps running: each brings what another site has committed to this log, and says how far it is.

A site that is away is waited for; the sites themselves go on meanwhile. How far a link is, others on this machine find in the
home, as the last errors of services.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from commitlog.client import CommitLog
from commitlog.config import Settings
from commitlog.domain.model.definitions import counted
from commitlog.errors import LinkStoppedError, TableNotBroughtError
from commitlog.observing.lag import LAG_S_MAX, Lag, Offsets
from commitlog.ops.service.notes import folder_of, leave_word
from commitlog.ops.service.supervisor import LINK, Service
from commitlog.sites.link import Link, LinkProgress

TOLD_EVERY_S = 1.0
UNTOLD_EVERY_S = 60.0
"""So much later it is tried again where the home's disk does not take it."""
AGED_S = 10.0
"""What was told before that may hold no more, and is shown with its age."""
SILENT_S = 120.0
"""Before that, a link that tells nothing may wait: one that was fenced, or refused, is begun again after a minute."""


def link_services(settings: Settings) -> tuple[Service, ...]:
    """A process for each of the profiles that the setting `links_from` names.

    Raises:
        ConfigurationError: there is no such profile, or a value in it is wrong.
    """
    for name in settings.link_sources():
        settings.of_profile(name)
    file = str(settings.config_file)
    return tuple(
        Service(f"{LINK}{name}", ("replicate", "--from", name, "--config", file, "--service"))
        for name in settings.link_sources()
    )


class _StoppedError(Exception):
    """It was told to stop."""


class _NotRunningError(Exception):
    """It waits until it is begun again."""


class RunningLink:
    """One link of the service, which is another one after each outage.

    Args:
        profile: whose log is read.
        source: its settings.
        target: those of the log that it is brought to.
    """

    def __init__(self, profile: str, source: Settings, target: Settings) -> None:
        self.service = f"{LINK}{profile}"
        self._source, self._target = source, target
        self._read: CommitLog | None = None
        self._told_at_s = 0.0
        self.progress: LinkProgress | None = None
        self.lag = Lag(self._done, self._ends)

    def run(self, stop: threading.Event) -> None:
        """Bring what comes until it is told to stop; raises as `Link.run`."""

        def told(progress: LinkProgress) -> None:
            if stop.is_set():
                raise _StoppedError
            if time.monotonic() - self._told_at_s >= TOLD_EVERY_S:
                self._leave_word(progress)

        with CommitLog.connect(settings=self._source) as read, CommitLog.connect(settings=self._target) as written:
            self._read = read
            try:
                link = Link(read, written)
                self.progress = link.progress
                link.run(told=told)
            except _StoppedError:
                self._leave_word(link.progress)
            except (LinkStoppedError, TableNotBroughtError):
                # What it told last may be that all is brought, and it tells nothing more.
                self.lag.look()
                self._leave_word(link.progress, is_stopped=True)
                raise
            finally:
                self._read = None

    def _leave_word(self, progress: LinkProgress, *, is_stopped: bool = False) -> None:
        self._told_at_s = time.monotonic()
        told = LinkHealth(
            self.service.removeprefix(LINK),
            progress,
            lag=self.lag.records,
            lag_s=None if is_stopped else self.lag.seconds,
            at_ms=int(time.time() * 1000),
        )
        if not leave_word(_folder(self._target) / f"{told.profile}.json", asdict(told)):
            self._told_at_s += UNTOLD_EVERY_S

    def _done(self) -> Offsets:
        return {} if self.progress is None else {0: self.progress.seq}

    def _ends(self, done: Offsets) -> Offsets:
        read = self._read
        if read is None:
            # How far it is behind a site that it has lost, it does not know: that may be much by now.
            raise _NotRunningError("one of its sites does not answer; it continues once that does; see its log")
        return {0: read.last_seq()}


@dataclass(frozen=True, slots=True)
class LinkHealth:
    """How far a link of this machine is.

    Attributes:
        profile: whose log is read.
        progress: what it has done since it began.
        lag: outcomes of the source that it has not looked at; None when that is not known.
        lag_s: for how long the first of them has been there; None when that is not known, as where it was refused.
        at_ms: when that was told.
    """

    profile: str
    progress: LinkProgress
    lag: int | None
    lag_s: float | None
    at_ms: int

    @property
    def service(self) -> str:
        """The link among the services of this machine."""
        return f"{LINK}{self.profile}"

    @property
    def age_s(self) -> float:
        """How long ago that was told."""
        return max(0.0, time.time() - self.at_ms / 1000)

    @property
    def is_well(self) -> bool:
        """Whether it tells how far it is, and that is not far behind."""
        return self.lag_s is not None and self.lag_s <= LAG_S_MAX and self.problem is None

    @property
    def problem(self) -> str | None:
        """What it cannot bring, or that it has told nothing for long: its process may end, or hang, without a word."""
        if self.age_s < SILENT_S:
            return None if self.progress.problem is None else f"{self.service}: {self.progress.problem}"
        return f"{self.service} has not reported for {self.age_s:.0f} s: it is stuck, or no longer runs here"

    def __str__(self) -> str:
        done = self.progress
        aged = "" if self.age_s < AGED_S else f", as of {self.age_s:.0f} s ago"
        behind = (
            f"{self.lag} behind" + ("" if self.lag_s is None else f", for {self.lag_s:.1f} s")
            if self.lag
            else "up to date"
            if self.lag == 0
            else "not asked"
        )
        return (
            f"{done.source} to {done.target}{aged}: at snapshot {done.snapshot_id}, {behind}; "
            f"{counted(done.brought, 'snapshot')} with "
            f"{counted(done.row_changes, 'row change')} and {counted(done.files, 'file')} since it began"
        )


def link_healths(settings: Settings) -> Iterator[LinkHealth]:
    """What the links of this machine have told last, of the profiles that the settings name."""
    for name in settings.link_sources():
        try:
            told = json.loads((_folder(settings) / f"{name}.json").read_text(encoding="utf-8"))
            yield LinkHealth(**{**told, "progress": LinkProgress(**told["progress"])})
        except (OSError, ValueError, TypeError, KeyError):
            continue


def _folder(settings: Settings) -> Path:
    return folder_of(settings) / "links"
