"""A lake's folder: whose it is, and by what names our writers' files are known in it.

A data path belongs to one log. A small file at its top, the marker, says to which: ``init`` writes it, or else the first
writer, and whoever writes or removes files there looks at it before. Below it a name that `new_name` gave says that
one of our writers made the file or the folder, and so that cleaning may remove it once nobody needs it.
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from posixpath import dirname
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

from commitlog.client.files.places import filesystem_of, normal_path
from commitlog.client.ids import random_id
from commitlog.domain.model.ids import format_id
from commitlog.errors import ConfigurationError

if TYPE_CHECKING:
    from pyarrow import fs

MARKER = "_commitlog.json"
"""The marker's name; Spark and other readers of folders pass over what begins with an underscore."""

_UUID4 = "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
_OURS = re.compile(
    rf"(commitlog-{_UUID4}(/.+|\.parquet|-deletes\.parquet)|commitlog-adopted-[^/]+\.parquet)(\.unfinished)?"
)

_logger = logging.getLogger("commitlog.lake")


@dataclass(frozen=True, slots=True)
class LakeOwner:
    """What a marker says: whose files are below ``place``."""

    place: str
    log_id: bytes
    log: str

    def __str__(self) -> str:
        return f"log {self.log} ({UUID(bytes=self.log_id)})"


def new_name() -> str:
    """What a writer calls a file, or a folder of files, below a table's folder; no two are the same."""
    return f"commitlog-{format_id(random_id())}"


def is_named_by_us(below: str) -> bool:
    """Whether a path below a table's folder is of a file that one of our writers made."""
    return _OURS.fullmatch(below) is not None


def owner_of(data_path: str) -> LakeOwner | None:
    """Whose a data path is; None when no log has marked it.

    Raises:
        ConfigurationError: there is a marker that says nothing.
        OSError: it cannot be looked at from here.
    """
    from pyarrow import fs

    filesystem, folder = _opened(data_path)
    place = f"{folder}/{MARKER}"
    if filesystem.get_file_info(place).type is not fs.FileType.File:
        return None
    with filesystem.open_input_file(place) as file:
        content = file.read()
    try:
        told = json.loads(content)
        return LakeOwner(data_path, UUID(str(told["log_id"])).bytes, str(told["log"]))
    except (ValueError, TypeError, KeyError):
        raise ConfigurationError(
            f"{data_path.rstrip('/')}/{MARKER} does not say whose files are below it: bring it back, or remove it if they "
            "are this log's and run `commitlog init`"
        ) from None


def check_owner(data_path: str, log_id: bytes | None, log: str) -> LakeOwner | None:
    """See that a data path is of no other log; its marker, None when it has none.

    Args:
        data_path: where the lake's files are.
        log_id: the log's; None when it is not there yet.
        log: its name.

    Raises:
        ConfigurationError: it is another log's, or lies in the folder of another.
        OSError: it cannot be looked at from here.
    """
    found = owner_of(data_path)
    owners = [found] if found is not None else [owner for owner in _owners_around(data_path) if owner.log_id != log_id]
    for owner in owners:
        if owner.log_id != log_id or owner.log != log:
            raise ConfigurationError(_refusal(data_path, owner, log_id, log))
    return found


def check_free(data_path: str, log: str, *, may_be_there: bool = False) -> None:
    """See that a data path can be that of a log that is not there yet, as far as that is seen from here.

    Args:
        data_path: where the lake's files are.
        log: the log's name.
        may_be_there: Kafka was not asked: what a log of this name has marked may be this one's.

    Raises:
        ConfigurationError: it is another log's, or lies in the folder of another.
    """
    from pyarrow import ArrowInvalid

    try:
        owner = owner_of(data_path) if may_be_there else None
        if owner is None or owner.log != log:
            check_owner(data_path, None, log)
    except (OSError, ArrowInvalid) as error:
        _logger.warning("whose the data path %s is cannot be seen from here: %s", data_path, error)


def claim(data_path: str, log_id: bytes, log: str) -> None:
    """Make a data path a log's, unless it is; where that cannot be done from here, that is logged.

    Raises:
        ConfigurationError: it is another log's, or lies in the folder of another.
    """
    from pyarrow import ArrowInvalid

    try:
        if check_owner(data_path, log_id, log) is None:
            _mark(data_path, json.dumps({"log_id": str(UUID(bytes=log_id)), "log": log}).encode() + b"\n")
            # Of several that mark it at once one wins.
            check_owner(data_path, log_id, log)
    except (OSError, ArrowInvalid) as error:
        _logger.warning("the data path %s cannot be marked as log %s's from here: %s", data_path, log, error)


def _refusal(data_path: str, owner: LakeOwner, log_id: bytes | None, log: str) -> str:
    path = data_path.rstrip("/")
    place = owner.place.rstrip("/")
    if owner.log_id == log_id:
        return (
            f"the data path {path} belongs to {owner}, restored here by the name {log}: each would clean up the other's files. "
            f"Restore it by its own name, or, if log {owner.log} is gone for good, remove {place}/{MARKER} and run "
            "`commitlog init`"
        )
    where = (
        f"the data path {path} belongs to" if place == path else f"the data path {path} is in {place}, which belongs to"
    )
    if owner.log == log:
        unseen = "Kafka has no log that these credentials may see (`commitlog acl`); " if log_id is None else ""
        return (
            f"{where} another {owner}: {unseen}if this is to be that log and its topics are lost, docs/retention.md says "
            "how it is restored; for a new one choose another data path (COMMITLOG_DATA_PATH), or, if that log is gone for "
            f"good and nobody needs its files, remove {place}/{MARKER}"
        )
    return f"{where} {owner}: choose another one for log {log} (COMMITLOG_DATA_PATH)"


def _owners_around(data_path: str) -> Iterator[LakeOwner]:
    """The owners of the folders that a data path is in."""
    from pyarrow import ArrowInvalid

    scheme, separator, rest = data_path.rstrip("/").rpartition("://")
    if not separator:
        rest = normal_path(rest)
    folder = dirname(rest)
    while folder.strip("/"):
        try:
            owner = owner_of(f"{scheme}{separator}{folder}")
        except (OSError, ArrowInvalid):
            owner = None  # who may not look there has no business there either
        if owner is not None:
            yield owner
        folder = dirname(folder)


def _mark(data_path: str, content: bytes) -> None:
    from pyarrow import fs

    filesystem, folder = _opened(data_path)
    place = f"{folder}/{MARKER}"
    if not isinstance(filesystem, fs.LocalFileSystem):
        with filesystem.open_output_stream(place) as file:
            file.write(content)
        return
    os.makedirs(folder, exist_ok=True)
    # Linked, so that it is there whole or not at all, and is never somebody else's that is written over.
    aside = Path(f"{place}.{uuid4()}")
    aside.write_bytes(content)
    try:
        os.link(aside, place)
    except FileExistsError:
        return
    finally:
        aside.unlink()


def _opened(data_path: str) -> tuple[fs.FileSystem, str]:
    filesystem, folder = filesystem_of(normal_path(data_path))
    return filesystem, folder.rstrip("/")
