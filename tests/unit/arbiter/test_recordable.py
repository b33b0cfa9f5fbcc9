"""Events and instructions are frozen, compare by their fields, and can be kept and read again."""

from __future__ import annotations

import msgspec
import pytest

from moiety.arbiter import events as ev
from moiety.arbiter import instructions as do
from moiety.arbiter.checkpoint import restore, take
from moiety.arbiter.machine import Arbiter
from moiety.arbiter.settings import GpuSpec, Settings
from moiety.model.share import Share

MIB = 1 << 20


def test_they_are_frozen_and_equal_by_class_and_fields() -> None:
    event = ev.Idle(1, epoch=2)
    with pytest.raises(AttributeError):
        event.epoch = 3  # type: ignore[misc]
    assert event == ev.Idle(1, 2)
    other: object = ev.Busy(1, 2)
    assert event != other
    assert hash(event) == hash(ev.Idle(1, 2))


def test_a_document_has_the_class_and_what_is_not_the_default() -> None:
    plain = msgspec.to_builtins(ev.Hello(7, share=Share(gpu=0.5)))
    assert plain["is"] == "Hello"
    assert plain["tenant"] == 7
    assert "holding" not in plain
    assert msgspec.convert(plain, ev.Event) == ev.Hello(7, share=Share(gpu=0.5))


def test_a_request_that_is_held_back_is_in_the_checkpoint() -> None:
    arbiter = Arbiter([GpuSpec(0, 96 * MIB, 88 * MIB)], Settings(1 << 30), settled=False)
    for event in (ev.Hello(1, share=Share(gpu=0.5)), ev.Attach(1, 0, 1, MIB, 88 * MIB)):
        assert not any(isinstance(each, do.Admitted) for each in arbiter.handle(1.0, event))
    again = restore(take(arbiter))
    told = list(arbiter.handle(2.0, ev.Settled()))
    assert do.Admitted(1, 0, 1) in told
    assert list(again.handle(2.0, ev.Settled())) == told
