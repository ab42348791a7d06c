"""How a log is: whether somebody decides, how far readers are behind, and what services say is wrong. What `status` shows.

Whether a log is served and read can be seen from anywhere: a sequencer's heartbeats are in the log, a projector's session is in
PostgreSQL, and what it has not applied yet has the time of its decision. A heartbeat says that its sequencer can append, not
that it reads: so what was proposed long ago must be decided, too. Services on this machine have left their last error
in the home besides.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import TypeVar, cast

from commitlog.catalog.queries import AppliedPosition, Catalog
from commitlog.client.access.results_lookup import FoundOutcome, ResultsLookup
from commitlog.config import Settings, without_password
from commitlog.domain.model import Genesis
from commitlog.domain.model.definitions import counted
from commitlog.errors import CommitLogError, LogRefusedError
from commitlog.local.home import read_run_file, runner_pid
from commitlog.local.processes import is_stopped
from commitlog.local.room import full_disks
from commitlog.log.genesis import require_genesis
from commitlog.log.heartbeats import HeartbeatListener
from commitlog.log.topic_settings import (
    missing_topics,
    partition_counts,
    repartitioned,
    wanted_topics,
    with_trims,
    wrong_settings,
)
from commitlog.log.undecided import has_proposal, sent_before
from commitlog.ops.service.links import LinkHealth, link_healths
from commitlog.ops.service.listening import measures_note, running, running_at, unready
from commitlog.ops.service.notes import Notes
from commitlog.relay.progress import outcomes_backlog, proposals_backlog

T = TypeVar("T")
LAG_S_MAX = 10.0
UNDECIDED_S_MAX = 10.0
PROJECTOR_TIMEOUT_S = 3.0
RELAY_TIMEOUT_S = 3.0
_POLL_S = 0.05
_TOLD_BY_THEMSELVES = ("checkpointer", "gateway", "page")
"""Services of which neither the log nor the catalog tells how they are."""


@dataclass(frozen=True, slots=True)
class RelayHealth:
    """How far a log's relays are.

    Attributes:
        running: how many there are.
        proposals: at the border that are not in the log yet.
        outcomes: records of the results that were not looked at for the border yet.
    """

    running: int
    proposals: int
    outcomes: int

    def __str__(self) -> str:
        backlogs = ((self.proposals, "proposal", ""), (self.outcomes, "record", " of the results"))
        waiting = [
            f"{counted(count, one)}{whose} {'waits' if count == 1 else 'wait'}"
            for count, one, whose in backlogs
            if count
        ]
        relays = "1 runs" if self.running == 1 else f"{self.running or 'none'} run"
        return f"{relays}; {', '.join(waiting) or 'all is taken over'}"


@dataclass(frozen=True, slots=True)
class LogHealth:
    """How a log is.

    Attributes:
        log: its name.
        sequencer_alive: whether a sequencer's heartbeat was heard just now; None when it is not known.
        stands_still: whether proposals wait for long though it was.
        projector_alive: whether a projector is connected to the catalog; None when it is not known.
        standbys: projectors that wait for their turn, one on each machine that stands by.
        epoch: that sequencer's.
        decided_seq: the last outcome in the results topic.
        head_snapshot_id: the head after it.
        applied_seq: the last outcome in the catalog.
        lag: outcomes that are decided and not in the catalog.
        lag_s: how long ago the first of them was decided; 0 when there is none, None when it is not known.
        links: how far each link is that this machine runs.
        relay: how far the log's relays are; None where the settings name no registry.
        errors: what services of this machine say is wrong, by service.
        problems: all that is wrong, in words; empty when the log is well.
    """

    log: str
    sequencer_alive: bool | None = None
    stands_still: bool = False
    projector_alive: bool | None = None
    standbys: int = 0
    epoch: int | None = None
    decided_seq: int | None = None
    head_snapshot_id: int | None = None
    applied_seq: int | None = None
    lag: int | None = None
    lag_s: float | None = None
    links: tuple[LinkHealth, ...] = ()
    relay: RelayHealth | None = None
    errors: tuple[tuple[str, str], ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def is_well(self) -> bool:
        """Whether it is served and read, and nobody complains."""
        return not self.problems

    @property
    def is_current(self) -> bool:
        """Whether readers see what was decided, as soon as they may expect it."""
        return self.lag is not None and (self.lag_s or 0.0) <= LAG_S_MAX

    def as_dict(self) -> dict[str, object]:
        """For `--json`."""
        return {**asdict(self), "errors": dict(self.errors), "well": self.is_well}


def log_health(settings: Settings) -> LogHealth:
    """Look at a log; what cannot be reached is said in ``problems``."""
    errors = tuple((note.service, note.error) for note in Notes(settings).read())
    links = tuple(link_healths(settings))
    # A link that is begun in vain tells nothing either, but what is wrong with it.
    noted = {service for service, _ in errors}
    silent = tuple(link.problem for link in links if link.problem is not None and link.service not in noted)
    said = (
        *full_disks(settings),
        *silent,
        *(f"{service}: {error}" for service, error in errors),
        *_unready(settings, but=noted),
    )
    ill_set: tuple[str, ...] = ()
    try:
        genesis = require_genesis(settings)
        ill_set = _ill_set(settings, genesis)
        with (
            closing(HeartbeatListener(settings)) as listener,
            closing(Catalog(settings.database_url)) as catalog,
            closing(ResultsLookup(settings, catalog)) as lookup,
        ):
            sent = sent_before(settings, genesis.partitions, int((time.time() - UNDECIDED_S_MAX) * 1000))
            heartbeat = listener.next_of(genesis.log_id)
            read = _reading(settings, catalog, lookup, genesis.log_id)
            relay, unrelayed = _at_the_border(settings, genesis.partitions)
            stands_still = heartbeat is not None and _is_undecided(settings, catalog, read, sent)
    except CommitLogError as error:
        return LogHealth(settings.log, links=links, errors=errors, problems=(*ill_set, str(error), *said))
    last = read.last
    unserved: tuple[str, ...] = ()
    if heartbeat is None:
        unserved = (f"no sequencer is active: {_who_starts(settings, 'sequencer')}",)
    elif stands_still:
        since = f"for more than {UNDECIDED_S_MAX:.0f} s"
        stuck = _unready_here(settings, "sequencer") or "it is slow or stuck; see its log"
        unserved = (f"proposals have waited {since} although a sequencer is active: {stuck}",)
    return LogHealth(
        settings.log,
        sequencer_alive=heartbeat is not None,
        stands_still=stands_still,
        projector_alive=read.projector_alive,
        standbys=read.standbys,
        epoch=None if heartbeat is None else heartbeat.epoch,
        decided_seq=None if last is None else last.seq,
        head_snapshot_id=None if last is None else last.head_snapshot_id,
        applied_seq=read.applied_seq,
        lag=None if read.applied_seq is None or last is None else max(0, last.seq - read.applied_seq),
        lag_s=read.lag_s,
        links=links,
        relay=relay,
        errors=errors,
        problems=(*unserved, *ill_set, *read.problems, *unrelayed, *said),
    )


def _at_the_border(settings: Settings, partitions: int) -> tuple[RelayHealth | None, tuple[str, ...]]:
    """How the log's relays are, where there are to be some, as Kafka knows it by their groups; and what is wrong with that."""
    if settings.registry_url is None:
        return None, ()
    proposals, outcomes = proposals_backlog(settings), outcomes_backlog(settings)
    try:
        running = _in_time(outcomes.readers, RELAY_TIMEOUT_S)
        found = RelayHealth(running, proposals.count(partitions), outcomes.count(1))
    except CommitLogError as error:
        return None, (f"cannot tell how far the relay is: {error}",)
    return found, () if found.running else (f"no relay is active: {_who_starts(settings, 'relay')}",)


