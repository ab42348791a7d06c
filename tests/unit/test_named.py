"""Which tables and views a change names."""

from __future__ import annotations

import pytest

from commitlog.domain import model as m
from commitlog.domain.model.named import named_by


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (m.DropTable(schema="main", table="t"), {("main", "t")}),
        (m.RenameTable(schema="main", table="t", new_table="u"), {("main", "t"), ("main", "u")}),
        (m.DropView(schema="main", view="v"), {("main", "v")}),
        (m.CreateView(schema="main", view="v", sql="SELECT 1"), {("main", "v")}),
        (m.DropSchema(schema="main"), set()),
        (m.ExpireSnapshots(older_than_snapshot_id=3), set()),
    ],
)
def test_named_by_when_a_change_is_given_then_what_it_names(change: m.Change, named: set[tuple[str, str]]) -> None:
    assert set(named_by(change)) == named
