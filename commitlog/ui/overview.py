"""The overview: how much is decided, how fast, how far readers are; drawn anew each second for whoever looks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from commitlog.catalog.history import HistoryFilter
from commitlog.domain import model as m
from commitlog.ui.drawing.plots import draw_plot
from commitlog.ui.pulse import BEATS_KEPT, OUTCOMES_KEPT, Beat
from commitlog.ui.site import Site

NEWEST = 8
ROWS_TOLD_MAX = 20


def overview_page(site: Site, request: Request) -> Response:
    """What happens now."""
    return site.page(
        "overview.html",
        newest=NEWEST,
        entries=site.contents().history(HistoryFilter(limit=NEWEST)),
        head=site.head(),
        **measured(site),
    )


def overview_part(site: Site) -> str:
    """The part of the page that is drawn anew."""
    return site.templates.get_template("overview_live.html").render(measured(site))


def newest_rows(site: Site) -> tuple[int, str]:
    """The newest outcome that readers see, 0 for none, and the rows of the log's page for it and those before it."""
    entries = site.contents().history(HistoryFilter(limit=ROWS_TOLD_MAX))
    return entries[0].seq if entries else 0, site.templates.get_template("new_rows.html").render(entries=entries)


def measured(site: Site) -> dict[str, Any]:
    """Everything that the live part shows."""
    beats = site.pulse.beats()
    now = beats[-1] if beats else Beat()
    verdicts, conflicts = site.pulse.verdicts(), site.pulse.conflicts()
    return {
        "now": now,
        "decided_s": _mean([each.decided for each in beats[-10:]]),
        "visible_s": _mean([each.visible for each in beats[-10:]]),
        "latency": next((each for each in reversed(beats) if each.latency_p50_ms is not None), None),
        "problem": site.pulse.problem,
        "rate_plot": draw_plot([[float(b.decided) for b in beats], [float(b.visible) for b in beats]], BEATS_KEPT),
        "latency_plot": draw_plot([[b.latency_p50_ms for b in beats], [b.latency_p99_ms for b in beats]], BEATS_KEPT),
        "lag_plot": draw_plot([[float(b.lag) for b in beats], [float(b.undecided) for b in beats]], BEATS_KEPT),
        "verdicts": [(each.value, verdicts[each.value]) for each in m.Verdict],
        "conflicts": conflicts.most_common(8),
        "highest": {"verdicts": _highest(verdicts), "conflicts": _highest(conflicts)},
        "outcomes_kept": OUTCOMES_KEPT,
    }


def _mean(values: Sequence[int]) -> float:
    return sum(values) / len(values) if values else 0.0


def _highest(counts: Counter[str]) -> int:
    return max(counts.values(), default=1) or 1
