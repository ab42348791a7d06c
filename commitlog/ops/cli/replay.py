"""`commitlog replay`: decides proposals from files on an empty log, without Kafka, for learning, tests and what-if.

It is the shortest way through the domain: parse a line, decide, replay the outcome, print it.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain, tee
from typing import BinaryIO

import click

from commitlog.domain import model as m
from commitlog.domain.again.noting_handlers import NotingHandlers
from commitlog.domain.deciding.answers import refuse_internal
from commitlog.domain.deciding.decide import decide
from commitlog.domain.deciding.rules import HandlersByName, OtherRules, Rules
from commitlog.domain.model.defining import check_policy
from commitlog.domain.model.definitions import HANDLER_PREFIX
from commitlog.domain.model.ids import id_time_ms
from commitlog.domain.model.json_lines import is_blank, parse_proposal
from commitlog.domain.model.malformed import too_large
from commitlog.domain.model.records.outcome_json import outcome_to_json
from commitlog.domain.state.index import new_state
from commitlog.domain.state.replaying import replay
from commitlog.errors import InvalidChangeError, MalformedRecordError
from commitlog.log.codec import encode_proposal
from commitlog.log.row_handlers import InstalledHandlers

_GENESIS = m.Genesis(bytes(16))
_logger = logging.getLogger("commitlog.replay")


def outcomes_of(lines: Iterator[bytes], rules: Rules | None = None) -> Iterator[m.Outcome]:
    """Decide the lines one after another on an empty log of one partition; the offset of each is its line's number."""
    log = _LogOfLines(Rules(HandlersByName(InstalledHandlers())) if rules is None else rules)
    for offset, line in enumerate(lines):
        if not is_blank(line):
            yield log.decide(line, offset)


class _LogOfLines:
    """A log that is decided in memory, line by line; it goes on after an error that nobody expected, as a sequencer does."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._state = new_state(_GENESIS)
        self._lines: list[tuple[bytes, m.Position]] = []
        self._undecidable: dict[m.Position, Exception] = {}

    def decide(self, line: bytes, offset: int) -> m.Outcome:
        """Decide one line; what a line makes go wrong is its own answer, on the state that the earlier ones gave."""
        source, next_seq = m.Position(0, offset), self._state.next_seq
        self._lines.append((line, source))
        try:
            return self._decide(line, source)
        except Exception as error:
            _logger.exception("line %d cannot be decided", offset + 1)
            self._undecidable[source] = error
        if self._state.next_seq != next_seq:
            # The state has taken the outcome half: it is made again.
            self._state = new_state(_GENESIS)
            for earlier in self._lines[:-1]:
                self._decide(*earlier)
        return self._decide(line, source)

    def _decide(self, line: bytes, source: m.Position) -> m.Outcome:
        proposal = self._limited(parse_proposal(line))
        now_ms = _clock_ms(proposal) if isinstance(proposal, m.Proposal) else 0
        if (error := self._undecidable.get(source)) is not None:
            outcome = refuse_internal(self._state, proposal, error, now_ms=now_ms, source=source)
        else:
            outcome = decide(self._state, proposal, now_ms=now_ms, source=source, rules=self._rules)
        self._state = replay(self._state, outcome)
        return outcome

    def _limited(self, proposal: m.Proposal | m.MalformedProposal) -> m.Proposal | m.MalformedProposal:
        """A log takes a proposal by the size of its record; what no record can hold is judged by what it says."""
        if isinstance(proposal, m.MalformedProposal):
            return proposal
        with suppress(MalformedRecordError):
            size_bytes, limit_bytes = len(encode_proposal(proposal)), self._state.settings.proposal_bytes_max
            if size_bytes > limit_bytes:
                detail = too_large(size_bytes, limit_bytes)
                return m.MalformedProposal(detail, proposal.proposal_id, proposal.writer_id)
        return proposal


def _clock_ms(proposal: m.Proposal) -> int:
    """The proposal's own time; a created_at_ms that no catalog can hold tells none."""
    created_at_ms = proposal.created_at_ms
    if created_at_ms * 1000 > m.TIME_US_MAX:
        created_at_ms = 0
    return max(created_at_ms, id_time_ms(proposal.proposal_id) or 0)


def _read_policy(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    if value is None:
        return None
    policy = value if value.startswith(HANDLER_PREFIX) else value.upper()
    try:
        check_policy(policy)
    except InvalidChangeError as error:
        raise click.BadParameter(str(error)) from None
    return policy


@click.command("replay")
@click.argument("files", nargs=-1, type=click.File("rb"), metavar="FILE...")
@click.option(
    "--from-log",
    metavar="NAME",
    help="Decide the history of a log in Kafka again, each proposal against the state that it met.",
)
@click.option(
    "--isolation",
    type=click.Choice(list(m.Isolation), case_sensitive=False),
    help="Decide every proposal under this isolation.",
)
@click.option(
    "--granularity",
    type=click.Choice(list(m.Granularity), case_sensitive=False),
    help="Use this conflict granularity for every table.",
)
@click.option(
    "--on-conflict",
    callback=_read_policy,
    metavar="POLICY",
    help="Use this policy for the rows of every keyed table: ABORT, LAST_UPDATE_WINS, KEEP_EXISTING or handler:NAME.",
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
    """Decide proposals from FILE (JSON, one per line; - is standard input) on an empty log, without Kafka.

    Prints one outcome for each line that is not blank, in order. The time is each proposal's own: created_at_ms
    or the time in its id. With --from-log, or with an option that overrides what the history used, a comparison
    follows on standard error: what was refused and would have committed, and the other way round.
    """
    others = OtherRules(
        m.Isolation(isolation) if isolation else None,
        m.Granularity(granularity) if granularity else None,
        on_conflict,
    )
    if bool(files) == (from_log is not None):
        raise click.UsageError("give either files of proposals or --from-log NAME")
    if from_log is not None:
        _replay_log(from_log, others)
    else:
        _replay_files(files, others)


def _replay_files(files: tuple[BinaryIO, ...], others: OtherRules) -> None:
    lines = chain.from_iterable(files)
    if not others:
        interactive = any(file is sys.stdin.buffer for file in files) or sys.stdout.isatty()
        for outcome in outcomes_of(lines):
            _print(outcome)
            if interactive:
                sys.stdout.flush()
        return
    first, second = tee(lines)
    handlers = NotingHandlers(InstalledHandlers())
    what_if = outcomes_of(second, Rules(handlers, others=(others,)))
    _compare(zip(outcomes_of(first), what_if, strict=True), handlers)


def _replay_log(name: str, others: OtherRules) -> None:
    from commitlog.config import Settings
    from commitlog.ops.maintenance.what_if import history_of

    handlers = NotingHandlers(InstalledHandlers())
    _compare(history_of(Settings.load(log=name), Rules(handlers, others=(others,))), handlers)


def _compare(pairs: Iterable[tuple[m.Outcome, m.Outcome]], handlers: NotingHandlers) -> None:
    from commitlog.ops.maintenance.what_if import Comparison

    comparison = Comparison()
    for decided, what_if in pairs:
        _print(what_if)
        comparison.add(decided, what_if)
    click.echo("\n".join(comparison.lines()), err=True)
    for name in handlers.missing:
        click.echo(f"row handler {name} is not installed here: its rows were judged as refused", err=True)


def _print(outcome: m.Outcome) -> None:
    sys.stdout.write(json.dumps(outcome_to_json(outcome)) + "\n")
