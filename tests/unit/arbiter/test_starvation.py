"""Who asks for nothing beside those to whom all was promised waits a round, and takes no more."""

from __future__ import annotations

import pytest

from moiety.arbiter import events as ev
from moiety.arbiter.schedule.parts import LEFT_OVER
from moiety.model.share import Share
from tests.support.backlog import Backlog

LINK_BYTES_PER_S = 100e9
SIZE = 60 << 30
HANDOFF_S = 2 * SIZE / LINK_BYTES_PER_S
ROUND_S = 10 * 3 * HANDOFF_S
"""of three, with the default turn factor"""
POINTS = 0.02


def promised(*parts: float) -> Backlog:
    """A GPU all of which is promised, to programs that have taken turns for a while."""
    backlog = Backlog([Share(gpu=part) for part in parts], bytes_each=SIZE,
                      link_bytes_per_s=LINK_BYTES_PER_S)  # fmt: skip
    backlog.run(4 * ROUND_S)
    return backlog


def first_turn_s(backlog: Backlog, number: int, within_s: float) -> float | None:
    """How long the newcomer waits until it receives something; None: longer."""
    began_s = backlog.now_s
    while backlog.now_s < began_s + within_s:
        backlog.run(HANDOFF_S)
        if backlog.received_s()[number - 1] > 0:
            return backlog.now_s - began_s
    return None


@pytest.mark.parametrize("handoffs", [0, 8, 12, 36])
@pytest.mark.parametrize("parts", [(0.5, 0.5), (1.0,), (0.3, 0.3, 0.4)])
def test_a_newcomer_without_a_promise_waits_for_a_round_and_a_turn(
    parts: tuple[float, ...], handoffs: int
) -> None:
    backlog = promised(*parts)
    backlog.run(handoffs * HANDOFF_S)  # whoever holds then, and however long already
    number = len(parts) + 1
    backlog.add(number, Share())
    waited_s = first_turn_s(backlog, number, 10 * ROUND_S)
    assert waited_s is not None
    longest_turn_s = max(parts) * 10 * number * HANDOFF_S
    assert waited_s <= 10 * number * HANDOFF_S + longest_turn_s + 2 * HANDOFF_S


def test_a_small_promise_waits_no_longer_than_none() -> None:
    backlog = promised(0.5, 0.49)
    backlog.run(8 * HANDOFF_S)
    backlog.add(3, Share(gpu=0.01))
    waited_s = first_turn_s(backlog, 3, 10 * ROUND_S)
    assert waited_s is not None
    assert waited_s <= 1.5 * ROUND_S + 2 * HANDOFF_S


@pytest.mark.parametrize("newcomers", [1, 3])
def test_promises_lose_no_more_than_before(newcomers: int) -> None:
    backlog = promised(0.5, 0.5)
    for number in range(3, 3 + newcomers):
        backlog.add(number, Share())
    received = backlog.over(60 * ROUND_S)
    assert received[:2] == pytest.approx([0.5, 0.5], abs=POINTS)
    assert sum(received[2:]) <= LEFT_OVER + 0.01
    assert all(part > 0 for part in received[2:])


def test_programs_that_start_again_and_again_take_little_more() -> None:
    backlog = promised(0.5, 0.5)
    before, began_s = backlog.received_s()[:2], backlog.now_s
    number = 3
    backlog.add(number, Share())
    while backlog.now_s < began_s + 60 * ROUND_S:
        backlog.run(HANDOFF_S)
        views = {view.tenant: view for view in backlog.arbiter.tenants()}
        if views[number].turns and views[number].state == "queued":  # it had its turn
            backlog.tell(ev.Left(number))
            number += 1
            backlog.add(number, Share())
    lasted_s = backlog.now_s - began_s
    received = [(b - a) / lasted_s for a, b in zip(before, backlog.received_s(), strict=False)]
    assert received == pytest.approx([0.5, 0.5], abs=POINTS)
    assert number > 4
