"""`commitlog config`: the settings of here, and where each comes from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from commitlog.ops.cli import cli, options


def test_config_show_when_sources_differ_then_each_value_and_its_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "commitlog.toml").write_text('partitions = 7\n[kafka]\n"sasl.password" = "hush"\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COMMITLOG_DATABASE_URL", "postgresql://me:hush@db/lake")
    done = CliRunner().invoke(cli, ["config", "show", "--json", "--log", "orders"])
    assert done.exit_code == 0
    assert "hush" not in done.stdout
    found = {each["setting"]: each for each in map(json.loads, done.stdout.splitlines())}
    assert found["log"] == {"setting": "log", "value": "orders", "source": "argument log"}
    assert found["database_url"]["source"] == "environment variable COMMITLOG_DATABASE_URL"
    assert found["partitions"] == {"setting": "partitions", "value": "7", "source": "commitlog.toml: partitions"}
    assert found["kafka.sasl.password"]["value"] == "***"
    assert found["log_id"] == {"setting": "log_id", "value": None, "source": "default of log_id"}
    assert found["staleness_ms"]["source"] == "default of staleness_ms"


def test_config_show_when_the_terminal_is_narrow_then_no_value_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(options, "shown_width", lambda: 60)
    done = CliRunner().invoke(cli, ["config", "show"], env={"COMMITLOG_REGISTRY_URL": "http://" + "r" * 80})
    assert done.stdout.count("r" * 15) >= 4
    assert "…" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 60


def test_config_reference_when_printed_then_the_page() -> None:
    done = CliRunner().invoke(cli, ["config", "reference"])
    assert done.stdout == (Path(__file__).parents[2] / "docs" / "settings.md").read_text()
