"""Compiles the core with mypyc: as hatchling's build hook for a wheel, and by `python hatch_build.py` in a checkout.

What is compiled is listed here and nowhere else. The extension modules lie beside their sources, and what they were made
of is recorded for `commitlog/compiled.py`, which takes them only while that is so. Without a C compiler everything works,
interpreted: a wheel is then a pure one (as it is with HATCH_BUILD_NO_HOOKS=true), and either way one line says so.
"""

from __future__ import annotations

import ast
import contextlib
import gc
import io
import json
import os
import re
import runpy
import shutil
import sys
import sysconfig
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).resolve().parent
SOURCES = (
    "commitlog/domain/model/*.py",
    "commitlog/domain/model/records/*.py",
    "commitlog/domain/state/*.py",
    "commitlog/domain/deciding/*.py",
    "commitlog/log/codec/*.py",
    "commitlog/log/codec/records/*.py",
    "commitlog/log/answers.py",
    "commitlog/log/batches.py",
    "commitlog/log/carried.py",
    "commitlog/log/carrier.py",
    "commitlog/log/carrier_line.py",
    "commitlog/log/chain.py",
    "commitlog/log/reading.py",
    "commitlog/log/reports.py",
    "commitlog/log/senders.py",
    "commitlog/log/results.py",
    "commitlog/client/access/unanswered.py",
    "commitlog/client/arguments.py",
    "commitlog/client/files/column_statistics.py",
    "commitlog/client/files/file_paths.py",
    "commitlog/client/files/given_files.py",
    "commitlog/client/files/new_files.py",
    "commitlog/client/files/places.py",
    "commitlog/client/ids.py",
    "commitlog/client/limits.py",
    "commitlog/client/submitting.py",
    "commitlog/client/tables/known_tables.py",
    "commitlog/client/writing/appending.py",
    "commitlog/client/writing/by_partition.py",
    "commitlog/client/writing/fitting.py",
    "commitlog/client/writing/parquet_file.py",
    "commitlog/client/writing/rows.py",
    "commitlog/client/writing/table_writer.py",
    "commitlog/client/writing/written.py",
    "commitlog/catalog/copying.py",
    "commitlog/catalog/packing.py",
    "commitlog/catalog/shares.py",
    "commitlog/catalog/writing.py",
    "commitlog/catalog/projecting/expiry.py",
    "commitlog/catalog/projecting/files.py",
    "commitlog/catalog/projecting/statistics.py",
    "commitlog/catalog/projecting/given_ids.py",
    "commitlog/catalog/projecting/snapshots.py",
    "commitlog/catalog/projecting/objects.py",
    "commitlog/catalog/projecting/tracking.py",
)
"""The hot closure: what is done for every proposal, as far as it is no I/O."""

LEFT_OUT = (
    "commitlog/domain/model/json_*.py",
    "commitlog/domain/model/records/*_json.py",
    "commitlog/domain/model/invalid_codes.py",
    "commitlog/domain/state/dump*.py",
    "commitlog/domain/state/digest.py",
    "commitlog/log/codec/confluent.py",
    "commitlog/log/codec/container.py",
)
"""What stands among it and is not done for every proposal: a sixth of the time that compiling takes."""

OPTIMISATION = "3"
"""A decision takes 6 % less than with 1, and `make env` eight seconds more. A linker that sees all files as one gains 2 % more,
and takes forty seconds."""

WORKSHOP = Path("build/mypyc")
NOT_COMPILED = 3

_DEALLOCATION_WITHOUT_GC = re.compile(
    r"\{\n    CPy_TRASHCAN_BEGIN\(self, \w+\)\n"
    r"(    \w+_clear\(\(PyObject \*\)self\);\n    Py_TYPE\(self\)->tp_free\(\(PyObject \*\)self\);\n)"
    r"    CPy_TRASHCAN_END\(self\)\n    done: ;\n\}"
)
"""How mypyc frees an instance of a class that it is told is acyclic, and so has no header of the garbage collector's."""

_KNOWN = runpy.run_path(str(ROOT / "commitlog" / "compiled.py"))
SUFFIX: str = _KNOWN["SUFFIX"]
RECORD: Path = _KNOWN["RECORD"]


class CannotCompileError(Exception):
    """Why the core cannot be compiled here, in one sentence."""


def sources() -> list[str]:
    """The modules to compile, as paths from the root; not those with a docstring alone."""
    found = _matching(SOURCES) - _matching(LEFT_OUT)
    return [str(path.relative_to(ROOT)) for path in sorted(found) if len(ast.parse(path.read_bytes()).body) > 1]


def _matching(patterns: tuple[str, ...]) -> set[Path]:
    return {path for pattern in patterns for path in ROOT.glob(pattern)}


def compile_core() -> list[str]:
    """Compile what is not compiled from these sources already; return the files that belong beside the sources.

    Raises:
        CannotCompileError: there is no C compiler, or it fails.
    """
    names = sources()
    if _KNOWN["unfit"]() or json.loads(RECORD.read_bytes()).keys() != set(names):
        _require_compiler()
        made_of = {name: _KNOWN["fingerprint"](ROOT / name) for name in names}
        built = _build(names)
        RECORD.unlink(missing_ok=True)
        placed = {_placed(each) for each in built}
        for old in set(_extensions()) - placed:
            old.unlink()
        RECORD.write_text(json.dumps(made_of, indent=1), encoding="utf-8")
    return [str(path.relative_to(ROOT)) for path in (*_extensions(), RECORD)]


