"""`python -m commitlog.local` fetches the broker and makes its start fast, and nothing else, for `make env` and for images."""

from __future__ import annotations

import sys

from commitlog.config import Settings
from commitlog.errors import CommitLogError
from commitlog.local.archiving import archive_classes
from commitlog.local.jars import ensure_jars
from commitlog.local.java import find_java


def main() -> None:
    """Makes what is missing, saying so."""
    try:
        settings = Settings.load()
        java = find_java(settings.java_home)
        ensure_jars(settings.cache_dir, java, maven_url=settings.maven_url, progress=_say)
        archive_classes(settings, java, progress=_say)
    except (CommitLogError, OSError) as error:
        sys.exit(str(error))


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    main()
