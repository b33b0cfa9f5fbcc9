"""The codec under fire: any bytes are a message or a ProtocolError, and nothing else."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from moiety.model.errors import ProtocolError
from moiety.wire.codec import PACKERS, decode, decode_counters, decode_work
from moiety.wire.layout import Type
from moiety.wire.messages import MESSAGES
from tests.support.chaos import lie

UUIDS = [bytes(16)]


def decoded(packet: bytes) -> bool:
    try:
        message = decode(packet)
    except ProtocolError:
        return False
    assert len(message.encode()) == len(packet)
    return True


@settings(max_examples=2000, deadline=None)
@given(st.binary(max_size=600))
def test_any_bytes(packet: bytes) -> None:
    decoded(packet)


@settings(max_examples=2000, deadline=None)
@given(st.sampled_from(sorted(Type)), st.data())
def test_any_bytes_behind_a_true_header(kind: Type, data: st.DataObject) -> None:
    cls = next(cls for cls in MESSAGES if kind in cls.TYPES)
    size = PACKERS[cls.LAYOUT].size
    body = data.draw(st.binary(min_size=size - 8, max_size=size - 8))
    header = int(kind).to_bytes(2, "little") + size.to_bytes(2, "little") + bytes(4)
    assert decoded(header + body) or kind is Type.HELLO


@settings(max_examples=500, deadline=None)
@given(st.integers(0, 1 << 32))
def test_lies_are_well_formed_most_of_the_time(seed: int) -> None:
    dice = Random(seed)
    assert sum(decoded(lie(dice, UUIDS)) for _ in range(40)) >= 20


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
def test_any_counters(page: bytes) -> None:
    assert all(value >= 0 for value in decode_work(page))
    try:
        decode_counters(page)
    except ProtocolError:
        assert len(page) < 128
