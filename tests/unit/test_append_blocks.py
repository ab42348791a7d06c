"""Blocks of appended files find the file that a look at each of them finds."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from commitlog.domain import model as m
from commitlog.domain.deciding import append_blocks, proofs
from commitlog.domain.deciding.append_blocks import newest_match
from commitlog.domain.deciding.proofs import excludes, readings
from commitlog.domain.model import ColumnStatistics, DataFile, FilterOp, Predicate
from commitlog.domain.model.defining import define
from commitlog.domain.model.definitions import PartitionKey
from commitlog.domain.state.files import AppendedFile
from commitlog.domain.state.index import SchemaState, TableState

SIZES = (8, 4, 2)
FILES = 40
VALUES: dict[str, Sequence[Any]] = {
    "int64": (-1, 0, 1, 2, 2**60, 2**60 + 1),
    "float64": (float("-inf"), -0.0, 0.5, 2, float("inf"), float("nan")),
    "float32": (-1e300, -0.1, 0.1, 0.10000000149011612, 0.5, 1e39),
    "varchar": ("", "a", "a\0", "abcdefg", "abcdefgh", "abcdefgh\0", "abcdefghi", "abcdefgh\U0010ffff\U0010ffff", "abcdefgi"),
    "decimal(9,2)": (-1, 0, "0.50", 0.5, "2", float("nan")),
    "boolean": (False, True),
    "date": ("2024-01-01", "2024-01-02", "2024-02-01"),
}  # fmt: skip
OF_ANOTHER_TYPE = ("text", 1.5, True, None, 7)
WITH_ONE_VALUE = (FilterOp.EQ, FilterOp.LT, FilterOp.LE, FilterOp.GT, FilterOp.GE)


class _Made:
    """A table with two columns, its files and what is asked of it, all from one seed."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.kinds = dict(zip("ab", self.random.sample(list(VALUES), 2), strict=True))
        self.pools = {column: self._pool(kind) for column, kind in self.kinds.items()}
        columns = tuple(m.ColumnSpec(column, kind) for column, kind in self.kinds.items())
        definition = define(m.CreateTable("main", "t", columns), table_id=1, schema_id=0, partition_id=None)
        keys = tuple(
            PartitionKey(each.column_id, self.random.choice(("identity", "bucket(4)"))) for each in definition.columns
        )
        if self.random.random() < 0.5:
            definition = definition.replace(partition_by=keys)
        self.table = TableState(definition, SchemaState(0, "main", 0), 1)
        self.snapshot_id = 0

    def _pool(self, kind: str) -> Sequence[Any]:
        """Few of a kind's values for the files, so that there is something to be excluded."""
        return self.random.sample(VALUES[kind], self.random.randint(1, len(VALUES[kind])))

    def _value(self, values: Sequence[Any]) -> Any:
        return self.random.choice(OF_ANOTHER_TYPE if self.random.random() < 0.02 else values)

    def append(self) -> None:
        self.snapshot_id += self.random.random() < 0.7
        statistics = tuple(self._statistics(column) for column in self.kinds if self.random.random() < 0.97)
        values = tuple(self._value((*pool, None)) for pool in self.pools.values())
        file = DataFile(
            "f",
            self.random.choice((10, 10, 10, 0)),
            1,
            statistics=statistics,
            partition_values=None if self.random.random() < 0.02 else values,
        )
        self.table.appended.files.append(AppendedFile(self.snapshot_id, 0, file))

    def _statistics(self, column: str) -> ColumnStatistics:
        low, high = self._value(self.pools[column]), self._value(self.pools[column])
        if self.random.random() < 0.5:
            high = low
        null_count, value_count = self.random.choice(((0, 10), (0, None), (1, 9), (10, 0), (None, None)))
        return ColumnStatistics(
            column, low, high, null_count, value_count, contains_nan=self.random.choice((False, False, True, None))
        )

    def conjunction(self) -> tuple[Predicate, ...]:
        return tuple(self._predicate() for _ in range(self.random.choice((1, 1, 1, 2, 0))))

    def _predicate(self) -> Predicate:
        column, op = self.random.choice(list(self.kinds)), self.random.choice(list(FilterOp))
        values = [self._value(VALUES[self.kinds[column]]) for _ in range(self.random.randint(0, 3))]
        if op in WITH_ONE_VALUE:
            return Predicate(column, op, self._value(VALUES[self.kinds[column]]))
        if op is FilterOp.BETWEEN:
            return Predicate(column, op, tuple(self._value(VALUES[self.kinds[column]]) for _ in range(2)))
        return Predicate(column, op, tuple(values)) if op is FilterOp.IN else Predicate(column, op)


def _one_by_one(table: TableState, conjunction: tuple[Predicate, ...], base: int) -> AppendedFile | None:
    for appended in reversed(table.appended.files):
        if appended.snapshot_id <= base:
            return None
        if not excludes(table.definition, appended.file, conjunction, None):
            return appended
    return None


