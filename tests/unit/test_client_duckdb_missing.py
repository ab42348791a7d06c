"""What is said where DuckDB cannot be loaded."""

from __future__ import annotations

import sys

import pytest

from commitlog.client.reading.duckdb_client import open_duckdb
from commitlog.errors import ConfigurationError


class Refusing:
    """Finds no DuckDB, with an error of its own."""

    def __init__(self, error: ImportError) -> None:
        self.error = error

    def find_spec(self, name: str, path: object, target: object = None) -> None:
        if name == "duckdb":
            raise self.error


@pytest.mark.parametrize(
    ("met", "raised", "said"),
    [
        (ModuleNotFoundError("No module named 'duckdb'", name="duckdb"), ConfigurationError, "pip install"),
        (ImportError("duckdb.so: failed to map segment"), ImportError, "failed to map segment"),
    ],
)
def test_open_duckdb_when_it_is_there_and_does_not_load_then_is_not_called_missing(
    met: ImportError, raised: type[Exception], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "duckdb", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Refusing(met), *sys.meta_path])
    with pytest.raises(raised, match=said), open_duckdb():
        pass
