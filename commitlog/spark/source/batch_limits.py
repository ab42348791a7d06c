"""How much of what a table's stream has not given yet one batch takes: whole snapshots, and always one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields

from commitlog.spark.source.options import SourceOptions

SNAPSHOTS_MAX = 200
"""How many snapshots a batch has at most, where it is limited at all."""


@dataclass(frozen=True, slots=True)
class Load:
    """What one snapshot gives to a stream."""

    snapshot_id: int
    files: int
    rows: int


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """The most that a batch takes; None is no limit."""

    snapshots: int | None = None
    files: int | None = None
    rows: int | None = None

    @classmethod
    def of(cls, options: SourceOptions) -> BatchLimits:
        """Those that options say.

        Raises:
            ConfigurationError: one is no number, or 0.
        """
        return cls(
            snapshots=options.at_least_one("snapshotsPerTrigger"),
            files=options.at_least_one("maxFilesPerTrigger"),
            rows=options.at_least_one("maxRowsPerTrigger"),
        )

    @property
    def smallest(self) -> int | None:
        """More snapshots than this never fit, since each gives a row; None is no limit."""
        given = [value for each in fields(self) if (value := getattr(self, each.name)) is not None]
        return min([*given, SNAPSHOTS_MAX]) if given else None

    def last_of(self, loads: Iterable[Load]) -> int | None:
        """The last snapshot of a batch that begins with the first one; None when there is none."""
        last, files, rows = None, 0, 0
        for each in loads:
            files, rows = files + each.files, rows + each.rows
            too_much = (self.files is not None and files > self.files) or (self.rows is not None and rows > self.rows)
            if last is not None and too_much:
                break
            last = each.snapshot_id
        return last
