"""`commitlog replay`: decides proposals from files on an empty log, without Kafka, for learning, tests and what-if.

It is the shortest way through the domain: parse a line, decide, replay the outcome, print it. Nothing else is imported.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, BinaryIO

import click

from commitlog.domain import json_form
from commitlog.domain import model as m
from commitlog.domain.definitions import InvalidChangeError, check_policy
from commitlog.domain.partitioning import id_time_ms
from commitlog.domain.rows import RowHandler
from commitlog.domain.sequencing import decide, new_state, replay
from commitlog.domain.settings import changed_settings

if TYPE_CHECKING:
    from commitlog.config import Settings
    from commitlog.domain.state import SequencerState

_LOG_ID = bytes(16)
_FIRST_SETTINGS = m.LogSettings()
HANDLER_GROUP = "commitlog.row_handlers"


class _InstalledHandlers(Mapping[str, RowHandler]):
    """Row handlers by name, looked up among the installed packages only when a table asks for one."""

    def __init__(self) -> None:
        self._loaded: dict[str, RowHandler] | None = None

    def _handlers(self) -> dict[str, RowHandler]:
        if self._loaded is None:
            from importlib.metadata import entry_points

            self._loaded = {point.name: point.load() for point in entry_points(group=HANDLER_GROUP)}
        return self._loaded

    def __getitem__(self, name: str) -> RowHandler:
        return self._handlers()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._handlers())

    def __len__(self) -> int:
        return len(self._handlers())


class Overrides:
    """What the proposals and the log are given instead of what they say themselves."""

    def __init__(self, isolation: str | None, granularity: str | None, on_conflict: str | None) -> None:
        self._isolation = m.Isolation(isolation) if isolation else None
        given = {"conflict_granularity": granularity, "on_conflict": on_conflict}
        self._properties = {key: value for key, value in given.items() if value is not None}

    def __bool__(self) -> bool:
        return bool(self._properties) or self._isolation is not None

    def settings(self, first: m.LogSettings = _FIRST_SETTINGS) -> m.LogSettings:
        """The first settings of the log."""
        return changed_settings(first, self._properties) if self._properties else first

    def apply(self, proposal: m.Proposal) -> m.Proposal:
        """The proposal as it would have been."""
        if self._isolation is not None:
            proposal = replace(proposal, isolation=self._isolation)
        if self._properties:
            proposal = replace(proposal, changes=tuple(self._change(change) for change in proposal.changes))
        return proposal

    def _change(self, change: m.Change) -> m.Change:
        match change:
            case m.CreateTable():
                return replace(change, properties={**change.properties, **self._known(change.properties)})
            case m.Configure():
                return replace(change, settings={**change.settings, **self._known(change.settings)})
            case m.AlterTable():
                return replace(change, alterations=tuple(self._alteration(step) for step in change.alterations))
            case _:
                return change

    def _known(self, given: Mapping[str, object]) -> dict[str, str]:
        return {key: value for key, value in self._properties.items() if key in given}

    def _alteration(self, step: m.Alteration) -> m.Alteration:
        if step.op is m.AlterOp.SET_PROPERTY and step.key in self._properties:
            return replace(step, value=self._properties[step.key])
        return step


def outcomes_of(lines: Iterator[bytes], overrides: Overrides) -> Iterator[m.Outcome]:
    """Decide the lines one after another on an empty log of one partition; the offset of each is its line's number."""
    state = new_state(m.Genesis(_LOG_ID, settings=overrides.settings()))
    handlers = _InstalledHandlers()
    for offset, line in enumerate(lines):
        if not line.strip():
            continue
        proposal = json_form.parse_proposal(line)
        now_ms = 0
        if isinstance(proposal, m.Proposal):
            proposal = overrides.apply(proposal)
            now_ms = _clock_ms(proposal)
        outcome = decide(state, proposal, now_ms=now_ms, source=m.Position(0, offset), handlers=handlers)
        state = replay(state, outcome)
        yield outcome


def _clock_ms(proposal: m.Proposal) -> int:
    """The proposal's own time; a created_at_ms that no catalog can hold tells none."""
    created_at_ms = proposal.created_at_ms
    if created_at_ms * 1000 > m.TIME_US_MAX:
        created_at_ms = 0
    return max(created_at_ms, id_time_ms(proposal.proposal_id) or 0)


