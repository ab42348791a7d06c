"""CONFIGURE: which settings a log has, what each may be, and the settings after a change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from commitlog.domain.model import Granularity, InvalidCode, LogSettings, Scalar
from commitlog.domain.model.defining import check_policy
from commitlog.domain.model.definitions import quoted_value
from commitlog.domain.model.row_width import POSTGRESQL_ROW_BYTES_MAX
from commitlog.errors import InvalidChangeError

_OPTIONAL = frozenset({"expire_older_than_ms", "expire_keep_snapshots"})
_AT_LEAST = {
    "proposal_bytes_max": 1024,
    "name_length_max": 1,
    "changes_max": 1,
    "files_max": 1,
    "changeset_objects_max": 1,
    "expire_keep_snapshots": 1,
}
NAME_LENGTH_LIMIT = 300
"""What `name_length_max` may be at most: two names may stand in an entry of an index, which has 2,704 bytes in PostgreSQL, and
a character has up to four."""
PROPOSAL_BYTES_LIMIT = 64 * 1024 * 1024
"""What `proposal_bytes_max` may be at most: an outcome holds a proposal, and a broker takes no request beyond 100 MiB."""
_NAME_LENGTH_DEFAULT = LogSettings().name_length_max
_AT_MOST = {
    "name_length_max": NAME_LENGTH_LIMIT,
    "window_snapshots": 10_000_000,
    "proposal_bytes_max": PROPOSAL_BYTES_LIMIT,
    "inlined_row_bytes_max": POSTGRESQL_ROW_BYTES_MAX,
}
_BOUND_MAX = 2**53


def sender_length_max(settings: LogSettings) -> int:
    """How long the name of a writer or of another node may be: who has one has it already, whatever limit new names have."""
    return max(settings.name_length_max, _NAME_LENGTH_DEFAULT)


def changed_settings(settings: LogSettings, changes: Mapping[str, Scalar]) -> LogSettings:
    """Return the settings after a CONFIGURE; raise InvalidChangeError that names the setting and what it takes."""
    if not changes:
        raise InvalidChangeError(InvalidCode.NOTHING_TO_COMMIT, "CONFIGURE without settings: nothing to commit")
    values: dict[str, Any] = {}
    known = set(LogSettings.FIELDS)
    for key, value in changes.items():
        if key not in known:
            raise InvalidChangeError(
                InvalidCode.SETTING_UNKNOWN, f"unknown setting {key!r}; known are {', '.join(sorted(known))}"
            )
        values[key] = _checked(key, value)
    return settings.replace(**values)


def _checked(key: str, value: Scalar) -> object:
    if key == "conflict_granularity":
        if value not in tuple(Granularity):
            raise InvalidChangeError(
                InvalidCode.SETTING_VALUE_INVALID,
                f"conflict_granularity is TABLE, FILE or ROW, not {quoted_value(value)}",
            )
        return Granularity(str(value))
    if key == "on_conflict":
        if not isinstance(value, str):
            raise InvalidChangeError(InvalidCode.POLICY_UNKNOWN, f"on_conflict is a text, not {quoted_value(value)}")
        check_policy(value)
        return value
    if value is None and key in _OPTIONAL:
        return None
    low, high = _AT_LEAST.get(key, 0), _AT_MOST.get(key, _BOUND_MAX)
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise InvalidChangeError(
            InvalidCode.SETTING_VALUE_INVALID,
            f"{key} is a whole number from {low} to {high}, not {quoted_value(value)}",
        )
    return value
