"""Arguments of the wrong kind, refused where they come in: one clear sentence instead of an error from somewhere within."""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from numbers import Integral
from typing import Any, TypeVar

from commitlog.domain.model import BIGINT_MAX, RowOrigin
from commitlog.errors import InvalidRequestError

T = TypeVar("T")
ChoiceT = TypeVar("ChoiceT", bound=StrEnum)
_LISTS = (tuple, list)
_UNHELD = re.compile(r"[\x00\ud800-\udfff]")


def checked_count(what: str, given: Any) -> int:
    """A whole number that is not negative, such as a snapshot id or a seq.

    Raises:
        InvalidRequestError: it is none.
    """
    try:
        number = operator.index(given)
    except TypeError:
        number = -1
    if isinstance(given, bool) or not 0 <= number <= BIGINT_MAX:
        bounds = f"to {BIGINT_MAX}" if number > BIGINT_MAX else "on"
        raise InvalidRequestError(f"{what} must be a whole number from 0 {bounds}, not {shown(given)}")
    return number


def shown(given: Any) -> str:
    """What was given, for a message: short values as they are, others by their type."""
    text = repr(given)
    return text if len(text) <= 60 and "\n" not in text else f"a {type(given).__name__}"


def checked_count_or_none(what: str, given: Any) -> int | None:
    """As `checked_count`, where it need not be given."""
    return None if given is None else checked_count(what, given)


def checked_text(what: str, given: Any) -> str:
    """A text.

    Raises:
        InvalidRequestError: it is none; or it holds half a character, as what a shell gives where its bytes are no UTF-8, or
            NUL, which PostgreSQL has in no text.
    """
    if not isinstance(given, str):
        raise InvalidRequestError(f"{what} must be a text, not {shown(given)}")
    if (found := _UNHELD.search(given)) is not None:
        raise InvalidRequestError(f"{what} holds the character U+{ord(found[0]):04X}, which no text here may hold")
    return given


def checked_text_or_none(what: str, given: Any) -> str | None:
    """As `checked_text`, where it need not be given."""
    return None if given is None else checked_text(what, given)


def checked_flag(what: str, given: Any) -> bool:
    """True or False.

    Raises:
        InvalidRequestError: it is neither.
    """
    if not isinstance(given, bool):
        raise InvalidRequestError(f"{what} must be True or False, not {shown(given)}")
    return given


def checked_choice(what: str, given: Any, choices: type[ChoiceT]) -> ChoiceT:
    """One of a few, itself or by its name in upper or lower case.

    Raises:
        InvalidRequestError: it is none of them; the message names them.
    """
    named = {each.value.lower(): each for each in choices}
    found = named.get(given.lower()) if isinstance(given, str) else None
    if found is None:
        *most, last = map(repr, named)
        raise InvalidRequestError(f"{what} is {', '.join(most)} or {last}, not {shown(given)}")
    return found


def checked_items(what: str, given: Any, kinds: type[T] | tuple[type[T], ...], each: str) -> tuple[T, ...]:
    """Things of some kinds, in any iterable but one that means something else when it is iterated.

    Args:
        what: the argument.
        given: what came for it.
        kinds: what each item is to be.
        each: the same in words, such as "paths".

    Raises:
        InvalidRequestError: it is no list, or one of its items is of another kind.
    """
    if type(given) not in _LISTS and (
        isinstance(given, str | bytes | Mapping) or is_frame(given) or not isinstance(given, Iterable)
    ):
        raise InvalidRequestError(f"{what} must be a list of {each}, not {shown(given)}")
    items = tuple(given)
    for item in items:
        if not isinstance(item, kinds) or isinstance(item, bool):
            raise InvalidRequestError(f"{what} must be a list of {each}, not one with {shown(item)}")
    return items


def checked_mapping(what: str, given: Any, meaning: str) -> Mapping[Any, Any]:
    """A mapping.

    Raises:
        InvalidRequestError: it is none; ``meaning`` says what of to what.
    """
    if not isinstance(given, Mapping):
        raise InvalidRequestError(f"{what} must map {meaning}, not {shown(given)}")
    return given


def checked_schema(name: Any) -> str:
    """The name of a schema."""
    return checked_text("the name of a schema", name)


def checked_ids(what: str, given: Any) -> tuple[int, ...]:
    """Ids of files or rows."""
    # What is known of files is often kept by their ids.
    ids = list(given) if isinstance(given, Mapping) else given
    return tuple(checked_count(f"each of {what}", each) for each in checked_items(what, ids, Integral, "ids"))


def checked_version(row_time_us: Any, origin: Any) -> tuple[int | None, RowOrigin | None]:
    """The time and the origin of a row's version."""
    is_whole = isinstance(row_time_us, Integral) and not isinstance(row_time_us, bool)
    if row_time_us is not None and not is_whole:
        raise InvalidRequestError(f"row_time_us must be microseconds since 1970, not {shown(row_time_us)}")
    time_us = None if row_time_us is None else operator.index(row_time_us)
    if origin is not None and not isinstance(origin, RowOrigin):
        raise InvalidRequestError(f"origin must be a RowOrigin, not {shown(origin)}")
    return time_us, origin


def checked_properties(given: Any) -> dict[str, str]:
    """The properties of a table."""
    pairs = checked_mapping("properties", {} if given is None else given, "names to texts")
    return {
        checked_text("the name of a property", key): checked_text(f"property {key}", value)
        for key, value in pairs.items()
    }


def is_frame(given: Any) -> bool:
    """Whether it is a table of rows in memory, of whichever library."""
    return hasattr(given, "__arrow_c_stream__") or hasattr(given, "__dataframe__")
