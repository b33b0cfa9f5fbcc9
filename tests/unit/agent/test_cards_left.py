"""The GPUs on which the limits of a user leave room."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from moiety.agent.control.card_loads import CardLoad
from moiety.agent.control.cards_left import cards_left
from moiety.model.cards import CardRequest
from moiety.model.errors import UserLimit
from moiety.model.share import Share

FULL, EMPTY = CardLoad(new=1), CardLoad()


class Limits:
    """A user who may have nothing on a GPU that is full."""

    def check(self, *_: object, on: Collection[CardLoad], **__: object) -> None:
        if any(load.new for load in on):
            raise UserLimit("it may have no more", "config.toml:1")


def left(loads: Sequence[CardLoad], number: int = 1, *, limited: bool = True) -> Any:
    cards: Any = SimpleNamespace(
        possible=lambda request, _: (range(len(loads)), request.number),
        capacity_bytes=lambda _: 1 << 30,
        share_on=lambda _, __, share: share,
    )
    limits: Any = Limits() if limited else None
    load: Any = SimpleNamespace(of=dict(enumerate(loads)))
    request = CardRequest(number)
    return cards_left(limits, cards, request, Share(gpu=0.5), 7, None, load)


def test_gpus_without_room_for_its_user_are_left_out() -> None:
    assert left([FULL, EMPTY, EMPTY], 2) == [1, 2]
    assert left([EMPTY, EMPTY]) is None, "all of them"
    assert left([FULL], limited=False) is None


def test_too_few_are_refused_with_the_rule() -> None:
    with pytest.raises(UserLimit, match="it may have no more"):
        left([FULL, EMPTY], 2)
