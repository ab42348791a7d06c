"""What was read as frames of other libraries, where those are installed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from importlib.util import find_spec
from typing import TYPE_CHECKING

from commitlog.errors import InvalidRequestError

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa


class Frames(ABC):
    """Rows that somebody reads, as he likes to have them."""

    @abstractmethod
    def to_arrow(self) -> pa.Table:
        """The rows as an Arrow table.

        Raises:
            DataFileError: a file is gone, or holds what the table's columns cannot.
        """

    def to_polars(self) -> pl.DataFrame:
        """The rows as a Polars frame.

        Raises:
            InvalidRequestError: Polars is not installed.
        """
        _check_installed("polars", "to_polars()")
        import polars

        found = polars.from_arrow(self.to_arrow())
        assert isinstance(found, polars.DataFrame)
        return found

    def to_pandas(self) -> pd.DataFrame:
        """The rows as a pandas frame.

        Raises:
            InvalidRequestError: pandas is not installed.
        """
        _check_installed("pandas", "to_pandas()")
        return self.to_arrow().to_pandas()


def _check_installed(package: str, call: str) -> None:
    if find_spec(package) is None:
        raise InvalidRequestError(f"{call} needs {package}, which is not installed: pip install {package}")
