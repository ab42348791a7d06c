"""Second files of a commit: back where its client removed the first ones, and gone once nobody needs them."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import IO, TypeVar

import pytest
from pyarrow import fs

from commitlog.client.files.places import filesystem_of
from commitlog.gateway import keeping
from commitlog.gateway.keeping import Keeping

T = TypeVar("T")
TIMEOUT_S = 60.0
LOOK_S = 0.01
ROWS = b"rows"
KILLED = """
import asyncio, os, sys
from pathlib import Path
from commitlog.gateway.keeping import Keeping
asyncio.run(Keeping(Path(sys.argv[1])).keep(sys.argv[2:]))
os._exit(9)
"""


def run(scene: Coroutine[None, None, T]) -> T:
    return asyncio.run(asyncio.wait_for(scene, TIMEOUT_S))


async def until(is_so: Callable[[], bool]) -> None:
    while not is_so():
        await asyncio.sleep(LOOK_S)


def write(file: str) -> None:
    filesystem, path = filesystem_of(file)
    with filesystem.open_output_stream(path) as stream:
        stream.write(ROWS)


def held(file: str) -> bytes | None:
    """What is in a file; None where it is not."""
    filesystem, path = filesystem_of(file)
    if filesystem.get_file_info(path).type == fs.FileType.NotFound:
        return None
    with filesystem.open_input_stream(path) as stream:
        content: bytes = stream.read()
    return content


def remove(file: str) -> None:
    filesystem, path = filesystem_of(file)
    filesystem.delete_file(path)


def names_in(folder: str) -> list[str]:
    filesystem, path = filesystem_of(folder)
    return sorted(each.base_name for each in filesystem.get_file_info(fs.FileSelector(path)))


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are looked after as often as these tests look for what becomes of them: not only once in a second."""
    monkeypatch.setattr("commitlog.gateway.keeping._LOOK_S", LOOK_S)


