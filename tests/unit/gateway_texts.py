"""Texts of stock clients' commits with something wrong in them."""

from __future__ import annotations

from gateway_commits import NAMES, commit
from hypothesis import strategies as st

HOSTILE = [
    "'",
    "''",
    ";",
    "');DROP TABLE x;--",
    "\\",
    "$$",
    "/*",
    "--",
    "\n",
    '"',
    "NULL",
    "z conflict",
    "primary key",
    "(",
    "),(",
]
_TEXTS = {name: commit(name).text for name in NAMES}


@st.composite
def broken_texts(draw: st.DrawFn) -> str:
    """A commit's text with a piece of it gone, or put elsewhere, or another piece put in."""
    text = _TEXTS[draw(st.sampled_from(NAMES))]
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 6)))
        place = draw(st.integers(0, len(text)))
        piece = draw(st.sampled_from(["", text[start:end], *HOSTILE, ",", ")", "0", "1", "NULL", " "]))
        text = text[:start] + text[end:] if draw(st.booleans()) else text[:place] + piece + text[place:]
    return text