def _placed(built: Path) -> Path:
    """Put a module beside its source. Who runs the old one keeps it: the file is replaced, not written over."""
    target = ROOT / built.relative_to(WORKSHOP / "lib")
    unfinished = target.with_suffix(".unfinished")
    shutil.copy2(built, unfinished)
    return unfinished.replace(target)


def _extensions() -> list[Path]:
    return [*ROOT.glob(f"*__mypyc{SUFFIX}"), *ROOT.glob(f"commitlog/**/*{SUFFIX}")]


def _require_compiler() -> None:
    compiler = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]
    if shutil.which(compiler) is None:
        raise CannotCompileError(f"there is no C compiler ({compiler})")
    if not (Path(sysconfig.get_path("include")) / "Python.h").exists():
        raise CannotCompileError("Python's C headers are missing (Debian/Ubuntu: apt-get install python3-dev)")


def _build(names: list[str]) -> list[Path]:
    """Extension modules of these sources, in the workshop."""
    shutil.rmtree(WORKSHOP / "lib", ignore_errors=True)
    told = io.StringIO()
    try:
        with contextlib.redirect_stdout(told), contextlib.redirect_stderr(told), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _mypyc(names)
    except (Exception, SystemExit) as error:
        raise CannotCompileError(f"mypyc or the C compiler failed ({error}):\n{told.getvalue()[-4000:]}") from error
    return sorted((WORKSHOP / "lib").rglob(f"*{SUFFIX}"))


def _mypyc(names: list[str]) -> None:
    from mypyc.build import mypycify
    from setuptools import Distribution
    from setuptools.command.build_ext import build_ext

    extensions = mypycify(
        ["--ignore-missing-imports", "--follow-imports=silent", *names],
        opt_level=OPTIMISATION,
        debug_level="0",
        multi_file=True,
        target_dir=str(WORKSHOP),
        group_name="commitlog",
    )
    _take_from_trashcan()
    for extension in extensions:
        # Calls between the files of the one library need not pass through its table of symbols.
        extension.extra_compile_args.append("-fvisibility=hidden")
    command = _build_in_parallel(build_ext)(Distribution({"name": "commitlog", "ext_modules": extensions}))
    command.build_lib, command.build_temp = str(WORKSHOP / "lib"), str(WORKSHOP / "temp")
    command.ensure_finalized()
    command.run()


def _take_from_trashcan() -> None:
    """Let what has no header of the garbage collector's be freed at once, however deep in other objects it lies.

    CPython's trashcan puts off what lies deeper than some fifty objects, and links it by that header: without one it writes
    over whatever lies before the instance. The tuples and lists between instances have one, so the depth stays bounded.
    """
    for file in WORKSHOP.glob("*.c"):
        made = file.read_text(encoding="utf-8")
        file.write_text(_DEALLOCATION_WITHOUT_GC.sub(r"{\n\1}", made), encoding="utf-8")


def _build_in_parallel(build_ext: Any) -> Any:
    """setuptools' command, which would compile the many files of one extension one after another."""

    class Command(build_ext):  # type: ignore[misc]
        def build_extensions(self) -> None:
            compiler = self.compiler

            def compile_all(
                sources: list[str], output_dir: str, macros: Any, include_dirs: Any, debug: Any,
                extra_postargs: Any, depends: Any,
            ) -> list[str]:  # fmt: skip
                macros, objects, after, options, made = compiler._setup_compile(
                    output_dir, macros, include_dirs, sources, depends, extra_postargs
                )
                before = compiler._get_cc_args(options, debug, None)
                largest_first = sorted(made, key=lambda each: -os.path.getsize(made[each][0]))
                with ThreadPoolExecutor(os.cpu_count()) as pool:
                    done = pool.map(
                        lambda each: compiler._compile(each, *made[each], before, after, options), largest_first
                    )
                    list(done)
                return objects

            compiler.compile = compile_all
            super().build_extensions()

    return Command


class CustomBuildHook(BuildHookInterface[Any]):
    """Puts the compiled modules into a wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, unless the checkout itself is what is installed."""
        if version == "editable":
            return
        try:
            files = compile_core()
        except CannotCompileError as error:
            self.app.display_warning(f"this wheel is not compiled: {error}")
            return
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        build_data["force_include"].update({str(ROOT / name): name for name in files})


def main() -> int:
    """Compile in this checkout, and say what came of it."""
    os.chdir(ROOT)
    started = time.monotonic()
    try:
        compile_core()
    except CannotCompileError as error:
        print(f"the core runs interpreted: {error}")
        return NOT_COMPILED
    # mypy leaves millions of objects, which nobody need look through once more at the end.
    gc.freeze()
    print(f"the core is compiled ({time.monotonic() - started:.0f} s)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
