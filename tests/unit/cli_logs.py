"""The command line on a log in memory, for unit tests."""

from __future__ import annotations

import json
from contextlib import nullcontext
from typing import Any

import pytest
from click.testing import CliRunner, Result

from commitlog.catalog.reader import CatalogReader
from commitlog.client import CommitLog
from commitlog.ops.cli import cli
from commitlog.testing import InMemoryCommitLog


class CliLog:
    """Runs commands, all of which are connected to one log in memory."""

    def __init__(self, log: InMemoryCommitLog, monkeypatch: pytest.MonkeyPatch) -> None:
        self.log = log
        monkeypatch.setattr(CommitLog, "connect", lambda **_: log)
        # A command closes its connection; the log, which this one is, goes on.
        monkeypatch.setattr(log, "close", lambda: None)
        monkeypatch.setattr(CatalogReader, "connected", lambda _: nullcontext())

    def run(self, *arguments: str, given: str | None = None, code: int = 0) -> Result:
        done = CliRunner().invoke(cli, list(arguments), input=given, catch_exceptions=False)
        assert done.exit_code == code, done.output
        return done

    def lines(self, *arguments: str) -> list[str]:
        return [line.rstrip() for line in self.run(*arguments).stdout.splitlines()]

    def json(self, *arguments: str, given: str | None = None, code: int = 0) -> list[Any]:
        return [json.loads(line) for line in self.run(*arguments, "--json", given=given, code=code).stdout.splitlines()]
