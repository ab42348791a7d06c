"""The classes that a broker loads, kept for the next one: with the Java and the broker that are here."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import psutil
import pytest

from commitlog.config import Settings
from commitlog.local import EmbeddedBroker
from commitlog.local.archiving import archive_classes
from commitlog.local.jars import class_archive, jars_dir
from commitlog.local.java import find_java


@pytest.fixture
def own_cache(tmp_path: Path) -> Settings:
    """Settings whose cache has this user's jars, and nothing that was made of them."""
    settings = Settings.load(environment={})
    own = dataclasses.replace(settings, cache_dir=tmp_path / "cache")
    jars_dir(own.cache_dir).mkdir(parents=True)
    for jar in jars_dir(settings.cache_dir).glob("*.jar"):
        (jars_dir(own.cache_dir) / jar.name).symlink_to(jar)
    return own


def maps(broker: EmbeddedBroker, archive: Path) -> bool:
    return str(archive) in {mapped.path for mapped in psutil.Process(broker.pid).memory_maps()}


def test_classes_when_kept_then_brokers_use_them_and_do_without_damaged_ones(
    own_cache: Settings, tmp_path: Path
) -> None:
    java = find_java(own_cache.java_home)
    archive, said = class_archive(own_cache.cache_dir, java), []
    archive_classes(own_cache, java, progress=said.append)
    assert said == ["keeping the classes that a broker loads, with which it starts faster"]
    archive_classes(own_cache, java, progress=said.append)
    assert len(said) == 1, "it is there"
    broker = EmbeddedBroker(tmp_path / "broker", is_open=True, settings=own_cache)
    with broker:
        assert maps(broker, archive)

    copied = next(jars_dir(own_cache.cache_dir).glob("kafka-clients-*.jar"))
    original = copied.resolve()
    copied.unlink()
    shutil.copy(original, copied)
    assert class_archive(own_cache.cache_dir, java) != archive, (
        "Java takes the classes from the files that they were read from"
    )
    copied.unlink()
    copied.symlink_to(original)
    archive.chmod(0o600)
    with archive.open("r+b") as file:
        for place in range(1 << 20, archive.stat().st_size, 1 << 14):
            file.seek(place)
            file.write(b"\xff" * 64)
    with broker:
        assert not maps(broker, archive)


def test_classes_when_java_cannot_keep_them_then_says_so_and_leaves_nothing(
    own_cache: Settings, tmp_path: Path
) -> None:
    said: list[str] = []
    archive_classes(dataclasses.replace(own_cache, java_home=tmp_path / "none"), find_java(), progress=said.append)
    assert said[1].startswith("brokers will start without them: JAVA_HOME is ")
    left = {path.name for path in jars_dir(own_cache.cache_dir).iterdir() if path.suffix != ".jar"}
    assert left == {".lock"}
