"""What a stock client is told, so that it reads it once: its client tries again by words in an error, not by its code.

The client repeats a commit, up to ten times, when the text of an error holds one of four words, in whatever case. A refusal
by the log is final, and its text may quote names and values of the user's: so the words are broken where they stand.
"""

from __future__ import annotations

import re

from commitlog.catalog.guard import INSTEAD, REFUSAL

_BREAK = "\N{MIDDLE DOT}"
_WORDS = {"primary key": "primary·key", "unique": "uni·que", "conflict": "con·flict", "concurrent": "con·current"}
# In ASCII, as the client compares: an I with another dot than its own is another letter to it.
_ANY = re.compile("|".join(_WORDS), re.IGNORECASE | re.ASCII)
NOT_HERE = (
    "The gateway does not support this, and nothing was committed. Use `commitlog submit`, commitlog.spark or "
    "Python instead; docs/duckdb-writers.md says what works here"
)

FLUSH = "Use `commitlog.spark` to move rows and deletes from the catalog into files (docs/spark.md)"

_INSERTED = re.compile(
    r"""(?:insert\s+into|update|delete\s+from|copy|create\s+local\s+temporary\s+table)\s+(?:"(?:[^"]|"")*"\.)?"?(\w+)""",
    re.IGNORECASE,
)
_WRITES = re.compile(
    r"\s*(?:(?:insert|update|delete|merge|truncate|create|drop|alter|comment|grant|revoke|call|do)\b"
    r'|copy\s+(?:"[^"]*"|[^\s"(])+\s*(?:\([^)]*\)\s*)?(?<=[\s")])from\b)',
    re.IGNORECASE,
)
_CLEANS = re.compile(r'\bFROM\s+(?:"(?:[^"]|"")*"\.)?"?ducklake_files_scheduled_for_deletion\b', re.IGNORECASE)
"""What clean-ups of files ask first: they remove files before they write anything that could be refused."""


def unretried(text: str) -> str:
    """The text without a word by which the stock client would try again."""
    return _ANY.sub(_broken, text)


def _broken(found: re.Match[str]) -> str:
    """The word with a dot in it, in the case it had."""
    word = found[0]
    at = _WORDS[word.lower()].index(_BREAK)
    return word[:at] + _BREAK + word[at:].lstrip()


def refusal_of_statement(text: str) -> str | None:
    """Why a statement that is no commit is not passed on; None for one that only reads, and for no clean-up."""
    if _WRITES.match(text) is not None:
        named = _INSERTED.match(text.lstrip())
        instead = _instead(named[1].lower() if named else "")
    elif _CLEANS.search(text) is not None:
        instead = INSTEAD["clean"]
    else:
        return None
    return unretried(REFUSAL + instead)


def _instead(table: str) -> str:
    """What there is instead of a statement that writes to this table."""
    # Into a table of its own, by which it changes another one, the client puts nothing but options that are there already.
    if table == "ducklake_metadata" or table.startswith("update_data_"):
        return INSTEAD["option"]
    if table.startswith("ducklake_snapshot"):
        return INSTEAD["expire"]
    if table == "ducklake_files_scheduled_for_deletion":
        return INSTEAD["clean"]
    return FLUSH if table.startswith("ducklake_inlined_") else NOT_HERE