def _ill_set(settings: Settings, genesis: Genesis) -> tuple[str, ...]:
    """Topics that are not there, or are set so that the log loses or refuses something, such as answers, and how each is
    mended; nothing where these credentials may not look."""
    wanted = wanted_topics(settings.log, genesis.partitions, genesis.settings.proposal_bytes_max)
    missing = missing_topics(settings, wanted)
    gone = [f"there is no topic {name}: `commitlog init` creates what a log lacks" for name in missing]
    gone += [f"{each.what}: {each.command}" for each in repartitioned(settings, wanted)]
    there = {name: wanted[name] for name in wanted if name not in missing}
    try:
        wrong = wrong_settings(settings, with_trims(settings.log, there, partition_counts(settings)))
    except LogRefusedError:
        return tuple(gone)
    return (*gone, *(f"{each.what}: {each.command}" for each in wrong))


@dataclass(frozen=True, slots=True)
class _Reading:
    projector_alive: bool | None = None
    standbys: int = 0
    applied_seq: int | None = None
    lag_s: float | None = None
    last: FoundOutcome | None = None
    problems: tuple[str, ...] = ()


def _reading(settings: Settings, catalog: Catalog, lookup: ResultsLookup, log_id: bytes) -> _Reading:
    """How readers are, and how far the log is, which is found by the catalog."""
    try:
        if not catalog.exists():
            return _Reading(False, problems=("there is no catalog yet: run `commitlog init`, or start a projector",))
        applied = catalog.applied()
        if applied is not None and applied.log_id != log_id:
            return _Reading(False, problems=("the catalog belongs to another log: check COMMITLOG_DATABASE_URL",))
        is_replica = catalog.is_replica()
        alive = None if is_replica else _in_time(catalog.has_projector, PROJECTOR_TIMEOUT_S)
        standbys, lag_s, last = catalog.standbys(), _lag_s(lookup, applied), lookup.last()
    except CommitLogError as error:
        return _Reading(problems=(str(error),))
    problems = []
    if is_replica:
        address = without_password(settings.database_url)
        problems.append(
            f"PostgreSQL at {address} is a replica, which no projector can write, nor is one seen there that writes its "
            "primary: set COMMITLOG_DATABASE_URL to the primary's address"
        )
    elif not alive:
        problems.append(f"no projector is connected to the catalog: {_who_starts(settings, 'projector')}")
    if lag_s > LAG_S_MAX:
        stuck = _unready_here(settings, "projector") or "it is slow or stuck; see its log"
        problems.append(
            f"readers have not seen decided outcomes for {lag_s:.0f} s, as the projector is behind: {stuck}"
        )
    return _Reading(alive, standbys, 0 if applied is None else applied.seq, lag_s, last, tuple(problems))


