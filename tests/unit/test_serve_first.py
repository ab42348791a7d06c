"""Services as they begin: two that are the first of their log at the same moment, and one whose servers are away."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from commitlog.client.files.lake import claim
from commitlog.config import Settings
from commitlog.domain.model import Genesis, LogSettings
from commitlog.errors import ConfigurationError, LogUnavailableError
from commitlog.log import genesis
from commitlog.ops.service import serve
from commitlog.ops.service.listening import measures_note, running_at
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


def test_serve_when_kafka_is_away_at_its_start_then_it_lives_and_says_that_it_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings.load(environment={}, home=tmp_path, metrics_port=0)
    told = []

    def attempts() -> Iterator[Exception]:
        yield LogUnavailableError("kafka:9092")
        address = running_at(settings, measures_note("serve"))
        assert address is not None
        with urlopen(f"{address}livez", timeout=60) as answer:
            told.append(answer.status)
        with pytest.raises(HTTPError) as refused:
            urlopen(f"{address}readyz", timeout=60)
        told.append(refused.value.code)
        assert refused.value.read().startswith(
            b"serve is waiting and will try again: Kafka at kafka:9092 does not answer"
        )
        yield ConfigurationError("enough")

    errors = attempts()

    def prepare(*_: object, **__: object) -> None:
        raise next(errors)

    monkeypatch.setattr(serve, "prepare", prepare)
    with pytest.raises(ConfigurationError, match="enough"):
        serve.serve(settings)
    assert told == [200, 503]
