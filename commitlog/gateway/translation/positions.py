"""What a delete file says."""

from __future__ import annotations

import pyarrow.parquet as pq
from pyroaring import BitMap64

from commitlog.gateway.translation.base import Base


def positions_in(base: Base, path: str) -> BitMap64:
    """The positions of the rows that a delete file deletes, by its full path."""
    with base.open(path) as file:
        places = pq.read_table(file, columns=["pos"]).column("pos")
    return BitMap64(places.to_numpy())
