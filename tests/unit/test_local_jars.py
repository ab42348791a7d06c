"""The jar cache: only what is pinned is ever used. Ivy is real but reads from a directory instead of the network."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from pyspark.sql import SparkSession

from commitlog.config import Settings
from commitlog.errors import LocalRuntimeError
from commitlog.local.jars import KAFKA_VERSION, Jar, ensure_jars, pinned_jars
from commitlog.local.java import find_java
from commitlog.ops.local_spark import local_spark
from pyspark_commitlog import DefaultSource


def published(repository: Path, artifact: str, content: bytes) -> Jar:
    place = repository / "org" / "example" / artifact / "1.0"
    place.mkdir(parents=True, exist_ok=True)
    (place / f"{artifact}-1.0.jar").write_bytes(content)
    return Jar("org.example", artifact, "1.0", hashlib.sha256(content).hexdigest())


def test_pinned_jars_when_read_then_name_kafka_and_each_file_once() -> None:
    jars = pinned_jars()
    assert Jar("org.apache.kafka", "kafka_2.13", KAFKA_VERSION, jars_by_name()["kafka_2.13"].sha256) in jars
    assert len({jar.file_name for jar in jars}) == len(jars)
    assert all(len(jar.sha256) == 64 for jar in jars)


def jars_by_name() -> dict[str, Jar]:
    return {jar.artifact: jar for jar in pinned_jars()}


def test_ensure_jars_when_many_start_at_once_then_one_downloads(tmp_path: Path) -> None:
    jars = [published(tmp_path / "maven", "a", b"first"), published(tmp_path / "maven", "b", b"second")]
    said: list[str] = []

    def ensure(_: int) -> tuple[Path, ...]:
        url = (tmp_path / "maven").as_uri()
        return ensure_jars(tmp_path / "cache", find_java(), maven_url=url, progress=said.append, jars=jars)

    with ThreadPoolExecutor(4) as pool:
        results = set(pool.map(ensure, range(4)))

    assert [path.read_bytes() for path in results.pop()] == [b"first", b"second"]
    assert not results
    assert len([line for line in said if line.startswith("downloading 2 jars")]) == 1


def test_ensure_jars_when_a_cached_jar_is_damaged_then_downloads_it_again(tmp_path: Path) -> None:
    jars = [published(tmp_path / "maven", "a", b"first"), published(tmp_path / "maven", "b", b"second")]
    url = (tmp_path / "maven").as_uri()
    first, _ = ensure_jars(tmp_path / "cache", find_java(), maven_url=url, jars=jars)
    first.write_bytes(b"damaged")
    said: list[str] = []

    ensure_jars(tmp_path / "cache", find_java(), maven_url=url, progress=said.append, jars=jars)

    assert first.read_bytes() == b"first"
    assert said[0].startswith("downloading 1 jars")


def test_ensure_jars_when_the_repository_serves_another_file_then_refuses_and_keeps_nothing(tmp_path: Path) -> None:
    jar = published(tmp_path / "maven", "a", b"right")
    published(tmp_path / "maven", "a", b"wrong")

    with pytest.raises(LocalRuntimeError, match=r"a-1\.0\.jar is not the pinned file"):
        ensure_jars(tmp_path / "cache", find_java(), maven_url=(tmp_path / "maven").as_uri(), jars=[jar])

    assert not list((tmp_path / "cache").rglob("*.jar"))


def test_ensure_jars_when_the_repository_has_it_not_then_says_what_to_do(tmp_path: Path) -> None:
    jar = Jar("org.example", "a", "1.0", "0" * 64)
    (tmp_path / "maven").mkdir()
    with pytest.raises(LocalRuntimeError, match="COMMITLOG_MAVEN_URL"):
        ensure_jars(tmp_path / "cache", find_java(), maven_url=(tmp_path / "maven").as_uri(), jars=[jar])


def test_fetching_when_the_cache_cannot_be_made_then_says_so_in_a_line(tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.touch()
    environment = {**os.environ, "COMMITLOG_CACHE_DIR": str(taken / "cache")}
    fetching = [sys.executable, "-m", "commitlog.local"]
    ended = subprocess.run(fetching, env=environment, capture_output=True, text=True)
    assert ended.returncode == 1
    [line] = ended.stderr.splitlines()
    assert str(taken) in line


@pytest.mark.parametrize(
    ("shown", "why"),
    [('openjdk version "11.0.2" 2019-01-15', "too old"), ('java version "1.8.0_381"', "too old"), ("what?", "too old")],
)
def test_find_java_when_it_is_too_old_then_says_how_to_get_one(tmp_path: Path, shown: str, why: str) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho '{shown}' >&2\n")
    java.chmod(0o755)
    with pytest.raises(LocalRuntimeError, match=why) as error:
        find_java(tmp_path)
    assert "apt-get install" in str(error.value)
    settings = Settings.load(environment={"JAVA_HOME": str(tmp_path)})
    with pytest.raises(LocalRuntimeError, match=why), local_spark(settings, tmp_path):
        pass


@pytest.mark.parametrize("shown", ['openjdk version "17.0.15" 2025-04-15', 'openjdk version "25" 2025-09-16'])
def test_find_java_when_it_is_new_enough_then_gives_it(tmp_path: Path, shown: str) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho '{shown}' >&2\n")
    java.chmod(0o755)
    assert find_java(tmp_path) == java


SHOWS_HOW_SPARK_IS_STARTED = """#!/bin/sh
case "$*" in
  -version) echo 'openjdk version "21.0.2" 2024-01-16' >&2 ;;
  *org.apache.spark.launcher.Main*) exec "{java}" "$@" ;;
  *) printf '%s\\n' "$@" >&2; exit 1 ;;
esac
"""
STARTS_SPARK = """
import sys
from pathlib import Path

from commitlog.config import Settings
from commitlog.errors import LocalRuntimeError
from commitlog.ops.local_spark import local_spark

try:
    with local_spark(Settings.load(environment={}, java_home=sys.argv[1]), Path(sys.argv[2])):
        pass
except LocalRuntimeError as error:
    print(str(error).splitlines()[0])
"""


def test_local_spark_when_its_java_fails_then_says_so_and_that_java_was_given_no_part_of_a_path(tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(SHOWS_HOW_SPARK_IS_STARTED.format(java=find_java()))
    java.chmod(0o755)
    home = tmp_path / "with a space"
    # A process of its own: Spark starts no second Java in one that has a session.
    line = [sys.executable, "-c", STARTS_SPARK, str(tmp_path), str(home)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=280)
    assert done.stdout == "Spark did not start:\n", done.stderr
    arguments = iter((home / "spark.log").read_text().splitlines())
    assert "-cp" in arguments
    next(arguments)
    assert next(each for each in arguments if not each.startswith("-")) == "org.apache.spark.deploy.SparkSubmit"


def test_local_spark_when_it_runs_then_it_need_not_look_for_our_data_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder = MagicMock()
    for method in ("master", "appName", "config"):
        getattr(builder, method).return_value = builder
    monkeypatch.setattr(SparkSession, "builder", builder)
    with local_spark(Settings.load(environment={}), tmp_path) as session:
        session.dataSource.register.assert_called_once_with(DefaultSource)  # type: ignore[attr-defined]


def test_find_java_when_there_is_none_then_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LocalRuntimeError, match="no java on PATH"):
        find_java()
    with pytest.raises(LocalRuntimeError, match="JAVA_HOME is"):
        find_java(tmp_path)
