"""An outcome that is too large for its topic: what goes, in which order, and what stays for those who need it."""

from __future__ import annotations

from deciding import DecidedLog, delete_row, insert, keyed_table

from commitlog.domain import model as m
from commitlog.domain.again.verifying import Verifier, difference
from commitlog.domain.deciding.shortening import shortenings
from commitlog.domain.state.dumping import dump_state, load_state


def raced(*late: dict, on_conflict: str = "LAST_UPDATE_WINS") -> tuple[m.Outcome, list[m.Outcome], Verifier]:
    """The outcome of late changes to rows 1 and 2 (v is UNIQUE), its shorter forms, and what has verified all before it."""
    log = DecidedLog()
    log.commit(keyed_table(unique=[["v"]], on_conflict=on_conflict))
    log.commit(insert(id=1, v="a"), insert(id=2, v="b"))
    verifier = Verifier(log.genesis, decode_statistics=None)
    assert [verifier.check(each) for each in log.outcomes] == [None, None]
    before = load_state(dump_state(log.state))
    outcome = log.propose(*late, base=1)
    return outcome, list(shortenings(before, outcome)), verifier


def test_outcome_when_too_large_then_images_go_but_for_the_key_of_a_row_that_an_insert_met_under_another() -> None:
    outcome, [shorter, _], _ = raced(insert(id=1, v="x", time=9**18), insert(id=3, v="b", time=9**18))
    assert [each.committed_row for each in outcome.resolutions] == [{"id": 1, "v": "a"}, {"id": 2, "v": "b"}]
    assert [each.committed_row for each in shorter.resolutions] == [None, {"id": 2}]
    assert [each.proposed_row for each in shorter.resolutions] == [None, None]
    assert shorter.replace(resolutions=outcome.resolutions) == outcome


def test_outcome_when_too_large_without_images_too_then_half_of_its_conflicts_goes_at_a_time() -> None:
    outcome, shorter, _ = raced(insert(id=1), insert(id=2), on_conflict="ABORT")
    assert [len(each.conflicts) for each in shorter] == [2, 1, 0]
    assert {each.conflict_count for each in shorter} == {outcome.conflict_count}


def test_outcome_when_too_large_by_races_that_were_settled_then_those_stay_of_which_somebody_needs_the_key() -> None:
    outcome, [_, shortest], verifier = raced(
        insert(id=1, v="x", time=9**18), insert(id=3, v="b", time=9**18), on_conflict="LAST_UPDATE_WINS"
    )
    assert [each.committed_row for each in shortest.resolutions] == [{"id": 2}]
    assert shortest.replace(resolutions=outcome.resolutions) == outcome
    assert verifier.check(shortest) is None


def test_outcome_when_it_was_shortened_then_verifying_finds_nothing_but_what_was_changed() -> None:
    outcome, [shorter, _], verifier = raced(insert(id=1, v="x", time=9**18), delete_row(2))
    assert outcome.snapshot_id is not None
    forged = shorter.replace(resolutions=shorter.resolutions[:1])
    assert difference(forged, outcome, [shorter]) == "settles other conflicts than the rules do"
    assert verifier.check(shorter) is None


def test_outcome_when_half_of_its_conflicts_was_kept_then_verifying_finds_nothing_and_none_kept_is_found() -> None:
    _, [_, half, none], verifier = raced(insert(id=1), insert(id=2), on_conflict="ABORT")
    assert verifier.check(half) is None
    _, _, verifier = raced(insert(id=1), insert(id=2), on_conflict="ABORT")
    finding = verifier.check(none)
    assert finding is not None
    assert finding.what == "names other conflicts than the rules do"
