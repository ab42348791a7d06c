"""What is said of a commit that is none of the log's: what it was, and what to do instead."""

from __future__ import annotations

import re

from commitlog.errors import NotUnderstoodError

_KINDS = frozenset(
    (
        "created_schema", "created_table", "created_view", "dropped_schema", "dropped_table", "dropped_view",
        "inserted_into_table", "deleted_from_table", "altered_table", "altered_view", "inlined_insert", "inlined_delete",
    )
)  # fmt: skip
_NAME = r'"(?:[^"]|"")*+"'
_ENTRY = re.compile(rf"([a-z_]+):(?:{_NAME}(?:\.{_NAME})?|([0-9]+))(?:,|$)")
_CHANGES = re.compile(rf"INSERT INTO {_NAME}\.ducklake_snapshot_changes VALUES \([0-9]+, '((?:[^']|'')*)'[^;]*;[ \n]*$")

_COMPACT = "merge_adjacent_files and rewrite_data_files: `commitlog.spark` compacts tables (docs/spark.md)"
_MACRO = "macros: a log keeps none; CREATE TEMP MACRO makes one for the session"
_SORTED = "SORTED: a log keeps no sort order; ORDER BY in the INSERT writes sorted files"
_SETTING = (
    "set_option: the log has its own settings (`commitlog config`, ALTER of a table's properties by the Python client)"
)
_ADVICE = {
    "merge_adjacent": _COMPACT,
    "rewrite_delete": _COMPACT,
    "compacted_table": _COMPACT,
    "inline_flush": "flush_inlined_data: `commitlog.spark` flushes keyed tables (docs/spark.md)",
    "flushed_inlined": "flush_inlined_data: `commitlog.spark` flushes keyed tables (docs/spark.md)",
    "created_scalar_macro": _MACRO,
    "created_table_macro": _MACRO,
    "dropped_scalar_macro": _MACRO,
    "dropped_table_macro": _MACRO,
    "macro": _MACRO,
    "macro_impl": _MACRO,
    "macro_parameters": _MACRO,
    "sort_info": _SORTED,
    "sort_expression": _SORTED,
    "metadata": _SETTING,
    "inlined_data": "rows that are sent in the commit itself: attach with DATA_INLINING_ROW_LIMIT 0, so that they go as files",
}
RENAMED_TWICE = "duckdb takes away a table or view that one transaction renames twice to its own name: rename it once"
_SHOWN_MAX = 60


def check_kinds(changes_made: str | None) -> frozenset[tuple[str, int]]:
    """See that a commit says nothing of itself but what can be proposed.

    Returns:
        the kinds of changes of objects that have ids, with these.

    Raises:
        NotUnderstoodError: it does; with what to do instead.
    """
    if changes_made is None:
        raise NotUnderstoodError(f"a commit that calls its changes nothing: {RENAMED_TWICE}")
    entries = _entries(changes_made)
    if not entries:
        raise NotUnderstoodError(f"a commit that calls its changes {_shown(changes_made)!r}")
    for kind, _ in entries:
        if kind in _ADVICE:
            raise _not_here(_ADVICE[kind])
        if kind not in _KINDS:
            raise NotUnderstoodError(f"a commit of the kind {kind}, which the log does not know")
    return frozenset((kind, int(number)) for kind, number in entries if number is not None)


def refusal(text: str, at: int, table: str) -> NotUnderstoodError:
    """What is said where the reading of a commit stops.

    Args:
        text: of the commit.
        at: where.
        table: the table of DuckLake's that is written to there, if that is known, without ``ducklake_``.
    """
    said = _CHANGES.search(text)
    kinds = [kind for kind, _ in _entries(said[1].replace("''", "'"))] if said else []
    name = "inlined_data" if table.startswith("inlined_data_") and table != "inlined_data_tables" else table
    for known in (*kinds, name):
        if known in _ADVICE:
            return _not_here(_ADVICE[known])
    return NotUnderstoodError(
        f"a commit in a form that duckdb 1.5.5 does not send (at {_shown(text[at:])!r}): use that version, or write by the "
        "Python client or Spark"
    )


def _not_here(advice: str) -> NotUnderstoodError:
    what, _, instead = advice.partition(": ")
    return NotUnderstoodError(f"{what}: not through the gateway; {instead}")


def _entries(changes_made: str) -> list[tuple[str, str | None]]:
    """The kinds of the changes, each with the id of what it is of where it gives one; none when the text is no list of them."""
    found: list[tuple[str, str | None]] = []
    at = 0
    while entry := _ENTRY.match(changes_made, at):
        found.append((entry[1], entry[2]))
        at = entry.end()
    return found if at == len(changes_made) and not changes_made.endswith(",") else []


def _shown(text: str) -> str:
    return text if len(text) <= _SHOWN_MAX else text[:_SHOWN_MAX] + "..."
