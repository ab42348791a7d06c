"""Keeps the classes that a broker loads as Java has read and checked them: a broker then starts in two thirds of the time.

The archive is made once for each user and Java, by a broker that runs for it, and lies beside the jars. Java looks whether it
fits, and does without one that is another Java's, of other jars or damaged.
Source: JEP 350, Dynamic CDS Archives.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from commitlog.config import Settings
from commitlog.errors import LocalRuntimeError
from commitlog.local.broker import CHECKED_ARCHIVE, EmbeddedBroker
from commitlog.local.jars import Progress, class_archive, jars_dir, locked


def archive_classes(settings: Settings, java: Path, *, progress: Progress = lambda line: None) -> None:
    """Makes the archive where there is none. Where it cannot be made, says why: brokers then start without.

    Args:
        settings: where the jars are, which have to be there.
        java: will run brokers.
        progress: is told about it, one line at a time.
    """
    directory, archive = jars_dir(settings.cache_dir), class_archive(settings.cache_dir, java)
    with locked(directory / ".lock"):
        if archive.exists():
            return
        progress("keeping the classes that a broker loads, with which it starts faster")
        # Always the same folder: a broker whose parent was killed is found there, and stopped, by the next one.
        workplace = directory / ".archiving"
        made = workplace / archive.name
        try:
            with _ArchivedBroker(workplace, made, settings):
                pass
            os.replace(made, archive)
        except (LocalRuntimeError, OSError) as error:
            progress(f"brokers will start without them: {error}")
        finally:
            shutil.rmtree(workplace, ignore_errors=True)


class _ArchivedBroker(EmbeddedBroker):
    """A broker whose Java writes the classes that it has loaded when it ends."""

    STOP_TIMEOUT_S = 300.0

    def __init__(self, directory: Path, archive: Path, settings: Settings) -> None:
        super().__init__(directory, is_open=True, settings=settings)
        self._archive = archive

    def _class_options(self, java: Path) -> tuple[str, ...]:
        return (*CHECKED_ARCHIVE, f"-XX:ArchiveClassesAtExit={self._archive}")