@pytest.fixture(params=["machine", "store"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Of a table: on this machine, or in an object store."""
    if request.param == "store":
        request.getfixturevalue("endpoint")
        return f"s3://lake/{tmp_path.name}/t"
    (tmp_path / "t").mkdir()
    return str(tmp_path / "t")


@pytest.fixture
def lists(tmp_path: Path) -> Iterator[Path]:
    """Where gateways have their lists, and links to files of this machine; nothing is left there."""
    yield tmp_path / "kept"
    assert list((tmp_path / "kept").iterdir()) == []


def test_files_when_their_client_removes_them_then_they_are_back_and_are_let_go_in_the_end(
    folder: str, lists: Path
) -> None:
    files = [f"{folder}/{name}.parquet" for name in ("a", "b % c")]
    for file in files:
        write(file)
    keeping = Keeping(lists, watched_s=0)

    async def scene() -> None:
        kept = await keeping.keep(files)
        assert kept is not None
        for file in files:
            remove(file)
        keeping.watch(kept)
        await until(lambda: not kept.exists())

    run(scene())
    keeping.close()
    assert [held(file) for file in files] == [ROWS, ROWS]
    assert names_in(folder) == ["a.parquet", "b % c.parquet"]


def test_files_when_nobody_can_look_for_them_in_the_end_then_they_are_let_go_once_somebody_has(
    folder: str, lists: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = f"{folder}/a.parquet"
    write(file)
    keeping = Keeping(lists, watched_s=0)
    away = [OSError("the store does not answer")] * 2
    reached = Keeping._of

    def of(self: Keeping, place: str) -> object:
        if away:
            raise away.pop()
        return reached(self, place)

    async def scene() -> None:
        kept = await keeping.keep([file])
        assert kept is not None
        remove(file)
        monkeypatch.setattr(Keeping, "_of", of)
        keeping.watch(kept)
        await until(lambda: not kept.exists())

    run(scene())
    keeping.close()
    assert held(file) == ROWS
    assert names_in(folder) == ["a.parquet"]


def test_files_when_their_second_ones_are_gone_too_then_nobody_waits_for_them(folder: str, lists: Path) -> None:
    file = f"{folder}/a.parquet"
    write(file)
    keeping = Keeping(lists, watched_s=0)

    async def scene() -> None:
        kept = await keeping.keep([file])
        assert kept is not None
        for second in json.loads(kept.read_text()).values():
            remove(second)
        remove(file)
        keeping.watch(kept)
        await until(lambda: not kept.exists())

    run(scene())
    keeping.close()
    assert held(file) is None


def test_files_when_their_client_is_well_then_the_second_ones_go(folder: str, lists: Path) -> None:
    file = f"{folder}/a.parquet"
    write(file)
    keeping = Keeping(lists)

    async def scene() -> None:
        first, second = await keeping.keep([file]), await keeping.keep([file])
        assert first is not None
        assert second is not None
        keeping.watch(first).cancel()
        await until(lambda: not first.exists())
        assert second.exists()
        keeping.let_go(second)

    run(scene())
    keeping.close()
    assert held(file) == ROWS
    assert names_in(folder) == ["a.parquet"]


def test_files_when_one_of_them_cannot_be_kept_then_none_is(
    folder: str, lists: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = f"{folder}/a.parquet"
    write(file)
    keeping = Keeping(lists)

    async def scene() -> None:
        assert await keeping.keep([]) is None
        for _ in range(2):
            assert await keeping.keep([file, f"{folder}/gone.parquet"]) is None

    run(scene())
    keeping.close()
    assert names_in(folder) == ["a.parquet"]
    said = [each.message for each in caplog.records if each.name == "commitlog.gateway"]
    assert [each.partition(", such as")[0] for each in said] == ["files of commits"]


def test_files_when_their_gateway_was_killed_then_the_next_one_brings_them_back_and_watches_them(
    folder: str, tmp_path: Path
) -> None:
    lists = tmp_path / "kept"
    file, of_the_living = f"{folder}/a.parquet", f"{folder}/b.parquet"
    write(file)
    write(of_the_living)
    killed = subprocess.run([sys.executable, "-c", KILLED, str(lists), file], check=False, env=os.environ)
    assert killed.returncode == 9
    remove(file)
    living, looking, later = Keeping(lists), Keeping(lists), Keeping(lists, watched_s=0)

    async def watching() -> Path:
        kept = await living.keep([of_the_living])
        assert kept is not None
        looking.watch_left()
        await until(lambda: held(file) is not None)
        remove(file)  # by a client that has taken longer
        await until(lambda: held(file) is not None)
        remove(of_the_living)
        return kept.parent

    async def ending() -> None:
        later.watch_left()
        await until(lambda: len(list(lists.glob("*/" + "?" * 32))) == 1)

    folder_of_the_living = run(watching())
    # What is watched still is for the next gateway, but for what another one that lives looks after.
    looking.close()
    run(ending())
    assert held(of_the_living) is None
    later.close()
    living.close()
    assert list(lists.iterdir()) == [folder_of_the_living]


def test_folder_when_another_gateway_looks_before_it_is_locked_then_it_is_not_taken_for_a_killed_ones(
    tmp_path: Path, lists: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, locked = Keeping(lists), keeping._locked

    with monkeypatch.context() as late:

        def locked_late(made: Path) -> IO[bytes] | None:
            late.undo()
            other.watch_left()
            return locked(made)

        late.setattr(keeping, "_locked", locked_late)
        own = Keeping(lists)
    other.close()
    write(file := str(tmp_path / "file.parquet"))

    async def keeping_one() -> None:
        kept = await own.keep([file])
        assert kept is not None
        own.let_go(kept)

    run(keeping_one())
    own.close()


def test_folder_when_its_gateway_removes_it_as_another_one_looks_then_there_is_nothing_to_be_watched(
    lists: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ending, looking, flock = Keeping(lists), Keeping(lists), fcntl.flock

    with monkeypatch.context() as late:

        def after_the_end(lock: IO[bytes], operation: int) -> None:
            ending.close()
            flock(lock, operation)

        late.setattr("commitlog.gateway.keeping.fcntl.flock", after_the_end)
        looking.watch_left()
    looking.close()
