"""Which files a compaction rewrites together: neighbours in the table's order, up to a target size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from commitlog.spark.reading.scan_files import ScanFile

SMALL = 0.75
"""A file of at least this share of the target is left alone, unless rows of it are deleted."""


def bins(files: Sequence[ScanFile], *, target_bytes: int, rewrite_all: bool = False) -> Iterator[tuple[ScanFile, ...]]:
    """Groups of files worth rewriting, or of all, as about one file each. Rows that files have lost do not count."""
    group: list[ScanFile] = []
    size = 0.0
    for each in sorted(files, key=lambda file: file.data_file_id):
        if not rewrite_all and not worth_rewriting(each, target_bytes):
            continue
        if group and size + live_bytes(each) > target_bytes:
            yield from finished(group, rewrite_all)
            group, size = [], 0.0
        group.append(each)
        size += live_bytes(each)
    yield from finished(group, rewrite_all)


def worth_rewriting(file: ScanFile, target_bytes: int) -> bool:
    """Whether a file is small, or has lost rows."""
    return file.has_deleted or file.file_size_bytes < SMALL * target_bytes


def live_bytes(file: ScanFile) -> float:
    """About how many bytes of a file its live rows take."""
    return file.file_size_bytes * file.live_count / file.record_count if file.record_count else 0.0


def finished(group: list[ScanFile], rewrite_all: bool) -> Iterator[tuple[ScanFile, ...]]:
    """The group, if it is worth it: a lone file is rewritten only for the rows that it has lost, or when all are."""
    if len(group) > 1 or any(rewrite_all or each.has_deleted for each in group):
        yield tuple(group)