@pytest.mark.parametrize("seed", range(60))
def test_blocks_when_files_come_and_go_then_they_find_what_a_look_at_each_file_finds(seed: int) -> None:
    made = _Made(seed)
    for _ in range(6):
        for _ in range(made.random.randint(0, FILES)):
            made.append()
        made.table.appended.forget_through(made.snapshot_id - FILES // 2)
        for _ in range(8):
            conjunction, base = made.conjunction(), made.snapshot_id - made.random.randint(0, FILES)
            found = newest_match(made.table, conjunction, base, None, SIZES)
            assert found is _one_by_one(made.table, conjunction, base), (conjunction, base)


def _table_of(files: Sequence[DataFile]) -> TableState:
    columns = (m.ColumnSpec("id", "int64"), m.ColumnSpec("name", "varchar"))
    definition = define(m.CreateTable("main", "t", columns), table_id=1, schema_id=0, partition_id=None)
    table = TableState(definition, SchemaState(0, "main", 0), 1)
    table.appended.files.extend(AppendedFile(number + 1, number, file) for number, file in enumerate(files))
    return table


def _file(low: int, high: int, name: str = "x") -> DataFile:
    return DataFile("f", 10, 1, statistics=(ColumnStatistics("id", low, high), ColumnStatistics("name", name, name)))


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[DataFile]:
    """The files that were looked at one by one."""
    looked: list[DataFile] = []

    def excludes_and_tells(table: Any, file: DataFile, *rest: Any) -> bool:
        looked.append(file)
        return excludes(table, file, *rest)

    monkeypatch.setattr(append_blocks, "excludes", excludes_and_tells)
    return looked


@pytest.mark.interpreted("what it looks at is counted")
@pytest.mark.parametrize(
    ("predicate", "found"),
    [
        (Predicate("id", FilterOp.LT, 0), None),
        (Predicate("id", FilterOp.EQ, 1_005), None),
        (Predicate("id", FilterOp.EQ, 50), 5),
        (Predicate("name", FilterOp.IN, ("w", "y")), None),
    ],
)
def test_ten_thousand_files_then_few_are_looked_at(
    looks: list[DataFile], predicate: Predicate, found: int | None
) -> None:
    # In no order, and with a gap before each number that is divided by ten.
    table = _table_of(
        [_file(number * 7_919 % 10_000 * 10, number * 7_919 % 10_000 * 10 + 4) for number in range(10_000)]
    )
    appended = newest_match(table, (predicate,), 0, None)
    assert (None if appended is None else appended.file.statistics[0].min) == (None if found is None else found * 10)  # type: ignore[union-attr]
    assert len(looks) <= 16 + 1


@pytest.mark.interpreted("what it looks at is counted")
def test_a_list_of_values_below_files_whose_end_is_not_known_then_none_is_looked_at(looks: list[DataFile]) -> None:
    # What has no NaN for sure is not told.
    columns = (m.ColumnSpec("x", "float64"),)
    table = _table_of(
        [DataFile("f", 10, 1, statistics=(ColumnStatistics("x", low, low),)) for low in range(100, 1_124)]
    )
    table.definition = define(m.CreateTable("main", "t", columns), table_id=1, schema_id=0, partition_id=None)
    assert newest_match(table, (Predicate("x", FilterOp.IN, (1, 2, 3)),), 0, None) is None
    assert looks == []


@pytest.mark.interpreted("what it looks at is counted")
def test_a_list_of_many_values_then_each_is_read_once_however_many_files_are_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read = 0

    def counted(*args: Any) -> Any:
        nonlocal read
        read += 1
        return readings(*args)

    monkeypatch.setattr(proofs, "readings", counted)
    table = _table_of([_file(number * 10, number * 10 + 4) for number in range(100)])
    asked = tuple(number * 10 + 7 for number in range(1_000, -1, -1))
    assert newest_match(table, (Predicate("id", FilterOp.IN, asked),), 0, None) is None
    assert newest_match(table, (Predicate("id", FilterOp.IN, (*asked, 503)),), 0, None) is table.appended.files[50]
    assert read == 2 * len(asked) + 1


def test_a_search_after_the_definition_or_the_reader_of_statistics_changed_then_what_was_kept_is_not_believed() -> None:
    opaque = DataFile("f", 10, 1, statistics=b"opaque")
    table, asked = _table_of([opaque] * 64), (Predicate("id", FilterOp.EQ, 5),)

    def told(low: int) -> Any:
        return lambda data: (ColumnStatistics("id", low, low),)

    assert newest_match(table, asked, 0, told(6)) is None
    assert newest_match(table, asked, 0, told(5)) is table.appended.files[-1]
    reader = told(6)
    assert newest_match(table, asked, 0, reader) is None
    text = define(
        m.CreateTable("main", "t", (m.ColumnSpec("id", "varchar"),)), table_id=1, schema_id=0, partition_id=None
    )
    table.definition, table.definition_changed_at = text, 65
    assert newest_match(table, asked, 0, reader) is table.appended.files[-1]


def test_blocks_that_the_window_has_passed_are_forgotten() -> None:
    table = _table_of([_file(number, number) for number in range(64)])
    asked = (Predicate("id", FilterOp.LT, 0),)
    newest_match(table, asked, 0, None, SIZES)
    table.appended.forget_through(40)
    newest_match(table, asked, 0, None, SIZES)
    blocks = table.appended.kept
    assert isinstance(blocks, append_blocks._Blocks)
    assert {size: min(told) for size, told in zip(SIZES, blocks._told[1], strict=True)} == {8: 5, 4: 10, 2: 20}
