"""Messages survive the wire, and nothing but messages gets through."""

from __future__ import annotations

import contextlib
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moiety.model.errors import ProtocolError
from moiety.wire.codec import Counters, OtherVersion, decode, decode_counters
from moiety.wire.layout import LAYOUTS, VERSION, VERSION_LEAST, Type
from moiety.wire.message import Message
from moiety.wire.messages import MESSAGES, AmountMessage, HelloMessage, RefusedMessage
from moiety.wire.structs import packer

LIMITS = {"H": 2**16 - 1, "I": 2**32 - 1, "Q": 2**64 - 1}


@st.composite
def messages(draw: st.DrawFn) -> Message:
    cls = draw(st.sampled_from(MESSAGES))
    fields: dict[str, Any] = {"type": int(draw(st.sampled_from(cls.TYPES)))}
    for name, code in [("serial", "I"), *LAYOUTS[cls.LAYOUT][1:]]:
        if code in LIMITS:
            fields[name] = draw(st.integers(0, LIMITS[code]))
        elif code in ("16s", "32s", "512s"):
            size = int(code[:-1])
            fields[name] = draw(st.binary(min_size=size, max_size=size))
        elif code.endswith("s"):
            fields[name] = draw(
                st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=15)
            )
    if cls is HelloMessage:
        fields |= {"magic": HelloMessage().magic, "version": VERSION}
    return cls(**fields)


@given(messages())
def test_a_message_survives_the_wire(message: Message) -> None:
    assert decode(message.encode()) == message


@given(st.binary(max_size=300))
def test_random_bytes_are_refused_in_words(packet: bytes) -> None:
    with contextlib.suppress(ProtocolError):
        assert decode(packet).encode()


@given(messages(), st.data())
def test_a_damaged_message_is_a_message_or_refused(message: Message, data: st.DataObject) -> None:
    packet = bytearray(message.encode())
    packet[data.draw(st.integers(0, len(packet) - 1))] ^= data.draw(st.integers(1, 255))
    with contextlib.suppress(ProtocolError):
        assert decode(bytes(packet)).encode()


@given(messages(), st.integers(-8, 8).filter(bool))
def test_a_packet_of_the_wrong_length_is_refused(message: Message, more: int) -> None:
    packet = message.encode()
    changed = packet + bytes(more) if more > 0 else packet[:more]
    with pytest.raises(ProtocolError):
        decode(changed)


def test_an_unknown_type_is_named() -> None:
    with pytest.raises(ProtocolError, match="type 77"):
        decode(struct.pack("<HHI", 77, 8, 0))


def test_a_header_that_lies_about_the_length_is_refused() -> None:
    packet = bytearray(AmountMessage(Type.RESTORE_BUDGET).encode())
    packet[2:4] = struct.pack("<H", 8)
    with pytest.raises(ProtocolError, match="RESTORE_BUDGET takes 24 bytes"):
        decode(bytes(packet))


def test_the_version_before_is_served_too() -> None:
    assert max(1, VERSION - 1) == VERSION_LEAST
    for version in range(VERSION_LEAST, VERSION + 1):
        assert decode(HelloMessage(version=version).encode()) == HelloMessage(version=version)
    for version in (VERSION_LEAST - 1, VERSION + 1):
        with pytest.raises(OtherVersion):
            decode(HelloMessage(version=version).encode())


def test_a_greeting_of_another_version_says_which_even_if_it_is_longer() -> None:
    packet = HelloMessage(version=VERSION + 6).encode() + bytes(32)
    with pytest.raises(OtherVersion, match="version 7") as caught:
        decode(packet)
    assert caught.value.version == VERSION + 6


def test_a_greeting_without_the_magic_is_no_greeting() -> None:
    with pytest.raises(ProtocolError, match="no shim"):
        decode(HelloMessage(magic=1).encode())


def test_long_text_is_cut_between_characters() -> None:
    message = decode(RefusedMessage(text="ü" * 200).encode())
    assert isinstance(message, RefusedMessage)
    assert message.text == "ü" * 120


def test_text_ends_at_a_nul() -> None:
    message = decode(RefusedMessage(text="short\0tail").encode())
    assert isinstance(message, RefusedMessage)
    assert message.text == "short"


def test_a_value_too_large_for_its_field_is_refused_when_sent() -> None:
    with pytest.raises(ProtocolError, match="does not fit"):
        AmountMessage(Type.RESTORE_BUDGET, bytes=2**64).encode()


def test_counters_are_read_from_the_start_of_the_page() -> None:
    page = struct.pack("<9Q", *range(1, 10)) + bytes(packer("mw_counters").size - 72)
    assert decode_counters(page) == Counters(1, 2, 3, 4, 5, 6, 7, 8, 9)
    with pytest.raises(ProtocolError, match="cut short"):
        decode_counters(page[:71])
