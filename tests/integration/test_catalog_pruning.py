"""Files that SQL leaves out for a filter are those that the core's reading of statistics rules out, and no others.

But for float32 that the stock client writes with an exponent: the catalog tells no such bounds.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from lakes import Lake, change

from commitlog.catalog import pruning
from commitlog.catalog.queries import Catalog
from commitlog.domain.deciding.proofs import Readings, excludes, readings_together
from commitlog.domain.model import Append, DataFile, FilterOp, Predicate, Scalar
from commitlog.domain.model.types import ColumnType

VALUES: dict[str, list[Any]] = {
    "i": [-3, 0, 1, 2, 5, 10, 11],
    "f": [-1.5, 0.0, 2, 2.5, 1e300],
    "r": [-0.1, 0.1, 0.10000000149011612, 2, 2.5, 1e15],
    "s": ["", "A", "a", "ab", "b", "Ünder", "longer than eight", "longer than eight bytes"],
    "d": ["2023-12-31", "2024-01-01", "2024-02-29", "2024-03-01"],
    "n": ["-1.50", "0.00", "2.25", "9.99", "10.00"],
    "b": [False, True],
    "t": ["2024-01-01 00:00:00", "2024-01-01 00:00:00.5", "2024-01-01 12:00:00"],
    "z": ["2024-01-01 00:00:00+00", "2024-01-01 00:00:00.25+00", "2024-01-01 00:00:00.5+00", "2024-01-01 12:00:00+00"],
    "p": ["", "x", "y", "z"],
}
TYPES = [
    *("int64", "float64", "float32", "varchar", "date"),
    *("decimal(9,2)", "boolean", "timestamp", "timestamptz", "varchar"),
]
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
                "contains_nan": rng.choice([False, None, True]) if column in "fr" else None,
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


def test_files_when_a_list_is_longer_than_is_asked_for_one_by_one_then_none_that_may_match_is_left_out(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(12)
    partition = [{"column": "p", "transform": "identity"}]
    lake.commit(change("CREATE_TABLE", columns=COLUMNS, partition_by=partition))
    head = lake.commit(change("APPEND", files=[some_file(rng, n) for n in range(60)]))
    files = {each.file.path: each.file for each in lake.log.state.tables[1].appended.files}
    definition = lake.log.state.tables[1].definition
    catalog = Catalog(lake.database_url)
    table = catalog.table_at("main", "t", head)
    assert table is not None

    def left_out(where: Predicate) -> set[str]:
        return files.keys() - {Path(each.path).name for each in catalog.files_at(table, head, where=[where])}

    several = 0
    for _ in range(300):
        column, values = rng.choice(list(VALUES.items()))
        literals = [*values, None] if rng.random() < 0.05 else values
        where = Predicate(column, FilterOp.IN, tuple(rng.choice(literals) for _ in range(rng.randrange(1, 6))))
        expected = {name for name, file in files.items() if excludes(definition, file, (where,), None)}
        with monkeypatch.context() as patched:
            patched.setattr(pruning, "_RUNS_MAX", 2)
            found = left_out(where)
        assert found <= expected, where
        several += len(found)
    assert several > 1_000
    # More than PostgreSQL takes parameters.
    between = tuple(each for each in range(-40_000, 40_000) if each not in VALUES["i"])
    beyond = tuple(range(100, 80_000))
    assert left_out(Predicate("i", FilterOp.IN, between)) <= left_out(Predicate("i", FilterOp.IN, beyond)) != set()
    catalog.close()


def test_files_when_values_of_a_long_list_may_be_read_in_two_ways_then_none_that_may_match_is_left_out(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.commit(change("CREATE_TABLE", columns=[{"name": "i", "type": "int64"}, {"name": "t", "type": "timestamp"}]))
    statistics = [
        {"column": "i", "min": 2**53 + 1, "max": 2**53 + 1, "null_count": 0},
        {"column": "t", "min": "2024-01-01 00:00:00", "max": "2024-01-01 00:00:00", "null_count": 0},
    ]
    file = {"path": "f.parquet", "record_count": 1, "file_size_bytes": 100, "statistics": statistics}
    head = lake.commit(change("APPEND", files=[file]))
    monkeypatch.setattr(pruning, "_RUNS_MAX", 1)
    with closing(Catalog(lake.database_url)) as catalog:
        table = catalog.table_at("main", "t", head)
        assert table is not None
        for column, literals, count in [
            # As floats the first is what the file holds; its readings begin below the other's, and end above them.
            ("i", (float(2**53), float(2**53 - 1)), 1),
            ("i", (float(2**53 - 8), float(2**53 - 1)), 0),
            # The last microsecond that there is; rounded up it is none.
            ("t", ("2024-01-01 00:00:00", "9999-12-31 23:59:59.9999999"), 1),
        ]:
            where = Predicate(column, FilterOp.IN, literals)
            assert len(list(catalog.files_at(table, head, where=[where]))) == count, literals


def test_files_when_a_moment_is_asked_for_then_its_zone_counts_and_without_one_nothing_is_proved(lake: Lake) -> None:
    lake.commit(change("CREATE_TABLE", columns=[{"name": "z", "type": "timestamptz"}]))
    bounds = ["2024-01-01 00:00:00+00", "2024-01-01 02:00:00+02", "2024-01-02 00:00:00+00"]
    files = [
        {
            "path": f"f{number}.parquet",
            "record_count": 1,
            "file_size_bytes": 100,
            "statistics": [{"column": "z", "min": bound, "max": bound, "null_count": 0, "value_count": 1}],
        }
        for number, bound in enumerate(bounds)
    ]
    head = lake.commit(change("APPEND", files=files))
    catalog = Catalog(lake.database_url)
    table = catalog.table_at("main", "t", head)
    assert table is not None
    assert [row[0] for row in lake.conn.execute("SELECT min_value FROM ducklake_file_column_stats ORDER BY data_file_id")] == [
        "2024-01-01 00:00:00+00", "2024-01-01 00:00:00+00", "2024-01-02 00:00:00+00",
    ]  # fmt: skip

    def kept(op: FilterOp, moment: str) -> str:
        found = catalog.files_at(table, head, where=[Predicate("z", op, moment)])
        return "".join(str(number) for number, each in enumerate(bounds) if any(f"f{number}." in f.path for f in found))

    assert kept(FilterOp.GE, "2024-01-02T01:00:00+02:00") == "2"
    assert kept(FilterOp.LT, "2024-01-01 00:00:00Z") == ""
    assert kept(FilterOp.EQ, "2024-01-01 01:00:00+0100") == "01"
    assert kept(FilterOp.GE, "2024-01-03 00:00:00") == kept(FilterOp.GE, "2024-01-03") == "012"
    # What another client in its own zone had stored in a lake that was taken over.
    lake.conn.execute(
        "UPDATE ducklake_file_column_stats SET min_value = '2024-01-01 02:00:00+02', max_value = '2024-01-01 02:00:00+02'"
        " WHERE data_file_id = (SELECT max(data_file_id) FROM ducklake_file_column_stats)"
    )
    lake.conn.commit()
    assert kept(FilterOp.LT, "2024-01-01 00:00:00Z") == "2"
    catalog.close()


def test_files_when_readers_may_round_a_literal_then_files_with_what_it_may_be_stay(lake: Lake) -> None:
    types = {"i": "int64", "t": "timestamp_s", "n": "decimal(9,2)"}
    lake.commit(change("CREATE_TABLE", columns=[{"name": name, "type": kind} for name, kind in types.items()]))
    statistics = [
        {"column": "i", "min": 2**53 + 1, "max": 2**53 + 1, "null_count": 0},
        {"column": "t", "min": "2024-01-01 00:00:01", "max": "2024-01-01 00:00:01", "null_count": 0},
        {"column": "n", "min": "1.10", "max": "1.10", "null_count": 0},
    ]
    file = {"path": "f.parquet", "record_count": 1, "file_size_bytes": 100, "statistics": statistics}
    head = lake.commit(change("APPEND", files=[file]))
    with closing(Catalog(lake.database_url)) as catalog:
        table = catalog.table_at("main", "t", head)
        assert table is not None
        for op, column, literal, count in [
            (FilterOp.EQ, "i", float(2**53), 1),
            (FilterOp.EQ, "i", 2**53, 0),
            (FilterOp.EQ, "t", "2024-01-01 00:00:00.5", 1),
            (FilterOp.GT, "t", "2024-01-01 00:00:01.5", 0),
            (FilterOp.GT, "t", "9999-12-31 23:59:59.5", 0),
            (FilterOp.LE, "t", "9999-12-31 23:59:59.5", 1),
            (FilterOp.EQ, "n", "1.104", 1),
            (FilterOp.LT, "n", "1.104", 1),
            (FilterOp.GT, "n", "1.104", 0),
            (FilterOp.EQ, "n", "1.116", 0),
            (FilterOp.GT, "n", "12345678901", 0),
        ]:
            assert len(list(catalog.files_at(table, head, where=(Predicate(column, op, literal),)))) == count, literal


def test_files_when_one_value_of_several_is_a_float_then_each_may_be_read_as_one(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    types = {"i": "int64", "n": "decimal(20,1)"}
    lake.commit(change("CREATE_TABLE", columns=[{"name": name, "type": kind} for name, kind in types.items()]))
    statistics = [
        {"column": "i", "min": 2**53, "max": 2**53, "null_count": 0},
        {"column": "n", "min": f"{2**53}.0", "max": f"{2**53}.0", "null_count": 0},
    ]
    file = {"path": "f.parquet", "record_count": 1, "file_size_bytes": 100, "statistics": statistics}
    head = lake.commit(change("APPEND", files=[file]))
    kept = lake.log.state.tables[1]
    with closing(Catalog(lake.database_url)) as catalog:
        table = catalog.table_at("main", "t", head)
        assert table is not None
        for op, column, literals, count in [
            (FilterOp.IN, "i", (2**53 + 1, 0.5), 1),
            (FilterOp.IN, "i", (2**53 + 1, 5), 0),
            (FilterOp.IN, "i", (2**53 + 8, 0.5), 0),
            (FilterOp.BETWEEN, "i", (2**53 + 1, 1e18), 1),
            (FilterOp.BETWEEN, "i", (0.5, 2**53 - 1), 0),
            (FilterOp.IN, "n", (f"{2**53 + 1}.0", 0.5), 1),
            (FilterOp.IN, "n", (f"{2**53 + 1}.0", "0.5"), 0),
        ]:
            where = Predicate(column, op, literals)
            assert len(list(catalog.files_at(table, head, where=[where]))) == count, where
            assert excludes(kept.definition, kept.appended.files[0].file, (where,), None) == (count == 0), where
        # A number that is given as text, and a run of several.
        as_text = Predicate("i", FilterOp.IN, (str(2**53 + 1), 0.5))
        assert len(list(catalog.files_at(table, head, where=[as_text]))) == 1
        monkeypatch.setattr(pruning, "_RUNS_MAX", 1)
        where = Predicate("i", FilterOp.IN, (2**53 + 1, 2.0**60))
        assert len(list(catalog.files_at(table, head, where=[where]))) == 1


def test_files_when_a_partition_value_is_given_in_another_form_then_the_catalog_has_the_one_that_is_compared(
    lake: Lake,
) -> None:
    given: list[tuple[str, list[Any], str, Any]] = [
        (
            "timestamp",
            ["2024-01-01T10:00:00", "2024-01-01 10:00", "2024-01-01 10:00:00.000"],
            "2024-01-01 10:00:00",
            None,
        ),
        ("timestamp_ms", ["2024-01-01", "2024-01-01T00:00:00"], "2024-01-01 00:00:00", None),
        ("timestamp", ["2024-01-01T10:00:00.500"], "2024-01-01 10:00:00.5", None),
        ("timestamptz", ["2024-01-01T10:00:00Z", "2024-01-01 12:00:00+02"], "2024-01-01 10:00:00+00", None),
        ("time", ["10:00", "10:00:00.00"], "10:00:00", None),
        ("timetz", ["10:00+02"], "10:00:00+02:00", None),
        ("uuid", ["{A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11}"], "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", None),
        ("decimal(9,2)", ["1.50", "01.5", "15e-1", 1.5], "1.5", None),
        ("int32", ["007", 7, "7"], "7", 7),
        ("boolean", [True, "true"], "true", True),
        ("varchar", [" 007"], " 007", None),
    ]
    for number, (kind, forms, text, literal) in enumerate(given):
        columns = [{"name": "k", "type": kind}]
        by = [{"column": "k", "transform": "identity"}]
        lake.commit(change("CREATE_TABLE", f"t{number}", columns=columns, partition_by=by))
        files = [
            {"path": f"f{n}.parquet", "record_count": 1, "file_size_bytes": 100, "partition_values": [form]}
            for n, form in enumerate(forms)
        ]
        head = lake.commit(change("APPEND", f"t{number}", files=files))
        with closing(Catalog(lake.database_url)) as catalog:
            table = catalog.table_at("main", f"t{number}", head)
            assert table is not None
            where = Predicate("k", FilterOp.EQ, text if literal is None else literal)
            found = list(catalog.files_at(table, head, where=[where]))
            assert [each.partition_values for each in found] == [(text,)] * len(forms), kind


def test_files_when_partitioned_by_a_float_that_becomes_a_wider_one_then_its_rows_are_found(lake: Lake) -> None:
    partition = [{"column": "f", "transform": "identity"}]
    types = {"f": pa.float32()}
    lake.commit(change("CREATE_TABLE", columns=[{"name": "f", "type": "float32"}], partition_by=partition))
    for value in (0.1, None):
        file = lake.write("t", [{"f": value}], types)
        lake.commit(change("APPEND", files=[{**file, "statistics": [], "partition_values": [value]}]))
    head = lake.commit(change("ALTER_TABLE", alterations=[{"op": "SET_TYPE", "name": "f", "type": "float64"}]))
    with closing(Catalog(lake.database_url)) as catalog:
        table = catalog.table_at("main", "t", head)
        assert table is not None
        nearest = 0.10000000149011612
        assert lake.rows("SELECT f FROM t WHERE f IS NOT NULL") == [(nearest,)]
        for op, literal in ((FilterOp.EQ, nearest), (FilterOp.GT, 0.1), (FilterOp.IN, (nearest,))):
            assert len(list(catalog.files_at(table, head, where=[Predicate("f", op, literal)]))) == 1, op
        for op in (FilterOp.IS_NULL, FilterOp.IS_NOT_NULL):
            assert len(list(catalog.files_at(table, head, where=[Predicate("f", op)]))) == 1, op


@pytest.mark.parametrize(("kind", "values"), [("float64", (10**400,)), ("int64", (0.5, 10**400))])
def test_files_when_a_number_that_no_float_holds_is_asked_for_then_it_proves_nothing(
    lake: Lake, kind: str, values: tuple[Any, ...]
) -> None:
    lake.commit(change("CREATE_TABLE", columns=[{"name": "x", "type": kind}]))
    statistics = [{"column": "x", "min": 1, "max": 2, "null_count": 0, "value_count": 1, "contains_nan": False}]
    head = lake.commit(
        change("APPEND", files=[{**lake.write("t", [{"x": 1}], {"x": pa.float64()}), "statistics": statistics}])
    )
    with closing(Catalog(lake.database_url)) as catalog:
        table = catalog.table_at("main", "t", head)
        assert table is not None
        assert len(list(catalog.files_at(table, head, where=[Predicate("x", FilterOp.IN, values)]))) == 1


def test_files_when_text_with_nul_is_asked_for_then_it_proves_nothing(lake: Lake) -> None:
    lake.commit(change("CREATE_TABLE", columns=[{"name": "s", "type": "varchar"}]))
    statistics = [{"column": "s", "min": "b", "max": "c", "null_count": 0, "value_count": 1}]
    file = {"path": "f.parquet", "record_count": 1, "file_size_bytes": 100, "statistics": statistics}
    head = lake.commit(change("APPEND", files=[file]))
    with closing(Catalog(lake.database_url)) as catalog:
        table = catalog.table_at("main", "t", head)
        assert table is not None
        for literal, count in (("a", 0), ("a\0", 1)):
            where = (Predicate("s", FilterOp.EQ, literal),)
            assert len(list(catalog.files_at(table, head, where=where))) == count


def test_list_when_it_is_long_then_its_values_are_read_and_sorted_once(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.commit(change("CREATE_TABLE", columns=[{"name": "s", "type": "varchar"}]))
    read: list[int] = []

    def counted(data_type: ColumnType, values: Sequence[Scalar]) -> list[Readings | None]:
        read.append(len(values))
        return readings_together(data_type, values)

    monkeypatch.setattr(pruning, "readings_together", counted)
    values = tuple(map(str, range(10_000)))
    pruning.exclusions(lake.log.state.tables[1].definition, [Predicate("s", FilterOp.IN, values)])
    # For statistics and for partitions.
    assert read == [len(values)]
