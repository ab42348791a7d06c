"""A data path belongs to one log, and names tell which files below it our writers made."""

from __future__ import annotations

import json
import logging
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import UUID

import pytest

from commitlog.client.files.lake import MARKER, check_free, check_owner, claim, is_named_by_us, new_name, owner_of
from commitlog.client.files.places import normal_path
from commitlog.client.ids import random_id
from commitlog.errors import ConfigurationError
from commitlog.testing import InMemoryCommitLog

MINE, YOURS = bytes(range(16)), bytes(range(1, 17))


def test_claim_when_nobody_has_it_then_a_marker_says_whose_it_is(tmp_path: Path) -> None:
    path = str(tmp_path / "lake")
    assert owner_of(path) is None
    claim(path, MINE, "main")
    claim(f"{path}/", MINE, "main")
    claim(f"file://{path}", MINE, "main")
    told = json.loads((tmp_path / "lake" / MARKER).read_text())
    assert told == {"log_id": str(UUID(bytes=MINE)), "log": "main"}
    assert [each.name for each in (tmp_path / "lake").iterdir()] == [MARKER]
    owner = check_owner(path, MINE, "main")
    assert owner is not None
    assert (owner.log_id, owner.log) == (MINE, "main")


def test_claim_when_it_is_another_logs_then_says_whose(tmp_path: Path) -> None:
    claim(str(tmp_path), MINE, "main")
    before = (tmp_path / MARKER).read_bytes()
    with pytest.raises(ConfigurationError, match=rf"{tmp_path} belongs to log main \(00010203-.*for log other"):
        claim(str(tmp_path), YOURS, "other")
    with pytest.raises(ConfigurationError, match=r"belongs to another log main .*remove"):
        claim(f"{tmp_path}/", YOURS, "main")
    with pytest.raises(ConfigurationError, match="belongs to log main"):
        check_free(f"file://{tmp_path}", "new")
    with pytest.raises(
        ConfigurationError, match=r"another log main .*no log that these credentials may see.*acl.*remove"
    ):
        check_free(str(tmp_path), "main")
    assert (tmp_path / MARKER).read_bytes() == before


def test_claim_when_the_log_was_restored_by_another_name_then_says_how_it_gets_the_files(tmp_path: Path) -> None:
    claim(str(tmp_path), MINE, "main")
    with pytest.raises(
        ConfigurationError,
        match=rf"belongs to log main .*, restored here by the name copy: .*remove {tmp_path}/{MARKER}",
    ):
        claim(str(tmp_path), MINE, "copy")


def test_claim_when_it_lies_in_another_logs_folder_then_refuses(tmp_path: Path) -> None:
    claim(str(tmp_path), MINE, "main")
    with pytest.raises(ConfigurationError, match=rf"a/b is in {tmp_path}, which belongs to log main"):
        claim(f"{tmp_path}/a/b/", YOURS, "other")
    assert not (tmp_path / "a").exists()
    claim(f"{tmp_path}/a/b", MINE, "main")


def test_claim_when_many_logs_race_for_it_then_one_has_it(tmp_path: Path) -> None:
    ids = [bytes([number]) * 16 for number in range(16)]

    def try_it(log_id: bytes) -> bool:
        try:
            claim(str(tmp_path), log_id, f"log{log_id[0]}")
        except ConfigurationError:
            return False
        return True

    with ThreadPoolExecutor(len(ids)) as pool:
        won = list(pool.map(try_it, ids))
    owner = owner_of(str(tmp_path))
    assert owner is not None
    assert [log_id for log_id, has in zip(ids, won, strict=True) if has] == [owner.log_id]


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"log": "main"}', '{"log_id": "x", "log": "main"}', '{"log_id": 1}']
)
def test_owner_of_when_the_marker_is_broken_then_says_what_to_do(tmp_path: Path, content: str) -> None:
    (tmp_path / MARKER).write_text(content)
    with pytest.raises(ConfigurationError, match=rf"{MARKER} does not say whose"):
        claim(str(tmp_path), MINE, "main")


def test_claim_when_it_cannot_be_seen_from_here_then_only_logs_that(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    for path in (f"{tmp_path}/file", "nowhere://bucket/lake"):
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            claim(path, MINE, "main")
        assert "cannot be marked" in caplog.text


def test_is_named_by_us_when_a_name_is_anothers_then_not() -> None:
    name = new_name()
    assert name != new_name()
    ours = [f"{name}.parquet", f"{name}-deletes.parquet", f"{name}/part-0.parquet", f"{name}/cl_0=v1/x.parquet"]
    ours += [f"{name}.parquet.unfinished", "commitlog-adopted-1.parquet", "commitlog-adopted-1.parquet.unfinished"]
    assert [each for each in ours if not is_named_by_us(each)] == []
    bare = name.removeprefix("commitlog-")
    others = [
        "a.parquet", f"{bare}.parquet", f"{bare}/part-0.parquet", f"{bare}-deletes.parquet", name, f"{name}.csv", f"{name}/",
        f"x{name}.parquet", f"x/{name}.parquet", f"../{name}.parquet", "commitlog-1.parquet", f"{name}.parquet.bak",
        f"ducklake-{bare}.parquet",
    ]  # fmt: skip
    assert [each for each in others if is_named_by_us(each)] == []


def test_new_names_when_made_then_each_is_another_and_known_as_ours() -> None:
    names = [new_name() for _ in range(1_000)]
    assert len(set(names)) == 1_000
    assert all(is_named_by_us(f"{name}.parquet") for name in names)


def test_random_ids_when_made_then_of_version_4_with_122_random_bits() -> None:
    ids = [UUID(bytes=random_id()) for _ in range(1_000)]
    assert {each.version for each in ids} == {4}
    assert {each.variant for each in ids} == {UUID(int=1 << 63).variant}
    both = [
        any(each.int >> bit & 1 for each in ids) and not all(each.int >> bit & 1 for each in ids) for bit in range(128)
    ]
    assert both.count(True) == 122


@pytest.mark.parametrize(
    "path",
    [
        "/a/b",
        "/",
        "/a/",
        "//a",
        "/a//b",
        "/a/./b",
        "/a/../b",
        "/a/..",
        "/a/.b/c",
        "/.a",
        "a/b",
        "",
        ".",
        "./a",
        "../a",
        "/a b/c.d",
    ],
)
def test_normal_path_when_local_then_absolute_without_parts_that_say_nothing(path: str) -> None:
    assert normal_path(path) == os.path.abspath(path)


def test_lake_when_a_data_path_in_a_store_ends_with_a_slash_then_a_log_in_memory_has_it(endpoint: str) -> None:
    log = InMemoryCommitLog(data_path="s3://lake/data/")
    log.append("t", [{"id": 1}], create=True)
    assert log.table("t").scan().to_arrow().to_pylist() == [{"id": 1}]
