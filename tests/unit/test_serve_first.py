"""Two services that are the first of their log at the same moment."""

from __future__ import annotations

from pathlib import Path

import pytest

from commitlog.client.files.lake import claim
from commitlog.config import Settings
from commitlog.domain.model import Genesis, LogSettings
from commitlog.errors import ConfigurationError
from commitlog.log import genesis
from commitlog.ops.service.serve import check_places

MADE = Genesis(log_id=bytes(range(16)), partitions=4, created_at_ms=0, settings=LogSettings(), data_path=None)


@pytest.mark.parametrize("looks", [[None, MADE], [MADE]])
def test_check_path_when_another_made_the_log_meanwhile_then_its_mark_is_no_other_logs(
    looks: list[Genesis | None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lake").mkdir()
    claim(str(tmp_path / "lake"), MADE.log_id, "main")
    monkeypatch.setattr(genesis, "find_genesis", lambda settings: looks.pop(0))
    check_places(Settings.load(environment={}, log="main", data_path=str(tmp_path / "lake"), home=tmp_path / "home"))
    assert looks == []


def test_check_path_when_the_log_is_not_there_then_a_mark_is_another_logs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lake").mkdir()
    claim(str(tmp_path / "lake"), MADE.log_id, "main")
    monkeypatch.setattr(genesis, "find_genesis", lambda settings: None)
    with pytest.raises(ConfigurationError, match="belongs to another log main"):
        check_places(
            Settings.load(environment={}, log="main", data_path=str(tmp_path / "lake"), home=tmp_path / "home")
        )
