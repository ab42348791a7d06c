"""A log as one of several sites: its name and priority among them, which CONFIGURE sets once (rules.md 6)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from commitlog.domain.model import InvalidCode, Scalar
from commitlog.domain.model.texts import check_name
from commitlog.errors import InvalidChangeError

NODE_NAME, NODE_PRIORITY = "node_name", "node_priority"
PRIORITY_MAX = 2**31 - 1
"""Versions of rows that others hold carry it, so it has room in every one of their columns."""


class Node(NamedTuple):
    """What a log is called among the sites that replicate to each other; of conflicting versions the smaller priority wins."""

    name: str
    priority: int


class LastBrought(NamedTuple):
    """The newest snapshot that a link has brought, by its number at the log that the link reads, and the outcome that took it
    over."""

    snapshot_id: int
    seq: int


Settings: TypeAlias = Mapping[str, Scalar]


def node_and_rest(settings: Settings) -> tuple[Settings, Settings]:
    """What a CONFIGURE says of the node, and what it says of the log's settings."""
    own = {name: value for name, value in settings.items() if name in (NODE_NAME, NODE_PRIORITY)}
    return own, {name: value for name, value in settings.items() if name not in own}


def changed_node(node: Node | None, settings: Settings, name_length_max: int) -> Node:
    """The node after what a CONFIGURE says of it; InvalidChangeError where that cannot be."""
    name = settings.get(NODE_NAME, None if node is None else node.name)
    priority = settings.get(NODE_PRIORITY, 0 if node is None else node.priority)
    if not isinstance(name, str):
        raise InvalidChangeError(
            InvalidCode.SETTING_VALUE_INVALID, f"{NODE_NAME} is a text, not {name!r}: a node has a name and a priority"
        )
    check_name(name, "node", name_length_max)
    if not isinstance(priority, int) or isinstance(priority, bool) or not 0 <= priority <= PRIORITY_MAX:
        raise InvalidChangeError(
            InvalidCode.SETTING_VALUE_INVALID,
            f"{NODE_PRIORITY} is a whole number from 0 to {PRIORITY_MAX}, not {priority!r}",
        )
    if node is not None and node != (name, priority):
        raise InvalidChangeError(
            InvalidCode.NODE_FIXED,
            f"this log is node {node.name!r} with priority {node.priority} for ever: versions of rows that other sites hold "
            "carry both",
        )
    return Node(name, priority)
