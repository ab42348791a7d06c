"""A new site joins: it is told what another one holds as of one snapshot, and links go on from there (rules.md 6).

A join that died is begun again, and tells the rest as of the same snapshot: what was told before is remembered by the new
site itself.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from uuid import uuid4

from commitlog.client import CommitLog
from commitlog.client.ids import id_at
from commitlog.client.tables.names import TableName
from commitlog.client.tables.values import row_of
from commitlog.domain import model as m
from commitlog.domain.state.index import TableState
from commitlog.domain.state.row_keys import key_of
from commitlog.domain.state.sites import is_row_change
from commitlog.errors import CommitLogError, ConfigurationError, LinkStoppedError
from commitlog.sites.beginning import JoinProgress, begun_join, decided_at_ms, next_tick_after, node_of, writer_id_of
from commitlog.sites.joining import JOIN, Said, told_to_joiner
from commitlog.sites.link import IN_FLIGHT_MAX


class Join:
    """Tells a log that holds nothing of other sites what ``source`` holds now. Links begin where it ends.

    Args:
        source: the log that is read; it, and all others, go on meanwhile.
        target: the new site's log.

    Raises:
        ConfigurationError: one of them is no node, both are the same one, or the new site has something of others already.
        HistoryUnavailableError: the source's log is too long to be replayed here, or its beginning is gone: begin anew.
    """

    def __init__(self, source: CommitLog, target: CommitLog) -> None:
        self._source, self._target = source, target
        self._node, new = node_of(source, "the source"), node_of(target, "the target")
        if self._node.name == new.name:
            raise ConfigurationError(
                f"both logs are node {new.name!r}: each site has a name of its own (`commitlog node NAME`)"
            )
        begun = begun_join(target)
        self._known = {name: known.tick for name, known in target.access.digest().items()}
        if self._known and (begun is None or begun.source != self._node.name):
            raise ConfigurationError(
                f"site {new.name} has taken over snapshots of {', '.join(sorted(self._known))} already: a link brings it what "
                "is new; only a site with an empty log joins"
            )
        self.progress = begun or JoinProgress(self._node.name, new.name, source.wait_for_snapshot())
        # Whatever else brings something to the new site ends here: it would come before what it was made with.
        links = [writer_id_of(name) for name in (self._node.name, *source.access.digest())]
        self._epochs = {writer_id: self._opened(writer_id) for writer_id in (JOIN, *links)}

    def _opened(self, writer_id: str) -> int:
        own_id = id_at(decided_at_ms(self._target), 0, secrets.randbits(62))
        return self._target.open_writer(writer_id, proposal_id=own_id)

    def run(self, *, told: Callable[[JoinProgress], None] = lambda _: None) -> JoinProgress:
        """Tell everything; ``told`` is called now and then.

        Raises:
            FencedError: another join of these two logs has begun.
            LinkStoppedError: the new site refuses a change; its message names it and what it met.
            OutcomeUnknownError: no answer in time; begun again, a join goes on where it was.
        """
        [at] = self._source.history(1, snapshot=self.progress.snapshot_id)
        state = self._source.access.state_before(at.seq + 1)
        next_tick = next_tick_after(self._source, self._node, at.seq)
        news = list(enumerate(told_to_joiner(self._node, state, next_tick, self._images), start=1))
        left = [(number, said) for number, said in news if self._is_new(said) or number == len(news)]
        for together in _together(left):
            self._bring(together, is_last=together[-1][0] == len(news))
            told(self.progress)
        return self.progress

    def _is_new(self, said: Said) -> bool:
        return said[0].tick >= self._known.get(said[0].node, 0)

    def _images(self, table: TableState) -> dict[str, m.Row]:
        handle = self._source.table(str(TableName(table.schema.name, table.name)))
        rows = handle.scan(snapshot=self.progress.snapshot_id).to_arrow().to_pylist()
        return {key_of(table.definition, image): image for image in map(row_of, rows)}

    def _bring(self, together: Iterable[tuple[int, Said]], *, is_last: bool) -> None:
        base = self._target.wait_for_snapshot()
        writer_id = writer_id_of(self._node.name) if is_last else JOIN
        proposals = [
            self._proposal(writer_id, self.progress.snapshot_id if is_last else number, base, said)
            for number, said in together
        ]
        answers = self._target.publish_many(proposals, in_flight_max=IN_FLIGHT_MAX)
        for proposal, answer in zip(proposals, answers, strict=True):
            if isinstance(answer, CommitLogError):
                raise answer
            if not answer.committed:
                assert proposal.replicated is not None
                raise LinkStoppedError(proposal.replicated.node, self.progress.target, proposal.replicated.tick, answer)
            self.progress.told += sum(is_row_change(change) for change in proposal.changes)

    def _proposal(self, writer_id: str, writer_seq: int, base: int, said: Said) -> m.Proposal:
        return m.Proposal(
            proposal_id=uuid4().bytes,
            writer_id=writer_id,
            writer_epoch=self._epochs[writer_id],
            writer_seq=writer_seq,
            base_snapshot_id=base,
            changes=said[1],
            created_at_ms=time.time_ns() // 1_000_000,
            message=f"{self.progress.target} joins, told by {self.progress.source}",
            extra=json.dumps({"site": self.progress.source, "snapshot_id": self.progress.snapshot_id}),
            replicated=said[0],
        )


def _together(news: Iterable[tuple[int, Said]]) -> Iterator[list[tuple[int, Said]]]:
    """What may be on its way at once: rows of one node; what comes after a definition has it in its base."""
    run: list[tuple[int, Said]] = []
    for number, said in news:
        fits = run and _are_rows(said) and _are_rows(run[-1][1]) and said[0].node == run[-1][1][0].node
        if run and not fits:
            yield run
            run = []
        run.append((number, said))
    if run:
        yield run


def _are_rows(said: Said) -> bool:
    return all(is_row_change(change) for change in said[1])
