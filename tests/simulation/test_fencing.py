"""The log fences itself: whatever happens on the way, every reader accepts the same outcomes, and every proposal is told.

Schedules of several sequencers, made of the real `Chain`, `Heard`, `TakeoverAttempt`, `Serving` and `Telling`, over a log in
memory (`fencing_world`). The same schedules must find each of the mistakes that are planted here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import fencing
import fencing_world
import pytest
from fencing_instance import Instance
from fencing_world import World
from serving_mistakes import (
    Patch,
    a_fenced_one_goes_on,
    a_success_without_an_offset_is_proof,
    an_error_is_no_doubt,
    proved_by,
    the_takeover_is_not_read_back,
    told_before_the_acknowledgement,
)

from commitlog.log import chain as chain_module
from commitlog.log.chain import Accepted, Chain, ChainState, LogPosition, Skip
from commitlog.log.codec import OutcomeHead, Takeover, hash_record
from commitlog.log.heartbeats import Heard
from commitlog.log.reports import Report
from commitlog.log.serving import DoubtError, SentBatch, Serving, Telling

SCHEDULES = 20_000
PARTS = 4
SCHEDULES_NIGHTLY = 500_000
SCHEDULES_TO_FIND = 4_000


def hold(first: int, count: int) -> None:
    found = fencing.first_broken(first, count)
    if found is not None:
        seed, broken = found
        short = fencing.shrunk(broken)
        story = "\n".join(short.trace)
        pytest.fail(f"seed {seed} breaks: {broken.error}; shortened:\n{story}\n{short.kind.__name__}: {short.error}")


@pytest.mark.parametrize("part", range(PARTS))
def test_fencing_whatever_happens_then_all_accept_the_same_and_everything_is_told(part: int) -> None:
    hold(part * SCHEDULES // PARTS, SCHEDULES // PARTS)


@pytest.mark.nightly
def test_fencing_whatever_happens_then_all_accept_the_same_and_everything_is_told_for_long() -> None:
    hold(SCHEDULES, SCHEDULES_NIGHTLY)


# --- planted bugs -----------------------------------------------------------------------------------------------------


def no_offset_check(patch: Patch) -> None:
    proved_by(patch, lambda serving, reports: all(each.error is None for each in reports))


def only_the_last_offset_is_looked_at(patch: Patch) -> None:
    """So that what is missing before it goes unseen when somebody else's record fills the place."""
    proved_by(patch, lambda serving, reports: reports[-1].offset == serving.next_offset + len(reports) - 1)


def offsets_below_are_fine(patch: Patch) -> None:
    def is_proved(serving: Serving, reports: list[Report]) -> bool:
        return all(each.offset is not None and each.offset < serving.next_offset + len(reports) for each in reports)

    proved_by(patch, is_proved)


def a_gap_is_not_read(patch: Patch) -> None:
    def is_proved(serving: Serving, reports: list[Report]) -> bool:
        return all(each.offset is not None and each.offset >= serving.next_offset for each in reports)

    proved_by(patch, is_proved)


def own_records_in_the_log_are_taken_as_accepted(patch: Patch) -> None:
    """So that an own gap before them is taken for the end."""

    def read(self: Serving, records: Iterable[tuple[int, bytes | None]]) -> list[SentBatch]:
        assert self.unread is not None
        there = {raw for _, raw in records}
        next_offset, self.unread = self.unread[1], None
        if not self._sent:
            self.next_offset = next_offset
            return []
        batch = self._sent[0]
        if not there.issuperset(batch.outcomes):
            raise DoubtError("planted")
        self._accept(batch, next_offset)
        return [self._sent.popleft()]

    patch.setattr(Serving, "read", read)


def the_epoch_is_not_raised_after_doubt(patch: Patch) -> None:
    real = Instance._doubt

    def doubt(self: Instance, error: DoubtError) -> None:
        was_serving, epoch = self.is_serving, self.serving.accepted.epoch if self.is_serving else 0
        real(self, error)
        self._follow(len(self.world.log))
        if was_serving and self.chain.state is not None and self.chain.state.epoch == epoch:
            self.chain.state = self.chain.state.replace(instance=b"?" * 16)
            self.session = self.world.session()
            self._serve(len(self.world.log))

    patch.setattr(Instance, "_doubt", doubt)


def accepted_as(self: Chain, head: OutcomeHead, raw: bytes, offset: int) -> Accepted:
    digest = hash_record(raw)
    state = self.state
    assert state is not None
    self.state = ChainState(state.log_id, state.epoch, state.instance, head.seq, digest)
    self.position = LogPosition(state.log_id, head.seq, state.epoch, digest, offset)
    return Accepted(head, offset, digest)


def outcomes_taken_by(patch: Patch, is_taken: Callable[[ChainState, OutcomeHead], bool]) -> None:
    """Some outcomes are accepted that ought to be skipped."""
    real = Chain._outcome

    def outcome(self: Chain, state: ChainState, head: OutcomeHead, raw: bytes, offset: int) -> Accepted | Skip:
        return accepted_as(self, head, raw, offset) if is_taken(state, head) else real(self, state, head, raw, offset)

    patch.setattr(Chain, "_outcome", outcome)


def what_is_sent_again_is_taken_as_new(patch: Patch) -> None:
    outcomes_taken_by(patch, lambda state, head: head.epoch == state.epoch and head.seq <= state.seq)


def what_follows_a_lost_one_is_taken(patch: Patch) -> None:
    outcomes_taken_by(patch, lambda state, head: head.epoch == state.epoch and head.seq > state.seq + 1)


