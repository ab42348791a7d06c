"""What becomes of the forms in which programs have rows."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from commitlog.client.writing.rows import Rows, rows_of
from commitlog.errors import DataFileError, InvalidRequestError
from commitlog.testing import InMemoryCommitLog

FRAME = pd.DataFrame({"id": [1, 2, 3], "day": ["mon", "mon", "tue"], "n": [7, 8, 9]})


def columns_of(frame: Any) -> dict[str, list[Any]]:
    rows = rows_of(frame)
    assert isinstance(rows, Rows)
    (table,) = rows.pieces
    assert rows.schema == table.schema
    columns: dict[str, list[Any]] = table.to_pydict()
    return columns


def test_rows_when_a_frame_has_a_named_index_then_it_is_columns() -> None:
    assert columns_of(FRAME.set_index("id")) == FRAME.to_dict("list")
    assert columns_of(FRAME.set_index(["day", "id"])) == FRAME.to_dict("list")
    assert columns_of(FRAME.groupby("day").sum())["day"] == ["mon", "tue"]


@pytest.mark.parametrize(
    "frame",
    [FRAME, FRAME[FRAME.id > 1], FRAME.sort_values("n", ascending=False), FRAME.iloc[:0]],
    ids=["whole", "filtered", "sorted", "empty"],
)
def test_rows_when_the_index_only_numbers_them_then_it_is_left_out(frame: Any) -> None:
    assert columns_of(frame) == frame.to_dict("list")


@pytest.mark.parametrize(
    "frame",
    [
        FRAME.set_index("day").rename_axis(None),
        FRAME.set_index(["day", "id"]).rename_axis([None, "id"]),
        FRAME.set_index("day", drop=False),
    ],
    ids=["no name", "a level without one", "the name of a column"],
)
def test_rows_when_the_index_can_be_no_column_then_says_what_to_call(frame: Any) -> None:
    with pytest.raises(InvalidRequestError, match=r"call \.reset_index"):
        rows_of(frame)


def test_append_when_days_come_as_midnights_then_they_are_dates_and_other_times_are_not(tmp_path: Path) -> None:
    log = InMemoryCommitLog(data_path=tmp_path)
    with log.transaction() as tx:
        tx.create_table("t", {"id": "int64", "day": "date"})
    log.append("t", pd.DataFrame({"id": [1, 2], "day": pd.to_datetime(["2026-03-01", None])}))
    assert log.table("t").scan().to_arrow()["day"].to_pylist() == [date(2026, 3, 1), None]
    with pytest.raises(DataFileError, match=r"column day \(date\): a time within a day is no date"):
        log.append("t", pd.DataFrame({"id": [3], "day": pd.to_datetime(["2026-03-01 12:00"])}))
