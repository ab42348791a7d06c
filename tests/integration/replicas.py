"""A PostgreSQL that is a replica, of one that has ended."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from commitlog.local.postgres import EmbeddedPostgres


@contextmanager
def replica_of(primary: Path) -> Iterator[EmbeddedPostgres]:
    """One that has what the server in this directory had when it was stopped."""
    directory = primary.with_name(f"{primary.name}-replica")
    # It keeps the owner of the files, as whom PostgreSQL runs.
    subprocess.run(["cp", "-a", str(primary), str(directory)], check=True)
    (directory / "data" / "standby.signal").touch()
    with EmbeddedPostgres(directory) as replica:
        yield replica
