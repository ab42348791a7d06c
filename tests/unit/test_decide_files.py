"""APPEND, DELETE and COMPACT at the three granularities (rules.md 3, 12.3-7, 12.10, 12.12)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from deciding import (
    DecidedLog,
    alter,
    append,
    change,
    compact,
    create_table,
    data_file,
    delete,
    delete_file,
    delete_whole,
    insert,
    keyed_table,
)

from commitlog.domain.deciding import new_files
from commitlog.domain.model import definitions
from commitlog.domain.model.defining import partition_texts
from commitlog.domain.model.types import fold


@pytest.fixture
def log() -> Iterator[DecidedLog]:
    """Table t with files 0, 1 and 2 of 10 rows, at head 2."""
    log = DecidedLog()
    log.commit(create_table())
    log.commit(append(data_file(), data_file(), data_file()))
    yield log
    log.check_replay()


def at(log: DecidedLog, granularity: str) -> int:
    log.commit(alter("SET_PROPERTY", key="conflict_granularity", value=granularity))
    return log.head


def test_append_beside_append_delete_and_compact_then_commits(log: DecidedLog) -> None:
    log.commit(append())
    log.commit(delete({0: [1]}))
    log.commit(compact([1, 2], 20))
    log.commit(append(), base=2)


def test_delete_when_the_same_file_was_deleted_from_then_conflict_of_another_file_not(log: DecidedLog) -> None:
    log.commit(delete({0: [1]}))
    outcome = log.conflict("TABLE_DELETED_FROM@3", on=delete({0: [2]}), base=2)
    assert outcome.conflicts[0].object.data_file_id == 0
    log.commit(delete({1: [1]}), base=2)
    log.commit(delete({0: [2]}))


def test_delete_at_table_granularity_then_any_delete_or_compaction_conflicts(log: DecidedLog) -> None:
    base = at(log, "TABLE")
    log.commit(delete({0: [1]}))
    outcome = log.conflict("TABLE_DELETED_FROM@4", on=delete({1: [1]}), base=base)
    assert outcome.conflicts[0].object.data_file_id is None
    log.commit(compact([1], 10))
    log.conflict("TABLE_COMPACTED@5", on=delete({2: [1]}), base=4)
    log.conflict("TABLE_DELETED_FROM@4", on=compact([2], 10), base=base)
    log.commit(compact([2], 10), base=4)


def test_delete_at_row_granularity_then_other_rows_commit_and_the_same_conflict(log: DecidedLog) -> None:
    base = at(log, "ROW")
    log.commit(delete({0: [1, 2]}))
    log.commit(delete({0: [3]}), base=base)
    outcome = log.conflict("TABLE_DELETED_FROM@5", on=delete({0: [3, 4]}), base=base)
    assert "(row 3)" in outcome.conflicts[0].detail
    outcome = log.conflict("TABLE_DELETED_FROM@4", on=delete({0: [2, 5]}), base=base)
    assert "(row 2)" in outcome.conflicts[0].detail
    log.refused("INVALID", delete({0: [3]}))
    assert sorted(log.state.deletes[0].inlined) == [1, 2, 3]


@pytest.mark.parametrize("second", [delete_whole(0), delete_file(0, [8]), compact([0], 10)])
def test_at_row_granularity_then_whole_requests_touch_every_row_both_ways(log: DecidedLog, second: dict) -> None:
    base = at(log, "ROW")
    log.commit(delete({0: [1]}))
    log.conflict("TABLE_DELETED_FROM@4", on=second, base=base)
    log.commit(delete_file(1, [5]))
    log.conflict("TABLE_DELETED_FROM@5", on=delete({1: [6]}), base=base)


def test_granularity_is_the_heads_not_the_bases(log: DecidedLog) -> None:
    log.commit(delete({0: [1]}))
    at(log, "ROW")
    log.commit(delete({0: [2]}), base=2)
    at(log, "TABLE")
    log.conflict("TABLE_DELETED_FROM@5", on=delete({1: [2]}), base=2)


def test_whole_file_delete_and_delete_by_positions_conflict_both_ways(log: DecidedLog) -> None:
    log.commit(delete_whole(0))
    log.conflict("TABLE_DELETED_FROM@3", on=delete({0: [1]}), base=2)
    log.refused("INVALID", delete({0: [1]}))
    log.commit(delete({1: [1]}), base=2)
    log.conflict("TABLE_DELETED_FROM@4", on=delete_whole(1), base=2)


def test_delete_when_the_file_was_compacted_then_conflict_naming_it(log: DecidedLog) -> None:
    log.commit(compact([0, 1], 20))
    outcome = log.conflict("TABLE_COMPACTED@3", on=delete({0: [1]}), base=2, writer_id="w9")
    assert outcome.conflicts[0].detail == (
        "delete from table main.t - but snapshot 3 by writer w1 compacted file 0 since base 2"
    )
    log.commit(delete({3: [1]}), base=2)


def test_compact_when_rows_were_deleted_then_conflict_when_of_other_files_not(log: DecidedLog) -> None:
    log.commit(delete({0: [1]}))
    log.conflict("TABLE_DELETED_FROM@3", on=compact([0, 1], 20), base=2)
    log.commit(compact([1, 2], 20), base=2)
    log.conflict("TABLE_COMPACTED@4", on=compact([2], 10), base=2)
    log.commit(compact([0], 9), base=3)


@pytest.mark.parametrize(
    "request_",
    [
        delete({3: [0]}),
        delete({-1: [0]}),
        delete({0: [10]}),
        delete({0: [-1]}),
        delete({0: [1, 1]}),
        delete({0: []}),
        delete_file(0, []),
        delete_whole(0, 0),
        delete_whole(99),
        change("DELETE"),
        change("DELETE", positions=[{"data_file_id": 0, "rows": [1]}], whole_files=[0]),
        compact([], 0),
        compact([0], 9),
        compact([0, 0], 20),
        compact([7], 10),
        append(data_file(-1)),
        append(data_file(1, file_size_bytes=-1)),
        append(data_file(1, footer_size=-1)),
        append(data_file(1, path="")),
        append(data_file(1, path="/a")),
        append(data_file(1, path="a/")),
        append(data_file(1, path="a//b")),
        append(data_file(1, path="./a")),
        append(data_file(1, path="a/./b")),
        append(data_file(1, path="..")),
        append(data_file(1, path="a/../../b")),
        append(data_file(1, path="s3://bucket/a")),
        append(data_file(1, path="file:a")),
        append(data_file(1, path_is_relative=False)),
        append(data_file(1, path="a"), data_file(2, path="a")),
        compact([0, 1], 10, 10, path="a"),
        delete_file(0, [1], path="../a"),
        delete_file(0, [1], path="s3://bucket/a", path_is_relative=False),
        append(data_file(1, path="a\0b")),
        append(data_file(1, partition_values=["x"])),
        append(data_file(2**62), data_file(2**62)),
        change("APPEND", files=[]),
    ],
)
def test_requests_on_files_that_cannot_be_then_invalid(log: DecidedLog, request_: dict) -> None:
    log.refused("INVALID", request_)
    assert log.head == 2


def test_paths_that_come_twice_in_a_changeset_then_invalid_whatever_brings_them(log: DecidedLog) -> None:
    log.commit(create_table("u"), keyed_table())
    row = log.propose(insert(id=1)).effects[0].row_id
    flush = change("FLUSH", "k", files=[{**data_file(1, path="../a"), "row_ids": [row]}])
    refused = log.refused("INVALID", append(data_file(path="a")), delete_file(0, [1], path="a"))
    assert "file a is given twice in this changeset" in str(refused.detail)
    refused = log.refused("INVALID", append(data_file(path="a")), append(data_file(path="a"), table="u"))
    assert "a path of its own, also those of several tables" in str(refused.detail)
    log.refused("INVALID", flush)
    log.commit(append(data_file(path="a=1:2/b.parquet")), append(data_file(path="...")))
    log.commit(append(data_file(path="a=1:2/b.parquet")))


def test_paths_elsewhere_then_only_where_the_table_allows_foreign_ones(log: DecidedLog) -> None:
    foreign = append(data_file(path="s3://theirs/a.parquet", path_is_relative=False))
    allow = alter("SET_PROPERTY", key="foreign_paths", value="true")
    assert "set the table's property foreign_paths to true" in str(log.refused("INVALID", foreign).detail)
    log.commit(allow, foreign)
    log.commit(foreign, delete_file(0, [1], path="/theirs/d", path_is_relative=False))
    log.refused("INVALID", append(data_file(path="../a")))
    log.commit(alter("SET_PROPERTY", key="foreign_paths", value="false"))
    log.refused("INVALID", foreign)
    log.refused("INVALID", alter("SET_PROPERTY", key="foreign_paths", value="yes"))
    log.refused("INVALID", alter("SET_PROPERTY", key="statistics_columns", value="-1"))
    log.commit(alter("SET_PROPERTY", key="statistics_columns", value="40"))
    log.commit(create_table("u", properties={"foreign_paths": "true"}), append(foreign["files"][0], table="u"))
    log.check_replay()


def test_a_changeset_may_not_touch_what_it_appends_nor_a_file_twice(log: DecidedLog) -> None:
    log.refused("INVALID", append(), delete({3: [0]}))
    log.refused("INVALID", delete({0: [1]}), delete({0: [2]}))
    log.refused("INVALID", delete({0: [1]}), delete_whole(0))
    log.commit(delete_whole(0), append())


def test_a_file_of_another_table_then_invalid(log: DecidedLog) -> None:
    log.commit(create_table("u"), append(table="u"))
    log.refused("INVALID", delete({3: [1]}))
    log.commit({**delete({3: [1]}), "table": "u"})


def test_a_file_that_had_gone_at_the_base_then_invalid_after_it_conflict(log: DecidedLog) -> None:
    log.commit(delete_whole(0))
    log.commit(append())
    log.conflict("TABLE_DELETED_FROM@3", on=delete({0: [1]}), base=2)
    log.refused("INVALID", delete({0: [1]}), base=3)


def test_delete_files_are_cumulative_and_leave_inlined_positions_out(log: DecidedLog) -> None:
    log.commit(delete_file(0, [1, 2]))
    log.commit(delete({0: [5]}))
    log.refused("INVALID", delete_file(0, [3]))
    log.refused("INVALID", delete_file(0, [1, 2]))
    log.refused("INVALID", delete_file(0, [1, 2, 3, 5]))
    log.refused("INVALID", delete({0: [2]}))
    log.refused("INVALID", delete({0: [5]}))
    log.commit(delete_file(0, [1, 2, 3]))
    log.commit(compact([0], 6))


def test_delete_files_never_merge(log: DecidedLog) -> None:
    base = at(log, "ROW")
    log.commit(delete_file(0, [1]))
    log.conflict("TABLE_DELETED_FROM@4", on=delete_file(0, [2]), base=base)


def test_file_ids_then_mappings_data_and_delete_files_count_together(log: DecidedLog) -> None:
    mapping = [{"source_name": "ID", "column": "id"}, {"source_name": "V", "column": "v"}]
    outcome = log.propose(append(data_file(5, name_mapping=mapping), data_file(7)), delete_file(0, [1]))
    assigned = outcome.assigned
    assert (assigned.mapping_ids, assigned.data_file_ids, assigned.delete_file_ids) == ((3,), (4, 5), (6,))
    assert assigned.row_id_starts == (30, 35)
    assert log.propose(compact([4, 5], 12)).assigned.row_id_starts == (None,)


def test_names_of_fields_that_are_no_text_or_of_no_field_then_invalid_however_deep(log: DecidedLog) -> None:
    log.commit(create_table("n", "s struct(x:int64,y:list(struct(z:int64)))"))

    def mapped(*children: dict[str, Any]) -> dict[str, Any]:
        return append(
            data_file(1, name_mapping=[{"source_name": "S", "column": "s", "children": [*children]}]), table="n"
        )

    def inner(source_name: str, column: str) -> dict[str, Any]:
        element = {
            "source_name": "l",
            "column": "element",
            "children": [{"source_name": source_name, "column": column}],
        }
        return {"source_name": "Y", "column": "Y", "children": [element]}

    for source_name in ("a\0b", "\ud800"):
        assert log.refused("INVALID", mapped(inner(source_name, "z"))).invalid_code == "TEXT_UNSTORABLE"
    for unknown in (inner("z", "x"), {"source_name": "x", "column": "z"}):
        assert log.refused("INVALID", mapped(unknown)).invalid_code == "COLUMN_UNKNOWN"
    log.commit(mapped({"source_name": "x", "column": "X"}, inner("é", "Z")))


def test_names_of_a_file_when_a_column_on_either_side_is_there_twice_then_invalid_however_deep(log: DecidedLog) -> None:
    log.commit(create_table("n", "s struct(x:int64,y:int64), a int64, b int64"))

    def named(*pairs: str) -> list[dict[str, Any]]:
        return [dict(zip(("source_name", "column"), pair.split("="), strict=True)) for pair in pairs]

    for twice in (["f=a", "f=b"], ["f=a", "g=A"]):
        assert log.refused("INVALID", append(data_file(1, name_mapping=named(*twice)), table="n")).invalid_code == (
            "COLUMN_GIVEN_TWICE"
        )
    for twice in (["f=x", "f=y"], ["f=x", "g=X"]):
        mapping = [{"source_name": "s", "column": "s", "children": named(*twice)}]
        refused = log.refused("INVALID", append(data_file(1, name_mapping=mapping), table="n"))
        assert refused.invalid_code == "COLUMN_GIVEN_TWICE"
    log.commit(append(data_file(1, name_mapping=named("f=a", "F=b")), table="n"))


@pytest.mark.interpreted("what it looks at is counted")
def test_names_of_many_fields_then_each_is_looked_at_once(log: DecidedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"f{number}" for number in range(300)]
    log.commit(create_table("n", f"s struct({','.join(f'{name}:int64' for name in names)})"))
    looks = 0

    def counted(name: str) -> str:
        nonlocal looks
        looks += 1
        return fold(name)

    for module in (new_files, definitions):
        monkeypatch.setattr(module, "fold", counted)
    fields = [{"source_name": name, "column": name} for name in names]
    log.commit(append(data_file(1, name_mapping=[{"source_name": "s", "column": "s", "children": fields}]), table="n"))
    assert looks < 3 * len(names)


def test_a_base_beyond_the_window_then_judged_per_table(log: DecidedLog) -> None:
    log.commit({"kind": "CONFIGURE", "settings": {"window_snapshots": 2}})
    log.commit(delete({0: [1]}))
    log.commit(append())
    log.commit(append())
    assert log.state.index_floor == 4
    log.conflict("TABLE_DELETED_FROM@4", on=delete({1: [1]}), base=3)
    log.commit(delete({1: [1]}), base=4)
    assert log.conflict("TABLE_DELETED_FROM@7", on=delete({2: [1]}), base=3).conflicts[0].committed_writer_id == "w1"


def test_a_base_at_the_edge_of_the_window_then_still_judged_by_file(log: DecidedLog) -> None:
    log.commit({"kind": "CONFIGURE", "settings": {"window_snapshots": 2}})
    log.commit(delete({0: [1]}))
    log.commit(append())
    log.conflict("TABLE_DELETED_FROM@4", on=delete({0: [2]}), base=3)
    log.commit(delete({1: [1]}), base=3)


def test_beyond_the_window_then_a_file_that_went_is_a_conflict_only_if_the_table_was_deleted_from(
    log: DecidedLog,
) -> None:
    log.commit({"kind": "CONFIGURE", "settings": {"window_snapshots": 1}})
    log.commit(delete_whole(0))
    log.commit(append())
    log.commit(append())
    log.conflict("TABLE_DELETED_FROM@4", on=delete_whole(0), base=2)
    log.refused("INVALID", delete_whole(0), base=4)


def test_nothing_is_refused_for_age_alone(log: DecidedLog) -> None:
    log.commit({"kind": "CONFIGURE", "settings": {"window_snapshots": 0}})
    for _ in range(5):
        log.commit(append())
    log.commit(delete({1: [1]}), base=2)
    log.commit(compact([2], 10), base=9)


def test_expire_then_older_bases_are_expired(log: DecidedLog) -> None:
    log.commit(append())
    log.commit({"kind": "EXPIRE_SNAPSHOTS", "older_than_snapshot_id": 3})
    assert log.head == 4
    log.refused("BASE_EXPIRED", append(), base=2)
    log.commit(append(), base=3)
    log.refused("INVALID", {"kind": "EXPIRE_SNAPSHOTS", "older_than_snapshot_id": 99})
    log.commit({"kind": "EXPIRE_SNAPSHOTS", "older_than_snapshot_id": 1})
    log.refused("BASE_EXPIRED", append(), base=2)


@pytest.mark.parametrize("more", [{}, {"expire_older_than_ms": 365 * 86_400_000}])
def test_expire_by_setting_then_the_floor_follows_the_head(log: DecidedLog, more: dict[str, int]) -> None:
    log.commit({"kind": "CONFIGURE", "settings": {"expire_keep_snapshots": 2, **more}})
    log.commit(append())
    log.commit(append())
    assert log.state.floor_snapshot_id == 4


def test_keyed_tables_take_no_files(log: DecidedLog) -> None:
    log.commit(keyed_table())
    for request in (append(table="k"), delete({0: [1]}, "k"), compact([0], 10, table="k")):
        log.refused("INVALID", request)


def test_compact_beside_an_alteration_when_its_partition_values_hold_what_no_text_may_then_invalid(
    log: DecidedLog,
) -> None:
    base = log.head
    log.commit(alter("ADD_COLUMN", column={"name": "x", "type": "int64"}))
    refused = log.refused("INVALID", compact([0], 10, partition_values=["a\0"]), base=base)
    assert refused.invalid_code == "TEXT_UNSTORABLE"


def test_partition_values_when_given_in_other_forms_then_the_catalog_has_each_in_one_text(log: DecidedLog) -> None:
    keys = [
        {"column": "ts", "transform": "identity"},
        {"column": "ts", "transform": "month"},
        {"column": "tz", "transform": "identity"},
        {"column": "n", "transform": "identity"},
        {"column": "n", "transform": "bucket(4)"},
    ]
    log.commit(create_table("p", "ts timestamp, tz timetz, n int64", partition_by=keys))
    definition = log.state.tables[2].definition
    for given in (["2024-01-01T10:00", "01", "10:00Z", "007", 3], ["2024-01-01 10:00:00.0", 1, "10:00:00+00", 7, "3"]):
        log.commit(append(data_file(1, partition_values=given), table="p"))
        assert partition_texts(definition, given) == ("2024-01-01 10:00:00", "1", "10:00:00+00:00", "7", "3")
    assert partition_texts(definition, [None] * 5) == (None,) * 5


def test_partition_values_then_as_many_as_keys(log: DecidedLog) -> None:
    log.commit(create_table("p", "d date, v int64", partition_by=[{"column": "d", "transform": "identity"}]))
    log.refused("INVALID", append(data_file(1, partition_values=["2024-01-01", 1]), table="p"))
    log.refused("INVALID", append(data_file(1, partition_values=["yesterday"]), table="p"))
    log.commit(append(data_file(1, partition_values=["2024-01-01"]), data_file(1), table="p"))


@pytest.mark.parametrize(
    "settings",
    [{}, {"colour": 1}, {"conflict_granularity": "PAGE"}, {"window_snapshots": -1}, {"window_snapshots": 1.5},
     {"conflicts_max": None}, {"on_conflict": "GUESS"}, {"name_length_max": 301}],
)  # fmt: skip
def test_configure_when_it_cannot_be_then_invalid(log: DecidedLog, settings: dict) -> None:
    log.refused("INVALID", {"kind": "CONFIGURE", "settings": settings})


@pytest.mark.parametrize("window", [100, 0])
def test_a_file_of_another_table_then_invalid_whatever_became_of_the_named_one(window: int) -> None:
    log = DecidedLog(window_snapshots=window)
    log.commit(create_table("t"), create_table("u"))
    base = log.commit(append(table="t"), append(table="u"))
    log.commit(delete({0: [1]}))
    log.refused("INVALID", delete_whole(1), base=base)
    log.commit(change("DROP_TABLE"))
    log.refused("INVALID", delete_whole(1), base=base)
    log.conflict("TABLE_DROPPED@4", on=delete_whole(0), base=log.head - 1)
    log.check_replay()


@pytest.mark.parametrize(
    ("transform", "good", "bad"),
    [
        ("year", [2024, -44, "2024"], ["hello", 4.5, True, "2024-03"]),
        ("month", [1, 12, "7"], [0, 13, "May", "03 "]),
        ("day", [1, 31], [0, 32, -1]),
        ("hour", [0, 23], [-1, 24, "12:00"]),
        ("bucket(4)", [0, 3, "no bucket"], []),
    ],
)
def test_partition_values_of_a_transform_then_what_it_can_give(
    log: DecidedLog, transform: str, good: list[Any], bad: list[Any]
) -> None:
    by = [{"column": "ts", "transform": transform}]
    log.commit(create_table("parts", "id int64, ts timestamp", partition_by=by))
    for value in [*good, None]:
        log.commit(append(data_file(1, partition_values=[value]), table="parts"))
    for value in bad:
        refused = log.refused("INVALID", append(data_file(1, partition_values=[value]), table="parts"))
        assert refused.invalid_code == "PARTITION_VALUES_INVALID"
        assert "of ts is " in str(refused.detail)


def test_an_append_to_a_table_renamed_since_then_the_text_names_it_as_the_writer_did(log: DecidedLog) -> None:
    base = log.head
    log.commit(change("RENAME_TABLE", new_table="u"))
    outcome = log.conflict(f"TABLE_RENAMED@{log.head}", on=append(), base=base)
    assert outcome.detail == (
        f"append to table main.t - but snapshot {log.head} by writer w1 renamed it to main.u since base {base}"
    )


@pytest.mark.parametrize("statistic", [{"null_count": -1}, {"value_count": -1}, {"size_bytes": -5}])
def test_a_negative_count_in_statistics_then_invalid(log: DecidedLog, statistic: dict) -> None:
    refused = log.refused("INVALID", append(data_file(1, path="f.parquet", statistics=[{"column": "id", **statistic}])))
    assert refused.detail == "file f.parquet: a count of column id is negative"


def test_more_bytes_than_64_bits_count_then_invalid(log: DecidedLog) -> None:
    most = 2**63 - 1 - 3000
    log.refused("INVALID", append(data_file(1, file_size_bytes=most + 1)))
    log.commit(append(data_file(1, file_size_bytes=most)))
    log.refused("INVALID", append(data_file(1, file_size_bytes=1)))


def test_the_id_of_a_delete_file_where_a_data_file_is_meant_then_invalid(log: DecidedLog) -> None:
    assigned = log.propose(delete_file(0, [1])).assigned
    (delete_file_id,) = assigned.delete_file_ids
    for request in (delete({delete_file_id: [1]}), delete_whole(delete_file_id), compact([delete_file_id], 1)):
        assert "is not a live file of table t" in str(log.refused("INVALID", request).detail)


def test_positions_deleted_before_and_after_the_base_then_only_the_later_ones_are_a_race(log: DecidedLog) -> None:
    at(log, "ROW")
    log.commit(delete({0: [1]}))
    base = log.head
    log.commit(delete({0: [2]}))
    assert "position 1 of data file 0 is deleted already" in str(
        log.refused("INVALID", delete({0: [1, 3]}), base=base).detail
    )
    log.conflict(f"TABLE_DELETED_FROM@{base + 1}", on=delete({0: [2, 3]}), base=base)
    log.commit(delete({0: [3]}), base=base)


def test_a_delete_file_for_a_file_that_went_since_the_base_then_conflict(log: DecidedLog) -> None:
    log.commit(delete_whole(0))
    log.commit(compact([1], 10))
    log.conflict("TABLE_DELETED_FROM@3", on=delete_file(0, [1]), base=2)
    log.conflict("TABLE_COMPACTED@4", on=delete_file(1, [1]), base=2)


def test_compact_beyond_the_window_then_a_file_that_went_is_a_conflict_and_live_ones_are_fine(log: DecidedLog) -> None:
    log.commit({"kind": "CONFIGURE", "settings": {"window_snapshots": 1}})
    log.commit(compact([0], 10))
    for _ in range(3):
        log.commit(append())
    log.conflict("TABLE_COMPACTED@4", on=compact([0, 1], 20), base=2)
    log.commit(compact([1, 2], 20), base=2)


def test_a_files_history_then_it_leaves_the_window_delete_by_delete(log: DecidedLog) -> None:
    log.commit({"kind": "CONFIGURE", "settings": {"window_snapshots": 3}})
    log.commit(delete({0: [1], 1: [1]}))
    log.commit(delete({0: [2]}))
    log.commit(append())
    log.commit(append())
    assert [[d.snapshot_id for d in log.state.file_history[f].deletes] for f in log.state.file_history] == [[5]]
    log.conflict("TABLE_DELETED_FROM@5", on=delete({0: [3]}), base=4)
    log.commit(delete({1: [3]}), base=4)
    log.commit(append())
    assert list(log.state.file_history) == [1]


def test_a_file_compacted_long_ago_when_its_table_is_dropped_then_the_drop_is_the_conflict(log: DecidedLog) -> None:
    log.commit(compact([0], 10))
    log.commit(change("DROP_TABLE"))
    log.conflict("TABLE_DROPPED@4", on=delete_whole(0), base=3)
