"""What is looked up in the files that a client wrote, and in delete files that were there; what is said of unreachable ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap64

from commitlog.adoption.files import ROW_ID
from commitlog.client.files.footers import footer_at_end
from commitlog.errors import DataFileError, NotUnderstoodError
from commitlog.gateway.translation.base import Base


def footer_of(base: Base, path: str) -> Any:
    """The footer of a Parquet file, as Arrow has it."""
    with _told(path), base.open(path) as file:
        return footer_at_end(path, file).metadata


def positions_in(base: Base, path: str) -> BitMap64:
    """The positions of the rows that a delete file deletes."""
    with _opened(base, path) as file:
        return BitMap64(file.read(columns=["pos"]).column(0).to_numpy())


def row_ids_in(base: Base, path: str) -> list[int] | None:
    """The row ids, or the client's numbers in their place, that a data file carries; None when it carries none."""
    with _opened(base, path) as file:
        if ROW_ID not in file.schema_arrow.names:
            return None
        found: list[int] = file.read(columns=[ROW_ID]).column(0).to_pylist()
        return found


@contextmanager
def _opened(base: Base, path: str) -> Iterator[Any]:
    with _told(path), base.open(path) as file:
        yield pq.ParquetFile(file)


@contextmanager
def written_in(folder: str) -> Iterator[None]:
    """Within it files are written in a table's folder, with a slash at its end."""
    try:
        yield
    except (OSError, DataFileError) as error:
        raise NotUnderstoodError(
            f"files that the gateway has to write anew, and cannot write in {folder} ({_first_line(error)}): it needs the "
            "right and the room to do so"
        ) from None


@contextmanager
def _told(path: str) -> Iterator[None]:
    try:
        yield
    except (OSError, pa.ArrowInvalid, DataFileError) as error:
        raise NotUnderstoodError(
            f"a file that the gateway cannot read, {path} ({_first_line(error)}): the lake's folder must be reached by its "
            "clients and by the gateway under one path"
        ) from None


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]
