"""One unanswered proposal of a writer at a time, whatever becomes of who waits for that."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from interrupting import Signal, each_interrupted

from commitlog.client.access.unanswered import UnansweredProposals
from commitlog.domain.model import Proposal
from commitlog.domain.model.json_lines import parse_proposal

PROPOSAL = parse_proposal(
    '{"proposal_id": "018f0000-0000-7000-8000-000000000001", "writer_id": "w", "writer_seq": 1, "base_snapshot_id": 0, '
    '"changes": [{"kind": "CREATE_SCHEMA", "schema": "s"}]}'
)
assert isinstance(PROPOSAL, Proposal)


def take_turn(turns: UnansweredProposals, timeout_s: float) -> None:
    with turns.turn(PROPOSAL, timeout_s=timeout_s):
        pass


@pytest.mark.interpreted("Python looks for signals at lines that compiled code does not have")
def test_turn_when_a_signal_ends_it_anywhere_then_the_next_one_of_the_writer_has_its_turn() -> None:
    places, kept = [], []
    turns = UnansweredProposals(lambda _: True)

    def interrupted() -> None:
        try:
            take_turn(turns, 60)
        except Signal as signal:
            kept.append(signal)  # with its traceback, as an interactive shell does
            raise

    with ThreadPoolExecutor(1) as another:
        for place in each_interrupted(interrupted):
            another.submit(take_turn, turns, 5).result(60)
            places.append(place)
    assert len(places) > 5


def test_turn_when_another_one_has_it_then_it_comes_with_its_end() -> None:
    turns = UnansweredProposals(lambda _: True)
    with ThreadPoolExecutor(2) as others:
        with turns.turn(PROPOSAL, timeout_s=60):
            waiting = [others.submit(take_turn, turns, 60) for _ in range(2)]
            assert not any(each.done() for each in waiting)
        assert [each.result(60) for each in waiting] == [None, None]
