"""A planted password is in nothing that commitlog prints, logs or raises, whatever goes wrong with its database."""

from __future__ import annotations

import dataclasses
import logging
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from commitlog.client.reading.duckdb_client import open_lake
from commitlog.config import Settings
from commitlog.errors import CommitLogError
from commitlog.local.processes import free_port
from commitlog.log.genesis import init_log
from commitlog.ops.cli import cli
from commitlog.ops.maintenance.export import export_catalog

PASSWORD, WRITTEN = "hush p@ss/'w", "hush%20p%40ss%2F%27w"
WAYS: dict[str, Callable[[int], str]] = {
    "nobody listens": lambda _: f"postgresql://me:{WRITTEN}@127.0.0.1:{free_port()}/db",
    "in the query": lambda _: f"postgresql://127.0.0.1:{free_port()}/db?user=me&password={WRITTEN}&sslmode=disable",
    "refused": lambda port: f"postgresql://postgres:{WRITTEN}@127.0.0.1:{port}/db?connect_timeout=3",
    "not understood": lambda port: f"postgresql://postgres:{WRITTEN}@127.0.0.1:{port}/db?no_such_option=1",
}
COMMANDS = (
    ("status", "--json"),
    ("status",),
    ("doctor",),
    ("log",),
    ("clean", "--dry-run"),
    ("catalog", "rebuild"),
    ("catalog", "export", "--to", "exported"),
    ("init", "--adopt", "{url}"),
    ("init", "--adopt", "{url}", "--json", "--dry-run"),
)


def is_leaked(text: str) -> bool:
    return any(part in text for part in ("hush", "p@ss", "p%40ss"))


@pytest.mark.parametrize("way", WAYS)
def test_commands_when_the_database_cannot_be_used_then_no_password_is_told(
    settings: Settings, way: str, caplog: pytest.LogCaptureFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    init_log(settings)
    port = int(settings.database_url.rpartition(":")[2].partition("/")[0])
    url = WAYS[way](port)
    environment = dataclasses.replace(settings, database_url=url).environment()
    caplog.set_level(logging.DEBUG)
    for command in COMMANDS:
        done = CliRunner(env=environment).invoke(cli, [word.format(url=url) for word in command])
        told = done.output + caplog.text
        if done.exception is not None:
            assert isinstance(done.exception, CommitLogError | SystemExit), f"{command}: {done.exception!r}"
            told += "".join(traceback.format_exception(done.exception))
        assert not is_leaked(told), f"{command}: {told}"
        assert done.exit_code != 0, command


@pytest.mark.parametrize("way", WAYS)
def test_duckdb_when_the_database_cannot_be_used_then_no_password_is_told(
    way: str, postgres: str, tmp_path: Path
) -> None:
    url = WAYS[way](int(postgres.rpartition(":")[2].partition("/")[0]))
    with pytest.raises(CommitLogError) as opening, open_lake(url):
        pass
    with pytest.raises(CommitLogError) as exporting:
        export_catalog(url, tmp_path / "out")
    for raised in (opening, exporting):
        assert not is_leaked("".join(traceback.format_exception(raised.value)))


def test_options_of_libpq_when_given_to_duckdb_then_they_count(database_url: str) -> None:
    """The server has no TLS: what asks for it is refused, so the option has arrived."""
    with pytest.raises(CommitLogError, match="SSL"), open_lake(f"{database_url}?sslmode=require"):
        pass
