"""Files that SQL leaves out for a filter are those that the core's reading of statistics rules out, and no others."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lakes import Lake, change

from commitlog.catalog.queries import Catalog
from commitlog.domain.deciding.proofs import excludes
from commitlog.domain.model import Append, DataFile, FilterOp, Predicate

VALUES: dict[str, list[Any]] = {
    "i": [-3, 0, 1, 2, 5, 10, 11],
    "f": [-1.5, 0.0, 2, 2.5, 1e300],
    "s": ["", "A", "a", "ab", "b", "Ünder", "longer than eight", "longer than eight bytes"],
    "d": ["2023-12-31", "2024-01-01", "2024-02-29", "2024-03-01"],
    "n": ["-1.50", "0.00", "2.25", "9.99", "10.00"],
    "b": [False, True],
    "t": ["2024-01-01 00:00:00", "2024-01-01 00:00:00.5", "2024-01-01 12:00:00"],
    "p": ["", "x", "y", "z"],
}
TYPES = ("int64", "float64", "varchar", "date", "decimal(9,2)", "boolean", "timestamp", "varchar")
COLUMNS = [{"name": name, "type": kind} for name, kind in zip(VALUES, TYPES, strict=True)]


def some_file(rng: random.Random, number: int) -> dict[str, Any]:
    statistics = []
    for column, values in VALUES.items():
        low, high = sorted((rng.randrange(len(values)), rng.randrange(len(values))))
        nulls = rng.choice([0, 0, 3, 10, None])
        statistics.append(
            {
                "column": column,
                "min": rng.choice([values[low], values[low], None]) if nulls != 10 else None,
                "max": rng.choice([values[high], values[high], None]) if nulls != 10 else None,
                "null_count": nulls,
                "value_count": None if nulls is None else 10 - nulls,
                "contains_nan": rng.choice([False, None, True]) if column == "f" else None,
            }
        )
    partition = rng.choice([None, [None], ["x"], ["y"]])
    return {
        "path": f"f{number}.parquet",
        "record_count": 10,
        "file_size_bytes": 100,
        "statistics": [each for each in statistics if rng.random() < 0.8],
        "partition_values": partition,
    }


def some_predicate(rng: random.Random) -> Predicate:
    column, values = rng.choice(list(VALUES.items()))
    literals = [*values, None] if rng.random() < 0.1 else values
    op = rng.choice(list(FilterOp))
    match op:
        case FilterOp.IN:
            return Predicate(column, op, tuple(rng.choice(literals) for _ in range(rng.randrange(4))))
        case FilterOp.BETWEEN:
            return Predicate(column, op, tuple(sorted((rng.choice(values), rng.choice(values)))))
        case FilterOp.IS_NULL | FilterOp.IS_NOT_NULL:
            return Predicate(column, op)
    return Predicate(column, op, rng.choice(literals))


@pytest.fixture
def lake(database_url: str, tmp_path: Path) -> Iterator[Lake]:
    lake = Lake(database_url, tmp_path)
    yield lake
    lake.conn.close()


def test_files_when_filtered_in_sql_then_as_the_core_reads_their_statistics(lake: Lake) -> None:
    rng = random.Random(11)
    partition = [{"column": "p", "transform": "identity"}]
    lake.commit(change("CREATE_TABLE", columns=COLUMNS, partition_by=partition))
    head = lake.commit(change("APPEND", files=[some_file(rng, n) for n in range(60)]))
    decided = lake.log.outcomes[-1].proposal
    assert decided is not None
    append = decided.changes[0]
    assert isinstance(append, Append)
    files: dict[str, DataFile] = {file.path: file for file in append.files}
    definition = lake.log.state.tables[1].definition
    catalog = Catalog(lake.database_url)
    table = catalog.table_at("main", "t", head)
    assert table is not None
    left_out = 0
    for _ in range(400):
        where = tuple(some_predicate(rng) for _ in range(rng.choice([1, 1, 2])))
        found = {Path(each.path).name for each in catalog.files_at(table, head, where=where)}
        expected = {name for name, file in files.items() if not excludes(definition, file, where, None)}
        assert found == expected, where
        left_out += len(files) - len(found)
    assert left_out > 2_000
    catalog.close()
