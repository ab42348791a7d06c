"""Turns of others' clients, each as its manual has it: Delta by delta-rs, Iceberg by pyiceberg with a SQL catalog.

What a client tries again by itself it tries again; an error that reaches its caller is a failed commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import deltalake
from pyiceberg.catalog import Catalog, load_catalog

from commitlog.config import Settings
from commitlog.ops.bench.turns import DELTA, ICEBERG, Took, Writer, create_database, in_one_call, sample_rows

NAMESPACE = "bench"


@dataclass(frozen=True, slots=True)
class DeltaLake:
    """Delta tables in a folder of this machine."""

    folder: str

    @classmethod
    def create(cls, settings: Settings, tables: Iterable[str]) -> DeltaLake:
        """Make them empty."""
        lake = cls(str(settings.home / DELTA))
        for table in tables:
            Path(lake.path(table)).mkdir(parents=True)
            deltalake.write_deltalake(lake.path(table), sample_rows().slice(0, 0))
        return lake

    def path(self, table: str) -> str:
        """Of one table."""
        return f"{self.folder}/{table}"

    def place(self) -> dict[str, str]:
        """For `open_writers`."""
        return asdict(self)


class DeltaWriter:
    """Appends by one call, which opens the table, writes a file and commits."""

    failures: type[Exception] = Exception

    def __init__(self, lake: DeltaLake, table: str) -> None:
        self._path, self._rows = lake.path(table), sample_rows()

    def turn(self) -> Took:
        """Write a file, commit it."""
        return in_one_call(lambda: deltalake.write_deltalake(self._path, self._rows, mode="append"))


@dataclass(frozen=True, slots=True)
class IcebergLake:
    """Iceberg tables in a folder of this machine, their catalog in PostgreSQL."""

    uri: str
    warehouse: str

    @classmethod
    def create(cls, settings: Settings, tables: Iterable[str]) -> IcebergLake:
        """Make them empty, in a new database of the PostgreSQL that the settings name."""
        folder = settings.home / ICEBERG
        folder.mkdir()
        url = create_database(settings, ICEBERG)._replace(scheme="postgresql+psycopg2").geturl()
        lake = cls(url, folder.as_uri())
        catalog = lake.connect()
        catalog.create_namespace(NAMESPACE)
        for table in tables:
            catalog.create_table(f"{NAMESPACE}.{table}", sample_rows().schema)
        return lake

    def connect(self) -> Catalog:
        """The catalog as a client opens it."""
        return load_catalog("bench", type="sql", uri=self.uri, warehouse=self.warehouse)

    def place(self) -> dict[str, str]:
        """For `open_writers`."""
        return asdict(self)


class IcebergWriter:
    """Loads the table, which others may have written to, and appends by one call, which writes a file and commits."""

    failures: type[Exception] = Exception

    def __init__(self, lake: IcebergLake, table: str) -> None:
        self._catalog, self._table, self._rows = lake.connect(), f"{NAMESPACE}.{table}", sample_rows()

    def turn(self) -> Took:
        """Write a file, commit it."""
        return in_one_call(lambda: self._catalog.load_table(self._table).append(self._rows))


def open_peers(kind: str, tables: Sequence[str], place: Mapping[str, str]) -> list[Writer]:
    """A writer for each table; see `loop_writer.open_writers`."""
    if kind == DELTA:
        return [DeltaWriter(DeltaLake(**place), table) for table in tables]
    return [IcebergWriter(IcebergLake(**place), table) for table in tables]
