"""A client's commit as a proposal: what it says, under which id it is sent, and what becomes of it.

The batch is never executed. What was committed is answered once readers see it; what the log refuses, and what is not
understood, in its own words. That nobody knows the outcome is no refusal: the client would remove files that may be committed.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ParamSpec, TypeVar
from uuid import UUID

from commitlog.catalog.guard import WRITER_ROLE
from commitlog.client import CommitLog
from commitlog.client.files.removing import remove_files
from commitlog.client.ids import id_of_content, new_proposal_id
from commitlog.client.outcomes.submitted import SubmittedOutcome, answered_first
from commitlog.domain import model as m
from commitlog.errors import (
    CommitLogError,
    KeyReusedError,
    LogUnavailableError,
    NotUnderstoodError,
    OutcomeUnknownError,
    ProposalTooLargeError,
)
from commitlog.gateway.base import Bases
from commitlog.gateway.batch import parse
from commitlog.gateway.keeping import Keeping, Watch
from commitlog.gateway.showing import Showing
from commitlog.gateway.translation import Translated, translate

SENT_MAX = 5
"""How often one proposal is sent while nobody answers."""
WRITER = "duckdb:{}"
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", re.IGNORECASE)
_DEFECT = "the gateway could not read this commit, which is a defect of commitlog; see its log. Nothing was committed"

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

_logger = logging.getLogger("commitlog.gateway")


@dataclass(frozen=True, slots=True)
class Answer:
    """What a client is told.

    Attributes:
        refusal: why nothing was committed; None when it was, or there was nothing to commit.
        warning: told beside a success.
        watch: begins to see that the files of the commit are not removed, as `Keeping.watch` does; None where nothing is kept.
    """

    refusal: str | None = None
    warning: str | None = None
    watch: Callable[[], Watch] | None = None


@dataclass(frozen=True, slots=True)
class _Sent:
    """A proposal on its way.

    Attributes:
        proposal: as it was sent.
        translated: what it was made of.
        answer: what it comes to.
        written: full paths of files that were written for it here.
    """

    proposal: m.Proposal
    translated: Translated
    answer: Future[SubmittedOutcome]
    written: Sequence[str]


class Commits:
    """Turns texts of commits into proposals, and their outcomes into answers. Of one event loop.

    Args:
        log: where they are proposed.
        bases: the catalog at their bases.
        threads: for what blocks: SQL, files, sending.
        showing: waits for the catalog.
        keeping: keeps files whose commit was not heard of yet.
    """

    def __init__(
        self, log: CommitLog, bases: Bases, threads: ThreadPoolExecutor, showing: Showing, keeping: Keeping
    ) -> None:
        self._log = log
        self._keeping = keeping
        self._bases = bases
        self._threads = threads
        self._showing = showing

    async def commit(self, text: str, user: str) -> Answer:
        """Propose what a client commits, and wait for the answer.

        Raises:
            CommitLogError: it was sent, and nobody knows what became of it.
        """
        try:
            sent = await self._in_thread(self._send, text, user)
        except CommitLogError as error:
            return Answer(refusal=f"nothing was committed: {error}")
        except Exception:
            _logger.exception("a commit of %s is not understood", user)
            return Answer(refusal=_DEFECT)
        if sent is None:
            return Answer()
        # Until its text is answered the client keeps its files: there is time while the log decides.
        keeping = asyncio.ensure_future(self._keeping.keep(sent.translated.files))
        try:
            outcome = await self._decided(sent)
        except ProposalTooLargeError as error:
            return await self._refused(sent, f"nothing was committed: {error}", keeping)
        except BaseException:
            # Whatever it was, the log may have it.
            _once_kept(keeping, self._keeping.watch)
            raise
        if outcome.committed:
            return await self._shown(sent, outcome, keeping)
        return await self._refused(sent, _why(outcome), keeping)

    async def _refused(self, sent: _Sent, why: str, keeping: asyncio.Future[Path | None]) -> Answer:
        """A refusal, once what was written for it is gone; its own files the client removes."""
        _once_kept(keeping, self._keeping.let_go)
        if sent.written:
            await self._in_thread(remove_files, sent.written)
        return Answer(refusal=why)

    async def _shown(self, sent: _Sent, outcome: SubmittedOutcome, keeping: asyncio.Future[Path | None]) -> Answer:
        """Success, once readers see it and its files are kept."""
        removing = self._in_thread(remove_files, sent.translated.unused) if sent.translated.unused else None
        is_shown = outcome.snapshot_id is None or await self._showing.wait(outcome.snapshot_id)
        warning = (
            None if is_shown else f"committed as snapshot {outcome.snapshot_id}, which the catalog does not show yet"
        )
        if removing is not None:
            await removing
        kept = await keeping
        return Answer(warning=warning, watch=None if kept is None else partial(self._keeping.watch, kept))

    def _in_thread(
        self, act: Callable[Parameters, Result], *args: Parameters.args, **kwargs: Parameters.kwargs
    ) -> asyncio.Future[Result]:
        return asyncio.get_running_loop().run_in_executor(self._threads, partial(act, *args, **kwargs))

    def _send(self, text: str, user: str) -> _Sent | None:
        """Propose what a text says; None when it comes to nothing."""
        written: list[str] = []
        try:
            proposal, translated = self._proposal(text, user, written.append)
            return _Sent(proposal, translated, self._log.submit_async(proposal), written) if proposal.changes else None
        except BaseException:
            remove_files(written)
            raise

    def _proposal(self, text: str, user: str, on_file: Callable[[str], None]) -> tuple[m.Proposal, Translated]:
        """What a text proposes."""
        batch = parse(text)
        with self._bases.at(batch.base_snapshot_id, user) as base:
            if batch.schema != base.schema:
                raise NotUnderstoodError(
                    f"the lake's tables are in schema {base.schema}: attach with METADATA_SCHEMA '{base.schema}'"
                )
            if not base.may_propose:
                raise NotUnderstoodError(f"{user} may not write: grant it the role {WRITER_ROLE} (`commitlog acl`)")
            translated = translate(batch, base, self._log.changes_max, self._log.access.settings, on_file)
        proposal_id, time_ms = identified(batch.uuids_and_paths)
        proposal = m.Proposal(
            proposal_id,
            WRITER.format(user),
            batch.base_snapshot_id,
            translated.changes,
            author=batch.author,
            message=batch.message,
            extra=batch.extra,
            created_at_ms=time_ms,
        )
        return proposal, translated

    async def _decided(self, sent: _Sent) -> SubmittedOutcome:
        """The answer to it; a repeat's is the first one's, whatever the client has numbered anew since."""
        proposal = sent.proposal
        try:
            outcome = await self._answered(proposal, sent.answer)
        except KeyReusedError:
            first = await self._first(proposal)
            if first is None:
                raise OutcomeUnknownError(UUID(bytes=proposal.proposal_id)) from None
            return first
        if outcome.reason is not m.Reason.PROPOSAL_EXPIRED:
            return outcome
        # It was written long before it was committed, and nothing was decided under its id.
        anew = proposal.replace(proposal_id=new_proposal_id())
        return await self._answered(anew, await self._in_thread(self._log.submit_async, anew))

    async def _first(self, proposal: m.Proposal) -> SubmittedOutcome | None:
        """What was decided under its id; None when nothing was."""
        status = await self._in_thread(self._log.outcome, proposal.proposal_id)
        return None if status.outcome is None else answered_first(status.outcome)

    async def _answered(self, proposal: m.Proposal, answer: Future[SubmittedOutcome]) -> SubmittedOutcome:
        """What the log says; what stays unanswered is sent again, for under one id it is decided once."""
        for _ in range(SENT_MAX - 1):
            try:
                return await asyncio.wrap_future(answer)
            except OutcomeUnknownError:
                with suppress(LogUnavailableError):
                    answer = await self._in_thread(self._log.submit_async, proposal)
        return await asyncio.wrap_future(answer)


def identified(uniques: Iterable[str]) -> tuple[bytes, int]:
    """The id of a commit, and its time in ms since 1970: the same for the same files and objects, however they are numbered.

    What names nothing of its own, such as DROP TABLE, has a new id each time; made twice it meets itself.
    """
    named = sorted(uniques)
    times = [int(found[0][:13].replace("-", ""), 16) for name in named if (found := _UUID.search(name))]
    now_ms = time.time_ns() // 1_000_000
    if not times:
        return new_proposal_id(), now_ms
    # A client's clock may be ahead.
    made_ms = min(max(times), now_ms)
    return id_of_content(made_ms, "\n".join(named).encode()), made_ms


def _once_kept(keeping: asyncio.Future[Path | None], act: Callable[[Path], object]) -> None:
    """Do so with the list of what is kept, once it is; nobody waits for it."""

    def done(_: asyncio.Future[Path | None]) -> None:
        if not keeping.cancelled() and (kept := keeping.result()) is not None:
            act(kept)

    keeping.add_done_callback(done)


def _why(outcome: SubmittedOutcome) -> str:
    advice = "" if outcome.reason is m.Reason.INVALID else "; read again and repeat the transaction"
    return (
        f"{outcome.detail}; nothing was committed, and the files written for it are removed. "
        f"`commitlog explain {outcome.proposal_id}` tells more{advice}"
    )
