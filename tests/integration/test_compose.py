"""docker-compose.yml as an operator starts it, where a Docker engine answers; images are of local parts (docker_engine.py)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from docker_engine import Project, answers, build_images
from log_running import wait_until

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(not answers(), reason="no Docker engine answers here, and commitlog needs none"),
]
HEALTHY_TIMEOUT_S = 600.0
COMMITS = """
from commitlog import CommitLog
with CommitLog.connect() as log, log.transaction() as tx:
    tx.create_table("{table}", {{"id": "int64"}})
print(tx.outcome.snapshot_id)
"""
NO_RIGHTS = """
import os, psycopg
with psycopg.connect(os.environ["COMMITLOG_DATABASE_URL"]) as database:
    row = database.execute("SELECT rolsuper, rolcreaterole, rolcreatedb FROM pg_roles WHERE rolname = current_user").fetchone()
print(any(row))
"""


@pytest.fixture(scope="module", autouse=True)
def images(tmp_path_factory: pytest.TempPathFactory) -> None:
    build_images(tmp_path_factory.mktemp("images"))


@pytest.fixture
def project(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Project]:
    with Project(tmp_path, request.param) as project:
        try:
            yield project
        finally:
            print(project.logs())


def wait_until_healthy(project: Project, *services: str) -> None:
    for service in services:
        wait_until(lambda: project.health(service) == "healthy", f"{service} healthy", deadline_s=HEALTHY_TIMEOUT_S)  # noqa: B023


@pytest.mark.parametrize("project", ["single"], indirect=True)
def test_single_when_started_then_it_commits_compiled_and_without_a_superuser(project: Project) -> None:
    wait_until_healthy(project, "kafka", "postgres", "commitlog")
    assert project.python(COMMITS.format(table="first"), {}).split() == ["1"]
    assert project.python(NO_RIGHTS, {}).split() == ["False"]
    assert "compiled" in project("exec", "-T", "commitlog", "commitlog", "--version")
    project("exec", "-T", "commitlog", "commitlog", "status")
    project("restart", "commitlog")
    wait_until_healthy(project, "commitlog")
    assert project.python(COMMITS.format(table="second"), {}).split() == ["2"]


@pytest.mark.parametrize("project", ["three"], indirect=True)
def test_three_when_a_broker_and_then_the_service_is_killed_then_a_writer_is_answered(project: Project) -> None:
    writer = {
        "COMMITLOG_KAFKA_SASL_USERNAME": "writer",
        "COMMITLOG_KAFKA_SASL_PASSWORD": project.variables["KAFKA_WRITER_PASSWORD"],
    }
    wait_until_healthy(project, "kafka-1", "kafka-2", "kafka-3", "postgres", "commitlog-1", "commitlog-2")
    assert project.python(COMMITS.format(table="first"), writer).split() == ["1"]
    assert project.python(NO_RIGHTS, {}).split() == ["False"]
    project("kill", "--signal", "KILL", "kafka-1")
    assert project.python(COMMITS.format(table="second"), writer).split() == ["2"]
    project("kill", "--signal", "KILL", "commitlog-1")
    assert project.python(COMMITS.format(table="third"), writer).split() == ["3"]
    project("up", "--detach", "--no-build")
    wait_until_healthy(project, "kafka-1", "commitlog-1", "commitlog-2")
    project("exec", "-T", "commitlog-2", "commitlog", "status")
