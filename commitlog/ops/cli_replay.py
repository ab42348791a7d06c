"""`commitlog replay`: decides proposals from files on an empty log, without Kafka, for learning, tests and what-if.

It is the shortest way through the domain: parse a line, decide, replay the outcome, print it. Nothing else is imported.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import BinaryIO

import click

from commitlog.domain import json_form
from commitlog.domain import model as m
from commitlog.domain.definitions import InvalidChangeError, check_policy
from commitlog.domain.rows import RowHandler
from commitlog.domain.sequencing import decide, id_time_ms, new_state, replay
from commitlog.domain.settings import changed_settings

_LOG_ID = bytes(16)
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

    def settings(self) -> m.LogSettings:
        """The settings of the empty log."""
        return changed_settings(m.LogSettings(), self._properties) if self._properties else m.LogSettings()

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
            now_ms = max(proposal.created_at_ms, id_time_ms(proposal.proposal_id) or 0)
        outcome = decide(state, proposal, now_ms=now_ms, source=m.Position(0, offset), handlers=handlers)
        state = replay(state, outcome)
        yield outcome


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
@click.argument("files", nargs=-1, required=True, type=click.File("rb"), metavar="FILE...")
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
    isolation: str | None,
    granularity: str | None,
    on_conflict: str | None,
    _as_json: bool,
) -> None:
    """Decide proposals from FILE (JSON, one a line; - is standard input) on an empty log, without Kafka.

    Prints one outcome for each line that is not blank, in order. The clock is each proposal's own: created_at_ms or
    the time in its id.
    """
    write, flush = sys.stdout.write, sys.stdout.flush
    interactive = any(file is sys.stdin.buffer for file in files) or sys.stdout.isatty()
    for outcome in outcomes_of(_lines(files), Overrides(isolation, granularity, on_conflict)):
        write(json.dumps(json_form.outcome_to_json(outcome)) + "\n")
        if interactive:
            flush()
