"""Steps of the arbiter as rows of values: short enough for memory, and readable in a file.

A row is the number of a class in a fixed list, then its fields in their order. The lists are those
of this version, so rows are only for programs of the same version; a file has the names instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Any, Final, get_args

import msgspec
from msgspec.structs import astuple

from moiety.arbiter import events as ev
from moiety.arbiter import instructions as do
from moiety.arbiter.checkpoint import Checkpoint, portable, with_texts
from moiety.arbiter.recordable import NAMED
from moiety.arbiter.replay import Step

EVENTS: Final[tuple[Any, ...]] = get_args(ev.Event)
INSTRUCTIONS: Final[tuple[Any, ...]] = get_args(do.Instruction)
LENGTH: Final = Struct("<I")
"""The length of a record in bytes, in front of it."""

_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder().decode


_NUMBERS: Final = {
    cls: number for kinds in (EVENTS, INSTRUCTIONS) for number, cls in enumerate(kinds)
}


def pack(now_s: float, event: ev.Event, instructions: Iterable[do.Instruction]) -> bytes:
    """One step as bytes; raises TypeError or ValueError for what no record can hold."""
    rows = _row(event), [_row(each) for each in instructions]
    try:
        return _encode((now_s, *rows))
    except (OverflowError, UnicodeEncodeError):  # a lie of more than 64 bits; a name of any bytes
        return _encode(_narrow(msgspec.to_builtins((now_s, *rows), builtin_types=(int,))))


def unpack(record: bytes) -> Step:
    """The step in these bytes; raises msgspec.MsgspecError, IndexError or ValueError."""
    now_s, event, instructions = _decode(record)
    return Step(now_s, _of(EVENTS, event), tuple(_of(INSTRUCTIONS, each) for each in instructions))


def pack_checkpoint(checkpoint: Checkpoint) -> bytes:
    """A checkpoint as bytes; raises ValueError for what no record can hold."""
    try:
        return _encode((checkpoint.classes, checkpoint.tree))
    except (OverflowError, UnicodeEncodeError):
        return _encode((checkpoint.classes, with_texts(portable(checkpoint.tree), _likeness)))


def unpack_checkpoint(record: bytes) -> Checkpoint:
    """The checkpoint in these bytes; raises msgspec.MsgspecError."""
    classes, tree = _decode(record)
    return Checkpoint([(path, fields) for path, fields in classes], tree)


def framed(data: bytes | bytearray) -> Iterator[bytes]:
    """The records in these bytes; a last one that was cut off is left out."""
    at = 0
    while at + LENGTH.size <= len(data):
        end = at + LENGTH.size + LENGTH.unpack_from(data, at)[0]
        if end > len(data):
            return
        yield bytes(data[at + LENGTH.size : end])
        at = end


def as_document(each: Any) -> dict[str, Any]:
    """An event or an instruction for a file: its class and the fields that are not the default."""
    plain: dict[str, Any] = _narrow(msgspec.to_builtins(each, str_keys=True, builtin_types=(int,)))
    return plain


def from_document(found: dict[str, Any]) -> Any:
    """The event or instruction of a document; raises msgspec.ValidationError."""
    return msgspec.convert(found, ev.Event | do.Instruction, strict=False, str_keys=True)


def _row(each: Any) -> tuple[Any, ...]:
    return (_NUMBERS[type(each)], *astuple(each))


def _of(kinds: tuple[Any, ...], row: list[Any]) -> Any:
    cls = kinds[row[0]]
    fields = dict(zip(cls.__struct_fields__, row[1:], strict=True))
    return msgspec.convert({NAMED: cls.__name__, **fields}, cls, strict=False)


def _narrow(value: Any) -> Any:
    """The same value; integers of more than 64 bits become texts, and texts become encodable."""
    if isinstance(value, dict):
        return {key: _narrow(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_narrow(each) for each in value]
    if type(value) is int and not -(1 << 63) <= value < 1 << 63:
        return str(value)
    return _likeness(value) if isinstance(value, str) else value


def _likeness(text: str) -> str:
    """The same text, or one that can be encoded: a program's name may be any bytes."""
    return text.encode("utf-8", "replace").decode()
