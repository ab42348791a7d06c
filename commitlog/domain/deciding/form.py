"""What a proposal says of itself, before its changes are looked at: refused for when and whence it came, or INVALID."""

from __future__ import annotations

from typing import assert_never

from commitlog.domain import model as m
from commitlog.domain.model.definitions import quoted
from commitlog.domain.model.ids import id_time_ms, partition_for
from commitlog.domain.model.settings import sender_length_max
from commitlog.domain.model.texts import check_name, check_row_text, check_text, check_time_ms, check_value_text
from commitlog.domain.state.index import SequencerState
from commitlog.errors import InvalidChangeError


def refused_unseen(
    state: SequencerState, proposal: m.Proposal, source: m.Position, decided_at_ms: int
) -> tuple[m.Reason, str] | None:
    """The refusals that do not look at the changes, in their precedence."""
    window = state.duplicates.get(source.partition)
    if window is not None and proposal.writer_seq is None:
        made_at_ms = id_time_ms(proposal.proposal_id)
        if made_at_ms is not None and made_at_ms <= window.expired_time_ms:
            return m.Reason.PROPOSAL_EXPIRED, (
                f"the id was made at {made_at_ms} ms, and those up to {window.expired_time_ms} ms are not remembered any more, "
                "so it cannot be told from a repeat: look its outcome up, and send a new id if there is none. If new ids are "
                "refused so too, the writer's clock is behind those of others: set it right, or commit under a key"
            )
    writer = state.writer(proposal.writer_id)
    fenced_below = None if writer is None or proposal.open_writer else writer.epoch
    if fenced_below is not None:
        if proposal.writer_epoch is None:
            return m.Reason.WRITER_FENCED, (
                f"no writer_epoch is given, and since writer {quoted(proposal.writer_id)} was opened only its newest may write"
            )
        if proposal.writer_epoch < fenced_below:
            return m.Reason.WRITER_FENCED, (
                f"writer epoch {proposal.writer_epoch} is below {fenced_below}: a newer writer has taken over"
            )
    if proposal.decide_before_ms is not None and decided_at_ms > proposal.decide_before_ms:
        return m.Reason.TOO_LATE, f"decided at {decided_at_ms} ms, after decide_before_ms {proposal.decide_before_ms}"
    if proposal.base_snapshot_id > state.head_snapshot_id:
        return (
            m.Reason.BASE_UNKNOWN,
            f"base snapshot {proposal.base_snapshot_id} is beyond the head {state.head_snapshot_id}",
        )
    if 0 <= proposal.base_snapshot_id < state.floor_snapshot_id:
        return m.Reason.BASE_EXPIRED, (
            f"base snapshot {proposal.base_snapshot_id} is older than {state.floor_snapshot_id}, the oldest one kept: "
            "read again and propose from there"
        )
    return None


def check_form(state: SequencerState, proposal: m.Proposal, source: m.Position, decided_at_ms: int) -> None:
    """Check what a proposal says of itself and its limits; InvalidChangeError for the first that cannot be."""
    settings = state.settings
    check_name(proposal.writer_id, "writer", sender_length_max(settings))
    check_text(proposal.author, "the author")
    check_text(proposal.message, "the message", multiline=True)
    check_text(proposal.extra, "the extra text")
    _not_negative("base_snapshot_id", proposal.base_snapshot_id)
    _check_epoch(state, proposal)
    _not_negative("writer_seq", proposal.writer_seq)
    check_time_ms("created_at_ms", proposal.created_at_ms)
    check_time_ms("decide_before_ms", proposal.decide_before_ms)
    made_at_ms = id_time_ms(proposal.proposal_id)
    if made_at_ms is not None and made_at_ms > decided_at_ms + settings.clock_skew_ms_max:
        raise InvalidChangeError(
            m.InvalidCode.ID_FROM_FUTURE,
            f"the id was made at {made_at_ms} ms, later than the sequencer's {decided_at_ms} ms allows",
        )
    expected = partition_for(proposal.writer_id, state.partitions)
    if source.partition != expected:
        raise InvalidChangeError(
            m.InvalidCode.PARTITION_WRONG,
            f"writer {proposal.writer_id!r} belongs to partition {expected}, not {source.partition}",
        )
    # What a link brings was within the limit of the site that made it, and may be twice as many changes here.
    if proposal.replicated is None and len(proposal.changes) > settings.changes_max:
        raise InvalidChangeError(
            m.InvalidCode.TOO_MANY_CHANGES,
            f"{len(proposal.changes)} changes are more than {settings.changes_max} (changes_max)",
        )
    _check_read_form(settings, proposal)


def _not_negative(name: str, value: int | None) -> None:
    if value is not None and value < 0:
        raise InvalidChangeError(m.InvalidCode.NUMBER_NEGATIVE, f"{name} {value} is negative")


def _check_epoch(state: SequencerState, proposal: m.Proposal) -> None:
    """An epoch is only ever given by the log, to a writer that asked for one with open_writer."""
    _not_negative("writer_epoch", proposal.writer_epoch)
    if proposal.writer_epoch is None:
        return
    writer = state.writer(proposal.writer_id)
    if writer is None or writer.epoch is None or proposal.writer_epoch > writer.epoch:
        raise InvalidChangeError(
            m.InvalidCode.EPOCH_NOT_GIVEN,
            f"writer epoch {proposal.writer_epoch} was never given to writer {quoted(proposal.writer_id)}: ask for one with "
            "open_writer",
        )


def _check_read_form(settings: m.LogSettings, proposal: m.Proposal) -> None:
    if not proposal.reads:
        return
    if len(proposal.reads) > settings.reads_max:
        raise InvalidChangeError(
            m.InvalidCode.TOO_MANY_READS,
            f"{len(proposal.reads)} reads are more than {settings.reads_max} (reads_max)",
        )
    for read in proposal.reads:
        _check_read_text(read)
        if isinstance(read, m.RowsRead) and len(read.keys) > settings.read_keys_max:
            raise InvalidChangeError(
                m.InvalidCode.TOO_MANY_READ_KEYS,
                f"a read of {len(read.keys)} keys is more than {settings.read_keys_max} (read_keys_max)",
            )


def _check_read_text(read: m.Read) -> None:
    """Raise InvalidChangeError for text in a read that may not enter the log."""
    check_text(read.schema, "a read's schema name")
    match read:
        case m.TableRead():
            check_text(read.table, "a read's table name")
            for predicate in read.filter:
                check_text(predicate.column, "a filter's column name")
                values = predicate.value if isinstance(predicate.value, tuple) else (predicate.value,)
                for value in values:
                    check_value_text(value, "a filter")
        case m.NameRead():
            check_text(read.name, "a read's name")
        case m.RowsRead():
            check_text(read.table, "a read's table name")
            for key in read.keys:
                check_row_text(key, "a read's key")
        case _:
            assert_never(read)
