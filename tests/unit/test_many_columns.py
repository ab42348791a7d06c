"""Wide tables: what is looked at for a table grows as its columns do, not as their square."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from commitlog.client.files import file_columns, file_sources
from commitlog.client.tables import arrow_columns
from commitlog.client.writing import fitting
from commitlog.domain.model.types import fold
from commitlog.testing import InMemoryCommitLog

FEW, MANY = 25, 200


def flat(width: int) -> dict[str, Any]:
    return {f"c{at}": at for at in range(width)}


def nested(width: int) -> dict[str, Any]:
    return {"s": flat(width)}


@pytest.mark.parametrize("row", [flat, nested])
def test_rows_when_columns_are_many_then_each_is_looked_at_as_often_as_of_few(
    row: Callable[[int], dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = [0]

    def counted(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def look(what: Any) -> Any:
            looks[0] += 1
            return function(what)

        return look

    for module in (arrow_columns, file_columns, file_sources):
        for name in ("fold", "field_id"):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, counted(getattr(module, name)))

    def looked_at(width: int) -> int:
        """How many looks writing a table, by rows and by a file that has no ids, and reading it take."""
        log = InMemoryCommitLog(data_path=tmp_path / f"{width}")
        given, expected = tmp_path / f"{width}.parquet", [row(width)] * 2
        pq.write_table(pa.Table.from_pylist(expected[:1]), given)
        before = looks[0]
        table = log.table("main.t")
        table.append(expected[:1], create=True)
        table.append(files=[given])
        assert table.scan().to_arrow().to_pylist() == expected
        assert table.changes(0).to_arrow().num_rows == 2
        return looks[0] - before

    few = looked_at(FEW)
    assert looked_at(MANY) <= few * MANY // FEW


@pytest.mark.interpreted("compiled code calls functions directly: another one cannot be put in their place")
@pytest.mark.parametrize("row", [flat, nested])
def test_rows_when_columns_are_many_then_their_names_are_not_compared_one_by_one(
    row: Callable[[int], dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared = [0]

    class Name(str):
        __slots__ = ()

        def __eq__(self, other: object) -> bool:
            compared[0] += 1
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    monkeypatch.setattr(fitting, "fold", lambda name: Name(fold(name)))

    def comparisons(width: int) -> int:
        log, before = InMemoryCommitLog(data_path=tmp_path / f"{width}"), compared[0]
        log.append("main.t", [row(width)], create=True)
        return compared[0] - before

    few = comparisons(FEW)
    assert few
    assert comparisons(MANY) <= few * MANY // FEW
