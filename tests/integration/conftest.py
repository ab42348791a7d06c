"""What many tests here start from: a lake of their own, ids of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from gateways import gateway_of
from lakes import Lake
from log_running import Ids, seed_of

from commitlog.config import Settings


@pytest.fixture
def lake(database_url: str, lake_dir: Path) -> Iterator[Lake]:
    """A log in memory with its catalog and an empty lake."""
    lake = Lake(database_url, lake_dir)
    yield lake
    lake.close()


@pytest.fixture
def ids(request: pytest.FixtureRequest) -> Ids:
    """From a seed of this test's own."""
    return Ids(seed_of(request.node.name))


@pytest.fixture
def gateway_url(settings: Settings, deciding: None) -> Iterator[str]:
    """The URL of the catalog through a gateway, for its owner."""
    with gateway_of(settings) as url:
        yield url
