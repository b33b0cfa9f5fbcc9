from __future__ import annotations

from functools import partial

import pytest

from moiety.model.errors import InternalError
from moiety.sim.clock import Clock


def test_things_happen_in_the_order_of_their_time_rank_and_asking() -> None:
    clock, seen = Clock(), list[str]()

    def note(name: str) -> None:
        seen.append(f"{name}{clock.now_s:g}")

    for when, rank, name in ((2, 0, "d"), (1, 1, "b"), (1, 1, "c"), (1, 0, "a")):
        clock.at(when, partial(note, name), rank)
    clock.run()
    assert seen == ["a1", "b1", "c1", "d2"]


def test_what_happens_can_ask_for_more() -> None:
    clock, seen = Clock(), list[float]()

    def again() -> None:
        seen.append(clock.now_s)
        if len(seen) < 4:
            clock.at(clock.now_s + 10, again)

    clock.at(5, again)
    clock.run(until_s=26)
    assert (seen, clock.now_s, len(clock)) == ([5, 15, 25], 26, 1)
    assert clock.step()
    assert not clock.step()
    assert seen[-1] == 35


def test_nothing_happens_in_the_past() -> None:
    clock = Clock(now_s=10)
    with pytest.raises(InternalError, match="it is 10 s already"):
        clock.at(9, lambda: None)
