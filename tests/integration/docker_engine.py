"""A Docker engine, and images that are made of what this machine can get without a registry: Debian's packages and PyPI's."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from three_brokers import ROOT, make_secrets

from commitlog.config import Settings
from commitlog.local.jars import ensure_jars
from commitlog.local.java import find_java

IMAGES = Path(__file__).with_name("images")
PYTHON, SERVICE, KAFKA, POSTGRES = (f"commitlog-test-{name}" for name in ("python", "service", "kafka", "postgres"))
DEBIAN = "bookworm"
BUNDLE = Path("/etc/ssl/certs/ca-certificates.crt")
START_TIMEOUT_S = 900


def answers() -> bool:
    """Whether a Docker engine does."""
    return shutil.which("docker") is not None and _docker("info", check=False).returncode == 0


def build_images(directory: Path) -> None:
    """The service's image by the project's Dockerfile, and the servers'; Docker keeps what has not changed."""
    if _docker("image", "inspect", PYTHON, check=False).returncode != 0:
        _build_python(directory / "python")
    of_python = ("--build-arg", f"PYTHON_IMAGE={PYTHON}")
    # What is downloaded while images are built comes by this machine's own network.
    _docker("build", "--network=host", *of_python, f"--tag={SERVICE}", str(ROOT))
    _docker("build", "--network=host", *of_python, f"--tag={POSTGRES}", str(IMAGES / "postgres"))
    kafka = Path(shutil.copytree(IMAGES / "kafka", directory / "kafka"))
    (kafka / "libs").mkdir()
    settings = Settings.load(environment={})
    for jar in ensure_jars(settings.cache_dir, find_java(settings.java_home)):
        shutil.copy(jar, kafka / "libs")
    _docker("build", "--network=host", *of_python, f"--tag={KAFKA}", str(kafka))


class Project:
    """One profile of docker-compose.yml, started; no port of this machine is taken.

    Args:
        directory: a copy of what Compose reads.
        profile: which one.
    """

    def __init__(self, directory: Path, profile: str) -> None:
        self._directory = directory
        self._profile = profile
        self.variables = make_secrets(directory)
        shutil.copy(ROOT / "deploy/compose/database.sh", directory / "deploy/compose")
        told: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
        for service in told["services"].values():
            service.pop("ports", None)
        (directory / "docker-compose.yml").write_text(yaml.safe_dump(told, sort_keys=False), encoding="utf-8")

    def __enter__(self) -> Project:
        try:
            self("up", "--detach", "--no-build")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self("down", "--volumes", "--timeout", "20", "--remove-orphans")

    def __call__(self, *arguments: str) -> str:
        """What a command of Compose prints."""
        images = {"KAFKA_IMAGE": KAFKA, "POSTGRES_IMAGE": POSTGRES, "SERVICE_IMAGE": SERVICE}
        command = [*_compose(), "--profile", self._profile, "--project-name", f"commitlog-test-{self._profile}"]
        done = subprocess.run(
            [*command, *arguments],
            cwd=self._directory,
            env={**os.environ, **images},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=START_TIMEOUT_S,
        )
        assert done.returncode == 0, f"{arguments}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
        return done.stdout

    def health(self, service: str) -> str:
        """What the engine says of a service's container: starting, healthy or unhealthy."""
        container = self("ps", "--quiet", service).strip()
        return _docker("inspect", "--format={{.State.Health.Status}}", container).stdout.strip()

    def python(self, code: str, environment: Mapping[str, str]) -> str:
        """What a program prints that runs beside the service, with the package of the service's image."""
        told = [word for name, value in environment.items() for word in ("-e", f"{name}={value}")]
        service = "owner" if self._profile == "three" else "commitlog"
        return self("run", "--rm", "--no-deps", "-T", *told, "--entrypoint", "python", service, "-c", code)

    def logs(self) -> str:
        """The last lines of each container."""
        return self("logs", "--no-color", "--tail=40")


def _docker(*arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(["docker", *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 0 or not check, f"docker {arguments}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done


def _compose() -> list[str]:
    if _docker("compose", "version", check=False).returncode == 0:
        return ["docker", "compose"]
    assert shutil.which("docker-compose"), "Docker Compose is needed: apt-get install docker-compose"
    return ["docker-compose"]


def _build_python(directory: Path) -> None:
    """Debian with Python, in the place of the official image of Python, by Debian's own tool."""
    assert os.geteuid() == 0, f"{PYTHON} is made by root alone; or tag an image of yours with this name"
    assert shutil.which("debootstrap"), "debootstrap is needed: apt-get install debootstrap"
    root = directory / "root"
    packages = "--include=ca-certificates,python3,python3-dev,python3-pip,python3-venv"
    subprocess.run(["debootstrap", "--variant=minbase", packages, DEBIAN, str(root)], check=True)
    shutil.copy(BUNDLE, root / str(BUNDLE).lstrip("/"))
    with subprocess.Popen(["tar", "--create", f"--directory={root}", "."], stdout=subprocess.PIPE) as packing:
        change = [f"--change=ENV {name}={BUNDLE}" for name in ("SSL_CERT_FILE", "PIP_CERT")]
        subprocess.run(["docker", "import", *change, "-", PYTHON], stdin=packing.stdout, check=True)
    assert packing.returncode == 0
