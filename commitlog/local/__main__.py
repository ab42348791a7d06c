"""`python -m commitlog.local` downloads the broker's jars and nothing else, for `make env` and for images."""

from __future__ import annotations

import sys

from commitlog.config import Settings
from commitlog.errors import CommitLogError
from commitlog.local.jars import ensure_jars
from commitlog.local.java import find_java


def main() -> None:
    """Downloads what is missing, saying so."""
    try:
        settings = Settings.load()
        ensure_jars(
            settings.cache_dir,
            find_java(settings.java_home),
            maven_url=settings.maven_url,
            progress=lambda line: print(line, flush=True),
        )
    except CommitLogError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
