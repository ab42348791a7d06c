"""Commands on single proposals: sending them, asking what became of them, and why."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, BinaryIO

import click

from commitlog.client import CommitLog, OutcomeState, ProposalStatus, SubmittedOutcome
from commitlog.client.ids import as_proposal_id
from commitlog.client.outcomes.describing import one_line
from commitlog.client.outcomes.explaining import Explanation
from commitlog.client.proposal_examples import example_kinds, example_of
from commitlog.client.proposal_lines import ProposalLines
from commitlog.client.readable_log import TIMEOUT_S_MAX
from commitlog.client.submitting import Answer
from commitlog.config import Settings
from commitlog.domain.model import ChangeKind, Outcome
from commitlog.domain.model.ids import format_id
from commitlog.domain.model.json_values import to_json
from commitlog.domain.model.records.outcome_json import conflict_to_json
from commitlog.domain.model.records.proposal_json import proposal_to_json
from commitlog.errors import InvalidRequestError, KeyReusedError, OutcomeUnknownError, ResultsTrimmedError
from commitlog.log.codec import with_statistics_expanded
from commitlog.ops.cli.options import json_option, print_json, settings_options
from commitlog.ops.cli.outcomes import shown_outcome

EXIT_REJECTED = 3
EXIT_UNKNOWN = 4
_ID_DIGITS = 32


def _print_example(context: click.Context, _: click.Parameter, kind: str | None) -> None:
    """Print the form and end, without looking for a log."""
    if kind is None:
        return
    click.echo(json.dumps(example_of(ChangeKind(kind))))
    click.echo("an example: replace names, ids and files with your own, then run: commitlog submit FILE", err=True)
    context.exit()


def _as_ms(_: click.Context, __: click.Parameter, seconds: float | None) -> int | None:
    if seconds is not None and not 0 <= seconds <= TIMEOUT_S_MAX:
        raise click.BadParameter(f"{seconds} is not a valid timeout: give seconds from 0 to {TIMEOUT_S_MAX:,.0f}")
    return None if seconds is None else int(seconds * 1000)


@click.command("submit")
@click.argument("file", type=click.File("rb"))
@click.option("--timeout", "timeout_ms", type=float, callback=_as_ms, help="Seconds to wait for each answer.")
@click.option(
    "--example",
    type=click.Choice([each.value for each in example_kinds()], case_sensitive=False),
    callback=_print_example,
    expose_value=False,
    is_eager=True,
    metavar="KIND",
    help=f"Print an example proposal for a kind of change, and exit: {', '.join(example_kinds())}.",
)
@json_option
@settings_options
def submit_command(settings: Settings, file: BinaryIO, timeout_ms: int | None, as_json: bool) -> None:
    """Send the proposals in FILE (JSON, one per line; - is standard input) and print their outcomes, in order.

    A line without proposal_id is given a new one, so sending it again makes another proposal. A line without
    base_snapshot_id is sent once all lines before it are answered, and is based on the newest snapshot.

    Exits with 3 when a proposal was refused, and with 4 when the outcome of one is unknown.
    """
    worst = 0
    proposals = ProposalLines(file)
    with CommitLog.connect(settings=settings) as log:
        for plain, code in _shown_answers(proposals.submitted_to(log, timeout_ms=timeout_ms)):
            worst = max(worst, code)
            if as_json:
                print_json(plain)
            else:
                click.echo(_line(plain))
    if proposals.problem is not None:
        raise proposals.problem
    sys.exit(worst)


def _shown_answers(answers: Iterator[Answer]) -> Iterator[tuple[dict[str, Any], int]]:
    for answer in answers:
        if isinstance(answer, OutcomeUnknownError):
            yield {"proposal_id": str(answer.proposal_id), "verdict": None, "detail": str(answer)}, EXIT_UNKNOWN
        elif isinstance(answer, KeyReusedError):
            reused = {"proposal_id": str(answer.proposal_id), "verdict": "KEY_REUSED", "detail": str(answer)}
            yield reused, EXIT_REJECTED
        else:
            yield submitted_to_json(answer), 0 if answer.committed else EXIT_REJECTED


def submitted_to_json(outcome: SubmittedOutcome) -> dict[str, Any]:
    """The JSON form of an answer."""
    return {
        "seq": outcome.seq,
        "proposal_id": str(outcome.proposal_id),
        "verdict": str(outcome.verdict),
        "snapshot_id": outcome.snapshot_id,
        "head_snapshot_id": outcome.head_snapshot_id,
        "reason": None if outcome.reason is None else str(outcome.reason),
        "detail": outcome.detail,
        "invalid_code": outcome.invalid_code,
        "conflicts": [conflict_to_json(conflict) for conflict in outcome.conflicts],
        "assigned": to_json(outcome.assigned),
        "decided_at_ms": outcome.decided_at_ms,
        "decided_at": datetime.fromtimestamp(outcome.decided_at_ms / 1000, UTC),
        "is_repeat": outcome.is_repeat,
    }


def _line(plain: dict[str, Any]) -> str:
    if plain["verdict"] == "COMMITTED":
        again = " (already)" if plain["is_repeat"] else ""
        return f"{plain['proposal_id']}  COMMITTED  snapshot {plain['snapshot_id']}{again}"
    if plain["verdict"] is None:
        return f"{plain['proposal_id']}  UNKNOWN    {plain['detail']}"
    if plain["verdict"] == "KEY_REUSED":
        return f"{plain['proposal_id']}  KEY_REUSED {plain['detail']}"
    return f"{plain['proposal_id']}  REJECTED   {plain['reason']}: {plain['detail']}"


@click.command("outcome")
@click.argument("proposal_id", callback=lambda _, __, value: _parsed_id(value))
@json_option
@settings_options
def outcome_command(settings: Settings, proposal_id: bytes, as_json: bool) -> None:
    """Show what became of a proposal: DECIDED, UNDECIDED (still queued) or NEVER_SEEN.

    Exits with 0 when it was committed, 3 when it was refused, and 4 when it is not decided yet or was never seen.
    """
    with CommitLog.connect(settings=settings) as log:
        status = log.outcome(proposal_id)
    if as_json:
        print_json(_status_to_json(status))
    elif status.outcome is None:
        click.echo(f"{format_id(proposal_id)}  {status.state}")
    else:
        _print_outcome(status.outcome)
    sys.exit(_status_code(status))


@click.command("explain")
@click.argument("asked", callback=lambda _, __, value: _id_or_seq(value), metavar="PROPOSAL_ID|SEQ")
@json_option
@settings_options
def explain_command(settings: Settings, asked: bytes | int, as_json: bool) -> None:
    """Explain a proposal, given its id or seq: what it asked for, what it conflicted with, and the ways out,
    cheapest first.

    If it was refused for a conflict, the log is replayed up to it and the proposal is decided again under
    variations - a newer base, narrower reads, a finer granularity, another policy or isolation - to find which of
    them would have let it commit.

    Exits with 4 when it is not decided yet or was never seen.
    """
    with CommitLog.connect(settings=settings) as log:
        told = _of_seq(log, asked) if isinstance(asked, int) else log.explanation(asked)
    if as_json:
        shown_id = format_id(told.status.proposal_id) if told.status.proposal_id else None
        print_json({"proposal_id": shown_id, "story": str(told).splitlines()})
    else:
        click.echo(str(told))
    if told.status.outcome is None:
        sys.exit(EXIT_UNKNOWN)


def _parsed_id(text: str) -> bytes:
    try:
        return as_proposal_id(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def _id_or_seq(text: str) -> bytes | int:
    return int(text) if text.isdecimal() and len(text) < _ID_DIGITS else _parsed_id(text)


def _of_seq(log: CommitLog, seq: int) -> Explanation:
    if seq == 0:
        raise InvalidRequestError("outcome 0 is what the log began with: no proposal made it")
    try:
        found = log.outcome_at(seq)
    except ResultsTrimmedError:
        # By its id the catalog tells what it knows of it.
        [entry] = log.history(1, before=seq + 1)
        if entry.proposal_id is None:
            raise
        return log.explanation(entry.proposal_id)
    if found is None:
        raise InvalidRequestError(f"there is no outcome {seq}: the log ends with outcome {log.last_seq()}")
    if found.proposal_id is None:
        # Of bytes that could not be read there is the outcome alone.
        return Explanation(ProposalStatus(b"", OutcomeState.DECIDED, found))
    return log.explanation(found.proposal_id)


def _status_code(status: ProposalStatus) -> int:
    if status.outcome is None:
        return EXIT_UNKNOWN
    return EXIT_REJECTED if status.outcome.verdict == "REJECTED" else 0


def _status_to_json(status: ProposalStatus) -> dict[str, Any]:
    outcome = status.outcome
    return {
        "proposal_id": format_id(status.proposal_id),
        "state": str(status.state),
        "positions": to_json(status.positions),
        "outcome": None if outcome is None else shown_outcome(outcome),
        "proposal": None
        if outcome is None or outcome.proposal is None
        else proposal_to_json(with_statistics_expanded(outcome.proposal)),
    }


def _print_outcome(outcome: Outcome) -> None:
    shown = {
        "state": OutcomeState.DECIDED,
        "verdict": outcome.verdict,
        "snapshot": outcome.snapshot_id,
        "reason": outcome.reason,
        "code": outcome.invalid_code,
        "detail": outcome.detail,
        "writer": outcome.writer_id,
        "seq": outcome.seq,
        "conflicts": outcome.conflict_count or None,
    }
    for name, value in shown.items():
        if value is not None:
            click.echo(f"{name:<10} {one_line(str(value))}")
