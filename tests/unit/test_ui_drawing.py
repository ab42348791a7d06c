"""A refusal drawn: every place is on the picture, in the order of the snapshots, however many lie between."""

from __future__ import annotations

from pathlib import Path

import pytest
from looked_at import flights

from commitlog.catalog.history import HistoryFilter
from commitlog.domain import model as m
from commitlog.errors import ProposalRejectedError
from commitlog.testing import InMemoryCommitLog
from commitlog.ui.drawing.refusals import NARROW, WIDE, RefusalDrawing, Shape, draw_refusal


def drawn(
    lake: Path, between: int, *, writer: str = "late", rebase_passes: bool | None = True, shape: Shape = WIDE
) -> RefusalDrawing:
    """A delete that was refused for the last of so many commits after its base."""
    with InMemoryCommitLog(data_path=lake) as log:
        log.append("main.flights", flights(1), create=True)
        first = log.table("main.flights").files()[0].data_file_id
        late = log.transaction(writer_id=writer)
        late.delete("main.flights", positions={first: [0]})
        for number in range(between - 1):
            with log.transaction() as tx:
                tx.create_schema(f"s{number}")
        with log.transaction(writer_id="quick") as tx:
            tx.delete("main.flights", positions={first: [1]})
        with pytest.raises(ProposalRejectedError):
            late.commit()
        others = log.contents().history(HistoryFilter(writer_id="quick"))
        found = draw_refusal(log.outcomes[-1], others, rebase_passes=rebase_passes, shape=shape)
    assert found is not None
    return found


@pytest.mark.parametrize("shape", [WIDE, NARROW], ids=["wide", "narrow"])
@pytest.mark.parametrize("between", [1, 2, 8, 9, 10, 200])
def test_refusal_when_drawn_then_every_place_is_on_the_picture(tmp_path: Path, between: int, shape: Shape) -> None:
    drawing = drawn(tmp_path, between, shape=shape)
    xs = [each.x for each in drawing.stops]
    assert xs == sorted(set(xs))
    ids = [each.snapshot_id for each in drawing.stops]
    assert (ids[0], ids[-1]) == (1, 1 + between)
    assert [each.snapshot_id for each in drawing.stops if each.is_met] == [1 + between]
    bars = [drawing.proposed, *drawing.others, *([drawing.again] if drawing.again else [])]
    assert all(0 < each.x < each.end <= shape.width for each in bars)
    assert all(each.y + 11 < drawing.height for each in bars)
    assert drawing.line_end + 70 <= shape.width


def test_refusal_when_many_snapshots_lie_between_then_they_are_a_gap(tmp_path: Path) -> None:
    assert drawn(tmp_path / "few", 5).gaps == ()
    drawing = drawn(tmp_path / "many", 200)
    assert [each.snapshot_id for each in drawing.stops] == [1, 200, 201]
    assert len(drawing.gaps) == 1
    assert drawing.stops[0].x < drawing.gaps[0] < drawing.stops[1].x


def test_refusal_when_drawn_then_the_two_bars_meet_where_the_other_was_committed(tmp_path: Path) -> None:
    drawing = drawn(tmp_path, 2)
    (other,) = drawing.others
    assert drawing.proposed.x < other.x
    assert other.meets_x == other.end == drawing.stops[-1].x
    assert other.end < drawing.proposed.end
    assert drawing.description == (
        "Writer late read snapshot 1 and was refused at snapshot 3. In between writer quick committed snapshot 3: "
        "table deleted from · main.flights · file 0."
    )


def test_refusal_when_a_writer_has_a_long_name_then_what_it_did_has_room(tmp_path: Path) -> None:
    drawing = drawn(tmp_path, 2, writer="nightly-report-of-all-airports")
    assert drawing.proposed.title == "nightly-report-of-all-airpo… read snapshot 1"
    assert "nightly-report-of-all-airports" in drawing.description


def test_refusal_when_a_rebase_would_not_have_passed_then_no_way_out_is_drawn(tmp_path: Path) -> None:
    assert drawn(tmp_path / "yes", 2).again is not None
    assert drawn(tmp_path / "no", 2, rebase_passes=False).again is None
    assert drawn(tmp_path / "perhaps", 2, rebase_passes=None).again is None


def test_refusal_when_it_was_for_no_conflict_then_there_is_nothing_to_draw(tmp_path: Path) -> None:
    with InMemoryCommitLog(data_path=tmp_path) as log:
        with pytest.raises(ProposalRejectedError), log.transaction() as tx:
            tx.drop_schema("nothing")
        assert log.outcomes[-1].reason is m.Reason.INVALID
        assert draw_refusal(log.outcomes[-1], [], rebase_passes=None) is None
