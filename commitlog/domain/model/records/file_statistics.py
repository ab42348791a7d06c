"""Generated from schemas/file_statistics.avsc by `make records`: the values."""

from __future__ import annotations

from typing import ClassVar, Final

from mypy_extensions import mypyc_attr

from commitlog.domain.model.record import Record
from commitlog.domain.model.values import Scalar


@mypyc_attr(acyclic=True)
class ColumnStatistics(Record):
    """What a file's writer knows of one column; None is unknown.

    column: Name of the column.
    min: Not above any value; null: unknown.
    max: Not below any value; null: unknown.
    null_count: NULLs in it.
    value_count: Values in it; NULLs do not count.
    contains_nan: Whether NaN is among them.
    size_bytes: Of the column in the file.
    """

    __slots__ = ("column", "contains_nan", "max", "min", "null_count", "size_bytes", "value_count")

    FIELDS: ClassVar[tuple[str, ...]] = (
        "column",
        "min",
        "max",
        "null_count",
        "value_count",
        "contains_nan",
        "size_bytes",
    )

    def __init__(
        self,
        column: str,
        min: Scalar = None,
        max: Scalar = None,
        null_count: int | None = None,
        value_count: int | None = None,
        contains_nan: bool | None = None,
        size_bytes: int | None = None,
    ) -> None:
        self.column: Final = column
        self.min: Final = min
        self.max: Final = max
        self.null_count: Final = null_count
        self.value_count: Final = value_count
        self.contains_nan: Final = contains_nan
        self.size_bytes: Final = size_bytes
