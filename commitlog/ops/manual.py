"""Pages of the manual that are printed from the code they describe, so that they cannot disagree with it."""

from __future__ import annotations

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

A proposal that can never be, whatever others commit, is refused as INVALID with one of these codes beside a text that names
what it is about. A program goes by the code, which stays; texts may be said better one day. This page is printed from
`commitlog/domain/model/invalid_codes.py`.
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


PAGES = {"conflicts": conflict_page, "invalid": invalid_page}
"""The pages by the words that `commitlog manual` takes."""
