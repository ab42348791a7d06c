"""A disk without room is told by its name, and so is the file that could not be written there."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from click.testing import CliRunner

from commitlog.catalog.checks import Finding
from commitlog.client.files.places import Naming
from commitlog.config import Settings
from commitlog.errors import CatalogUnavailableError, LogUnavailableError
from commitlog.local import room
from commitlog.local.room import full_disks
from commitlog.ops.cli import cli
from commitlog.ops.maintenance import doctor
from commitlog.ops.maintenance.doctor import FULL, ROOM, CheckResult
from commitlog.ops.service import health
from commitlog.ops.service.health import log_health


def of_room(free_bytes: int) -> Callable[[Path], object]:
    usage = shutil.disk_usage("/")
    return lambda folder: usage._replace(free=free_bytes)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.load(environment={}, home=tmp_path / "home", data_path=str(tmp_path / "lake"))


def test_disk_when_it_has_room_then_nothing_is_said(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", of_room(room.FREE_BYTES_MIN))
    assert list(full_disks(settings)) == []


def test_disk_when_it_is_full_then_it_is_named_once(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", of_room(3 * 2**20))
    assert list(full_disks(settings)) == [f"the disk of the home is full: 3 MiB are left at {tmp_path}; make room"]


def test_disk_when_the_lake_is_elsewhere_then_it_is_not_looked_for_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", of_room(3 * 2**20))
    stored = Settings.load(environment={}, home=tmp_path, data_path="s3://lake/tables")
    assert len(list(full_disks(stored))) == 1


def test_disk_when_each_server_has_its_own_then_each_is_named(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = settings.home
    disks = {home / "kafka" / "data": 1, home / "postgres" / "data": 2, home / "checkpoints": 3}
    for folder in disks:
        folder.mkdir(parents=True)
    stat = Path.stat

    def of_disk(path: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        found = stat(path, follow_symlinks=follow_symlinks)
        return os.stat_result((*found[:2], disks.get(path, 0), *found[3:]))

    monkeypatch.setattr(Path, "stat", of_disk)
    monkeypatch.setattr(shutil, "disk_usage", of_room(0))
    named = [each.partition(" is full")[0] for each in full_disks(settings)]
    assert named == [f"the disk of the {what}" for what in ("home", "checkpoints", "broker", "database")]


def test_disk_when_only_another_user_may_look_there_then_it_is_passed_over(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    stat, other = Path.stat, settings.home / "of-another-user"

    def refused(path: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        if path.is_relative_to(other):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return stat(path, follow_symlinks=follow_symlinks)

    monkeypatch.setattr(Path, "stat", refused)
    monkeypatch.setattr(shutil, "disk_usage", of_room(3))
    theirs = replace(settings, checkpoint_dir=other / "checkpoints")
    assert [each.partition(" is full")[0] for each in full_disks(theirs)] == ["the disk of the home"]


def test_doctor_when_a_disk_is_full_and_a_server_away_then_tells_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", of_room(0))
    home, url = str(tmp_path / "home"), "postgresql://nobody@127.0.0.1:1/none"
    for options, begins in (((), "check"), (("--json",), '{"check": "room", "well": false')):
        done = CliRunner().invoke(cli, ["doctor", "--home", home, "--database-url", url, *options])
        assert done.stdout.startswith(begins)
        assert "the disk of the home is full: 0 MiB are left" in done.stdout
        assert isinstance(done.exception, CatalogUnavailableError)


def test_doctor_when_a_server_goes_away_after_a_full_disk_was_told_then_does_not_tell_it_again(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = CheckResult(ROOM, (Finding("the disk of the home is full", FULL),))

    def found_on(*_: object, **__: object) -> Iterator[CheckResult]:
        yield found
        raise CatalogUnavailableError("here", detail="gone")

    monkeypatch.setattr(shutil, "disk_usage", of_room(0))
    monkeypatch.setattr(doctor, "connect", lambda url: nullcontext(SimpleNamespace()))
    monkeypatch.setattr(doctor, "examine_on", found_on)
    told: list[CheckResult] = []
    with pytest.raises(CatalogUnavailableError):
        told.extend(doctor.examine(settings))
    assert told == [found]


def test_status_when_a_disk_is_full_and_kafka_away_then_tells_both(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(settings: Settings) -> None:
        raise LogUnavailableError("127.0.0.1:1", waited_ms=1, detail="nobody there")

    monkeypatch.setattr(shutil, "disk_usage", of_room(0))
    monkeypatch.setattr(health, "require_genesis", away)
    problems = log_health(settings).problems
    assert ["nobody there" in problems[0], "is full: 0 MiB" in problems[1]] == [True, True]


def test_error_when_a_file_cannot_be_written_then_names_it(tmp_path: Path) -> None:
    path = tmp_path / "part.parquet"
    path.symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left on device") as caught, Naming(str(path)):
        pa.OSFile(str(path), "wb").write(b"x")
    assert caught.value.filename == str(path)


def test_error_when_it_names_its_file_or_none_then_stays_as_it_is() -> None:
    for error in (OSError(28, "full", "elsewhere"), OSError("When writing to key 'a' in bucket 'b'")):
        with pytest.raises(OSError, match=r".") as caught, Naming("here"):
            raise error
        assert caught.value is error
