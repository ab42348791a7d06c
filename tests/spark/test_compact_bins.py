"""Which files are compacted together."""

import random

from pyroaring import FrozenBitMap64

from commitlog.spark.maintaining.compact_bins import bins
from commitlog.spark.reading.scan_files import ScanFile


def file(data_file_id: int, size: int, deleted: int = 0) -> ScanFile:
    return ScanFile(data_file_id, f"{data_file_id}.parquet", 100, size, FrozenBitMap64(range(deleted)))


def groups(*files: ScanFile, target_bytes: int = 100) -> list[list[int]]:
    return [[each.data_file_id for each in group] for group in bins(files, target_bytes=target_bytes)]


def test_bins_when_files_are_small_then_packs_neighbours_up_to_the_target() -> None:
    assert groups(file(1, 40), file(2, 40), file(3, 40), file(4, 50)) == [[1, 2], [3, 4]]


def test_bins_when_a_file_is_large_enough_then_leaves_it() -> None:
    assert groups(file(1, 40), file(2, 80), file(3, 40)) == [[1, 3]]


def test_bins_when_a_lone_file_has_lost_rows_then_rewrites_it_and_else_not() -> None:
    assert groups(file(1, 40)) == []
    assert groups(file(1, 400, deleted=1)) == [[1]]


def test_bins_when_rows_are_deleted_then_counts_what_is_left() -> None:
    assert groups(file(1, 100, deleted=90), file(2, 100, deleted=90), file(3, 70)) == [[1, 2, 3]]


def test_bins_when_files_are_random_then_no_file_is_in_two_groups_and_no_group_is_over_the_target() -> None:
    rng = random.Random(20130101)
    for _ in range(200):
        files = [file(i, rng.randrange(1, 120), rng.choice((0, 0, 50))) for i in range(rng.randrange(12))]
        sizes = {each.data_file_id: each.file_size_bytes * (1 - len(each.deleted) / 100) for each in files}
        found = groups(*files)
        chosen = [each for group in found for each in group]
        assert len(chosen) == len(set(chosen))
        assert all(len(group) == 1 or sum(sizes[each] for each in group) <= 100 + 1e-9 for group in found)
