"""Memory that the driver pages: there with the lease, gone with it, and moved by nobody."""

from __future__ import annotations

from moiety.arbiter import events as ev
from moiety.arbiter import instructions as do
from moiety.arbiter.machine import Arbiter
from moiety.arbiter.settings import GpuSpec, Settings
from tests.support.simulated_node import handle

MIB = 1 << 20
NEED = 60 * MIB


def arbiter_with_two() -> tuple[Arbiter, list[do.Instruction]]:
    """Two processes in managed mode on a GPU for one of them; the second one waits."""
    settings = Settings(arena_bytes=1 << 30, link_bytes_per_s=100.0 * MIB)
    arbiter = Arbiter([GpuSpec(0, 100 * MIB, 100 * MIB)], settings)
    told: list[do.Instruction] = []
    for number in (1, 2):
        told += handle(arbiter, 0.0, ev.Hello(number))
        told += handle(arbiter, 0.0, ev.Attach(number, 0, 1, 0, 100 * MIB))
        told += handle(arbiter, 0.0, ev.AllocRequest(number, 0, 2, NEED, managed=True))
    return arbiter, told


def hand_over(arbiter: Arbiter, now_s: float, holder: int, waiting: int) -> list[do.Instruction]:
    """The holder has drained, and what it had is gone; the other says at once that it is there."""
    told = handle(arbiter, now_s, ev.Resident(holder, 0, 0))
    epoch = next(t.turns for t in arbiter.tenants() if t.tenant == holder)
    told += handle(arbiter, now_s, ev.Drained(holder, epoch))
    return told + handle(arbiter, now_s + 0.001, ev.Restored(waiting))


def resident(arbiter: Arbiter) -> dict[int, int]:
    return {view.tenant: view.gpus[0].resident_bytes for view in arbiter.tenants()}


def test_it_counts_with_the_lease_and_nobody_is_told_to_move_it() -> None:
    arbiter, told = arbiter_with_two()
    assert do.Admitted(1, 0, 2) in told
    assert do.Admitted(2, 0, 2) not in told
    assert resident(arbiter) == {1: NEED, 2: 0}
    told = handle(arbiter, 1.0, ev.Tick())
    assert do.Revoke(1, 1) in told
    told = hand_over(arbiter, 1.0, 1, 2)
    assert do.Admitted(2, 0, 2) in told
    assert not any(isinstance(each, do.Evict) for each in told)
    assert resident(arbiter) == {1: 0, 2: NEED}
    told = handle(arbiter, 2.0, ev.LeaseRequest(1))
    told += hand_over(arbiter, 2.0, 2, 1)
    assert sum(each.bytes for each in told if isinstance(each, do.RestoreBudget)) == NEED
    assert not any(isinstance(each, do.Evict) for each in told)
    assert resident(arbiter) == {1: NEED, 2: 0}


def test_a_turn_pays_for_the_pages_that_come_in_it() -> None:
    arbiter, _ = arbiter_with_two()
    handle(arbiter, 1.0, ev.Tick())
    hand_over(arbiter, 1.0, 1, 2)
    handle(arbiter, 2.0, ev.LeaseRequest(1))
    hand_over(arbiter, 2.0, 2, 1)
    handle(arbiter, 2.1, ev.LeaseRequest(2))
    # out and in take 1.2 s: three times that at least
    told = handle(arbiter, 5.0, ev.Tick())
    assert not any(isinstance(each, do.Revoke) for each in told)
    told = handle(arbiter, 30.0, ev.Tick())
    assert any(isinstance(each, do.Revoke) for each in told)


def test_what_is_freed_is_not_counted_any_more() -> None:
    arbiter, _ = arbiter_with_two()
    assert arbiter.managed_bytes(1, 0) == NEED
    handle(arbiter, 0.1, ev.Free(1, 0, NEED, 0, managed=True))
    assert arbiter.managed_bytes(1, 0) == 0
    assert resident(arbiter)[1] == 0
