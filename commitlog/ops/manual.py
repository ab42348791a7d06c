"""Pages of the manual that are printed from the code they describe, so that they cannot disagree with it."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import cleandoc, getdoc

from commitlog import errors
from commitlog.domain.deciding.conflict_matrix import CONFLICT_MATRIX
from commitlog.domain.deciding.conflict_rules import NEVER
from commitlog.domain.model import ChangeKind
from commitlog.domain.model.invalid_codes import MEANINGS

_CONFLICTS_HEAD = """\
# What conflicts with what

A proposal conflicts with what was committed after its base. The rows are the proposed change, the columns what another
proposal committed since; an empty cell means that both commit. This page is printed from `CONFLICT_MATRIX` in
`commitlog/domain/deciding/conflict_matrix.py`.
"""
_INVALID_HEAD = """\
# What makes a change INVALID

A proposal that can never be committed, whatever others commit, is refused as INVALID, with one of these codes and a text that
names what it is about. Let programs look at the code: codes stay, texts may change. This page is printed from
`commitlog/domain/model/invalid_codes.py`.
"""
_ERRORS_HEAD = """\
# Errors

The exceptions that a Python program can get. All of them are in `commitlog.errors` and have one base; the messages say what to
do. A refusal is an outcome; only calls that have to commit something raise it as an exception. See also the exit codes of the
command line in [Commands](commands.md), the codes of INVALID in [What makes a change INVALID](invalid-codes.md), the reasons of
a refusal and whether a retry can help in [the rules](rules.md#2), and what to do about a conflict in
[Resolving conflicts](resolving-conflicts.md).

This page is printed by `commitlog manual errors`.
"""


def conflict_page() -> str:
    """The page "What conflicts with what", in Markdown."""
    committed_kinds = [k for k in ChangeKind if any(CONFLICT_MATRIX[p, k] is not NEVER for p in ChangeKind)]
    lines = [_CONFLICTS_HEAD]
    lines.append("| proposed | " + " | ".join(f"{kind}" for kind in committed_kinds) + " |")
    lines.append("|---" * (len(committed_kinds) + 1) + "|")
    for proposed in ChangeKind:
        rules = [CONFLICT_MATRIX[proposed, committed] for committed in committed_kinds]
        cells = ["" if rule is NEVER else rule.name for rule in rules]
        lines.append(f"| **{proposed}** | " + " | ".join(cells) + " |")
    lines.append("\n## The rules\n")
    used = {rule.name: rule for rule in CONFLICT_MATRIX.values() if rule is not NEVER}
    lines += [f"- **{name}**: {used[name].meaning}" for name in sorted(used)]
    return "\n".join(lines) + "\n"


def invalid_page() -> str:
    """The page "What makes a change INVALID", in Markdown."""
    lines = [_INVALID_HEAD]
    for heading, meanings in MEANINGS.items():
        lines += [f"## {heading}\n", "| code | when |", "|---|---|"]
        lines += [f"| {code} | {meaning} |" for code, meaning in meanings.items()]
        lines.append("")
    return "\n".join(lines)


def errors_page() -> str:
    """The page "Errors", in Markdown."""
    tree = (errors.__doc__ or "").partition("\n\n    ")[2].rstrip()
    lines = [_ERRORS_HEAD, f"```text\n{cleandoc(tree)}\n```\n", "| error | meaning |", "|---|---|"]
    lines += [f"| `{error.__name__}` | {_meaning(error)} |" for error in _errors()]
    return "\n".join(lines) + "\n"


def _errors() -> Iterator[type[errors.CommitLogError]]:
    for value in vars(errors).values():
        if isinstance(value, type) and issubclass(value, errors.CommitLogError):
            yield value


def _meaning(error: type[errors.CommitLogError]) -> str:
    """What its text says before its arguments, on one line."""
    return " ".join((getdoc(error) or "").partition("\n\nArgs:")[0].split())
