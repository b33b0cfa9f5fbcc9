"""What of each GPU others have, as the agent tells it."""

from __future__ import annotations

import os

from moiety.agent.control.rows import GpuUse, GpuUser, StrangerRow
from moiety.model.share import Share
from moiety.pool.control.machine import cards_of, is_below


def gpu(index: int, *users: GpuUser, drained: bool = False, lost: str = "") -> GpuUse:
    return GpuUse(
        index, f"GPU-{index}", "A100", drained, lost, 1000 << 20,
        sum(user.share.gpu or 0.0 for user in users),
        sum(user.share.memory_bytes for user in users), list(users),
    )  # fmt: skip


def user(workload: str, part: float | None, mib: int = 0) -> GpuUser:
    return GpuUser(workload, "p", "ann", [], Share(part, memory_bytes=mib << 20))


def stranger(index: int, mib: int | None, busy: float | None) -> StrangerRow:
    used = None if mib is None else mib << 20
    return StrangerRow(7, "bob", "p", index, used, busy, 0.0, 0.0)


def test_the_pools_own_shares_are_not_others() -> None:
    cards = cards_of(
        [gpu(0, user("own", 0.5, 100), user("other", 0.3, 50)), gpu(1, user("own2", 1.0))],
        [],
        {"own", "own2"},
    )
    assert [(card.outside_milli, card.outside_mib) for card in cards] == [(300, 50), (0, 0)]
    assert cards[0].memory_mib == 1000


def test_a_share_without_a_guarantee_promises_nothing() -> None:
    (card,) = cards_of([gpu(0, user("other", None))], [], set())
    assert (card.outside_milli, card.outside_mib) == (0, 0)


def test_processes_outside_moiety_have_what_they_use() -> None:
    (card,) = cards_of([gpu(0)], [stranger(0, 300, 0.42), stranger(0, None, None)], set())
    assert (card.outside_milli, card.outside_mib) == (450, 300)
    (card,) = cards_of([gpu(0, user("x", 0.9))], [stranger(0, 0, 0.9)], set())
    assert card.outside_milli == 1000, "there is no more than a GPU"


def test_work_of_the_last_minute_counts_though_nothing_runs_now() -> None:
    row = StrangerRow(7, "bob", "p", 0, 0, 0.0, 12.0, 100.0)
    assert cards_of([gpu(0)], [row], set())[0].outside_milli == 200


def test_drained_and_lost_gpus_get_nothing() -> None:
    cards = cards_of([gpu(0, drained=True), gpu(1, lost="XID 79"), gpu(2)], [], set())
    assert [card.usable for card in cards] == [False, False, True]


def test_what_descends_from_a_supervisor_is_the_pools_own() -> None:
    parent = os.getppid()
    assert is_below(os.getpid(), {parent})
    assert is_below(parent, {parent})
    assert not is_below(os.getpid(), set())
    assert not is_below(parent, {os.getpid()})
    assert not is_below((1 << 22) + 1, {parent}), "there is no such process"