def a_zombie_is_taken(patch: Patch) -> None:
    outcomes_taken_by(patch, lambda state, head: head.epoch < state.epoch and head.seq == state.seq + 1)


def a_takeover_of_epoch_plus_2_is_taken(patch: Patch) -> None:
    real = Chain._takeover

    def takeover(self: Chain, state: ChainState, given: Takeover, raw: bytes, offset: int) -> Accepted | Skip:
        if given.epoch == state.epoch + 2:
            state = state.replace(epoch=state.epoch + 1)
        return real(self, state, given, raw, offset)

    patch.setattr(Chain, "_takeover", takeover)


def a_takeover_of_the_same_epoch_is_taken(patch: Patch) -> None:
    real = Chain._takeover

    def takeover(self: Chain, state: ChainState, given: Takeover, raw: bytes, offset: int) -> Accepted | Skip:
        if given.epoch == state.epoch:
            state = state.replace(epoch=state.epoch - 1)
        return real(self, state, given, raw, offset)

    patch.setattr(Chain, "_takeover", takeover)


def a_second_genesis_is_taken(patch: Patch) -> None:
    real = Chain._genesis

    def genesis(self: Chain, given: object, raw: bytes, offset: int) -> Accepted | Skip:
        self.state = None
        return real(self, given, raw, offset)  # type: ignore[arg-type]

    patch.setattr(Chain, "_genesis", genesis)


def a_look_up_seeks_without_the_chain(patch: Patch) -> None:
    real = Instance._load

    def load(self: Instance) -> None:
        real(self)
        heads = []
        for offset, raw in enumerate(self.world.log):
            if raw in self.world.source_of:
                heads.append((offset, raw, chain_module.decode_head(raw)))
        if heads and self.told:
            offset, raw, head = self.world.choices.pick(heads)
            assert isinstance(head, OutcomeHead)
            position = LogPosition(fencing_world.LOG_ID, head.seq, head.epoch, hash_record(raw), offset)
            self.chain, self.told = Chain.after(position), head.told
            self._next_source = self.world.source_of[raw] + 1

    patch.setattr(Instance, "_load", load)


def a_checkpoint_beyond_what_is_told(patch: Patch) -> None:
    real = Instance._load

    def load(self: Instance) -> None:
        real(self)
        if self.world.accepted:
            head, digest, raw, offset = self.world.accepted[-1]
            self.chain = Chain.after(LogPosition(fencing_world.LOG_ID, head.seq, head.epoch, digest, offset))
            self.told, self._next_source = head.seq, self.world.source_of[raw] + 1

    patch.setattr(Instance, "_load", load)


def told_is_what_was_decided(patch: Patch) -> None:
    real = World.outcome

    def outcome(self: World, seq: int, source: int, *, told: int, **more: object) -> bytes:
        return real(self, seq, source, told=seq - 1, **more)  # type: ignore[arg-type]

    patch.setattr(World, "outcome", outcome)


def told_before_it_is_acknowledged(patch: Patch) -> None:
    real = Telling.begin
    patch.setattr(Telling, "begin", lambda self, seq, messages: real(self, seq, 0))
    patch.setattr(Telling, "acknowledged", lambda self, untold: None)


def what_a_predecessor_did_not_tell_is_left(patch: Patch) -> None:
    real = Instance._serve

    def serve(self: Instance, next_offset: int) -> None:
        assert self.chain.state is not None
        self.told = self.chain.state.seq
        real(self, next_offset)

    patch.setattr(Instance, "_serve", serve)


def a_heartbeat_of_a_fenced_one_is_heeded(patch: Patch) -> None:
    real = Heard.silent_s

    def silent_s(self: Heard, state: ChainState, now_s: float) -> float:
        last = max(self._heard.items(), key=lambda each: each[1].last_s, default=None)
        if last is not None:
            _, epoch, instance = last[0]
            state = state.replace(epoch=epoch, instance=instance)
        return real(self, state, now_s)

    patch.setattr(Heard, "silent_s", silent_s)


BUGS = [
    no_offset_check,
    an_error_is_no_doubt,
    a_success_without_an_offset_is_proof,
    only_the_last_offset_is_looked_at,
    offsets_below_are_fine,
    a_gap_is_not_read,
    told_before_the_acknowledgement,
    own_records_in_the_log_are_taken_as_accepted,
    a_fenced_one_goes_on,
    the_takeover_is_not_read_back,
    the_epoch_is_not_raised_after_doubt,
    what_is_sent_again_is_taken_as_new,
    what_follows_a_lost_one_is_taken,
    a_zombie_is_taken,
    a_takeover_of_epoch_plus_2_is_taken,
    a_takeover_of_the_same_epoch_is_taken,
    a_second_genesis_is_taken,
    a_look_up_seeks_without_the_chain,
    a_checkpoint_beyond_what_is_told,
    told_is_what_was_decided,
    told_before_it_is_acknowledged,
    what_a_predecessor_did_not_tell_is_left,
    a_heartbeat_of_a_fenced_one_is_heeded,
]


@pytest.mark.interpreted("compiled code calls functions directly: a mistake cannot be put in their place")
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.__name__)
def test_planted_bug_then_a_schedule_finds_it(bug: Callable[[Patch], None], monkeypatch: Patch) -> None:
    bug(monkeypatch)
    found = fencing.first_broken(0, SCHEDULES_TO_FIND)
    assert found is not None, "no schedule has found it"
