"""Files that only this user may read, and the passwords in them."""

from __future__ import annotations

import secrets
from pathlib import Path

PASSWORD_MARK = "clpw_"
"""What each password that is made here begins with."""


def write_private(path: Path, text: str) -> None:
    """Write a file that nobody else may read, not even for the moment in which it is made: it is there whole, or as it was."""
    unfinished = path.with_name(f"{path.name}.unfinished")
    unfinished.unlink(missing_ok=True)
    unfinished.touch(mode=0o600)
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(path)


def new_password() -> str:
    """One that nobody guesses, and that whoever looks for passwords in what was printed recognises."""
    return PASSWORD_MARK + secrets.token_hex(16)
