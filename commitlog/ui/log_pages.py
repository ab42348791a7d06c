"""The log with its search, and one outcome's page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from commitlog.catalog.history import HistoryEntry, HistoryFilter
from commitlog.client.ids import as_proposal_id
from commitlog.client.outcomes.advising import Advice, advices
from commitlog.client.outcomes.describing import describe_change, describe_read, moment_of
from commitlog.client.outcomes.explaining import way_out
from commitlog.client.tables.names import parse_table_name
from commitlog.domain import model as m
from commitlog.domain.model.ids import format_id
from commitlog.errors import InvalidRequestError
from commitlog.ui.drawing.refusals import NARROW, WIDE, draw_refusal
from commitlog.ui.site import Site

SHOWN = 50
FIELDS = ("proposal", "writer", "table", "snapshot", "verdict")
LISTED_MAX = 50
MET_DRAWN_MAX = 4


@dataclass
class Asked:
    """What a person has typed into the search: how it was, what it means, and what is wrong with it, by field."""

    typed: dict[str, str]
    search: HistoryFilter = field(default_factory=lambda: HistoryFilter(limit=SHOWN))
    wrong: dict[str, str] = field(default_factory=dict)

    @property
    def is_all(self) -> bool:
        """Whether nothing was asked for, so that whatever comes belongs to it."""
        return not any(self.typed.values()) and self.search.before_seq is None


def log_page(site: Site, request: Request) -> Response:
    """The newest outcomes, or those that are asked for."""
    asked = read_search(site, request.query_params)
    entries = [] if asked.wrong else site.contents().history(replace(asked.search, limit=SHOWN + 1))
    shown = entries[:SHOWN]
    return site.page(
        "log.html",
        status=400 if asked.wrong else 200,
        asked=asked,
        verdicts=[each.value for each in m.Verdict],
        entries=shown,
        older=shown[-1].seq if len(entries) > SHOWN else None,
        head=site.head(),
    )


def read_search(site: Site, query: Mapping[str, str]) -> Asked:
    """What a query of the log's page asks for."""
    asked = Asked({name: query.get(name, "").strip() for name in FIELDS})
    if query.get("before"):
        asked.search = replace(asked.search, before_seq=read_count(query["before"]))
    for name, text in asked.typed.items():
        if not text:
            continue
        try:
            check_text(text)
            asked.search = replace(asked.search, **_meaning(site, name, text))
        except InvalidRequestError as error:
            asked.wrong[name] = str(error)
    return asked


def _meaning(site: Site, name: str, text: str) -> dict[str, Any]:
    match name:
        case "proposal":
            return {"proposal_id": UUID(bytes=as_proposal_id(text))}
        case "writer":
            return {"writer_id": text}
        case "snapshot":
            return {"snapshot_id": read_count(text)}
        case "verdict":
            return {"verdict": _verdict(text)}
        case _:
            return {"table_id": _table_id(site, text)}


def check_text(text: str) -> None:
    """See that a text that was typed can be looked for: PostgreSQL knows no NUL.

    Raises:
        InvalidRequestError: it cannot.
    """
    if "\0" in text:
        raise InvalidRequestError("nothing has a NUL in its name")


def read_count(text: str) -> int:
    """A number of a snapshot or outcome, as a person types it."""
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise InvalidRequestError(f"{text[:40]!r} is not the number of a snapshot or outcome")
    return int(text)


def _verdict(text: str) -> m.Verdict:
    known = [each.value for each in m.Verdict]
    if text.upper() not in known:
        raise InvalidRequestError(f"{text[:40]!r} is not a verdict; choose from {', '.join(known).lower()}")
    return m.Verdict(text.upper())


def _table_id(site: Site, text: str) -> int:
    name = parse_table_name(text)
    found = site.contents().table_at(name.schema, name.name, site.head())
    if found is None:
        raise InvalidRequestError(f"there is no table {name} now; see the page Tables for those that exist")
    return found.definition.table_id


def proposal_page(site: Site, request: Request) -> Response:
    """Leads to the outcome of a proposal, or says that there is none."""
    proposal_id = as_proposal_id(request.path_params["proposal_id"])
    status = site.log.outcome(proposal_id)
    if status.outcome is not None:
        return RedirectResponse(f"/outcome/{status.outcome.seq}", status_code=303)
    return site.page("undecided.html", status=404, state=status.state.value, proposal_id=format_id(proposal_id))


def snapshot_page(site: Site, request: Request) -> Response:
    """Leads to the outcome that made a snapshot."""
    snapshot_id = read_count(request.path_params["snapshot_id"])
    found = site.contents().history(HistoryFilter(snapshot_id=snapshot_id, limit=1))
    if not found:
        raise HTTPException(404, f"no outcome that readers can see made snapshot {snapshot_id}")
    return RedirectResponse(f"/outcome/{found[0].seq}", status_code=303)


def outcome_page(site: Site, request: Request) -> Response:
    """One outcome: what was asked for and what became of it; of a refusal with its drawing and the ways out."""
    seq = read_count(request.path_params["seq"])
    outcome = site.log.outcome_at(seq) if seq else None
    if outcome is None:
        raise HTTPException(404, f"there is no outcome {seq}: the log ends with outcome {site.log.last_seq()}")
    proposal = outcome.proposal
    changes, reads = ((), ()) if proposal is None else (proposal.changes, proposal.reads)
    return site.page(
        "outcome.html",
        outcome=outcome,
        proposal=proposal,
        proposal_id=None if outcome.proposal_id is None else format_id(outcome.proposal_id),
        decided_at=_time(outcome.decided_at_ms),
        created_at=None if proposal is None else _time(proposal.created_at_ms),
        changes=[(describe_change(each), *_table_of(each)) for each in changes[:LISTED_MAX]],
        reads=[describe_read(each) for each in reads[:LISTED_MAX]],
        tables=list(dict.fromkeys(named for named in map(_table_of, changes) if None not in named)),
        refusal=_refusal(site, outcome) if outcome.verdict is m.Verdict.REJECTED else None,
        listed_max=LISTED_MAX,
        last_seq=site.log.last_seq(),
    )


@dataclass(frozen=True)
class Refusal:
    """What a refusal's page adds: the drawing, once more for phones, what would have passed, and how to go on."""

    drawing: object
    narrow_drawing: object
    advices: list[Advice]
    unavailable: str | None
    way_out: str | None
    others: list[HistoryEntry]


def _refusal(site: Site, outcome: m.Outcome) -> Refusal:
    met = sorted({each.committed_snapshot_id for each in outcome.conflicts})[-MET_DRAWN_MAX:]
    others = [each for snapshot_id in met for each in site.contents().history(HistoryFilter(snapshot_id=snapshot_id))]
    tried, unavailable = [], None
    if outcome.reason is m.Reason.CONFLICT and outcome.proposal_id is not None:
        explanation = site.explanation(outcome.proposal_id)
        unavailable = explanation.unavailable
        if explanation.tried and explanation.status.outcome is not None:
            tried = advices(explanation.status.outcome, explanation.tried)
    rebase_passes = tried[0].passes if tried else None
    wide, narrow = (draw_refusal(outcome, others, rebase_passes=rebase_passes, shape=each) for each in (WIDE, NARROW))
    return Refusal(wide, narrow, tried, unavailable, way_out(outcome), others)


def _table_of(change: m.Change) -> tuple[str | None, str | None]:
    """The schema and the name of the table that a change is about, as far as it names them."""
    return getattr(change, "schema", None), getattr(change, "table", None)


def _time(time_ms: int) -> datetime | None:
    return moment_of(time_ms) if time_ms else None