def history_of(settings: Settings, overrides: Overrides) -> Iterator[tuple[m.Outcome, m.Outcome]]:
    """Every outcome of a log, with what it would have been under the overrides."""
    from commitlog.log.codec import decode_statistics
    from commitlog.log.results import ResultsReader
    from commitlog.ops.whatif import as_proposed

    handlers = _InstalledHandlers()
    state: SequencerState | None = None
    with ResultsReader(settings) as reader:
        for records in reader.read_to_end():
            for record in records:
                if isinstance(record.value, m.Genesis):
                    genesis = record.value
                    state = new_state(replace(genesis, settings=overrides.settings(genesis.settings)))
                    continue
                assert state is not None
                decided = record.outcome
                if decided.proposal is None:
                    replay(state, decided)
                    continue
                proposal = overrides.apply(decided.proposal)
                what_if = decide(
                    state,
                    proposal,
                    now_ms=decided.decided_at_ms,
                    source=decided.source,
                    epoch=decided.epoch,
                    decode_statistics=decode_statistics,
                    handlers=handlers,
                )
                replay(state, as_proposed(decided, proposal))
                yield decided, what_if


def _lines(files: tuple[BinaryIO, ...]) -> Iterator[bytes]:
    for file in files:
        yield from file


def _check_policy(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    try:
        if value is not None:
            check_policy(value)
    except InvalidChangeError as error:
        raise click.BadParameter(str(error)) from None
    return value


@click.command("replay")
@click.argument("files", nargs=-1, type=click.File("rb"), metavar="FILE...")
@click.option("--from-log", metavar="NAME", help="Decide a log's own history again, each proposal as it stood then.")
@click.option(
    "--isolation",
    type=click.Choice(list(m.Isolation), case_sensitive=False),
    help="Decide every proposal under this isolation.",
)
@click.option(
    "--granularity",
    type=click.Choice(list(m.Granularity), case_sensitive=False),
    help="Tell deletes and compactions of every table apart this finely.",
)
@click.option(
    "--on-conflict",
    callback=_check_policy,
    metavar="POLICY",
    help="For rows of every keyed table: ABORT, LAST_UPDATE_WINS, KEEP_EXISTING or handler:NAME.",
)
@click.option("--json", "_as_json", is_flag=True, help="Outcomes are always printed as JSON; accepted everywhere.")
def replay_command(
    files: tuple[BinaryIO, ...],
    from_log: str | None,
    isolation: str | None,
    granularity: str | None,
    on_conflict: str | None,
    _as_json: bool,
) -> None:
    """Decide proposals from FILE (JSON, one a line; - is standard input) on an empty log, without Kafka.

    Prints one outcome for each line that is not blank, in order. The clock is each proposal's own: created_at_ms or
    the time in its id. With --from-log, or with an option that overrides what history used, a comparison follows on
    standard error: what was refused and would have passed, and the other way round.
    """
    overrides = Overrides(isolation, granularity, on_conflict)
    if bool(files) == (from_log is not None):
        raise click.UsageError("give either files of proposals or --from-log NAME")
    if from_log is not None:
        _replay_log(from_log, overrides)
    else:
        _replay_files(files, overrides)


def _replay_files(files: tuple[BinaryIO, ...], overrides: Overrides) -> None:
    lines = _lines(files)
    if not overrides:
        interactive = any(file is sys.stdin.buffer for file in files) or sys.stdout.isatty()
        for outcome in outcomes_of(lines, overrides):
            _print(outcome)
            if interactive:
                sys.stdout.flush()
        return
    from itertools import tee

    from commitlog.ops.whatif import Comparison

    first, second = tee(lines)
    comparison = Comparison()
    for decided, what_if in zip(
        outcomes_of(first, Overrides(None, None, None)), outcomes_of(second, overrides), strict=True
    ):
        _print(what_if)
        comparison.add(decided, what_if)
    click.echo("\n".join(comparison.lines()), err=True)


def _replay_log(name: str, overrides: Overrides) -> None:
    from commitlog.config import Settings
    from commitlog.ops.whatif import Comparison

    comparison = Comparison()
    for decided, what_if in history_of(Settings.load(log=name), overrides):
        _print(what_if)
        comparison.add(decided, what_if)
    click.echo("\n".join(comparison.lines()), err=True)


def _print(outcome: m.Outcome) -> None:
    sys.stdout.write(json.dumps(json_form.outcome_to_json(outcome)) + "\n")
