"""Whether the disks of this machine, on which a log's own places are, have room left."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from commitlog.config import Settings

FREE_BYTES_MIN = 64 * 2**20
"""A disk with less is full: Kafka makes segments of a topic longer than that."""


def full_disks(settings: Settings) -> Iterator[str]:
    """Which of the places that this machine can look at have no room left, in words; of two on one disk the first."""
    seen = set()
    places = {
        "home": settings.home,
        "lake": _local(settings.data_path),
        "checkpoints": settings.checkpoint_dir,
        # Where `up` runs them, which may each have a disk of its own.
        "broker": settings.home / "kafka" / "data",
        "database": settings.home / "postgres" / "data",
    }
    for what, place in places.items():
        try:
            folder = None if place is None else next((each for each in (place, *place.parents) if each.is_dir()), None)
            if folder is None or (disk := folder.stat().st_dev) in seen:
                continue
            free_bytes = shutil.disk_usage(folder).free
        except OSError:
            # Only another user may look there, or its disk is gone.
            continue
        seen.add(disk)
        if free_bytes < FREE_BYTES_MIN:
            yield f"the disk of the {what} is full: {free_bytes / 2**20:,.0f} MiB are left at {folder}; make room"


def _local(path: str) -> Path | None:
    if path.startswith("file://"):
        return Path(path.removeprefix("file://"))
    return None if "://" in path else Path(path).absolute()
