"""Which form of the core runs: compiled by mypyc, or its sources interpreted. The same sources and rules either way.

``hatch_build.py``, in the root of the repository, lists what is compiled. It leaves extension modules beside the sources
and then a record of what they were made of. Python takes an extension module before a source, so one that was changed since
would run as it was before: unless all sources are as recorded, none of the extension modules is taken.

``COMMITLOG_CORE`` says which form must run: ``interpreted``, or ``compiled``, which fails where that cannot be. Without it
the compiled form runs where it can. It is read here, and not with the settings, because it must be known before anything
else is imported.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Sequence
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES, SOURCE_SUFFIXES, FileFinder, ModuleSpec, SourceFileLoader
from pathlib import Path
from types import ModuleType

COMPILED, INTERPRETED = "compiled", "interpreted"
SWITCH = "COMMITLOG_CORE"
SUFFIX = EXTENSION_SUFFIXES[0]
PACKAGE = Path(__file__).resolve().parent
RECORD = Path(__file__).with_name(f"compiled{SUFFIX}.json")

form = INTERPRETED
"""What runs in this process."""
reason = ""
"""Why it is not the compiled form, in words; empty when it is."""


def choose() -> None:
    """Settle which form this process runs, before any other module of the package is imported.

    Raises:
        ImportError: the form that the environment asks for is unknown, or cannot be had.
    """
    global form, reason
    wanted = os.environ.get(SWITCH) or None
    if wanted not in (None, COMPILED, INTERPRETED):
        raise ImportError(f"the environment variable {SWITCH} is {wanted!r}: it can be {COMPILED} or {INTERPRETED}")
    reason = f"{SWITCH} asks for it" if wanted == INTERPRETED else unfit()
    if not reason:
        form = COMPILED
    elif wanted == COMPILED:
        raise ImportError(f"the environment variable {SWITCH} asks for the compiled core, but {reason}")
    else:
        form = INTERPRETED
        sys.meta_path.insert(0, _SourcesOnly())


def unfit() -> str:
    """Why the compiled modules cannot run, in words; empty when they can."""
    try:
        recorded = json.loads(RECORD.read_bytes())
    except FileNotFoundError:
        return "it was not compiled"
    for name, made_of in recorded.items():
        source = PACKAGE.parent / name
        if not source.with_name(source.stem + SUFFIX).exists():
            return f"{source.stem + SUFFIX} is gone"
        if not source.exists() or fingerprint(source) != made_of:
            return f"{name} was changed after it was compiled"
    return ""


def fingerprint(source: Path) -> str:
    """What a source is known by in the record."""
    return hashlib.blake2b(source.read_bytes(), digest_size=16).hexdigest()


def described() -> str:
    """The form that runs, and why if one may wonder."""
    return f"{form} ({reason})" if reason else form


class _SourcesOnly:
    """Finds this package's modules as if no extension module lay beside them."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if path is None or not fullname.startswith("commitlog."):
            return None
        return next((spec for entry in path if (spec := _sources_in(entry).find_spec(fullname, target))), None)


@cache
def _sources_in(directory: str) -> FileFinder:
    return FileFinder(directory, (SourceFileLoader, SOURCE_SUFFIXES))
