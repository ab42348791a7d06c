"""The end of the run as a picture: the line of snapshots, and beside it what each proposal could not know."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from commitlog.client import CommitLog
from commitlog.client.outcomes.describing import describe_entry, one_line
from commitlog.client.outcomes.graph import graph_rows
from commitlog.domain.model import Verdict

ROWS = 12
COLORS = {Verdict.COMMITTED: "green", Verdict.REJECTED: "red", Verdict.DUPLICATE: "yellow"}
_WRITER_WIDTH = 20


def draw(console: Console, log: CommitLog) -> None:
    """Draw the newest outcomes of a log, a line each, as `commitlog log --graph` does."""
    entries = log.history(ROWS)
    rows = list(graph_rows(entries))
    if not console.encoding.startswith("utf"):
        rows = [row.in_ascii() for row in rows]
    beside = max((len(row.drawn) for row in rows), default=0)
    for entry, row in zip(entries, rows, strict=True):
        writer = one_line(entry.writer_id or "?")[:_WRITER_WIDTH]
        line = Text.assemble(
            f"  {row.drawn:<{beside}} ",
            (f"{entry.verdict.value:<10}", COLORS[entry.verdict]),
            (f"{writer:<{_WRITER_WIDTH}} ", "dim"),
            describe_entry(entry),
        )
        console.print(line, no_wrap=True, overflow="crop")