def _unready(settings: Settings, *, but: Set[str]) -> Iterator[str]:
    """What is wrong with the services of this machine that only tell it themselves, as their `/readyz` does."""
    for service in _TOLD_BY_THEMSELVES:
        if service not in but and (problem := _unready_here(settings, service)) is not None:
            yield f"{service}: {problem}"


def _unready_here(settings: Settings, service: str) -> str | None:
    """Why a service of this machine is not ready; None where it is, or none runs here."""
    found = running(settings, measures_note(service))
    return None if found is None else unready(found)


def _who_starts(settings: Settings, service: str) -> str:
    """What is to be done for a service to run: nothing, where somebody on this machine starts it again."""
    told = read_run_file(settings.home)
    runner = runner_pid(settings.home)
    run: dict[str, object] = {}
    if runner is not None and told.get("bootstrap_servers") == settings.bootstrap_servers:
        served = cast("Sequence[Mapping[str, object]]", told.get("services", ()))
        run = {"commitlog up": runner, **{str(each["name"]): each["pid"] for each in served}}
    for name in ("commitlog up", service):
        if isinstance(pid := run.get(name), int) and is_stopped(pid):
            return f"a signal has stopped the process of {name}: `kill -CONT {pid}` lets it go on"
    if (problem := _unready_here(settings, service)) is not None:
        return f"one runs on this machine and is not ready: {problem}"
    if service in run:
        return f"`commitlog up` restarts it; {settings.home / 'logs' / f'{service}.log'} says why it ended"
    if running_at(settings, measures_note("serve")) is not None:
        return "`commitlog serve` restarts it; its log says why it ended"
    return "run `commitlog serve` or `commitlog up`"


def _is_undecided(settings: Settings, catalog: Catalog, read: _Reading, sent: dict[int, int]) -> bool:
    """Whether a proposal below these offsets has no outcome, as far as the catalog knows all outcomes."""
    if read.last is None or not may_wait(sent, read.last.seq) or read.applied_seq != read.last.seq:
        return False
    return has_proposal(settings, catalog.decided_offsets(sent), sent)


def may_wait(sent: Mapping[int, int], decided_seq: int) -> bool:
    """Whether not all below these offsets may be decided: each proposal has one outcome, which is counted by its seq."""
    return sum(sent.values()) > decided_seq


def _in_time(look: Callable[[], T], timeout_s: float) -> T:
    """What is seen of a service that is there, or comes back at once: the first that is true, else the last."""
    deadline = time.monotonic() + timeout_s
    while not (seen := look()) and time.monotonic() <= deadline:
        time.sleep(_POLL_S)
    return seen


def _lag_s(lookup: ResultsLookup, applied: AppliedPosition | None) -> float:
    """How long ago the first outcome was decided that the catalog does not hold; 0 when it holds all."""
    next_one = lookup.by_seq(1 if applied is None else applied.seq + 1)
    if next_one is None or next_one.outcome is None:
        return 0.0
    return max(0.0, time.time() - next_one.outcome.decided_at_ms / 1000)
