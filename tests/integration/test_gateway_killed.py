"""A gateway that is killed at each step of a commit: it is committed once, with its files, or not at all."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner
from gateway_that_ends import MESSAGE, STEPS
from gateways import stock_client

from commitlog.client import CommitLog
from commitlog.client.files.lake import claim
from commitlog.config import Settings
from commitlog.log.genesis import require_genesis
from commitlog.ops.cli import cli
from commitlog.ops.service.gateway import through_gateway

COMMITTED = STEPS[STEPS.index("decided") :]
REMOVED = ("told", "at COMMIT")
"""Where the client takes its commit for failed, and removes the file."""
MAY_KNOW = ("ended",)


@contextmanager
def gateway_process(settings: Settings) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A gateway, and the URL of the catalog through it."""
    script = Path(__file__).with_name("gateway_that_ends.py")
    with subprocess.Popen(
        [sys.executable, str(script)], env=settings.environment(), stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            assert address, "the gateway has not begun"
            yield process, through_gateway(settings, address)
        finally:
            process.kill()


@pytest.mark.nightly
@pytest.mark.usefixtures("deciding")
def test_gateway_when_killed_at_each_step_of_a_commit_then_it_is_there_once_with_its_file_or_not_at_all(
    settings: Settings,
) -> None:
    folder = Path(settings.data_path)
    claim(settings.data_path, require_genesis(settings).log_id, settings.log)
    files: dict[str, Path] = {}
    with gateway_process(settings) as (_, url), stock_client(url) as client:
        client.execute("CREATE TABLE t (step VARCHAR)")
    for step in STEPS:
        with gateway_process(settings) as (process, url), stock_client(url) as client:
            client.execute("BEGIN")
            client.execute(f"CALL lake.set_commit_message('ann', '{MESSAGE.format(step)}')")
            before = set(folder.rglob("*.parquet"))
            client.execute(f"INSERT INTO t VALUES ('{step}')")
            (files[step],) = set(folder.rglob("*.parquet")) - before
            try:
                client.execute("COMMIT")
            except duckdb.Error:
                assert files[step].exists() is (step not in REMOVED), step
            else:
                assert step in MAY_KNOW
            assert process.wait() == -signal.SIGKILL, step
    with (
        gateway_process(settings) as (_, url),
        stock_client(url) as client,
        CommitLog.connect(settings=settings) as log,
    ):
        log.wait_for_snapshot()
        found = [step for (step,) in client.execute("FROM t").fetchall()]
        assert len(found) == len(set(found))
        assert set(COMMITTED) <= set(found) <= {*COMMITTED, "sent"}
        messages = {entry.message for entry in log.history(verdict="committed")}
        assert messages == {None, *(MESSAGE.format(step) for step in found)}
        assert all(files[step].exists() for step in STEPS)
    for command in ("doctor", "verify"):
        done = CliRunner().invoke(cli, [command], env=settings.environment())
        assert done.exit_code == 0, done.output
