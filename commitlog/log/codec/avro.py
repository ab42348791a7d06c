"""Avro's binary encoding of what records are made of, each way in the shortest straight line.

A generic encoder asks of every field what it is; the generated records know. Functions here make the bytes of one value,
`Cursor` reads them. Source: Apache Avro 1.12 specification, "Binary encoding".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from struct import Struct
from typing import Final, TypeVar

from commitlog.domain.model.values import Scalar
from commitlog.errors import MalformedRecordError

T = TypeVar("T")

_LOW_BITS: Final = 14
_LOW_MASK: Final = (1 << _LOW_BITS) - 1
_LAST_SHIFT: Final = 63
_DOUBLE: Final = Struct("<d")

NULL: Final = b"\x00"
SOME: Final = b"\x02"
_END: Final = b"\x00"
_FALSE: Final = b"\x00"
_TRUE: Final = b"\x01"


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


# Numbers are put together from tables of 14 bits: whole ones, and the lower part of larger ones.
_WHOLE: Final = [_varint(number) for number in range(1 << _LOW_BITS)]
_LOWER: Final = [bytes((number & 0x7F | 0x80, number >> 7 | 0x80)) for number in range(1 << _LOW_BITS)]


# --- writing ----------------------------------------------------------------------------------------------------------


def long(value: int) -> bytes:
    """A number of 64 bits; OverflowError beyond."""
    number = value << 1 if value >= 0 else ~(value << 1)
    if number <= _LOW_MASK:
        return _WHOLE[number]
    if number >> 64:
        raise OverflowError(f"{value} is beyond a 64-bit integer")
    out = _LOWER[number & _LOW_MASK]
    number >>= _LOW_BITS
    while number > _LOW_MASK:
        out += _LOWER[number & _LOW_MASK]
        number >>= _LOW_BITS
    return out + _WHOLE[number]


def maybe_long(value: int | None) -> bytes:
    """A number, or null."""
    return NULL if value is None else SOME + long(value)


def flag(value: bool) -> bytes:
    """True or false."""
    return _TRUE if value else _FALSE


def maybe_flag(value: bool | None) -> bytes:
    """True, false, or null."""
    return NULL if value is None else SOME + flag(value)


def text(value: str) -> bytes:
    """Text as UTF-8; UnicodeEncodeError for lone surrogates."""
    encoded = value.encode("utf-8")
    return long(len(encoded)) + encoded


def maybe_text(value: str | None) -> bytes:
    """Text, or null."""
    return NULL if value is None else SOME + text(value)


def blob(value: bytes) -> bytes:
    """Bytes."""
    return long(len(value)) + value


def maybe_blob(value: bytes | None) -> bytes:
    """Bytes, or null."""
    return NULL if value is None else SOME + blob(value)


def fixed(value: bytes, size: int) -> bytes:
    """Bytes of a size that the schema says; ValueError for another one."""
    if len(value) != size:
        raise ValueError(f"{len(value)} bytes where {size} belong")
    return value


def maybe_fixed(value: bytes | None, size: int) -> bytes:
    """Bytes of a size that the schema says, or null."""
    return NULL if value is None else SOME + fixed(value, size)


def array(item: Callable[[T], bytes], values: Sequence[T]) -> bytes:
    """A list, by what makes the bytes of one item."""
    if not values:
        return _END
    return long(len(values)) + b"".join([item(value) for value in values]) + _END


def longs(values: Sequence[int]) -> bytes:
    """A list of numbers."""
    if not values:
        return _END
    return long(len(values)) + b"".join([long(value) for value in values]) + _END


def texts(values: Sequence[str]) -> bytes:
    """A list of texts."""
    return array(text, values)


def mapping(item: Callable[[T], bytes], values: Mapping[str, T]) -> bytes:
    """Values by name."""
    if not values:
        return _END
    parts = [long(len(values))]
    for name, value in values.items():
        parts.append(text(name))
        parts.append(item(value))
    parts.append(_END)
    return b"".join(parts)


def symbols(members: Iterable[T]) -> dict[T, bytes]:
    """The bytes of each member of an enum, in the order of the schema."""
    return {member: long(index) for index, member in enumerate(members)}


def scalar(value: Scalar) -> bytes:
    """One of null, boolean, long, double and string: the union that rows, bounds and filters are made of."""
    if value is None:
        return b"\x00"
    if isinstance(value, bool):
        return b"\x02\x01" if value else b"\x02\x00"
    if isinstance(value, int):
        return b"\x04" + long(value)
    if isinstance(value, float):
        return b"\x06" + _DOUBLE.pack(value)
    if isinstance(value, str):
        return b"\x08" + text(value)
    raise MalformedRecordError(f"{value!r} is neither null, true, false, a number nor text")


# --- reading ----------------------------------------------------------------------------------------------------------


class Cursor:
    """Reads values one after another out of bytes; ``at`` is where the next one begins.

    Whatever the bytes are, reading ends with a value or with ValueError or IndexError.
    """

    __slots__ = ("at", "data")

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data = data
        self.at = at

    def long(self) -> int:
        """A number."""
        data, at = self.data, self.at
        byte = data[at]
        at += 1
        if byte < 0x80:
            self.at = at
            return (byte >> 1) ^ -(byte & 1)
        number, shift = byte & 0x7F, 7
        while True:
            byte = data[at]
            at += 1
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift > _LAST_SHIFT:
                raise ValueError("a number beyond 64 bits")
        if shift == _LAST_SHIFT and byte > 1:
            raise ValueError("a number beyond 64 bits")
        self.at = at
        return (number >> 1) ^ -(number & 1)

    def _take(self, size: int) -> bytes:
        at, end = self.at, self.at + size
        if size < 0 or end > len(self.data):
            raise ValueError(f"{size} bytes where {len(self.data) - at} are left")
        self.at = end
        return self.data[at:end]

    def flag(self) -> bool:
        """True or false."""
        byte = self.data[self.at]
        if byte > 1:
            raise ValueError(f"the byte {byte} where true or false belongs")
        self.at += 1
        return byte == 1

    def text(self) -> str:
        """Text."""
        return self._take(self.long()).decode("utf-8")

    def blob(self) -> bytes:
        """Bytes."""
        return self._take(self.long())

    def fixed(self, size: int) -> bytes:
        """Bytes of a size that the schema says."""
        return self._take(size)

    def is_some(self) -> bool:
        """Of a union of null and another type: whether the other one comes next."""
        byte = self.data[self.at]
        if byte != 0 and byte != 2:
            raise ValueError("a branch that a union does not have")
        self.at += 1
        return byte == 2

    def maybe_long(self) -> int | None:
        """A number, or None."""
        return self.long() if self.is_some() else None

    def maybe_flag(self) -> bool | None:
        """True, false, or None."""
        return self.flag() if self.is_some() else None

    def maybe_text(self) -> str | None:
        """Text, or None."""
        return self.text() if self.is_some() else None

    def maybe_blob(self) -> bytes | None:
        """Bytes, or None."""
        return self.blob() if self.is_some() else None

    def maybe_fixed(self, size: int) -> bytes | None:
        """Bytes of a size that the schema says, or None."""
        return self._take(size) if self.is_some() else None

    def _block(self) -> int:
        """How many items come next; 0 is the end. A negative count says that the size of the items in bytes follows."""
        count = self.long()
        if count < 0:
            self.long()
            return -count
        return count

    def array(self, item: Callable[[Cursor], T]) -> tuple[T, ...]:
        """A list, by what reads one item."""
        items: list[T] = []
        while count := self._block():
            items += [item(self) for _ in range(count)]
        return tuple(items)

    def longs(self) -> tuple[int, ...]:
        """A list of numbers."""
        items: list[int] = []
        while count := self._block():
            items += [self.long() for _ in range(count)]
        return tuple(items)

    def texts(self) -> tuple[str, ...]:
        """A list of texts."""
        return self.array(Cursor.text)

    def mapping(self, item: Callable[[Cursor], T]) -> dict[str, T]:
        """Values by name."""
        items: dict[str, T] = {}
        while count := self._block():
            for _ in range(count):
                name = self.text()
                items[name] = item(self)
        return items

    def symbol(self, members: Sequence[T]) -> T:
        """A member of an enum, in the order of the schema."""
        index = self.long()
        if not 0 <= index < len(members):
            raise ValueError(f"the symbol {index} of an enum of {len(members)}")
        return members[index]

    def scalar(self) -> Scalar:
        """One of null, boolean, long, double and string; NaN and the infinities too."""
        branch = self.data[self.at]
        self.at += 1
        if branch == 0:
            return None
        if branch == 4:
            return self.long()
        if branch == 8:
            return self.text()
        if branch == 2:
            return self.flag()
        if branch == 6:
            number: float = _DOUBLE.unpack(self._take(8))[0]
            return number
        raise ValueError("a branch that a union does not have")
