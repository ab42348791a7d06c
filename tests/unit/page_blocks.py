"""The blocks of a page of docs/, and running them in their order as a reader would."""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parents[2] / "docs"
PRINTS = "it prints"
NOT_RUN = "not run"
_FENCE = re.compile(r"^( *)```(\w*)(?: +title=\"([^\"]*)\")?\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_EXIT_CODE = re.compile(r"exit code (\d+)")


@dataclass(frozen=True)
class Block:
    """A fenced block; the title is what its first line says behind the language."""

    page: str
    language: str
    title: str
    code: str

    @property
    def is_run(self) -> bool:
        return self.language in ("python", "sh") and not self.title.startswith(NOT_RUN)


def blocks_of(page: str) -> list[Block]:
    """The page's blocks, in their order."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return [Block(page, language, title, code) for _, language, title, code in _FENCE.findall(text)]


def run_page(page: str, names: dict[str, Any], environment: Mapping[str, str]) -> Iterator[tuple[Block, str]]:
    """Runs what can be run, one block after another, in the working directory; gives each with what it printed.

    What a block is said to print, by a block of text with the title "it prints" behind it, it must have printed; three
    dots stand for anything.
    """
    printed = ""
    for block in blocks_of(page):
        if block.is_run:
            printed = _run_python(block, names) if block.language == "python" else _run_shell(block, environment)
            yield block, printed
        elif block.title == PRINTS:
            pattern = ".*".join(map(re.escape, _words(block.code).split("...")))
            assert re.fullmatch(pattern, _words(printed), re.DOTALL), (
                f"{page} says\n{block.code}\nand this came:\n{printed}"
            )


def _words(text: str) -> str:
    """Lines without the spaces at their ends."""
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def _run_python(block: Block, names: dict[str, Any]) -> str:
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        exec(compile(block.code, block.page, "exec"), names)
    return shown.getvalue()


def _run_shell(block: Block, environment: Mapping[str, str]) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block.code],
        env={**os.environ, **environment, "PATH": path, "COLUMNS": "120"},
        capture_output=True,
        text=True,
        timeout=240,
    )
    expected = _EXIT_CODE.search(block.title)
    assert done.returncode == (int(expected[1]) if expected else 0), f"{block}\n{done.stdout}\n{done.stderr}"
    return done.stdout
