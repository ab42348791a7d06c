"""The broker's jars: downloaded once for each user, by the Ivy that ships in pyspark, and checked at every start.

The list of jars is committed with the SHA-256 of each, so that neither a mirror nor a damaged disk can run anything
else. Jars arrive in a directory of their own and are moved into place only when they are right; a file lock lets many
first starts wait for one download.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import quoteattr

from commitlog.errors import LocalRuntimeError

KAFKA_VERSION = "4.3.1"
Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Jar:
    """One pinned jar."""

    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def file_name(self) -> str:
        return f"{self.artifact}-{self.version}.jar"

    def is_right(self, directory: Path) -> bool:
        """Whether the directory has this jar, with the pinned checksum."""
        try:
            with (directory / self.file_name).open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest() == self.sha256
        except FileNotFoundError:
            return False


def pinned_jars() -> tuple[Jar, ...]:
    """The committed list."""
    lines = Path(__file__).with_name("broker-jars.txt").read_text(encoding="utf-8").splitlines()
    pinned = []
    for line in lines:
        if line and not line.startswith("#"):
            coordinates, sha256 = line.split()
            group, artifact, version = coordinates.split(":")
            pinned.append(Jar(group, artifact, version, sha256))
    return tuple(pinned)


def jars_dir(cache_dir: Path) -> Path:
    """Where this version's jars are, and what is made of them."""
    return cache_dir / f"kafka-{KAFKA_VERSION}"


def class_archive(cache_dir: Path, java: Path) -> Path:
    """Where the classes of the jars are, as a `java` keeps them (`archiving`). It takes them only from the very files that they
    were read from: an update of Java, or a jar that was downloaded again, wants another archive."""
    directory = jars_dir(cache_dir)
    files = (java.resolve(), *sorted(directory.glob("*.jar")))
    build = hashlib.sha256("".join(f"{file} {file.stat().st_mtime_ns}\n" for file in files).encode())
    return directory / f"classes-{build.hexdigest()[:12]}.jsa"


def ensure_jars(
    cache_dir: Path,
    java: Path,
    *,
    maven_url: str | None = None,
    progress: Progress = lambda line: None,
    jars: Sequence[Jar] = (),
) -> tuple[Path, ...]:
    """The paths of the broker's jars, downloaded first where they are missing or not what was pinned.

    Args:
        cache_dir: this user's cache; shared by every home and by tests.
        java: runs Ivy.
        maven_url: a mirror; None is Maven Central.
        progress: is told about each download, one line at a time.
        jars: instead of the committed list.

    Raises:
        LocalRuntimeError: a download failed, or a jar is not the pinned one.
    """
    wanted = jars or pinned_jars()
    directory = jars_dir(cache_dir)
    if not all(jar.is_right(directory) for jar in wanted):
        directory.mkdir(parents=True, exist_ok=True)
        with locked(directory / ".lock"):
            missing = [jar for jar in wanted if not jar.is_right(directory)]
            if missing:
                _download(missing, directory, java, maven_url, progress)
    return tuple(directory / jar.file_name for jar in wanted)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Waits until no other process has the lock of this name."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _download(jars: Sequence[Jar], directory: Path, java: Path, maven_url: str | None, progress: Progress) -> None:
    progress(f"downloading {len(jars)} jars of Kafka {KAFKA_VERSION} (44 MB in all) to {directory}")
    with tempfile.TemporaryDirectory(dir=directory, prefix=".download-") as name:
        workplace = Path(name)
        _run_ivy(jars, workplace, java, maven_url, progress)
        for jar in jars:
            if not jar.is_right(workplace):
                raise LocalRuntimeError(
                    f"{jar.file_name} is not the pinned file (SHA-256 {jar.sha256} was expected). Something between "
                    "here and the repository changed it; check the mirror or proxy, then try again."
                )
            os.replace(workplace / jar.file_name, directory / jar.file_name)
    progress(f"Kafka {KAFKA_VERSION} is ready")


def _run_ivy(jars: Sequence[Jar], workplace: Path, java: Path, maven_url: str | None, progress: Progress) -> None:
    settings, module = workplace / "settings.xml", workplace / "ivy.xml"
    settings.write_text(_ivy_settings(maven_url), encoding="utf-8")
    module.write_text(_ivy_module(jars), encoding="utf-8")
    command = [
        *(str(java), f"-Duser.home={workplace}", "-jar", str(_ivy_jar())),
        *("-settings", str(settings), "-cache", str(workplace / "cache"), "-ivy", str(module)),
        *("-retrieve", f"{workplace}/[artifact]-[revision].[ext]"),
    ]
    said: list[str] = []
    arrived = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as ivy:
        assert ivy.stdout is not None
        for line in ivy.stdout:
            said.append(line.rstrip())
            if "[SUCCESSFUL ]" in line:
                arrived += 1
                progress(f"  {arrived:2}/{len(jars)} {line.split('!')[0].split('#')[-1].replace(';', ' ')}")
    if ivy.returncode != 0:
        shown = "\n".join(f"  {line}" for line in said if "::" in line or "ERROR" in line or "WARN" in line)
        raise LocalRuntimeError(
            f"the Kafka jars could not be downloaded:\n{shown}\nIs there a way to Maven Central from here? A mirror "
            "can be set with COMMITLOG_MAVEN_URL; a proxy with JAVA_TOOL_OPTIONS=-Dhttps.proxyHost=..."
        )


def _ivy_settings(maven_url: str | None) -> str:
    # POMs are left out: the list already is what they resolve to, and reading them takes four times as long.
    root = "" if maven_url is None else f"root={quoteattr(maven_url)} "
    return (
        '<ivysettings><settings defaultResolver="maven"/><resolvers>'
        f'<ibiblio name="maven" {root}m2compatible="true" usepoms="false"/></resolvers></ivysettings>'
    )


def _ivy_module(jars: Sequence[Jar]) -> str:
    dependencies = "".join(
        f'<dependency org="{jar.group}" name="{jar.artifact}" rev="{jar.version}" transitive="false"/>' for jar in jars
    )
    return (
        '<ivy-module version="2.0"><info organisation="commitlog" module="broker"/>'
        f"<dependencies>{dependencies}</dependencies></ivy-module>"
    )


def _ivy_jar() -> Path:
    spark = importlib.util.find_spec("pyspark")
    for place in (spark.submodule_search_locations or []) if spark else []:
        for jar in sorted(Path(place, "jars").glob("ivy-*.jar")):
            return jar
    raise LocalRuntimeError("pyspark, whose Ivy downloads Kafka, is not installed: pip install 'commitlog[local]'")
