"""Rows of keyed tables, and appended files, in a checkpoint, and what it takes beside them while it is written and loaded."""

from __future__ import annotations

import time
import tracemalloc
from pathlib import Path

import pytest
from deciding import DecidedLog, append, change, create_table, data_file, keyed_table

from commitlog.config import Settings
from commitlog.domain.model.records.checkpoint_section import CheckpointSection
from commitlog.domain.state.dumping import dump_state, load_state, state_hash
from commitlog.domain.state.index import SequencerState
from commitlog.log.checkpoint import checkpoint_dir_of, load_checkpoints, write_checkpoint
from commitlog.log.results import LogPosition

ROWS = 8_000
PROPOSALS = 4
ROUNDS_MAX = 10


@pytest.fixture(scope="module")
def state() -> SequencerState:
    """Of rows in no file, all of them changed within the window."""
    log = DecidedLog()
    log.commit(keyed_table(columns="id int64, v varchar, w varchar", unique=[["v"]]))
    for first in range(0, ROWS, ROWS // PROPOSALS):
        rows = [{"id": number, "v": f"v{number}", "w": "w"} for number in range(first, first + ROWS // PROPOSALS)]
        log.commit(*[change("INSERT_ROW", "k", row=row) for row in rows])
    log.commit(*[change("DELETE_ROW", "k", key={"id": number}) for number in range(10)])
    return log.state


class Taken:
    """What a block took of memory: ``most`` while it ran, and what it ``kept`` at its end."""

    def __enter__(self) -> Taken:
        tracemalloc.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kept, self.most = tracemalloc.get_traced_memory()
        tracemalloc.stop()


@pytest.mark.no_cover
def test_checkpoint_of_many_rows_when_written_and_loaded_then_it_takes_little_beside_the_state(
    state: SequencerState, tmp_path: Path
) -> None:
    settings = Settings.load(log="main", checkpoint_dir=tmp_path)
    with Taken() as writing:
        position = LogPosition(state.log_id, state.next_seq - 1, 1, bytes(32), 7)
        write_checkpoint(checkpoint_dir_of(settings), state, position)
    (saved,) = load_checkpoints(settings)
    with Taken() as loading:
        loaded = saved.load()
    assert state_hash(loaded) == state_hash(state)
    assert writing.most < loading.kept / 4, f"{writing.most:,} bytes beside a state of {loading.kept:,}"
    assert loading.most < loading.kept * 5 / 4, f"{loading.most:,} bytes for a state of {loading.kept:,}"


def test_loaded_state_then_a_live_row_is_the_last_version_of_its_history_and_not_there_twice(
    state: SequencerState,
) -> None:
    rows = next(iter(load_state(dump_state(state)).tables.values())).rows
    assert rows is not None
    assert len(rows.live) == ROWS - 10
    assert all(rows.history[key][-1].version is version for key, version in rows.live.items())


def test_checkpoint_of_the_same_state_then_the_same_sections(state: SequencerState) -> None:
    def told(state: SequencerState) -> list[object]:
        return [list(section.values()) for section in dump_state(state)]

    assert told(load_state(dump_state(state))) == told(state)
    assert max(len(section.items) for section in dump_state(state)) == 1_000


def test_checkpoint_of_many_appended_files_then_they_are_in_sections_and_the_same_after() -> None:
    log = DecidedLog()
    log.commit(create_table("a"), create_table("t"))
    for table in ("a", "t", "a"):
        log.commit(append(*[data_file() for _ in range(600)], table=table))
    sections = list(dump_state(log.state))
    assert [len(section.items) for section in sections if section.name == "appended"] == [1_000, 800]

    def appended(state: SequencerState) -> list[list[tuple[int, int]]]:
        return [[(x.snapshot_id, x.data_file_id) for x in each.appended.files] for each in state.tables.values()]

    assert [len(each) for each in appended(log.state)] == [1_200, 600]
    assert appended(load_state(sections)) == appended(log.state)
    log.check_replay()


def test_table_that_is_forgotten_while_its_rows_are_in_the_window_then_the_checkpoint_is_without_them() -> None:
    log = DecidedLog()
    log.commit(keyed_table())
    log.commit(change("INSERT_ROW", "k", row={"id": 1, "v": "a"}))
    log.commit(change("DROP_TABLE", "k"))
    log.commit(keyed_table("other"))
    log.commit({"kind": "EXPIRE_SNAPSHOTS", "older_than_snapshot_id": log.head})
    sections = list(dump_state(log.state))
    assert [section.items for section in sections if section.name == "touched_rows"] == [[]]
    log.commit({"kind": "CONFIGURE", "settings": {"window_snapshots": 1}})
    log.check_replay()


@pytest.mark.no_cover
def test_checkpoint_of_rows_when_one_commit_touched_them_all_then_it_loads_as_fast_as_that_of_many_commits() -> None:
    log = DecidedLog()
    log.commit(keyed_table())
    for number in range(400):
        log.commit(change("INSERT_ROW", "k", row={"id": number, "v": "a"}))
    sections = [section for section in dump_state(log.state) if section.name != "touched_rows"]
    (table_id,) = log.state.tables

    def loading_s(commits: int) -> float:
        touched = [
            CheckpointSection(
                "touched_rows", False, [[log.head - piece % commits, table_id, str(n)] for n in range(1_000)]
            )
            for piece in range(400)
        ]
        began = time.process_time()
        loaded = load_state([*sections, *touched])
        took = time.process_time() - began
        assert len(loaded.commits[log.head].rows) == 400_000 // commits
        return took

    # Put together piece by piece it would be four times as long, and more in other forms. Beside other work each is slow now
    # and then, so the fastest of each count, of as many as it takes.
    of_many, of_one = [loading_s(400)], [loading_s(1)]
    while min(of_one) > 3 * min(of_many) and len(of_one) < ROUNDS_MAX:
        of_many.append(loading_s(400))
        of_one.append(loading_s(1))
    assert min(of_one) < 3 * min(of_many), f"{of_one} s for one commit, {of_many} s for many"
