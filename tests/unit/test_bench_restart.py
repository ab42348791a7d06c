"""The state that `commitlog bench restart` saves is that of a log of so many appends."""

from __future__ import annotations

from commitlog.domain.model import Genesis
from commitlog.ops.bench.decide import TABLES, History
from commitlog.ops.bench.restart import CHUNK, put_old_files


def test_files_that_are_put_in_then_as_live_as_those_of_appends() -> None:
    grown, put = History(Genesis(bytes(16))), History(Genesis(bytes(16)))
    grown.grow(TABLES + CHUNK, lambda line: None)
    put_old_files(put, CHUNK + 1)
    for name in ("head_snapshot_id", "next_seq", "next_file_id"):
        assert getattr(put.state, name) == getattr(grown.state, name)
    assert list(put.state.record_counts.chunks()) == list(grown.state.record_counts.chunks())
    for own, other in zip(put.state.tables.values(), grown.state.tables.values(), strict=True):
        assert (own.live_files, own.next_row_id, own.file_bytes) == (
            other.live_files,
            other.next_row_id,
            other.file_bytes,
        )
    assert put.next_append().changes == grown.next_append().changes
