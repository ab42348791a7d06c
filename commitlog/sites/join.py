"""A new site joins: it is told what another one holds as of one snapshot, and links go on from there (rules.md 6).

A join that died is begun again, and tells the rest as of the same snapshot: what was told before is remembered by the new
site itself.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING
from uuid import uuid4

from commitlog.client import CommitLog
from commitlog.client.outcomes.submitted import SubmittedOutcome
from commitlog.client.tables.names import TableName
from commitlog.client.tables.values import row_of
from commitlog.domain import model as m
from commitlog.domain.state.index import SequencerState, TableState
from commitlog.domain.state.row_keys import key_of
from commitlog.domain.state.sites import is_row_change
from commitlog.errors import ConfigurationError, DataFileError, FencedError, LinkStoppedError, ProposalTooLargeError
from commitlog.sites.beginning import (
    JoinProgress,
    begun_join,
    brought_by,
    check_joined,
    link_writers,
    next_tick_after,
    next_ticks,
    nodes_of,
    open_writer,
    writer_id_of,
)
from commitlog.sites.joining import JOIN, NAMED_BY, Said, replicated_tables, told_to_joiner
from commitlog.sites.kept import maker_of
from commitlog.sites.proposing import id_for, in_runs, propose_ahead, propose_alone

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_AT_ONCE, BYTES_AT_ONCE = 1_000_000, 256 << 20
"""Of a table without a primary key, in one snapshot of the site that joins."""


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
        self._node, new = nodes_of(source, target)
        begun = begun_join(target)
        self._known = next_ticks(target)
        if begun is not None and begun.source != self._node.name:
            check_joined(target)  # It says who goes on.
        if begun is None and self._known:
            raise ConfigurationError(
                f"site {new.name} has taken over snapshots of {', '.join(sorted(self._known))} already: a link brings it what "
                "is new; only a site with an empty log joins"
            )
        self.progress = begun or JoinProgress(self._node.name, new.name, source.wait_for_snapshot())
        self._named_by: dict[tuple[str, str], tuple[str, int] | None] = {}
        self._told_of = b""
        self._brought: dict[tuple[str, int], bytes | None] = {}
        self._epochs = {JOIN: open_writer(target, JOIN)}

    def run(self, *, told: Callable[[JoinProgress], None] = lambda _: None) -> JoinProgress:
        """Tell everything; ``told`` is called now and then.

        Raises:
            ConfigurationError: rows of a table cannot be told, for what types its columns are, or a link has brought something
                to the new site meanwhile.
            FencedError: another join of the new site, or a link to it, has begun.
            LinkStoppedError: the new site refuses a change; its message names it and what it met.
            OutcomeUnknownError: no answer in time; begun again, a join goes on where it was.
        """
        [at] = self._source.history(1, snapshot=self.progress.snapshot_id)
        assert at.proposal_id is not None
        self._told_of = at.proposal_id.bytes
        state = self._source.access.state_before(at.seq + 1)
        lasts = [(name, known.tick - 1) for name, known in state.digest.items()]
        self._brought = {last: brought_by(self._source, *last) for last in lasts}
        for table in replicated_tables(state):
            named_at = max(table.created_at, table.last_of((m.ChangeKind.RENAME_TABLE,)))
            self._named_by[table.schema.name, table.name] = maker_of(self._source, self._node.name, named_at)
        self._check_types(state)
        next_tick = next_tick_after(self._source, self._node, at.seq)
        *news, last = enumerate(told_to_joiner(self._node, state, next_tick, self._images), start=1)
        left = [each for each in news if self._is_new(each[1])]
        self._end_links()
        self._bring(left[:1], JOIN)
        self._end_links()  # No other begins from now on: it sees that the site joins.
        told(self.progress)
        for together in in_runs(left[1:], _is_of_same_node):
            self._bring(together, JOIN)
            told(self.progress)
        for number, (name, rows) in enumerate(self._rows_of_files(state), start=len(news) + 1):
            self._append(number, name, rows)
            told(self.progress)
        self._bring([(self.progress.snapshot_id, last[1])], writer_id_of(self._node.name))
        return self.progress

    def _end_links(self) -> None:
        """Whatever else brings something to the new site ends here: it would come before what it was made with."""
        self._target.wait_for_snapshot()
        for writer_id in sorted({writer_id_of(self._node.name), *link_writers(self._target)}):
            self._epochs[writer_id] = open_writer(self._target, writer_id)
            if self._target.access.last_by(writer_id) is not None:
                raise ConfigurationError(
                    f"{writer_id} has brought something to site {self.progress.target} since this join began: let it "
                    "join again, with an empty log and another name"
                )

    def _check_types(self, state: SequencerState) -> None:
        """Nothing is told yet where not all can be: rows without a primary key are written anew, to files."""
        from commitlog.client.writing.file_schema import file_schema

        for table in replicated_tables(state):
            if table.rows is not None or not table.next_row_id:
                continue  # With a primary key it has rows of such types in no file.
            for column in table.definition.columns:
                try:
                    file_schema([column])
                except DataFileError:
                    name = TableName(table.schema.name, table.name)
                    raise ConfigurationError(
                        f"the rows of table {name} cannot be told to a site that joins, for Arrow "
                        f"does not hold column {column.name}, which is {column.type}: let a link bring them from the log's "
                        f"beginning, without --join, or set the table's property replicated to false at {self._node.name}"
                    ) from None

    def _is_new(self, said: Said) -> bool:
        return said[0] is None or said[0].tick >= self._known.get(said[0].node, 0)

    def _rows_of_files(self, state: SequencerState) -> Iterator[tuple[str, pa.Table]]:
        """The rows of tables without a primary key, written anew at the new site: which of a file's are gone, and by which
        numbers it calls its columns, is another log's."""
        for table in replicated_tables(state):
            if table.rows is None:
                name = str(TableName(table.schema.name, table.name))
                scan = self._source.table(name).scan(snapshot=self.progress.snapshot_id)
                for rows in _pieces(scan.to_batches()):
                    yield name, rows

    def _append(self, number: int, name: str, rows: pa.Table) -> None:
        if self._target.access.committed_as(JOIN, number) is not None:
            return
        with self._target.transaction(
            proposal_id=uuid4(),  # The clock of the target's log may be hours from this one.
            writer_id=JOIN,
            writer_epoch=self._epochs[JOIN],
            writer_seq=number,
            message=self._message,
            extra=self._extra(),
        ) as tx:
            tx.append(name, rows)
        self.progress.told += rows.num_rows

    def _images(self, table: TableState) -> dict[str, m.Row]:
        handle = self._source.table(str(TableName(table.schema.name, table.name)))
        rows = handle.scan(snapshot=self.progress.snapshot_id).images()
        return {key_of(table.definition, image): image for image in map(row_of, rows)}

    def _bring(self, together: Iterable[tuple[int, Said]], writer_id: str) -> None:
        left, base = list(together), self._target.wait_for_snapshot()
        try:
            while left:
                left = propose_ahead(self._target, left, lambda each: self._proposal(writer_id, each, base), self._note)
                if left:
                    self._bring_alone(left.pop(0), writer_id, base)
        except ProposalTooLargeError as error:
            raise self._stopped(error) from error

    def _bring_alone(self, each: tuple[int, Said], writer_id: str, base: int) -> None:
        answer = propose_alone(
            self._target, lambda base, displaced: self._proposal(writer_id, each, base, displaced), base
        )
        if answer.reason is m.Reason.WRITER_FENCED:
            raise FencedError(f"another join of {self.progress.target}, or a link to it, has begun")
        if not answer.committed:
            raise self._stopped(answer)
        self._note(each, answer)

    def _stopped(self, why: SubmittedOutcome | ProposalTooLargeError) -> LinkStoppedError:
        return LinkStoppedError(self._node.name, self.progress.target, self.progress.snapshot_id, why)

    def _note(self, each: tuple[int, Said], _: SubmittedOutcome) -> None:
        self.progress.told += sum(is_row_change(change) for change in each[1][1])

    def _proposal(
        self, writer_id: str, each: tuple[int, Said], base: int, displaced: tuple[m.DisplacedRow, ...] = ()
    ) -> m.Proposal:
        writer_seq, (replicated, changes) = each
        # Where links go on: they look whether that is still what their source has there.
        made: bytes | None = self._told_of
        if writer_id == JOIN:
            made = None if replicated is None else self._brought.get((replicated.node, replicated.tick))
        return m.Proposal(
            proposal_id=uuid4().bytes if made is None else id_for(made),
            writer_id=writer_id,
            writer_epoch=self._epochs[writer_id],
            writer_seq=writer_seq,
            base_snapshot_id=base,
            changes=changes,
            created_at_ms=time.time_ns() // 1_000_000,
            message=self._message,
            extra=self._extra(changes),
            replicated=None if replicated is None else replicated.replace(displaced=displaced),
        )

    @property
    def _message(self) -> str:
        return f"{self.progress.target} joins, told by {self.progress.source}"

    def _extra(self, changes: tuple[m.Change, ...] = ()) -> str:
        told = {"site": self.progress.source, "snapshot_id": self.progress.snapshot_id}
        made = changes[0] if changes else None
        maker = self._named_by.get((made.schema, made.table)) if isinstance(made, m.CreateTable) else None
        return json.dumps(told if maker is None else {**told, NAMED_BY: maker})


def _is_of_same_node(each: tuple[int, Said], before: tuple[int, Said]) -> bool:
    """Whether both are rows of one node; what comes after a definition has it in its base."""
    said, other = each[1], before[1]
    return _are_rows(said) and _are_rows(other) and _node(said) == _node(other)


def _node(said: Said) -> str | None:
    return None if said[0] is None else said[0].node


def _pieces(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Rows in as few pieces as fit in memory."""
    import pyarrow as pa

    found: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        found.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= ROWS_AT_ONCE or size >= BYTES_AT_ONCE:
            yield pa.Table.from_batches(found)
            found, rows, size = [], 0, 0
    if found:
        yield pa.Table.from_batches(found)


def _are_rows(said: Said) -> bool:
    return all(is_row_change(change) for change in said[1])
