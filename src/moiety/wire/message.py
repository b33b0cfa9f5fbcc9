"""What every message has: a type, a serial, and its bytes."""

from __future__ import annotations

import functools
import struct
from typing import Any, ClassVar, Self

import msgspec

from moiety.model.errors import ProtocolError
from moiety.wire.layout import Type
from moiety.wire.structs import packer


class Message(msgspec.Struct, frozen=True):
    """What every message has: its type and its serial."""

    type: int
    serial: int = 0

    LAYOUT: ClassVar[str]
    TYPES: ClassVar[tuple[Type, ...]]
    TEXT_LIMIT: ClassVar[int] = 0
    """Bytes of the last field, if that is text; else 0."""

    def encode(self) -> bytes:
        """The packet to send; text that is too long is cut between two characters."""
        kind, serial, *rest = msgspec.structs.astuple(self)
        if self.TEXT_LIMIT:
            rest[-1] = cut(rest[-1], self.TEXT_LIMIT)
        packed = packed_as(self.LAYOUT)
        try:
            return packed.pack(kind, packed.size, serial, *rest)
        except struct.error as error:
            raise ProtocolError(f"{self!r} does not fit its fields: {error}") from None

    @classmethod
    def unpacked(cls, fields: tuple[Any, ...]) -> Self:
        """The message whose struct holds these fields."""
        kind, _, serial, *rest = fields
        if cls.TEXT_LIMIT:
            rest[-1] = rest[-1].split(b"\0", 1)[0].decode("utf-8", "replace")
        return cls(kind, serial, *rest)


def cut(text: str, limit: int) -> bytes:
    """As much of `text` as fits into `limit` bytes of UTF-8, up to the first NUL."""
    encoded = text.split("\0", 1)[0].encode("utf-8", "replace")
    return encoded[:limit].decode("utf-8", "ignore").encode() if len(encoded) > limit else encoded


packed_as = functools.cache(packer)
"""The `struct` of a layout, made once."""
