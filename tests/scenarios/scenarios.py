"""Scenario files: prose, proposals in short form, and under each the answer that is expected.

A file starts with ``# title``, prose and the proposals that every scenario of it begins with; each ``## title`` is one
scenario, decided on a log of its own. A line ``base N: ...`` is a proposal, the line ``=> ...`` under it its answer;
every other line is prose. ``rewritten`` puts in the answers that the core gives now.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from deciding import DecidedLog
from notation import parse_proposal

from commitlog.domain.model import ChangeKind, Conflict, Outcome, Resolution

DIRECTORY = Path(__file__).parent
ANSWER = "    => "


@dataclass
class Scenario:
    """One ``##`` part of a file: its title and its lines, none of them answers."""

    title: str
    lines: list[str] = field(default_factory=list)
    expected: list[str] = field(default_factory=list)

    @property
    def proposals(self) -> list[str]:
        return [line.strip() for line in self.lines if is_proposal(line)]


def is_proposal(line: str) -> bool:
    return re.match(r"base \d+: ", line) is not None


def load(path: Path) -> list[Scenario]:
    """The setup, then the scenarios of a file."""
    parts = [Scenario("setup")]
    for line in path.read_text().splitlines():
        if line.startswith("## "):
            parts.append(Scenario(line.removeprefix("## ")))
        if line.startswith(ANSWER):
            parts[-1].expected.append(line.removeprefix(ANSWER))
        else:
            parts[-1].lines.append(line)
    return parts


def decide_all(setup: Scenario, scenario: Scenario) -> tuple[DecidedLog, list[str]]:
    """Decide the setup, then the scenario; return the log and the scenario's answers."""
    log = DecidedLog()
    for text in setup.proposals:
        _propose(log, text)
    return log, [answer(_propose(log, text)) for text in scenario.proposals]


def _propose(log: DecidedLog, text: str) -> Outcome:
    fields = parse_proposal(text)
    return log.propose(*fields.pop("changes"), **fields)


def answer(outcome: Outcome) -> str:
    """An outcome as a scenario file shows it."""
    if outcome.snapshot_id is not None:
        settled = "".join(f", {_resolution(resolution)}" for resolution in outcome.resolutions)
        skipped = ", nothing to do" if any(e.skipped for e in outcome.effects) and not settled else ""
        return f"committed as {outcome.snapshot_id}{settled}{skipped}"
    if outcome.conflicts:
        return f"CONFLICT {', '.join(map(_conflict, outcome.conflicts))}: {outcome.detail}"
    return f"{outcome.reason or outcome.verdict}: {outcome.detail}"


def _conflict(conflict: Conflict) -> str:
    return f"{conflict.kind}@{conflict.committed_snapshot_id}"


def _resolution(resolution: Resolution) -> str:
    at = f"{resolution.kind}@{resolution.committed_snapshot_id}"
    return f"row {resolution.object.row_key} {resolution.action} ({at})"


def rewritten(path: Path) -> str:
    """The text of the file with the answers of today."""
    setup, *scenarios = load(path)
    lines: list[str] = []
    empty = Scenario("")
    for scenario in (setup, *scenarios):
        _, answers = decide_all(empty if scenario is setup else setup, scenario)
        remaining = iter(answers)
        for line in scenario.lines:
            lines.append(line)
            if is_proposal(line):
                lines.append(ANSWER + next(remaining))
    return "\n".join(lines) + "\n"


def cells(log: DecidedLog) -> set[tuple[ChangeKind, ChangeKind]]:
    """The cells of the matrix that refused or settled something: changesets of one kind met by a change."""
    committed = {outcome.snapshot_id: outcome for outcome in log.outcomes if outcome.snapshot_id is not None}
    found: set[tuple[ChangeKind, ChangeKind]] = set()
    for outcome in log.outcomes:
        met = [(c.proposed_change, c.committed_snapshot_id) for c in outcome.conflicts]
        met += [(r.change, r.committed_snapshot_id) for r in outcome.resolutions]
        for change, snapshot_id in met:
            kinds = _kinds(committed[snapshot_id])
            if change is not None and outcome.proposal is not None and len(kinds) == 1:
                found.add((outcome.proposal.changes[change].kind, *kinds))
    return found


def _kinds(outcome: Outcome) -> set[ChangeKind]:
    return set() if outcome.proposal is None else {change.kind for change in outcome.proposal.changes}
