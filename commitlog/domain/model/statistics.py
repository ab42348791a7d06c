"""What is known of a file's columns, as it travels: opaque until somebody looks."""

from __future__ import annotations

from typing import TypeAlias

from commitlog.domain.model.records.file_statistics import ColumnStatistics

Statistics: TypeAlias = "bytes | tuple[ColumnStatistics, ...]"
"""Opaque bytes as the writer made them (``file_statistics.avsc``), or the expanded form."""
