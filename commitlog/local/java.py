"""Finds the Java that runs the broker, and says what to do when there is none that is new enough."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from commitlog.errors import LocalRuntimeError

JAVA_VERSION_MIN = 17
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_ADVICE = (
    f"Java >= {JAVA_VERSION_MIN} is needed to run Kafka or Spark here. Debian/Ubuntu: apt-get install openjdk-21-jre-headless "
    "(Debian 12: openjdk-17-jre-headless); macOS: brew install openjdk@21; or set JAVA_HOME to one that is installed."
)


def find_java(java_home: Path | None = None) -> Path:
    """The `java` program of `java_home`, or else of PATH.

    Raises:
        LocalRuntimeError: there is none, it does not run, or it is older than `JAVA_VERSION_MIN`.
    """
    java = _candidate(java_home)
    try:
        shown = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=True).stderr
    except (OSError, subprocess.SubprocessError) as error:
        raise LocalRuntimeError(f"{java} does not run ({error}). {_ADVICE}") from error
    version = _VERSION.search(shown)
    if version is None or int(version[1]) < JAVA_VERSION_MIN:
        found = shown.splitlines()[0] if shown else "no version"
        raise LocalRuntimeError(f"{java} is too old ({found}). {_ADVICE}")
    return java


def _candidate(java_home: Path | None) -> Path:
    if java_home is not None:
        java = java_home / "bin" / "java"
        if not java.is_file():
            raise LocalRuntimeError(f"JAVA_HOME is {java_home}, but {java} does not exist. {_ADVICE}")
        return java
    on_path = shutil.which("java")
    if on_path is None:
        raise LocalRuntimeError(f"no java on PATH, and JAVA_HOME is not set. {_ADVICE}")
    return Path(on_path)
