"""Avro's binary encoding of what records are made of, each way in the shortest straight line.

A generic encoder asks of every field what it is; the generated records know. Functions here append one value to a writer,
`Cursor` reads them out of bytes. Source: Apache Avro 1.12 specification, "Binary encoding".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from struct import Struct
from typing import TYPE_CHECKING, Final, TypeVar

from librt.strings import BytesWriter

from commitlog.domain.model.values import Scalar
from commitlog.errors import MalformedRecordError

if TYPE_CHECKING:
    from mypy_extensions import i64

T = TypeVar("T")

_LAST_SHIFT: Final = 63
_DOUBLE: Final = Struct("<d")

NULL: Final = 0
SOME: Final = 2
"""The branches of a union of null and another type."""
_END: Final = 0


# --- writing ----------------------------------------------------------------------------------------------------------


def long(out: BytesWriter, value: int) -> None:
    """A number of 64 bits; OverflowError beyond."""
    above = value >> 63
    if above != 0 and above != -1:
        raise OverflowError(f"{value} is beyond a 64-bit integer")
    number: i64 = value
    number = (number << 1) ^ (number >> 63)
    low: int
    while number & -128:
        low = number & 0x7F | 0x80
        out.append(low)
        # Of what may be a negative number to a machine, without its sign.
        number = number >> 7 & 0x1FF_FFFF_FFFF_FFFF
    low = number
    out.append(low)


def maybe_long(out: BytesWriter, value: int | None) -> None:
    """A number, or null."""
    if value is None:
        out.append(NULL)
    else:
        out.append(SOME)
        long(out, value)


def flag(out: BytesWriter, value: bool) -> None:
    """True or false."""
    out.append(1 if value else 0)


def maybe_flag(out: BytesWriter, value: bool | None) -> None:
    """True, false, or null."""
    if value is None:
        out.append(NULL)
    else:
        out.append(SOME)
        flag(out, value)


def text(out: BytesWriter, value: str) -> None:
    """Text as UTF-8; UnicodeEncodeError for lone surrogates."""
    blob(out, value.encode("utf-8"))


def maybe_text(out: BytesWriter, value: str | None) -> None:
    """Text, or null."""
    if value is None:
        out.append(NULL)
    else:
        out.append(SOME)
        text(out, value)


def blob(out: BytesWriter, value: bytes) -> None:
    """Bytes."""
    long(out, len(value))
    out.write(value)


def maybe_blob(out: BytesWriter, value: bytes | None) -> None:
    """Bytes, or null."""
    if value is None:
        out.append(NULL)
    else:
        out.append(SOME)
        blob(out, value)


def fixed(out: BytesWriter, value: bytes, size: int) -> None:
    """Bytes of a size that the schema says; ValueError for another one."""
    if len(value) != size:
        raise ValueError(f"{len(value)} bytes where {size} belong")
    out.write(value)


def maybe_fixed(out: BytesWriter, value: bytes | None, size: int) -> None:
    """Bytes of a size that the schema says, or null."""
    if value is None:
        out.append(NULL)
    else:
        out.append(SOME)
        fixed(out, value, size)


def array(out: BytesWriter, item: Callable[[BytesWriter, T], None], values: Sequence[T]) -> None:
    """A list, by what writes one item."""
    if values:
        long(out, len(values))
        for value in values:
            item(out, value)
    out.append(_END)


def longs(out: BytesWriter, values: Sequence[int]) -> None:
    """A list of numbers."""
    if values:
        long(out, len(values))
        for value in values:
            long(out, value)
    out.append(_END)


def texts(out: BytesWriter, values: Sequence[str]) -> None:
    """A list of texts."""
    array(out, text, values)


def mapping(out: BytesWriter, item: Callable[[BytesWriter, T], None], values: Mapping[str, T]) -> None:
    """Values by name."""
    if values:
        long(out, len(values))
        for name, value in values.items():
            text(out, name)
            item(out, value)
    out.append(_END)


def symbols(members: Iterable[T]) -> dict[T, int]:
    """The byte of each member of an enum, in the order of the schema."""
    numbers = {member: number << 1 for number, member in enumerate(members)}
    assert len(numbers) <= 64, "the numbers of a larger enum take more than a byte"
    return numbers


def scalar(out: BytesWriter, value: Scalar) -> None:
    """One of null, boolean, long, double and string: the union that rows, bounds and filters are made of."""
    if value is None:
        out.append(0)
    elif isinstance(value, bool):
        out.append(2)
        flag(out, value)
    elif isinstance(value, int):
        out.append(4)
        long(out, value)
    elif isinstance(value, float):
        out.append(6)
        out.write(_DOUBLE.pack(value))
    elif isinstance(value, str):
        out.append(8)
        text(out, value)
    else:
        raise MalformedRecordError(f"{value!r} is neither null, true, false, a number nor text")


# --- reading ----------------------------------------------------------------------------------------------------------


def same_length(lists: Sequence[Sequence[object]]) -> int:
    """How many items each of some lists has; ValueError when they differ."""
    count = len(lists[0])
    for each in lists:
        if len(each) != count:
            raise ValueError(f"lists of {count} and of {len(each)} items that belong together")
    return count


class Cursor:
    """Reads values one after another out of bytes; ``at`` is where the next one begins.

    expands: whether what the bytes hold as opaque bytes, statistics, is read as well.

    Whatever the bytes are, reading ends with a value or with ValueError or IndexError.
    """

    __slots__ = ("at", "data", "expands")

    def __init__(self, data: bytes, at: int = 0, *, expands: bool = False) -> None:
        self.data = data
        self.at: i64 = at
        self.expands = expands

    def long(self) -> int:
        """A number."""
        data, at = self.data, self.at
        byte: i64 = data[at]
        at += 1
        if byte < 0x80:
            self.at = at
            return (byte >> 1) ^ -(byte & 1)
        number: i64 = byte & 0x7F
        shift: i64 = 7
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
        # Of what may be a negative number to a machine, without its sign.
        return (number >> 1 & 0x7FFF_FFFF_FFFF_FFFF) ^ -(number & 1)

    def _take(self, size: i64) -> bytes:
        at = self.at
        left: i64 = len(self.data) - at
        # Not their sum: of numbers that both have a machine's 64 bits it may have more.
        if size < 0 or size > left:
            raise ValueError(f"{size} bytes where {left} are left")
        self.at = at + size
        return self.data[at : at + size]

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
        count = self._block()
        if not count:
            return ()
        items = [item(self) for _ in range(count)]
        while count := self._block():
            items += [item(self) for _ in range(count)]
        return tuple(items)

    def longs(self) -> tuple[int, ...]:
        """A list of numbers."""
        count = self._block()
        if not count:
            return ()
        items = [self.long() for _ in range(count)]
        while count := self._block():
            items += [self.long() for _ in range(count)]
        return tuple(items)

    def maybe_longs(self) -> tuple[int | None, ...]:
        """A list of numbers, some of them null."""
        count = self._block()
        if not count:
            return ()
        items = [self.maybe_long() for _ in range(count)]
        while count := self._block():
            items += [self.maybe_long() for _ in range(count)]
        return tuple(items)

    def texts(self) -> tuple[str, ...]:
        """A list of texts."""
        count = self._block()
        if not count:
            return ()
        items = [self.text() for _ in range(count)]
        while count := self._block():
            items += [self.text() for _ in range(count)]
        return tuple(items)

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
